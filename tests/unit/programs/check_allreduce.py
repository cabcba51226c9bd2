#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduces of real processes on the loopback interface: a controller, three aggregators, four workers; an
aggregator that has a shard is killed in the middle, and training goes on.

usage: check_allreduce.py HEDDLE_CONTROLLER HEDDLE_AGGREGATOR HEDDLECTL REDUCE_WORKER"""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

from processes import Program, Shell, check, until, write_keys

CONTROLLER, AGGREGATOR, HEDDLECTL, WORKER = sys.argv[1:5]
WORKERS, AGGREGATORS, VALUES = 4, 3, 40000
BEFORE, AFTER = 20, 60  # rounds before and after the kill
PATIENCE_S = 20
STALLED_S = 0.4  # many times a round, and below the lease: a node is lost when it is silent for 1 s
UNNEEDED = 5  # rounds, of which the first may have begun before


def start_workers(address, keys):
    running = []
    for rank in range(WORKERS):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
               "HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HEDDLE_JOB": "sums", "HEDDLE_RANK": str(rank),
               "HEDDLE_WORLD_SIZE": str(WORKERS), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1"}
        running.append(subprocess.Popen([WORKER, str(VALUES), "0"], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return running


def await_round(worker, number):
    while f"round {number}\n" != (line := worker.stdout.readline()):
        check(line, f"rounds go on: {worker.stderr.read() if not line else ''}")


def first_needed(aggregators, worker):
    """Stops one aggregator after the other, until the rounds stall: loopback's estimates may leave one without a
    shard. The one that they wait for stays stopped. Returns it, and the number of the last round that has ended."""
    last = BEFORE
    for one in aggregators * 3:
        one.process.send_signal(signal.SIGSTOP)
        lines = 0
        while lines < UNNEEDED and select.select([worker.stdout], [], [], STALLED_S)[0]:
            line = worker.stdout.readline()
            check(line, "rounds go on")
            last = int(line.split()[1])
            lines += 1
        if lines < UNNEEDED:
            return one, last
        one.process.send_signal(signal.SIGCONT)
    return check(False, "no aggregator is needed")


def ending(worker):
    out, errors = worker.communicate(timeout=PATIENCE_S)
    check(worker.returncode == 0, f"a worker ends well: {worker.returncode} {errors}")
    return json.loads(out.splitlines()[-1])


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        shell = Shell(HEDDLECTL, controller.address, keys)
        aggregators = [Program(AGGREGATOR, "--listen", "127.0.0.1:0", "--controller", controller.address, "--host",
                               f"h{k + 1}", "--key-file", keys) for k in range(AGGREGATORS)]
        until(lambda: len(shell.rows("nodes", "role=aggregator")) == AGGREGATORS, "the aggregators register")
        workers = start_workers(controller.address, keys)
        try:
            await_round(workers[0], BEFORE)
            victim, last = first_needed(aggregators, workers[0])
            victim.stop(signal.SIGKILL)
            killed = time.monotonic()
            await_round(workers[0], last + AFTER)
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            said = [ending(worker) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        print(f"{time.monotonic() - killed:.1f} s after the kill: {said}")
        for one in said:
            check(one["sums"] + one["late"] == one["rounds"] >= last + AFTER, f"each call ends: {one}")
            check(one["late"] <= 1, f"one death ends one round at most: {one}")
            check(one["longest_s"] > STALLED_S / 2, f"the aggregator was needed: {one}")
        # All end after the same round; one that is late for it ends after the next.
        check(all(one["all"] >= one["rounds"] - 2 for one in said), f"sums are of all workers: {said}")
        check(any(one["late"] == 0 for one in said), f"who has the sum is not late: {said}")
        counters = {row["counter"]: row["value"] for row in shell.rows("counters")}
        check(counters["reduces_failed"] >= 1, f"the controller saw a round fail: {counters}")
        roles = [row["role"] for row in shell.rows("nodes")]
        check(roles.count("aggregator") == AGGREGATORS - 1, f"two are left: {roles}")
        for one in aggregators:
            if one is not victim:
                one.stop()
        controller.stop()


main()
