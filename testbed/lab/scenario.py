# SPDX-License-Identifier: BSD-3-Clause
"""Scenario files: JSON, every field checked, errors with file, line, field and limit.

docs/scenarios.md describes the fields; heddle-sim reads the same files.
"""
import copy
import json
import pathlib
import random
import re

SCENARIOS = pathlib.Path(__file__).resolve().parent.parent / "scenarios"
FILE_BYTES_MAX = 1 << 20
RACKS_MAX = 8
AGGREGATORS_MAX = 16
HEDDLE_WORKERS_MAX = 4096
WORKERS_MAX = 250  # hosts of one emulated star; heddle-sim takes more

REQUIRED = object()


class ScenarioError(Exception):
    code = 65  # of sysexits: EX_DATAERR


class NoScenario(ScenarioError):
    code = 66  # EX_NOINPUT


class Node:
    """A JSON value with its line."""

    def __init__(self, value, line):
        self.value = value
        self.line = line


class Parser:
    """JSON with lines. The standard decoder parses the scalars and finds the syntax errors."""

    def __init__(self, text):
        self.text = text
        self.at = 0

    def line(self):
        return self.text.count("\n", 0, self.at) + 1

    def skip(self):
        self.at = re.compile(r"[ \t\r\n]*").match(self.text, self.at).end()

    def value(self):
        self.skip()
        line = self.line()
        opening = self.text[self.at:self.at + 1]
        if opening == "{":
            members = {}
            for key, member, at in self.items("}", self.member):
                if key in members:
                    raise json.JSONDecodeError(f"{key} stands here twice", self.text, at)
                members[key] = member
            return Node(members, line)
        if opening == "[":
            return Node(list(self.items("]", self.value)), line)
        value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        return Node(value, line)

    def items(self, closing, item):
        self.at += 1
        self.skip()
        while self.text[self.at] != closing:
            yield item()
            self.skip()
            if self.text[self.at] == ",":
                self.at += 1
                self.skip()
        self.at += 1

    def member(self):
        at = self.at
        key, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        self.skip()
        self.at += 1  # the colon
        return key, self.value(), at


# --- allowed values of a field: each takes a Node, its path and an error function ---------------


def number(low, high, whole=False):
    def check(node, path, fail):
        kinds = int if whole else (int, float)
        if isinstance(node.value, bool) or not isinstance(node.value, kinds):
            fail(node, path, f"must be {'a whole number' if whole else 'a number'}")
        if not low <= node.value <= high:
            fail(node, path, f"{node.value} is outside {low}..{high}")
        return node.value
    return check


def text(pattern, what):
    def check(node, path, fail):
        if not isinstance(node.value, str) or not re.fullmatch(pattern, node.value):
            fail(node, path, f"must be {what}")
        return node.value
    return check


def one_of(*values):
    return text("|".join(map(re.escape, values)), "one of " + ", ".join(values))


def array(item, most):
    def check(node, path, fail):
        if not isinstance(node.value, list):
            fail(node, path, "must be an array")
        if len(node.value) > most:
            fail(node, path, f"{len(node.value)} entries (limit {most})")
        return [item(entry, f"{path}[{index}]", fail) for index, entry in enumerate(node.value)]
    return check


def record(fields):
    """fields: name -> (check, default); REQUIRED has no default."""
    def check(node, path, fail):
        if not isinstance(node.value, dict):
            fail(node, path, "must be an object")
        for name, value in node.value.items():
            if name not in fields:
                fail(value, f"{path}.{name}".lstrip("."), "unknown field (known: " + ", ".join(fields) + ")")
        result = {}
        for name, (item, default) in fields.items():
            field = f"{path}.{name}".lstrip(".")
            if name in node.value:
                result[name] = item(node.value[name], field, fail)
            elif default is REQUIRED:
                fail(node, field, "is missing")
            else:
                result[name] = default
        return result
    return check


def variant(kinds):
    """An object whose `kind` determines its fields."""
    def check(node, path, fail):
        kind = node.value.get("kind") if isinstance(node.value, dict) else None
        if kind is None or kind.value not in kinds:
            fail(kind or node, f"{path}.kind", "must be one of " + ", ".join(kinds))
        return record({"kind": (one_of(kind.value), REQUIRED), **kinds[kind.value]})(node, path, fail)
    return check


