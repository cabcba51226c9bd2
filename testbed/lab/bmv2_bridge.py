#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: bmv2_bridge.py FILE
Runs bmv2 for heddle-switch-agent, and does what the lines of JSON on its input want (what they are:
switch/programs/hd_switch_bridge.h). Takes the simple_switch over that answers on the thrift port, as if it had just
been started; where none does it starts one, and again when that has ended, unless another program does so
("running": true). When the input ends this ends, and says on standard error which process goes on: the switch, without
leases.

FILE is JSON: ports {number: interface}, service (IPv4), mac (whom results come from), stations: a list of {ipv4, mac,
port}, which is where frames to them leave; thrift_port (9090), enter: words that run a command where the interfaces
are (none), log: simple_switch's words."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lab import bmv2  # noqa: E402: a script, and one of a package's modules


def copy_of(words):
    return bmv2.Copy(words["port"], words["mac"], words["ipv4"], words["udp_port"], int(words["token"]))


def lease_of(words):
    members = [bmv2.Member(int(member["token"]), member["worker"], copy_of(member["copy"]))
               for member in words["members"]]
    return bmv2.Lease(
        id=words["id"], job=int(words["job"]), epoch=words["epoch"], attempt=words["attempt"], shard=words["shard"],
        first_slot=words["first_slot"], slot_count=words["slot_count"], waits=int(words["waits"]), members=members,
        receivers=[copy_of(receiver) for receiver in words["receivers"]])


class Bridge:
    def __init__(self, setting):
        self.missed = False  # it did not answer at the last watch
        self.stations = {station["ipv4"]: station for station in setting["stations"]}
        ports = {int(number): name for number, name in setting["ports"].items()}
        identity = setting["service"], setting["mac"]
        self.switch = bmv2.Bmv2(ports, enter=setting.get("enter", []), thrift_port=setting.get("thrift_port", 9090),
                                log=setting.get("log"), running=setting.get("running", False))
        self.switch.identify(*identity)
        for station in setting["stations"]:
            self.switch.set_mac(station["mac"], station["port"])

    def do(self, words):
        what = words["do"]
        if what == "watch":
            return {"life": self.watch()}
        if what == "neighbour":
            station = self.stations.get(words["ipv4"])
            return {"port": station["port"], "mac": station["mac"]} if station else {}
        if what == "set":
            self.switch.set_lease(lease_of(words["lease"]))
        elif what == "waits":
            self.switch.set_waits(words["id"], int(words["waits"]))
        elif what == "end":
            self.switch.end_lease(words["id"])
        elif what == "counters":
            counters = self.switch.counters()
            return {"counters": [counters[name] for name in bmv2.counter_names()]}
        elif what == "ports":
            return {"ports": self.switch.port_counts()}
        else:
            raise ValueError(f"do: '{what}'")
        return {}

    def watch(self):
        before, missed = self.switch.life, self.missed
        try:
            life = self.switch.watch()
        except bmv2.CommandFailed as failed:
            self.missed = True
            if not missed:
                tell(failed)
            raise
        self.missed = False
        if life != before or missed:
            tell("simple_switch has restarted; its address, ports and stations are set again")
        return life

    def end(self):
        try:
            for lease_id in list(self.switch.leases):
                self.switch.end_lease(lease_id)
        except bmv2.CommandFailed as failed:
            tell(failed)
        self.switch.leave()
        process = self.switch.process
        if process is not None and process.poll() is None:
            tell(f"simple_switch goes on, process {process.pid}")
        elif not self.switch.running:
            tell(f"simple_switch goes on, thrift port {self.switch.thrift_port}")

    def answer(self, line):
        """A lease that could not be set has no state; one that could not be ended may have some left, but not its
        tokens, which are removed first."""
        try:
            return self.do(json.loads(line))
        except (bmv2.CommandFailed, KeyError, OSError, TypeError, ValueError) as why:
            return {"error": f"{type(why).__name__}: {why}"[:400]}


def tell(words):
    """For the reader of the agent's log."""
    first = (str(words).strip().splitlines() or [""])[0]
    print(f"bmv2_bridge: {first}", file=sys.stderr, flush=True)


def say(answer):
    print(json.dumps(answer), flush=True)


def serve(bridge):
    try:
        say({})
        for line in sys.stdin:
            say(bridge.answer(line))
    except BrokenPipeError:  # the agent has ended; unsent output must not be tried again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        bridge.end()


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    why = bmv2.missing()
    if why:
        say({"error": why})
        return 69
    try:
        bridge = Bridge(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    except (bmv2.CommandFailed, OSError, KeyError, TypeError, ValueError) as why:
        say({"error": f"{sys.argv[1]}: {type(why).__name__}: {why}"[:400]})
        return 69
    serve(bridge)
    return 0


if __name__ == "__main__":
    sys.exit(main())
