#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random seeds on demand: the next N of every world of the simulator.

    tests/run seeds N [--first F] [--worlds W,...] [--jobs J] [--minutes M]
    tests/seeds.py BUILD N [...]         in a tree that is built

A world is a test program that draws a cluster, its load and its faults from a seed and checks every invariant. The
worlds take turns, a block of seeds at a time, so that a run that is ended (--minutes, ctrl-C) has seen about as many
of each. Says how far it is, each bad seed with the command that replays it, and at the end how many of each world were
run. Exit status 1: some were bad.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

BLOCK = 25  # below what a world takes for enough to have seen something of everything
BLOCK_PATIENCE_S = 1200  # against a hang
PROGRESS_S = 10
SAID_MAX = 3  # bad seeds of a world that are told as they come

# program, its words, what it says of a bad seed (group 1), how to replay it. Seeds: HEDDLE_SIM_FIRST and
# HEDDLE_SIM_SEEDS, and --first and --seeds in the words.
World = collections.namedtuple("World", "program words bad replay")
RANDOM = "testbed/heddle-sim --random --seed {seed} --trace FILE"
ENVIRONMENT = "HEDDLE_SIM_FIRST={seed} HEDDLE_SIM_SEEDS=1 {program}"
SEED = r"\bseed (\d+): (.*)"
WORLDS = {
    "cluster": World("tests/sim/test_seeds", [], SEED, RANDOM),
    "hard": World("tests/sim/test_seeds", ["hard"], SEED, RANDOM),
    "groups": World("tests/sim/test_seeds", ["groups"], SEED, RANDOM),
    "sums": World("tests/sim/test_groups", [], SEED, ENVIRONMENT),
    "replica": World("tests/sim/test_replica_sim", [], SEED, ENVIRONMENT),
    "filter": World("tests/sim/test_filtered", [], SEED, ENVIRONMENT),
    "sync": World("tests/sim/test_sync", [], SEED, ENVIRONMENT),
    "allreduce": World("tests/sim/test_allreduce", ["--first", "{first}", "--seeds", "{count}"], SEED,
                       "{program} --first {seed} --seeds 1"),
    "state": World("tests/sim/test_state", ["--first", "{first}", "--seeds", "{count}"], SEED,
                   "{program} --first {seed} --seeds 1"),
    "switch": World("tests/golden/switch/switch_property", ["--first", "{first}", "--seeds", "{count}"], SEED,
                    "{program} --first {seed} --seeds 1"),
}


class Count:
    def __init__(self):
        self.seeds = self.blocks_broken = 0
        self.bad = []
        self.seconds = 0.0


def run_program(build, world, first, count):
    """([(seed, what)], what broke beyond seeds or None)"""
    words = [word.format(first=first, count=count) for word in world.words]
    try:
        done = subprocess.run([str(build / world.program), *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=BLOCK_PATIENCE_S, check=False,
                              env={**os.environ, "HEDDLE_SIM_FIRST": str(first), "HEDDLE_SIM_SEEDS": str(count)})
        text, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        text, status = f"no end within {BLOCK_PATIENCE_S} s", -1
    found = [(int(seed), what) for seed, what in dict(re.findall(world.bad, text)).items()]
    broken = None
    if status != 0 and not found:
        lines = text.strip().splitlines() or ["nothing said"]
        broken = f"status {status}: {lines[-1]}"
    return sorted(found), broken


def run_block(build, name, first, count):
    """(seconds, [(seed, what)], what broke beyond seeds or None)"""
    bad, broken, end = {}, None, first + count
    began = time.monotonic()
    while first < end and not broken:
        # Some programs end with the first bad seed, one of several tests at a time: the rest is run after it.
        found, broken = run_program(build, WORLDS[name], first, end - first)
        new = [(seed, what) for seed, what in found if seed not in bad]
        bad.update(new)
        first = min((seed for seed, _ in found if seed >= first), default=end) + 1
    return time.monotonic() - began, sorted(bad.items()), broken


def blocks(worlds, first, count):
    for at in range(first, first + count, BLOCK):
        for name in worlds:
            yield name, at, min(BLOCK, first + count - at)


def note(counts, build, block, result):
    name, first, count = block
    world, mine = WORLDS[name], counts[name]
    seconds, bad, broken = result
    mine.seeds += count
    mine.seconds += seconds
    program = " ".join([str(build / world.program), *(w for w in world.words if "{" not in w and "--" not in w)])
    for seed, what in bad:
        mine.bad.append(seed)
        if len(mine.bad) <= SAID_MAX:
            replay = world.replay.format(seed=seed, program=program)
            replay = replay if replay.startswith(("HEDDLE", str(build))) else f"{build}/{replay}"
            print(f"BAD {name}, seed {seed}: {what}\n   replay: {replay}", flush=True)
    if broken:
        mine.blocks_broken += 1
        print(f"BAD {name}, seeds {first}..{first + count - 1}: {broken}\n   replay: "
              f"HEDDLE_SIM_FIRST={first} HEDDLE_SIM_SEEDS={count} {program}", flush=True)


def run_all(options, counts):
    todo = blocks(options.worlds, options.first, options.count)
    began = told = time.monotonic()
    ends = began + 60 * options.minutes if options.minutes else float("inf")
    total, running = options.count * len(options.worlds), {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            while True:
                while len(running) < options.jobs and time.monotonic() < ends:
                    block = next(todo, None)
                    if block is None:
                        break
                    running[pool.submit(run_block, options.build, *block)] = block
                if not running:
                    return
                for future in concurrent.futures.wait(running, timeout=1, return_when="FIRST_COMPLETED")[0]:
                    note(counts, options.build, running.pop(future), future.result())
                if time.monotonic() - told >= PROGRESS_S:
                    told = time.monotonic()
                    done = sum(c.seeds for c in counts.values())
                    bad = sum(len(c.bad) + c.blocks_broken for c in counts.values())
                    print(f"== [{told - began:5.0f} s] {done} of {total} seeds, {bad} bad", flush=True)
        except KeyboardInterrupt:
            print("interrupted: running seeds end first", flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run seeds", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve(), help=argparse.SUPPRESS)
    parser.add_argument("count", type=int, metavar="N", help="seeds of each world")
    parser.add_argument("--first", type=int, default=1, metavar="F", help="the first of them (1)")
    parser.add_argument("--worlds", type=lambda text: text.split(","), default=list(WORLDS), metavar="W,...",
                        help=f"of {', '.join(WORLDS)} (all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="J")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin nothing after this")
    options = parser.parse_args(arguments)
    for name in options.worlds:
        if name not in WORLDS:
            parser.error(f"--worlds: {name}: not one of {', '.join(WORLDS)}")
    if options.count < 1 or options.first < 1 or options.jobs < 1:
        parser.error("N, --first and --jobs must be at least 1")
    return options


def main(arguments):
    options = parse(arguments)
    counts = {name: Count() for name in options.worlds}
    run_all(options, counts)
    for name, count in counts.items():
        print(f"   {name:10} {count.seeds:7} seeds from {options.first}, {len(count.bad)} bad"
              + (f", {count.blocks_broken} blocks broken" if count.blocks_broken else "")
              + f", {count.seconds:.0f} s" + (f": {sorted(count.bad)[:20]}" if count.bad else ""))
    bad = any(count.bad or count.blocks_broken for count in counts.values())
    whole = all(count.seeds == options.count for count in counts.values())
    print(f"{sum(c.seeds for c in counts.values())} seeds, " + ("SOME BAD" if bad else "none bad")
          + ("" if whole else "; not all that were asked for"), flush=True)
    return 1 if bad or not whole and not options.minutes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
