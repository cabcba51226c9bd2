#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captured traffic of a real cluster through tshark with docs/heddle.lua: everything is understood, and says what the
nodes' event logs say.

usage: test_dissector.py BUILD_DIR"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import fabric
import pen
from lab import measure, modes

sys.path.insert(0, str(pen.ROOT / "tests/unit/programs"))

import dissect  # noqa: E402

DISSECTOR = pen.ROOT / "docs/heddle.lua"
CONTROLLER, SERVER, WORKERS = "127.0.0.1", "127.0.0.2", ("127.0.0.3", "127.0.0.4")
GRANTS, OUTCOMES = 60, 25  # at least
TRIES = 3  # until a capture is whole
SEEN = {"hello", "cookie", "welcome", "ping", "pong", "register", "registered", "join", "joined", "leave", "request",
        "grant", "expect", "sack", "outcome", "pull_state", "report", "state", "show", "table", "command", "done"}


class Cluster:
    def __init__(self, build, folder):
        self.programs = modes.Programs(build)
        self.folder = folder
        self.keys = fabric.new_key(folder)
        self.shell = fabric.Shell(self.programs["heddlectl"], CONTROLLER, self.keys)
        self.running = {}

    def start(self, name, *command, **environment):
        with open(self.folder / f"{name}.out", "wb") as out:
            self.running[name] = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.folder, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment})

    def says(self, name, words):
        pen.until(lambda: words in (self.folder / f"{name}.out").read_text(), f"{name}: {words}")

    def stop(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(10)

    def log(self, name):
        return self.folder / f"events-{name}.jsonl"

    def train(self, rank):
        self.start(f"w{rank}", self.programs["heddle-train"], "--model", "mlp:128", "--compute-ms", "10",
                   "--synchronous", HEDDLE_TENANT="t", HEDDLE_EVENTS=str(self.log(f"w{rank}")),
                   **fabric.member(CONTROLLER, self.keys, "seen", rank, len(WORKERS), WORKERS[rank]))

    def count(self, name, event):
        return len(list(measure.read_jsonl(self.log(name), {event})))

    def play(self):
        """Runs the job whose packets are captured. Returns the tables that heddlectl showed."""
        key = ["--key-file", self.keys]
        self.start("controller", self.programs["heddle-controller"], "--listen", CONTROLLER, *key, "--events",
                   self.log("controller"))
        self.says("controller", "listening on")
        self.start("server", self.programs["heddle-server"], "--listen", SERVER, "--controller", CONTROLLER, "--host",
                   "ps", *key, "--events", self.log("server"))
        self.says("server", "connected")
        for rank in range(len(WORKERS)):
            self.train(rank)
        pen.until(lambda: self.count("controller", "granted") >= GRANTS, f"{GRANTS} grants")
        pen.until(lambda: self.count("server", "committed") >= OUTCOMES, f"{OUTCOMES} commits")
        shown = self.shell.say("show", "nodes", "--json")
        self.shell.say("pause", "all")
        self.shell.say("resume", "all")
        for name in ("w0", "w1", "server", "controller"):
            self.stop(name)
        return shown


def one(packet, field):
    return packet[f"heddle.{field}"][0]


def of_kind(packets, kind):
    return [packet for packet in packets if packet.get("heddle.kind", [""])[0] == str(kind)]


def check_understood(packets, kinds):
    for packet in packets:
        assert "heddle.short" not in packet, {k: v for k, v in packet.items() if k.startswith("heddle")}
        assert "heddle.type" in packet, f"not taken for ours: {packet}"
    seen = {kinds[int(one(packet, "kind"))] for packet in packets if "heddle.kind" in packet} - {"ack"}
    assert SEEN <= seen, SEEN - seen
    print(f"{len(packets)} packets, messages: {' '.join(sorted(seen))}")


def check_grants(packets, cluster):
    """The grants on the wire are events. They are the controller's, also where a request crossed its credit, which is
    then void; or the server's, of a worker that received nothing from the controller for a while. No chunk has another
    token than these, a credit's, or the one that the server reports for a pull that a credit paid for."""
    said = {(int(one(p, "grant.worker")), int(one(p, "grant.direction")), int(one(p, "grant.round")),
             int(one(p, "grant.token"), 0), int(one(p, "grant.bytes"))) for p in of_kind(packets, 33)}
    logged = {(e["worker"], int(e["direction"] == "pull"), e["round"], int(e["token"], 16), e["bytes"])
              for e in measure.read_jsonl(cluster.log("controller"), {"granted"})}
    direct = {int(e["token"], 16) for e in measure.read_jsonl(cluster.log("server"), {"granted"})}
    other = {row for row in said if row[3] not in direct} ^ logged
    assert not other and len(logged) >= GRANTS, (len(said), len(logged), len(direct), list(other)[:4])
    paid = {int(one(p, "credit.token"), 0) for p in of_kind(packets, 48)}
    assert not paid & {token for *_, token, _ in said}, "a credit was granted"
    tokens = {int(one(p, "token"), 0) for p in packets if "heddle.chunk" in p}
    pulled = {int(one(p, "pull_state.token"), 0) for p in of_kind(packets, 42)}
    without = tokens - {token for *_, token, _ in said} - paid - pulled
    assert tokens and not without, ("chunks without a grant", [f"{token:016x}" for token in without])


def lost_packets(said):
    """How many the capture lacks: on a machine that is too busy the kernel does not wait for dumpcap."""
    dropped = re.search(r"received/dropped on interface '[^']*': \d+/(\d+)", said)
    assert dropped, said
    return int(dropped[1])


def check_outcomes(packets, cluster):
    """Every applied push's version and delay, as the server committed it."""
    said = {(int(one(p, "outcome.worker")), int(one(p, "outcome.round"))): (int(one(p, "outcome.version")),
                                                                            int(one(p, "outcome.delay")))
            for p in of_kind(packets, 40) if one(p, "outcome.outcome") == "1"}
    logged = {(e["worker"], e["round"]): (e["incarnation"] << 48 | e["version"], e.get("aux", 0))
              for e in measure.read_jsonl(cluster.log("server"), {"committed"})}
    assert len(said) >= OUTCOMES and said.items() <= logged.items(), (len(said), len(logged))


def check_operator(packets, shown):
    tables = [p for p in of_kind(packets, 65) if "heddle.table.json" in p]
    read = [json.loads(dissect.as_value(one(p, "table.json"), b"")) for p in tables]
    rows = json.loads(shown)["rows"]
    assert any(len(table.get("rows", [])) == len(rows) for table in read), (read, rows)
    commands = [(one(p, "command.verb"), one(p, "command.object")) for p in of_kind(packets, 66)]
    answers = [(one(p, "done.reason"), one(p, "done.request")) for p in of_kind(packets, 67)]
    assert commands == [("2", "all"), ("3", "all")], commands  # pause, resume
    assert answers == [("0", one(p, "command.request")) for p in of_kind(packets, 66)], answers


def captured(folder):
    """False: the capture lacks packets, so that nothing can be said of it."""
    cluster = Cluster(sys.argv[1], folder)
    capture = folder / "capture.pcap"
    cluster.start("capture", shutil.which("dumpcap"), "-P", "-q", "-i", "lo", "-B", "64", "-w", capture)
    pen.until(lambda: capture.exists() and capture.stat().st_size > 0, "the capture")
    try:
        shown = cluster.play()
        time.sleep(0.5)  # what dumpcap has not written yet
        cluster.stop("capture")
    finally:
        for process in cluster.running.values():
            process.kill()
    lost = lost_packets((folder / "capture.out").read_text())
    if lost:
        print(f"the capture lacks {lost} packets")
        return False
    packets = dissect.packets(DISSECTOR, capture, folder)
    kinds = {0: "ack", **{kind: name for kind, (name, _) in dissect.messages(pen.ROOT / "docs/wire.md").items()}}
    check_understood(packets, kinds)
    check_grants(packets, cluster)
    check_outcomes(packets, cluster)
    check_operator(packets, shown)
    return True


def main():
    pen.need_namespaces()
    dissect.need_tshark()
    if not shutil.which("dumpcap"):
        pen.skip("needs dumpcap (package wireshark-common)")
    pen.enter()
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="heddle-dissector-") as name:
            if captured(pathlib.Path(name)):
                return
    sys.exit(f"the capture lacks packets, {TRIES} times")


if __name__ == "__main__":
    main()
