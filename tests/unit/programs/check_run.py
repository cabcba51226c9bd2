#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The ranks that heddle-run gives to the processes that it starts, alone and as one of several on as many machines.

usage: check_run.py HEDDLE_RUN"""
import sys

from processes import check, run

RUN = sys.argv[1]
NAMES = ("HEDDLE_RANK", "HEDDLE_WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "HEDDLE_HOST",
         "HEDDLE_OBSERVER")
SAY = " ".join(f"${{{name}:-none}}" for name in NAMES)
# The observer ends last: when it succeeds, the others are stopped.
PROGRAM = ("sh", "-c", f"[ -z \"$HEDDLE_OBSERVER\" ] || sleep 0.5; echo {SAY}")


def said(*options):
    """The environment of each process, by rank."""
    done = run(RUN, "--host-prefix", "h", *options, "--", *PROGRAM)
    check(done.returncode == 0, f"{options}: {done.returncode} {done.stderr}")
    lines = dict(line.split("] ", 1) for line in done.stdout.splitlines())
    return {int(rank[1:]): words.split() for rank, words in lines.items()}


def wanted(rank, first, count, world, observer="none"):
    return [str(rank), str(world), str(rank), str(world), str(rank - first), str(count), f"h{rank + 1}", observer]


def check_ranks():
    for options, first, count, world in ((("-n", 3), 0, 3, 3),
                                         (("-n", 2, "--world-size", 5), 0, 2, 5),
                                         (("-n", 3, "--first-rank", 2), 2, 3, 5),
                                         (("-n", 2, "--first-rank", 3, "--world-size", 7), 3, 2, 7)):
        plain = {rank: wanted(rank, first, count, world) for rank in range(first, first + count)}
        found = said(*options)
        check(found == plain, f"{options}: {found}")
        found = said(*options, "--observer")
        check(found == {**plain, world: wanted(world, first, count, world, "1")}, f"{options} --observer: {found}")


def check_refused():
    for options, words in ((("-n", 3, "--world-size", 2), "-n 3, --first-rank 0: the ranks exceed the world size, 2"),
                           (("-n", 2, "--first-rank", 4, "--world-size", 5),
                            "-n 2, --first-rank 4: the ranks exceed the world size, 5"),
                           (("-n", 100, "--first-rank", 4000), "the ranks exceed the world size, 4095"),
                           (("-n", 1, "--world-size", 4096), "--world-size"),
                           (("-n", 1, "--first-rank", 4095), "--first-rank")):
        done = run(RUN, *options, "--", "true")
        check(done.returncode == 64 and words in done.stderr, f"{options}: {done.returncode} {done.stderr}")


def check_which_failed():
    """The message names the rank, not the place on this machine."""
    done = run(RUN, "-n", 2, "--first-rank", 4, "--", "sh", "-c", "[ $RANK != 5 ] || exit 3; sleep 30")
    check(done.returncode == 3 and "rank 5: exit status 3" in done.stderr, f"{done.returncode} {done.stderr}")


check_ranks()
check_refused()
check_which_failed()
print("ranks as given")
