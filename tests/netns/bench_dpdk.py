#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of the dpdk driver in network namespaces, each beside what it must reach.

    tests/netns/bench_dpdk.py BENCH_TRANSFER BENCH_GRANT BENCH_PING HEDDLE_CONTROLLER [--runs N] [--json FILE] [CASE...]

Cases: shaped grant idle (default: all). Needs root, iproute2 and ethtool. Prints minimum, median, maximum.

    a [e0] --- [p0] bridge [p1] --- [e0] b       p0 and p1 are shaped (what af_xdp sends passes by e0's own qdisc)
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import dpdk_lab as lab
import pen
from star import CHUNK, OVERHEAD, sh

MBPS, QUEUE_KB = 1000, 128
ADDRESSES = "10.79.0.1", "10.79.0.2"  # the nodes'
KERNELS = "10.79.0.101", "10.79.0.102"  # those hosts' kernels'
KEY = bytes(range(32)).hex()  # bench_grant's
KINDS = "af_packet", "af_xdp"
SILENCE = "--asks", "30", "--pause-ms", "200"
results = []


def build():
    hosts = [pen.Host(), pen.Host()]
    sh("ip", "link", "add", "br0", "type", "bridge")
    sh("ip", "link", "set", "br0", "up")
    one = ["numrxqueues", 1, "numtxqueues", 1]  # af_xdp's socket has one queue
    for i, host in enumerate(hosts):
        sh("ip", "link", "add", "name", f"p{i}", *one, "type", "veth", "peer", "name", "e0", *one, "netns",
           host.holder.pid)
        # Superframes of kernels, which would arrive in one piece.
        sh("ethtool", "-K", f"p{i}", "tx-udp-segmentation", "off")
        sh("ip", "link", "set", f"p{i}", "master", "br0", "up")
        host.run("ip", "addr", "add", f"{KERNELS[i]}/24", "dev", "e0")
        host.run("ip", "link", "set", "e0", "up")
    return hosts


def shape(mbps):
    for port in ("p0", "p1"):
        subprocess.run(["tc", "qdisc", "del", "dev", port, "root"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if mbps:
            sh("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", f"{mbps}mbit", "burst", "15kb", "limit",
               QUEUE_KB * 1024)


def words(driver, side):
    """How a program of that side gets its driver, and where it is then."""
    if driver == "udp":
        return [], KERNELS[side]
    return ["--driver", "dpdk", "--port", f"net_{driver}0,iface=e0", "--address", f"{ADDRESSES[side]}/24"], \
        ADDRESSES[side]


def transfer(hosts, bench, drivers, sizes):
    receive, address = words(drivers[1], 1)
    receiver = subprocess.Popen(hosts[1].enter(bench, "recv", "--listen", address, *receive, *sizes), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert receiver.stdout.readline().strip() == "ready"
    done = subprocess.run(hosts[0].enter(bench, "send", "--peer", address, *words(drivers[0], 0)[0], *sizes), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120)
    receiver.send_signal(signal.SIGTERM)
    out, _ = receiver.communicate(timeout=60)
    assert done.returncode == receiver.returncode == 0, (done, out)
    return json.loads(done.stdout.splitlines()[-1]), json.loads(out.splitlines()[-1])


def say(name, values, unit, target, good, note=""):
    low, middle, high = min(values), statistics.median(values), max(values)
    verdict = "" if target is None else "met" if good(middle) else "MISSED"
    results.append({"name": name, "unit": unit, "min": low, "median": middle, "max": high, "target": target,
                    "runs": values})
    print(f"{name:<58} {low:8.2f} {middle:8.2f} {high:8.2f} {unit:<4} {target or '':<8} {verdict:<7} {note}",
          flush=True)


def case_shaped(hosts, programs, runs):
    """100 MB over a link of 1 Gbit/s, as a share of what payload it can carry."""
    limit = MBPS * CHUNK / (CHUNK + OVERHEAD)
    shape(MBPS)
    for drivers in (("af_packet", "af_packet"), ("af_xdp", "af_xdp"), ("udp", "af_packet"), ("udp", "af_xdp"),
                    ("af_packet", "udp"), ("udp", "udp")):
        pairs = [transfer(hosts, programs["transfer"], drivers, ["--bytes", "100000000"]) for _ in range(runs)]
        sent, got = pairs[-1]
        ours = drivers[0] == drivers[1] != "udp"
        say(f"100 MB, shaped 1 Gbit/s, {drivers[0]} to {drivers[1]}",
            [100 * s["goodput_mbps"] / limit for s, _ in pairs], "%", ">= 93" if ours else None, lambda v: v >= 93,
            f"resent {sent['resent']}/{sent['packets']}, cpu {sent['cpu_seconds']:.2f}+{got['cpu_seconds']:.2f} s, "
            f"timeouts {sent['timeouts']}, rtt {sent['rtt_min_us']}..{sent['srtt_us']} us")
    shape(None)


class Controller:
    def __init__(self, host, program, driver, folder, more=()):
        pathlib.Path(f"{folder}/key").write_text(f"1 {KEY}\n")
        options, self.address = words(driver, 1)
        if driver == "udp":
            options = ["--listen", self.address]
        self.process = subprocess.Popen(
            host.enter(program, "--key-file", f"{folder}/key", "--initial-mbps", "1000000", *options, *more), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert "listening" in self.process.stdout.readline()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


def asked(hosts, programs, driver, *options):
    """One run against a fresh controller, which has no memory of jobs and servers that are gone."""
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        controller = Controller(hosts[1], programs["controller"], driver, folder)
        done = subprocess.run(hosts[0].enter(programs["grant"], "--controller", controller.address, *options),
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=200)
        controller.stop()
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def pinged(hosts, programs, *options):
    """One packet there and back between blocking kernel sockets over the same way: what the machine takes."""
    echo = subprocess.Popen(hosts[1].enter(programs["ping"], "echo", KERNELS[1]), text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE)
    port = echo.stdout.readline().split()[1]
    done = subprocess.run(hosts[0].enter(programs["ping"], f"{KERNELS[1]}:{port}", *options), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=200)
    echo.kill()
    echo.wait(timeout=20)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["median_us"]


def case_grant(hosts, programs, runs):
    """From a worker's REQUEST to its GRANT; the worker is on kernel sockets in another namespace."""
    pings = []
    for driver in (*KINDS, "udp"):
        active = [asked(hosts, programs, driver, "--workers", "8", "--asks", "300") for _ in range(runs)]
        idle, ping = [], []
        for _ in range(runs):
            ping.append(pinged(hosts, programs, *SILENCE))
            idle.append(asked(hosts, programs, driver, *SILENCE))
        pings += ping
        say(f"request to grant, 8 workers, controller on {driver}", [a["median_us"] for a in active], "us",
            None if driver == "udp" else "<= 100", lambda v: v <= 100, f"p99 {active[-1]['p99_us']:.0f} us")
        say(f"request to grant after 100-300 ms of silence, {driver}", [a["median_us"] for a in idle], "us",
            None if driver == "udp" else "<= 200", lambda v: v <= 200,
            f"p99 {idle[-1]['p99_us']:.0f} us; bare sockets {statistics.median(ping):.0f}, "
            f"{statistics.median(i['median_us'] / p for i, p in zip(idle, ping)):.2f} times that")
    say("bare sockets there and back after as much silence", pings, "us", None, None)


def case_idle(hosts, programs, runs):
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        for driver in KINDS:
            controller = Controller(hosts[1], programs["controller"], driver, folder)
            time.sleep(1)
            shares = [100 * pen.core_share(controller.process.pid, 5) for _ in range(runs)]
            controller.stop()
            say(f"an idle controller on {driver}", shares, "%", "<= 1", lambda v: v <= 1, "of a core")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("transfer", "grant", "ping", "controller"):
        parser.add_argument(name, type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    cases = {"shaped": case_shaped, "grant": case_grant, "idle": case_idle}
    for name in options.cases:
        if name not in cases:
            parser.error(f"unknown case: {name}")
    pen.enter()
    why = lab.missing(options.transfer, "af_xdp")
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        hosts = build()
        print(f"{'':<58} {'min':>8} {'median':>8} {'max':>8}")
        for name in options.cases or cases:
            cases[name](hosts, vars(options), options.runs)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
