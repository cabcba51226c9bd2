#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Very many workers join one job at the same moment, on a machine that is far too small for them: all of them get in
within the time, and none is lost meanwhile or after. With --busy that many loops for each processor take its time
besides.

usage: test_crowd.py BUILD_DIR [--workers N] [--join-s S] [--hold-s S] [--busy N]"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import fabric
import pen

HERE = "127.0.0.1"


class Spot:
    """Our own namespace, by an address of its own on the loopback interface."""

    def __init__(self, address):
        self.address = address

    @staticmethod
    def enter(*words):
        return [str(word) for word in words]


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--join-s", type=float, default=20)
    parser.add_argument("--hold-s", type=float, default=10)
    parser.add_argument("--busy", type=int, default=0)
    return parser.parse_args()


def rows(text, what):
    """{rank: (first, second)} of the lines that begin so."""
    found = [line.split() for line in text.splitlines() if line.startswith(f"{what} ")]
    return {int(row[1]): (int(row[2]), int(row[3])) for row in found}


def busy_loops(count):
    """They end with us, at the latest when all that is in the namespace is killed."""
    return [subprocess.Popen(["sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL) for _ in range(count)]


def main():
    o = options()
    pen.enter()
    loops = []
    with tempfile.TemporaryDirectory(prefix="heddle-crowd-") as folder:
        folder = pathlib.Path(folder)
        lab = fabric.Fabric(o.build.resolve(), folder, HERE, "--events", folder / "ctl.jsonl")
        try:
            lab.start_node("server", Spot("127.0.0.2"), "ps", "--checkpoint-dir", folder)
            lab.start_node("server", Spot("127.0.0.3"), "rp", "--replica")
            pen.until(lambda: len(lab.shell.seen("nodes")) >= 2, "server and replica")
            env = {"HEDDLE_CONTROLLER": HERE, "HEDDLE_KEY_FILE": str(lab.key), "HEDDLE_JOB": "crowd",
                   "HEDDLE_WORLD_SIZE": str(o.workers), "HEDDLE_KEEP_MB": "1"}
            loops = busy_loops(o.busy * len(os.sched_getaffinity(0)))
            began = time.monotonic()
            crowd = lab.start("crowd", None, lab.build / "tests/netns/crowd", o.workers, int(o.join_s * 1000),
                              int(o.hold_s * 1000), env=env)
            code = crowd.wait(timeout=o.join_s + o.hold_s + 120)
            took = time.monotonic() - began
            text = lab.said("crowd")
            joined, held = rows(text, "joined"), rows(text, "held")
            times = sorted(ms for rc, ms in joined.values() if rc == 0)
            lost = pen.events(folder / "ctl.jsonl", "node-down")
            reasons = {}
            for event in lost:
                reasons[event.get("reason")] = reasons.get(event.get("reason"), 0) + 1
            promoted = pen.events(folder / "ctl.jsonl", "promoted")
            print(f"{len(times)} of {o.workers} joined, the last after {times[-1] / 1000 if times else -1:.1f} s; "
                  f"{sum(1 for ok, _ in held.values() if ok)} held, {sum(n for _, n in held.values())} went direct; "
                  f"ends {reasons}, {len(promoted)} promotions, {took:.0f} s")
            assert code == 0, text[-2000:]
            assert len(times) == o.workers, [rank for rank, (rc, _) in joined.items() if rc != 0]
            assert all(ok for ok, _ in held.values()) and len(held) == o.workers
            # A LEAVE that is not answered in time is followed by the end of the session.
            bad = [event for event in lost if event.get("reason") not in ("left", "closed")]
            assert not bad and not promoted, bad or promoted
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
            lab.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
