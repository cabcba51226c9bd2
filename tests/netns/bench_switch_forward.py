#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: bench_switch_forward.py HEDDLE_SWITCH [--seconds N] [--rounds N] [--size BYTES] [--only memory|kernel]
Forwarding of ordinary frames between two ports: heddle-switch beside DPDK's testpmd (io: it looks at no frame; mac: it
writes each one's addresses), on the same ports, one core each, in turns. The ports replay a file from memory and take
what they are sent (net_pcap), or are af_packet on veths with a sender at one end and a counter at the other, with the
same devargs for both. Prints millions of frames, and ratios: a second of the processor time that the forwarding thread
had (in memory both spin, so a busy machine takes the cores from them and not the numbers), on af_packet a second,
too."""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import pen

TESTPMD = "dpdk-testpmd"
EAL = ["--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--file-prefix", "bench-pmd"]
SILENT = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
ENDS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


def frame(source, target, size):
    head = bytes.fromhex(ENDS[target].replace(":", "")) + bytes.fromhex(ENDS[source].replace(":", "")) + b"\x08\x00"
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, size - 14, 0, 0x4000, 64, 17, 0, 0x0a000001 + source, 0x0a000001 + target)
    return head + ip + bytes(size - len(head) - len(ip))


def write_pcap(path, data, count=64):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for _ in range(count):
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def static(folder):
    path = f"{folder}/static.json"
    pathlib.Path(path).write_text(json.dumps({"macs": [{"mac": m, "port": i} for i, m in enumerate(ENDS)]}))
    return path


def processor_time(pid, thread=None):
    """Seconds of the thread of that name, or of the process's first one."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == thread if thread else task.name == str(pid):
            words = (task / "stat").read_text().rsplit(")", 1)[1].split()
            return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
    raise RuntimeError(f"no thread {thread}")


def last_processor_time(process, thread):
    """Of a thread of a process that was told to end. It ends its statistics' period first, up to a second later, and
    forwards until then."""
    took = 0.0
    while process.poll() is None:
        try:
            took = processor_time(process.pid, thread)
        except (OSError, RuntimeError):
            break
        time.sleep(0.01)
    return took


