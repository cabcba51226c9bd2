#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: bmv2_bridge.py FILE
Runs bmv2 for heddle-switch-agent: starts simple_switch, and does what the lines of JSON on its input want (what they
are: switch/programs/hd_switch_bridge.h). Ends, and the switch with it, when its input does. One that runs already
("running": true) is taken over as if it had just been started, and goes on when its input ends, without leases.

FILE is JSON: ports {number: interface}, service (IPv4), mac (whom results come from), stations: a list of {ipv4, mac,
port}, which is where frames to them leave; thrift_port (9090), enter: words that run a command where the interfaces
are (none), log: simple_switch's words."""
import json
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
        self.stations = {station["ipv4"]: station for station in setting["stations"]}
        ports = {int(number): name for number, name in setting["ports"].items()}
        self.switch = bmv2.Bmv2(ports, enter=setting.get("enter", []), thrift_port=setting.get("thrift_port", 9090),
                                log=setting.get("log"), running=setting.get("running", False))
        self.switch.identify(setting["service"], setting["mac"])
        for station in setting["stations"]:
            self.switch.set_mac(station["mac"], station["port"])

    def do(self, words):
        what = words["do"]
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
        else:
            raise ValueError(f"do: '{what}'")
        return {}

    def end(self):
        try:
            for lease_id in list(self.switch.leases):
                self.switch.end_lease(lease_id)
        except bmv2.CommandFailed as failed:
            print(f"bmv2_bridge: {failed}", file=sys.stderr)
        self.switch.end()

    def answer(self, line):
        """A lease that could not be set is not there; of one that could not be ended some may be left, but not its
        tokens, which go first."""
        try:
            return self.do(json.loads(line))
        except (bmv2.CommandFailed, KeyError, TypeError, ValueError) as why:
            return {"error": f"{type(why).__name__}: {why}"[:400]}


def say(answer):
    print(json.dumps(answer), flush=True)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    why = bmv2.missing()
    if why:
        say({"error": why})
        return 69
    bridge = Bridge(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    try:
        say({})
        for line in sys.stdin:
            say(bridge.answer(line))
    finally:
        bridge.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
