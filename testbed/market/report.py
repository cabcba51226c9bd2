# SPDX-License-Identifier: BSD-3-Clause
"""The table of a market's strategies: the cost and time of each for the same accuracy."""
import math
import statistics

REFERENCE = "uninterrupted"


def spread(values, form):
    """Mean and standard deviation; of one value the value."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    if len(values) == 1:
        return form.format(values[0])
    return f"{form.format(statistics.fmean(values))} +- {form.format(statistics.stdev(values))}"


def ratios(records, name, field):
    """A strategy's field divided by that of the first uninterrupted one, seed by seed, where both reach the
    accuracy."""
    first = next((r["strategy"] for r in records if r["kind"] == REFERENCE), None)
    base = {r["seed"]: r for r in records if r["strategy"] == first and r["reached"]}
    return [r[field] / base[r["seed"]][field] for r in records
            if r["strategy"] == name and r["reached"] and r["seed"] in base and base[r["seed"]][field] > 0]


def summary(records):
    rows = []
    for name in dict.fromkeys(r["strategy"] for r in records):
        own = [r for r in records if r["strategy"] == name]
        there = [r for r in own if r["reached"]]
        costs = ratios(records, name, "cost")
        rows.append({
            "strategy": name, "runs": len(own), "reached": len(there),
            "accuracy": statistics.fmean(r["accuracy"] or 0 for r in own),
            "cost": [r["cost"] for r in there], "time_s": [r["time_s"] for r in there],
            "steps": [r["steps"] for r in there], "mean_workers": [r["mean_workers"] for r in own],
            "noticed": sum(r["noticed"] for r in own), "killed": sum(r["killed"] for r in own),
            "unanswered": sum(r.get("unanswered", 0) for r in own),
            "next_step_s": max((r["next_step_s"] for r in own if r["next_step_s"] is not None), default=None),
            "cost_ratio": costs, "time_ratio": ratios(records, name, "time_s"),
            "cost_ratio_geomean": math.exp(statistics.fmean(map(math.log, costs))) if costs else None})
    return rows


def wanted(job):
    """The target of a run, as text."""
    if job["target_loss"] is not None:
        return f"test loss {job['target_loss']:g}"
    return f"test accuracy {job['target_accuracy']:g}"


def table(setting, records):
    rows = summary(records)
    base = next((r["strategy"] for r in records if r["kind"] == REFERENCE), REFERENCE)
    head = ("strategy", "reached", "cost", f"of {base}", "time s", "steps", "workers", "notices", "killed",
            "next step s")
    lines = [[row["strategy"], f"{row['reached']}/{row['runs']}", spread(row["cost"], "{:.3f}"),
              spread(row["cost_ratio"], "{:.2f}"), spread(row["time_s"], "{:.1f}"), spread(row["steps"], "{:.0f}"),
              spread(row["mean_workers"], "{:.1f}"), str(row["noticed"]), str(row["killed"]),
              "-" if row["next_step_s"] is None else f"{row['next_step_s']:.2f}"] for row in rows]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    print(f"{setting['name']}: to {wanted(setting['job'])} (mean of three evaluations)")
    for line in [head, *lines]:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip())
    for row in rows:
        if row["unanswered"]:
            print(f"{row['strategy']}: heddlectl had no answer {row['unanswered']} times, and asked again")
