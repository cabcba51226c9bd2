#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-sim --train from outside: its records, its rule beside the demo's, the grid, its filter, and what it refuses.

usage: check_train.py SOURCE_DIR HEDDLE_SIM"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT, SIM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(ROOT / "testbed"))

from lab import measure, rates  # noqa: E402

EX_USAGE, EX_DATAERR, EX_NOINPUT = 64, 65, 66
SCENARIO = {
    "name": "tiny", "workers": 3, "link_mbps": 100, "latency_us": 50, "duration_s": 3,
    "job": {"hidden": [16], "compute_ms": 20, "learning_rate": 0.02, "target_accuracy": 0.6}}
REFUSED = [
    (["--train", "--bogus"], EX_USAGE, "--bogus"),
    (["--grid"], EX_USAGE, "--train"),
    (["--learning-rate", "0.1"], EX_USAGE, "--train"),
    (["--train", "--learning-rate", "0"], EX_USAGE, "--learning-rate: '0' (a number from 1e-09 to 1000)"),
    (["--train", "--learning-rate", "0.1x"], EX_USAGE, "--learning-rate"),
    (["--train", "--target-accuracy", "2"], EX_USAGE, "--target-accuracy"),
    (["--filter", "0.7"], EX_USAGE, "--train"),
    (["--train", "--filter", "0"], EX_USAGE, "--filter: '0' (a number from 1e-06 to 1e+06)"),
    (["--train", "--filter=-0.7"], EX_USAGE, "--filter: '-0.7' (a number from 1e-06 to 1e+06)"),
    (["--train", "--filter", "nan"], EX_USAGE, "--filter: 'nan' (a number from 1e-06 to 1e+06)"),
    (["--train", "--filter", "inf"], EX_USAGE, "--filter: 'inf' (a number from 1e-06 to 1e+06)"),
    (["--train", "--filter", "0.7x"], EX_USAGE, "--filter: '0.7x' (a number from 1e-06 to 1e+06)"),
    (["--train", "--filter", "0.7"], EX_DATAERR, "job.momentum, job.weight_decay: must be 0 with a filter"),
    (["--train", "--grid", "--learning-rate", "0.1"], EX_USAGE, "--grid"),
    (["--train", "--grid-seeds", "2"], EX_USAGE, "needs --grid"),
    (["--train", "--grid", "--grid-seeds", "0"], EX_USAGE, "--grid-seeds: '0' (a whole number from 1"),
    (["--train", "--data", "nowhere"], EX_NOINPUT, "data: "),
]


def run(*arguments):
    return subprocess.run([SIM, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


def train(folder, *arguments, scenario="tiny.json"):
    out = folder / "runs.json"
    done = run(folder / scenario, "--train", "--json", out, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout


def check_records(folder):
    records, text = train(folder, "--mode", "both", "--seeds", "2")
    assert [r["mode"] for r in records] == ["scheduled", "unscheduled"] * 2
    assert "accuracy 0.6 reached by both in 2 of 2 pairs" in text, text
    for record in records:
        hit = measure.reached(record["evaluations"], record["target_accuracy"])
        assert hit, record
        assert hit["t"] == record["time_to_accuracy_s"] and hit["version"] == record["updates_to_accuracy"], hit
        assert abs(measure.final_accuracy(record["evaluations"]) - record["final_accuracy"]) < 1e-12
        assert record["learning_rate"] == 0.02 and record["target_accuracy"] == 0.6
        histogram = {int(k): v for k, v in record["staleness_histogram"].items()}
        assert sum(histogram.values()) == record["applied"]
        mean = sum(k * v for k, v in histogram.items()) / record["applied"]
        assert abs(mean - record["staleness"]["mean"]) < 1e-9, (mean, record["staleness"])
    again, _ = train(folder, "--mode", "both", "--seeds", "2")
    for record in records + again:
        record.pop("wall_s")
    assert records == again, "another run of the same seeds differs"


def check_grid(folder):
    records, text = train(folder, "--grid", "--grid-seeds", "1", "--until-target", "--target-accuracy", "0.4")
    record, = records
    tried = record["grid"]
    assert [t["learning_rate"] for t in tried] == list(rates.GRID), tried
    best = min((t for t in tried if not t["more_than"]), key=lambda t: t["mean_s"])
    slower, _ = train(folder, "--seed", "2", "--target-accuracy", "0.4", "--learning-rate", "0.0025")
    assert (slower[0]["time_to_accuracy_s"] or 99) >= best["mean_s"], (slower[0]["time_to_accuracy_s"], best)
    assert record["learning_rate"] == best["learning_rate"], (best, record["learning_rate"])
    for t in tried:
        assert t["more_than"] or t["reached"] == t["seeds"] == 1 or t["mean_s"] == 2 * SCENARIO["duration_s"], t
    assert text.count("grid: tiny, scheduled, learning rate") == len(tried), text
    # The grid's seed follows the measured one: the best rate's run is that seed's, to the last digit.
    follower, _ = train(folder, "--seed", "2", "--until-target", "--target-accuracy", "0.4",
                        "--learning-rate", best["learning_rate"])
    assert abs(follower[0]["time_to_accuracy_s"] - best["mean_s"]) < 1e-9, (follower[0]["time_to_accuracy_s"], best)


def check_filter(folder):
    plain = {**SCENARIO["job"], "momentum": 0, "weight_decay": 0, "learning_rate": 0.1}
    (folder / "plain.json").write_text(json.dumps({
        **SCENARIO, "job": plain, "sim": {"checkpoint_commits": 10},
        "faults": {"crash": [{"at_s": 1.5, "node": "server", "down_s": 0.1}]},
        "workers_events": [{"at_s": 2, "worker": 1, "do": "leave"}]}))
    records, _ = train(folder, "--filter", "0.7", scenario="plain.json")
    of = records[0]["filter"]
    assert sorted(of) == ["doubled", "flushed", "held_norm", "regained", "returned", "steps", "undone", "v"], of
    assert of["v"] == 0.7 and of["held_norm"] > 0 and of["steps"] > 0 and of["undone"] > 0 and of["flushed"] == 1, of
    again, _ = train(folder, "--filter", "0.7", scenario="plain.json")
    assert again[0]["filter"] == of, (again[0]["filter"], of)
    records, _ = train(folder, scenario="plain.json")
    assert "filter" not in records[0], records[0]["filter"]


def check_refusals(folder):
    for arguments, code, words in REFUSED:
        done = run(folder / "tiny.json", *arguments)
        assert done.returncode == code and words in done.stderr, (arguments, done.returncode, done.stderr)
    done = run("--random", "--train")
    assert done.returncode == EX_USAGE and "needs a scenario" in done.stderr, done.stderr
    wrong = folder / "wrong.json"
    wrong.write_text(json.dumps({**SCENARIO, "job": {**SCENARIO["job"], "update_bytes": 400}}))
    done = run(wrong, "--train", "--json", folder / "none.json")
    assert done.returncode == EX_DATAERR and "job.update_bytes: 400, but the model has" in done.stderr, done.stderr


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-train-") as name:
        folder = pathlib.Path(name)
        (folder / "tiny.json").write_text(json.dumps(SCENARIO))
        check_records(folder)
        check_grid(folder)
        check_filter(folder)
        check_refusals(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
