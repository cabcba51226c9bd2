#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce through heddle-switch's slots, beside Gloo (PyTorch) and Open MPI in one run, on links of the same rate.

    tests/netns/bench_inpath.py BUILD [--workers 2,4,8] [--mbps N] [--bytes N,N] [--rounds N] [--loss PERCENT,PERCENT]
                                [--mtu 1500] [--executor native] [--only heddle,gloo,mpi] [--json FILE]

Ours: n hosts (network namespaces) around heddle-switch, whose ports are DPDK's af_packet on veth; hosts shape what
they send (tbf), the switch what it sends them. The others: the star of bench_allreduce.py, the same hosts around the
kernel's bridge, which costs less of the processor. The floor is what sums in the network need at line rate: all bytes
once through each link, each way, headers counted. Loss: so much of what comes to the switch (its simulator), and so
much of the large packets that it sends to each host (loss.bpf.c). --mtu is for all. Prints median (min-max) ms,
the ratio to the floor, the share of all processors used (also by others), the processor's seconds that the switch and
all ranks took for each GB that was summed (on a busy machine these tell more than the time); with loss the ratio to the
time without. Needs root, iproute2, ethtool, DPDK; clang for loss; python3-torch for Gloo, openmpi-bin and
libopenmpi-dev for Open MPI (what is missing is left out and said).
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import bench_allreduce as rivals
import fabric
import pen
from star import CHUNK, OVERHEAD, Star, busy, busy_share, sh, shape

HERE = pathlib.Path(__file__).resolve().parent
SERVICE = "10.81.0.250"
CONTROLLER = f"{SERVICE}:4780"
QUEUE_KB = rivals.QUEUE_KB
OFFLOADS = ["tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off"]


