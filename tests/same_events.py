#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether two builds do the same in the simulator's worlds: every event of every node (kind, transfer, version,
virtual time), for the same seeds. A node's events of one instant may come in any order. For changes that must
change nothing.

    tests/same_events.py BEFORE AFTER [--seeds N] [--first F] [--worlds W,...] [--jobs J] [--names FILE]

BEFORE and AFTER are build folders (meson setup -Dtests=enabled, ninja). Says of each world how many simulations were
the same, and of the first that was not, the first events that differ. --names: a table "old new" of words that have
other names in AFTER.
Exit status 1: something differs.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import seeds

BLOCK = 10  # seeds of one process
PATIENCE_S = 1200  # against a hang
LINES_SHOWN = 5
# The switch's property test drives executors, not nodes: what it says must be the same.
WORLDS = seeds.WORLDS


def play(build, name, first, count, folder, lines_of=None):
    """(What each simulation said at its end, what the program said, lines of the one that is asked for)"""
    world = WORLDS[name]
    with tempfile.NamedTemporaryFile("r", dir=folder) as log:
        env = {**os.environ, "HEDDLE_SIM_FIRST": str(first), "HEDDLE_SIM_SEEDS": str(count),
               "HEDDLE_EVENT_LOG": log.name}
        if lines_of is not None:
            env["HEDDLE_EVENT_LINES"] = str(lines_of)
        words = [word.format(first=first, count=count) for word in world.words]
        done = subprocess.run([str(build / world.program), *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=PATIENCE_S, check=False, env=env)
        said = log.read().splitlines()
    sims = [line for line in said if line.startswith("sim ")]
    # Of the all-reduces' and the switch's worlds the numbers at the end are of what happened; times are not.
    output = [line.rsplit("; ", 1)[0] for line in done.stdout.splitlines()] if "seeds" in "".join(words) else []
    return sims, [f"status {done.returncode}", *output], [line for line in said if not line.startswith("sim ")]


def renamed(lines, names):
    return [" ".join(names.get(word, word) for word in line.split(" ")) for line in lines]


def in_order(lines):
    """By time, then by node; what one node says at one instant sorted."""
    return sorted(lines, key=lambda line: (int(line.split(" ", 1)[0]), line))


def first_difference(before, after):
    """Index of the first line that differs; None: one is the other's beginning, or they are equal."""
    for index, (a, b) in enumerate(zip(before, after)):
        if a != b:
            return index
    return None if len(before) == len(after) else min(len(before), len(after))


def explain(options, name, first, count, index, folder):
    before, after = (in_order(renamed(play(build, name, first, count, folder, index)[2], names))
                     for build, names in ((options.before, options.names), (options.after, {})))
    at = first_difference(before, after)
    if at is None:
        return ["the same events in this order: the digest differs"]
    return [f"   {side} {line}" for side, lines in (("before:", before), ("after: ", after))
            for line in lines[at:at + LINES_SHOWN]]


def compare(options, name, first, count, folder):
    """(simulations, None or what differs)"""
    before, after = (play(build, name, first, count, folder) for build in (options.before, options.after))
    if not before[0] and name != "switch":
        return 0, [f"{options.before / WORLDS[name].program} logs no events: is it built with tests/sim/event_log.c?"]
    at = first_difference(before[0], after[0])
    if at is not None:
        return len(before[0]), [f"{name}, seeds from {first}, simulation {at}:",
                                *explain(options, name, first, count, at, folder)]
    if before[1] != after[1]:
        return len(before[0]), [f"{name}, seeds from {first}:", *before[1], *after[1]]
    return len(before[0]), None


def run_world(options, name, folder):
    blocks = [(at, min(BLOCK, options.first + options.seeds - at))
              for at in range(options.first, options.first + options.seeds, BLOCK)]
    total, bad = 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for sims, what in pool.map(lambda block: compare(options, name, *block, folder), blocks):
            total += sims
            bad += what is not None
            if what and bad == 1:
                print("\n".join(what), flush=True)
    print(f"{name:10} {options.seeds} seeds, {total} simulations" + (f", {bad} blocks differ" if bad else ": the same"),
          flush=True)
    return bad == 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path = lambda text: pathlib.Path(text).resolve()  # noqa: E731
    parser.add_argument("before", type=path)
    parser.add_argument("after", type=path)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="of each world (200)")
    parser.add_argument("--first", type=int, default=1, metavar="F")
    parser.add_argument("--worlds", type=lambda text: text.split(","), default=list(WORLDS), metavar="W,...")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="J")
    parser.add_argument("--names", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    for name in options.worlds:
        if name not in WORLDS:
            parser.error(f"--worlds: {name}: not one of {', '.join(WORLDS)}")
    rows = options.names.read_text(encoding="utf-8").split("\n") if options.names else []
    options.names = dict(row.split() for row in rows if row.strip())
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="heddle-events-") as folder:
        same = [run_world(options, name, folder) for name in options.worlds]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