def synchrony(node, path, fail):
    what = f"async, full, nsync:N or nbatch:N (N: 1..{HEDDLE_WORKERS_MAX})"
    value = text(r"async|full|(nsync|nbatch):[1-9][0-9]{0,3}", what)(node, path, fail)
    if int(value.partition(":")[2] or 1) > HEDDLE_WORKERS_MAX:
        fail(node, path, f"must be {what}")
    return value


WORKER_OR = r"worker:[0-9]{1,4}"
STALENESS = record({
    "rule": (one_of("constant", "inverse-sqrt", "adadelay"), "constant"),
    "c": (number(1e-6, 1e6), 1.0),
})
JOB = record({
    "model": (one_of("mlp", "softmax"), "mlp"),
    "hidden": (array(number(1, 65536, True), 16), [512, 512]),
    "batch": (number(1, 65536, True), 32),
    "compute_ms": (number(0, 600000), 150),
    "tau_max": (number(1, 1000000, True), 16),
    "learning_rate": (number(1e-9, 1e3), 0.05),
    "momentum": (number(0, 0.999999), 0.9),
    "weight_decay": (number(0, 1), 1e-4),
    "staleness": (STALENESS, {"rule": "constant", "c": 1.0}),
    "target_accuracy": (number(0, 1), 0.95),
    "sync": (synchrony, "async"),
    "payload": (one_of("fp32", "fp16", "bf16", "fixed32", "sparse"), "fp32"),
    "pull_payload": (one_of("fp32", "fp16", "bf16"), "fp32"),
    "update_bytes": (number(4, 1 << 40, True), None),
})
COMPUTE = variant({
    "none": {},
    "exponential": {},
    "slow-fraction": {"fraction": (number(0, 1), REQUIRED), "factor": (number(1, 1000), REQUIRED)},
    "redraw": {"low": (number(0.01, 1000), REQUIRED), "high": (number(0.01, 1000), REQUIRED),
               "every_s": (number(0.1, 3600), REQUIRED)},
})
LINKS = variant({
    "none": {},
    "scale-fraction": {"fraction": (number(0, 1), REQUIRED), "factor": (number(0.001, 1000), REQUIRED)},
    "redraw": {"low": (number(0.001, 1000), REQUIRED), "high": (number(0.001, 1000), REQUIRED),
               "every_s": (number(0.1, 3600), REQUIRED)},
})
PLACE = text(rf"{WORKER_OR}|server|extra", "worker:N, server or extra")
TENANT = record({
    "flows": (number(1, 64, True), REQUIRED),
    "from": (PLACE, REQUIRED),
    "to": (PLACE, REQUIRED),
    "start_s": (number(0, 86400), 0),
    "stop_s": (number(0, 86400), 86400),
})
WORKER_EVENT = record({
    "at_s": (number(0, 86400), REQUIRED),
    "worker": (number(0, 4095, True), REQUIRED),
    "do": (one_of("kill", "join", "leave", "preempt"), REQUIRED),
    "notice_s": (number(0.01, 3600), 2),
})
SHARE = number(0, 1)
AGGREGATOR_OR = r"aggregator:[0-9]{1,4}"
NODE = text(rf"{WORKER_OR}|server|replica|{AGGREGATOR_OR}|controller",
            "worker:N, server, replica, aggregator:N or controller")
