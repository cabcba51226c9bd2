#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of node dies under load: killed, stopped for long, cut off, restarted, and all at once.
Nothing acknowledged as durable may be lost, no update applied twice, every update accounted for, and the model must be,
bit for bit, what the commit log says.

usage: test_survive.py BUILD [--faults N] [--seed N] [--workers N] [--keep DIR]     1,000 faults take 20 minutes"""
import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import time

import accounts
import pen
import survive

LIMIT_S = 210  # of the faults in CI, whatever their number
STALL_S = survive.DETECTION_S  # of all workers, and of each: silence takes 0.75 s of it, the rest has 0.25 s
RSS_AGE_S = 20  # a process is grown up
RSS_GROWTH_KB = 2048  # event buffers, the allocator's arenas


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def draw(dice, cluster):
    """(kind, victims, how long)"""
    pick = dice.random()
    if pick < 0.05:
        return "power", cluster.nodes(), dice.uniform(0, 0.5)
    node = (cluster.server if pick < 0.30 else cluster.controller if pick < 0.50 else dice.choice(cluster.workers))
    kind = dice.choices(("kill", "stop", "cut", "restart"), (5, 3, 2, 1))[0]
    if kind in ("stop", "cut"):
        # Around the detection time: half of them shorter, half longer.
        return kind, [node], dice.choice((dice.uniform(0.05, 0.9), dice.uniform(1.1, 2.5))) * survive.DETECTION_S
    return kind, [node], dice.choice((0, dice.uniform(0, 0.4), dice.uniform(1.1, 2.2)))


def torment(cluster, dice, args):
    """Plays the faults; one in four begins before all workers have recovered from the last one."""
    began = time.monotonic()
    for number in range(args.faults):
        if args.faults <= 50 and time.monotonic() - began > LIMIT_S:
            break
        kind, victims, length = draw(dice, cluster)
        for node in cluster.nodes():
            node.sample()
        fault = cluster.begin(kind, victims)
        time.sleep(length)
        cluster.finish(fault)
        fault["alone"] = number + 1 == args.faults or dice.random() >= 0.25
        if fault["alone"]:
            cluster.progressed()
        fault["back"] = time.monotonic()
        time.sleep(dice.uniform(0, 0.3))
        if not args.quiet:
            after = f"{fault['back'] - fault['ended']:4.2f} s" if fault["alone"] else "the next fault"
            print(f"{number + 1:4} {kind:7} {victims[0].name if len(victims) == 1 else 'all':4} "
                  f"{length:4.2f} s, all nodes continue after {after}", flush=True)
    cluster.progressed()
    return time.monotonic() - began


def check_memory(cluster):
    """Growth of each life that lived long enough to be judged: (name, kB, hours) of the greatest."""
    worst, bad = ("-", 0, 0.0), []
    for node in cluster.nodes():
        for life in {s[0] for s in node.rss}:
            samples = [s for s in node.rss if s[0] == life and s[1] > RSS_AGE_S]
            if len(samples) < 2:
                continue
            growth = samples[-1][2] - samples[0][2]
            if growth > worst[1]:
                worst = (f"{node.name} (life {life})", growth, (samples[-1][1] - samples[0][1]) / 3600)
            if growth > RSS_GROWTH_KB:
                bad.append(f"{node.name} grew by {growth} kB in {samples[-1][1] - samples[0][1]:.0f} s")
    return worst, bad


def play(args, path):
    dice = random.Random(args.seed)
    cluster = survive.Cluster(args.build, path, args.workers)
    cluster.start_all()
    cluster.progressed()
    took = torment(cluster, dice, args)
    problems = [f"{n.name} is gone: {n.output()[-500:]}" for n in cluster.nodes() if not n.alive()]
    until = time.monotonic()
    problems += cluster.end()
    books = accounts.Accounts(cluster)
    counts = books.check()
    all_stopped, alone = accounts.stalls(cluster, books, until)
    worst, grown = check_memory(cluster)
    problems += books.problems + accounts.crashed(cluster) + grown
    print(f"seed {args.seed}: {len(cluster.faults)} faults in {took:.0f} s; {counts}")
    print(f"longest stall: {all_stopped[0]:.2f} s of all, {alone[0]:.2f} s of {alone[2]} "
          f"(detection: {survive.DETECTION_S:.0f} s); most memory: {worst[1]} kB by {worst[0]} in {worst[2]:.2f} h")
    print(f"around these: {accounts.around(cluster, all_stopped)}; {accounts.around(cluster, alone)}")
    print(f"sessions that ended by silence without a fault: {accounts.false_alarms(cluster)}")
    print(f"rolled back, as controllers reported: {accounts.rolled_back(cluster)} commits")
    for (kind, role), (count, pause, back) in accounts.by_kind(cluster, books).items():
        print(f"{kind:8}{role:11}{count:4} times: the others pause {pause[0]:.2f} s ({pause[1]:.2f} at most), "
              f"{back[0]:.2f} s ({back[1]:.2f}) from its end until all continue")
    if all_stopped[0] > STALL_S:
        problems.append(f"no worker progressed for {all_stopped[0]:.2f} s at {all_stopped[1]:.3f}")
    if alone[0] > STALL_S:
        problems.append(f"{alone[2]} did not go on for {alone[0]:.2f} s at {alone[1]:.3f}")
    return problems


def main():
    pen.enter()
    args = parse()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heddle-survive-"))
    try:
        problems = play(args, folder)
        for problem in problems[:40]:
            print("PROBLEM:", problem)
        return 1 if problems else 0
    finally:
        if args.keep:
            shutil.copytree(folder, args.keep, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
