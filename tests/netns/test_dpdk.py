#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The dpdk driver on af_packet and on af_xdp, between namespaces: transfers in every pairing of drivers, with the
port's counters equal to the messages; ARP and echo; a kernel that keeps its own traffic on the same interface and
has no socket on the fabric's port; hostile frames dropped and counted one by one; silence that costs nothing.

usage: test_dpdk.py af_packet|af_xdp BENCH_TRANSFER HEDDLE_CONTROLLER HEDDLECTL"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import dpdk_lab as lab
import fabric
import pen

BYTES, COUNT, CHUNK = 4 << 20, 4, 1408
SPAN_S = 4.0
IDLE_MAX = 0.01
FLOOD = 3000
HELLO = 4  # type of packets
LAST_WORDS = 8  # acknowledgements in flight to a sender that has finished and gone


def finish(process):
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, (process.returncode, out)
    return json.loads(out.splitlines()[-1])


def started(process):
    assert process.stdout.readline().strip() == "ready", "the receiver did not start"
    return process


def check_transfer(sent, got):
    """All packets that were sent arrived, in both directions, except those that the path lost and that were
    retransmitted."""
    assert sent["done"] == got["done"] == COUNT, (sent, got)
    assert sent["driver"]["sent_packets"] == sent["packets"], sent
    missing = sent["packets"] - got["driver"]["received_packets"]
    assert 0 <= missing <= sent["resent"], (missing, sent, got)
    missing = got["driver"]["sent_packets"] - sent["driver"]["received_packets"]
    assert 0 <= missing <= sent["resent"] + LAST_WORDS, (missing, sent, got)
    assert got["strays"] == 0, got
    assert sent["packets"] * CHUNK >= BYTES * COUNT, sent


