# SPDX-License-Identifier: BSD-3-Clause
"""A pattern's scenario file: JSON, every field checked, errors with file, line, field and limit (docs/patterns.md)."""
import pathlib

from lab import scenario
from lab.scenario import REQUIRED, ScenarioError, array, number, record, text, variant

SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"
WORKERS_MAX = 64
END_S = 0.5  # what a worker needs to leave
FILTER = (number(0, 1e6), None)
STEPS = number(1, 1000000, True)

PATTERN = variant({
    "gradient-averaging": {"filter": FILTER},
    "model-averaging": {"filter": FILTER, "local_steps": (STEPS, REQUIRED)},
    "admm": {"rho": (number(1e-9, 1e6), REQUIRED), "local_steps": (STEPS, REQUIRED)},
    "asynchronous": {"tau_max": (number(1, 1000000, True), 64)},
    "short-lived": {"tau_max": (number(1, 1000000, True), 64), "lifetime_s": (number(0.2, 3600), REQUIRED),
                    "grace_s": (number(0.1, 60), END_S), "memory_mb": (number(1, 1 << 20, True), REQUIRED)},
    "budget": {"tau_max": (number(1, 1000000, True), 64), "worker_s": (number(1, 1e6), REQUIRED),
               "deadline_s": (number(1, 86400), REQUIRED)},
    "map-reduce": {"rounds": (STEPS, REQUIRED)},
})
JOB = record({
    "data": (text(r"[^\n]{1,4096}", "what heddle-train --data takes"), "generated:logistic"),
    "model": (text(r"[a-z0-9:,.]{1,64}", "what heddle-train --model takes"), "logistic"),
    "batch": (number(1, 65536, True), 128),
    "compute_ms": (number(0, 600000), 0),
    "gradients": (number(1, 1000000, True), REQUIRED),  # of each worker
})
SERVICE = record({"name": (text(r"[^\n]{1,32}", "one line"), REQUIRED), "hour": (number(0, 1e6), REQUIRED)})
PRICES = record({
    "gb_second": (number(0, 1e3), 1.7e-5),
    "memory_gb": (number(0.001, 1e4), 2),
    "services": (array(SERVICE, 8), []),  # that run all the time
})
SETTING = record({
    "name": (text(r"[A-Za-z0-9_.-]{1,32}", "1..32 letters, digits, . _ -"), REQUIRED),
    "about": (text(r"[^\n]{0,200}", "one line"), ""),
    "seed": (number(0, 2**31, True), 1),
    "workers": (number(1, WORKERS_MAX, True), REQUIRED),
    "job": (JOB, REQUIRED),
    "learning_rate": (number(1e-9, 1e6), REQUIRED),
    "pattern": (PATTERN, REQUIRED),
    "prices": (PRICES, None),
    "duration_s": (number(1, 86400), 300),
})


def check(setting, fail):
    """Checks fields that depend on each other."""
    pattern, gradients = setting["pattern"], setting["job"]["gradients"]
    for field in ("local_steps", "rounds"):
        if gradients % pattern.get(field, 1):
            fail(f"pattern.{field}", f"{pattern[field]} does not divide job.gradients ({gradients})")
    if pattern["kind"] == "admm" and pattern["rho"] * setting["learning_rate"] > 1:
        fail("pattern.rho", f"{pattern['rho']} x learning_rate is above 1: local steps overshoot")
    if pattern["kind"] == "short-lived" and pattern["grace_s"] >= pattern["lifetime_s"]:
        fail("pattern.grace_s", f"{pattern['grace_s']} is not below lifetime_s ({pattern['lifetime_s']})")


def parse(source, name):
    """The setting of a JSON text, defaults filled in. Raises ScenarioError."""
    tree, fail = scenario.tree_of(source, name)
    setting = SETTING(tree, "", fail)
    setting["prices"] = setting["prices"] or PRICES(scenario.Node({}, tree.line), "prices", fail)
    pattern = tree.value["pattern"]
    check(setting, lambda field, what: fail(pattern.value.get(field.partition(".")[2], pattern), field, what))
    return setting


def load(name):
    """A setting by file name, or by its name in testbed/patterns/scenarios."""
    path, source = scenario.find(name, SCENARIOS)
    return parse(source, path.name)


def load_all(names):
    """Settings that one table can compare: of the same job, with equally many workers. Raises ScenarioError."""
    settings = [load(name) for name in names]
    first = settings[0]
    for own in settings[1:]:
        for field in ("workers", *(f"job.{key}" for key in first["job"])):
            key = field.partition(".")[2]
            mine, other = (s["job"][key] if key else s[field] for s in (own, first))
            if mine != other:
                raise ScenarioError(f"{own['name']}: {field}: {mine} is not {other} as in {first['name']}: "
                                    "what one table compares trains the same")
        if sum(s["name"] == own["name"] for s in settings) > 1:
            raise ScenarioError(f"{own['name']}: name: is there twice")
    return settings
