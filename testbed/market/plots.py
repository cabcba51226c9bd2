# SPDX-License-Identifier: BSD-3-Clause
"""Pictures in the manner of Zhang et al.'s Figures 4 to 10: accuracy over cost and over time, workers and price."""
import os
import pathlib

os.environ.setdefault("MPLCONFIGDIR", "/tmp")
import matplotlib  # noqa: E402
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def color(names, name):
    return plt.get_cmap("tab10")(names.index(name) % 10)


def curves(setting, records, names, axes, over, label):
    done, job = set(), setting["job"]
    what = "accuracy" if job["target_loss"] is None else "loss"
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


def machines(records, names):
    """A panel a strategy: its workers over time, and the market's price."""
    firsts = list({record["strategy"]: record for record in reversed(records)}.values())[::-1]
    figure, panels = plt.subplots(len(firsts), 1, figsize=(8, 1.7 * len(firsts) + 0.6), sharex=True, squeeze=False,
                                  layout="constrained")
    for axes, record in zip(panels[:, 0], firsts):
        times, counts = zip(*record["workers"])
        axes.fill_between(times, counts, step="post", color=color(names, record["strategy"]), alpha=0.5)
        axes.set_ylabel("workers")
        axes.set_ylim(0, None)
        axes.set_title(record["strategy"], fontsize=9)
        price = axes.twinx()
        price.step([i * record["slot_s"] for i in range(len(record["prices"]))], record["prices"], where="post",
                   color="black", linewidth=0.8)
        price.set_ylabel("price")
        price.set_ylim(0, None)
    panels[-1, 0].set_xlabel("seconds")
    return figure


def draw(setting, records, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(record["strategy"] for record in records))
    made = []
    what = "accuracy" if setting["job"]["target_loss"] is None else "loss"
    for name, over, label in (("cost", "cost", "cost"), ("time", "t", "seconds")):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        curves(setting, records, names, axes, over, label)
        axes.set_title(f"{setting['name']}: {what} over {name}", fontsize=9)
        made.append((figure, f"{setting['name']}-{what}-{name}"))
    made.append((machines(records, names), f"{setting['name']}-workers"))
    paths = []
    for figure, name in made:
        paths.append(out / f"{name}.png")
        figure.savefig(paths[-1], dpi=110)
        plt.close(figure)
    return paths
