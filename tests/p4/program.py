# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of the switch program in P4: its compiler's script, its outputs, and C's numbers."""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testbed"))

from lab import bmv2  # noqa: E402, F401: the demo's own way to bmv2

loader = importlib.machinery.SourceFileLoader("p4_compile", str(ROOT / "p4" / "compile"))
compiler = importlib.util.module_from_spec(importlib.util.spec_from_loader("p4_compile", loader))
loader.exec_module(compiler)


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def defines(path):
    """#define NAME NUMBER of a file under p4/."""
    return {name: int(value, 0) for name, value in
            re.findall(r"^#define (HD_\w+) (\d\w*)$", (ROOT / "p4" / path).read_text(), re.MULTILINE)}


def interface_of_json(folder):
    """The interface of bmv2's program for a control plane: tables with their actions' parameters, arrays with their
    sizes."""
    program = json.loads((folder / "heddle.json").read_text())
    parameters = {action["id"]: {p["name"]: p["bitwidth"] for p in action["runtime_data"]}
                  for action in program["actions"]}
    tables = {}
    for pipeline in program["pipelines"]:
        for table in pipeline["tables"]:
            if table["name"].startswith("tbl_"):
                continue  # p4c's own, of statements outside of actions
            actions = {name.rsplit(".", 1)[-1]: parameters[number]
                       for name, number in zip(table["actions"], table["action_ids"])}
            tables[table["name"]] = (table["max_size"], [key["match_type"] for key in table["key"]], actions)
    arrays = {array["name"].rsplit(".", 1)[-1]: array["size"] for kind in ("register_arrays", "counter_arrays")
              for array in program[kind]}
    return tables, arrays


def interface_of_spec(folder):
    text = (folder / "heddle.spec").read_text()
    structs = {name: {field: int(bits) for bits, field in re.findall(r"bit<(\d+)> (\w+)", body)}
               for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)}
    parameters = {name: {} if given == "none" else structs[given.split()[-1]]
                  for name, given in re.findall(r"^action (\S+) args (none|instanceof \S+) \{", text, re.MULTILINE)}
    tables = {}
    for name, body in re.findall(r"^table (\S+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        key = re.search(r"key \{\n(.*?)\t\}", body, re.DOTALL)
        kinds = [line.split()[-1] for line in key[1].strip().splitlines()] if key else []
        listed = re.search(r"actions \{\n(.*?)\t\}", body, re.DOTALL)[1]
        actions = {line.split()[0]: parameters[line.split()[0]] for line in listed.strip().splitlines()}
        size = re.search(r"size (\w+)", body)
        tables[name] = (int(size[1], 0) if size else None, kinds, actions)
    arrays = {name: int(size, 0) for name, size in re.findall(r"^regarray (\S+) size (\w+)", text, re.MULTILINE)}
    return tables, arrays
