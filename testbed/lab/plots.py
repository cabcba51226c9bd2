# SPDX-License-Identifier: BSD-3-Clause
"""The pictures: transfers on each link over time, accuracy over time, the spread of the delay."""
import os
import pathlib
import statistics

os.environ.setdefault("MPLCONFIGDIR", "/tmp")
import matplotlib  # noqa: E402
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from .measure import SUM  # noqa: E402

COLORS = {"unscheduled": "#c44e52", "tcp-ps": "#8c8c8c", "scheduled": "#2a7ab9", "aggregated": "#3a923a",
          "ps-lite": "#8c8c8c", "ddp-gloo": "#dd8452", "ddp-heddle": "#8172b3", "heddle-sync": "#55a868"}
SHARED = "#222222"  # a sum, or a model for several workers
WINDOW_S = 6.0  # part of the run in the picture of the transfers
WINDOW_FROM_S = 8.0


def save(figure, out, name):
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    for path in paths:
        figure.savefig(path, dpi=110)
    plt.close(figure)
    return paths


def rows_of(network, workers):
    """Links from top to bottom: the server's two, the aggregators', the trunks', then each worker's two. And the number
    of shared ones."""
    hosts = [("s1", name) for name in (*network.servers, *network.aggregators)]
    shared = [link for a, b in [*hosts, *((b, a) for a, b in network.trunks)] for link in (f"{a}>{b}", f"{b}>{a}")]
    own = [link for i in range(workers) for link in (
        network.path(f"h{i + 1}", "ps")[0], network.path("ps", f"h{i + 1}")[-1])]
    return shared + own, len(shared)


def draw_transfers(axes, runner, workers, start):
    rows, shared = rows_of(runner.network, workers)
    palette = plt.get_cmap("tab20" if workers > 10 else "tab10")
    for transfer in runner.log.transfers():
        if transfer.end < start or transfer.start > start + WINDOW_S:
            continue
        color = SHARED if transfer.worker == SUM else palette(transfer.worker % palette.N)
        for link in runner.network.path(transfer.source, transfer.sink):
            axes.broken_barh([(transfer.start, transfer.end - transfer.start)], (rows.index(link) - 0.42, 0.84),
                             facecolor=color, alpha=0.6, linewidth=0)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(start, start + WINDOW_S)
    axes.set_xlabel("seconds")
    axes.axhline(shared - 0.5, color="black", linewidth=0.6)
    mark(axes, runner.failovers)


def mark(axes, failovers):
    """A dashed line when a server is killed, a solid one when its replica is promoted."""
    for failover in failovers:
        axes.axvline(failover["killed_s"], color="black", linewidth=0.9, linestyle=(0, (2, 2)))
        if failover["promoted_s"] is not None:
            axes.axvline(failover["promoted_s"], color="black", linewidth=0.9)


def window(runner):
    """The start of the pictures of transfers: around the first kill of a server, if there is one."""
    begin = runner.failovers[0]["killed_s"] - WINDOW_S / 3 if runner.failovers else WINDOW_FROM_S
    return max(0.0, min(begin, runner.seconds - WINDOW_S))


def links_picture(setting, runners, out):
    figure, panels = plt.subplots(1, len(runners), figsize=(5.2 * len(runners), 5.2), sharey=True, squeeze=False,
                                  layout="constrained")
    for axes, (mode, runner) in zip(panels[0], runners.items()):
        draw_transfers(axes, runner, setting["workers"], window(runner))
        axes.set_title(mode, color=COLORS[mode])
    figure.suptitle(f"{setting['name']}: transfers on each link (a colour is a worker, black a sum or a model for "
                    "several; darker: several at once)")
    return save(figure, out, f"{setting['name']}-links")


def draw_accuracy(axes, setting, records):
    labelled = set()
    for record in records:
        mode = record["mode"]
        smooth = [statistics.fmean(e["accuracy"] for e in record["evaluations"][max(0, i - 2):i + 1])
                  for i in range(len(record["evaluations"]))]
        axes.plot([e["t"] for e in record["evaluations"]], smooth, color=COLORS[mode], linewidth=1.4, alpha=0.8,
                  label=None if mode in labelled else mode)
        if record["time_to_accuracy_s"] is not None:
            axes.axvline(record["time_to_accuracy_s"], color=COLORS[mode], linewidth=0.8, linestyle=":")
        mark(axes, record.get("failovers", []))
        labelled.add(mode)
    axes.axhline(setting["job"]["target_accuracy"], color="black", linewidth=0.6, linestyle="--")
    axes.set_xlabel("seconds")
    axes.set_ylabel("test accuracy (mean of three evaluations)")
    axes.set_ylim(0, 1)
    axes.legend(loc="lower right")


def draw_staleness(axes, setting, records):
    names = [mode for mode in COLORS if any(r["mode"] == mode for r in records)]
    width = 0.8 / max(1, len(names))
    for index, mode in enumerate(names):
        counts = {}
        for record in records:
            if record["mode"] == mode:
                for delay, count in record["staleness_histogram"].items():
                    counts[int(delay)] = counts.get(int(delay), 0) + count
        total = sum(counts.values()) or 1
        axes.bar([d + (index - (len(names) - 1) / 2) * width for d in counts],
                 [c / total for c in counts.values()], width, color=COLORS[mode], label=mode)
    axes.axvline(setting["job"]["tau_max"] + 0.5, color="black", linewidth=0.6, linestyle="--")
    axes.set_xlabel("delay of an applied update (dashed: tau_max)")
    axes.set_ylabel("share of the updates")
    axes.legend(loc="upper right")


def single(setting, records, out, name, draw):
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    draw(axes, setting, records)
    axes.set_title(f"{setting['name']}: {setting['about']}", fontsize=9)
    return save(figure, out, f"{setting['name']}-{name}")


def overview(setting, runners, records, out):
    """All in one picture, as the README shows it."""
    figure = plt.figure(figsize=(15, 8.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.35, 1])
    panels = top.subplots(1, len(runners), sharey=True, squeeze=False)[0]
    for axes, (mode, runner) in zip(panels, runners.items()):
        draw_transfers(axes, runner, setting["workers"], window(runner))
        axes.set_title(f"{mode}: transfers on each link", color=COLORS[mode])
    left, right = bottom.subplots(1, 2)
    draw_accuracy(left, setting, records)
    draw_staleness(right, setting, records)
    return save(figure, out, f"{setting['name']}-overview")


def draw(setting, runners, records, out):
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    paths = links_picture(setting, runners, out)
    paths += single(setting, records, out, "accuracy", draw_accuracy)
    paths += single(setting, records, out, "staleness", draw_staleness)
    paths += overview(setting, runners, records, out)
    return [path for path in paths if path.suffix == ".png"]
