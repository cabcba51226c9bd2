#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo with bmv2 for a switch: its agent leases slots to groups of pushes, sums of updates come from it, and what
it counted is in its agent's table. A second run takes the same switch over.

usage: test_bmv2_demo.py BUILD_DIR"""
import sys
import tempfile

import demo_run
import pen  # also makes the demo's own modules known
from lab import bmv2

RUNS, MODEL_VALUES, LANES = 2, 38410, 32


def check(record, directory):
    demo_run.check_counts(record, directory)
    demo_run.check_granted(record)
    shown = record["switches"]["s1"]
    print({name: value for name, value in shown.items() if value}, flush=True)
    assert shown["state"] == "led" and shown["slots"] == 256, shown
    assert set(bmv2.counter_names()) <= set(shown), shown
    # Every chunk of a sum, from all its members; the server answers each, and the members are told.
    chunks = -(-MODEL_VALUES // LANES)
    assert record["sums"] >= 1 and record["grouped"] >= 2, record["sums"]
    assert shown["completed"] >= record["sums"] * chunks and shown["answered"] >= record["sums"] * chunks, shown
    assert shown["absorbed"] >= (record["grouped"] - record["sums"]) * chunks, (record["grouped"], shown)
    assert shown["forwarded"] > 0 and shown["not_finite"] == 0, shown
    assert not any(shown[f"drop_{why}"] for why in ("malformed", "member", "slot", "exponent")), shown
    ups = [event["aux"] for event in demo_run.events(directory, "events-sa1.jsonl", "node-up")]
    assert ups, "the agent had no session"


def main():
    pen.need_namespaces()
    why = bmv2.missing()
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-bmv2-demo-") as folder:
        _, records, directories = demo_run.run(sys.argv[1], folder, "--scenario", "bmv2", "--quick", "--modes",
                                               "aggregated", "--seeds", RUNS)
        assert len(records) == len(directories) == RUNS, records
        for record, directory in zip(records, directories):
            check(record, directory)


if __name__ == "__main__":
    main()