SIM = record({
    "depth": (number(1, 16, True), 1), "cancel": (SHARE, 0), "conditional": (SHARE, 0),
    "checkpoint_commits": (number(0, 10**9, True), 0), "disk_ms": (number(0, 60000), 5), "disk_error": (SHARE, 0),
    "updates": (number(0, 10**12, True), 0), "settle_s": (number(0.1, 3600), 60),
    "hold_ms": (number(0, 60000, True), 0), "credit_kb": (number(0, 2**20, True), 128),
})
NODE_EVENT = record({
    "at_s": (number(0, 86400), REQUIRED),
    "node": (NODE, REQUIRED),
    "do": (one_of("kill", "start"), REQUIRED),
})
FAULTS = record({
    "loss": (SHARE, 0), "duplicate": (SHARE, 0), "reorder": (SHARE, 0), "skew_ppm": (number(0, 100000, True), 0),
    "crash": (array(record({"at_s": (number(0, 86400), REQUIRED), "node": (NODE, REQUIRED),
                            "down_s": (number(0, 86400), REQUIRED)}), 1000), []),
    "partition": (array(record({"at_s": (number(0, 86400), REQUIRED), "node": (NODE, REQUIRED),
                                "for_s": (number(0, 86400), REQUIRED)}), 1000), []),
    "stop": (array(record({"at_s": (number(0, 86400), REQUIRED), "node": (NODE, REQUIRED),
                           "for_s": (number(0, 86400), REQUIRED)}), 1000), []),
})
SCENARIO = record({
    "name": (text(r"[A-Za-z0-9_.-]{1,64}", "1..64 letters, digits, . _ -"), REQUIRED),
    "about": (text(r"[^\n]{0,200}", "one line"), ""),
    "seed": (number(0, 2**63 - 1, True), 1),
    "workers": (number(1, WORKERS_MAX, True), REQUIRED),
    "racks": (number(1, RACKS_MAX, True), 1),
    "switches": (one_of("bridge", "bmv2"), "bridge"),
    "trunk_mbps": (number(0.1, 100000), 0),
    "link_mbps": (number(0.1, 100000), REQUIRED),
    "server_link_mbps": (number(0.1, 100000), None),
    "aggregators": (number(0, AGGREGATORS_MAX, True), 0),
    "aggregator_link_mbps": (number(0.1, 100000), None),
    "latency_us": (number(0, 1000000), 0),
    "queue_kb": (number(16, 65536), 128),
    "job": (JOB, REQUIRED),
    "compute": (COMPUTE, {"kind": "none"}),
    "links": (LINKS, {"kind": "none"}),
    "tenants": (array(TENANT, 64), []),
    "workers_events": (array(WORKER_EVENT, 1000), []),
    "nodes_events": (array(NODE_EVENT, 1000), []),
    "replica": (number(0, 1, True), 0),
    "never_alone": (number(0, 1, True), 0),
    "div_max": (number(0, 1e12), 0),
    "replicate_every": (number(0, 10**9, True), 0),
    "faults": (FAULTS, {}),  # and `sim`: only for heddle-sim; checked here, not played
    "sim": (SIM, {}),
    "duration_s": (number(1, 86400), 60),
    "monitors": (number(0, 1, True), 0),
})


def check_node(scenario, name, fail):
    """The name of an existing worker or aggregator."""
    kind, _, number_of = name.partition(":")
    if number_of and int(number_of) >= scenario[f"{kind}s"]:
        fail(f"there are {scenario[f'{kind}s']} {kind}s")


def cross_checks(scenario, tree, fail):
    """Checks fields that depend on each other."""
    def at(*path):
        node = tree
        for step in path:
            node = node.value[step]
        return node

    if scenario["racks"] > scenario["workers"]:
        fail(at("racks"), "racks", f"there are {scenario['workers']} workers")
    if scenario["racks"] > 1 and not scenario["trunk_mbps"]:
        fail(at("racks"), "racks", f"{scenario['racks']} racks need trunk_mbps")
    if scenario["racks"] == 1 and scenario["trunk_mbps"]:
        fail(at("trunk_mbps"), "trunk_mbps", "there is one rack")
    if scenario["job"]["sync"] != "async" and scenario["job"]["staleness"]["rule"] != "constant":
        fail(at("job", "staleness", "rule"), "job.staleness.rule", "must be constant with sync")
    for part in ("compute", "links"):
        if scenario[part]["kind"] == "redraw" and scenario[part]["low"] > scenario[part]["high"]:
            fail(at(part, "low"), f"{part}.low", f"{scenario[part]['low']} is above high")
    for index, tenant in enumerate(scenario["tenants"]):
        where = f"tenants[{index}]"
        for end in ("from", "to"):
            match = re.fullmatch(r"worker:(\d+)", tenant[end])
            if match and int(match[1]) >= scenario["workers"]:
                fail(at("tenants", index, end), f"{where}.{end}", f"there are {scenario['workers']} workers")
        if tenant["from"] == tenant["to"]:
            fail(at("tenants", index, "to"), f"{where}.to", "is where it comes from")
        if tenant["stop_s"] <= tenant["start_s"]:
            stop = at("tenants", index).value.get("stop_s", at("tenants", index))
            fail(stop, f"{where}.stop_s", "is not after start_s")
    for index, event in enumerate(scenario["workers_events"]):
        if event["worker"] >= scenario["workers"]:
            fail(at("workers_events", index, "worker"), f"workers_events[{index}].worker",
                 f"there are {scenario['workers']} workers")
    for index, event in enumerate(scenario["nodes_events"]):
        node, path = at("nodes_events", index, "node"), f"nodes_events[{index}].node"
        check_node(scenario, event["node"], lambda what, node=node, path=path: fail(node, path, what))
        if event["node"].startswith("worker:"):
            fail(node, path, "is a worker (workers_events)")
        if event["node"] == "replica" and not scenario["replica"]:
            fail(node, path, "there is no replica")
    for kind in ("crash", "partition", "stop"):
        for index, fault in enumerate(scenario["faults"].get(kind, [])):
            node, path = at("faults", kind, index, "node"), f"faults.{kind}[{index}].node"
            check_node(scenario, fault["node"], lambda what, node=node, path=path: fail(node, path, what))
    if (scenario["job"]["update_bytes"] or 0) % 4:
        fail(at("job", "update_bytes"), "job.update_bytes", "must be a multiple of 4")


