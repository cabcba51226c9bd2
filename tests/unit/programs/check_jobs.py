#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dozens of short jobs, one after the other, at one controller and a server with memory for a few: each trains, and
`show jobs` tells who lives, who is idle, and who has ended. `evict job` ends one; its name begins again.

usage: check_jobs.py HEDDLE_CONTROLLER HEDDLECTL HEDDLE_SERVER HEDDLE_RUN HEDDLE_TRAIN"""
import atexit
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

from processes import Program, Shell, check, run, until, write_keys

CONTROLLER, SHELL, SERVER, RUN, TRAIN = sys.argv[1:6]
JOBS = 30
MODEL_BYTES = 4 * (300 + 1)
MEMORY = 8 * 5 * (MODEL_BYTES + 64)  # of five copies of each model: at most eight jobs


class Fabric:
    def __init__(self, where):
        self.where, self.keys = pathlib.Path(where), write_keys(where)
        self.listen = "127.0.0.1:0"
        self.start()
        self.server = Program(SERVER, "--listen", "127.0.0.1:0", "--key-file", self.keys, "--host", "ps",
                              "--controller", self.listen, "--checkpoint-dir", self.where / "ps", "--memory", MEMORY)

    def start(self):
        self.controller = Program(CONTROLLER, "--listen", self.listen, "--key-file", self.keys,
                                  "--state-dir", self.where / "state")
        self.listen = self.controller.address
        self.shell = Shell(SHELL, self.listen, self.keys)

    def job(self, name, *words):
        return [RUN, "-n", "1", "--controller", self.listen, "--key-file", self.keys, "--bind", "127.0.0.1",
                "--job", name, "--", TRAIN, "--data", "generated:logistic:200,300,10,1", "--model", "logistic",
                "--quiet", *words]

    def trains(self, name):
        done = run(*self.job(name, "--steps", "2"))
        check(done.returncode == 0, f"{name}: {done.returncode} {done.stdout} {done.stderr}")

    def rows(self, state=None):
        return {row["job"]: row for row in self.shell.rows("jobs") if state in (None, row["state"])}

    def reports(self, name, resumed):
        found = [json.loads(path.read_text()) for path in self.where.glob("ps/*.report.json")]
        return [report for report in found if report["job"] == name and report["resumed"] is resumed]


def short_ones(fabric):
    for number in range(JOBS):
        fabric.trains(f"j{number}")
    until(lambda: f"j{JOBS - 1}" in fabric.rows("idle"), "the last one is idle")
    rows = fabric.rows()
    check(rows["stays"]["state"] == "ready" and rows["stays"]["idle_s"] is None, rows["stays"])
    idle, ended = fabric.rows("idle"), fabric.rows("ended")
    check(3 <= len(idle) <= 7, f"as many as the server has memory for are kept: {sorted(idle)}")
    check(set(rows) == {"stays", *(f"j{n}" for n in range(JOBS))}, sorted(rows))
    check(len(idle) + len(ended) == JOBS, f"{sorted(idle)} {sorted(ended)}")
    check("j0" in ended and ended["j0"]["server"] == "ps" and ended["j0"]["ended_s"] >= 0, ended["j0"])
    check(ended["j0"]["applied"] > 0 and idle[f"j{JOBS - 1}"]["idle_s"] >= 0, "their numbers")
    models = run(SHELL, "--server", fabric.server.address, "--key-file", fabric.keys, "show", "models", "--json")
    check(len(json.loads(models.stdout)["rows"]) == 1 + len(idle), models.stdout + models.stderr)


def evicted(fabric, stays):
    name = f"j{JOBS - 1}"
    words = fabric.shell.does("evict", "job", name)
    check(f"job {name} has ended: 0 workers are evicted" in words, words)
    check(fabric.rows("ended")[name]["idle_s"] is None, "it has ended")
    words = fabric.shell.does("evict", "job", "stays")
    check("job stays has ended: 1 workers are evicted" in words, words)
    out, _ = stays.communicate(timeout=10)
    check(stays.returncode != 0 and "evicted by the operator" in out, out)
    check(len(fabric.reports("j0", resumed=False)) == 1, "the report of its first life")


def begins_again(fabric):
    """The controller is killed; a job that had ended before goes on from its checkpoint."""
    kept = fabric.where / "state" / "state.json"
    until(lambda: any(row["job"] == "j0" for row in json.loads(kept.read_text()).get("ended", [])), "j0 is kept")
    fabric.controller.stop(signal.SIGKILL)
    fabric.start()
    until(lambda: fabric.shell.rows("nodes", "role=server"), "the server is back")
    fabric.trains("j0")
    check(fabric.rows()["j0"]["server"] == "ps", fabric.rows())
    again = until(lambda: fabric.reports("j0", resumed=True), "it is resumed")[0]
    check(again["version"]["count"] > again["applied"], again)


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-jobs-") as where:
        fabric = Fabric(where)
        words = [str(word) for word in fabric.job("stays", "--seconds", "100", "--compute-ms", "20")]
        stays = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True)
        atexit.register(stays.terminate)
        until(lambda: fabric.rows().get("stays", {}).get("applied", 0) > 3, "it trains")
        short_ones(fabric)
        evicted(fabric, stays)
        begins_again(fabric)
        fabric.server.stop()
        fabric.controller.stop()


main()
