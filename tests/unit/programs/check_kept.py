#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Operators' settings outlive a controller that is killed; an invalid file is reported with field and line, and stays
as it is.

usage: check_kept.py HEDDLE_CONTROLLER HEDDLECTL HEDDLE_SERVER"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

from processes import Program, Shell, check, run, until, write_keys

CONTROLLER, SHELL, SERVER = sys.argv[1:4]


class Fabric:
    def __init__(self, where):
        self.where, self.keys = pathlib.Path(where), write_keys(where)
        self.state = self.where / "state"
        self.file = self.state / "state.json"
        self.listen = "127.0.0.1:0"
        self.controller = self.shell = None

    def options(self):
        return ["--listen", self.listen, "--key-file", self.keys, "--state-dir", self.state, "--theta", "7"]

    def start(self):
        self.controller = Program(CONTROLLER, *self.options(), stderr=subprocess.PIPE)
        self.listen = self.controller.address
        self.shell = Shell(SHELL, self.listen, self.keys)

    def settings(self):
        return {row["setting"]: row["value"] for row in self.shell.rows("settings")}

    def servers(self):
        return self.shell.rows("nodes", "role=server")

    def kept(self, holds, what):
        """Waits until the file has it: the answer to a command does not wait for the disk."""
        return until(lambda: self.file.exists() and holds(json.loads(self.file.read_text())), f"kept: {what}")


def survives(fabric):
    fabric.start()
    check(fabric.settings()["theta"] == "7", "the option")
    server = Program(SERVER, "--listen", "127.0.0.1:0", "--key-file", fabric.keys, "--controller", fabric.listen,
                     "--host", "ps")
    until(fabric.servers, "the server registers")
    for words in ("set theta 0.5", "set interval-us 250", "set log-level debug", "pause all", "drain host ps"):
        fabric.shell.does(*words.split())
    fabric.kept(lambda d: d.get("drained") == ["ps"] and d["paused"] is True, "drained")
    fabric.controller.stop(signal.SIGKILL)
    fabric.start()
    found = fabric.settings()
    check((found["theta"], found["interval-us"], found["horizon-us"], found["log-level"])
          == ("0.5", "250", "0", "debug"), found)
    node = until(fabric.servers, "the server comes back")[0]
    check(node["draining"] is True, node)
    check("nothing is granted" in fabric.shell.does("pause", "all"), "paused")
    # The ordinary end writes what is left.
    fabric.shell.does("undrain", "host", "ps")
    fabric.shell.does("resume", "all")
    fabric.shell.does("set", "theta", "off")
    check("restored the settings of operators" in fabric.controller.stop(), "it says so")
    document = json.loads(fabric.file.read_text())
    check(document == {"version": 1, "log-level": "debug", "settings": {"theta": 0, "interval-us": 250}}, document)
    server.stop()


def alone(fabric):
    """A second one in the same folder, on whatever port, changes nothing of the first one's."""
    fabric.start()
    fabric.shell.does("set", "theta", "3")
    until(lambda: '"theta": 3' in fabric.file.read_text(), "it is written")
    before = {path.name: path.read_bytes() for path in fabric.state.iterdir()}
    words = fabric.options()
    words[1] = "127.0.0.1:0"
    done = run(CONTROLLER, *words)
    check(done.returncode == 69 and f"{fabric.state}: another controller has it" in done.stderr, done.stderr)
    check({path.name: path.read_bytes() for path in fabric.state.iterdir()} == before, "its files are as they were")
    fabric.controller.stop(signal.SIGKILL)
    fabric.controller.stop(signal.SIGKILL)
    fabric.start()
    fabric.shell.does("set", "theta", "off")
    fabric.controller.stop()


def refuses(fabric):
    good = fabric.file.read_text()
    for text, words in (
            (good.replace('"theta": 0', '"theta": "high"'), "line 5: settings.theta: must be a number"),
            (good.replace('"theta"', '"thetta"'), "line 5: settings.thetta: unknown field"),
            (good[:-5], "syntax"),
            ("", "line 1: syntax")):
        fabric.file.write_text(text)
        done = run(CONTROLLER, *fabric.options())
        check(done.returncode == 65 and f"{fabric.file}: " in done.stderr and words in done.stderr, done.stderr)
        check(fabric.file.read_text() == text, "the file is as it was")
    fabric.file.write_text(good)
    fabric.start()
    check(fabric.settings()["theta"] == "off", "repaired")
    fabric.controller.stop()


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-kept-") as where:
        fabric = Fabric(where)
        survives(fabric)
        alone(fabric)
        refuses(fabric)


main()
