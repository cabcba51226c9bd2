#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A full disk stops neither training nor the controller, and is reported: once in words, as events, in a counter. With
room again everything becomes durable; nothing was lost, and the model is what the log says.

    one small tmpfs: checkpoints, the controller's state and journal, their event logs

usage: test_full_disk.py BUILD controller|server     who also dies meanwhile"""
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


def restart(cluster, node):
    fault = cluster.begin("kill", [node])
    cluster.finish(fault)
    cluster.progressed()


def room_again(cluster, words):
    """Applied updates become durable. A program whose event log is not complete reports that when it ends."""
    (cluster.disk / "filler").unlink()
    pen.until(lambda: count_said(cluster.server, "written again") == words, "a word that it writes again", 80)
    cluster.progressed()
    not_whole = re.compile("(ps|ctl) ended with 74:.*some events could not be written", re.S)
    return [problem for problem in cluster.end() if not not_whole.match(problem)]


def play_controller(cluster):
    """The controller dies and comes back although its disk is full."""
    before, began = cluster.outcomes(), time.monotonic()
    time.sleep(FULL_S)
    cluster.progressed()
    done, took = cluster.outcomes() - before, time.monotonic() - began
    print(f"{done} updates in {took:.1f} s on a full disk")
    assert done > 20 * took, "training hardly went on"
    restart(cluster, cluster.controller)
    assert "epoch 2" in cluster.controller.output(), cluster.controller.output()
    said = [count_said(cluster.server, words) for words in ("durable", "refused", "events are lost")]
    assert said == [1, 0, 1], (said, cluster.server.output())
    pen.until(lambda: count_said(cluster.controller, "events are lost") == 1, "a word of the controller's")
    assert counter(cluster.server, "server_checkpoint_errors") >= 2
    assert counter(cluster.server, "process_events_lost") > done
    assert counter(cluster.controller, "process_events_lost") > 0
    problems = room_again(cluster, 2)
    # The log has the number of the events that it could not hold: the workers know the rest.
    gaps = [e["aux"] for e in events(cluster.disk / "events-ps-1") if e["event"] == "log-gap"]
    assert gaps and sum(gaps) > done, (gaps, done)
    print(f"{sum(gaps)} events lost in {len(gaps)} gaps")
    with contextlib.closing(sqlite3.connect(cluster.disk / "journal.sqlite")) as journal:
        lives = [row[0] for row in journal.execute("SELECT epoch FROM lives ORDER BY epoch")]
    assert lives == [1, 2], lives
    return problems + check_updates(cluster)


def play_server(cluster):
    """The server dies and comes back although its disk is full: from the last checkpoint, and no worker waits."""
    restart(cluster, cluster.server)
    # Its event log may find a little room that the dead one's unfinished checkpoint left.
    problems = room_again(cluster, 1 + count_said(cluster.server, "events are lost"))
    for rank, node in enumerate(cluster.workers):
        problems += check_counts(node, accounts.Life(rank, 1, node.file("told")))
    return problems


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
        pen.until(lambda: cluster.newest_checkpoint() is not None, "a checkpoint")
        fill(disk)
        assert cluster.free() == 0
        pen.until(lambda: count_said(cluster.server, "nothing becomes durable") > 0, "a word about the disk")
        problems = {"controller": play_controller, "server": play_server}[sys.argv[2]](cluster)
        for problem in problems:
            print("PROBLEM:", problem)
        return 1 if problems else 0
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def check_counts(node, life):
    count = [len(life.pushed), *(sum(s == state for s in life.final.values())
                                 for state in ("applied", "dropped", "failed"))]
    if life.end == count and count[0] == sum(count[1:]):
        return []
    return [f"{node.name}: {life.end} by its counters, {count} by its outcomes"]


def check_updates(cluster):
    """The commit log has gaps: what the workers were told fills them."""
    problems, told = [], {}
    for rank, node in enumerate(cluster.workers):
        life = accounts.Life(rank, 1, node.file("told"))
        problems += check_counts(node, life)
        for line in accounts.lines(node.file("told")):
            words = line.split()
            # A checkpoint may be faster than the worker's look: durable is applied, and more.
            if words[0] == "outcome" and words[3] in ("applied", "durable"):
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
