#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demo ended in the middle by SIGINT, SIGTERM and SIGKILL: no process, link, namespace, mount or
temporary file of it remains.

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
    """What a demo could leave in the machine's own namespaces: its names are h1.., s1-h1.., ps, ctl, x1."""
    links = {path.name for path in pathlib.Path("/sys/class/net").iterdir()}
    names = {path.name for path in pathlib.Path("/run/netns").glob("*")}
    return ({x for x in links if x == "s1" or x.startswith(("s1-", "h1-", "ps-", "ctl-", "x1-"))},
            {x for x in names if x in ("s1", "h1", "ps", "ctl", "x1")},
            {line.split()[1] for line in open("/proc/self/mounts") if line.startswith("heddle ")})


def interrupt(build, number):
    mark = secrets.token_hex(16).encode()
    before = outside()
    with tempfile.TemporaryDirectory(prefix="heddle-interrupt-") as folder:
        out = pathlib.Path(folder) / "out"
        temporary = pathlib.Path(folder) / "tmp"
        temporary.mkdir()
        environment = {**demo_run.environment(build), "TMPDIR": str(temporary), "HEDDLE_TEST_MARK": mark.decode()}
        with open(out, "wb") as file:
            demo = subprocess.Popen(
                [str(demo_run.DEMO), "--quick", "--modes", "scheduled", "--out", folder], env=environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            pen.until(lambda: demo.poll() is not None or b"updates" in out.read_bytes(), "the run's middle", 120)
            assert demo.poll() is None, f"the demo ended by itself: {out.read_text()}"
            pids = marked(mark)
            theirs = namespaces(pids) - {os.readlink("/proc/self/ns/net")}
            assert len(theirs) >= 6, theirs  # the switch's and those of four workers, server, controller
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
    print(f"signal {number}: {len(pids)} processes, {len(theirs)} namespaces, all gone")


def main():
    pen.need_namespaces()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        interrupt(sys.argv[1], number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