def tree_of(source, name):
    """(the Node of a JSON text, the error function of its fields). Raises ScenarioError."""
    def fail(node, field, what):
        raise ScenarioError(f"{name}: line {node.line}: {field}: {what}")

    if len(source) > FILE_BYTES_MAX:
        raise ScenarioError(f"{name}: {len(source)} bytes (limit {FILE_BYTES_MAX})")
    try:
        json.loads(source)
        return Parser(source).value(), fail
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{name}: line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ScenarioError(f"{name}: nested too deeply") from None


def parse(source, name):
    """The scenario of a JSON text, defaults filled in. Raises ScenarioError."""
    tree, fail = tree_of(source, name)
    scenario = SCENARIO(tree, "", fail)
    if scenario["server_link_mbps"] is None:
        scenario["server_link_mbps"] = scenario["link_mbps"]
    if scenario["aggregator_link_mbps"] is None:
        scenario["aggregator_link_mbps"] = scenario["link_mbps"]
    cross_checks(scenario, tree, fail)
    return scenario


def find(name, folder):
    """(path, text) of a scenario by file name, or by its name in the folder. Raises ScenarioError."""
    path = pathlib.Path(name)
    if not path.is_file() and (folder / f"{name}.json").is_file():
        path = folder / f"{name}.json"
    try:
        return path, path.read_text(encoding="utf-8")
    except OSError as error:
        known = " ".join(sorted(p.stem for p in folder.glob("*.json")))
        raise NoScenario(f"{name}: {error.strerror} (scenarios here: {known})") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{name}: is not UTF-8 text") from None


def load(name):
    """A scenario by file name, or by its name in testbed/scenarios."""
    path, source = find(name, SCENARIOS)
    return parse(source, path.name)


# --- the same scenario with few processors ----------------------------------------------------

CORES_WANTED = 3  # of `star` with aggregators, so that they are idle for a third of the time


def slowness(cores):
    """The factor by which a scenario must be slower with this number of processors."""
    return max(1.0, CORES_WANTED / cores)


def slowed(scenario, factor):
    """The scenario with links, computing and event times slower by a factor: the order of events and their proportions
    are the same. Latencies are not scaled, as those of the machine are not."""
    slow = copy.deepcopy(scenario)
    for field in ("link_mbps", "server_link_mbps", "aggregator_link_mbps", "trunk_mbps"):
        slow[field] /= factor
    slow["duration_s"] *= factor
    slow["job"]["compute_ms"] *= factor
    timed = [slow["compute"], slow["links"], *slow["tenants"], *slow["workers_events"], *slow["nodes_events"]]
    for part in timed:
        for field in {"every_s", "at_s", "notice_s", "start_s", "stop_s"} & set(part):
            part[field] *= factor
    return slow


# --- random values of a scenario --------------------------------------------------------------


def draws(scenario, part, seed):
    """[(at_s, {worker: factor})]: the factors of `compute` or `links` over the whole run."""
    setting = scenario[part]
    workers = range(scenario["workers"])
    dice = random.Random(f"{part}:{seed}")
    if setting["kind"] in ("slow-fraction", "scale-fraction"):
        count = max(1, round(setting["fraction"] * scenario["workers"])) if setting["fraction"] else 0
        chosen = dice.sample(workers, count)
        return [(0.0, {w: setting["factor"] if w in chosen else 1.0 for w in workers})]
    if setting["kind"] == "exponential":
        raise ScenarioError(f"{part}.kind: exponential is heddle-sim's alone")
    if setting["kind"] == "redraw":
        times = []
        at = 0.0
        while at < scenario["duration_s"]:
            times.append((at, {w: dice.uniform(setting["low"], setting["high"]) for w in workers}))
            at += setting["every_s"]
        return times
    return [(0.0, {w: 1.0 for w in workers})]
