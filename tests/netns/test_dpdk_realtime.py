#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The dpdk driver in a real-time process whose threads share one core: it starts, answers the wire, answers telemetry
(whose thread is EAL's) while it sleeps, and ends. Only its own threads are real-time ones.

usage: test_dpdk_realtime.py af_packet|af_xdp BENCH_TRANSFER HEDDLE_CONTROLLER"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import dpdk_lab as lab
import fabric
import pen
import test_dpdk

START_S = 20
POLICIES = {"-f": os.SCHED_FIFO, "-r": os.SCHED_RR}
EALS = ("eal-intr-thread", "telemetry-v2")


def refused():
    """None, or why nothing can be real-time here."""
    for option in POLICIES:
        done = subprocess.run(["chrt", option, "1", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            return f"real-time scheduling is not allowed: {done.stderr.strip()}"
    return None


def policies(pid):
    """How each of its threads is scheduled."""
    return {(task / "comm").read_text().strip(): os.sched_getscheduler(int(task.name))
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def test_realtime(node, command, option):
    core = str(max(os.sched_getaffinity(0)))
    process = node.start("taskset", "-c", core, "chrt", option, "1", *command)
    # One that spins would leave next to nothing of that core to others.
    guard = threading.Timer(START_S, process.kill)
    guard.start()
    try:
        assert lab.FABRIC in process.stdout.readline(), f"chrt {option}: it does not get past its start"
        assert test_dpdk.ping(lab.FABRIC) == 5, "it does not answer"
        told = policies(process.pid)  # before EAL begins a thread for each telemetry client
        assert told.pop("heddle-controll") == POLICIES[option], told
        assert [told[name] for name in EALS] == [os.SCHED_OTHER] * len(EALS), told
        assert os.sched_getaffinity(process.pid) == {int(core)}, "it left its core"
        lab.check_identity(lab.Telemetry())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=START_S)
        assert process.returncode == 0, process.returncode
    finally:
        guard.cancel()
        process.kill()


def main():
    pen.enter()
    kind, bench, controller = sys.argv[1:4]
    why = lab.missing(bench, kind) or refused()
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-realtime-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder  # EAL's: other tests have nodes of the same address
        node = lab.Node(kind)
        for option in POLICIES:
            test_realtime(node, [controller, "--key-file", fabric.new_key(pathlib.Path(folder)), *node.words()], option)
            print(f"chrt {option} 1: started, answered, ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
