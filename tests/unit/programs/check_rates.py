#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's grid of learning rates: the least mean time over the same seeds, without runs of a busy machine."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "testbed"))

from lab import rates  # noqa: E402
from processes import check  # noqa: E402

BUSY = "invalid: 97 % of the processors were busy (limit 90 %): the network was not the limit"


def run(mode, rate, seed, time_s, *problems):
    return {"mode": mode, "learning_rate": rate, "seed": seed, "time_to_accuracy_s": time_s, "problems": list(problems)}


def is_chosen(records, chosen, *words):
    found, said = rates.choose(records, 60)
    check(found == chosen, f"{found}, not {chosen}")
    check(len(said) == len(words) and all(w in s for w, s in zip(words, said)), said)


def main():
    # The least mean; who does not reach the accuracy counts twice the duration.
    grid = [run("scheduled", 0.01, 1, 30), run("scheduled", 0.01, 2, 40),
            run("scheduled", 0.02, 1, 20), run("scheduled", 0.02, 2, None, "accuracy 0.4 (target 0.9)"),
            run("unscheduled", 0.01, 1, 50), run("unscheduled", 0.01, 2, 50),
            run("unscheduled", 0.02, 1, 45), run("unscheduled", 0.02, 2, 45)]
    is_chosen(grid, {"scheduled": 0.01, "unscheduled": 0.02})
    # A run on a busy machine looks slow, or fast, for no reason of its rate: its seed says nothing.
    slow = [*grid[:4], run("unscheduled", 0.01, 1, 50), run("unscheduled", 0.01, 2, 50),
            run("unscheduled", 0.02, 1, 45), run("unscheduled", 0.02, 2, 80, BUSY)]
    is_chosen(slow, {"scheduled": 0.01, "unscheduled": 0.02}, "unscheduled, seed 2: left out")
    fast = [run("tcp-ps", 0.01, 1, 50), run("tcp-ps", 0.01, 2, 10, BUSY), run("tcp-ps", 0.02, 1, 45),
            run("tcp-ps", 0.02, 2, 45)]
    is_chosen(fast, {"tcp-ps": 0.02}, "invalid at 0.01")
    # The other rates' runs of that seed would make the sums uneven: a hard seed only some rates have.
    uneven = [run("tcp-ps", 0.01, 1, 20), run("tcp-ps", 0.01, 2, 50), run("tcp-ps", 0.02, 1, 25),
              run("tcp-ps", 0.02, 2, 70, BUSY)]
    is_chosen(uneven, {"tcp-ps": 0.01}, "seed 2")
    # Nothing to choose from is not a choice.
    is_chosen([run("tcp-ps", 0.01, 1, 20, BUSY), run("tcp-ps", 0.02, 1, 25)], {}, "seed 1: left out",
              "nothing is chosen, run it again")


main()
