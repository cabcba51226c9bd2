# SPDX-License-Identifier: BSD-3-Clause
"""The learning rates: one small grid for every mode, and what won it (learning-rates.json).

`testbed/demo --scenario S --grid` recomputes and stores: the rate whose runs have the least mean time to
the target accuracy; a run that does not reach it counts with twice the scenario's duration.
"""
import json
import pathlib
import statistics

GRID = (0.0025, 0.005, 0.01, 0.02)
FILE = pathlib.Path(__file__).resolve().parent.parent / "learning-rates.json"


def stored():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def best(name, mode, fallback):
    return stored().get(name, {}).get(mode, fallback)


def choose(records, duration_s):
    """{mode: rate} of grid runs."""
    times = {}
    for record in records:
        cost = record["time_to_accuracy_s"] or 2 * duration_s
        times.setdefault(record["mode"], {}).setdefault(record["learning_rate"], []).append(cost)
    return {mode: min(by_rate, key=lambda rate: statistics.fmean(by_rate[rate])) for mode, by_rate in times.items()}


def store(name, chosen):
    everything = stored()
    everything.setdefault(name, {}).update(chosen)
    FILE.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