def test_transfers(node, bench):
    """udp to dpdk, dpdk to udp. The receiver compares every byte."""
    sizes = ["--bytes", str(BYTES), "--count", str(COUNT)]
    receiver = started(node.start(bench, "recv", "--listen", lab.FABRIC, *sizes, *node.words()))
    telemetry = lab.Telemetry()
    assert node.kernel_sockets().isdisjoint({lab.PORT}), "the kernel has a socket on the fabric's port"
    sender = subprocess.run([bench, "send", "--peer", lab.FABRIC, *sizes], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, timeout=60)
    driver, port = lab.check_identity(telemetry)
    got = finish(receiver)
    sent = json.loads(sender.stdout.splitlines()[-1])
    print("udp to dpdk:", sent, got, port["ipackets"], sep="\n   ")
    check_transfer(sent, got)
    # All but ARP and what the interface carried before the driver had its filter.
    other = driver["arp_requests"] + driver["arp_answers"] + sum(driver[n] for n in driver if n.startswith("drop_"))
    assert port["ipackets"] - other == got["driver"]["received_packets"] and other <= 8, (port, driver)
    assert got["driver"]["unfinished_sums"] > 0, "a veth's checksums were to be unfinished"

    receiver = started(subprocess.Popen([bench, "recv", "--listen", lab.HERE, *sizes], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
    sender = node.start(bench, "send", "--peer", lab.HERE, *sizes, *node.words())
    out, _ = sender.communicate(timeout=60)
    sent, got = json.loads(out.splitlines()[-1]), finish(receiver)
    print("dpdk to udp:", sent, got, sep="\n   ")
    check_transfer(sent, got)
    assert sent["driver"]["arp_asked"] == 1, "one question for one peer"


def test_both(node, bench):
    """dpdk to dpdk: no kernel in between has an address of either."""
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    subprocess.run(["ip", "link", "add", "name", "w0", *one, "type", "veth", "peer", "name", "w1", *one, "netns",
                    str(node.host.holder.pid)], check=True)
    subprocess.run(["ip", "link", "set", "w0", "up"], check=True)
    node.host.run("ip", "link", "set", "w1", "up")
    sizes = ["--bytes", str(BYTES), "--count", str(COUNT)]
    receiver = started(node.start(bench, "recv", "--listen", "10.80.0.1", *sizes,
                                  *node.words("w1", "10.80.0.1")))
    sender = subprocess.run([bench, "send", "--peer", "10.80.0.1", *sizes,
                             *node.words("w0", "10.80.0.2")],
                            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
    sent, got = json.loads(sender.stdout.splitlines()[-1]), finish(receiver)
    print("dpdk to dpdk:", sent, got, sep="\n   ")
    check_transfer(sent, got)
    assert got["driver"]["unfinished_sums"] == 0, "the driver finishes its checksums"
    subprocess.run(["ip", "link", "del", "w0"], check=True)


def ping(address, *options):
    done = subprocess.run(["ping", "-n", "-c", "5", "-i", "0.1", "-W", "2", *options, address],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return int(re.search(r"(\d+) received", done.stdout)[1])


def test_neighbourhood(node, telemetry):
    """ARP and echo are the driver's; what is for the kernel's address stays the kernel's."""
    subprocess.run(["ip", "neigh", "flush", "dev", "v0"], check=True)
    before = telemetry.driver()
    assert ping(lab.FABRIC) == ping(lab.FABRIC, "-s", "1472") == 5, "no echo"
    now = telemetry.driver()
    assert now["echo_answered"] - before["echo_answered"] == 10, (before, now)
    assert now["arp_answered"] > before["arp_answered"], "the kernel of that host knew the address"
    assert ping(lab.KERNEL) == 5, "the host's own kernel does not answer any more"
    listener = node.start(sys.executable, "-c", "import socket\ns = socket.create_server(('', 2222))\n"
                          "print('up', flush=True)\nc, _ = s.accept()\nc.sendall(c.recv(100))")
    assert listener.stdout.readline().strip() == "up"
    with socket.create_connection((lab.KERNEL, 2222), timeout=10) as connection:
        connection.sendall(b"as ssh would")
        assert connection.recv(100) == b"as ssh would"
    listener.communicate(timeout=10)
    after = telemetry.driver()
    assert after["echo_answered"] == now["echo_answered"], "the kernel's echo reached the driver"
    assert sum(after[n] - now[n] for n in after if n.startswith("drop_")) == 0, "the kernel's traffic was looked at"


def hostile(wire, kind):
    """[(counter, function that sends one such frame)]. No fragments: the kernel reassembles them for af_packet.
    af_xdp's socket does not get packets to other ports than the fabric's: they go to the kernel."""
    mac, peer = wire.mac, wire.peer
    good = lab.udp(b"x" * 30)

    def ip(*body, **fields):
        return lambda: wire.send(0x0800, lab.ipv4(*body, **fields))

    kernels = [] if kind == "af_xdp" else [
        ("ip_header", ip(17, good, first=0x44)),
        ("protocol", ip(6, b"\0" * 20)),
        ("udp_port", ip(17, lab.udp(b"x", port=53))),
        ("icmp_type", ip(1, b"\5\0" + b"\0" * 30)),
    ]
    return kernels + [
        ("other_mac", lambda: wire.send(0x0800, lab.ipv4(17, good), target=b"\xff" * 6)),
        ("source_mac", lambda: wire.send(0x0800, lab.ipv4(17, good), source=b"\1\0\x5e\0\0\1")),
        ("ip_header", ip(17, good, total=10)),
        ("truncated", ip(17, good, total=1400)),
        ("ip_checksum", ip(17, good, checksum=0x1234)),
        ("source_ip", ip(17, good, source="224.0.0.1")),
        ("source_ip", ip(17, good, source="127.0.0.1")),
        ("source_ip", ip(17, good, source=lab.FABRIC)),
        ("udp_length", ip(17, lab.udp(b"x" * 30, length=500))),
        ("udp_length", ip(17, lab.udp(b"x" * 30, length=3))),
        ("udp_port", ip(17, lab.udp(b"x", source_port=0))),
        ("udp_checksum", ip(17, lab.udp(b"x" * 30, check=0x7777))),
        ("icmp_checksum", ip(1, b"\x08\0\x12\x34" + b"\0" * 30)),
        ("arp_form", lambda: wire.send(0x0806, lab.arp(1, mac, lab.HERE, b"\0" * 6, lab.FABRIC, kind=6))),
        ("arp_sender", lambda: wire.send(0x0806, lab.arp(2, peer, lab.HERE, peer, lab.FABRIC))),
        ("arp_sender", lambda: wire.send(0x0806, lab.arp(2, mac, lab.FABRIC, peer, lab.FABRIC))),
    ]


def test_hostile(node, telemetry):
    wire = lab.Wire(node.mac())
    for name, send in hostile(wire, node.kind):
        before = telemetry.driver()
        send()
        pen.until(lambda: telemetry.driver()[f"drop_{name}"] == before[f"drop_{name}"] + 1, f"drop_{name}", 5)
        now = telemetry.driver()
        changed = {n for n in now if n.startswith(("drop_", "received_pack")) and now[n] != before[n]}
        assert changed == {f"drop_{name}"}, (name, changed)
    # Requests cannot fill the table, and no host gets more echoes than the limit for a second.
    before = telemetry.driver()
    for i in range(FLOOD):
        wire.send(0x0800, lab.ipv4(1, echo_request(i)))
    pen.until(lambda: telemetry.driver()["echo_requests"] >= before["echo_requests"] + FLOOD * 9 // 10, "the flood")
    now = telemetry.driver()
    assert now["echo_limited"] > before["echo_limited"], "echo is not limited"
    assert now["echo_requests"] - before["echo_requests"] == (
        now["echo_answered"] - before["echo_answered"] + now["echo_limited"] - before["echo_limited"])
    lab.check_identity(telemetry)


def echo_request(i):
    body = b"\x08\0\0\0" + i.to_bytes(4, "big") + b"flood" * 4
    return body[:2] + lab.checksum(body).to_bytes(2, "big") + body[4:]


def take_hello(shell):
    """A HELLO to the node, as an observer on the path sees it."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) as sniffer:
        sniffer.bind(("v0", 3))
        shell.counters()
        sniffer.settimeout(5)
        while True:
            packet = sniffer.recv(65536)
            data = packet[28:]
            if packet[9] == 17 and data[:2] == b"HD" and data[2] & 15 == HELLO and data[28] == 1:
                return data


def test_strangers(node, telemetry, shell):
    """One HELLO again and again, from unused on-link addresses: answers that wait for them leave buffers for others."""
    wire, hello = lab.Wire(node.mac()), take_hello(shell)
    before = telemetry.driver()
    addresses = [f"10.79.0.{i}" for i in range(100, 250)]
    for _ in range(40):
        for address in addresses:
            wire.send(0x0800, lab.ipv4(17, lab.udp(hello), source=address))
    shell.counters()
    now = telemetry.driver()
    changed = {n: now[n] - before[n] for n in ("no_buffer", "send_strangers", "arp_asked", "received_packets")}
    print("strangers:", changed)
    assert changed["no_buffer"] == 0 and changed["send_strangers"] > 0, changed
    assert changed["received_packets"] > 2000, changed
    pen.until(lambda: telemetry.driver()["arp_given_up"] > before["arp_given_up"], "the last answer to a stranger", 10)


def test_idle(process):
    time.sleep(1)
    share = pen.core_share(process.pid, SPAN_S)
    print(f"idle: {share * 100:.2f} % of a core (limit {IDLE_MAX * 100:.0f} %)")
    assert share <= IDLE_MAX, share


def test_link_down(node, telemetry):
    """A link that goes down and comes back costs neither the node nor a core."""
    node.host.run("ip", "link", "set", "v1", "down")
    pen.until(lambda: telemetry.driver()["port_errors"] > 0, "the error of a link that is down", 5)
    errors = telemetry.driver()["port_errors"]
    time.sleep(0.5)
    assert telemetry.driver()["port_errors"] <= errors + 5, "it spins while the link is down"
    node.host.run("ip", "link", "set", "v1", "up")
    pen.until(lambda: ping(lab.FABRIC) == 5, "echo after the link came back", 20)


def test_spinning(node, controller):
    """A program that polls without sleeping counts an error of its port, too, and goes on."""
    with tempfile.TemporaryDirectory(prefix="heddle-dpdk-") as folder:
        key = fabric.new_key(pathlib.Path(folder))
        process = node.start(controller, "--key-file", key, *node.words(), "--busy-poll")
        assert lab.FABRIC in process.stdout.readline()
        test_link_down(node, lab.Telemetry())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0, process.returncode


def test_controller(node, controller, shell):
    """The controller's own count of packets is the driver's, is the port's."""
    with tempfile.TemporaryDirectory(prefix="heddle-dpdk-") as folder:
        key = fabric.new_key(pathlib.Path(folder))
        shell = fabric.Shell(shell, lab.FABRIC, key)
        process = node.start(controller, "--key-file", key, *node.words())
        assert lab.FABRIC in process.stdout.readline()
        telemetry = lab.Telemetry()
        assert node.kernel_sockets() == set(), "the kernel has a UDP socket"
        shell.counters()
        before = telemetry.driver()
        shown = shell.counters()
        after = telemetry.driver()
        print("controller:", before["received_packets"], shown["endpoint_received"], after["received_packets"])
        assert before["received_packets"] < shown["endpoint_received"] <= after["received_packets"], shown
        assert after["received_packets"] - before["received_packets"] < 40, "one question, few packets"
        lab.check_identity(telemetry)
        test_idle(process)
        test_neighbourhood(node, telemetry)
        test_hostile(node, telemetry)
        lab.check_identity(telemetry)
        test_strangers(node, telemetry, shell)
        if node.kind == "af_packet":
            test_link_down(node, telemetry)
        shell.counters()
        if node.kind == "af_xdp":
            process = test_program(node, process, [controller, "--key-file", key, *node.words()])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0, process.returncode
        assert node.program() is None, "an XDP program stays behind"


def test_program(node, process, command):
    """One node an interface; what a killed one leaves is taken off by the next. Returns that."""
    assert node.program() == "heddle_steer", node.link()
    second = node.start(*command, stderr=subprocess.PIPE)
    _, error = second.communicate(timeout=20)
    assert second.returncode == 69 and f"process {process.pid}" in error, (second.returncode, error)
    # (The flood before it may have used up the echoes of a second.)
    pen.until(lambda: ping(lab.FABRIC) == 5, "echo beside the second one", 10)
    process.kill()
    process.communicate()
    assert node.program() == "heddle_steer", "the kernel took it off by itself: the rest says nothing"
    process = node.start(*command)
    assert lab.FABRIC in process.stdout.readline()
    assert ping(lab.FABRIC) == 5, "the next one gets no frames"
    return process


def main():
    pen.enter()
    kind, bench, controller, shell = sys.argv[1:5]
    why = lab.missing(bench, kind)
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-dpdk-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder  # EAL's: other tests have nodes of the same address
        node = lab.Node(kind)
        test_transfers(node, bench)
        test_both(node, bench)
        test_controller(node, controller, shell)
        if kind == "af_packet":
            test_spinning(node, controller)
    return 0


if __name__ == "__main__":
    sys.exit(main())
