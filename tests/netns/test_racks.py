#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two racks with a shaped trunk between them, real processes: hosts behind the trunk get its capacity and no more, all
of it planned by a controller that knows the trunk but not its capacity.

usage: test_racks.py BUILD_DIR"""
import json
import pathlib
import statistics
import sys
import tempfile

import demo_run
import pen  # also makes the demo's own modules known
from lab import network, scenario

sys.path.insert(0, str(pen.ROOT / "tests/unit/programs"))

import trace_format  # noqa: E402

WORKERS = 4  # of --quick: two a rack
SLACK = 1.1  # tbf's burst, and what was queued before the first chunk was seen


def goodput(directory):
    """{rank: its median push in bit/s}: a server that looks late at a push's first chunk sees that push too fast."""
    pushes = {}
    for event in demo_run.events(directory, "events-ps.jsonl", "recv-end"):
        if event.get("direction", "push") == "push":
            pushes.setdefault(event.get("worker", 0), []).append(event["value"])
    return {rank: statistics.median(values) for rank, values in pushes.items()}


def check_trunk(setting, directory):
    carries = setting["trunk_mbps"] * 1e6 * network.CHUNK_BYTES / network.PORT_BYTES
    median = goodput(directory)
    assert sorted(median) == list(range(WORKERS)), median
    for rank, bps in median.items():
        behind = rank * setting["racks"] // WORKERS > 0
        print(f"worker {rank}, {'behind the trunk' if behind else 'in the rack of the server'}: {bps / 1e6:.0f} Mbit/s")
        assert bps < carries * SLACK if behind else bps > 0, (rank, bps, carries)
    assert max(median[0], median[1]) > carries * SLACK, "the trunk is not what holds the others back"


def check_trace(path, directory):
    """Spans of real processes: each of an event, on the links that the transfer crossed."""
    by_phase = trace_format.check(json.loads(path.read_text()))
    events = trace_format.read_log(directory.glob("events-*.jsonl"))
    counts = trace_format.counts(events)
    names = [e["name"] for e in by_phase["X"]]
    assert names.count("push") == counts["pushed"] and names.count("commit") == counts["committed"]
    assert len(by_phase["s"]) == counts["committed"] > 0
    tracks = {e["tid"]: e["args"]["name"] for e in by_phase["M"] if e["name"] == "thread_name"}
    crossed = {e["args"]["worker"] for e in by_phase["X"]
               if tracks[e["tid"]].startswith("s2>s1") and " push " in e["name"]}
    assert crossed == {2, 3}, crossed


def main():
    pen.need_namespaces()
    setting = scenario.load("two-racks")
    with tempfile.TemporaryDirectory(prefix="heddle-racks-test-") as folder:
        trace = pathlib.Path(folder) / "trace.json"
        _, (record,), (directory,) = demo_run.run(sys.argv[1], folder, "--scenario", "two-racks", "--quick",
                                                  "--modes", "scheduled", "--trace", trace)
        topology = json.loads((directory / "topology.json").read_text())
        assert topology["switches"] == ["s1", "s2"] and ["s1", "s2"] in topology["links"], topology
        demo_run.check_counts(record, directory)
        demo_run.check_granted(record)
        check_trunk(setting, directory)
        check_trace(trace, directory)


if __name__ == "__main__":
    main()
