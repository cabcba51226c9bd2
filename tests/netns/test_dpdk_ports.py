#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The dpdk driver on other ports than the plainest: jumbo frames, several queues, never asleep, tap (a port that makes
and checks checksums itself), memif (no kernel at all, no descriptor to sleep on); and a fabric whose controller,
server and worker have no kernel socket.

usage: test_dpdk_ports.py BUILD_DIR BENCH_TRANSFER"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import dpdk_lab as lab
import fabric
import pen
import test_dpdk

BYTES, COUNT = 4 << 20, 4
STEPS = 12
NAPS_MAX = 0.02  # of a core, where nothing wakes a node: a hundred naps a second


def carry(node, bench, title, driver, more=(), sender=(), address=lab.FABRIC):
    """Transfers from us to the node. Returns both ends' results, and which of its queues had frames."""
    sizes = ["--bytes", str(BYTES), "--count", str(COUNT), *more]
    receiver = test_dpdk.started(node.start(bench, "recv", "--listen", address, *driver, *sizes))
    telemetry = lab.Telemetry(address)
    done = subprocess.run([bench, "send", "--peer", address, *sender, *sizes], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=60)
    # A memif port forgets its counters when its peer has gone.
    _, port = (lab.settled if "memif" in driver[3] else lab.check_identity)(telemetry)
    queues = {q for q, frames in enumerate(port["q_ipackets"]) if frames}
    sent, got = json.loads(done.stdout.splitlines()[-1]), test_dpdk.finish(receiver)
    print(f"{title}: {sent['goodput_mbps']:.0f} Mbit/s, {sent['packets']} packets, {sent['resent']} of them again")
    assert sent["done"] == got["done"] == COUNT, (sent, got)
    assert 0 <= sent["packets"] - got["driver"]["received_packets"] <= sent["resent"], (sent, got)
    return sent, got, queues


