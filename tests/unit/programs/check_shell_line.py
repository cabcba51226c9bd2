#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddlectl at an interactive terminal: completion, `?`, history, Ctrl-C, Ctrl-D.

usage: check_shell_line.py HEDDLE_CONTROLLER HEDDLECTL HEDDLE_SERVER"""
import os
import pty
import re
import select
import sys
import tempfile
import time

from processes import DEADLINE_S, Program, check, until, write_keys

CONTROLLER, SHELL, SERVER = map(os.path.abspath, sys.argv[1:4])
PROMPT = "heddle> "


class Terminal:
    """The interactive shell behind a pseudo-terminal."""

    def __init__(self, address, keys, home):
        # libedit never frees the names of functions that are added to it.
        with open(os.path.join(home, "suppressions"), "w", encoding="ascii") as file:
            file.write("leak:wcsdup\n")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(SHELL, [SHELL], {"HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys, "HOME": home,
                                       "TERM": "xterm", "PATH": os.environ["PATH"],
                                       "LSAN_OPTIONS": f"suppressions={home}/suppressions:print_suppressions=0"})
        self.text = ""
        self.wait(PROMPT)

    def wait(self, words):
        """Reads until the words come; returns what came up to them, and keeps the rest."""
        end = time.monotonic() + DEADLINE_S
        while words not in self.text:
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                sys.exit(f"FAILED: no '{words}' in {self.text!r}")
            try:
                more = os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                more = ""
            if not more:
                sys.exit(f"FAILED: it ended before '{words}': {self.text!r}")
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", more)
        end = self.text.index(words) + len(words)
        seen, self.text = self.text[:end], self.text[end:]
        return seen

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def run(self, line):
        """Types a line; returns what it printed."""
        self.type(line + "\n")
        return self.wait(PROMPT)

    def expect(self, line, words):
        """Types a line that prints these words. The prompt alone may be an older one, shown again."""
        self.type(line + "\n")
        self.wait(words)
        self.wait(PROMPT)

    def end(self, keys):
        """Types until it has ended. Keys that come while libedit sets up the terminal may be lost, and Ctrl-D may
        become a character of the line, which the next ones then do not end: Ctrl-U first."""
        end, pid = time.monotonic() + DEADLINE_S, 0
        while not pid:
            check(time.monotonic() < end, f"it ends: {self.text}")
            try:
                self.type(keys)
                while select.select([self.fd], [], [], 0.3)[0]:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                keys = "\x15" + keys.lstrip("\x15")
            except OSError:
                pass  # the other end is closed
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        os.close(self.fd)
        check(os.waitstatus_to_exitcode(status) == 0, f"it ends with 0: {status} {self.text}")


def type_and_complete(t):
    """A completion is judged by the effect of the line: the editor moves the cursor as it likes."""
    check("no plan" in t.run("sh\tpla\tw\t"), "show plan why")
    t.type("show p\t")
    listed = t.wait("network ports")
    check("the latest plan" in listed and "registered" not in listed, f"both that fit: {listed!r}")
    t.expect("or\t", "rx_packets")
    check("host ps takes no new grants" in t.run("drain host p\t"), "a host that is registered")
    check("host ps takes grants again" in t.run("und\th\tp\t"), "undrain")
    check("no staleness" in t.run("show nodes\x15show sta\t"), "Ctrl-U starts the line again")


def ask_for_help(t):
    t.type("?")
    listed = t.wait("leave the shell")
    check(all(word in listed for word in ("show", "watch", "set", "pause", "drain", "evict", "check")), listed)
    t.type("show dataplane ?")
    listed = t.wait("[FILTER")
    check(re.search(r"by +sums by host", listed) and "packets between" not in listed, listed)
    t.type("by ?")
    listed = t.wait("packets between")
    check(all(re.search(f"^ *{word} ", listed, re.M) for word in ("host", "job", "link")), listed)
    t.type("\x15set ?")
    listed = t.wait("weight")
    check("theta" in listed and "drop an update" in listed and "undrain" not in listed, listed)
    t.type("theta ?")
    t.wait("VALUE")
    t.expect("3", "theta is 3")  # the line goes on


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--key-file", keys, "--listen", "127.0.0.1:0")
        address = controller.address
        server = Program(SERVER, "--key-file", keys, "--listen", "127.0.0.1:0", "--controller", address, "--host", "ps")
        t = Terminal(address, keys, where)
        until(lambda: "server" in t.run("show nodes"), "the server registers")
        type_and_complete(t)
        ask_for_help(t)
        check("'bugs': not expected" in t.run("show bugs"), "an error does not end the shell")
        t.expect("\x10\x10", "theta is 3")  # Ctrl-P: the line before the last
        t.type("watch nodes\n")
        t.wait("every 1 s")
        t.type("\x03")
        t.wait(PROMPT)
        t.run("show settings")
        t.end("exit\n")
        history = open(os.path.join(where, ".heddlectl_history"), encoding="utf-8").read()
        check("watch" in history and "theta" in history, history)
        t = Terminal(address, keys, where)
        t.expect("\x10\x10", "horizon-us")  # before `exit`, in the history of the last time
        t.end("\x04")  # Ctrl-D
        server.stop()
        controller.stop()


main()
