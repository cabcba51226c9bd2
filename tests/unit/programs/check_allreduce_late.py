#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An all-reduce that times out after it has begun: its data are the caller's from then on.

usage: check_allreduce_late.py HEDDLE_CONTROLLER HEDDLE_AGGREGATOR HEDDLECTL REDUCE_LATE"""
import os
import sys
import tempfile

from processes import Program, Shell, check, run, until, write_keys

CONTROLLER, AGGREGATOR, HEDDLECTL, WORKERS = sys.argv[1:5]


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        shell = Shell(HEDDLECTL, controller.address, keys)
        aggregator = Program(AGGREGATOR, "--listen", "127.0.0.1:0", "--controller", controller.address, "--host", "h1",
                             "--key-file", keys)
        until(lambda: len(shell.rows("nodes", "role=aggregator")) == 1, "the aggregator registers")
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
               "HEDDLE_CONTROLLER": controller.address, "HEDDLE_KEY_FILE": keys, "HEDDLE_WORLD_SIZE": "2",
               "HEDDLE_HOST": "h1", "HEDDLE_BIND": "127.0.0.1", "HEDDLE_SHARED_MEMORY": "0"}
        done = run(WORKERS, aggregator.process.pid, env=env, timeout=40)
        aggregator.process.kill()
        controller.stop()
        if done.returncode == 77:
            print("no all-reduce had begun when its call timed out: the machine is too busy")
            sys.exit(77)
        check(done.returncode == 0, f"{done.returncode} {done.stderr}")


main()
