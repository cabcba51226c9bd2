# SPDX-License-Identifier: BSD-3-Clause
"""bmv2 between wires that a test holds the other ends of: raw frames in, raw frames out. Inside namespaces (pen.py)."""
import pathlib
import select
import socket
import subprocess
import time

from program import bmv2

ETH_P_ALL = 3
FRAME_BYTES_MAX = 65536


class Wires:
    """Ports 0 .. count - 1, each a veth pair: swN is bmv2's end, wireN ours."""

    def __init__(self, count, log=None):
        # Kernels of both ends would talk: neighbour discovery, and nothing else here.
        for where in ("all", "default"):
            pathlib.Path(f"/proc/sys/net/ipv6/conf/{where}/disable_ipv6").write_text("1\n")
        self.sockets = []
        for i in range(count):
            for command in (["link", "add", f"sw{i}", "type", "veth", "peer", "name", f"wire{i}"],
                            ["link", "set", f"sw{i}", "up"], ["link", "set", f"wire{i}", "up"]):
                subprocess.run(["ip", *command], check=True, stdin=subprocess.DEVNULL)
            for name in (f"sw{i}", f"wire{i}"):
                subprocess.run(["ip", "link", "set", name, "arp", "off", "mtu", "9600"], check=True)
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            wire.bind((f"wire{i}", 0))
            self.sockets.append(wire)
        self.switch = bmv2.Bmv2({i: f"sw{i}" for i in range(count)}, log=log)

    def send(self, port, frame):
        self.sockets[port].send(frame)

    def receive(self, wanted, patience_s=5.0):
        """Up to `wanted` frames, as (port, frame) in the order that they were found."""
        found = []
        ends = time.monotonic() + patience_s
        while len(found) < wanted:
            ready, _, _ = select.select(self.sockets, [], [], max(0.0, ends - time.monotonic()))
            if not ready:
                break
            for wire in ready:
                frame, address = wire.recvfrom(FRAME_BYTES_MAX)
                if address[2] != socket.PACKET_OUTGOING:
                    found.append((self.sockets.index(wire), frame))
        return found

    def drained(self):
        """The packets that have arrived, without waiting."""
        return self.receive(1 << 20, 0.0)

    def taken(self):
        """Frames that bmv2 has done with, by its counters: each frame counts once."""
        counts = self.switch.counters()
        return sum(counts[name] for name in bmv2.counter_names()[:18])

    def settle(self, frames, patience_s=10.0):
        """Waits until the program has taken this many frames."""
        ends = time.monotonic() + patience_s
        while (have := self.taken()) < frames:
            if time.monotonic() > ends:
                raise TimeoutError(f"bmv2 has counted {have} frames of {frames}")
        return have

    def end(self):
        self.switch.end()
        for i, wire in enumerate(self.sockets):
            wire.close()
            subprocess.run(["ip", "link", "del", f"sw{i}"], check=True, stdin=subprocess.DEVNULL)
