# SPDX-License-Identifier: BSD-3-Clause
"""Runs testbed/demo and reads what it leaves: records, event logs, pictures."""
import json
import os
import pathlib
import subprocess
import sys

import pen

DEMO = pen.ROOT / "testbed/demo"
PATIENCE_S = 400  # against a hang


def environment(build):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_") and k != "PYTHONPATH"}
    return {**kept, "HEDDLE_BUILD": str(build)}


def run(build, folder, *arguments):
    """(exit status, records, {run's directory: its files}) of a demo that writes beneath folder."""
    folder = pathlib.Path(folder)
    where = ["--json", folder / "runs.json", "--out", folder / "pictures", "--keep", folder / "keep"]
    command = [DEMO, "--slower", "1", *where, *arguments]  # what they count must not depend on the processors
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, env=environment(build),
                          timeout=PATIENCE_S)
    sys.stdout.flush()
    assert done.returncode in (0, 1), f"the demo's exit status is {done.returncode}"
    return done.returncode, json.loads((folder / "runs.json").read_text()), sorted((folder / "keep").iterdir())


def events(directory, pattern, kind):
    """The events of a kind in a run's logs, in the order of time."""
    found = []
    for path in directory.glob(pattern):
        lines = path.read_text().splitlines(keepends=True)
        found += [json.loads(line) for line in lines if line.endswith("\n")]
    return sorted((e for e in found if e["event"] == kind), key=lambda e: e["at_ns"])


def check_counts(record, directory, killed=()):
    """The record's numbers, counted again from the logs of the run. A killed worker's log lacks its last
    lines (at most those of an interval of its writer); what was committed of it was pushed all the same."""
    commits = events(directory, "events-ps.jsonl", "committed")
    pushed = events(directory, "events-w*.jsonl", "pushed")
    keys = [(e.get("worker", 0), e.get("round", 0)) for e in commits]
    known = {(e.get("worker", 0), e.get("round", 0)) for e in pushed}
    lost = {key for key in set(keys) - known if key[0] in killed}
    assert len(lost) <= 20, lost
    assert record["pushed"] == len(pushed) + len(lost), (record["pushed"], len(pushed), len(lost))
    assert record["applied"] == len(commits) > 0, (record["applied"], len(commits))
    assert record["pushed"] == record["applied"] + record["dropped"] + record["failed"], record
    assert min(record["dropped"], record["failed"]) >= 0, record
    assert len(set(keys)) == len(keys), "an update was applied twice"
    assert set(keys) - lost <= known, "an update was applied that no worker pushed"
    delays = [e.get("aux", 0) for e in commits]
    staleness = record["staleness"]
    assert staleness["max"] == max(delays), staleness
    assert abs(staleness["mean"] - sum(delays) / len(delays)) < 1e-9, staleness
    assert staleness["bound"] is None or staleness["max"] <= staleness["bound"], staleness


def check_granted(record):
    total = record["granted_bytes"] + record["direct_bytes"]
    assert total > 0 and record["granted_bytes"] >= 0.8 * total, (record["granted_bytes"], total)


def problems(record):
    """The problems of a run, except that the machine was too busy for a result."""
    return [p for p in record["problems"] if "processors were busy" not in p]
