#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls that wait end in time, on real links: each call with a timeout of a worker whose link is cut after it has
joined, and heddle-monitor by SIGTERM and SIGINT, whether its controller answers or not.

usage: test_waits.py BUILD_DIR"""
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pen
import survive

TIMEOUT_MS = 300
SLACK_MS = 700  # for a machine that is busy; a hang is not within it
SIGNAL_S = 2
TIMED_OUT = -110
# Call: what it may return while there is no way. A worker that has joined stays so; leaving may be over already.
CALLS = {"push": (TIMED_OUT,), "pull": (TIMED_OUT,), "ticket_wait,push": (TIMED_OUT,),
         "ticket_wait,pull": (TIMED_OUT,), "ticket_wait,cancelled": (0, 1, -5), "allreduce": (TIMED_OUT,),
         "wait_joined": (0,)}
ENDS = {"leave": (0, TIMED_OUT), "close": (0, TIMED_OUT)}


class Cluster(survive.Cluster):
    def __init__(self, build, path):
        super().__init__(build, path, 1)
        self.phases = path / "phases"

    def command(self, node):
        if node in self.workers:
            return [self.build / "tests/netns/cut_worker", self.phases, TIMEOUT_MS]
        return super().command(node)

    def next_phase(self):
        with open(self.phases, "a", encoding="ascii") as file:
            file.write("\n")

    def said(self):
        """The worker's report: {call: (return value, ms)}"""
        rows = [line.split() for line in self.workers[0].output().splitlines()]
        return {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3}


def port(node, up):
    """The switch drops."""
    node.link(up)


def card(node, up):
    """The host knows that its link is down."""
    node.host.run("ip", "link", "set", "e0", "up" if up else "down")


def check_calls(said, calls):
    for call, allowed in calls.items():
        rc, took_ms = said[call]
        assert rc in allowed, f"{call}: returned {rc}, wanted one of {allowed}"
        assert took_ms <= TIMEOUT_MS + SLACK_MS, f"{call}: {took_ms} ms, its timeout is {TIMEOUT_MS} ms"


def cut_after_joining(build, path, cut):
    path.mkdir()
    cluster = Cluster(build, path)
    worker = cluster.workers[0]

    def until(call):
        pen.until(lambda: call in cluster.said() or not worker.alive(), call)
        assert call in cluster.said(), f"{call}: the worker ended: {worker.output()}"
    try:
        cluster.start_all()
        until("trained")
        assert cluster.said()["trained"][0] == 0, worker.output()
        cut(worker, False)
        cluster.next_phase()
        until("wait_joined")
        cut(worker, True)
        cluster.next_phase()
        until("back")
        assert cluster.said()["back"][0] == 0, worker.output()
        cut(worker, False)
        cluster.next_phase()
        assert worker.process.wait(timeout=30) == 0, worker.output()
        said = cluster.said()
        check_calls(said, {**CALLS, **ENDS})
        worst = max((said[call][1], call) for call in {**CALLS, **ENDS})
        print(f"{cut.__name__}: {len(CALLS) + len(ENDS)} calls, at most {worst[0]} ms ({worst[1]}), "
              f"timeout {TIMEOUT_MS} ms; back after {said['back'][1]} ms")
    finally:
        for node in cluster.nodes():
            node.kill()
            cluster.ip("link", "del", f"br-{node.name}")
            node.host.holder.kill()
            node.host.holder.wait()
        cluster.ip("link", "del", "br0")


def monitor_ends(build, path):
    """Of every controller and signal."""
    program = build / "dataplane/monitor/heddle-monitor"
    if not program.exists():
        print("heddle-monitor: not built (libbpf, clang, bpftool)")
        return
    path.mkdir()
    key = path / "key"
    key.write_text(survive.KEY)
    with open(path / "ctl", "wb") as log:
        controller = subprocess.Popen(
            [build / "controller/heddle-controller", "--listen", "127.0.0.1:4773", "--key-file", key, "--state-dir",
             path],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    subprocess.run(["ip", "link", "add", "m0", "type", "veth", "peer", "name", "m1"], check=True)
    subprocess.run(["ip", "link", "set", "m0", "up"], check=True)
    subprocess.run(["ip", "link", "set", "m1", "up"], check=True)

    def shown():
        return subprocess.run([build / "controller/heddlectl", "--key-file", key, "--json", "show", "nodes"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    try:
        pen.until(lambda: b"listening" in (path / "ctl").read_bytes(), "the controller")
        for answers, number in itertools.product((True, False), (signal.SIGTERM, signal.SIGINT)):
            name = f"monitor-{answers}-{number}"
            with open(path / name, "wb") as log:
                process = subprocess.Popen([program, "--interface", "m0", "--host", f"h{number}", "--key-file", key,
                                            "--controller", f"127.0.0.1:{4773 if answers else 4774}"],
                                           stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                wait_until_ready(process, path / name, lambda: not answers or f'"h{number}"' in shown())
                begun = time.monotonic()
                process.send_signal(number)
                status = process.wait(timeout=20)
                took = time.monotonic() - begun
                assert took < SIGNAL_S, f"{name}: it ended after {took:.1f} s"
                assert status == 0, f"{name}: exit status {status}: {(path / name).read_text()}"
                print(f"heddle-monitor, {'registered' if answers else 'no answer'}, "
                      f"{signal.Signals(number).name}: {took:.2f} s")
            finally:
                process.kill()
                process.wait()
    finally:
        controller.kill()
        controller.wait()
        subprocess.run(["ip", "link", "del", "m0"], check=True)


def wait_until_ready(process, log, registered):
    """It is in its wait: its handlers are there, and its controller knows it."""
    def waits():
        assert process.poll() is None, f"heddle-monitor ended: {log.read_text()}"
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        caught = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigCgt:", "SigBlk:"))]
        return any(mask >> (signal.SIGTERM - 1) & 1 for mask in caught) and registered()
    pen.until(waits, "heddle-monitor is ready")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-waits-") as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder)
        cut_after_joining(build, path / "port", port)
        cut_after_joining(build, path / "card", card)
        monitor_ends(build, path / "monitor")


if __name__ == "__main__":
    main()
