#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a byte: processor seconds a GB of updates pushed and models pulled, by Heddle and by plain TCP.

    tests/netns/bench_bytes.py BUILD [--workers 1,8] [--mbps 50,200,1000] [--bytes N] [--seconds N] [--burst-kb N]
                               [--runs N] [--modes tcp,heddle] [--json FILE]

A star (network namespaces around a bridge), every link shaped both ways to --mbps (0: not shaped); a server on one
host, each worker on one of its own, a controller beside the bridge. A worker pushes --bytes and pulls as many, again
and again, for about --seconds. plain TCP: a server with a thread for each worker, which reads the update, applies it
and writes the model. Heddle with `integrity off`. Counted are the processors' times of all processes of either side
(s/GB), and beside them the machine's busy time less that of a second without (machine; says nothing on a machine that
does something else), a GB being of pushed and pulled values; and the rate of values on the server's link. Prints
medians over the runs and Heddle's multiple of TCP's. Needs root, iproute2.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import fabric
import pen
from star import BURST_BYTES, Star, busy

NET = "10.81.0"
QUEUE_KB = 256
UNSHAPED_MBPS = 8000  # for the number of rounds


def machine_s(before, after):
    return (after - before) / os.sysconf("SC_CLK_TCK")


class Tcp:
    """The plain server and its workers."""

    def __init__(self, star, o, rounds, folder):
        self.server, *hosts = star.hosts.values()
        program = o.build / "tests/bench/bench_bytes"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.running = [subprocess.Popen(self.server.enter(program, "tcp-server", self.server.address, o.bytes // 4,
                                                           len(hosts)), **pipes)]
        assert self.running[0].stdout.readline().strip() == "listening"
        self.workers = [subprocess.Popen(host.enter(program, "tcp", self.server.address, o.bytes // 4, rounds), **pipes)
                        for host in hosts]
        self.running += self.workers

    def end(self):
        for worker in self.workers:
            worker.stdin.close()
        for process in self.running:
            assert process.wait(timeout=30) == 0


class Heddle(fabric.Fabric):
    """A controller, a server, and workers that push and pull."""

    def __init__(self, star, o, rounds, folder):
        super().__init__(o.build, folder, star.hub)
        server, *hosts = star.hosts.values()
        self.start_node("server", server, "server")
        pen.until(lambda: len(self.shell.seen("nodes")) >= 1, "the server")
        self.workers = [self.start(f"w{rank}", host, o.build / "tests/bench/bench_bytes", "heddle", o.bytes // 4,
                                   rounds, pipes=True,
                                   env=self.member("bench", rank, len(hosts), host))
                        for rank, host in enumerate(hosts)]


def measure(side):
    """(seconds of the slowest worker, processor seconds of all processes, of the machine less an idle second's)"""
    for worker in side.workers:
        line = worker.stdout.readline().strip()
        assert line == "ready", line
    idle, began = busy()[0], time.monotonic()
    time.sleep(1)
    idle = machine_s(idle, busy()[0]) / (time.monotonic() - began)
    used, machine, began = sum(pen.used_ns(p.pid) for p in side.running), busy()[0], time.monotonic()
    for worker in side.workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    took = [float(worker.stdout.readline().split()[1]) for worker in side.workers]
    used = sum(pen.used_ns(p.pid) for p in side.running) - used
    machine = machine_s(machine, busy()[0]) - idle * (time.monotonic() - began)
    return max(took), used / 1e9, machine


def run(o, count, mbps, mode):
    rate = mbps or UNSHAPED_MBPS
    # The server's link carries all of it, both ways at once when several workers share it.
    rounds = max(3, round(o.seconds * rate * 1e6 / 8 / o.bytes / max(count, 2)))
    names = ["ps", *(f"h{k + 1}" for k in range(count))]
    star = Star({name: mbps for name in names}, NET, QUEUE_KB, o.burst_kb * 1024)
    try:
        with tempfile.TemporaryDirectory() as folder:
            side = (Tcp if mode == "tcp" else Heddle)(star, o, rounds, pathlib.Path(folder))
            took, used, machine = measure(side)
            side.end()
    finally:
        star.close()
    moved = 2 * o.bytes * rounds * count / 1e9
    return {"s_per_gb": used / moved, "machine_s_per_gb": machine / moved, "mbps": moved / 2 * 8e3 / took}


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="1,8")
    parser.add_argument("--mbps", default="50,200,1000")
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--burst-kb", type=int, default=BURST_BYTES // 1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--modes", default="tcp,heddle")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    o.build, results = o.build.resolve(), []
    print(f"{'workers':>7} {'Mbit/s':>7}  {'':<7} {'s/GB':>6} {'machine':>8} {'values, Mbit/s each way':>24}")
    for count in map(int, o.workers.split(",")):
        for mbps in map(int, o.mbps.split(",")):
            runs = {mode: [] for mode in o.modes.split(",")}
            for _ in range(o.runs):
                for mode, rows in runs.items():
                    rows.append(run(o, count, mbps, mode))
            medians = {mode: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
                       for mode, rows in runs.items()}
            for mode, row in medians.items():
                of = f"  {row['s_per_gb'] / medians['tcp']['s_per_gb']:.2f} times TCP's" \
                    if mode != "tcp" and "tcp" in medians else ""
                print(f"{count:>7} {mbps or 'none':>7}  {mode:<7} {row['s_per_gb']:>6.2f} "
                      f"{row['machine_s_per_gb']:>8.2f} {row['mbps']:>24.1f}{of}", flush=True)
            results.append({"workers": count, "mbps": mbps, "runs": runs})
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
