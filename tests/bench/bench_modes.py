#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scheduled against unscheduled in the simulator, with real training: commits a second, time to accuracy and the
variance of the delay over paired seeds, each mode at its own best learning rate of one grid.

Without --full: one setting, few seeds, the rates that --full stored."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "testbed"))
from lab import measure, scenario  # noqa: E402

RATES = ROOT / "testbed/sim/learning-rates.json"
SETTINGS = ("C1", "C2", "N1", "N2", "N3", "star")
MODES = ("scheduled", "unscheduled")
GAIN_IN, GAIN = ("N1", "N2", "C2"), 1.2  # ordering alone is to give this there
LOSS_MAX = 0.95  # and nowhere less than this
VARIANCE_MAX = 0.5
UPDATES_MIN = 200  # a target that is nearer says nothing
NEARER = (0.7, 0.8, 0.85, 0.88)  # earlier accuracies of the same runs: they show where a gain comes from or goes


def simulate(sim, setting, *arguments):
    with tempfile.TemporaryDirectory(prefix="heddle-modes-") as folder:
        out = pathlib.Path(folder) / "runs.json"
        command = [sim, ROOT / f"testbed/scenarios/{setting}.json", "--train", "--json", out, *arguments]
        subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, check=True)
        return json.loads(out.read_text())


def whole(sim, setting, seeds):
    """With a search of the learning rates, on other seeds than the measured ones."""
    records = simulate(sim, setting, "--mode", "both", "--seeds", seeds, "--grid")
    stored = json.loads(RATES.read_text()) if RATES.exists() else {}
    stored[setting] = {mode: next(r["learning_rate"] for r in records if r["mode"] == mode) for mode in MODES}
    RATES.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    return records


def short(sim, setting, seeds):
    stored = json.loads(RATES.read_text())[setting]
    return [record for mode in MODES
            for record in simulate(sim, setting, "--mode", mode, "--seeds", seeds, "--learning-rate", stored[mode])]


def spread(values, form="{:.2f}"):
    if not values:
        return "-"
    text = form.format(statistics.fmean(values))
    if len(values) > 1:
        text += " ± " + form.format(statistics.stdev(values))
    return text


def ratio(values):
    return spread(values) + (f" ({min(values):.2f}..{max(values):.2f})" if len(values) > 1 else "")


def compare(records):
    """The numbers of one setting, pair by pair."""
    of = {mode: {r["seed"]: r for r in records if r["mode"] == mode} for mode in MODES}
    seeds = sorted(of["scheduled"].keys() & of["unscheduled"].keys())
    pairs = [(of["scheduled"][s], of["unscheduled"][s]) for s in seeds]
    timed = [(a, b) for a, b in pairs if a["time_to_accuracy_s"] and b["time_to_accuracy_s"]]
    return {
        "rates": [pairs[0][i]["learning_rate"] for i in range(2)],
        "pairs": len(pairs), "timed": len(timed),
        "applied": [[pair[i]["applied_per_s"] for pair in pairs] for i in range(2)],
        "applied_ratio": [a["applied_per_s"] / b["applied_per_s"] for a, b in pairs],
        "time": [[pair[i]["time_to_accuracy_s"] for pair in timed] for i in range(2)],
        "updates": [[pair[i]["updates_to_accuracy"] for pair in timed] for i in range(2)],
        "time_ratio": [b["time_to_accuracy_s"] / a["time_to_accuracy_s"] for a, b in timed],
        "variance": [statistics.fmean(pair[i]["staleness"]["variance"] for pair in pairs) for i in range(2)],
        "delay": [statistics.fmean(pair[i]["staleness"]["mean"] for pair in pairs) for i in range(2)],
        "final": [statistics.fmean(pair[i]["final_accuracy"] for pair in pairs) for i in range(2)]}


def judge(setting, found):
    """The results that miss their targets, as text."""
    wanted = GAIN if setting in GAIN_IN else LOSS_MAX
    missed = []
    for what, values in (("commits/s", found["applied_ratio"]), ("time to accuracy", found["time_ratio"])):
        if values and statistics.fmean(values) < wanted:
            missed.append(f"{what} x{statistics.fmean(values):.3f}, wanted {wanted:g}")
    if found["timed"] < found["pairs"]:
        missed.append(f"the target was reached by both in {found['timed']} of {found['pairs']} pairs")
    if found["variance"][0] > VARIANCE_MAX * found["variance"][1]:
        missed.append(f"variance x{found['variance'][0] / found['variance'][1]:.2f}, wanted {VARIANCE_MAX:g}")
    if any(updates < UPDATES_MIN for side in found["updates"] for updates in side):
        missed.append(f"a target nearer than {UPDATES_MIN} updates")
    return missed


