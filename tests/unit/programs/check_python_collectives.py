#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of PyTorch's process group "heddle", in real processes on the loopback interface: there are only a
controller and the workers.

usage: check_python_collectives.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE"""
import importlib.util
import pathlib
import sys
import tempfile

import torch_ranks
from processes import Program, check, write_keys

CONTROLLER, LIBRARY, PACKAGE = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
SCRIPT, PARTS = HERE / "python_collectives.py", HERE / "python_parts.py"
DIES, PATIENCE_S = 1, 240


def play(script, test, said, address, keys, dies=None):
    """All say the same and end well; dies: the rank that is killed."""
    ends = torch_ranks.play((script, test), PATIENCE_S, HEDDLE_LIBRARY=LIBRARY, PYTHONPATH=PACKAGE,
                            HEDDLE_CONTROLLER=address, HEDDLE_KEY_FILE=keys, HEDDLE_JOB=test)
    for rank, (code, output) in enumerate(ends):
        if rank == dies:
            check(code == -9, f"{test}: rank {rank} was killed: {code}\n{output}")
        else:
            check(code == 0 and output.splitlines()[-1:] == [said],
                  f"{test}: rank {rank}: {code}\n{output}\nall ranks: {ends}")
    print(f"{script.stem} {test}: {said}")


def main():
    if importlib.util.find_spec("torch") is None:
        print("skip: PyTorch is not installed (python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        for test in ("whole", "objects", "works", "mismatch"):
            play(SCRIPT, test, "all as it must be", controller.address, keys)
        for test in ("whole", "order", "mismatch"):
            play(PARTS, test, "all as it must be", controller.address, keys)
        for script in (SCRIPT, PARTS):
            play(script, "death", "an error each", controller.address, keys, DIES)
        controller.stop()


main()
