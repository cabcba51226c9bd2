# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the benches on shaped links: a star of network namespaces around a bridge, and how busy the processors are
meanwhile."""
import json
import os
import resource
import subprocess
import time

import pen

BURST_BYTES = 15 * 1024
CHUNK, OVERHEAD = 1408, 98  # payload; chunk header, UDP, IPv4, Ethernet


def sh(*command):
    subprocess.run([str(c) for c in command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def shape(mbps, queue_kb, burst_bytes=BURST_BYTES):
    burst = max(burst_bytes, int(mbps * 1e6 / 8 * 50e-6))
    return ["root", "tbf", "rate", f"{mbps}mbit", "burst", burst, "limit", queue_kb * 1024]


class Star:
    """Hosts by name, from NET.1 on, each link shaped both ways to its rate (0: not shaped); our own namespace is
    NET.250."""

    def __init__(self, rates, net, queue_kb, burst_bytes=BURST_BYTES):
        self.hub = f"{net}.250"
        self.hosts = {}
        sh("ip", "link", "add", "br0", "type", "bridge")
        sh("ip", "addr", "add", f"{self.hub}/24", "dev", "br0")
        sh("ip", "link", "set", "br0", "up")
        for k, (name, mbps) in enumerate(rates.items()):
            host = self.hosts[name] = pen.Host()
            sh("ip", "link", "add", f"p-{name}", "type", "veth", "peer", "name", "e0", "netns", host.holder.pid)
            sh("ip", "link", "set", f"p-{name}", "master", "br0", "up")
            host.address = f"{net}.{k + 1}"
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", "e0")
            host.run("ip", "link", "set", "lo", "up")
            host.run("ip", "link", "set", "e0", "up")
            # All TCP is CUBIC: a kernel whose default is BBR would let the rivals push the other flows aside.
            host.run("ip", "route", "replace", f"{net}.0/24", "dev", "e0", "src", host.address, "congctl", "cubic")
            if mbps > 0:
                sh("tc", "qdisc", "add", "dev", f"p-{name}", *shape(mbps, queue_kb, burst_bytes))
                host.run("tc", "qdisc", "add", "dev", "e0", *shape(mbps, queue_kb, burst_bytes))

    def towards(self, name):
        """Bytes that have left the bridge for a host."""
        return sent_bytes(f"p-{name}")

    def close(self):
        """The links first: what a namespace takes along when it ends is gone some time later, and its names are taken
        until then."""
        for name, host in self.hosts.items():
            subprocess.run(["ip", "link", "del", f"p-{name}"], check=False, stdin=subprocess.DEVNULL)
            host.holder.kill()
            host.holder.wait()
        sh("ip", "link", "del", "br0")


def sent_bytes(device):
    """Of frames that have left through it."""
    told = subprocess.run(["ip", "-json", "-statistics", "link", "show", "dev", device], capture_output=True,
                          check=True, stdin=subprocess.DEVNULL).stdout
    return json.loads(told)[0]["stats64"]["tx"]["bytes"]


def busy():
    """Processor time that was used, and all there was."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(x) for x in stat.readline().split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def busy_share(before):
    """The share of all processors that was used since then."""
    after = busy()
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def used():
    """Processor time of all programs that we started and that have ended, and the time."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime, time.monotonic()


def used_share(before):
    """The share of all processors that those took which have ended since then."""
    after = used()
    return (after[0] - before[0]) / (after[1] - before[1]) / os.cpu_count()
