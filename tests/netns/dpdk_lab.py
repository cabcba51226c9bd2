# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of the dpdk driver: a path to a namespace with a port, telemetry, raw frames."""
import json
import os
import pathlib
import socket
import struct
import subprocess

import pen

PORT = 4773
FABRIC = "10.79.0.1"  # of the node without a kernel socket
KERNEL = "10.79.0.77"  # of that host's kernel, on the same interface
HERE = "10.79.0.2"  # ours


def missing(program, kind):
    """None, or why a node cannot be on such a port: the program says so in words."""
    words = [program, "--driver", "dpdk", "recv", "--listen", FABRIC]
    if kind == "af_xdp":
        words += ["--port", "net_af_xdp0,iface=lo", "--address", f"{FABRIC}/24", "--eal", "--no-such-word"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    for why in ("this build has no dpdk", "this build has no BPF"):
        if why in done.stderr:
            return why
    return None


class Node:
    """A namespace with the interface v1, the other end of our v0, on which a node of dpdk's will live."""

    def __init__(self, kind="af_packet", mtu=1500):
        self.kind = kind
        self.host = pen.Host()
        one = ["numrxqueues", "1", "numtxqueues", "1"]  # af_xdp's socket has one queue
        subprocess.run(["ip", "link", "add", "name", "v0", "mtu", str(mtu), *one, "type", "veth", "peer", "name", "v1",
                        "mtu", str(mtu), *one, "netns", str(self.host.holder.pid)], check=True)
        subprocess.run(["ip", "addr", "add", f"{HERE}/24", "dev", "v0"], check=True)
        # Superframes that a kernel leaves for hardware to cut would arrive in one piece, truncated.
        subprocess.run(["ethtool", "-K", "v0", "tx-udp-segmentation", "off"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "set", "v0", "up"], check=True)
        self.host.run("ip", "addr", "add", f"{KERNEL}/24", "dev", "v1")
        self.host.run("ip", "link", "set", "v1", "up")
        self.host.run("ip", "link", "set", "lo", "up")

    def words(self, interface="v1", address=FABRIC):
        return ["--driver", "dpdk", "--port", f"net_{self.kind}0,iface={interface}", "--address", f"{address}/24"]

    def start(self, *command, **more):
        return subprocess.Popen(self.host.enter(*command), text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, **more)

    def link(self):
        out = subprocess.run(self.host.enter("ip", "-j", "-s", "link", "show", "dev", "v1"), capture_output=True,
                             text=True, check=True).stdout
        return json.loads(out)[0]

    def mac(self):
        return bytes.fromhex(self.link()["address"].replace(":", ""))

    def program(self):
        """The name of the XDP program on v1, None: there is none."""
        return self.link().get("xdp", {}).get("prog", {}).get("name")

    def kernel_sockets(self):
        """Local ports of the kernel's UDP sockets in that namespace."""
        lines = pathlib.Path(f"/proc/{self.host.holder.pid}/net/udp").read_text().splitlines()[1:]
        return {int(line.split()[1].split(":")[1], 16) for line in lines}

    def device(self):
        """(received, sent) frames of v1 as its kernel counts them."""
        stats = self.link()["stats64"]
        return stats["rx"]["packets"], stats["tx"]["packets"]


class Telemetry:
    """rte_telemetry of a node, as dpdk-telemetry.py reads it."""

    def __init__(self, address=FABRIC, port=PORT, name=None):
        name = name or f"heddle-{address}-{port}"
        self.path = f"{os.environ['RUNTIME_DIRECTORY']}/dpdk/{name}/dpdk_telemetry.v2"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pen.until(self.connects, f"telemetry at {self.path}")
        self.hello = json.loads(self.socket.recv(65536))

    def connects(self):
        try:
            self.socket.connect(self.path)
        except OSError:
            return False
        return True

    def ask(self, command):
        self.socket.send(command.encode())
        return json.loads(self.socket.recv(65536))[command.split(",")[0]]

    def driver(self):
        return self.ask("/heddle/driver")

    def port(self):
        return self.ask("/ethdev/stats,0")


def settled(telemetry):
    """(driver's counters, port's), of a moment between two packets: an acknowledgement may still be due."""
    found = []

    def counts():
        return {name: n for name, n in telemetry.driver().items() if not name.endswith("polls")}  # of time, not frames

    def same():
        before, port = counts(), telemetry.port()
        found[:] = [counts(), port]
        return before == found[0]

    pen.until(same, "a moment without packets", 10)
    return found


def check_identity(telemetry):
    """Every frame that the port counts is accounted for, in both directions. Returns (driver's counters, port's)."""
    driver, port = settled(telemetry)
    drops = sum(n for name, n in driver.items() if name.startswith("drop_"))
    kinds = sum(driver[name] for name in ("received_packets", "arp_requests", "arp_answers", "echo_requests"))
    assert port["ipackets"] == driver["received_frames"] == kinds + drops, (port, driver)
    sent = sum(driver[name] for name in ("sent_packets", "arp_asked", "arp_answered", "echo_answered"))
    assert port["opackets"] == driver["sent_frames"] == sent, (port, driver)
    return driver, port


# --- frames --------------------------------------------------------------------------------------

def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def number(address):
    return struct.unpack(">I", socket.inet_aton(address))[0]


def ipv4(protocol, body, source=HERE, target=FABRIC, **fields):
    """fields: first (version and header length), total, fragment, checksum."""
    head = struct.pack(">BBHHHBBHII", fields.get("first", 0x45), 0, fields.get("total", 20 + len(body)), 0,
                       fields.get("fragment", 0x4000), 64, protocol, 0, number(source), number(target))
    return head[:10] + struct.pack(">H", fields.get("checksum", checksum(head))) + head[12:] + body


def udp(payload, port=PORT, source_port=40000, length=None, check=0):
    return struct.pack(">HHHH", source_port, port, 8 + len(payload) if length is None else length, check) + payload


def arp(operation, sender_mac, sender, target_mac, target, kind=1):
    return struct.pack(">HHBBH6sI6sI", kind, 0x0800, 6, 4, operation, sender_mac, number(sender), target_mac,
                       number(target))


class Wire:
    """Raw frames on v0."""

    def __init__(self, peer_mac):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind(("v0", 0))
        self.mac = self.socket.getsockname()[4]
        self.peer = peer_mac

    def send(self, ethertype, body, source=None, target=None):
        frame = (target or self.peer) + (source or self.mac) + struct.pack(">H", ethertype) + body
        self.socket.send(frame.ljust(60, b"\0"))
