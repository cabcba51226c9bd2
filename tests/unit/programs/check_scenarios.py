#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scenario files through both readers, the demo's and heddle-sim's: what is wrong is refused by both with file,
line, field and limit; what is right they understand alike. Needs no root.

usage: check_scenarios.py SOURCE_DIR HEDDLE_SIM SCENARIO_VALUES"""
import json
import os
import pathlib
import sys
import tempfile

ROOT, SIM, VALUES = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, str(ROOT / "testbed"))

from lab import scenario  # noqa: E402
from processes import run  # noqa: E402

EX_DATAERR, EX_NOINPUT = 65, 66
GOOD = """{
 "name": "base",
 "workers": 4,
 "link_mbps": 100,
 "job": {
  "hidden": [16,
   32],
  "staleness": {"rule": "adadelay", "c": 2}, "payload": "bf16", "pull_payload": "fp16"
 },
 "compute": {"kind": "none"},
 "links": {"kind": "none"},
 "tenants": [
  {"flows": 2, "from": "server", "to": "worker:1"},
  {"flows": 2, "from": "extra", "to": "worker:3"}
 ],
 "workers_events": [{"at_s": 1, "worker": 3, "do": "kill"}, {"at_s": 2, "worker": 0, "do": "preempt", "notice_s": 3}],
 "switches": "bmv2", "replica": 1, "div_max": 0.5, "nodes_events": [{"at_s": 3, "node": "replica", "do": "kill"}],
 "faults": {"loss": 0.1, "crash": [{"at_s": 1, "node": "server", "down_s": 1}]},
 "duration_s": 20
}
"""
REDRAW = '"kind": "redraw", "low": 1, "high": 3, "every_s": 5'
# what is replaced, by what, line, field, words of the limit
BAD = [
    ('"workers": 4', '"wrokers": 4', 3, "wrokers", "unknown field"),
    ('"workers": 4,', "", 1, "workers", "is missing"),
    ('"workers": 4', '"workers": 0', 3, "workers", "outside 1.."),
    ('"workers": 4', '"workers": 5000', 3, "workers", "outside 1.."),
    ('"workers": 4', '"workers": 4.5', 3, "workers", "whole number"),
    ('"workers": 4', '"workers": true', 3, "workers", "number"),
    ('"workers": 4', '"workers": "4"', 3, "workers", "number"),
    ('"workers": 4', '"workers": 4, "racks": 9, "trunk_mbps": 10', 3, "racks", "9 is outside 1..8"),
    ('"workers": 4', '"workers": 4, "racks": 5, "trunk_mbps": 10', 3, "racks", "there are 4 workers"),
    ('"workers": 4', '"workers": 4, "racks": 2', 3, "racks", "2 racks need trunk_mbps"),
    ('"workers": 4', '"workers": 4, "trunk_mbps": 10', 3, "trunk_mbps", "there is one rack"),
    ('"switches": "bmv2"', '"switches": "tofino"', 17, "switches", "one of bridge, bmv2"),
    ('"workers": 4', '"workers": 4, "aggregators": 17', 3, "aggregators", "17 is outside 0..16"),
    ('"crash": [{"at_s": 1, "node": "server"', '"crash": [{"at_s": 1, "node": "aggregator:1"', 18,
     "faults.crash[0].node", "there are 0 aggregators"),
    ('"link_mbps": 100', '"link_mbps": 0.01', 4, "link_mbps", "0.01 is outside 0.1..100000"),
    ('"link_mbps": 100', '"link_mbps": null', 4, "link_mbps", "number"),
    ('"name": "base"', '"name": "a b"', 2, "name", "letters, digits"),
    ('"name": "base"', '"name": 7', 2, "name", "must be"),
    ('"hidden"', '"hiden"', 6, "job.hiden", "unknown field"),
    ("   32", "   0", 7, "job.hidden[1]", "0 is outside 1..65536"),
    ("[16,\n   32]", "16", 6, "job.hidden", "array"),
    ('"adadelay"', '"newest"', 8, "job.staleness.rule", "one of constant, inverse-sqrt, adadelay"),
    ('"bf16"', '"fp8"', 8, "job.payload", "one of fp32, fp16, bf16, fixed32, sparse"),
    ('"c": 2', '"c": -1', 8, "job.staleness.c", "-1 is outside 1e-06..1000000"),
    ('"hidden": [16,\n   32],', '"model": "cnn",', 6, "job.model", "one of mlp, softmax"),
    ('"hidden": [16,\n   32],', '"tau_max": 0,', 6, "job.tau_max", "0 is outside 1..1000000"),
    ('"hidden": [16,\n   32],', '"sync": "nsync",', 6, "job.sync", "async, full, nsync:N or nbatch:N"),
    ('"hidden": [16,\n   32],', '"sync": "full:2",', 6, "job.sync", "async, full, nsync:N or nbatch:N"),
    ('"hidden": [16,\n   32],', '"sync": "nbatch:0",', 6, "job.sync", "(N: 1..4096)"),
    ('"hidden": [16,\n   32],', '"sync": "nbatch:4097",', 6, "job.sync", "(N: 1..4096)"),
    ('"hidden": [16,\n   32],', '"momentum": 1,', 6, "job.momentum", "1 is outside 0..0.999999"),
    ('"hidden": [16,\n   32],', '"update_bytes": 6,', 6, "job.update_bytes", "multiple of 4"),
    ('"compute": {"kind": "none"}', '"compute": {"kind": "slow"}', 10, "compute.kind",
     "none, exponential, slow-fraction, redraw"),
    ('"compute": {"kind": "none"}', '"compute": {}', 10, "compute.kind",
     "none, exponential, slow-fraction, redraw"),
    ('"compute": {"kind": "none"}', '"compute": {"kind": "scale-fraction", "fraction": 1, "factor": 1}', 10,
     "compute.kind", "none, exponential, slow-fraction, redraw"),
    ('"compute": {"kind": "none"}', '"compute": {"kind": "none", "low": 1}', 10, "compute.low", "unknown field"),
    ('"compute": {"kind": "none"}', '"compute": {"kind": "redraw", "low": 1, "high": 2}', 10, "compute.every_s",
     "is missing"),
    ('"compute": {"kind": "none"}', '"compute": {%s}' % REDRAW.replace("1", "4"), 10, "compute.low", "4 is above high"),
    ('"links": {"kind": "none"}', '"links": {%s}' % REDRAW.replace("5", "0"), 11, "links.every_s",
     "0 is outside 0.1..3600"),
    ('"links": {"kind": "none"}', '"links": {"kind": "slow-fraction", "fraction": 1, "factor": 1}', 11, "links.kind",
     "none, scale-fraction, redraw"),
    ('"from": "extra"', '"from": "controller"', 14, "tenants[1].from", "worker:N, server or extra"),
    ('"to": "worker:3"', '"to": "worker:4"', 14, "tenants[1].to", "there are 4 workers"),
    ('"to": "worker:3"', '"to": "extra"', 14, "tenants[1].to", "is where it comes from"),
    ('"to": "worker:1"', '"to": "worker:1", "start_s": 9, "stop_s": 9', 13, "tenants[0].stop_s", "not after start_s"),
    ('{"flows": 2, "from": "extra"', '{"flows": 65, "from": "extra"', 14, "tenants[1].flows", "65 is outside 1..64"),
    ('{"flows": 2, "from": "extra"', '{"from": "extra"', 14, "tenants[1].flows", "is missing"),
    ('"worker": 3', '"worker": 4', 16, "workers_events[0].worker", "there are 4 workers"),
    ('"worker": 3, "do": "kill"', '"worker": 3, "do": "hide"', 16, "workers_events[0].do",
     "one of kill, join, leave, preempt"),
    ('"worker": 3, "do": "kill"', '"worker": 3, "do": "preempt", "notice_s": 0', 16, "workers_events[0].notice_s",
     "0 is outside 0.01..3600"),
    ('"node": "replica", "do": "kill"', '"node": "replica", "do": "leave"', 17, "nodes_events[0].do",
     "one of kill, start"),
    ('"node": "replica", "do"', '"node": "extra", "do"', 17, "nodes_events[0].node",
     "worker:N, server, replica, aggregator:N or controller"),
    ('"node": "replica", "do"', '"node": "worker:1", "do"', 17, "nodes_events[0].node", "is a worker"),
    ('"node": "replica", "do"', '"node": "aggregator:0", "do"', 17, "nodes_events[0].node", "there are 0 aggregators"),
    ('"replica": 1,', "", 17, "nodes_events[0].node", "there is no replica"),
    ('"replica": 1', '"replica": 2', 17, "replica", "2 is outside 0..1"),
    ('"div_max": 0.5', '"div_max": -1', 17, "div_max", "-1 is outside 0.."),
    ('"loss": 0.1', '"loss": 1.5', 18, "faults.loss", "1.5 is outside 0..1"),
    ('"node": "server"', '"node": "worker:9"', 18, "faults.crash[0].node", "there are 4 workers"),
    ('"node": "server"', '"node": "extra"', 18, "faults.crash[0].node",
     "worker:N, server, replica, aggregator:N or controller"),
    ('"duration_s": 20', '"duration_s": 0', 19, "duration_s", "0 is outside 1..86400"),
    ('"duration_s": 20', '"sim": {"depth": 17}', 19, "sim.depth", "17 is outside 1..16"),
]
# no JSON at all: what is replaced, by what, the line that both name
BROKEN = [
    ('"workers": 4,', '"workers": 4', 4),
    ('"workers": 4,', '"workers": ,', 3),
    ('"workers": 4,', '"workers": 4, "workers": 5,', 3),
    ('"name": "base"', '"name": "base', 2),
    ('"duration_s": 20\n}', '"duration_s": 20\n} 7', 20),
]
TENANT = '{"flows": 2, "from": "server", "to": "worker:1"}'


def demo(path):
    done = run(sys.executable, "-m", "lab.main", "--scenario", path, cwd=path.parent, timeout=60,
               env={**os.environ, "PYTHONPATH": str(ROOT / "testbed")})
    return done.returncode, done.stderr.strip()


def simulator(path):
    done = run(SIM, path, timeout=60)
    return done.returncode, done.stderr.strip()


def changed(old, new):
    assert GOOD.count(old) == 1, f"{old}: not once in the good file"
    return GOOD.replace(old, new)


def expect(path, text, code, *words):
    """Both readers end with the code, and their messages have the words."""
    if text is not None:
        path.write_text(text)
    bad = []
    for name, reader in (("demo", demo), ("heddle-sim", simulator)):
        status, message = reader(path)
        # One line that says who speaks, then the file.
        missing = [w for w in (f"{name}: ", path.name, *words) if w not in message]
        if status != code or missing or "\n" in message:
            bad.append(f"{name}: status {status} (not {code}), without {missing}: {message}")
    return bad


def check_bad(folder):
    bad = []
    path = folder / "bad.json"
    for old, new, line, field, limit in BAD:
        bad += expect(path, changed(old, new), EX_DATAERR, f": line {line}: {field}: ", limit)
    for old, new, line in BROKEN:
        bad += expect(path, changed(old, new), EX_DATAERR, f": line {line}: ")
    bad += expect(path, changed(TENANT, ",".join([TENANT] * 64)), EX_DATAERR, ": line 12: tenants: ", "(limit 64)")
    bad += expect(path, "[]", EX_DATAERR, "must be an object")
    bad += expect(path, "", EX_DATAERR)
    bad += expect(path, " " * (1 << 20) + GOOD, EX_DATAERR)
    bad += expect(path, "[" * 100000, EX_DATAERR)
    bad += expect(folder / "absent.json", None, EX_NOINPUT, "No such file")
    return bad


def without_defaults(read):
    """Removes the parts that the two readers represent differently when a file leaves them out."""
    read = {k: v for k, v in read.items() if k not in ("faults", "sim")}
    read["job"] = dict(read["job"])
    return read


def check_alike(path):
    """The same values on both sides, those that the file leaves out included."""
    ours = without_defaults(scenario.load(str(path)))
    done = run(VALUES, path, timeout=60)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    if ours["job"]["update_bytes"] is None:  # only the simulator derives it from the model
        assert theirs["job"]["update_bytes"] > 0
        ours["job"]["update_bytes"] = theirs["job"]["update_bytes"]
    return [f"{path.name}: {field}: {ours.get(field)} in the demo, {theirs.get(field)} in heddle-sim"
            for field in sorted(ours.keys() | theirs.keys()) if ours.get(field) != theirs.get(field)]


def check_slowed(path, factor=1.5):
    """Slower by a factor: every rate times every time is what it was, the same is drawn, and the original stays."""
    own, kept = (scenario.load(str(path)) for _ in range(2))
    slow = scenario.slowed(own, factor)
    rates = ("link_mbps", "server_link_mbps", "aggregator_link_mbps", "trunk_mbps")

    def times(of):
        parts = [of["compute"], of["links"], *of["tenants"], *of["workers_events"], *of["nodes_events"]]
        return [of["duration_s"], of["job"]["compute_ms"],
                *(part[field] for part in parts for field in sorted(part) if field.endswith("_s"))]

    bad = ["the original has changed"] if own != kept else []
    bad += [field for field in rates if abs(slow[field] * factor - own[field]) > 1e-9]
    bad += [f"{time} s is not {factor} x {was}" for time, was in zip(times(slow), times(own))
            if abs(time - factor * was) > 1e-9]
    if own["compute"]["kind"] != "exponential":
        for part in ("compute", "links"):
            drawn, was = (scenario.draws(of, part, 1) for of in (slow, own))
            bad += [part] if [factors for _, factors in drawn] != [factors for _, factors in was] else []
    return [f"{path.name}: slowed: {what}" for what in bad]


def main():
    shipped = sorted((ROOT / "testbed/scenarios").glob("*.json"))
    assert len(shipped) >= 6, shipped
    with tempfile.TemporaryDirectory(prefix="heddle-scenarios-") as name:
        folder = pathlib.Path(name)
        good = folder / "good.json"
        good.write_text(GOOD)
        redraw = folder / "redraw.json"
        redraw.write_text(changed('"compute": {"kind": "none"}', '"compute": {%s}, "seed": 9007199254740993' % REDRAW))
        bad = check_bad(folder)
        for path in [*shipped, good, redraw]:
            bad += check_alike(path) + check_slowed(path)
    if [scenario.slowness(cores) for cores in (1, 2, 3, 64)] != [3, 1.5, 1, 1]:
        bad.append("slowness")
    for problem in bad:
        print(problem)
    print(f"scenarios: {len(BAD) + len(BROKEN) + 6} bad files, {len(shipped) + 2} good ones, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
