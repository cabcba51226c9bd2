#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo, a market and a pattern ended in the middle by SIGINT, SIGTERM and SIGKILL: no process, link, namespace,
mount or temporary file of them remains.

usage: test_interrupt.py BUILD_DIR"""
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile

import demo_run
import pen

# command, how many processes its middle has, and of how many namespaces beside ours
DEMO = ([str(demo_run.DEMO), "--quick", "--modes", "scheduled"], 12, 6)  # the switch's, server, controller, workers
MARKET = ([str(pen.ROOT / "testbed/market/run"), "quick", "--no-pictures"], 8, 1)
PATTERN = ([str(pen.ROOT / "testbed/patterns/run"), "ga-sgd", "--no-pictures"], 8, 0)
GONE_S = 20  # for the kernel to take a namespace apart; a guard, not a promise


def marked(mark):
    """Processes that inherited our mark, and so came from our demo."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                found.add(int(path.name))
        except OSError:
            continue
    return found


def namespaces(pids):
    found = set()
    for pid in pids:
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return found


def alive_namespaces():
    return namespaces(path.name for path in pathlib.Path("/proc").glob("[0-9]*"))


def outside():
    """Objects that a demo could leave in the machine's own namespaces: its names are h1.., s1-h1.., ps, ctl, x1."""
    links = {path.name for path in pathlib.Path("/sys/class/net").iterdir()}
    names = {path.name for path in pathlib.Path("/run/netns").glob("*")}
    return ({x for x in links if x == "s1" or x.startswith(("s1-", "h1-", "ps-", "ctl-", "x1-"))},
            {x for x in names if x in ("s1", "h1", "ps", "ctl", "x1")},
            {line.split()[1] for line in open("/proc/self/mounts") if line.startswith("heddle ")})


def working(mark):
    """Of them, those that train: the middle of a run."""
    found = set()
    for pid in marked(mark):
        try:
            if b"heddle-train" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
        except OSError:
            continue
    return found


def interrupt(build, program, number):
    command, least, spaces = program
    mark = secrets.token_hex(16).encode()
    before = outside()
    with tempfile.TemporaryDirectory(prefix="heddle-interrupt-") as folder:
        out = pathlib.Path(folder) / "out"
        temporary = pathlib.Path(folder) / "tmp"
        temporary.mkdir()
        environment = {**demo_run.environment(build), "TMPDIR": str(temporary), "HEDDLE_TEST_MARK": mark.decode()}
        with open(out, "wb") as file:
            demo = subprocess.Popen([*command, "--out", folder], env=environment, stdin=subprocess.DEVNULL,
                                    stdout=file, stderr=file, start_new_session=True)
        try:
            pen.until(lambda: demo.poll() is not None or len(working(mark)) >= 4, "the run's middle", 120)
            assert demo.poll() is None, f"it ended by itself: {out.read_text()}"
            pids = marked(mark)
            theirs = namespaces(pids) - {os.readlink("/proc/self/ns/net")}
            assert len(pids) >= least, pids
            assert len(theirs) >= spaces, theirs
            # As a terminal does it, Ctrl-C reaches the whole group.
            (os.killpg if number == signal.SIGINT else os.kill)(demo.pid, number)
            status = demo.wait(timeout=GONE_S)
            pen.until(lambda: not marked(mark), "the end of every process", GONE_S)
            pen.until(lambda: not theirs & alive_namespaces(), "the end of every namespace", GONE_S)
        finally:
            if demo.poll() is None:
                demo.kill()
        expected = -signal.SIGKILL if number == signal.SIGKILL else 128 + number
        assert status == expected, (status, expected, out.read_text())
        assert list(temporary.iterdir()) == [], list(temporary.iterdir())
    assert outside() == before, (outside(), before)
    what = pathlib.Path(command[0]).relative_to(pen.ROOT)
    print(f"{what}, signal {number}: {len(pids)} processes, {len(theirs)} namespaces, all gone")


def main():
    pen.need_namespaces()
    for program in (DEMO, MARKET, PATTERN):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            interrupt(sys.argv[1], program, number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
