#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce side by side in one run: Heddle's, Gloo's (PyTorch) and Open MPI's, on the same shaped links.

    tests/netns/bench_allreduce.py BUILD [--workers 2,4,8] [--mbps N] [--bytes N] [--rounds N] [--flows N]
                                   [--only heddle,workers,gloo,mpi] [--json FILE]

heddle: with a heddle-aggregator on each host; workers: with a controller only, so the workers' processes add.
A star: n hosts (network namespaces) around a bridge, every link shaped to --mbps both ways. With --flows, N
TCP flows of others run into the second host meanwhile; all TCP is CUBIC. The floor is what a ring or shards need at
line rate: 2 (n - 1) / n of the bytes through each link, headers counted. Prints median (min-max) ms and ratios; needs
root, iproute2, python3-torch for Gloo, openmpi-bin and libopenmpi-dev for Open MPI (what is missing is left out and
said).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import fabric
import pen
from star import CHUNK, OVERHEAD, Star, sh, used, used_share

HERE = pathlib.Path(__file__).resolve().parent
QUEUE_KB = 128
NET = "10.80.0"
GLOO = """
import os, sys, time, torch, torch.distributed as dist
count, rounds = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
i = torch.arange(count, dtype=torch.int64) * 7
for r in range(rounds):
    x = ((i + rank * 3 + r) % 64).float()
    dist.barrier()
    began = time.monotonic()
    dist.all_reduce(x)
    took = torch.tensor([time.monotonic() - began])
    assert torch.equal(x, sum(((i + k * 3 + r) % 64).float() for k in range(size)))
    dist.all_reduce(took)
    if rank == 0:
        print(f"{took.item() / size:.6f}", flush=True)
"""


def said(process, what):
    """Its lines, when it has ended well."""
    out, err = process.communicate(timeout=1800)
    if process.returncode != 0:
        raise RuntimeError(f"{what}: status {process.returncode}: {err.strip()[-600:]}")
    return out.splitlines()


def start(host, *command, env=None, out=subprocess.DEVNULL):
    return subprocess.Popen(host.enter(*command), env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                            stdout=out, stderr=subprocess.PIPE, text=True)


def ranks(hosts, command, env_of, what):
    """One process a host; rank 0's lines."""
    running = [start(host, *command, env=env_of(k, host), out=subprocess.PIPE) for k, host in enumerate(hosts)]
    lines = said(running[0], what)
    for process in running[1:]:
        said(process, what)
    return lines


class Heddle(fabric.Fabric):
    """The controller, an aggregator on every host unless the workers add, and monitors where others' flows are."""

    def __init__(self, star, build, folder, aggregators, monitors):
        super().__init__(build, folder, star.hub)
        for name, host in star.hosts.items():
            if aggregators:
                self.start_node("aggregator", host, name)
            if monitors:
                self.start(f"monitor-{name}", host, build / "dataplane/monitor/heddle-monitor", "--interface", "e0",
                           "--controller", star.hub, "--host", name, "--key-file", self.key)
        pen.until(lambda: self.shell.ask("show", "nodes").returncode == 0, "the controller")
        pen.until(lambda: len(self.shell.seen("nodes")) >= len(self.running) - 1, "the aggregators")


def run_heddle(cluster, hosts, *words):
    """Seconds of the all-reduces of a job's ranks, one a host."""
    return list(map(float, ranks(hosts, [cluster.build / "tests/bench/bench_allreduce", *words],
                                 lambda k, host: cluster.member("bench", k, len(hosts), host), "heddle")))


