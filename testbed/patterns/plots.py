# SPDX-License-Identifier: BSD-3-Clause
"""Test loss of each pattern over time and over cost, in one picture."""
import os
import pathlib

os.environ.setdefault("MPLCONFIGDIR", "/tmp")
import matplotlib  # noqa: E402
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def draw(records, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(record["pattern"] for record in records))
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained")
    for axes, over, label in zip(panels, ("t", "cost"), ("seconds", "cost, $")):
        done = set()
        for record in records:
            name = record["pattern"]
            axes.plot([e[over] for e in record["curve"]], [e["loss"] for e in record["curve"]], linewidth=1.3,
                      alpha=0.8, color=plt.get_cmap("tab10")(names.index(name) % 10),
                      label=None if name in done else name)
            done.add(name)
        axes.set_xlabel(label)
        axes.set_xlim(0, None)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test loss")
    panels[1].legend(fontsize=8)
    path = out / "patterns.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
