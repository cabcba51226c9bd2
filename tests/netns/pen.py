# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests in namespaces. A test runs in network, mount and PID namespaces of its own: all that it starts or
creates ends with it, in whatever way it ends."""
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testbed"))

from lab import sandbox  # noqa: E402: the demo's own way into namespaces

INSIDE = "HEDDLE_TEST_INSIDE"


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def need_namespaces():
    why = sandbox.possible()
    if why:
        skip(why)


def enter():
    """Continues in namespaces of our own: the rest of the program runs as PID 1 there."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    need_namespaces()
    done = subprocess.run([*sandbox.UNSHARE, sys.executable, *sys.argv], stdin=subprocess.DEVNULL,
                          env={**os.environ, INSIDE: "1"}, preexec_fn=sandbox.die_with_parent)
    sys.exit(done.returncode if done.returncode >= 0 else 1)


class Host:
    """One more network namespace, held by a process that sleeps."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        ours = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != ours, "a second namespace")

    def enter(self, *command):
        return ["nsenter", "-t", str(self.holder.pid), "--net", *map(str, command)]

    def run(self, *command):
        subprocess.run(self.enter(*command), check=True, stdin=subprocess.DEVNULL)


def events(path, kind=None):
    """Events of an event log, all or those of one kind. Its last line may be incomplete: not yet written, or cut where
    a program was killed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if lines and not lines[-1].endswith("}"):
        lines.pop()
    return [event for event in map(json.loads, lines) if kind in (None, event["event"])]


def used_ns(pid):
    """Processor time of all threads so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def core_share(pid, seconds):
    """How much of a core it uses in so long."""
    before, began = used_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (used_ns(pid) - before) / 1e9 / (time.monotonic() - began)


def until(holds, what, patience_s=30):
    """Waits, with a deadline that only guards against hangs."""
    ends = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"{what}: not within {patience_s} s")
        time.sleep(0.02)
