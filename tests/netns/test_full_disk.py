#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A full disk stops neither training nor the controller, and is reported: once in words, as events, in a counter. With
room again everything becomes durable; nothing was lost, and the model is what the log says.

    one small tmpfs: checkpoints, the controller's state and journal, their event logs

usage: test_full_disk.py BUILD"""
import contextlib
import json
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import accounts
import pen
import survive

DISK_BYTES = 6 << 20
FULL_S = 4  # many checkpoint intervals, four retries


class Small(survive.Cluster):
    """The controller's and the server's files are on the small disk, what workers were told is not."""

    def __init__(self, build, path, disk):
        self.disk = disk
        super().__init__(build, path, workers=2, commits=20)
        self.checkpoints, self.state = disk / "checkpoints", disk / "state"
        self.checkpoints.mkdir()
        self.state.mkdir()

    def command(self, node):
        command = super().command(node)
        if node in (self.controller, self.server):
            command[command.index("--events") + 1] = self.disk / f"events-{node.name}-{node.lives}"
            command += ["--metrics", METRICS]
        if node is self.controller:
            command += ["--journal", self.disk / "journal.sqlite"]
        return command

    def free(self):
        stat = shutil.disk_usage(self.disk)
        return stat.free


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file:
        for bytes_ in (65536, 4096, 1):
            try:
                while file.write(b"x" * bytes_):
                    pass
            except OSError:
                pass


METRICS = "127.0.0.1:9109"


def counter(node, name):
    """One of the program's counters, over HTTP."""
    read = ("import urllib.request as u;"
            f"print(u.urlopen('http://{METRICS}/metrics', timeout=10).read().decode())")
    text = subprocess.run(node.host.enter(sys.executable, "-c", read), capture_output=True, text=True, check=True,
                          stdin=subprocess.DEVNULL).stdout
    found = [float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"heddle_{name}")]
    assert found, (name, text[:2000])
    return sum(found)


def events(path):
    return [json.loads(line) for line in accounts.lines(path)]


def count_said(node, words):
    return sum(words in line for line in node.output().splitlines())


def main():
    pen.enter()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heddle-full-"))
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "heddle", str(disk)], check=True)
    try:
        cluster = Small(sys.argv[1], folder, disk)
        cluster.start_all()
        cluster.progressed()
        fill(disk)
        assert cluster.free() == 0
        before, began = cluster.outcomes(), time.monotonic()
        pen.until(lambda: count_said(cluster.server, "nothing becomes durable") > 0, "a word about the disk")
        time.sleep(FULL_S)
        cluster.progressed()
        done, took = cluster.outcomes() - before, time.monotonic() - began
        print(f"{done} updates in {took:.1f} s on a full disk")
        assert done > 20 * took, "training hardly went on"
        # The controller dies and comes back although its disk is full.
        fault = cluster.begin("kill", [cluster.controller])
        cluster.finish(fault)
        cluster.progressed()
        assert "epoch 2" in cluster.controller.output(), cluster.controller.output()
        said = [count_said(cluster.server, words) for words in ("durable", "refused", "events are lost")]
        assert said == [1, 0, 1], (said, cluster.server.output())
        pen.until(lambda: count_said(cluster.controller, "events are lost") == 1, "a word of the controller's")
        assert counter(cluster.server, "server_checkpoint_errors") >= 2
        assert counter(cluster.server, "process_events_lost") > done
        assert counter(cluster.controller, "process_events_lost") > 0
        # Room again: what was applied becomes durable.
        (disk / "filler").unlink()
        pen.until(lambda: count_said(cluster.server, "written again") == 2, "the server's word that it writes again")
        cluster.progressed()
        # A program whose event log is not whole says so in the end, and in its exit status.
        not_whole = re.compile("(ps|ctl) ended with 74:.*not all could be written", re.S)
        problems = [p for p in cluster.end() if not not_whole.match(p)]
        # What the log could not hold stands in it as a number: the workers know the rest.
        log = events(disk / "events-ps-1")
        gaps = [e["aux"] for e in log if e["event"] == "log-gap"]
        failed = [e for e in log if e["event"] == "checkpoint" and e.get("aux")]
        assert gaps and sum(gaps) > done, (gaps, done)
        print(f"{sum(gaps)} events lost in {len(gaps)} gaps, {len(failed)} failed checkpoints in the log")
        with contextlib.closing(sqlite3.connect(disk / "journal.sqlite")) as journal:
            lives = [row[0] for row in journal.execute("SELECT epoch FROM lives ORDER BY epoch")]
        assert lives == [1, 2], lives
        problems += check_updates(cluster)
        for problem in problems:
            print("PROBLEM:", problem)
        return 1 if problems else 0
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def check_updates(cluster):
    """The commit log has gaps: what the workers were told fills them."""
    problems, told = [], {}
    for rank, node in enumerate(cluster.workers):
        life = accounts.Life(rank, 1, node.file("told"))
        count = [len(life.pushed), *(sum(s == state for s in life.final.values())
                                     for state in ("applied", "dropped", "failed"))]
        if life.end != count or count[0] != sum(count[1:]):
            problems.append(f"{node.name}: {life.end} by its counters, {count} by its outcomes")
        for line in accounts.lines(node.file("told")):
            words = line.split()
            if words[0] == "outcome" and words[3] == "applied":
                version = int(words[5]) & ((1 << accounts.COUNTER_BITS) - 1)
                if version in told:
                    problems.append(f"version {version} was told twice")
                told[version] = rank, int(words[2])
    newest = accounts.named_version(cluster.newest_checkpoint())[1]
    if sorted(told) != list(range(1, newest + 1)):
        problems.append(f"{len(told)} versions were told, the last checkpoint is {newest}")
    for event in events(cluster.disk / "events-ps-1"):
        if event["event"] == "committed" and told.get(event["version"]) != (event.get("worker", 0), event["round"]):
            problems.append(f"version {event['version']}: the log and the worker disagree")
    return problems


if __name__ == "__main__":
    sys.exit(main())
