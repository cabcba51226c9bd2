#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Updates of several workers added up in the network, by the real programs on shaped links: what the server's link
carries, how long it takes, and how long the plan said that it would.

    tests/netns/bench_aggregation.py BUILD [--workers 4,8] [--mbps 1000] [--wide 1,8] [--bytes N] [--rounds N]
                                     [--json FILE]

A star of network namespaces around a bridge: every link shaped to --mbps both ways, the aggregator's to --wide times
as much. All workers' updates wait (`pause`), then are planned at once (`resume`): the plan's prediction is the moment
at which the last of them is committed; the outcome, when the last worker is told that it is. In the mode `one sum`
the controller is asked to spare the server's link (`set spare-server on`); `free` is its own choice; `direct` goes
without the aggregator. Prints for each round the bytes on the server's link (counters of its bridge's port) in updates.
Needs root and iproute2.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import fabric
import pen
from star import CHUNK, OVERHEAD, Star, busy, busy_share

QUEUE_KB = 256
NET = "10.81.0"
MODES = {"direct": ("off", "off"), "free": ("on", "off"), "one sum": ("on", "on")}
PATIENCE_S = 120
TRIED = 1.1  # of the time that the plan gives what a link carries, at the rate that is known of it: less is a try


class Fabric(fabric.Fabric):
    """Controller, server, aggregator, and the workers."""

    def __init__(self, star, build, folder, options):
        self.events, self.star = folder / "events", star
        super().__init__(build, folder, star.hub, "--events", self.events)
        self.start_node("server", star.hosts["ps"], "ps")
        self.start_node("aggregator", star.hosts["agg"], "agg")
        pen.until(lambda: len(self.rows("nodes")) >= 2, "server and aggregator")
        self.workers = self.start_pushers([host for name, host in star.hosts.items() if name.startswith("h")],
                                          options.bytes // 4)

    def rows(self, table):
        return self.shell.seen(table)

    def plans(self):
        """The controller's planning passes, as (moment, s that they cover, requests)."""
        found = []
        for line in self.events.read_text(encoding="utf-8").splitlines():
            if '"plan"' in line and line.endswith("}"):
                event = json.loads(line)
                found.append((event["at_ns"], event["value"], event["bytes"]))
        return found

    def round(self):
        """All push at once. Returns the outcome."""
        self.shell.say("pause", "all")
        fabric.go(self.workers)
        pen.until(lambda: sum(row["state"] == "pending" for row in self.rows("transfers")) == len(self.workers),
                  "the requests of all workers")
        before = {host: self.star.towards(host) for host in ("ps", "agg")}
        planned = len(self.plans())
        known = {row["link"]: row["estimate_mbps"] for row in self.rows("estimates")}
        self.shell.say("resume", "all")
        ended = [worker.stdout.readline().split() for worker in self.workers]
        assert all(words and words[0] != "lost" for words in ended), f"not everything was applied: {ended}"
        time.sleep(0.2)  # the last acknowledgements
        carried = {f"star>{host}": self.star.towards(host) - count for host, count in before.items()}
        at, covers, _ = next(plan for plan in self.plans()[planned:] if plan[2] == len(self.workers))
        took = max(int(words[0]) for words in ended) - at
        believed = {row["link"]: row["estimate_mbps"] for row in self.rows("estimates")}
        needs = {link: 8e-6 * count * CHUNK / (CHUNK + OVERHEAD) / known[link] for link, count in carried.items()
                 if known.get(link)}
        return {"believed_mbps": believed, "predicted_ms": 1e3 * covers, "took_ms": took / 1e6,
                "server_bytes": carried["star>ps"], "tried": sorted(k for k in needs if needs[k] > TRIED * covers)}


def measure(options, workers, wide, folder):
    star = Star({"ps": options.mbps, "agg": options.mbps * wide,
                 **{f"h{k + 1}": options.mbps for k in range(workers)}}, NET, QUEUE_KB)
    results = {}
    try:
        cluster = Fabric(star, options.build, folder, options)
        for mode in options.modes:
            aggregation, spare = MODES[mode]
            cluster.shell.say("set", "aggregation", aggregation)
            cluster.shell.say("set", "spare-server", spare)
            began = busy()
            rounds = [cluster.round() for _ in range(options.rounds)]
            results[mode] = {"rounds": rounds, "cpu": busy_share(began)}
        cluster.end()
    finally:
        star.close()
    return results


def show(options, workers, wide, results):
    one = options.bytes * (CHUNK + OVERHEAD) / CHUNK
    print(f"{workers} workers, {options.bytes / 1e6:.0f} MB, {options.mbps} Mbit/s, aggregator {wide}x: one update "
          f"takes {8e-3 * one / options.mbps:.0f} ms of such a link")
    for mode, result in results.items():
        for r in result["rounds"]:
            r["ratio"] = r["took_ms"] / r["predicted_ms"]
            r["updates"] = r["server_bytes"] / one
        # A plan that promises more than a link's known capacity is a probe of that link, not a prediction.
        last = ([r for r in result["rounds"] if not r["tried"]] or result["rounds"])[-3:]
        median = {key: statistics.median(r[key] for r in last) for key in ("took_ms", "ratio", "updates")}
        rounds = "  ".join(f"{r['took_ms']:.0f}/{r['predicted_ms']:.0f}{'?' if r['tried'] else ''}"
                           for r in result["rounds"])
        print(f"  {mode:8} {median['took_ms']:7.0f} ms, {median['ratio']:.3f} of the prediction; the server's link "
              f"carried {median['updates']:.2f} updates of {workers}; CPU {100 * result['cpu']:.0f} %\n"
              f"           took/predicted by round (? planned with more than is known of a link, not in the "
              f"prediction above): {rounds}", flush=True)


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--mbps", type=int, default=1000)
    parser.add_argument("--wide", default="1,8")
    parser.add_argument("--bytes", type=int, default=25000000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--modes", default="direct,free,one sum")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.modes = options.modes.split(",")
    everything = []
    for workers in map(int, options.workers.split(",")):
        for wide in map(int, options.wide.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                results = measure(options, workers, wide, pathlib.Path(folder))
            show(options, workers, wide, results)
            everything.append({"workers": workers, "bytes": options.bytes, "mbps": options.mbps, "wide": wide,
                               "modes": results})
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
