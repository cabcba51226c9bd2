#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduces of every type and operation by real processes on the loopback interface: three workers that add for each
other, in chunks that are no whole number of 8-byte values, then the same with an aggregator.

usage: check_allreduce_types.py HEDDLE_CONTROLLER HEDDLE_AGGREGATOR HEDDLECTL REDUCE_TYPES"""
import json
import os
import subprocess
import sys
import tempfile

from processes import Program, Shell, check, until, write_keys

CONTROLLER, AGGREGATOR, HEDDLECTL, WORKER = sys.argv[1:5]
WORKERS = 3
RESULTS = 8 * 5 * 3
PATIENCE_S = 50


def play(address, keys, job, **more):
    running = []
    for rank in range(WORKERS):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
               "HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HEDDLE_JOB": job, "HEDDLE_RANK": str(rank),
               "HEDDLE_WORLD_SIZE": str(WORKERS), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1", **more}
        running.append(subprocess.Popen([WORKER], env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE))
    try:
        for worker in running:
            out, errors = worker.communicate(timeout=PATIENCE_S)
            check(worker.returncode == 0, f"{job}: a worker ends well: {worker.returncode} {errors}")
            check(json.loads(out)["results"] == RESULTS, f"{job}: each result was checked: {out}")
    finally:
        for worker in running:
            worker.kill()
            worker.wait()


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
        shell = Shell(HEDDLECTL, controller.address, keys)
        play(controller.address, keys, "hosts", HEDDLE_CHUNK_BYTES="1404")
        until(lambda: not shell.rows("nodes", "role=aggregator"), "the workers' aggregators end with them")
        aggregator = Program(AGGREGATOR, "--listen", "127.0.0.1:0", "--controller", controller.address, "--host", "h9",
                             "--key-file", keys)
        until(lambda: shell.rows("nodes", "role=aggregator"), "the aggregator registers")
        play(controller.address, keys, "standing")
        counters = {row["counter"]: row["value"] for row in shell.rows("counters")}
        check(counters["reduces"] == 2 * RESULTS and counters["reduces_failed"] == 0, f"no round failed: {counters}")
        aggregator.stop()
        controller.stop()


main()
