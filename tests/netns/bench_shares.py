#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two jobs that all-reduce through one heddle-switch at once: what each gets of the links, beside what its weight says.

    tests/netns/bench_shares.py BUILD [--weights 1:1,2:1,3:1] [--workers 3] [--mbps 100] [--bytes N] [--seconds N]
                                [--repeat N] [--unknown] [--json FILE]

Hosts, links and the switch are bench_inpath.py's; each host has a worker of either job. The jobs sum without a pause;
only while both do is counted: a job's rate is its bytes by the time of its all-reduces then (both begun and ended while
the other was there), its share that rate by the sum of both. The controller is told what links carry; with --unknown
it believes 1,000 Mbit/s, as it does of itself, and has to learn it from the rounds. Prints shares, how far they are
from the weights', and what both together get of the links' floor. Needs root, iproute2, ethtool, DPDK.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench_allreduce as rivals
import bench_inpath
import pen
from star import CHUNK, OVERHEAD

ROUNDS = 100000  # more than there is time for
APART_S = 0.37  # between the starts: rounds of both do not begin together


class Job:
    """A worker of it on each host, and when each of its rounds ended."""

    def __init__(self, path, name, weight, values):
        command = [path.options.build / "tests/bench/bench_allreduce", values, ROUNDS, path.options.chunk, weight]
        self.weight, self.rounds = weight, []
        self.ranks = [rivals.start(host, *command, env=path.member(name, k, len(path.hosts), host), out=subprocess.PIPE)
                      for k, host in enumerate(path.hosts)]
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.ranks[0].stdout:
            self.rounds.append((time.monotonic(), float(line)))

    def end(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()
        self.reader.join()

    def took(self, began, ended):
        """Seconds of the all-reduces within."""
        return [took for at, took in self.rounds if at - took >= began and at <= ended]


def shares(options, weights, folder):
    # The payload rate that links carry. It is not measured here, and a rate by weight is a share of the estimate.
    carried = options.mbps * options.chunk / (options.chunk + OVERHEAD)
    told = [] if options.unknown else ["--initial-mbps", f"{carried:.3f}"]
    path = bench_inpath.Path(options.workers, options, folder, 0, told=told)
    jobs = []
    try:
        for i, weight in enumerate(weights):
            jobs.append(Job(path, f"job{i}", weight, options.bytes // 4))
            time.sleep(APART_S)
        pen.until(lambda: all(len(job.rounds) >= 3 for job in jobs), "rounds of both jobs", 60)
        began = time.monotonic()
        time.sleep(options.seconds)
        leases, ended = path.rows("leases"), time.monotonic()
        counted = path.counters()
    finally:
        for job in jobs:
            job.end()
        switch = path.close()
    took = [job.took(began, ended) for job in jobs]
    assert all(len(rounds) >= 3 for rounds in took), [len(rounds) for rounds in took]
    assert len(leases) == len(jobs), leases
    chunks = sum(map(len, took)) * (options.bytes // options.chunk)
    assert switch["completed"] >= chunks, (switch, chunks)
    rates = [options.bytes * len(rounds) / sum(rounds) for rounds in took]
    return [rate / sum(rates) for rate in rates], sum(rates), [len(rounds) for rounds in took], leases, counted


def measure(options, weights, folder):
    wanted = [weight / sum(weights) for weight in weights]
    line = options.mbps * 1e6 / 8 * options.chunk / (options.chunk + OVERHEAD)
    runs = []
    for _ in range(options.repeat):
        got, rate, rounds, leases, counted = shares(options, weights, folder)
        runs.append(got)
        off = max(abs(g / w - 1) for g, w in zip(got, wanted))
        print(f"weights {':'.join(f'{w:g}' for w in weights)}  shares {' '.join(f'{100 * g:.1f}' for g in got)} % "
              f"(wanted {' '.join(f'{100 * w:.1f}' for w in wanted)}), {100 * off:.1f} % off; both "
              f"{rate / line:.3f} of the links, {' and '.join(map(str, rounds))} rounds, slots "
              f"{' and '.join(str(lease['slots']) for lease in leases)}, links believed to carry "
              f"{' and '.join(format(lease['rate_mbps'] or 0, '.0f') for lease in leases)} Mbit/s of values, "
              f"{counted['reduces_failed']} rounds failed", flush=True)
    return {"weights": weights, "shares": runs, "wanted": wanted}


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--weights", default="1:1,2:1,3:1")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--mbps", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "switch/heddle-switch").exists():
        pen.skip("no heddle-switch (DPDK is not installed)")
    options.mtu, options.executor, options.chunk = 1500, "native", CHUNK
    results = []
    with tempfile.TemporaryDirectory(prefix="heddle-shares-") as folder:
        for pair in options.weights.split(","):
            results.append(measure(options, [float(w) for w in pair.split(":")], pathlib.Path(folder)))
    off = [abs(g / w - 1) for result in results for run in result["shares"] for g, w in zip(run, result["wanted"])]
    print(f"median {100 * statistics.median(off):.1f} %, most {100 * max(off):.1f} % off")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
