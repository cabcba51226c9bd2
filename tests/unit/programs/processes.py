# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the check_*.py: programs are started, queried and ended in one way for all of them."""
import atexit
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 10  # only guards against hangs
KEY = "1 " + "42" * 32


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def until(holds, what, patience_s=DEADLINE_S):
    """Returns what `holds` returned once that is true."""
    end = time.monotonic() + patience_s
    while True:
        found = holds()
        if found:
            return found
        check(time.monotonic() < end, what() if callable(what) else what)
        time.sleep(0.02)


def run(*command, **more):
    words = {} if "input" in more else {"stdin": subprocess.DEVNULL}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          **{**words, "timeout": DEADLINE_S, **more})


def write_keys(where, name="keys", text=KEY):
    path = os.path.join(where, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text + "\n")
    os.chmod(path, 0o600)  # else programs warn
    return path


def state_of(pid):
    """Its state and how much processor time it has taken; None when it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (words[0], int(words[11]) + int(words[12])) if words[0] != "Z" else None


def in_status(pid, number, sets):
    """Whether one of these sets in the status of a process has the signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(sets) and int(line.split()[1], 16) >> (number - 1) & 1:
                return True
    return False


def catches(pid, number):
    """Whether a handler or a descriptor of its own takes the signal."""
    return in_status(pid, number, ("SigCgt:", "SigBlk:"))


def pending(pid, number):
    """Whether the signal was sent to the process, and waits there."""
    return in_status(pid, number, ("SigPnd:", "ShdPnd:"))


def processor_waits(pid):
    """{thread: seconds that it has waited for a processor}, of a process and of its children."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            for child in (task / "children").read_text(encoding="ascii").split():
                found[child] = int(Path(f"/proc/{child}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
        with contextlib.suppress(OSError, IndexError):
            found[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    return found


class Program:
    """A service on a free port of the loopback interface; `first` is the line in which it says so."""

    def __init__(self, *command, stderr=subprocess.DEVNULL, **more):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=stderr, **more)
        atexit.register(self.process.kill)  # also when a check fails
        self.first = self.process.stdout.readline()
        found = re.search(r"([\d.]+:\d+)", self.first)
        check(found, f"{command[0]} says where it listens: {self.first!r}")
        self.address = found[1]

    def stop(self, number=signal.SIGTERM):
        """Returns what it wrote to standard error, if that is a pipe."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        wanted = -signal.SIGKILL if number == signal.SIGKILL else 0
        check(self.process.returncode == wanted, f"it ends cleanly: {self.process.returncode} {errors}")
        return errors


class Shell:
    """heddlectl, one-shot."""

    def __init__(self, program, address, keys):
        self.base = [program, "--controller", address, "--key-file", keys]

    def run(self, *words):
        return run(*self.base, *words)

    def does(self, *words):
        done = self.run(*words)
        check(done.returncode == 0, f"{words}: {done.returncode} {done.stderr}")
        return done.stdout

    def rows(self, table, *words):
        return json.loads(self.does("show", table, *words, "--json"))["rows"]
