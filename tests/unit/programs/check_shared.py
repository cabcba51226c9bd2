#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of real processes on one host: through shared memory, with a controller and nothing else.

usage: check_shared.py HEDDLE_CONTROLLER HEDDLECTL COLLECTIVE_WORKER"""
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

from collective_job import Job, is_good
from processes import Program, Shell, check, until, write_keys

CONTROLLER, SHELL, WORKER = sys.argv[1:4]
WORKERS = 4
MEMORY = pathlib.Path("/dev/shm")
SWEPT_AFTER_S = 11


class Rounds:
    """How many rounds there were meanwhile, and how many of them in shared memory."""

    def __init__(self, shell):
        self.shell = shell
        self.before = self.read()

    def read(self):
        counters = {row["counter"]: row["value"] for row in self.shell.rows("counters")}
        return counters["reduces"], counters["reduces_shared"]

    def since(self):
        return tuple(now - then for now, then in zip(self.read(), self.before))


def segments():
    return {path for path in MEMORY.iterdir() if re.fullmatch("heddle-[0-9a-f]{16}", path.name)}


def whole(address, keys, shell):
    """Each collective, of sizes from one value to many pieces, with each root; all values are checked."""
    calls = []
    for count in (1, 7, 3000, 400003):
        for name in ("allreduce", "allgather", "reduce_scatter", "alltoall", "allreduce_list"):
            calls.append(f"{name},count={count},exact=4")
        for name in ("broadcast", "reduce", "gather", "scatter", "broadcast_list", "reduce_list"):
            calls += [f"{name},count={count},root={root},exact=4" for root in (0, 3)]
        calls.append("barrier")
    rounds = Rounds(shell)
    with Job(WORKER, address, keys, "whole", [calls] * WORKERS) as job:
        for call in calls:
            results = [job.line(rank) for rank in range(WORKERS)]
            check(is_good(results, WORKERS), f"{call}: {results}")
            check(all(one["ranks"] == [0, 1, 2, 3] for one in results), f"{call}: its members: {results}")
        job.end(range(WORKERS))
    every, shared = rounds.since()
    check(every == len(calls) and shared == every - calls.count("barrier"), f"{every} rounds, {shared} in memory")
    print(f"whole: {every} rounds, {shared} of them in memory")


def killed(address, keys, shell):
    """One is killed in the middle: the others make the same without it, in memory again."""
    calls = ["allreduce,count=2000000,patient=1"] * 60  # else one that is late on a busy machine is left out
    rounds = Rounds(shell)
    with Job(WORKER, address, keys, "killed", [calls] * WORKERS) as job:
        for _ in range(5):
            check(is_good([job.line(rank) for rank in range(WORKERS)], WORKERS), "all are there")
        job.running[2].send_signal(signal.SIGKILL)
        sizes = []
        for k in range(5, len(calls)):
            results = [job.line(rank) for rank in (0, 1, 3)]
            check(len({one["workers"] for one in results}) == 1 and is_good(results, results[0]["workers"]),
                  f"call {k}: {results}")
            sizes.append(results[0]["workers"])
        check(sizes == sorted(sizes, reverse=True) and sizes[-1] == 3, f"once without it: {sizes}")
        job.end((0, 1, 3))
    every, shared = rounds.since()
    check(every == shared, f"{every} rounds, {shared} in memory")
    print(f"killed: {sizes.count(4) + 5} with it, {sizes.count(3)} without it")


def all_killed(address, keys):
    """Nothing is left in /dev/shm."""
    for wait_s in (0, 0.02, 0.1, 0.3):
        before = segments()
        with Job(WORKER, address, keys, f"all-killed-{wait_s}", [["allreduce,count=3000000"] * 1000] * WORKERS) as job:
            if wait_s:
                job.line(0)
            time.sleep(wait_s)
            for worker in job.running:
                worker.send_signal(signal.SIGKILL)
        left = segments() - before
        until(lambda left=left: not any(path.exists() for path in left), f"left behind: {left}")
    print("all killed: nothing is left")


def by_network(address, keys, shell):
    """One that does not share memory, and one of another host: by the network, with the same results."""
    for name, more in (("off", {"HEDDLE_SHARED_MEMORY": "0"}), ("elsewhere", {"HEDDLE_HOST": "another"})):
        calls = ["allreduce,count=20000,exact=4", "alltoall,count=20000,exact=4"]
        rounds = Rounds(shell)
        with Job(WORKER, address, keys, name, [calls] * WORKERS,
                 lambda rank, more=more: more if rank == 1 else {}) as job:
            for call in calls:
                results = [job.line(rank) for rank in range(WORKERS)]
                check(is_good(results, WORKERS), f"{name}: {call}: {results}")
            job.end(range(WORKERS))
        check(rounds.since() == (len(calls), 0), f"{name}: rounds: {rounds.since()}")
    print("by the network: one that shares nothing, one elsewhere")


def swept(address, keys, stale, others, began):
    """A file that a killed process has left is removed by the next process, and nothing else."""
    time.sleep(max(0, began + SWEPT_AFTER_S - time.monotonic()))
    with Job(WORKER, address, keys, "swept", [["allreduce,count=10,exact=2"]] * 2) as job:
        check(is_good([job.line(rank) for rank in (0, 1)], 2), "a round")
        job.end((0, 1))
    check(not stale.exists(), f"{stale} is still there")
    check(all(other.exists() for other in others), f"{others} are still there")
    print("swept: a segment that no process had mapped")


def main():
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        print("no /dev/shm that can be written")
        sys.exit(77)
    stale, began = MEMORY / f"heddle-{os.urandom(8).hex()}", time.monotonic()
    others = [MEMORY / f"heddle-notes-{os.getpid()}", MEMORY / f"heddle-{os.urandom(8).hex()}"]
    os.mkfifo(others[1])  # opening it does not wait for a writer
    for path in (stale, others[0]):
        path.write_bytes(bytes(4096))
    try:
        with tempfile.TemporaryDirectory() as where:
            keys = write_keys(where)
            controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
            shell = Shell(SHELL, controller.address, keys)
            shell.does("set", "inline-bytes", "off")  # short ones would go with their requests
            whole(controller.address, keys, shell)
            killed(controller.address, keys, shell)
            all_killed(controller.address, keys)
            by_network(controller.address, keys, shell)
            swept(controller.address, keys, stale, others, began)
            controller.stop()
    finally:
        for path in (stale, *others):
            path.unlink(missing_ok=True)


main()
