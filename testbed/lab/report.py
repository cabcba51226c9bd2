# SPDX-License-Identifier: BSD-3-Clause
"""The demo's output: a headline, one line for each run, a table."""
import collections
import re
import statistics


SWITCH_COUNTERS = ("completed", "absorbed", "repeated", "answered", "copies", "forwarded")


def aggregators(setting):
    if not setting["aggregators"]:
        return ""
    return f", {setting['aggregators']} aggregators at {setting['aggregator_link_mbps']:.4g} Mbit/s"


def headline(setting, todo, slower=1):
    job = setting["job"]
    print(f"== scenario {setting['name']}: {setting['about']}")
    if slower > 1:
        print(f"   {slower:g} times slower in every mode (links, computing, what happens when), so that the processors "
              "are not the limit: --slower")
    print(f"   {setting['workers']} workers at {setting['link_mbps']:.4g} Mbit/s, server at "
          f"{setting['server_link_mbps']:.4g} Mbit/s{aggregators(setting)}; {job['model']} {job['hidden']}, "
          f"a gradient step lasts {job['compute_ms']:g} ms; bound on the delay {job['tau_max']}")
    seconds = len(todo) * (setting["duration_s"] + 3)
    print(f"   {len(todo)} runs to test accuracy {job['target_accuracy']}, at most {seconds / 60:.1f} minutes",
          flush=True)


def show(value, form="{:.1f}", none="-"):
    return none if value is None else form.format(value)


def processors(seconds):
    """Processor time of programs, workers and tenants summed up. The kernel's time in interrupts is not included."""
    kinds = collections.Counter()
    for name, taken in seconds.items():
        together = re.fullmatch(r"(w[0-9]+)|tenant.*", name)
        kinds[("workers" if together[1] else "tenants") if together else name] += taken
    return ", ".join(f"{kind} {taken:.1f}" for kind, taken in kinds.items())


def line(record):
    print(f"   {record['mode']}: accuracy {record['target_accuracy']} after "
          f"{show(record['time_to_accuracy_s'], '{:.1f} s', 'never')}, {record['applied']} of {record['pushed']} "
          f"pushes applied ({record['applied_per_s']:.1f}/s), {record['dropped']} dropped, "
          f"{record['failed']} failed", flush=True)
    for failover in record["failovers"]:
        if failover["heir"]:
            print(f"   {failover['killed']} killed at {failover['killed_s']:.1f} s: {failover['heir']} is the server "
                  f"from {failover['promoted_s']:.1f} s on, at version {failover['version']} "
                  f"({failover['rolled_back']} commits not taken over), at most {failover['divergence']:.3g} away "
                  f"(bound {show(record['div_max'] or None, '{:g}', 'none')})", flush=True)
    for name, shown in record["switches"].items():
        print(f"   {name}: " + ", ".join(f"{counter} {shown[counter]}" for counter in SWITCH_COUNTERS), flush=True)
    print(f"   processor seconds: {processors(record['processor_s'])}", flush=True)
    for problem in record["problems"]:
        print(f"   !! {problem}", flush=True)


def of_failovers(record, value):
    """The maximum over a run's failovers."""
    return max((value(f) for f in record["failovers"] if f["heir"]), default=None)


OF_FAILOVERS = ("no server s", "away", "of at most")
COLUMNS = (
    ("mode", "{}", lambda r: r["mode"]),
    ("rate", "{:g}", lambda r: r["learning_rate"]),
    ("time to accuracy s", "{:.1f}", lambda r: r["time_to_accuracy_s"]),
    ("updates to it", "{:.0f}", lambda r: r["updates_to_accuracy"]),
    ("applied/s", "{:.2f}", lambda r: r["applied_per_s"]),
    ("pushed", "{:.0f}", lambda r: r["pushed"]),
    ("dropped", "{:.0f}", lambda r: r["dropped"]),
    ("failed", "{:.0f}", lambda r: r["failed"]),
    ("delay mean", "{:.2f}", lambda r: r["staleness"]["mean"]),
    ("var", "{:.2f}", lambda r: r["staleness"]["variance"]),
    ("max", "{:.0f}", lambda r: r["staleness"]["max"]),
    ("granted %", "{:.0f}", lambda r: 100 * r["granted_bytes"] / max(1, r["granted_bytes"] + r["direct_bytes"])),
    ("grouped %", "{:.0f}", lambda r: 100 * r["grouped"] / r["applied"] if r["applied"] else None),
    ("group size", "{:.2f}", lambda r: r["grouped"] / r["sums"] if r["sums"] else None),
    ("server MB/update", "{:.2f}", lambda r: r["server_link_bytes"] / 1e6 / r["applied"] if r["applied"] else None),
    ("est. error", "{:.2f}", lambda r: r["estimate_error"]),
    ("no server s", "{:.2f}", lambda r: of_failovers(r, lambda f: f["promoted_s"] - f["killed_s"])),
    ("away", "{:.3g}", lambda r: of_failovers(r, lambda f: f["divergence"])),
    ("of at most", "{:g}", lambda r: r["div_max"] or None),
    ("cpu %", "{:.0f}", lambda r: 100 * r["cpu"]),
    ("machine %", "{:.0f}", lambda r: 100 * r["machine"]),
    ("valid", "{}", lambda r: "yes" if r["valid"] else "NO"),
)


def cell(form, values):
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    if isinstance(known[0], str):
        return known[0] if len(set(known)) == 1 else "some"
    text = form.format(statistics.median(known))
    if len(known) > 1 and min(known) != max(known):
        text += f" ({form.format(min(known))}..{form.format(max(known))})"
    return text + ("*" if len(known) < len(values) else "")


def table(records, columns=COLUMNS):
    if not any(record["failovers"] for record in records):
        columns = [column for column in columns if column[0] not in OF_FAILOVERS]
    rows = [[name for name, _, _ in columns]]
    for mode in dict.fromkeys(r["mode"] for r in records):
        mine = [r for r in records if r["mode"] == mode]
        rows.append([cell(form, [get(r) for r in mine]) for _, form, get in columns])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    print()
    for row in rows:
        print("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                        for i, (text, width) in enumerate(zip(row, widths))))
    if len(records) > len(rows) - 1:
        print("median (least..most) of the runs; * some runs have no value")
    print(flush=True)