def run_testpmd(ports, seconds, core, mode):
    vdevs = [w for port in ports for w in ("--vdev", port)]
    process = subprocess.Popen(
        [TESTPMD, "-l", f"0,{core}", *EAL, *vdevs, "--", f"--forward-mode={mode}", "--auto-start", "--stats-period=1",
         "--nb-cores=1", "--total-num-mbufs=16384",
         "--no-lsc-interrupt"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(seconds + 2)
    process.send_signal(signal.SIGINT)
    took = last_processor_time(process, f"rte-worker-{core}")
    out, _ = process.communicate(timeout=30)
    sent = re.findall(r"TX-packets:\s+(\d+)", out.split("Accumulated")[-1])
    assert sent and int(sent[0]) > 0, out[-3000:]
    return int(sent[0]) / took / 1e6


def run_switch(program, ports, seconds, core, folder):
    process = subprocess.Popen(
        ["taskset", "-c", str(core), program, "--service", "10.99.0.1", "--static", static(folder), "--json",
         "--busy-poll", "--learn", "0", *(w for port in ports for w in ("--port", port))], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline().startswith("ready")
    began = processor_time(process.pid)
    time.sleep(seconds)
    took = processor_time(process.pid) - began
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    numbers = json.loads(out)
    sent = sum(port["tx_packets"] for port in numbers["port"])
    assert numbers["switch"][0]["forwarded"] >= 0.99 * sent > 0, numbers["switch"]
    return sent / took / 1e6


def show(name, pairs):
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    ratios = [a / b for a, b in pairs]
    print(f"{name:28} heddle-switch {min(ours):.3f}/{statistics.median(ours):.3f}/{max(ours):.3f} Mpps  testpmd "
          f"{min(theirs):.3f}/{statistics.median(theirs):.3f}/{max(theirs):.3f}  ratio "
          f"{min(ratios):.2f}/{statistics.median(ratios):.2f}/{max(ratios):.2f}", flush=True)


def bench_memory(options, folder):
    files = []
    for source in (0, 1):
        files.append(f"{folder}/{source}.pcap")
        write_pcap(files[-1], frame(source, 1 - source, options.size))
    ports = [f"net_pcap{i},rx_pcap={file},infinite_rx=1" for i, file in enumerate(files)]
    for mode in ("io", "mac"):
        pairs = []
        for _ in range(options.rounds):
            ours = run_switch(options.program, ports, options.seconds, 1, folder)
            pairs.append((ours, run_testpmd(ports, options.seconds, 1, mode)))
        show(f"memory, {options.size} bytes, {mode}", pairs)


def veths():
    """Two hosts whose ends send to each other: (hosts, ports)."""
    hosts = [pen.Host(), pen.Host()]
    for i, host in enumerate(hosts):
        subprocess.run(["ip", "link", "add", "name", f"s{i}", "type", "veth", "peer", "name", "v0", "address", ENDS[i],
                        "netns", str(host.holder.pid)], check=True)
        subprocess.run(["ip", "link", "set", f"s{i}", "up"], check=True)
        host.run("ethtool", "-K", "v0", "tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off")
        host.run("ip", "addr", "add", f"10.98.0.{i + 1}/24", "dev", "v0")
        host.run("ip", "link", "set", "v0", "up")
        host.run("ip", "neigh", "add", f"10.98.0.{2 - i}", "lladdr", ENDS[1 - i], "dev", "v0")
    return hosts


def received(host):
    out = subprocess.run(host.enter("ip", "-j", "-s", "link", "show", "dev", "v0"), capture_output=True, text=True)
    return json.loads(out.stdout)[0]["stats64"]["rx"]["packets"]


# Frames of 1,442 bytes: as many for each call as the argument says, which the kernel cuts out of one buffer
# (UDP_SEGMENT).
FLOOD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 1400)
data = bytes(1400 * int(sys.argv[1]))
while True:
    s.sendto(data, ("10.98.0.2", 9))
"""
LISTEN = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9)); time.sleep(600)"


def flood(options, hosts, together, start, thread=None):
    """Packets per second that arrive at the other end of a flood by a kernel, and per second of the forwarding thread's
    processor time. The sender has one core and the thread the other; the received packets are not read."""
    process = start()
    time.sleep(2)
    helpers = [subprocess.Popen(host.enter("taskset", "-c", "0", sys.executable, "-c", *words), **SILENT)
               for host, words in ((hosts[1], [LISTEN]), (hosts[0], [FLOOD, together]))]
    time.sleep(1)
    before, began, used = received(hosts[1]), time.monotonic(), processor_time(process.pid, thread)
    time.sleep(options.seconds)
    frames, span = received(hosts[1]) - before, time.monotonic() - began
    used = processor_time(process.pid, thread) - used
    for helper in helpers:
        assert helper.poll() is None, helper.args
        helper.kill()
        helper.wait()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    return frames / span / 1e6, frames / used / 1e6


def bench_kernel(options, folder):
    """A kernel's flood in one direction. testpmd spins; ours does, and sleeps."""
    hosts, ring = veths(), "framesz=2048,blocksz=65536,framecnt=4096,qdisc_bypass=0"
    ports = [f"net_af_packet{i},iface=s{i},{ring}" for i in range(2)]

    def ours(*more):
        return subprocess.Popen(["taskset", "-c", "1", options.program, "--service", "10.99.0.1", "--static",
                                 static(folder), *more, *(w for port in ports for w in ("--port", port))], **SILENT)

    def theirs():
        return subprocess.Popen([TESTPMD, "-l", "0,1", *EAL, *(w for port in ports for w in ("--vdev", port)), "--",
                                 "--forward-mode=io", "--auto-start", "--nb-cores=1", "--total-num-mbufs=16384",
                                 "--stats-period=1"], **SILENT)

    for load, together in (("more than it forwards", 40), ("a frame a call", 1)):
        runs = [(flood(options, hosts, together, lambda: ours("--busy-poll")), flood(options, hosts, together, ours),
                 flood(options, hosts, together, theirs, "rte-worker-1")) for _ in range(options.rounds)]
        print(f"af_packet, 1,442 bytes, {load}:")
        for i, unit in enumerate(("a second", "a second of its core")):
            show(f"spinning, {unit}", [(spin[i], pmd[i]) for spin, _, pmd in runs])
            show(f"sleeping, {unit}", [(sleep[i], pmd[i]) for _, sleep, pmd in runs])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--only", choices=["memory", "kernel"])
    options = parser.parse_args()
    pen.enter()
    with tempfile.TemporaryDirectory(prefix="heddle-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        if options.only != "kernel":
            bench_memory(options, folder)
        if options.only != "memory":
            bench_kernel(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
