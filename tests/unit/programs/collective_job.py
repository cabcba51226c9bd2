# SPDX-License-Identifier: BSD-3-Clause
"""Shared by check_collectives.py and check_shared.py: the workers of a job, each a process of collective_worker.c."""
import json
import os
import subprocess

from processes import check

PATIENCE_S = 60


class Job:
    """calls: of each rank; more: further variables of a rank's environment."""

    def __init__(self, program, address, keys, name, calls, more=lambda rank: {}):
        self.running = []
        for rank, mine in enumerate(calls):
            env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
                   "HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HEDDLE_JOB": name, "HEDDLE_RANK": str(rank),
                   "HEDDLE_WORLD_SIZE": str(len(calls)), "HEDDLE_BIND": "127.0.0.1", **more(rank)}
            self.running.append(subprocess.Popen([program, *mine], env=env, text=True, stdin=subprocess.PIPE,
                                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.running:
            worker.kill()
            worker.communicate()

    def line(self, rank):
        """The result of the next call of a rank."""
        worker = self.running[rank]
        line = worker.stdout.readline()
        while line == "joined\n":
            line = worker.stdout.readline()
        check(line, f"rank {rank} goes on: {worker.stderr.read() if not line else ''}")
        return json.loads(line)

    def go(self, rank):
        """Ends a `wait` of the rank."""
        self.running[rank].stdin.write("\n")
        self.running[rank].stdin.flush()

    def end(self, ranks):
        for rank in ranks:
            _, errors = self.running[rank].communicate(timeout=PATIENCE_S)
            check(self.running[rank].returncode == 0, f"rank {rank} ends well: {errors}")


def is_good(results, workers):
    return all(one["rc"] == 0 and one["workers"] == workers for one in results)