def on_the_way(records, target):
    """How much sooner, and with how many times the updates, the scheduled run of each pair has an accuracy."""
    hits = {(r["mode"], r["seed"]): measure.reached(r["evaluations"], target) for r in records}
    pairs = [(hits["scheduled", seed], hits.get(("unscheduled", seed))) for mode, seed in hits if mode == "scheduled"]
    pairs = [(a, b) for a, b in pairs if a and b and a["version"]]
    return [b["t"] / a["t"] for a, b in pairs], [a["version"] / b["version"] for a, b in pairs]


COLUMNS = ("setting", "pairs", "rates", "applied/s", "ratio", "time to accuracy s", "sooner by", "updates to it",
           "delay", "variance", "final accuracy")


def row(setting, found):
    def both(values, form="{:.2f}"):
        return " / ".join(spread(v, form) for v in values)

    return (setting, str(found["pairs"]), "{:g} / {:g}".format(*found["rates"]), both(found["applied"]),
            ratio(found["applied_ratio"]), both(found["time"], "{:.1f}"), ratio(found["time_ratio"]),
            both(found["updates"], "{:.0f}"), "{:.1f} / {:.1f}".format(*found["delay"]),
            "{:.2f} / {:.2f}".format(*found["variance"]), "{:.3f} / {:.3f}".format(*found["final"]))


def table(results):
    rows = [COLUMNS] + [row(setting, compare(records)) for setting, records in results.items()]
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    print("\nscheduled / unscheduled; mean ± standard deviation over the seeds; ratios seed by seed (least..most)")
    for r in rows:
        print("  ".join(text.ljust(width) for text, width in zip(r, widths)).rstrip())
    for setting, records in results.items():
        missed = judge(setting, compare(records))
        print(f"{setting}: " + ("as wanted" if not missed else "; ".join(missed)))
    print("\nother accuracies of the same runs: sooner by; updates, scheduled over unscheduled")
    for setting, records in results.items():
        cells = []
        for target in (*NEARER, records[0]["target_accuracy"]):
            sooner, updates = on_the_way(records, target)
            cells.append(f"{target:g}: {spread(sooner)}; {spread(updates)}")
        print(f"{setting}: " + " | ".join(cells))


def draw(results, out):
    from lab import plots  # takes a second to load
    figure, panels = plots.plt.subplots(2, 3, figsize=(15, 8), squeeze=False, layout="constrained")
    for axes, (setting, records) in zip(panels.flat, results.items()):
        loaded = scenario.load(setting)
        plots.draw_accuracy(axes, loaded, records)
        axes.set_title(f"{setting}: {loaded['about']}", fontsize=9)
    for axes in list(panels.flat)[len(results):]:
        axes.set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    print("picture:", *plots.save(figure, out, "modes"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sim", metavar="HEDDLE_SIM")
    parser.add_argument("--full", action="store_true", help="every setting, five seeds, and the learning rates' grid")
    parser.add_argument("--settings", metavar="S,...", help=f"of {', '.join(SETTINGS)} (full: all; else N2)")
    parser.add_argument("--seeds", type=int, metavar="N", help="pairs (full: 5; else 2)")
    parser.add_argument("--json", metavar="FILE", help="the list of runs")
    parser.add_argument("--read", metavar="FILE", action="append", default=[], help="show these runs; run nothing")
    parser.add_argument("--out", metavar="DIR", help="a picture of accuracy over time goes there")
    options = parser.parse_args()
    options.settings = options.settings.split(",") if options.settings else SETTINGS if options.full else ("N2",)
    for setting in options.settings:
        if setting not in SETTINGS:
            parser.error(f"--settings: {setting}: not one of {', '.join(SETTINGS)}")
    return options


def main():
    options = parse()
    records = [record for path in options.read for record in json.loads(pathlib.Path(path).read_text())]
    if not options.read:
        work = whole if options.full else short
        for setting in options.settings:
            records += work(options.sim, setting, options.seeds or (5 if options.full else 2))
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(records, indent=1) + "\n")
    results = {setting: [r for r in records if r["scenario"] == setting] for setting in SETTINGS}
    results = {setting: found for setting, found in results.items() if found}
    table(results)
    if options.out:
        draw(results, pathlib.Path(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
