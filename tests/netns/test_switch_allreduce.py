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
import subprocess
import sys
import tempfile

import pen
from test_switch import Star, address
from test_switch_lease import Agent, start, stop

WORKERS, VALUES = 3, 40000
KEYS = "1 " + "5a" * 32 + "\n"


class Fabric:
    def __init__(self, folder, programs):
        self.switch, self.controller, self.aggregator, self.shell, self.worker = programs
        self.key = f"{folder}/key"
        pathlib.Path(self.key).write_text(KEYS)
        self.star = Star(hosts=WORKERS)
        Agent()
        self.running = []

    def start(self, host, *command):
        process = self.star.start(host, *command, "--key-file", self.key)
        process.stdout.readline()  # it is there
        self.running.append(process)
        return process

    def start_worker(self, rank):
        names = {"CONTROLLER": address(0), "KEY_FILE": self.key, "JOB": "sums", "RANK": rank, "WORLD_SIZE": WORKERS,
                 "HOST": f"h{rank + 1}", "BIND": address(rank)}
        words = ["env", *(f"HEDDLE_{name}={value}" for name, value in names.items())]
        return self.star.start(rank, *words, self.worker, str(VALUES), "0")

    def table(self, name):
        out = self.star.run(1, self.shell, "--controller", address(0), "--key-file", self.key, "show", name, "--json")
        return json.loads(out)["rows"]

    def counters(self):
        return {row["counter"]: row["value"] for row in self.table("counters")}

    def set(self, value):
        self.star.run(1, self.shell, "--controller", address(0), "--key-file", self.key, "set", "switch", value)


def through(fabric):
    return fabric.counters()["reduces_switched"]


def over(fabric):
    counters = fabric.counters()
    return counters["reduces"] - counters["reduces_switched"]


def main():
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        fabric = Fabric(folder, sys.argv[1:6])
        switch = start([fabric.switch], fabric.key)
        fabric.start(0, fabric.controller)
        fabric.start(0, fabric.aggregator, "--controller", address(0), "--host", "a1", "--listen", f"{address(0)}:4800")
        pen.until(lambda: len(fabric.table("switches")) == 1, "the switch registers", 20)
        pen.until(lambda: any(row["role"] == "aggregator" for row in fabric.table("nodes")), "an aggregator", 20)
        workers = [fabric.start_worker(rank) for rank in range(WORKERS)]

        pen.until(lambda: through(fabric) >= 60, "rounds through the switch", 60)
        first = fabric.table("leases")
        assert len(first) == 1 and first[0]["switch"] == "s1" and first[0]["waits"] == WORKERS, first
        assert fabric.counters()["leases"] == 1 and over(fabric) == 0, fabric.counters()

        workers[2].send_signal(signal.SIGKILL)
        killed = through(fabric)
        pen.until(lambda: through(fabric) >= killed + 60, "the others go on", 60)
        assert fabric.table("leases")[0]["waits"] == WORKERS - 1, fabric.table("leases")

        fabric.set("off")
        before = over(fabric)
        pen.until(lambda: over(fabric) >= before + 20, "rounds over the aggregator", 60)
        assert fabric.table("leases")[0]["why"] == "off", fabric.table("leases")
        fabric.set("on")
        before = through(fabric)
        pen.until(lambda: through(fabric) >= before + 20, "rounds through the switch again", 60)

        said = []
        for worker in workers[:2]:
            worker.send_signal(signal.SIGTERM)
        for worker in workers[:2]:
            out, _ = worker.communicate(timeout=120)
            assert worker.returncode == 0, worker.returncode
            said.append(json.loads(out.splitlines()[-1]))
        print(said, fabric.table("leases"))
        for one in said:
            assert one["sums"] + one["late"] == one["rounds"] and one["late"] <= 1, said
        for process in fabric.running[::-1]:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        numbers = json.loads(stop(switch))
        print({name: value for name, value in numbers.items() if name != "port"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
