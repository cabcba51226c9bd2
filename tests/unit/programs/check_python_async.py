#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle.torch.AsyncSGD in real processes on the loopback interface: one worker beside torch.optim.SGD, three workers,
one that is too late, and one that does not fit.

usage: check_python_async.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE HEDDLE_SERVER HEDDLE_RUN"""
import importlib.util
import os
import pathlib
import sys
import tempfile

from processes import Program, check, run, write_keys

CONTROLLER, LIBRARY, PACKAGE, SERVER, RUN = sys.argv[1:6]
SCRIPT = pathlib.Path(__file__).parent / "python_async.py"
PATIENCE_S = 120
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "HEDDLE_LIBRARY": LIBRARY,
       "PYTHONPATH": PACKAGE}


def play(address, keys, test, workers):
    done = run(RUN, "-n", workers, "--controller", address, "--key-file", keys, "--job", test, "--bind", "127.0.0.1",
               "--host-prefix", "h", "--no-prefix", "--", sys.executable, SCRIPT, test, env=ENV, timeout=PATIENCE_S)
    check(done.returncode == 0 and done.stdout.count("rank ") == workers,
          f"{test}: {done.returncode}\n{done.stdout}{done.stderr}")
    print(done.stdout, end="")


def main():
    if importlib.util.find_spec("torch") is None:
        print("skip: PyTorch is not installed (python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        server = Program(SERVER, "--listen", "127.0.0.1:0", "--controller", controller.address, "--key-file", keys,
                         "--host", "ps")
        for test, workers in (("alone", 1), ("together", 3), ("stale", 1), ("other", 1)):
            play(controller.address, keys, test, workers)
        server.stop()
        controller.stop()


main()
