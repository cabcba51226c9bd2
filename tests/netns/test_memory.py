#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory under load stays flat: a cluster trains for a while with journal, checkpoints, event logs, scrapes and an
operator who looks around; a line is fitted through each process's resident memory once it is grown up.

usage: test_memory.py BUILD [--minutes M] [--workers N] [--aggregate]     60 minutes are the claim, 2 are CI's

--aggregate: with an aggregator, and a link of the server's that is worth sums"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import pen
import survive

WARM_SHARE, WARM_MIN_S = 0.25, 20  # of the time: until buffers and the allocator's arenas are what they mostly stay
# The rise of a line over the fitted time that is allowed, whatever its length. The server's heap grows by 64 kB
# whenever more updates are in flight than ever before, less and less often. A leak of 32 bytes an update is 1 MB in 2
# minutes; one byte, in an hour.
RISE_KB = 1024
METRICS = 9109
SERVER_IN_MBPS = 60
SUM = 65535  # whose chunks a sum's are


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--aggregate", action="store_true")
    return parser.parse_args()


class Cluster(survive.Cluster):
    aggregator = None

    def aggregate(self):
        self.aggregator = survive.Node(self, "agg", "10.78.0.4")
        subprocess.run(["tc", "qdisc", "add", "dev", "br-ps", "root", "tbf", "rate", f"{SERVER_IN_MBPS}mbit",
                        "burst", "15k", "limit", "128k"], check=True, stdin=subprocess.DEVNULL)

    def nodes(self):
        return [*super().nodes(), *([self.aggregator] if self.aggregator else [])]

    def sums(self):
        with open(self.aggregator.file("events")) as log:
            ends = (json.loads(line) for line in log if '"send-end"' in line)
            return sum(e.get("worker") == SUM and e.get("reason", "none") == "none" for e in ends)

    def end(self):
        problems = super().end()
        if self.aggregator:
            status, sums = self.aggregator.end(), self.sums()
            print(f"{sums} sums delivered")
            if status != 0 or sums == 0:
                problems.append(f"agg: ended with {status}, {sums} sums: {self.aggregator.output()[-500:]}")
        return problems

    def command(self, node):
        if node is self.aggregator:
            return [self.build / "aggregator/heddle-aggregator", "--listen", node.address, "--host", "agg",
                    "--controller", self.controller.address, "--key-file", self.key, "--memory", "256M", "--events",
                    node.file("events")]
        words = super().command(node)
        if node is self.controller:
            words += ["--journal", self.path / "journal.db", "--journal-rows", 10000]
        return words + (["--metrics", f"127.0.0.1:{METRICS}"] if node not in self.workers else [])


def sample(node):
    """Resident kB of a process, exactly: VmRSS is summed up from what each processor keeps to itself."""
    for line in pathlib.Path(f"/proc/{node.process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            node.rss.append((node.lives, time.monotonic() - node.began, int(line.split()[1])))


def scrape(node):
    read = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{METRICS}/metrics', timeout=10).read()"
    node.host.run(sys.executable, "-c", read)


def load(cluster, minutes):
    """Nothing happens but work, and people who look at it."""
    end, turn = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        for node in cluster.nodes():
            sample(node)
        if turn % 10 == 0:
            for table in ("nodes", "jobs", "transfers", "links", "counters"):
                cluster.show(table)
            scrape(cluster.controller)
            scrape(cluster.server)
        turn += 1
        time.sleep(min(1, max(0.01, end - time.monotonic())))


def fit(node, minutes):
    """(first, last, slope in kB/h, rise over the fitted time) of a process's memory."""
    warm = max(WARM_MIN_S, WARM_SHARE * 60 * minutes)
    points = [(age, kb) for _, age, kb in node.rss if age > warm]
    if len(points) < 10:
        raise AssertionError(f"{node.name}: too few samples: more minutes are needed")
    slope = statistics.linear_regression(*zip(*points)).slope
    return points[0][1], points[-1][1], 3600 * slope, slope * (points[-1][0] - points[0][0])


def main():
    pen.enter()
    args = parse()
    with tempfile.TemporaryDirectory(prefix="heddle-memory-") as folder:
        cluster = Cluster(args.build, pathlib.Path(folder), args.workers)
        if args.aggregate:
            cluster.aggregate()
        cluster.start_all()
        cluster.progressed()
        before, began = cluster.outcomes(), time.monotonic()
        load(cluster, args.minutes)
        cluster.progressed()
        rate = (cluster.outcomes() - before) / (time.monotonic() - began)
        problems = cluster.end()
        print(f"{args.minutes:g} minutes, {rate:.0f} updates/s of {survive.VALUES * 4} bytes")
        for node in cluster.nodes():
            first, last, slope, rise = fit(node, args.minutes)
            print(f"{node.name:4} {first:7} kB -> {last:7} kB, fitted {slope:+8.0f} kB an hour "
                  f"({rise:+.0f} kB while fitted)")
            if rise > RISE_KB:
                problems.append(f"{node.name} grew by {rise:.0f} kB")
        for problem in problems:
            print("PROBLEM:", problem)
        return 1 if problems or rate < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
