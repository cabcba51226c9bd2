#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory stays flat while jobs come and go: hundreds of short ones, of two workers each, at one controller, server and
aggregator. Server and controller keep idle jobs until there are HD_JOBS_MAX, and the controller remembers
HD_ENDED_MAX of those that have ended; from then on nothing may grow.

usage: test_visitors.py BUILD [--jobs N] [--lanes N] [--values N]     N jobs after those"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import fabric
import pen

HERE = "127.0.0.1"
BATCH = 64
# Memory that all batches after those may add: what allocators take once more and keep, and tombstones of transfers, of
# which there are HD_TOMBSTONES_MAX at last. A job's record, or its model, left behind by each would be 10 MB.
RISE_KB = 2048
PATIENCE_S = 240


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
    parser.add_argument("--jobs", type=int, default=5 * BATCH)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--values", type=int, default=2048)
    return parser.parse_args()


def limit(name):
    text = (pen.ROOT / "common/base/hd_limits.h").read_text(encoding="utf-8")
    return int(re.search(rf"#define {name} (\d+)", text)[1])


def resident_kb(process):
    for line in pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("no Rss")


def visit(lab, first, count, o):
    env = {"HEDDLE_CONTROLLER": HERE, "HEDDLE_KEY_FILE": str(lab.key), "HEDDLE_WORLD_SIZE": "2", "HEDDLE_HOST": "h1",
           "HEDDLE_BIND": "127.0.0.9"}
    name = f"visitors-{first}"
    crowd = lab.start(name, None, lab.build / "tests/netns/visitors", o.lanes, first, count, o.values, env=env)
    assert crowd.wait(timeout=PATIENCE_S) == 0, lab.said(name)[-2000:]
    rows = [list(map(int, line.split())) for line in lab.said(name).splitlines()]
    assert sum(done for done, _ in rows) == count and not any(failed for _, failed in rows), rows


def soak(lab, nodes, o):
    """Resident kB of each node when all is kept that ever is, and one batch more, and after each batch from then on."""
    kept = limit("HD_JOBS_MAX")
    warm = kept + limit("HD_ENDED_MAX") + BATCH
    seen = {name: [] for name in nodes}
    started = {name: resident_kb(process) for name, process in nodes.items()}
    first = 0
    while first < warm + o.jobs:
        visit(lab, first, BATCH, o)
        first += BATCH
        if first >= warm:
            for name, process in nodes.items():
                seen[name].append(resident_kb(process))
    for name, values in seen.items():
        print(f"{name}: {started[name]} kB at first, {values[0]} kB after {warm} jobs, then "
              + ", ".join(f"{value - values[0]:+}" for value in values[1:]) + f" kB, {BATCH} jobs each", flush=True)
    gauges = lab.shell.counters()
    print(f"jobs here {gauges['jobs']}, ended {gauges['jobs_ended']}")
    assert gauges["jobs"] <= kept and gauges["jobs_ended"] >= first - kept, gauges
    return seen


def main():
    o = options()
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-visitors-") as folder:
        lab = fabric.Fabric(o.build.resolve(), pathlib.Path(folder), HERE)
        try:
            nodes = {"controller": lab.running[0],
                     "server": lab.start_node("server", Spot("127.0.0.2"), "ps"),
                     "aggregator": lab.start_node("aggregator", Spot("127.0.0.3"), "a1")}
            pen.until(lambda: len(lab.shell.seen("nodes")) >= 2, "server and aggregator")
            seen = soak(lab, nodes, o)
            grown = {name: values[-1] - values[0] for name, values in seen.items()}
            assert all(rise <= RISE_KB for rise in grown.values()), f"memory grew: {grown} kB"
        finally:
            lab.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
