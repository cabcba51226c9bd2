#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduces on four hosts with a controller and nothing else: the workers add for each other. Workers with fast links
leave after their last sum, and the one with a slow link still gets all of it. Then, with equal links, each link
carries its share, and when a worker is killed in the middle of a round the others finish it. Every value of every sum
is checked.

usage: test_hosts.py BUILD_DIR REDUCE_WORKER"""
import json
import pathlib
import signal
import sys
import tempfile
import time

import fabric
import pen
from star import Star

WORKERS, MBPS, QUEUE_KB = 4, 100, 128
VALUES = 500000  # 2 MB: a round takes 0.25 s at least
ROUNDS = 24
SLOW_MBPS, FEW = 20, 4  # the slow link, and the rounds beside it
MIDDLE_S = 0.1  # into a round


class Job(fabric.Fabric):
    def __init__(self, build, worker, folder, star, rounds):
        super().__init__(build, folder, star.hub, "--events", folder / "events")
        self.star, self.worker = star, worker
        self.workers = [self.start(f"w{rank}", host, worker, VALUES, rounds, pipes=True,
                                   env=self.member("sums", rank, WORKERS, host))
                        for rank, host in enumerate(star.hosts.values())]

    def rounds(self):
        """Those that have begun."""
        return len(pen.events(self.folder / "events", "granted"))

    def ending(self, rank):
        out, _ = self.workers[rank].communicate(timeout=60)
        assert self.workers[rank].returncode == 0, (rank, self.said(f"w{rank}"))
        return json.loads(out.splitlines()[-1])


def check_spread(star, before):
    """Each host has received its own sums and what it adds for others: about as much as any other one."""
    got = {name: star.towards(name) - before[name] for name in star.hosts}
    least, most = min(got.values()), max(got.values())
    print(f"bytes towards the hosts: {got}")
    assert most < 1.8 * least, got  # one shard for all: 3


def leave(job, _):
    said = [job.ending(rank) for rank in range(WORKERS)]
    print(f"uneven links: {said}")
    assert all(one["all"] == FEW for one in said), said
    assert job.shell.counters()["reduces_failed"] == 0
    pen.until(lambda: not [n for n in job.shell.rows("nodes") if n["role"] == "aggregator"], "all have left")


def lose_one(job, star):
    pen.until(lambda: job.rounds() >= 2, "rounds", 30)
    nodes = [n for n in job.shell.rows("nodes") if n["role"] == "aggregator"]
    assert sorted((n["worker"], n["job"], n["host"]) for n in nodes) == [
        (rank, "sums", f"h{rank + 1}") for rank in range(WORKERS)], nodes
    assert all(n["address"].endswith(":4773") for n in nodes), nodes
    before = {name: star.towards(name) for name in star.hosts}
    pen.until(lambda: job.rounds() >= 8, "more rounds", 30)
    check_spread(star, before)
    now = job.rounds()
    pen.until(lambda: job.rounds() > now, "the next round", 30)
    time.sleep(MIDDLE_S)
    job.workers[2].send_signal(signal.SIGKILL)
    said = [job.ending(rank) for rank in range(WORKERS) if rank != 2]
    print(f"after the kill: {said}")
    for one in said:
        assert one["sums"] + one["late"] == ROUNDS and one["late"] <= 1, said
        assert one["all"] < ROUNDS and one["longest_s"] < 8, said
    pen.until(lambda: not [n for n in job.shell.rows("nodes") if n["role"] == "aggregator"], "all have left")


def run(paths, rates, rounds, play):
    star = Star(rates, "10.82.0", QUEUE_KB)
    with tempfile.TemporaryDirectory(prefix="heddle-hosts-") as folder:
        job = Job(*paths, pathlib.Path(folder), star, rounds)
        try:
            play(job, star)
        finally:
            for process in job.workers:
                process.kill()
                process.wait()
            job.running = job.running[:1]
            job.end()
            star.close()


def main():
    paths = [pathlib.Path(word).resolve() for word in sys.argv[1:3]]
    pen.enter()
    equal = {f"h{k + 1}": MBPS for k in range(WORKERS)}
    run(paths, {**equal, f"h{WORKERS}": SLOW_MBPS}, FEW, leave)
    run(paths, equal, ROUNDS, lose_one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
