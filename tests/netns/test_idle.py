#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Idle programs sleep: controller, server and workers between two steps use <= 1 % of a core each.

usage: test_idle.py BUILD_DIR"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import fabric
import pen

SPAN_S = 5.0
SHARE_MAX = 0.01
STEP_MS = 120000  # the workers' emulated computing: longer than the test


def start(build, folder):
    """{name: pid} of a fabric whose workers have pulled once and compute."""
    key, controller = fabric.new_key(pathlib.Path(folder)), "127.0.0.1:7001"
    commands = {
        "controller": [build / "controller/heddle-controller", "--listen", controller, "--key-file", key],
        "server": [build / "aggregator/heddle-server", "--listen", "127.0.0.1:7002", "--controller", controller,
                   "--host", "ps", "--key-file", key],
    }
    for rank in (0, 1):
        commands[f"worker {rank}"] = [build / "worker-lib/heddle-train", "--compute-ms", STEP_MS, "--quiet"]
    processes = {}
    for name, command in commands.items():
        rank = name.split()[-1]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if name.startswith("worker"):
            environment.update(fabric.member(controller, key, "idle", int(rank), 2, "127.0.0.1"),
                               HEDDLE_EVENTS=f"{folder}/{name}.jsonl")
        out = open(f"{folder}/{name}.out", "w")
        processes[name] = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=subprocess.STDOUT, env=environment)
    for rank in (0, 1):
        pen.until(lambda: pulled(f"{folder}/worker {rank}.jsonl"), f"worker {rank} pulls", 60)
    return processes


def pulled(path):
    """The pull has ended: its outcome stands in the worker's log."""
    lines = pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else []
    return any('"event":"outcome"' in line and '"pull"' in line for line in lines)


def main():
    pen.enter()
    if not os.path.exists("/proc/self/schedstat"):
        pen.skip("/proc/self/schedstat is missing: processor time cannot be told")
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="heddle-idle-") as folder:
        processes = start(build, folder)
        time.sleep(2)  # the gradient step itself, acknowledgements that trail
        before = {name: pen.used_ns(process.pid) for name, process in processes.items()}
        began = time.monotonic()
        time.sleep(SPAN_S)
        span_ns = (time.monotonic() - began) * 1e9
        bad = 0
        for name, process in processes.items():
            assert process.poll() is None, f"{name} ended: {pathlib.Path(f'{folder}/{name}.out').read_text()}"
            share = (pen.used_ns(process.pid) - before[name]) / span_ns
            bad += share > SHARE_MAX
            print(f"{name}: {share * 100:.2f} % of a core (limit {SHARE_MAX * 100:.0f} %)")
        for process in processes.values():
            process.kill()
            process.wait()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
