#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's DistributedDataParallel with Heddle's hook, in real processes on the loopback interface, beside DDP on
Gloo in the same processes: the same models to rounding; a worker that is killed; what is refused, and what overflows;
the process group.
There are only a controller and the workers, which add the sums.

usage: check_python_torch.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE"""
import importlib.util
import pathlib
import sys
import tempfile

import torch_ranks
from processes import Program, check, write_keys

CONTROLLER, LIBRARY, PACKAGE = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
SCRIPT, GROUP, MISTAKES = HERE / "python_ddp.py", HERE / "python_group.py", HERE / "python_mistakes.py"
EXAMPLE = HERE.parents[2] / "worker-lib/examples/ddp.py"
DIES, PATIENCE_S = 1, 240


def play(test, address, keys, command=(SCRIPT,)):
    """Returns [(exit status, output)] by rank."""
    return torch_ranks.play((*command, test), PATIENCE_S, HEDDLE_LIBRARY=LIBRARY, PYTHONPATH=PACKAGE,
                            HEDDLE_CONTROLLER=address, HEDDLE_KEY_FILE=keys, HEDDLE_JOB=test)


def check_all(test, said, address, keys, command=(SCRIPT,)):
    ends = play(test, address, keys, command)
    for code, output in ends:
        check(code == 0 and said in output, f"{test}: {code}\n{output}\nall ranks: {ends}")
    print(f"{test}: {output.strip()}")


def check_example(address, keys):
    """The script of docs/pytorch.md: its argument is a number of steps."""
    ends = play("20", address, keys, (EXAMPLE,))
    for rank, (code, output) in enumerate(ends):
        check(code == 0 and f"rank {rank}: loss" in output, f"{code}\n{output}\nall ranks: {ends}")
    page = (HERE.parents[2] / "docs/pytorch.md").read_text(encoding="utf-8")
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        check("# (" not in line or line in page, f"docs/pytorch.md shows: {line}")


def check_deaths(test, said, address, keys):
    """One rank is killed; the others say the same, and end well."""
    ends = play(test, address, keys)
    check(ends[DIES][0] == -9, f"rank {DIES} was killed: {ends[DIES]}")
    left = [end for rank, end in enumerate(ends) if rank != DIES]
    lines = {output.strip().splitlines()[-1] for _, output in left}
    check(all(code == 0 for code, _ in left) and len(lines) == 1, f"{test}: {left}")
    line = lines.pop()
    check(said in line, f"{test}: {line}")
    print(line)


def main():
    if importlib.util.find_spec("torch") is None:
        print("skip: PyTorch is not installed (python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        check_all("same", "unused parameters", controller.address, keys)
        check_all("dtype", "refused", controller.address, keys)
        check_all("mismatch", "an error with the reason", controller.address, keys)
        check_all("overflow", "two steps skipped", controller.address, keys)
        check_all("sampler", "each row once", controller.address, keys)
        check_all("all", "as on Gloo", controller.address, keys, (GROUP,))
        check_all("all", "each has its error", controller.address, keys, (MISTAKES,))
        check_example(controller.address, keys)
        check_deaths("death", "finished with", controller.address, keys)
        check_deaths("group", "then an error", controller.address, keys)
        check_deaths("backward", "an error after few steps", controller.address, keys)
        controller.stop()


main()
