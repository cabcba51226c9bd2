#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Synchronous training whose gradients heddle-switch adds, in fixed point: three workers end with the same bits, and
with the accuracy that one process has with their mean gradient.

usage: test_sync_switch.py HEDDLE_SWITCH HEDDLE_CONTROLLER HEDDLE_AGGREGATOR HEDDLECTL HEDDLE_TRAIN SYNC_REFERENCE"""
import json
import os
import signal
import subprocess
import sys
import tempfile

import fabric
import pen
from test_switch import address
from test_switch_allreduce import WORKERS, Fabric, through
from test_switch_lease import start, stop

STEPS, BATCH, SEED, RATE, MOMENTUM = 120, 16, 5, 0.1, 0.5
NEAR = 1e-3  # of fixed point beside double


def train(cluster, rank):
    env = {**fabric.member(address(0), cluster.key, "sync", rank, WORKERS, address(rank)), "OPENBLAS_NUM_THREADS": "1"}
    return cluster.star.start(
        rank, "env", *(f"{name}={value}" for name, value in env.items()), cluster.worker, "--sync", "allreduce",
        "--batch", str(BATCH), "--seed", str(SEED), "--lr", str(RATE), "--momentum", str(MOMENTUM), "--steps",
        str(STEPS), "--bucket-kib", "1", "--quiet", "--json", "-")


def reference(program):
    words = [program, "softmax", BATCH, WORKERS, SEED, RATE, MOMENTUM, 217]
    done = subprocess.run([str(word) for word in words], input="7 7 7\n" * STEPS, text=True, capture_output=True,
                          check=True, timeout=60)
    return tuple(map(float, done.stdout.splitlines()[-1].split()))


def main():
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-sync-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        cluster = Fabric(folder, sys.argv[1:6])
        switch = start([cluster.switch], cluster.key)
        cluster.start(0, cluster.controller)
        pen.until(lambda: len(cluster.shell.rows("switches")) == 1, "the switch registers", 20)
        cluster.shell.say("set", "inline-bytes", "off")  # its buckets are short: they would go with their requests
        workers = [train(cluster, rank) for rank in range(WORKERS)]
        said = []
        for worker in workers:
            out, _ = worker.communicate(timeout=120)
            assert worker.returncode == 0, (worker.returncode, out)
            said.append(json.loads(out.splitlines()[-1]))
        switched = through(cluster)
        _, accuracy, loss = reference(sys.argv[6])
        print(f"{switched} rounds through the switch; loss {said[0]['loss']:.6f}, the reference's {loss:.6f}")
        for one in said:
            assert one["model_crc32"] == said[0]["model_crc32"] and one["allreduce"]["equal"], said
            assert one["version"] == STEPS and one["allreduce"]["buckets"] == 3, one
        assert abs(said[0]["loss"] - loss) < NEAR * loss, (said[0], loss)
        assert abs(said[0]["accuracy"] - accuracy) < 0.006, (said[0], accuracy)  # two rows of 360
        assert switched >= STEPS, cluster.shell.counters()
        for process in cluster.running[::-1]:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        stop(switch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
