#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduces of real processes on the loopback interface with a controller and nothing else: four workers add for each
other. First all of them make their rounds and leave, and no sum is lost; then one is killed in the middle, and the
others go on.

usage: check_allreduce_hosts.py HEDDLE_CONTROLLER HEDDLECTL REDUCE_WORKER"""
import json
import os
import signal
import subprocess
import sys
import tempfile

from processes import Program, Shell, check, until, write_keys

CONTROLLER, HEDDLECTL, WORKER = sys.argv[1:4]
WORKERS, VALUES = 4, 40000
WHOLE, KILLED = 25, 60  # rounds
PATIENCE_S = 30


def start_workers(address, keys, job, rounds):
    running = []
    for rank in range(WORKERS):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
               "HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HEDDLE_JOB": job, "HEDDLE_RANK": str(rank),
               "HEDDLE_WORLD_SIZE": str(WORKERS), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1"}
        running.append(subprocess.Popen([WORKER, str(VALUES), str(rounds)], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return running


def ending(worker):
    out, errors = worker.communicate(timeout=PATIENCE_S)
    check(worker.returncode == 0, f"a worker ends well: {worker.returncode} {errors}")
    return json.loads(out.splitlines()[-1])


def await_round(worker, number):
    while f"round {number}" not in (line := worker.stdout.readline()):
        check(line, f"rounds begin: {worker.stderr.read() if not line else ''}")


def play(shell, workers, victim):
    """The last lines of the workers that were not killed."""
    try:
        await_round(workers[0], 20)
        nodes = shell.rows("nodes", "role=aggregator")
        check(sorted(n["worker"] for n in nodes) == list(range(WORKERS)), f"each worker adds: {nodes}")
        if victim is not None:
            workers[victim].send_signal(signal.SIGKILL)
        return [ending(worker) for rank, worker in enumerate(workers) if rank != victim]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
        shell = Shell(HEDDLECTL, controller.address, keys)
        said = play(shell, start_workers(controller.address, keys, "whole", WHOLE), None)
        print(f"all leave: {said}")
        check(all(one["all"] == WHOLE for one in said), f"every sum is of all workers: {said}")
        counters = {row["counter"]: row["value"] for row in shell.rows("counters")}
        check(counters["reduces"] == WHOLE and counters["reduces_failed"] == 0, f"no round failed: {counters}")
        until(lambda: not shell.rows("nodes", "role=aggregator"), "aggregators end with their workers")
        said = play(shell, start_workers(controller.address, keys, "killed", KILLED), 2)
        print(f"one is killed: {said}")
        for one in said:
            check(one["sums"] + one["late"] == KILLED, f"each call ends: {one}")
            check(one["late"] <= 1, f"one death ends one round at most: {one}")
            check(20 <= one["all"] < KILLED, f"the dead was in the sums until then: {one}")
        until(lambda: not shell.rows("nodes", "role=aggregator"), "no aggregator is left")
        controller.stop()


main()
