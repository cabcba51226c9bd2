#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A worker joins a running job and receives module and optimizer from another one; then the lowest rank, which has
given them, is killed, and a new process of it joins. After each step all workers have the same bits.

usage: check_python_state.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE"""
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from processes import Program, check, until, write_keys

CONTROLLER, LIBRARY, PACKAGE = sys.argv[1:4]
SCRIPT = pathlib.Path(__file__).parent / "python_state.py"
PATIENCE_S, STEPS = 90, 5


class Worker:
    def __init__(self, where, rank, env):
        self.rank, self.path = rank, pathlib.Path(tempfile.mkstemp(dir=where, prefix=f"rank{rank}-")[1])
        with self.path.open("w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, f"{where}/end"], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**env, "HEDDLE_RANK": str(rank), "HEDDLE_HOST": f"h{rank + 1}"})

    def text(self):
        return self.path.read_text(encoding="utf-8")

    def lines(self, what):
        """Whole ones."""
        found = self.text()
        return [line.split()[1:] for line in found[:found.rfind("\n") + 1].splitlines() if line.split()[0] == what]

    def wait(self, what, is_true):
        def ask():
            check(self.process.poll() is None, f"rank {self.rank} has ended\n{self.text()}")
            return is_true()

        until(ask, f"rank {self.rank} {what}", PATIENCE_S)

    def wait_steps(self, workers):
        """Of this many workers."""
        self.wait(f"makes steps of {workers}",
                  lambda: sum(line[2] == str(workers) for line in self.lines("step")) >= STEPS)


def check_joined(worker):
    """It began with what others had then."""
    step, digest = worker.lines("has")[0]
    check(int(step) > 0, f"rank {worker.rank} begins with step {step}")
    return step, digest


def tell(where, env):
    workers = [Worker(where, rank, env) for rank in range(2)]
    workers[0].wait_steps(2)
    workers.append(Worker(where, 2, env))
    workers[2].wait_steps(3)
    workers[0].process.send_signal(signal.SIGKILL)
    workers[0].process.wait(PATIENCE_S)
    workers[1].wait_steps(2)
    workers.append(Worker(where, 0, env))
    workers[3].wait_steps(3)
    pathlib.Path(where, "end").touch()
    for worker in workers[1:]:
        code = worker.process.wait(PATIENCE_S)
        check(code == 0 and "done" in worker.text(), f"rank {worker.rank}: {code}\n{worker.text()}")
    had = {}
    for worker in workers:
        for step, digest, _ in worker.lines("step"):
            check(had.setdefault(step, digest) == digest, f"step {step}: rank {worker.rank} has other bits")
    for worker in workers[2:]:
        step, digest = check_joined(worker)
        check(had.get(step) == digest, f"rank {worker.rank}: step {step} is not what the others had")
        check("late" not in worker.text(), f"rank {worker.rank}: late\n{worker.text()}")
    print(f"{len(had)} steps; joined at {[check_joined(worker)[0] for worker in workers[2:]]}")


def main():
    if importlib.util.find_spec("torch") is None:
        print("SKIP: no PyTorch (python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "HEDDLE_LIBRARY": LIBRARY,
               "PYTHONPATH": PACKAGE, "HEDDLE_CONTROLLER": controller.address, "HEDDLE_KEY_FILE": keys,
               "HEDDLE_BIND": "127.0.0.1", "HEDDLE_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        tell(where, env)
        controller.stop()


main()
