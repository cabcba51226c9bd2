# SPDX-License-Identifier: BSD-3-Clause
"""Pictures like Zhang et al.'s Figures 4 to 10: accuracy over cost and over time, workers and price."""
import os
import pathlib

os.environ.setdefault("MPLCONFIGDIR", "/tmp")
import matplotlib  # noqa: E402
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def color(names, name):
    return plt.get_cmap("tab10")(names.index(name) % 10)


def curves(setting, records, names, axes, over, label):
    done, job, what = set(), setting["job"], wanted(setting)
    for record in records:
        name, points = record["strategy"], record["curve"]
        smooth = [sum(e[what] for e in points[max(0, i - 2):i + 1]) / len(points[max(0, i - 2):i + 1])
                  for i in range(len(points))]
        axes.plot([e[over] for e in points], smooth, color=color(names, name), linewidth=1.3, alpha=0.8,
                  label=None if name in done else name)
        done.add(name)
    axes.axhline(job[f"target_{what}"], color="black", linewidth=0.6, linestyle="--")
    axes.set_xlabel(label)
    axes.set_ylabel(f"test {what} (mean of three evaluations)")
    if what == "accuracy":
        axes.set_ylim(0, 1)
    else:
        axes.set_yscale("log")
    axes.legend(loc="lower right" if what == "accuracy" else "upper right")


def wanted(setting):
    """The target of the runs: accuracy or loss."""
    return "accuracy" if setting["job"]["target_loss"] is None else "loss"


def firsts_of(records):
    """The first run of each strategy."""
    return list({record["strategy"]: record for record in reversed(records)}.values())[::-1]


def machines(figure, records, names):
    """One panel for each strategy, from its first run: its workers over time, the owner's target, and the market's
    price."""
    firsts = firsts_of(records)
    panels = figure.subplots(len(firsts), 1, sharex=True, squeeze=False)
    for axes, record in zip(panels[:, 0], firsts):
        times, counts = zip(*record["workers"])
        axes.fill_between(times, counts, step="post", color=color(names, record["strategy"]), alpha=0.5)
        if record["targets"]:
            points = [[t, count] for t, count, _ in record["targets"]] + [[times[-1], record["targets"][-1][1]]]
            axes.step(*zip(*points), where="post", color=color(names, record["strategy"]), linewidth=1)
        axes.set_ylabel("workers")
        axes.set_ylim(0, None)
        axes.set_title(record["strategy"], fontsize=9)
        price = axes.twinx()
        price.step([i * record["slot_s"] for i in range(len(record["prices"]))], record["prices"], where="post",
                   color="black", linewidth=0.8)
        price.set_ylabel("price")
        price.set_ylim(0, None)
    panels[-1, 0].set_xlabel("seconds")


def overview(setting, records, names):
    """All in one picture."""
    figure = plt.figure(figsize=(13, max(6.5, 1.3 * len(names))), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
    for axes, (over, label) in zip(left.subplots(2, 1), (("cost", "cost"), ("t", "seconds"))):
        curves(setting, records, names, axes, over, label)
    machines(right, records, names)
    figure.suptitle(f"{setting['name']}: {wanted(setting)} over cost and time; workers and price", fontsize=10)
    return figure


def draw(setting, records, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(record["strategy"] for record in records))
    made = []
    what = wanted(setting)
    for name, over, label in (("cost", "cost", "cost"), ("time", "t", "seconds")):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        curves(setting, records, names, axes, over, label)
        axes.set_title(f"{setting['name']}: {what} over {name}", fontsize=9)
        made.append((figure, f"{setting['name']}-{what}-{name}"))
    count = len(firsts_of(records))
    figure = plt.figure(figsize=(8, 1.7 * count + 0.6), layout="constrained")
    machines(figure, records, names)
    made.append((figure, f"{setting['name']}-workers"))
    made.append((overview(setting, records, names), setting["name"]))
    paths = []
    for figure, name in made:
        paths.append(out / f"{name}.png")
        figure.savefig(paths[-1], dpi=110)
        plt.close(figure)
    return paths
