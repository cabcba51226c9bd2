#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous pushes of the same workers: directly to the server, added up by an aggregator on a host, and by
heddle-switch in the network.

    tests/netns/bench_pushes.py BUILD [--workers 4,8] [--mbps 100] [--bytes N] [--seconds N] [--warm N]
                                [--modes direct,aggregator,switch] [--json FILE]

Hosts, links and the switch are bench_inpath.py's, in all three ways: in the first two it only forwards. Each worker
pushes updates in fixed point for so long, one after the other; those of the first --warm seconds are not counted.
Prints updates a second, and what that is of the floor, which is all updates over the server's link one by one;
megabytes on that link for each update (frames that the switch sent to it); the time from the push until the server
has applied it, mean and 95th percentile; the processors that all of it took, of all there are. Needs root, iproute2,
ethtool, DPDK.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import bench_inpath
import fabric
import pen
from star import CHUNK, OVERHEAD, busy, busy_share, sent_bytes

SETTINGS = {"direct": ("off", "off"), "aggregator": ("on", "off"), "switch": ("on", "on")}  # aggregation, switch


class Run:
    """Workers on the first hosts, then the server's, then the aggregator's."""

    def __init__(self, options, count, mode, folder):
        self.options = options
        self.path = bench_inpath.Path(count + 2, options, folder, 0)
        self.server = f"s{count}"
        roles = ["server", *(["aggregator"] if mode == "aggregator" else [])]
        for role, host in zip(roles, self.path.hosts[count:]):
            self.path.start_node(role, host, role)
        pen.until(lambda: sum(row["role"] in ("server", "aggregator") for row in self.path.rows("nodes"))
                  == len(roles), "servers")
        for setting, value in zip(("aggregation", "switch"), SETTINGS[mode]):
            self.path.shell.say("set", setting, value)
        self.workers = self.path.start_pushers(self.path.hosts[:count], options.bytes // 4,
                                               options.warm + options.seconds)

    def measure(self):
        began = time.monotonic_ns()
        fabric.go(self.workers)
        time.sleep(self.options.warm)
        first, link, used = time.monotonic_ns(), sent_bytes(self.server), busy()
        time.sleep(self.options.seconds)
        last, link, used = time.monotonic_ns(), sent_bytes(self.server) - link, busy_share(used)
        ended = [line.split() for worker in self.workers for line in iter(worker.stdout.readline, "done\n")]
        assert ended and not any(words[0] == "lost" for words in ended), "an update was lost"
        took = sorted((int(end) - int(asked)) / 1e6 for end, _, asked in ended if first <= int(end) < last)
        counted = self.path.counters()
        assert took and began < first, "nothing was applied"
        return {"updates": len(took), "seconds": (last - first) / 1e9, "link_bytes": link,
                "mean_ms": statistics.mean(took), "p95_ms": took[int(0.95 * (len(took) - 1))],
                "cpu": used, "all": len(ended), "grouped": counted["grouped"],
                "switched": counted["switched"], "groups": counted["groups"]}


def check(mode, row):
    """The way is the one that was asked for."""
    assert (row["groups"] > 0) == (mode != "direct") and (row["switched"] > 0) == (mode == "switch"), row


def measure(options, count):
    floor = options.mbps * 1e6 / 8 / (options.bytes * (CHUNK + OVERHEAD) / CHUNK)
    print(f"{count} workers, {options.bytes / 1e6:.2f} MB, {options.mbps} Mbit/s; one by one the server's link carries "
          f"{floor:.1f} updates/s", flush=True)
    rows = {}
    for mode in options.modes.split(","):
        with tempfile.TemporaryDirectory(prefix="heddle-pushes-") as folder:
            run = Run(options, count, mode, pathlib.Path(folder))
            try:
                row = rows[mode] = run.measure()
            finally:
                run.path.close()
        check(mode, row)
        rate = row["updates"] / row["seconds"]
        print(f"  {mode:10} {rate:6.1f} updates/s, {rate / floor:.2f} of the floor; "
              f"{row['link_bytes'] / row['updates'] / 1e6:.3f} MB on the server's link each; applied after "
              f"{row['mean_ms']:.0f} ms (95 %: {row['p95_ms']:.0f}); CPU {100 * row['cpu']:.0f} %; "
              f"{row['grouped']} of {row['all']} in {row['groups']} sums", flush=True)
    return {"workers": count, "bytes": options.bytes, "mbps": options.mbps, "floor": floor, "modes": rows}


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--mbps", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--warm", type=float, default=5)
    parser.add_argument("--modes", default=",".join(SETTINGS))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "switch/heddle-switch").exists():
        pen.skip("no heddle-switch (DPDK is not installed)")
    options.mtu, options.executor, options.chunk = 1500, "native", CHUNK
    results = [measure(options, count) for count in map(int, options.workers.split(","))]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
