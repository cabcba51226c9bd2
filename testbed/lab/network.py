# SPDX-License-Identifier: BSD-3-Clause
"""The emulated cluster: a Mininet star with shaped links, or racks in a row, inside separate namespaces.

    h1 ---[tbf]   [tbf]--- s1 ---[tbf]   [tbf]--- ps      each direction is shaped at its egress
      h1>s1 leaves h1, s1>h1 leaves the switch's port      ctl is not shaped; a1 .. are aggregators'

    s1 ---[tbf]   [tbf]--- s2 ---[tbf]   [tbf]--- s3      racks: a switch each, a shaped trunk between neighbours;
                                                          workers in equal ranges, all other nodes on s1

A node that bypasses the kernel (controller, server, aggregator) has a veth of its own, on a bridge inside its host:

    ctl-eth0 --- br0 --- fab0 === fab1     the host's kernel has its address on br0, and reaches the node by
                                           it; to the switch both share the host's one link

    sa1 ----- s1      switches that add (bmv2): each has one more host, unshaped, for its agent

Everything is in this process's network and PID namespaces (see sandbox.py), so that nothing outlives the run, and no
name collides with another.
"""
import logging
import pathlib
import subprocess

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge

from . import bmv2
from .bmv2_switch import Bmv2Switch
from .measure import SWITCH

NODES = {"ctl": "10.77.200.1", "ps": "10.77.200.2"}  # addresses of dpdk's nodes, and of aggregators from .3 on
REPLICA = {"rp": "10.77.200.100"}  # of a scenario that has one
AGENTS = "10.77.201.{}"  # of bmv2's agents, from 1 on: chunks for the switch are sent to this address
SWITCH_MAC = "02:00:00:00:00:fe"  # source address of sums
BURST_BYTES = 15000  # of tbf: a few frames, so that an estimate is right soon
PORT_BYTES = 1514  # of a full frame as tbf counts it
CHUNK_BYTES = 1408  # of it, the payload of a data chunk: payload share of a link
SWITCHES = {"bridge": LinuxBridge, "bmv2": Bmv2Switch}
log = logging.getLogger("lab.network")


def host_of(place):
    """Host name of a node in the scenario: worker:N, aggregator:N, server, replica, controller, extra."""
    kind, _, number = place.partition(":")
    if number:
        return f"{'h' if kind == 'worker' else 'a'}{int(number) + 1}"
    return {"server": "ps", "replica": "rp", "controller": "ctl", "extra": "x1"}[place]


def aggregators_of(scenario):
    """The hosts with an aggregator, in mode aggregated."""
    return [f"a{i + 1}" for i in range(scenario["aggregators"])]


def rack_of(name, scenario):
    """A host's rack, from 0."""
    if not name.startswith("h"):
        return 0
    return (int(name[1:]) - 1) * scenario["racks"] // scenario["workers"]


