#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures the transfer machinery over real sockets in network namespaces, beside what it must reach.

    tests/netns/bench_transfer.py BENCH_TRANSFER [--runs N] [--json FILE] [CASE...]

Cases: shaped loss veth share gap (default: all). Needs root, iproute2, iperf3, ethtool, and for `loss`
clang and a tc that loads BPF. Prints minimum, median and maximum.

      tr-a ---+                     direct pair between tr-a and tr-b for `veth`
      tr-x ---+-- tr-s (bridge) --- tr-b          every port of tr-s towards a host is shaped
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HOSTS = {"tr-a": "10.78.1.1", "tr-b": "10.78.1.2", "tr-x": "10.78.1.3"}
SWITCH = "tr-s"
CHUNK, OVERHEAD = 1408, 98  # payload; chunk header, UDP, IPv4, Ethernet
results = []


def sh(*command, check=True, **more):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **more)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def ns(name, *command):
    return ["ip", "netns", "exec", name, *[str(c) for c in command]]


def teardown():
    for name in [*HOSTS, SWITCH]:
        sh("ip", "netns", "del", name, check=False)


def setup():
    teardown()
    for name in [*HOSTS, SWITCH]:
        sh("ip", "netns", "add", name)
        sh("ip", "-n", name, "link", "set", "lo", "up")
    sh("ip", "-n", SWITCH, "link", "add", "name", "sw0", "type", "bridge")
    sh("ip", "-n", SWITCH, "link", "set", "sw0", "up")
    for name, address in HOSTS.items():
        sh("ip", "link", "add", "e0", "netns", name, "type", "veth", "peer", "name", f"p-{name}", "netns", SWITCH)
        sh("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "e0")
        sh("ip", "-n", name, "link", "set", "e0", "up")
        sh("ip", "-n", SWITCH, "link", "set", f"p-{name}", "master", "sw0", "up")
    sh("ip", "link", "add", "d0", "netns", "tr-a", "type", "veth", "peer", "name", "d0", "netns", "tr-b")
    for name, address in (("tr-a", "10.78.2.1"), ("tr-b", "10.78.2.2")):
        sh("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "d0")
        sh("ip", "-n", name, "link", "set", "d0", "up")


def shape(mbit, queue_kb):
    for name in HOSTS:
        sh("tc", "-n", SWITCH, "qdisc", "replace", "dev", f"p-{name}", "root", "tbf", "rate", f"{mbit}mbit",
           "burst", "15kb", "limit", queue_kb * 1024)


def payload_limit_mbps(link_mbps, chunk=CHUNK):
    return link_mbps * chunk / (chunk + OVERHEAD)


class Receiver:
    def __init__(self, bench, address, *options):
        self.process = subprocess.Popen(ns("tr-b", bench, "recv", "--listen", address, *options), text=True,
                                        stdout=subprocess.PIPE)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("the receiver did not start")

    def finish(self):
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=30)
        if self.process.returncode != 0:
            raise RuntimeError(f"the receiver failed: {out}")
        return json.loads(out.splitlines()[-1])


def transfer(bench, address, send_options=(), recv_options=(), timeout=60):
    receiver = Receiver(bench, address, *recv_options)
    out = sh(*ns("tr-a", bench, "send", "--peer", address, *recv_options, *send_options), timeout=timeout)
    return json.loads(out.stdout.splitlines()[-1]), receiver.finish()


def say(name, values, unit, target, good, note=""):
    low, middle, high = min(values), statistics.median(values), max(values)
    results.append({"name": name, "unit": unit, "min": low, "median": middle, "max": high, "target": target,
                    "met": bool(good(middle)), "runs": values})
    print(f"{name:<58} {low:8.3f} {middle:8.3f} {high:8.3f} {unit:<6} target {target:<14} "
          f"{'met' if good(middle) else 'MISSED'}  {note}", flush=True)


def case_shaped(bench, runs, loss=False):
    shape(1000, 128)
    shares, notes = [], []
    for _ in range(runs):
        sent, got = transfer(bench, HOSTS["tr-b"])
        shares.append(100 * sent["goodput_mbps"] / payload_limit_mbps(1000))
        notes.append(f"resent {sent['resent']}/{sent['packets']} "
                     f"cpu {sent['cpu_seconds']:.2f}+{got['cpu_seconds']:.2f} s acks {got['acks']} "
                     f"rtt {sent['rtt_min_us']}..{sent['srtt_us']} us")
    target = 85 if loss else 93
    name = "100 MB, shaped 1 Gbit/s" + (", 1 % random loss" if loss else "")
    say(name, shares, "%", f">= {target}", lambda v: v >= target, notes[-1])


def case_loss(bench, runs):
    if not shutil.which("clang"):
        print("SKIP loss: no clang")
        return
    # Segments must be packets before they are lost one by one.
    sh(*ns("tr-a", "ethtool", "-K", "e0", "tx-udp-segmentation", "off", "gso", "off", "tso", "off"))
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/loss.o"
        sh("clang", "-O2", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu", "-c", HERE / "loss.bpf.c",
           "-o", program)
        sh("tc", "-n", SWITCH, "qdisc", "add", "dev", "p-tr-a", "clsact")
        sh("tc", "-n", SWITCH, "filter", "add", "dev", "p-tr-a", "ingress", "bpf", "da", "obj", program,
           "sec", "classifier")
        case_shaped(bench, runs, loss=True)
        sh("tc", "-n", SWITCH, "qdisc", "del", "dev", "p-tr-a", "clsact")
    sh(*ns("tr-a", "ethtool", "-K", "e0", "tx-udp-segmentation", "on", "gso", "on", "tso", "on"))


def iperf_server(address, port=5201):
    server = subprocess.Popen(ns("tr-b", "iperf3", "-s", "-B", address, "-p", port, "--forceflush"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            raise RuntimeError("iperf3 did not start")
    return server


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)


def case_veth(bench, runs):
    ratios, ours, theirs = [], [], []
    for _ in range(runs):
        server = iperf_server("10.78.2.2")
        out = sh(*ns("tr-a", "iperf3", "-C", "cubic", "-c", "10.78.2.2", "-t", 3, "-J"))
        stop(server)
        end = json.loads(out.stdout)["end"]
        theirs.append(end["sum_received"]["bits_per_second"] / 1e9)
        busy = end["cpu_utilization_percent"]
        tcp_core = [theirs[-1] * 100 / busy[side] for side in ("host_total", "remote_total")]
        sent, got = transfer(bench, "10.78.2.2", ["--seconds", 3], ["--bytes", 8 << 20, "--count", 100000])
        ours.append(sent["goodput_mbps"] / 1e3)
        ratios.append(ours[-1] / theirs[-1])
        core = [ours[-1] * sent["seconds"] / side["cpu_seconds"] for side in (sent, got)]
    note = (f"Gbit/s: ours {min(ours):.1f}..{max(ours):.1f}, TCP {min(theirs):.1f}..{max(theirs):.1f}; "
            f"for a core of the sender {core[0]:.0f} against {tcp_core[0]:.0f}, "
            f"of the receiver {core[1]:.0f} against {tcp_core[1]:.0f}; "
            f"resent {sent['resent']}/{sent['packets']}, overflow {got['overflow']}, rtt {sent['srtt_us']} us")
    say("unshaped veth against one iperf3 TCP flow", ratios, "x", ">= 1.5", lambda v: v >= 1.5, note)


def measure_share(bench, weight, seconds, options):
    """Our bytes and theirs over the same interval, once both run."""
    server = iperf_server(HOSTS["tr-b"])
    tcp = subprocess.Popen(
        ns("tr-x", "iperf3", "-c", HOSTS["tr-b"], "-C", "cubic", "-P", 4, "-t", seconds + 3, "-i", 0.5, "-J"),
        text=True, stdout=subprocess.PIPE)
    time.sleep(1.5)
    sent, got = transfer(bench, HOSTS["tr-b"], ["--weight", weight, "--seconds", seconds, *options],
                         ["--bytes", 8 << 20, "--count", 100000])
    out, _ = tcp.communicate(timeout=30)
    stop(server)
    # TCP's payload rate while we ran: the intervals that lie within it, less the first and last half second.
    intervals = json.loads(out)["intervals"]
    inner = [i["sum"] for i in intervals if i["sum"]["start"] >= 2.0 and i["sum"]["end"] <= 1.5 + seconds]
    theirs = 8 * sum(i["bytes"] for i in inner) / sum(i["seconds"] for i in inner) / 1e6
    ours_link = got["goodput_mbps"] * (CHUNK + OVERHEAD) / CHUNK
    theirs_link = theirs * 1514 / 1448
    return ours_link / (ours_link + theirs_link), ours_link, theirs_link, sent


def case_share(bench, runs, seconds=6):
    for mbit, queue_kb in ((400, 128), (200, 128)):  # beyond that two cores are the limit
        shape(mbit, queue_kb)
        for weight in (1, 2, 4):
            fair = weight / (weight + 4)
            shares = [measure_share(bench, weight, seconds, []) for _ in range(runs)]
            last = shares[-1]
            say(f"share of weight {weight} against 4 TCP flows, {mbit} Mbit/s, over w/(w+4)",
                [s[0] / fair for s in shares], "x", "0.8 .. 1.2", lambda v: 0.8 <= v <= 1.2,
                f"ours {last[1]:.0f}, theirs {last[2]:.0f} Mbit/s; loss {last[3]['loss']:.4f}, "
                f"rtt {last[3]['rtt_min_us']}..{last[3]['srtt_us']} us, window {last[3]['window'] / 1506:.0f}")


def case_gap(bench, runs):
    shape(1000, 128)
    gaps, shares = [], []
    for _ in range(runs):
        sent, got = transfer(bench, HOSTS["tr-b"], ["--rate-mbps", 930], ["--bytes", 4 << 20, "--count", 40])
        gaps.append(100 * got["gap_share"])
        shares.append(100 - 100 * got["goodput_mbps"] / payload_limit_mbps(1000))
    say("40 x 4 MiB with go, shaped 1 Gbit/s: between transfers", gaps, "%", "<= 2", lambda v: v <= 2)
    say("40 x 4 MiB with go, shaped 1 Gbit/s: idle in all", shares, "%", "<= 2", lambda v: v <= 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    cases = {"shaped": case_shaped, "loss": case_loss, "veth": case_veth, "share": case_share, "gap": case_gap}
    for name in options.cases:
        if name not in cases:
            parser.error(f"unknown case: {name}")
    if os.geteuid() != 0:
        print("SKIP: needs root")
        return 77
    missing = [tool for tool in ("ip", "tc", "iperf3", "ethtool") if not shutil.which(tool)]
    if missing:
        print("SKIP: needs", ", ".join(missing))
        return 77
    try:
        setup()
        print(f"{'':<58} {'min':>8} {'median':>8} {'max':>8}")
        for name in options.cases or cases:
            cases[name](options.bench, options.runs)
    finally:
        teardown()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
