#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each UDP packet may be lost at random, control too: a worker alone on its links has most of them nevertheless; beside
a TCP flow (CUBIC) it takes no more than twice what that has.

    ctl --- bridge --- [50 Mbit/s] --- w     the worker
                  +--- [50 Mbit/s] --- ps    the server
                  +--- [50 Mbit/s] --- x     TCP to ps

usage: test_loss.py BUILD [--runs N] [--seconds S] [--bytes N] [--json FILE]

What is lost is lost at its receiver, behind the queues."""
import argparse
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

import fabric
import pen
import star

HERE = pathlib.Path(__file__).resolve().parent
MBPS, QUEUE_KB = 50, 128
PORT = 5001
# Percent lost; of the goodput without loss, what a quiet machine reaches, and what a busy one may not fall below.
RATES = {1: (0.95, 0.80), 10: (0.80, 0.55), 30: (0.40, 0.20)}
# Percent lost, and how many flows of CUBIC we run beside, one after the other. One that loses early is slow for
# seconds: the total over all of them counts.
SHARES = {0: 5, 10: 1}
MOST = 2  # times what CUBIC has
SETTLE_S = 1.5


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Lossy:
    """Hooks where packets are received, and the programs that drop there."""

    def __init__(self, net, folder):
        self.folder = folder
        self.places = [([], "br0"), *((host.enter(), "e0") for host in net.hosts.values())]
        for inside, device in self.places:
            self.tc(inside, "qdisc", "add", "dev", device, "clsact")
        for host in net.hosts.values():
            # Segments must be packets before they are lost one by one.
            host.run("ethtool", "-K", "e0", "tx-udp-segmentation", "off")

    @staticmethod
    def tc(inside, *words):
        subprocess.run([*inside, "tc", *words], check=True, stdin=subprocess.DEVNULL)

    def program(self, percent):
        path = self.folder / f"loss-{percent}.o"
        if not path.exists():
            subprocess.run(["clang", "-O2", "-target", "bpf", "-DLOSS_UDP", f"-DLOSS_PER_10000={100 * percent}",
                            "-I/usr/include/x86_64-linux-gnu", "-c", HERE / "loss.bpf.c", "-o", path], check=True,
                           stdin=subprocess.DEVNULL)
        return path

    def set(self, percent):
        for inside, device in self.places:
            self.tc(inside, "filter", "del", "dev", device, "ingress")
            if percent:
                self.tc(inside, "filter", "add", "dev", device, "ingress", "bpf", "da", "obj", self.program(percent),
                        "sec", "classifier")


class Tcp:
    """One flow from x to ps, for as long as it lives; `received` counts."""

    def __init__(self, net):
        self.received = 0
        here = [sys.executable, __file__]
        self.sink = subprocess.Popen(net.hosts["ps"].enter(*here, "--drain"), text=True, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        assert self.sink.stdout.readline().strip() == "ready"
        self.source = subprocess.Popen(net.hosts["x"].enter(*here, "--pour", net.hosts["ps"].address),
                                       stdin=subprocess.DEVNULL)

    def bytes(self):
        self.sink.stdin.write("\n")
        self.sink.stdin.flush()
        return int(self.sink.stdout.readline())

    def end(self):
        for process in (self.source, self.sink):
            process.kill()
            process.wait()


def drain():
    """Says on each line of stdin how much has come."""
    total = 0
    listener = socket.create_server(("", PORT))
    print("ready", flush=True)

    def take():
        nonlocal total
        flow = listener.accept()[0]
        while piece := flow.recv(1 << 16):
            total += len(piece)

    threading.Thread(target=take, daemon=True).start()
    for _ in sys.stdin:
        print(total, flush=True)


def pour(address):
    flow = socket.socket()
    flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    flow.connect((address, PORT))
    while True:
        flow.sendall(bytes(1 << 16))


def exchange(worker, what, seconds):
    """(bytes of updates and models, seconds it took)."""
    worker.stdin.write(f"{what} {seconds}\n")
    worker.stdin.flush()
    pushed, pulled, failed, took = map(int, worker.stdout.readline().split())
    assert failed == 0, f"{failed} calls failed"
    return pushed + pulled, took / 1e9


def goodput(worker, lossy, percent, o):
    """Mbit/s, of pulls and pushes in turns."""
    lossy.set(percent)
    exchange(worker, "both", SETTLE_S)
    count, took = exchange(worker, "both", o.seconds)
    return count * o.bytes * 8e-6 / took


def share(net, worker, lossy, percent, o):
    """The rates of our packets and of CUBIC's on the server's link while we pushed beside CUBIC, Mbit/s."""
    lossy.set(percent)
    tcp = Tcp(net)
    exchange(worker, "push", SETTLE_S)
    link, theirs = net.towards("ps"), tcp.bytes()
    took = exchange(worker, "push", o.seconds)[1]
    link, theirs = net.towards("ps") - link, (tcp.bytes() - theirs) * 1514 / 1448
    tcp.end()
    return (link - theirs) * 8e-6 / took, theirs * 8e-6 / took


def measure(net, worker, lossy, o):
    alone = {percent: [] for percent in (0, *RATES)}
    for _ in range(o.runs):
        for percent, values in alone.items():
            values.append(goodput(worker, lossy, percent, o))
    alone = {percent: statistics.median(values) for percent, values in alone.items()}
    print(f"alone, without loss: {alone[0]:.1f} Mbit/s")
    for percent, (quiet, _) in RATES.items():
        print(f"alone, {percent} % lost: {alone[percent]:.1f} Mbit/s, {alone[percent] / alone[0]:.2f} of that "
              f"(on a quiet machine {quiet:.2f})")
    beside = {}
    for percent, runs in SHARES.items():
        pairs = [share(net, worker, lossy, percent, o) for _ in range(max(o.runs, runs))]
        ours, theirs = (sum(rates) for rates in zip(*pairs))
        beside[percent] = ours / theirs
        print(f"beside one CUBIC flow, {percent} % lost: " + ", ".join(f"{a:.1f} and {b:.1f}" for a, b in pairs)
              + f" Mbit/s: in all {beside[percent]:.2f} times what it has")
    lossy.set(0)
    return alone, beside


def main():
    if sys.argv[1] == "--drain":
        return drain()
    if sys.argv[1] == "--pour":
        return pour(sys.argv[2])
    o = options()
    pen.enter()
    if not shutil.which("clang"):
        pen.skip("no clang")
    net = star.Star({"ps": MBPS, "w": MBPS, "x": MBPS}, "10.95.0", QUEUE_KB)
    with tempfile.TemporaryDirectory(prefix="heddle-loss-") as folder:
        folder = pathlib.Path(folder)
        lab = fabric.Fabric(o.build.resolve(), folder, net.hub, "--events", folder / "controller.jsonl")
        try:
            lossy = Lossy(net, folder)
            lab.start_node("server", net.hosts["ps"], "ps")
            worker = lab.start("w", net.hosts["w"], lab.build / "tests/netns/exchange", o.bytes // 4, pipes=True,
                               env=lab.member("loss", 0, 1, net.hosts["w"]))
            assert worker.stdout.readline().strip() == "joined", lab.said("w")
            alone, beside = measure(net, worker, lossy, o)
            lost = [e for e in pen.events(folder / "controller.jsonl", "node-down")]
            print(f"nodes that were taken for lost: {len(lost)}")
        finally:
            lab.end()
            net.close()
    if o.json:
        o.json.write_text(json.dumps({"alone_mbps": alone, "times_cubic": beside}, indent=1))
    for percent, (_, least) in RATES.items():
        assert alone[percent] >= least * alone[0], f"{percent} % lost: less than {least} of the goodput without"
    for percent, times in beside.items():
        assert times <= MOST, f"{percent} % lost: {times:.2f} times what CUBIC has"
    return 0


if __name__ == "__main__":
    sys.exit(main())
