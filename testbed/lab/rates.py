# SPDX-License-Identifier: BSD-3-Clause
"""The learning rates: one small grid for every mode, and the best of each (learning-rates.json).

`testbed/demo --scenario S --grid` recomputes and stores: the rate whose runs have the shortest mean time to the target
accuracy; a run that does not reach it counts with twice the scenario's duration, and an invalid one (a busy machine,
say) does not count.
"""
import json
import pathlib
import statistics

GRID = (0.0025, 0.005, 0.01, 0.02)
FILE = pathlib.Path(__file__).resolve().parent.parent / "learning-rates.json"


def stored():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def best(name, mode, fallback):
    """Aggregation changes the cost of an update, not its content: without a rate of its own it uses scheduled's."""
    rates = stored().get(name, {})
    return rates.get(mode, rates.get("scheduled", fallback) if mode == "aggregated" else fallback)


def counts(record):
    """Whether a run counts for its rate: not when the machine was too busy, or an error occurred. One that did not
    reach the accuracy counts."""
    return all(problem.startswith("accuracy ") for problem in record["problems"])


def choose(records, duration_s):
    """({mode: rate}, [excluded runs as texts]) of grid runs. Rates are compared over the same seeds: a seed with a run
    that does not count is excluded for all rates of its mode, and a mode without a complete seed gets no rate."""
    times, bad = {}, {}
    for record in records:
        mode, seed = record["mode"], record["seed"]
        by_seed = times.setdefault(mode, {}).setdefault(record["learning_rate"], {})
        by_seed[seed] = record["time_to_accuracy_s"] or 2 * duration_s
        if not counts(record):
            bad.setdefault(mode, {}).setdefault(seed, []).append(record["learning_rate"])
    chosen, words = {}, []
    for mode, by_rate in times.items():
        seeds = set.intersection(*(set(by_seed) for by_seed in by_rate.values())) - set(bad.get(mode, {}))
        for seed, rates in sorted(bad.get(mode, {}).items()):
            words.append(f"{mode}, seed {seed}: left out, invalid at {', '.join(map(str, rates))}")
        if not seeds:
            words.append(f"{mode}: no seed has a run that counts at every rate: nothing is chosen, run it again")
            continue
        chosen[mode] = min(by_rate, key=lambda rate, of=by_rate: statistics.fmean(of[rate][seed] for seed in seeds))
    return chosen, words


def store(name, chosen):
    everything = stored()
    everything.setdefault(name, {}).update(chosen)
    FILE.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