def test_jumbo(bench):
    for kind, mtu, chunk in (("af_packet", 9000, 8896), ("af_xdp", 3400, 3296)):
        if lab.missing(bench, kind):
            continue
        node = lab.Node(kind, mtu)
        sent, _, _ = carry(node, bench, f"{kind}, MTU {mtu}", node.words(), ["--chunk", str(chunk)])
        assert sent["packets"] - sent["resent"] <= COUNT * (BYTES // chunk + 1), "the chunks were cut"
        if kind == "af_packet":
            test_queues(node, bench)
        subprocess.run(["ip", "link", "del", "v0"], check=True)


def test_queues(node, bench):
    """Two queues of one port, with senders until both had work. Then a node that never sleeps."""
    words = node.words()
    words[3] += ",qpairs=2"
    used = set()
    for _ in range(20):  # each sender has another UDP port, which is what the kernel spreads by
        if len(used) < 2:
            used |= carry(node, bench, "two queues", words)[2]
    assert used == {0, 1}, used
    carry(node, bench, "never asleep", [*node.words(), "--busy-poll"])


def test_tap(bench):
    """A port that makes and checks checksums itself, as hardware would."""
    if not os.path.exists("/dev/net/tun"):
        print("net_tap: left out, /dev/net/tun is missing")
        return
    words = ["--driver", "dpdk", "--port", "net_tap0,iface=tap7", "--address", "10.83.0.1/24"]
    sizes = ["--bytes", str(BYTES), "--count", str(COUNT)]
    receiver = test_dpdk.started(subprocess.Popen([bench, "recv", "--listen", "10.83.0.1", *words, *sizes], text=True,
                                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
    # The kernel's end of it begins with the same Ethernet address.
    for command in ("link set tap7 down", "link set tap7 address 02:00:00:00:00:99", "addr add 10.83.0.2/24 dev tap7",
                    "link set tap7 up"):
        subprocess.run(["ip", *command.split()], check=True)
    telemetry = lab.Telemetry("10.83.0.1")
    done = subprocess.run([bench, "send", "--peer", "10.83.0.1", *sizes], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=60)
    driver, _ = lab.check_identity(telemetry)
    share = idle_share(receiver)
    sent, got = json.loads(done.stdout.splitlines()[-1]), test_dpdk.finish(receiver)
    print(f"net_tap: {sent['goodput_mbps']:.0f} Mbit/s; idle {share * 100:.2f} % of a core")
    assert sent["done"] == got["done"] == COUNT, (sent, got)
    assert driver["unfinished_sums"] == driver["drop_udp_checksum"] == 0, driver
    assert share <= NAPS_MAX, share


def idle_share(process):
    time.sleep(1)
    return pen.core_share(process.pid, 3)


def test_memif(node, bench, folder):
    def words(role, address):
        return ["--driver", "dpdk", "--port", f"net_memif0,role={role},socket={folder}/memif,socket-abstract=no",
                "--address", f"{address}/24"]

    carry(node, bench, "memif", words("server", "10.81.0.1"), sender=words("client", "10.81.0.2"), address="10.81.0.1")
    # No descriptor: it naps, longer and longer.
    silent = test_dpdk.started(node.start(bench, "recv", "--listen", "10.81.0.1", *words("server", "10.81.0.1")))
    share = idle_share(silent)
    silent.kill()
    silent.wait()
    print(f"idle on memif: {share * 100:.2f} % of a core")
    assert share <= NAPS_MAX, share


class Fabric:
    """Three hosts on a bridge; every node on a port of its own."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.key = fabric.new_key(pathlib.Path(folder))
        subprocess.run(["ip", "link", "add", "br0", "type", "bridge"], check=True)
        subprocess.run(["ip", "link", "set", "br0", "up"], check=True)
        self.hosts = {name: self.add(name, i) for i, name in enumerate(("ctl", "ps", "w"), 1)}

    def add(self, name, i):
        host = pen.Host()
        subprocess.run(["ip", "link", "add", "name", f"b{i}", "type", "veth", "peer", "name", "e0", "netns",
                        str(host.holder.pid)], check=True)
        subprocess.run(["ip", "link", "set", f"b{i}", "master", "br0", "up"], check=True)
        host.run("ip", "link", "set", "e0", "up")
        return host

    @staticmethod
    def address(name):
        return {"ctl": "10.82.0.1", "ps": "10.82.0.2", "w": "10.82.0.3"}[name]

    def start(self, name, program, *words, **more):
        return subprocess.Popen(self.hosts[name].enter(f"{self.build}/{program}", *words), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **more)

    def driver(self, name):
        return ["--driver", "dpdk", "--port", "net_af_packet0,iface=e0", "--address", f"{self.address(name)}/24"]

    def sockets(self, name):
        return len(pathlib.Path(f"/proc/{self.hosts[name].holder.pid}/net/udp").read_text().splitlines()) - 1


def test_fabric(build, folder):
    cluster = Fabric(build, folder)
    keys = ["--key-file", cluster.key]
    controller = cluster.start("ctl", "controller/heddle-controller", *keys, *cluster.driver("ctl"))
    assert "listening" in controller.stdout.readline()
    server = cluster.start("ps", "aggregator/heddle-server", *keys, "--controller", cluster.address("ctl"), "--host",
                          "ps", *cluster.driver("ps"))
    assert server.stdout.readline().split() == ["ready", f"{cluster.address('ps')}:{lab.PORT}"]
    environment = {
        **os.environ, "HEDDLE_CONTROLLER": cluster.address("ctl"), "HEDDLE_KEY_FILE": str(cluster.key),
        "HEDDLE_JOB": "dpdk", "HEDDLE_RANK": "0", "HEDDLE_WORLD_SIZE": "1", "HEDDLE_HOST": "w",
        "HEDDLE_DRIVER": "dpdk", "HEDDLE_PORT": "net_af_packet0,iface=e0",
        "HEDDLE_ADDRESS": f"{cluster.address('w')}/24", "OPENBLAS_NUM_THREADS": "1"}
    worker = cluster.start("w", "worker-lib/heddle-train", "--steps", STEPS, "--quiet", "--synchronous", "--json", "-",
                          env=environment)
    telemetry = lab.Telemetry(cluster.address("w"))
    assert [cluster.sockets(name) for name in cluster.hosts] == [0, 0, 0], "a kernel has a UDP socket"
    assert telemetry.hello["pid"] > 0
    out, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0, (worker.returncode, out)
    print("a worker on dpdk:", out.splitlines()[-1][:200])
    summary = json.loads(out[out.index("{"):])
    assert summary["applied"] == STEPS, summary
    for process in (server, controller):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
        assert process.returncode == 0, process.returncode


def main():
    pen.enter()
    build, bench = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    why = lab.missing(bench, "af_packet")
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-ports-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder  # EAL's: other tests have nodes of the same address
        test_jumbo(bench)
        test_tap(bench)
        test_memif(lab.Node(), bench, folder)
        test_fabric(build, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