class Path(fabric.Fabric):
    """Our namespace is the switch's and the controller's: s0, s1 .. are its ports, sa is the agent's, wired to va."""

    def __init__(self, count, options, folder, loss, loss_up=None, told=()):
        """loss: per cent each way; loss_up: of what comes to the switch, where that differs; told: the controller's
        further options."""
        self.options = options
        for what, value in (("ipv6/conf/default/disable_ipv6", "1"), ("ipv4/conf/all/arp_ignore", "1")):
            pathlib.Path("/proc/sys/net", what).write_text(value)
        self.hosts = [pen.Host() for _ in range(count)]
        for k, host in enumerate(self.hosts):
            host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            sh("ip", "link", "add", f"s{k}", "mtu", options.mtu, "type", "veth", "peer", "name", "e0", "mtu",
                    options.mtu, "netns", host.holder.pid)
            host.address = f"10.81.0.{k + 1}"
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", "e0")
            host.run("ethtool", "-K", "e0", *OFFLOADS)
            for name in ("lo", "e0"):
                host.run("ip", "link", "set", name, "up")
            host.run("tc", "qdisc", "add", "dev", "e0", *shape(options.mbps, QUEUE_KB))
            sh("ip", "link", "set", f"s{k}", "up")
            if loss > 0:
                lose(f"s{k}", loss, folder)
        sh("ip", "link", "add", "sa", "mtu", options.mtu, "type", "veth", "peer", "name", "va", "mtu", options.mtu)
        sh("ethtool", "-K", "va", *OFFLOADS)
        sh("ip", "addr", "add", f"{SERVICE}/24", "dev", "va")
        for name in ("sa", "va"):
            sh("ip", "link", "set", name, "up")
        os.environ["RUNTIME_DIRECTORY"] = str(folder)
        super().__init__(options.build, folder, CONTROLLER, *told)
        self.start_switch(loss if loss_up is None else loss_up)
        pen.until(lambda: self.rows("switches"), "the switch's agent")

    def static(self, loss):
        """The settings for the switch's --static."""
        return {"simulate": {"seed": 5, "loss": loss / 100}}

    def start_switch(self, loss):
        static = self.folder / "static.json"
        static.write_text(json.dumps(self.static(loss)))
        ports = [f"net_af_packet{k},iface=s{k},rate={self.options.mbps},queue={QUEUE_KB}"
                 for k in range(len(self.hosts))] + ["net_af_packetA,iface=sa"]
        with open(self.folder / "switch.log", "w", encoding="utf-8") as log:
            self.switch = subprocess.Popen(
                [self.build / "switch/heddle-switch", "--service", SERVICE, "--controller", CONTROLLER, "--key-file",
                 self.key, "--host", "s1", "--executor", self.options.executor, "--static", static, "--json",
                 *(word for port in ports for word in ("--port", port))],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.switch.stdout.readline().startswith("ready"):
            raise RuntimeError("the switch: " + self.said("switch")[-600:])

    def rows(self, table, of=None):
        return self.shell.seen(table, of)

    def counters(self, of=None):
        return self.shell.counters(of)

    def run(self, count, rounds):
        return rivals.run_heddle(self, self.hosts, count, rounds, self.options.chunk)

    def processor_times(self):
        """Seconds of the switch, and of all ranks that have ended."""
        words = pathlib.Path(f"/proc/{self.switch.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ranks = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK"), ranks.ru_utime + ranks.ru_stime

    def close(self):
        """The switch's numbers."""
        self.end(keep=1)  # the controller hears the switch's goodbye
        self.switch.send_signal(signal.SIGTERM)
        out, _ = self.switch.communicate(timeout=30)
        self.end()
        # Links first: what a namespace takes along is gone some time later, and its names are taken until then.
        for name in [f"s{k}" for k in range(len(self.hosts))] + ["sa"]:
            subprocess.run(["ip", "link", "del", name], check=False, stdin=subprocess.DEVNULL)
        for host in self.hosts:
            host.holder.kill()
            host.holder.wait()
        return self.numbers(out)

    def numbers(self, out):
        assert self.switch.returncode == 0, self.switch.returncode
        return json.loads(out)["switch"][0]


def mac_of(device, host=None):
    words = ["ip", "-j", "link", "show", "dev", device]
    done = subprocess.run(host.enter(*words) if host else words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout)[0]["address"]


def lose(port, loss, folder):
    program = folder / f"loss-{loss}.o"
    if not program.exists():
        sh("clang", "-O2", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu",
           f"-DLOSS_PER_10000={round(loss * 100)}", "-c", HERE / "loss.bpf.c", "-o", program)
    sh("tc", "qdisc", "add", "dev", port, "clsact")
    sh("tc", "filter", "add", "dev", port, "egress", "bpf", "da", "obj", program, "sec", "classifier")


def used(run):
    before = busy()
    lines = run()
    return {"ms": [1e3 * x for x in lines[1:]], "cpu": busy_share(before)}  # the first one opens sessions


def through_switch(options, count, values, folder, loss):
    path = Path(count, options, folder, loss)
    try:
        before = path.processor_times()
        row = used(lambda: path.run(values, options.rounds))
        gigabytes = values * 4 * options.rounds / 1e9
        row["seconds_per_gb"] = [(b - a) / gigabytes for a, b in zip(before, path.processor_times())]
    finally:
        row_switch = path.close()
    row["switch"] = {name: n for name, n in row_switch.items() if n}
    chunks = values * 4 // options.chunk
    if row_switch["completed"] < options.rounds * chunks:
        raise RuntimeError(f"not all sums are the switch's: {row['switch']}")
    return row


def beside(options, count, values, folder):
    rows = {}
    modes = [mode for mode in options.only if mode != "heddle"]
    if not modes:
        return rows
    star = Star({f"h{k + 1}": options.mbps for k in range(count)}, rivals.NET, QUEUE_KB)
    hosts = list(star.hosts.values())
    try:
        for name, host in star.hosts.items():
            sh("ip", "link", "set", f"p-{name}", "mtu", options.mtu)
            host.run("ip", "link", "set", "e0", "mtu", str(options.mtu))
        for mode in modes:
            rows[mode] = used(lambda: rivals.run_gloo(hosts, values, options.rounds) if mode == "gloo" else
                              rivals.run_mpi(hosts, values, options.rounds, folder))
    finally:
        star.close()
    return rows


def say(mode, row, floor, note):
    median = statistics.median(row["ms"])
    spent = row.get("seconds_per_gb", "")
    if spent:
        spent = f"; a summed GB: switch {spent[0]:.1f} s, ranks {spent[1]:.1f} s"
    print(f"  {mode:14} {median:8.1f} ms ({min(row['ms']):.1f}-{max(row['ms']):.1f})  "
          f"{median / floor:.3f} of the floor, CPU {100 * row['cpu']:.0f} %{spent}{note}", flush=True)


def measure(options, count, size, folder):
    values = size // 4
    floor = 8e3 * size * (options.chunk + OVERHEAD) / options.chunk / (options.mbps * 1e6)
    print(f"{count} workers, {size / 1e6:.1f} MB, {options.mbps} Mbit/s, MTU {options.mtu}; floor {floor:.1f} ms",
          flush=True)
    result = {"workers": count, "bytes": size, "mbps": options.mbps, "floor_ms": floor, "modes": {}}
    plain = None
    for loss in options.loss if "heddle" in options.only else []:
        row = result["modes"][f"heddle {loss} %"] = through_switch(options, count, values, folder, loss)
        median = statistics.median(row["ms"])
        say(f"heddle {loss} %", row, floor, f"  {plain / median:.2f} as fast as without loss" if plain else "")
        plain = plain or (median if loss == 0 else None)
    for mode, row in beside(options, count, values, folder).items():
        result["modes"][mode] = row
        say(mode, row, floor, f"  {statistics.median(row['ms']) / plain:.2f} of Heddle's time" if plain else "")
    return result


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="2,4,8")
    parser.add_argument("--mbps", type=int, default=200)
    parser.add_argument("--bytes", default=f"{4 << 20},25000000")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--loss", default="0,0.1,1")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--executor", default="native")
    parser.add_argument("--only", default="heddle,gloo,mpi")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "switch/heddle-switch").exists():
        pen.skip("no heddle-switch (DPDK is not installed)")
    options.chunk = CHUNK if options.mtu == 1500 else min(8896, (options.mtu - 28 - 56) // 4 * 4)
    options.only = [m for m in options.only.split(",") if rivals.have(m) or print(f"{m}: not installed, left out")]
    options.loss = [float(loss) for loss in options.loss.split(",")]
    if not shutil.which("clang") and any(options.loss):
        print("loss: no clang, left out")
        options.loss = [0.0]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, options.bytes.split(",")):
            for count in map(int, options.workers.split(",")):
                results.append(measure(options, count, size, pathlib.Path(folder)))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
