#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The golden packets (*.hex, in the order of their names) through every pairing of drivers: what arrives is what
was sent, byte for byte and in order.

usage: check_packets.py PASS_PACKETS FOLDER"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/netns"))

import dpdk_lab as lab  # noqa: E402
import pen  # noqa: E402

NODES = "10.79.0.1", "10.79.0.2"
KERNELS = "10.79.0.101", "10.79.0.102"


def golden(folder):
    """[hex]: a file's lines are joined; # begins a comment."""
    packets = []
    for path in sorted(folder.glob("*.hex")):
        text = "".join(line.split("#")[0].strip() for line in path.read_text().splitlines())
        assert len(bytes.fromhex(text)) > 0, path
        packets.append(text)
    return packets


def build():
    """Two hosts on a veth, of one queue each way."""
    hosts = [pen.Host(), pen.Host()]
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    subprocess.run(["ip", "link", "add", "name", "e0", *one, "netns", str(hosts[0].holder.pid), "type", "veth", "peer",
                    "name", "e0", *one, "netns", str(hosts[1].holder.pid)], check=True)
    for host, address in zip(hosts, KERNELS):
        host.run("ip", "addr", "add", f"{address}/24", "dev", "e0")
        host.run("ip", "link", "set", "e0", "up")
        host.run("ethtool", "-K", "e0", "tx-udp-segmentation", "off")
    return hosts


def words(driver, side):
    if driver == "udp":
        return [], KERNELS[side]
    return ["--driver", "dpdk", "--port", f"net_{driver}0,iface=e0", "--address", f"{NODES[side]}/24"], NODES[side]


def passes(hosts, program, drivers, packets):
    receive, address = words(drivers[1], 1)
    receiver = subprocess.Popen(
        hosts[1].enter(program, "recv", "--listen", address, "--count", len(packets), *receive), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert receiver.stdout.readline().strip() == "ready"
    sender = subprocess.run(hosts[0].enter(program, "send", "--peer", address, *words(drivers[0], 0)[0]), text=True,
                            input="\n".join(packets) + "\n", stdout=subprocess.PIPE, timeout=60)
    out, _ = receiver.communicate(timeout=60)
    assert sender.returncode == 0, sender
    found = out.split()
    assert found == packets, (drivers, len(found), [i for i, (a, b) in enumerate(zip(found, packets)) if a != b])
    assert receiver.returncode == 0, receiver.returncode


def main():
    pen.enter()
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    packets = golden(folder)
    assert len(packets) >= 8, "golden packets are missing"
    drivers = ["udp"] + [kind for kind in ("af_packet", "af_xdp") if lab.missing(program, kind) is None]
    with tempfile.TemporaryDirectory(prefix="heddle-golden-") as runtime:
        os.environ["RUNTIME_DIRECTORY"] = runtime
        hosts = build()
        for sender in drivers:
            for receiver in drivers:
                passes(hosts, program, (sender, receiver), packets)
    print(f"{len(packets)} packets, {len(drivers) ** 2} pairings of {', '.join(drivers)}")
    if len(drivers) == 1:
        pen.skip("built without dpdk: the udp driver alone was tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
