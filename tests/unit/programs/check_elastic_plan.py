#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddlectl elastic plan and elastic fit, used without a controller: tables, JSON after its schema, files, exit codes.

usage: check_elastic_plan.py HEDDLECTL SCHEMA HEDDLE_TRAIN"""
import json
import os
import sys
import tempfile

import jsonschema

from processes import check, run

SHELL, SCHEMA, TRAIN = sys.argv[1:4]
MODEL = ["a=2.3", "b=0.02", "beta=0.995", "step_s=8:1,4:0.9", "price_s=1"]
EVEN = [*MODEL, "price=uniform:0.2:1"]
GOAL = ["epsilon=0.8", "deadline=2000"]

with open(SCHEMA, encoding="utf-8") as schema_file:
    VALIDATOR = jsonschema.Draft7Validator(json.load(schema_file))


def elastic(*words, code=0):
    done = run(SHELL, "elastic", *words)
    check(done.returncode == code, f"{words}: exit {done.returncode}, wanted {code}: {done.stderr}")
    return done


def table(*words, code=0):
    document = json.loads(elastic(*words, "--json", code=code).stdout)
    wrong = [f"{list(e.path)}: {e.message}" for e in VALIDATOR.iter_errors(document)]
    check(not wrong, f"{words}: not of the schema: {wrong[:2]}")
    check(document["total"] == len(document["rows"]), "total")
    return document


def near(value, wanted, within=1e-6):
    check(abs(value - wanted) <= within * abs(wanted), f"{value}, wanted {wanted}")


def plans():
    document = table("plan", *EVEN, *GOAL)
    rows = {row["policy"]: row for row in document["rows"]}
    check(set(rows) == {"fixed", "one-bid", "two-bid", "preemptible", "growth", "dynamic"}, list(rows))
    chosen = [row for row in document["rows"] if row["chosen"]]
    check(len(chosen) == 1 and chosen[0]["policy"] == document["chosen"], "one is chosen")
    check(chosen[0]["cost"] == min(row["cost"] for row in rows.values()), "the cheapest")
    check(all(row["feasible"] and row["why"] for row in rows.values()), "each says why")
    given = {row["policy"]: row for row in table("plan", *EVEN, *GOAL, "n=8", "n_high=4", "iterations=1000")["rows"]}
    near(given["fixed"]["cost"], 4800)
    near(given["one-bid"]["bid"], 0.6)
    near(given["one-bid"]["cost"], 3200)
    near(given["two-bid"]["bid"], 0.5768038249)
    near(given["two-bid"]["bid_low"], 0.3582936369)
    near(given["two-bid"]["cost"], 1914.227652)
    # Prices are by the hour where nothing else is said.
    hours = table("plan", *[w for w in EVEN if not w.startswith("price_s")], *GOAL, "n=8", "iterations=1000")
    near(hours["rows"][1]["cost"], 3200 / 3600)
    near(hours["rows"][1]["bid"], 0.6)
    bids = table("plan", *EVEN, *GOAL, "n=8", "n_high=4", "iterations=1000", "bid=0.9", "bid_low=0.5")
    check(bids["rows"][1]["policy"] == "two-bid" and bids["rows"][1]["feasible"], "given bids")
    # The closed form keeps the deadline, too.
    plain = ["a=2.3", "b=0.02", "beta=0.995", "step_s=1", "price=1", "epsilon=0.6"]
    for deadline, workers, steps in (1000, 10, 485), (400, 12, 400), (280, 87, 280):
        document = table("plan", *plain, f"deadline={deadline}", code=65 if workers > 64 else 0)
        check((document["closed_workers"], document["closed_iterations"]) == (workers, steps), document)
    check(table("plan", *plain, "deadline=200", code=65)["closed_workers"] is None, "no closed form in 200 s")
    check("12 workers for 400 steps (J~ = 485.318, more than there is room for)" in
          elastic("plan", *plain, "deadline=400").stdout, "the closed form in words")
    text = elastic("plan", *EVEN, *GOAL).stdout
    check("wanted: error <= 0.8 in 2000 s" in text and "least money" in text, text)


def failures():
    late = table("plan", *EVEN, "epsilon=0.8", "deadline=100", code=65)
    check(late["chosen"] is None and all(row["fails"] == "deadline" for row in late["rows"]), "the deadline fails")
    check(all(row["reached"] > row["allowed"] == 100 for row in late["rows"]), "by how much")
    vague = table("plan", *EVEN, "epsilon=0.02", "deadline=1e9", code=65)
    check(all(row["fails"] == "error" and row["allowed"] == 0.02 for row in vague["rows"]), "the error fails")
    near(vague["rows"][0]["reached"], 0.02 / 64 / 0.005)
    check("no plan meets error and deadline" in elastic("plan", *EVEN, "epsilon=0.8", "deadline=100", code=65).stdout,
          "in words")


def refusals(where):
    def path(name, text):
        with open(os.path.join(where, name), "w", encoding="ascii") as file:
            file.write(text)
        return os.path.join(where, name)

    unsorted = path("unsorted.csv", "seconds,price\n0,1\n5,2\n4,3\n")
    for code, words, message in (
            (64, [*EVEN, *GOAL, "x=3"], "'x=3': no such KEY=VALUE"),
            (64, [*EVEN, *GOAL, "n_max=0"], "n_max: '0' (a whole number from 1 to 4096)"),
            (64, [*EVEN, *GOAL, "b=1"], "b: said twice"),
            (64, [*EVEN, "epsilon=3", "deadline=1"], "epsilon: 3 (above 0, below a)"),
            (64, [*EVEN, "deadline=1"], "epsilon: missing"),
            (64, [*MODEL, *GOAL], "price: missing"),
            (64, [*MODEL, *GOAL, "price=uniform:1"], "price: 'uniform:1'"),
            (64, [*MODEL, *GOAL, "price=uniform:2:1"], "price: high: 1"),
            (64, [*EVEN, *GOAL, "n=8", "iterations=1000", "bid=0.1"],
             "bid: 0.1 (at least 0.2, the market's least price"),
            (64, [*EVEN, *GOAL, "n=8"], "n, iterations: both"),
            (66, [*MODEL, *GOAL, f"price=trace:{where}/none"], "none: No such file"),
            (65, [*MODEL, *GOAL, f"price=trace:{unsorted}"], "unsorted.csv:4: seconds: 4: not after the line before"),
            (65, [*MODEL, *GOAL, f"price=trace:{path('empty', '')}"], "empty:1: empty: no row"),
            (65, [*MODEL, *GOAL, f"price=trace:{path('nan', '0,nan')}"], "nan:1: price: 'nan'"),
            (65, [*EVEN, *GOAL, f"fit={path('log', 'step,loss,y' + chr(10) + '1,nan,3')}"], "log:2: loss: 'nan'")):
        done = elastic("plan", *words, code=code)
        check(message in done.stderr and not done.stdout, f"{words}: '{done.stderr}', wanted '{message}'")
    check("usage: heddlectl elastic plan" in run(SHELL, "elastic", "--help").stdout, "elastic --help")
    check("usage: heddlectl elastic plan" in run(SHELL, "elastic", "plan", "--help").stdout, "elastic plan --help")
    check("usage: heddlectl [options]" in run(SHELL, "--help").stdout, "--help")


def files(where):
    """A log that was written with a model; the fit finds it, and plan takes it from there. A trace of a market."""
    log = os.path.join(where, "loss.csv")
    error = 2.3
    with open(log, "w", encoding="ascii") as file:
        file.write("step,loss,y,seconds\n")
        for step in range(1200):
            y = 4 if step // 100 % 2 else 8
            file.write(f"{step},{0.4 + error!r},{y},{0.9 if y == 4 else 1}\n")
            error = 0.995 * error + 0.02 / y
    fit = table("fit", log)
    near(fit["a"], 2.3, 1e-4)
    near(fit["b"], 0.02, 1e-4)
    near(fit["beta"], 0.995)
    near(fit["best"], 0.4, 1e-3)
    check([row["workers"] for row in fit["rows"]] == [4, 8], "R(n)")
    check("for plan: a=" in elastic("fit", log).stdout, "words for plan")
    fitted = table("plan", f"fit={log}", *GOAL, "price=uniform:0.2:1", "price_s=1")
    asked = table("plan", *EVEN, *GOAL)
    near(fitted["rows"][1]["cost"], asked["rows"][1]["cost"], 1e-2)
    trace = os.path.join(where, "spot.csv")
    with open(trace, "w", encoding="ascii") as file:
        file.write("Timestamp;SpotPrice\n")
        for hour in range(200):
            file.write(f"2026-03-{1 + hour // 24:02}T{hour % 24:02}:00:00Z;{0.2 + hour * 37 % 100 / 125}\n")
    for row in table("plan", *MODEL, *GOAL, f"price=trace:{trace}")["rows"]:
        check(row["feasible"] and row["expected_s"] <= 2000 * (1 + 1e-6) and row["error"] <= 0.8 * (1 + 1e-6), row)


def training(where):
    """The log of a real run, and a plan from it: the digits' losses fall as the model says, but for their noise."""
    log = os.path.join(where, "train.csv")
    done = run(TRAIN, "--local", "--steps", "400", "--quiet", "--loss-log", log)
    check(done.returncode == 0, f"heddle-train: {done.stderr}")
    fit = table("fit", log)
    check(fit["lines"] == 399 and fit["last_step"] == 400 and fit["r2"] > 0.9, fit)
    check(1.5 < fit["a"] < 3.5 and 0.97 < fit["beta"] < 0.999 and fit["rows"][0]["step_s"] > 0, fit)
    table("plan", f"fit={log}", "epsilon=0.9", "deadline=3600", "price=0.1")
    done = run(TRAIN, "--local", "--steps", "4", "--quiet", "--loss-log", f"{where}/none/log")
    check(done.returncode == 73 and "loss-log: " in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as where:
        plans()
        failures()
        refusals(where)
        files(where)
        training(where)


main()
