# SPDX-License-Identifier: BSD-3-Clause
"""The emulated cluster: a Mininet star with shaped links, inside namespaces of our own.

    h1 ---[tbf]   [tbf]--- s1 ---[tbf]   [tbf]--- ps      each direction is shaped where it leaves
      h1>s1 leaves h1, s1>h1 leaves the switch's port      ctl is not shaped

Everything lives in this process's network and PID namespaces (see sandbox.py), so that nothing
of it can outlive the run, and no name can meet another's.
"""
import logging
import subprocess

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge

BURST_BYTES = 15000  # tbf: a few frames, so that an estimate can be right soon
PORT_BYTES = 1514  # of a full frame as tbf counts it
CHUNK_BYTES = 1408  # of it what a data chunk carries: payload share of a link
log = logging.getLogger("lab.network")


def host_of(place):
    """Host name of a scenario's place: worker:N, server, extra."""
    if place.startswith("worker:"):
        return f"h{int(place[7:]) + 1}"
    return {"server": "ps", "extra": "x1"}[place]


class Star:
    def __init__(self, scenario):
        self.scenario = scenario
        self.rates = {}  # directed link -> Mbit/s now
        self.truth = []  # (at_s of CLOCK_MONOTONIC, link, Mbit/s)
        setLogLevel("error")
        Mininet.inited = True  # its init() would change the machine's sysctls
        self.net = Mininet(switch=LinuxBridge, controller=None, build=False, autoSetMacs=True)
        workers = [f"h{i + 1}" for i in range(scenario["workers"])]
        self.shaped = [*workers, "ps", "x1"]
        switch = self.net.addSwitch("s1")
        for number, name in enumerate([*self.shaped, "ctl"], 1):
            host = self.net.addHost(name, ip=f"10.77.{number // 250}.{number % 250 + 1}/16")
            self.net.addLink(host, switch, intfName1=f"{name}-eth0", intfName2=f"s1-{name}")
        self.net.build()
        self.net.start()
        for name in self.shaped:
            rate = scenario["server_link_mbps"] if name == "ps" else scenario["link_mbps"]
            self.shape(name, rate, "add")

    def ip(self, name):
        return self.net[name].IP()

    def enter(self, name):
        """The command words that run the rest of a command on a host."""
        return ["mnexec", "-a", str(self.net[name].pid)]

    def shape(self, name, mbps, how="change"):
        """Sets both directions of a host's link."""
        for link, prefix, device in (
                (f"{name}>s1", self.enter(name), f"{name}-eth0"),
                (f"s1>{name}", [], f"s1-{name}")):
            if self.rates.get(link) == mbps:
                continue
            subprocess.run([*prefix, *self.tbf(device, mbps, how)], check=True, stdin=subprocess.DEVNULL)
            if how == "add" and self.scenario["latency_us"] >= 200:
                delay = f"{self.scenario['latency_us'] / 2:.0f}us"  # half where it leaves, half at the port
                subprocess.run([*prefix, "tc", "qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:",
                                "netem", "delay", delay, "limit", self.packets()], check=True)
            self.rates[link] = mbps

    def packets(self):
        return str(max(16, int(self.scenario["queue_kb"] * 1024 / PORT_BYTES)))

    def tbf(self, device, mbps, how):
        return ["tc", "qdisc", how, "dev", device, "root", "handle", "1:", "tbf",
                "rate", f"{mbps * 1e6:.0f}bit", "burst", str(BURST_BYTES),
                "limit", str(self.scenario["queue_kb"] * 1024)]

    def topology(self):
        """What the operator would write: hosts, switch, links, and no capacity."""
        names = [*self.shaped, "ctl"]
        return {"hosts": names, "switches": ["s1"], "links": [[name, "s1"] for name in names]}

    def payload_bps(self, link):
        """What the link carries of ours when nobody else is on it."""
        return self.rates[link] * 1e6 * CHUNK_BYTES / PORT_BYTES

    def close(self):
        self.net.stop()