class Network:
    def __init__(self, scenario, driver="udp"):
        self.scenario = scenario
        self.driver = driver
        self.rates = {}  # directed link -> present Mbit/s
        self.truth = []  # (at_s of CLOCK_MONOTONIC, link, Mbit/s)
        if scenario["switches"] == "bmv2" and bmv2.missing():
            raise FileNotFoundError(bmv2.missing())
        setLogLevel("error")
        Mininet.inited = True  # its init() would change the machine's sysctls
        self.net = Mininet(switch=SWITCHES[scenario["switches"]], controller=None, build=False, autoSetMacs=True)
        workers = [f"h{i + 1}" for i in range(scenario["workers"])]
        self.aggregators = aggregators_of(scenario)
        self.nodes = {**NODES, **{name: f"10.77.200.{3 + i}" for i, name in enumerate(self.aggregators)}}
        self.servers = ["ps", *(REPLICA if scenario["replica"] else {})]
        self.nodes |= {name: address for name, address in REPLICA.items() if name in self.servers}
        self.shaped = [*workers, *self.servers, "x1", *self.aggregators]
        self.trunks = [(f"s{i}", f"s{i + 1}") for i in range(1, scenario["racks"])]
        switches = [self.net.addSwitch(f"s{i + 1}") for i in range(scenario["racks"])]
        for number, name in enumerate([*self.shaped, "ctl"], 1):
            host = self.net.addHost(name, ip=f"10.77.{number // 250}.{number % 250 + 1}/16")
            switch = switches[rack_of(name, scenario)]
            self.net.addLink(host, switch, intfName1=f"{name}-eth0", intfName2=f"{switch}-{name}")
        self.agents = {}  # switch that adds -> its agent's host
        if scenario["switches"] == "bmv2":
            for number, switch in enumerate(switches, 1):
                self.agents[str(switch)] = f"sa{number}"
                host = self.net.addHost(f"sa{number}", ip=f"{AGENTS.format(number)}/16")
                self.net.addLink(host, switch, intfName1=f"sa{number}-eth0", intfName2=f"{switch}-sa{number}")
        for one, other in self.trunks:
            self.net.addLink(self.net[one], self.net[other], intfName1=f"{one}-{other}", intfName2=f"{other}-{one}")
        self.net.build()
        self.net.start()
        if scenario["switches"] == "bmv2":
            self.tell_where()
        for name in self.shaped:
            self.shape(name, self.rate_of(name), "add")
        for one, other in self.trunks:
            for near, far in ((one, other), (other, one)):
                subprocess.run([*self.enter_switch(near), *self.tbf(f"{near}-{far}", scenario["trunk_mbps"], "add")],
                               check=True, stdin=subprocess.DEVNULL)
                self.rates[f"{near}>{far}"] = scenario["trunk_mbps"]
        if driver == "dpdk":
            for name in self.nodes:
                self.add_port(name)

    def add_port(self, name):
        """Replaces the host's link with a bridge for its kernel and the node's port, whose frames bypass iptables
        (otherwise a tenth of a dpdk node's processor time)."""
        address = f"{self.ip(name)}/16"
        for command in (
                ["sh", "-c", "for f in /proc/sys/net/bridge/bridge-nf-call-*; do [ ! -e $f ] || echo 0 >$f; done"],
                ["ip", "link", "add", "br0", "type", "bridge"],
                ["ip", "link", "add", "fab0", "type", "veth", "peer", "name", "fab1"],
                ["ip", "addr", "flush", "dev", f"{name}-eth0"],
                ["ip", "link", "set", f"{name}-eth0", "master", "br0"],
                ["ip", "link", "set", "fab0", "master", "br0"],
                ["ip", "addr", "add", address, "dev", "br0"],
                # Superframes would arrive as one truncated packet.
                ["ethtool", "-K", "fab0", "tx-udp-segmentation", "off"],
                *(["ip", "link", "set", device, "up"] for device in ("fab0", "fab1", "br0"))):
            subprocess.run([*self.enter(name), *command], check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL)

    def ip(self, name):
        return self.net[name].IP()

    def node_ip(self, name):
        """The address of the fabric's node on a host."""
        return self.nodes.get(name, self.ip(name)) if self.driver == "dpdk" else self.ip(name)

    def enter(self, name):
        """The command prefix that runs a command on a host."""
        return ["mnexec", "-a", str(self.net[name].pid)]

    def enter_switch(self, name):
        """As enter(); a bridge is in this process's namespace."""
        return self.enter(name) if self.net[name].inNamespace else []

    def ahead(self, number, name):
        """The port of switch s<number> that leads to a host."""
        ports = {interface: port for port, interface in self.net[f"s{number}"].ports_used().items()}
        there = int(name[2:]) if name in self.agents.values() else rack_of(name, self.scenario) + 1
        return ports[f"s{number}-" + (name if there == number else f"s{number + (1 if there > number else -1)}")]

    def tell_where(self):
        """bmv2 does not learn addresses: sets the path to each host at each switch. Frames to nodes behind a host's
        bridge (dpdk's) are flooded."""
        for number in range(1, self.scenario["racks"] + 1):
            for name in [*self.shaped, "ctl", *self.agents.values()]:
                self.net[f"s{number}"].bmv2.set_mac(self.net[name].MAC(), self.ahead(number, name))

    def stations(self, switch):
        """The same for bmv2_bridge.py, by address, with the nodes behind bridges."""
        number = int(switch[1:])
        found = [{"ipv4": self.ip(name), "mac": self.net[name].MAC(), "port": self.ahead(number, name)}
                 for name in [*self.shaped, "ctl", *self.agents.values()]]
        for name, address in self.nodes.items() if self.driver == "dpdk" else ():
            words = subprocess.run([*self.enter(name), "cat", "/sys/class/net/fab1/address"], check=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
            found.append({"ipv4": address, "mac": words.strip(), "port": self.ahead(number, name)})
        return found

    def bridge_setting(self, switch):
        """The setting of bmv2_bridge.py for a switch: it takes ours over, and starts another when that has ended."""
        node = self.net[switch]
        return {"enter": self.enter(switch), "service": self.ip(self.agents[switch]),
                "mac": SWITCH_MAC, "ports": node.ports_used(), "stations": self.stations(switch)}

    def watch_switches(self):
        """Starts each bmv2 that has ended, and tells it again all but leases. Returns the names of these switches. Not
        for switches that an agent programs."""
        if self.scenario["switches"] != "bmv2":
            return []
        found = [self.net[name].bmv2 for name in self.agents]
        before = [switch.life for switch in found]
        return [name for name, switch, life in zip(self.agents, found, before) if switch.watch() != life]

    def shape(self, name, mbps, how="change"):
        """Sets both directions of a host's link."""
        switch = self.switch_of(name)
        for link, prefix, device in (
                (f"{name}>{switch}", self.enter(name), f"{name}-eth0"),
                (f"{switch}>{name}", self.enter_switch(switch), f"{switch}-{name}")):
            if self.rates.get(link) == mbps:
                continue
            subprocess.run([*prefix, *self.tbf(device, mbps, how)], check=True, stdin=subprocess.DEVNULL)
            if how == "add" and self.scenario["latency_us"] >= 200:
                delay = f"{self.scenario['latency_us'] / 2:.0f}us"  # half at each end
                subprocess.run([*prefix, "tc", "qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:",
                                "netem", "delay", delay, "limit", self.packets()], check=True)
            self.rates[link] = mbps

    def rate_of(self, name):
        """The rate of a host's link in the scenario, in Mbit/s."""
        if name in self.aggregators:
            return self.scenario["aggregator_link_mbps"]
        return self.scenario["server_link_mbps" if name in self.servers else "link_mbps"]

    def port_bytes(self, name):
        """Bytes that have passed a host's port, all traffic: (towards it, away from it)."""
        switch = self.switch_of(name)
        lines = pathlib.Path(f"/proc/{self.net[switch].pid}/net/dev").read_text().splitlines()
        words = next(line for line in lines if line.strip().startswith(f"{switch}-{name}:")).partition(":")[2].split()
        return int(words[8]), int(words[0])

    def switch_of(self, name):
        return f"s{rack_of(name, self.scenario) + 1}"

    def path(self, source, sink):
        """The directed links between two hosts, in order. For a sum that a switch made, the last one."""
        if source == SWITCH:
            return [f"{self.switch_of(sink)}>{sink}"]
        rack, last = rack_of(source, self.scenario), rack_of(sink, self.scenario)
        step = 1 if rack <= last else -1
        stops = [source, *(f"s{i + 1}" for i in range(rack, last + step, step)), sink]
        return [f"{one}>{other}" for one, other in zip(stops, stops[1:])]

    def packets(self):
        return str(max(16, int(self.scenario["queue_kb"] * 1024 / PORT_BYTES)))

    def tbf(self, device, mbps, how):
        return ["tc", "qdisc", how, "dev", device, "root", "handle", "1:", "tbf",
                "rate", f"{mbps * 1e6:.0f}bit", "burst", str(BURST_BYTES),
                "limit", str(self.scenario["queue_kb"] * 1024)]

    def topology(self):
        """The operator's description: hosts, switches, links, without capacities."""
        names = [*self.shaped, "ctl"]
        return {"hosts": names, "switches": [f"s{i + 1}" for i in range(self.scenario["racks"])],
                "links": [[name, self.switch_of(name)] for name in names] + [list(trunk) for trunk in self.trunks]}

    def payload_bps(self, link):
        """The rate of our payload on the link without other traffic."""
        return self.rates[link] * 1e6 * CHUNK_BYTES / PORT_BYTES

    def close(self):
        self.net.stop()
