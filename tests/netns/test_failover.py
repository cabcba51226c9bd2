#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's server is killed and comes back: the replica takes its place and training goes on; what the demo says of
it agrees with the logs.

usage: test_failover.py BUILD_DIR"""
import json
import pathlib
import sys
import tempfile

import demo_run
import pen  # also makes the demo's own modules known
from lab import measure

SHORT = {**json.loads((pen.ROOT / "testbed/scenarios/failover.json").read_text()), "workers": 4, "duration_s": 16,
         "nodes_events": [{"at_s": 6, "node": "server", "do": "kill"}, {"at_s": 9, "node": "server", "do": "start"}]}
SHORT["job"]["hidden"] = [512]
del SHORT["job"]["update_bytes"]


def check_history(events):
    """The new server keeps the updates that it had, and no others of the former server's."""
    def of(node, kind, count, worker, **more):
        return {"node": node, "event": kind, "version": count, "worker": worker, "round": count, **more}

    log = [of("ps", "committed", 1, 0), of("rp", "replicated", 1, 0), of("ps", "committed", 2, 1),
           of("rp", "replicated", 2, 1), of("rp", "replicated", 3, 2),  # whose line the killed server's log lost
           of("ps", "committed", 4, 3),
           {"node": "controller", "event": "promoted", "base": 2}, {"node": "rp", "event": "promoted", "base": 3},
           of("rp", "committed", 4, 1)]
    kept = [(e["node"], e["version"], e["worker"]) for e in measure.history(log)]
    assert kept == [("ps", 1, 0), ("ps", 2, 1), ("rp", 3, 2), ("rp", 4, 1)], kept
    assert [e["version"] for e in measure.history(log[:3])] == [1, 2]
    keys = [(e.get("worker", 0), e.get("round", 0)) for e in events]
    assert len(set(keys)) == len(keys), "an update was applied twice"
    versions = [measure.count_of(e) for e in events]
    assert versions == list(range(1, len(versions) + 1)), "a version is missing"


def main():
    pen.need_namespaces()
    with tempfile.TemporaryDirectory(prefix="heddle-failover-test-") as folder:
        path = pathlib.Path(folder) / "short.json"
        path.write_text(json.dumps(SHORT))
        _, (record,), (directory,) = demo_run.run(sys.argv[1], folder, "--scenario", path, "--full", "--modes",
                                                  "scheduled")
        (failover,) = record["failovers"]
        print(failover, {k: record[k] for k in ("pushed", "applied", "dropped", "failed", "problems")})
        wrong = [p for p in demo_run.problems(record) if not p.startswith("accuracy")]
        assert wrong == [], wrong
        assert failover["killed"] == "ps" and failover["heir"] == "rp", failover
        assert 6 <= failover["killed_s"] < failover["promoted_s"] < 16, failover
        promoted = demo_run.events(directory, "events-rp.jsonl", "promoted")
        assert len(promoted) == 1 and promoted[0].get("base") == failover["version"], (promoted, failover)
        assert promoted[0].get("value", 0) == failover["divergence"], (promoted, failover)
        assert record["div_max"] == 0.25
        assert demo_run.events(directory, "events-ps-2.jsonl", "replicated"), "it did not come back as a replica"
        mine = demo_run.events(directory, "events-rp.jsonl", "committed")
        assert len(mine) > 20, "training did not go on"
        log = measure.Log(sorted(directory.glob("events-*.jsonl")), 0)
        check_history(log.commits())
        assert record["applied"] == len(log.commits()) == failover["version"] + len(mine), record["applied"]
        assert record["pushed"] == record["applied"] + record["dropped"] + record["failed"], record
        assert len(list((pathlib.Path(folder) / "pictures").glob("failover-*.png"))) >= 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
