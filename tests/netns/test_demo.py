#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's four modes, shortly: every promised field, counts that agree with the logs, pictures.

usage: test_demo.py BUILD_DIR"""
import json
import sys
import tempfile

import demo_run
import pen  # also makes the demo's own modules known
from lab import measure, modes

NUMBER = (int, float)
# As star, and updates wait for the server's link, so that there are sums. Four workers would hardly make any.
SHORT = {**json.loads((pen.ROOT / "testbed/scenarios/star.json").read_text()), "server_link_mbps": 50,
         "tenants": [], "duration_s": 14}
SHORT["job"]["compute_ms"] = 50
MODES = ["unscheduled", "tcp-ps", "scheduled"]
# field: types; None only where it may be unknown
FIELDS = {
    "mode": str, "scenario": str, "target_accuracy": NUMBER, "final_accuracy": NUMBER,
    "time_to_accuracy_s": (*NUMBER, type(None)), "pushed": int, "applied": int, "dropped": int, "failed": int,
    "granted_bytes": int, "credited_bytes": int, "direct_bytes": int, "staleness": dict,
    "estimate_error": (*NUMBER, type(None)), "cpu": NUMBER, "machine": NUMBER, "grouped": int, "sums": int,
    "server_link_bytes": int,
}


def check_fields(record):
    for field, types in FIELDS.items():
        assert field in record, f"{field} is missing"
        assert isinstance(record[field], types) and not isinstance(record[field], bool), (field, record[field])
    for field in ("mean", "variance", "max", "bound"):
        assert field in record["staleness"], f"staleness.{field} is missing"
    assert record["staleness"]["variance"] >= 0
    assert 0 < record["cpu"] <= record["machine"] <= 1, (record["cpu"], record["machine"])
    assert record["scenario"] == "star" and record["target_accuracy"] == 0.91
    assert 0.2 < record["final_accuracy"] <= 1, "it learned nothing (one in ten is chance)"


def check_pictures(folder):
    pictures = sorted(folder.glob("*.png"))
    assert len(pictures) >= 3, pictures  # links, accuracy, staleness
    for path in pictures:
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 5000, f"{path.name} is no picture"


def check_scheduled(record, directory):
    demo_run.check_granted(record)
    assert record["staleness"]["bound"] == 16, record["staleness"]
    assert 0 <= record["estimate_error"] < 1, record["estimate_error"]
    assert demo_run.events(directory, "events-ctl.jsonl", "plan"), "the controller planned nothing"


def check_aggregated(build):
    """The aggregators' reports agree with the server's; they ended when they were told to."""
    with tempfile.TemporaryDirectory(prefix="heddle-demo-test-") as folder:
        path = demo_run.pathlib.Path(folder) / "short.json"
        path.write_text(json.dumps(SHORT))
        trace = demo_run.pathlib.Path(folder) / "trace.json"
        _, (record,), (directory,) = demo_run.run(build, folder, "--scenario", path, "--full", "--modes", "aggregated",
                                                  "--trace", trace)
        print("aggregated", {f: record[f] for f in FIELDS if f != "mode"})
        check_fields(record)
        demo_run.check_counts(record, directory)
        demo_run.check_granted(record)
        wrong = [p for p in demo_run.problems(record) if not p.startswith("accuracy")]
        assert wrong == [], wrong
        delivered = [e for e in demo_run.events(directory, "events-a*.jsonl", "send-end")
                     if e.get("worker") == measure.SUM and e.get("direction", "push") == "push"
                     and e.get("reason", "none") == "none"]
        # The last may not have been committed.
        assert 0 < record["sums"] <= len(delivered), (record["sums"], len(delivered))
        assert 2 * record["sums"] <= record["grouped"] <= record["applied"], record
        assert sorted(p.name for p in directory.glob("a?.out")) == ["a1.out", "a2.out"]
        drawn = {e["name"].split(" ")[0] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"}
        assert "sum" in drawn, "the trace shows no sum"
        check_pictures(demo_run.pathlib.Path(folder) / "pictures")


def main():
    pen.need_namespaces()
    drivers = modes.drivers(modes.Programs(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="heddle-demo-test-") as folder:
        status, records, kept = demo_run.run(sys.argv[1], folder, "--scenario", "star", "--quick",
                                             "--modes", ",".join(MODES))
        assert [r["mode"] for r in records] == MODES
        for record, directory in zip(records, kept):
            print(record["mode"], {f: record[f] for f in FIELDS if f != "mode"})
            check_fields(record)
            demo_run.check_counts(record, directory)
            assert record["failed"] <= 4, "more failed than the end of four workers cuts off"
            assert demo_run.problems(record) == [], demo_run.problems(record)
            assert record["valid"] == (not record["problems"])
        check_scheduled(records[2], kept[2])
        assert [r["driver"] for r in records] == [drivers[0], "tcp", drivers[0]], records
        check_pictures(demo_run.pathlib.Path(folder) / "pictures")
        assert all(r["grouped"] == r["sums"] == 0 for r in records), "sums without an aggregator"
        assert status == (0 if all(r["valid"] for r in records) else 1), status
    check_aggregated(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
