# SPDX-License-Identifier: BSD-3-Clause
"""The table of patterns: the result of each after the same number of gradients, and its cost."""
from market.report import spread

HEAD = ("pattern", "loss", "accuracy", "gradients", "updates", "time s", "pushed MB", "pulled MB", "lives", "worker-s",
        "cost", "")


def remark(runs):
    """Notes about a pattern."""
    said = []
    if runs[0]["budget_s"]:
        said.append(f"of {runs[0]['budget_s']:g} worker-s")
        said.append("workers " + ", ".join(str(n) for _, n in runs[0]["targets"]))
    if any(run["killed"] for run in runs):
        said.append(f"{sum(run['killed'] for run in runs)} killed")
    if runs[0]["kind"] == "short-lived":
        said.append(f"at most {max(run['peak_mb'] for run in runs):.0f} MB resident")
    if any(run["dropped"] for run in runs):
        said.append(f"{sum(run['dropped'] for run in runs)} dropped")
    return "; ".join(said)


def lines(records):
    rows = []
    for name in dict.fromkeys(r["pattern"] for r in records):
        own = [r for r in records if r["pattern"] == name]
        fields = (("loss", "{:.4f}"), ("accuracy", "{:.3f}"), ("gradients", "{:.0f}"), ("updates", "{:.0f}"),
                  ("time_s", "{:.1f}"), ("pushed_mb", "{:.2f}"), ("pulled_mb", "{:.2f}"), ("lives", "{:.0f}"),
                  ("worker_s", "{:.1f}"), ("cost", "{:.5f}"))
        rows.append([name, *(spread([r[field] for r in own], form) for field, form in fields), remark(own)])
    return rows


def table(settings, records, out):
    job = settings[0]["job"]
    print(f"{job['model']} on {job['data']}: {settings[0]['workers']} workers, {job['gradients']} gradients each, "
          f"batch {job['batch']}, {job['compute_ms']:g} ms each", file=out)
    rows = [HEAD, *lines(records)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip(), file=out)
