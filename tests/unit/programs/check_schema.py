#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The output of heddlectl with --json, from a controller with a job that trains, against docs/heddlectl.schema.json:
every table, with rows in each.

usage: check_schema.py BUILD_DIR SCHEMA"""
import atexit
import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import jsonschema

from processes import Program, check, write_keys

BUILD, SCHEMA = sys.argv[1:3]
DEADLINE_S = 30


def program(name):
    return os.path.join(os.path.abspath(BUILD), name)


# Tables that are called otherwise on the command line.
WORDS = {f"dataplane-{what}s": ("dataplane", "by", what) for what in ("host", "job", "link")}


class Shell:
    def __init__(self, others, environment):
        self.others, self.environment = others, environment  # tables that are not the controller's: whose
        with open(SCHEMA, encoding="utf-8") as file:
            self.schema = json.load(file)
        jsonschema.Draft7Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft7Validator(self.schema)

    def run(self, *words, codes=(0,)):
        server = ["--server", self.others[words[1]]] if words[1:2] and words[1] in self.others else []
        done = subprocess.run([program("controller/heddlectl"), *server, *words, "--json"], env=self.environment,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        check(done.returncode in codes, f"{words}: {done.returncode} {done.stderr}")
        document = json.loads(done.stdout)
        # The branch of the document's table says what is wrong; oneOf would only say that none fits.
        branch = [b for b in self.schema["oneOf"] if document.get("table") == b.get("properties", {}).get(
            "table", {}).get("const", "?")]
        inner = {**branch[0], "definitions": self.schema["definitions"]} if branch else self.schema
        wrong = [f"{list(e.path)}: {e.message}" for e in jsonschema.Draft7Validator(inner).iter_errors(document)]
        check(not wrong, f"{words}: {wrong[:3]}")
        check(self.validator.is_valid(document), f"{words}: not of the schema")
        return document

    def rows(self, table, enough=1):
        """Asks until there are rows: plans and transfers come and go."""
        end = time.monotonic() + DEADLINE_S
        while True:
            document = self.run("show", *WORDS.get(table, (table,)))
            if len(document["rows"]) >= enough:
                check(document["total"] == len(document["rows"]), f"{table}: total")
                return document
            check(time.monotonic() < end, f"{table}: no rows")


def refuses(shell, document):
    """A schema that everything agrees with would prove nothing."""
    for change in (lambda d: d["rows"][0].popitem(), lambda d: d["rows"][0].update(more=1),
                   lambda d: d.pop("epoch"), lambda d: d["rows"][0].update(host=5),
                   lambda d: d["rows"][0].update(transfers=-1), lambda d: d["rows"][0].update(address="here")):
        other = copy.deepcopy(document)
        change(other)
        check(not shell.validator.is_valid(other), f"a wrong document is valid: {other}")


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(program("controller/heddle-controller"), "--key-file", keys, "--listen", "127.0.0.1:0")
        address = controller.address
        server = Program(program("aggregator/heddle-server"), "--key-file", keys, "--listen", "127.0.0.1:0",
                         "--controller", address, "--host", "ps")
        aggregator = Program(program("aggregator/heddle-aggregator"), "--key-file", keys, "--listen", "127.0.0.1:0",
                             "--controller", address, "--host", "a1")
        job = subprocess.Popen([program("worker-lib/heddle-run"), "-n", "3", "--controller", address,
                                "--key-file", keys, "--job", "digits", "--tenant", "unit", "--",
                                program("worker-lib/heddle-train"), "--compute-ms", "30", "--model", "mlp:512",
                                "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL)
        atexit.register(job.terminate)
        others = {"models": server.address, "rounds": server.address, "sums": aggregator.address}
        shell = Shell(others, {"HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys})
        end = time.monotonic() + DEADLINE_S
        while not any(row["applied"] > 20 for row in shell.rows("jobs")["rows"]):
            check(time.monotonic() < end, "the job trains")
            time.sleep(0.1)
        check(shell.run("set", "tau", "digits", "1")["done"] is True, "set")
        names = {b["properties"]["table"]["const"] for b in shell.schema["oneOf"] if "table" in b["properties"]}
        # Output that needs no controller has a check of its own (check_elastic_plan.py).
        names -= {"check", "elastic-plan", "elastic-fit"}
        refuses(shell, shell.rows("nodes", 6))
        for table in sorted(names):
            if table == "plan":
                # While it is paused requests gather; resumed, they are planned at once, and what was planned is
                # shown until it has ended, which it cannot without the server.
                while not shell.run("show", "plan")["rows"]:
                    server.process.send_signal(signal.SIGCONT)
                    shell.run("pause", "all")
                    shell.rows("transfers")
                    server.process.send_signal(signal.SIGSTOP)
                    shell.run("resume", "all")
                    check(time.monotonic() < end + DEADLINE_S, "a plan")
                server.process.send_signal(signal.SIGCONT)
            elif table in ("slots", "switch"):
                continue  # of a switch: there is none
            elif table in ("groups", "sums", "switches", "leases", "rounds", "dataplane-links"):
                shell.rows(table, 0)  # on one host nothing is gained by any, nor is a link known; not federated
            elif table == "transfers":
                shell.run("pause", "all")
                shell.rows(table)
                shell.run("resume", "all")
            else:
                shell.rows(table)
        shell.run("check", codes=(0, 78))
        for process in (job, server.process, aggregator.process, controller.process):
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)
        print(f"schema: {len(names)} tables")


main()
