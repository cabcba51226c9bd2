# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch_allreduce.py HEDDLE_SWITCH HEDDLE_CONTROLLER HEDDLE_AGGREGATOR HEDDLECTL REDUCE_WORKER
All-reduces of real processes through the slots of heddle-switch: three workers, each on a port of it, lease slots
once and keep them; one is killed and the others go on; an operator turns the switch off, and rounds go over an
aggregator; on again, and they go through it. Every value of every sum is checked. Workers go on until they are told to
end, however long this program takes to look."""
import json
import os
import pathlib
import signal
import sys
import tempfile

import fabric
import pen
from test_switch import Star, address
from test_switch_lease import Agent, start, stop

WORKERS, VALUES = 3, 40000


class Fabric:
    def __init__(self, folder, programs):
        self.switch, self.controller, self.aggregator, shell, self.worker = programs
        self.key = fabric.new_key(pathlib.Path(folder))
        self.star = Star(hosts=WORKERS)
        self.shell = fabric.Shell(shell, address(0), self.key, self.star.hosts[1])
        Agent()
        self.running = []

    def start(self, host, *command):
        process = self.star.start(host, *command, "--key-file", self.key)
        process.stdout.readline()  # it is there
        self.running.append(process)
        return process

    def start_worker(self, rank):
        env = fabric.member(address(0), self.key, "sums", rank, WORKERS, address(rank))
        return self.star.start(rank, "env", *(f"{name}={value}" for name, value in env.items()), self.worker,
                               str(VALUES), "0")


def through(cluster):
    return cluster.shell.counters()["reduces_switched"]


def leased(cluster, workers):
    rows = cluster.shell.rows("leases")
    return len(rows) == 1 and rows[0]["switch"] == "s1" and rows[0]["waits"] == workers


def wait(cluster, done, what):
    try:
        pen.until(done, what, 60)
    except TimeoutError:
        print(cluster.shell.rows("leases"), cluster.shell.rows("links"), cluster.shell.counters())
        raise


def over(cluster):
    counters = cluster.shell.counters()
    return counters["reduces"] - counters["reduces_switched"]


def main():
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        cluster = Fabric(folder, sys.argv[1:6])
        switch = start([cluster.switch], cluster.key)
        cluster.start(0, cluster.controller)
        cluster.start(0, cluster.aggregator, "--controller", address(0), "--host", "a1", "--listen",
                      f"{address(0)}:4800")
        pen.until(lambda: len(cluster.shell.rows("switches")) == 1, "the switch registers", 20)
        pen.until(lambda: any(row["role"] == "aggregator" for row in cluster.shell.rows("nodes")), "an aggregator", 20)
        workers = [cluster.start_worker(rank) for rank in range(WORKERS)]

        wait(cluster, lambda: through(cluster) >= 60, "rounds through the switch")
        wait(cluster, lambda: leased(cluster, WORKERS), "the lease of all")
        # A switch that does not get its processor is slow, and rounds go over the aggregator meanwhile.
        assert over(cluster) <= through(cluster), cluster.shell.counters()

        workers[2].send_signal(signal.SIGKILL)
        killed = through(cluster)
        wait(cluster, lambda: through(cluster) >= killed + 60, "the others go on")
        wait(cluster, lambda: leased(cluster, WORKERS - 1), "the lease of those that are left")

        cluster.shell.say("set", "switch", "off")
        before = over(cluster)
        wait(cluster, lambda: over(cluster) >= before + 20, "rounds over the aggregator")
        assert cluster.shell.rows("leases")[0]["why"] == "off", cluster.shell.rows("leases")
        cluster.shell.say("set", "switch", "on")
        before = through(cluster)
        wait(cluster, lambda: through(cluster) >= before + 20, "rounds through the switch again")

        said = []
        for worker in workers[:2]:
            worker.send_signal(signal.SIGTERM)
        for worker in workers[:2]:
            out, _ = worker.communicate(timeout=120)
            assert worker.returncode == 0, worker.returncode
            said.append(json.loads(out.splitlines()[-1]))
        print(said, cluster.shell.rows("leases"))
        for one in said:
            assert one["sums"] + one["late"] == one["rounds"] and one["late"] <= 1, said
        for process in cluster.running[::-1]:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        numbers = json.loads(stop(switch))
        print({name: value for name, value in numbers.items() if name != "port"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
