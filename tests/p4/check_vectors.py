#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The switch's golden vectors through the program in P4: the same frames out of the same ports, and the same counters.

usage: check_vectors.py bmv2|spec VECTORS...      (format: tests/golden/switch/README.md)"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))

import pen  # noqa: E402: how tests get namespaces of their own

import machine  # noqa: E402
from program import bmv2, skip  # noqa: E402
from wires import Wires  # noqa: E402

ETHERNET_BYTES = 14
QUIET_S = 0.3  # in which nothing more may leave


def mac(digits):
    return ":".join(digits[i:i + 2] for i in range(0, 12, 2))


def copy_of(record):
    return bmv2.Copy(record["port"], mac(record["mac"]), record["ipv4"], record["udp_port"], int(record["token"], 16))


def lease_of(record):
    members = [bmv2.Member(int(m["token"], 16), m["worker"], copy_of(m["copy"])) for m in record["members"]]
    same = ("id", "job", "epoch", "attempt", "shard", "first_slot", "slot_count")
    return bmv2.Lease(**{name: record[name] for name in same}, waits=int(record["waits"], 16), members=members,
                      receivers=[copy_of(receiver) for receiver in record["receivers"]])


class OnBmv2:
    """bmv2 between wires; what is shorter than Ethernet's header goes through none."""
    name = "bmv2"

    def __init__(self, ports):
        self.wires = Wires(ports)
        self.switch = self.wires.switch
        self.sent = 0
        self.unsent = 0

    def frame(self, port, frame, expected):
        if len(frame) < ETHERNET_BYTES:
            self.unsent += 1
            return []
        self.wires.send(port, frame)
        self.sent += 1
        got = self.wires.receive(expected)
        if not expected:
            self.wires.settle(self.sent)
            got = self.wires.drained()
        return got

    def counters(self):
        """And what left besides."""
        self.wires.settle(self.sent)
        counts = self.switch.counters()
        counts["drop_no_route"] += self.unsent
        return counts, self.wires.receive(1, QUIET_S)

    def end(self):
        self.wires.end()


class OnMachine:
    """p4c's output for DPDK, on the machine that these tests have for it."""
    name = "spec"

    def __init__(self, ports):
        self.switch = machine.Switch(ports)
        self.sent = 0

    def frame(self, port, frame, expected):
        self.sent += 1
        return self.switch.frame(port, frame)

    def counters(self):
        return self.switch.counters(), []

    def end(self):
        pass


class Replay:
    def __init__(self, executor, path):
        self.executor = executor
        self.on = None
        self.path = path
        self.case = "none"
        self.line = 0
        self.problems = []

    def problem(self, what):
        self.problems.append(f"{self.path.name}:{self.line}: case {self.case}: {what}")

    def config(self, record):
        self.on = self.executor(record["ports"])
        self.switch = self.on.switch
        self.switch.identify(record["service"], mac(record["mac"]), mac(record["router_mac"]))

    def frame(self, record):
        port, digits = record["in"]
        sent = bytes.fromhex(digits)
        expected = sorted((way, sent if out == "=" else bytes.fromhex(out)) for way, out in record["out"])
        got = sorted(self.on.frame(port, sent, len(expected)))
        if got != expected:
            self.problem(f"frame {self.on.sent}: {show(got)} left, not {show(expected)}")

    def counters(self, expected):
        got, late = self.on.counters()
        if late:
            self.problem(f"left besides: {show(late)}")
        for name in bmv2.counter_names():
            if got[name] != expected[name]:
                self.problem(f"counter {name}: {got[name]}, not {expected[name]}")

    def do(self, what, record):
        if what == "mac":
            self.switch.set_mac(mac(record["mac"]), record["port"])
        elif what == "route":
            self.switch.set_route(record["prefix"], record["bits"], record["port"], mac(record["mac"]))
        elif what == "lease":
            self.switch.set_lease(lease_of(record))
        elif what == "waits":
            self.switch.set_waits(record["id"], int(record["waits"], 16))
        elif what == "end":
            self.switch.end_lease(record["id"])
        elif what == "simulate":
            self.switch.simulate(record["seed"], record["threshold"])
        else:
            raise ValueError(f"{self.path.name}:{self.line}: {what}: unknown")

    def run(self):
        for self.line, text in enumerate(self.path.read_text().splitlines(), 1):
            record = json.loads(text)
            if "in" in record:
                self.frame(record)
            elif "case" in record:
                self.case = record["case"]
            elif "config" in record:
                self.config(record["config"])
            elif "counters" in record:
                self.counters(record["counters"])
            else:
                (what, value), = record.items()
                self.do(what, value)
            if len(self.problems) > 20:
                break


def show(frames):
    return [(port, frame.hex()) for port, frame in frames] or "nothing"


def main():
    executor = {"bmv2": OnBmv2, "spec": OnMachine}[sys.argv[1]]
    if executor is OnBmv2:
        why = bmv2.missing()
        if why:
            skip(why)
        pen.enter()
    for name in sys.argv[2:]:
        replay = Replay(executor, pathlib.Path(name))
        try:
            replay.run()
        finally:
            if replay.on:
                replay.on.end()
        print(f"{executor.name}: {replay.path.name}: {replay.on.sent if replay.on else 0} frames")
        if replay.problems or not replay.on or not replay.on.sent:
            sys.exit("\n".join(replay.problems) or "no frames")


if __name__ == "__main__":
    main()
