#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The example with model and gradient in GPU memory, beside a server. Exit 77 (skipped) without a GPU.

usage: check_example.py UNIT_PROGRAMS SERVER RUN EXAMPLE"""
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
from processes import Program, check, run, write_keys  # noqa: E402

SERVER, RUN, EXAMPLE = sys.argv[2:]
NO_GPU = ("no CUDA-capable device", "driver version is insufficient", "driver shared library")


def main():
    alone = run(EXAMPLE)
    if any(words in alone.stderr for words in NO_GPU):
        print("SKIP:", alone.stderr.strip())
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="heddle-example-") as folder:
        key = write_keys(folder)
        server = Program(SERVER, "--listen", "127.0.0.1:0", "--key-file", key)
        done = run(RUN, "-n", "2", "--server", server.address, "--key-file", key, "--job", "example", EXAMPLE,
                   timeout=60)
        check(done.returncode == 0 and done.stdout.count("w[9] = 9.000") == 2, (done.stdout, done.stderr))
        server.stop()


if __name__ == "__main__":
    main()