def gloo_member(hosts, k):
    """Environment of rank k."""
    return {"RANK": str(k), "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": hosts[0].address,
            "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "e0"}


def run_gloo(hosts, count, rounds):
    return list(map(float, ranks(hosts, ["/usr/bin/python3", "-c", GLOO, count, rounds],
                                 lambda k, _: gloo_member(hosts, k), "gloo")))


def by_mpi(hosts, source, words, folder, btl="tcp,self"):
    """The lines that rank 0 of this program prints. One daemon a namespace: mpirun reaches the others by an agent that
    enters them."""
    program, agent = folder / f"mpi-{source.stem}", folder / "agent"
    if not program.exists():
        sh("mpicc", "-O2", "-DWITH_MPI", source, "-o", program, "-lm")
    cases = "\n".join(f"{h.address}) pid={h.holder.pid} name=h{k + 1};;" for k, h in enumerate(hosts))
    agent.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\nshift\n'
                     'exec nsenter -t $pid --net unshare -u sh -c "hostname $name; $*"\n')
    agent.chmod(0o755)
    command = ["mpirun", "--allow-run-as-root", "--host", ",".join(h.address for h in hosts),
             "--mca", "plm_rsh_agent", agent, "--mca", "btl", btl, "--mca", "pml", "ob1",
             "--mca", "btl_tcp_if_include", f"{NET}.0/24", "--mca", "oob_tcp_if_include", f"{NET}.0/24",
             "--mca", "mpi_yield_when_idle", "1", program, *words]
    line = " ".join(map(str, command))
    return said(start(hosts[0], "unshare", "-u", "sh", "-c", f"hostname h1; exec {line}", out=subprocess.PIPE), "mpi")


def run_mpi(hosts, count, rounds, folder):
    return list(map(float, by_mpi(hosts, HERE.parent / "bench/bench_allreduce.c", [count, rounds], folder)))


def have(mode):
    if mode == "gloo":
        return subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0
    return mode != "mpi" or (shutil.which("mpirun") and shutil.which("mpicc"))


class Flows:
    """TCP flows of others, from the bridge's host into the second host, on cubic."""

    def __init__(self, star, count):
        self.running = []
        if count == 0:
            return
        host = star.hosts["h2"]
        self.running.append(start(host, "iperf3", "-s", "-p", "5201", "-B", host.address))
        time.sleep(0.5)
        self.running.append(subprocess.Popen(
            ["iperf3", "-c", host.address, "-p", "5201", "-P", str(count), "-t", "600", "-C", "cubic"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(3)

    def close(self):
        for process in reversed(self.running):
            process.kill()
            process.wait()


def measure(options, count, folder):
    star = Star({f"h{k + 1}": options.mbps for k in range(count)}, NET, QUEUE_KB)
    hosts = list(star.hosts.values())
    values = options.bytes // 4
    rows = {}
    try:
        flows = Flows(star, options.flows)
        for mode in options.only:
            ours = mode in ("heddle", "workers")
            heddle = Heddle(star, options.build, folder, mode == "heddle", options.flows > 0) if ours else None
            before = used()
            if heddle:
                lines = run_heddle(heddle, hosts, values, options.rounds)
            elif mode == "gloo":
                lines = run_gloo(hosts, values, options.rounds)
            else:
                lines = run_mpi(hosts, values, options.rounds, folder)
            if heddle:
                heddle.end()
            # The first one opens sessions.
            rows[mode] = {"ms": [1e3 * x for x in lines[1:]], "cpu": used_share(before)}
        flows.close()
    finally:
        star.close()
    return rows


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="2,4,8")
    parser.add_argument("--mbps", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--flows", type=int, default=0)
    parser.add_argument("--only", default="heddle,workers,gloo,mpi")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.only = [m for m in options.only.split(",") if have(m) or print(f"{m}: not installed, left out")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, options.workers.split(",")):
            rows = measure(options, count, pathlib.Path(folder))
            floor = 8e3 * options.bytes * 2 * (count - 1) / count * (CHUNK + OVERHEAD) / CHUNK / (options.mbps * 1e6)
            ours = statistics.median(rows["heddle"]["ms"]) if "heddle" in rows else None
            print(f"{count} workers, {options.bytes / 1e6:.1f} MB, {options.mbps} Mbit/s, "
                  f"{options.flows} flows of others; floor {floor:.1f} ms")
            for mode, row in rows.items():
                median = statistics.median(row["ms"])
                ratio = f"  {median / ours:.2f} of Heddle's time" if ours and mode != "heddle" else ""
                print(f"  {mode:7} {median:8.1f} ms ({min(row['ms']):.1f}-{max(row['ms']):.1f})  "
                      f"{median / floor:.2f} of the floor, CPU {100 * row['cpu']:.0f} %{ratio}", flush=True)
            results.append({"workers": count, "bytes": options.bytes, "mbps": options.mbps, "flows": options.flows,
                            "floor_ms": floor, "modes": rows})
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
