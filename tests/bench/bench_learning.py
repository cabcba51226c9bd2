#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time to accuracy where the server's link is the bottleneck: unscheduled, scheduled and aggregated over paired seeds
in the simulator, with real training, each mode at its own best learning rate of one grid over other seeds.

Without --full: 8 workers, two seeds, the rates that --full found."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "testbed"))
from lab import measure  # noqa: E402

MODES = ("unscheduled", "scheduled", "aggregated")
RATES = {"aggregation": 0.01, "aggregation-16": 0.005}  # the best of every mode
DURATION_S = 240  # long enough for unscheduled updates
WANTED = 2.0  # of aggregated against unscheduled
GRID_SEEDS = 2
ON_THE_WAY = (0.8, 0.85, 0.88)


def simulate(sim, name, *arguments):
    scenario = json.loads((ROOT / f"testbed/scenarios/{name}.json").read_text())
    scenario["duration_s"] = DURATION_S
    with tempfile.TemporaryDirectory(prefix="heddle-learning-") as folder:
        path, out = pathlib.Path(folder) / f"{name}.json", pathlib.Path(folder) / "runs.json"
        path.write_text(json.dumps(scenario))
        command = [sim, path, "--train", "--until-target", "--unchecked", "--mode", "all", "--json", out, *arguments]
        subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
        return json.loads(out.read_text())


def least_median_most(values, form="{:.1f}"):
    return " / ".join(form.format(v) for v in (min(values), statistics.median(values), max(values)))


def when(run, target):
    """Seconds and updates to an accuracy."""
    hit = measure.reached(run["evaluations"], target)
    return (hit["t"], hit["version"]) if hit else None


def show(name, records):
    of = {mode: {r["seed"]: r for r in records if r["mode"] == mode} for mode in MODES}
    target = records[0]["target_accuracy"]
    print(f"\n{name}: accuracy {target}; least / median / most over the seeds")
    for mode, runs in of.items():
        hits = [hit for hit in (when(r, target) for r in runs.values()) if hit]
        if not hits:
            print(f"{mode:12s} never")
            continue
        print(f"{mode:12s} rate {next(iter(runs.values()))['learning_rate']:g}, {len(hits)} of {len(runs)}: "
              f"{least_median_most([t for t, _ in hits])} s, "
              f"{least_median_most([u for _, u in hits], '{:.0f}')} updates, "
              f"{statistics.fmean(r['applied_per_s'] for r in runs.values()):.2f} applied/s, delay "
              f"{statistics.fmean(r['staleness']['mean'] for r in runs.values()):.1f} (variance "
              f"{statistics.fmean(r['staleness']['variance'] for r in runs.values()):.1f})")
    for mode in MODES[1:]:
        for accuracy in (*ON_THE_WAY, target):
            pairs = [(when(of["unscheduled"][s], accuracy), when(r, accuracy))
                     for s, r in of[mode].items() if s in of["unscheduled"]]
            ratios = [a[0] / b[0] for a, b in pairs if a and b]
            if ratios:
                print(f"{mode} sooner than unscheduled, {accuracy}: {least_median_most(ratios, '{:.2f}')}, mean "
                      f"{statistics.fmean(ratios):.2f}; seed by seed {' '.join(f'{x:.2f}' for x in ratios)}"
                      + (f" (wanted {WANTED:g})" if accuracy == target and mode == "aggregated" else ""))


def draw(results, out):
    from lab import plots  # takes a second to load
    figure, panels = plots.plt.subplots(1, len(results), figsize=(7 * len(results), 4.5), squeeze=False,
                                        layout="constrained")
    for axes, (name, records) in zip(panels[0], results.items()):
        plots.draw_accuracy(axes, {"job": {"target_accuracy": records[0]["target_accuracy"]}}, records)
        axes.set_title(name)
    out.mkdir(parents=True, exist_ok=True)
    print("picture:", *plots.save(figure, out, "learning"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sim", metavar="HEDDLE_SIM")
    parser.add_argument("--full", action="store_true", help="8 and 16 workers, five seeds, the learning rates' grid")
    parser.add_argument("--seeds", type=int, metavar="N", help="(full: 5; else 2)")
    parser.add_argument("--json", metavar="FILE", help="the list of runs")
    parser.add_argument("--read", metavar="FILE", action="append", default=[], help="show these runs; run nothing")
    parser.add_argument("--out", metavar="DIR", help="a picture of accuracy over time goes there")
    return parser.parse_args()


def main():
    options = parse()
    records = [record for path in options.read for record in json.loads(pathlib.Path(path).read_text())]
    if not options.read:
        for name, rate in RATES.items() if options.full else list(RATES.items())[:1]:
            how = ("--grid", "--grid-seeds", GRID_SEEDS) if options.full else ("--learning-rate", rate)
            records += simulate(options.sim, name, "--seeds", options.seeds or (5 if options.full else 2), *how)
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(records, indent=1) + "\n")
    results = {name: [r for r in records if r["scenario"] == name] for name in RATES}
    results = {name: found for name, found in results.items() if found}
    for name, found in results.items():
        show(name, found)
    if options.out:
        draw(results, pathlib.Path(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
