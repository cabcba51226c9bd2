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
ROUNDS = 20  # before the end or a kill, and after the kill
PATIENCE_S = 30


def start_workers(address, keys, job):
    running = []
    for rank in range(WORKERS):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
               "HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HEDDLE_JOB": job, "HEDDLE_RANK": str(rank),
               "HEDDLE_WORLD_SIZE": str(WORKERS), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1"}
        running.append(subprocess.Popen([WORKER, str(VALUES), "0"], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return running


def ending(worker):
    out, errors = worker.communicate(timeout=PATIENCE_S)
    check(worker.returncode == 0, f"a worker ends well: {worker.returncode} {errors}")
    return json.loads(out.splitlines()[-1])


def counter(shell, name):
    return next(row["value"] for row in shell.rows("counters") if row["counter"] == name)


def lose(shell, worker):
    """Kills one, and waits until the others have made rounds without it."""
    worker.send_signal(signal.SIGKILL)
    until(lambda: len(shell.rows("nodes", "role=worker")) == WORKERS - 1, "it is lost")
    made = counter(shell, "reduces")
    until(lambda: counter(shell, "reduces") >= made + ROUNDS, "rounds go on without it")


def play(shell, workers, victim):
    """The last lines of the workers that were not killed."""
    left = [worker for rank, worker in enumerate(workers) if rank != victim]
    try:
        while f"round {ROUNDS}\n" != (line := workers[0].stdout.readline()):
            check(line, f"rounds begin: {workers[0].stderr.read() if not line else ''}")
        nodes = shell.rows("nodes", "role=aggregator")
        check(sorted(n["worker"] for n in nodes) == list(range(WORKERS)), f"each worker adds: {nodes}")
        if victim is not None:
            lose(shell, workers[victim])
        for worker in left:
            worker.send_signal(signal.SIGTERM)
        return [ending(worker) for worker in left]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
        shell = Shell(HEDDLECTL, controller.address, keys)
        said = play(shell, start_workers(controller.address, keys, "whole"), None)
        print(f"all leave: {said}")
        made = counter(shell, "reduces")
        check(all(one["all"] == one["rounds"] == made >= ROUNDS for one in said), f"sums are of all workers: {said}")
        check(counter(shell, "reduces_failed") == 0, "no round failed")
        until(lambda: not shell.rows("nodes", "role=aggregator"), "aggregators end with their workers")
        said = play(shell, start_workers(controller.address, keys, "killed"), 2)
        print(f"one is killed: {said}")
        for one in said:
            check(one["sums"] + one["late"] == one["rounds"], f"each call ends: {one}")
            check(one["late"] <= 1, f"one death ends one round at most: {one}")
            check(ROUNDS <= one["all"] < one["rounds"], f"the dead was in the sums until then: {one}")
        until(lambda: not shell.rows("nodes", "role=aggregator"), "no aggregator is left")
        controller.stop()


main()
