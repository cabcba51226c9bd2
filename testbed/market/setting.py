# SPDX-License-Identifier: BSD-3-Clause
"""A market's scenario file: JSON, every field checked, errors with file, line, field and limit (docs/scenarios.md)."""
import pathlib

from lab import scenario
from lab.scenario import REQUIRED, ScenarioError, array, number, record, text, variant

from . import price

SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"
WORKERS_MAX = 64
NOTICE_LEAST_S = 0.3  # what a worker needs to leave
MONEY = number(1e-9, 1e9)
COUNT = number(1, WORKERS_MAX, True)
NAME = text(r"[A-Za-z0-9_.-]{1,32}", "1..32 letters, digits, . _ -")
WORDS = text(r"[a-z_]+=\S+( +[a-z_]+=\S+)*", "KEY=VALUE words, as heddlectl elastic has them")

PRICE = variant({
    "uniform": {"low": (MONEY, REQUIRED), "high": (MONEY, REQUIRED)},
    "gaussian": {"mean": (MONEY, REQUIRED), "sd": (MONEY, REQUIRED), "low": (MONEY, REQUIRED),
                 "high": (MONEY, REQUIRED)},
    "constant": {"price": (MONEY, REQUIRED)},
    "trace": {"file": (text(r"[^\n]{1,4096}", "a file name"), REQUIRED), "speed": (number(1e-3, 1e9), 1)},
})
STRATEGY = variant({
    "uninterrupted": {"name": (NAME, None), "n": (COUNT, REQUIRED)},
    # Strategies that may have a `plan` instead of numbers; it computes them.
    "one-bid": {"name": (NAME, None), "n": (COUNT, None), "bid": (MONEY, None), "plan": (WORDS, None)},
    "two-bid": {"name": (NAME, None), "n": (COUNT, None), "n_high": (COUNT, None), "high": (MONEY, None),
                "low": (MONEY, None), "plan": (WORDS, None)},
    "preemptible": {"name": (NAME, None), "n": (COUNT, None), "available": (number(0.01, 1), REQUIRED),
                    "price": (MONEY, REQUIRED), "plan": (WORDS, None)},
    "owner": {"name": (NAME, None), "n": (COUNT, REQUIRED), "n_max": (COUNT, REQUIRED), "set": (WORDS, REQUIRED),
              "available": (number(0.01, 1), None), "price": (MONEY, None)},
})
PLANNED = {"one-bid": ("n", "bid"), "two-bid": ("n", "n_high", "high", "low"), "preemptible": ("n",)}
JOB = record({
    "model": (text(r"softmax|mlp:[0-9,]+", "softmax or mlp:W,W,..."), "softmax"),
    "batch": (number(1, 65536, True), 16),
    "compute_ms": (number(0, 600000), 100),
    "learning_rate": (number(1e-9, 1e3), 0.01),
    "momentum": (number(0, 0.999999), 0),
    "sync": (scenario.synchrony, "full"),
    "target_accuracy": (number(0, 1), 0.9),
    "target_loss": (number(1e-9, 1e9), None),
    "link_mbps": (number(0.1, 100000), None),
    "scale_rate": (text(r"none|linear(:[1-9][0-9]{0,3})?", "none or linear[:N]"), "none"),
})
SETTING = record({
    "name": (NAME, REQUIRED),
    "about": (text(r"[^\n]{0,200}", "one line"), ""),
    "seed": (number(0, 2**63 - 1, True), 1),
    "slot_s": (number(0.2, 3600), 1),
    "hour_s": (number(0.1, 3600), 60),
    "notice_s": (number(0, 600), 0.5),
    "always": (number(0, 1e9), 0),
    "price": (PRICE, REQUIRED),
    "job": (JOB, {}),
    "strategies": (array(STRATEGY, 16), REQUIRED),
    "duration_s": (number(1, 86400), 60),
})


def bids(strategy):
    """[(field, bid)] of a strategy."""
    return [(field, strategy[field]) for field in ("bid", "high", "low") if strategy.get(field) is not None]


def check_numbers(strategy, at, fail):
    """Either the numbers are given, or the plan that computes them."""
    for field in PLANNED.get(strategy["kind"], ()):
        if strategy["plan"] is None and strategy[field] is None:
            fail(f"{at}.{field}", "is missing (or plan)")
        if strategy["plan"] is not None and strategy[field] is not None:
            fail(f"{at}.{field}", "is what plan finds: one of the two")


def check_owner(strategy, at, fail):
    words = dict(word.split("=", 1) for word in strategy["set"].split())
    if "policy" not in words:
        fail(f"{at}.set", "has no policy=NAME")
    if strategy["n"] > strategy["n_max"]:
        fail(f"{at}.n", f"{strategy['n']} is above n_max ({strategy['n_max']})")
    if (strategy["available"] is None) != (strategy["price"] is None):
        fail(f"{at}.available", "and price: both (preemptible machines) or none (the market's)")


def check_strategy(setting, index, fail):
    strategy, at = setting["strategies"][index], f"strategies[{index}]"
    least = setting["price"]["least"]
    for field, bid in bids(strategy):
        if bid < least:
            fail(f"{at}.{field}", f"{bid} is below the market's minimum {least}: it never runs")
    check_numbers(strategy, at, fail)
    if strategy["kind"] == "owner":
        check_owner(strategy, at, fail)
    if strategy["kind"] != "two-bid" or strategy["plan"] is not None:
        return
    if strategy["n_high"] >= strategy["n"]:
        fail(f"{at}.n_high", f"{strategy['n_high']} is not below n ({strategy['n']})")
    if strategy["low"] > strategy["high"]:
        fail(f"{at}.low", f"{strategy['low']} is above high ({strategy['high']})")


def parse(source, name, folder):
    """The setting of a JSON text, defaults filled in. Raises ScenarioError."""
    tree, fail = scenario.tree_of(source, name)
    setting = SETTING(tree, "", fail)
    if not setting["job"]:
        setting["job"] = JOB(scenario.Node({}, tree.line), "job", fail)
    try:
        price.prepare(setting["price"], folder)
    except ValueError as error:
        fail(tree.value["price"], "price", str(error))
    if 0 < setting["notice_s"] < NOTICE_LEAST_S:
        fail(tree.value["notice_s"], "notice_s", f"must be 0 (none) or at least {NOTICE_LEAST_S}")
    if not setting["strategies"]:
        fail(tree.value["strategies"], "strategies", "there is none")
    for index, strategy in enumerate(setting["strategies"]):
        node = tree.value["strategies"].value[index]
        check_strategy(setting, index, lambda field, what, node=node: fail(node, field, what))
        strategy["name"] = strategy["name"] or strategy["kind"]
    names = [strategy["name"] for strategy in setting["strategies"]]
    for index, own in enumerate(names):
        if own in names[:index]:
            fail(tree.value["strategies"].value[index], f"strategies[{index}].name", f"{own} is there twice")
    return setting


def load(name):
    """A setting by file name, or by its name in testbed/market/scenarios."""
    path, source = scenario.find(name, SCENARIOS)
    return parse(source, path.name, path.resolve().parent)
