#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Transfers over a shaped path between two namespaces arrive whole and do not stall, also when the path's
queue is so short that it drops. How fast they are is bench_transfer.py's question.

    here [v0] --- tbf --- [v1] there        both directions are shaped

usage: test_transfer.py BENCH_TRANSFER"""
import json
import subprocess
import sys

import pen

MBPS = 200
QUEUES_KB = 128, 18  # eighty packets, and barely more than a burst
BYTES, COUNT = 4 << 20, 6
HERE, THERE = "10.79.0.1", "10.79.0.2"
PATIENCE_S = 60  # against a stall; the path itself needs about one second


def shape(enter, device, queue_kb):
    subprocess.run([*enter, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{MBPS}mbit",
                    "burst", "15kb", "limit", f"{queue_kb}kb"], check=True)


def build_path(there):
    subprocess.run(["ip", "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1",
                    "netns", str(there.holder.pid)], check=True)
    subprocess.run(["ip", "addr", "add", f"{HERE}/24", "dev", "v0"], check=True)
    subprocess.run(["ip", "link", "set", "v0", "up"], check=True)
    there.run("ip", "addr", "add", f"{THERE}/24", "dev", "v1")
    there.run("ip", "link", "set", "v1", "up")


def transfer(there, program):
    sizes = ["--bytes", str(BYTES), "--count", str(COUNT)]
    receiver = subprocess.Popen(there.enter(program, "recv", "--listen", THERE, *sizes), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert receiver.stdout.readline().strip() == "ready"
    sender = subprocess.run([program, "send", "--peer", THERE, *sizes], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, timeout=PATIENCE_S)
    receiver.terminate()
    out, _ = receiver.communicate(timeout=PATIENCE_S)
    # The receiver compares every byte; its status says what it found.
    assert sender.returncode == 0 and receiver.returncode == 0, (sender, receiver.returncode, out)
    return json.loads(sender.stdout.splitlines()[-1]), json.loads(out.splitlines()[-1])


def main():
    pen.enter()
    there = pen.Host()
    build_path(there)
    for queue_kb in QUEUES_KB:
        shape([], "v0", queue_kb)
        shape(there.enter(), "v1", queue_kb)
        sent, got = transfer(there, sys.argv[1])
        print(f"queue of {queue_kb} kB: {sent}\n                 {got}")
        assert sent["done"] == got["done"] == COUNT, "not every transfer ended"
        assert got["strays"] == 0, "packets of no transfer"
        assert sent["packets"] * 1408 >= BYTES * COUNT, "fewer packets than the bytes need"
        assert sent["resent"] <= 0.2 * sent["packets"], "sent again far more than was lost"
    assert sent["resent"] > 0, "the short queue was to drop something"
    return 0


if __name__ == "__main__":
    sys.exit(main())
