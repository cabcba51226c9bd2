#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/benchmarks/collectives.md, from what bench_collectives.py --json wrote.

    tests/netns/collectives_table.py [--short] FILE...

Times in ms, the medians of the runs' medians; behind Heddle's, its multiple of the floor. Bold: below 0.97 of the best
peer. --short: of 4 KiB and of barriers, with the 99th percentile; without, of all other sizes.
"""
import argparse
import json
import pathlib
import statistics

NAMES = {"heddle": "Heddle", "gloo": "Gloo", "mpi": "Open MPI"}
SHORT = 4 << 10  # bytes
WANTED = 0.97


def median(mode, key="median_ms"):
    return statistics.median(mode[key])


def number(ms):
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 1 else f"{ms:.2f}" if ms >= 0.1 else f"{ms:.3f}"


def bytes_of(size):
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size >> 10} KiB"


def best_of(modes):
    """The best peer's time in units of Heddle's. (By the network on one host: no peer, and not in the tables.)"""
    ratio = min(median(row) for mode, row in modes.items() if mode in NAMES and mode != "heddle") / median(
        modes["heddle"])
    return f"{ratio:.2f}" if ratio >= WANTED else f"**{ratio:.2f}**"


def line(*cells):
    print("| " + " | ".join(cells) + " |")


def head(*cells):
    line(*cells)
    print("|---" * len(cells) + "|")


def long_table(rows):
    head("", "bytes", "floor", *NAMES.values(), "best peer / Heddle")
    for row in rows:
        modes, floor = row["modes"], row["floor_ms"]
        cells = {mode: number(median(modes[mode])) if mode in modes else "-" for mode in NAMES}
        if floor:
            times = median(modes["heddle"]) / floor
            cells["heddle"] += f" ({times:.2f})" if times < 10 else f" ({times:.0f})"
        line(row["collective"], bytes_of(row["bytes"]), number(floor) if floor else "-", *cells.values(),
             best_of(modes))


def short_table(rows):
    head("", "n", *NAMES.values(), "best peer / Heddle")
    for row in rows:
        modes, barrier = row["modes"], row["collective"] == "barrier"
        cells = [f"{median(modes[mode]):.2f} ({median(modes[mode], 'p99_ms'):.1f})" if mode in modes else "-"
                 for mode in NAMES]
        line(row["collective"] + ("" if barrier else f", {bytes_of(row['bytes'])}"), str(row["workers"]), *cells,
             best_of(modes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    o = parser.parse_args()
    rows = [row for file in o.files for row in json.loads(file.read_text())]
    if o.short:
        short_table([row for row in rows if row["bytes"] == SHORT])
        return
    for count in sorted({row["workers"] for row in rows}):
        print(f"{count} workers:\n")
        long_table([row for row in rows
                    if row["workers"] == count and row["bytes"] > SHORT and row["collective"] != "barrier"])
        print()


if __name__ == "__main__":
    main()
