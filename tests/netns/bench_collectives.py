#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every collective side by side in one run: Heddle's, Gloo's (PyTorch) and Open MPI's, on the same shaped links.

    tests/netns/bench_collectives.py BUILD [--workers 4,8] [--mbps N,...] [--burst-kb N] [--flows N] [--one-host]
                                     [--sizes BYTES,...] [--runs N] [--collectives NAME,...]
                                     [--only heddle,network,gloo,mpi] [--json FILE]

Heddle has a controller only: the workers' processes add. A star: n hosts (network namespaces) around a bridge, every
link shaped both ways to --mbps, of which the hosts take one each in turn, by a token bucket of --burst-kb. With
--flows, N TCP flows of others run into the second host meanwhile. A size is that of the longest buffer: of it each rank
has an n-th where it has a block. A time is that of the slowest rank, each round begins with a barrier, and every result
is checked. The floor is what links must carry at line rate, headers counted. Each run opens all of them again; the
table has the median over the runs of each run's median, and for short ones also of its 99th percentile.

With --one-host all ranks are on this host, without shaping: Heddle's share memory. `network` is then Heddle with
HEDDLE_SHARED_MEMORY=0, over the loopback interface, as Gloo is; Open MPI shares memory. The floor is one copy of the
buffer by each rank at once (memmove).

Needs root and iproute2 (not with --one-host), python3-torch for Gloo, openmpi-bin and libopenmpi-dev for Open MPI,
iperf3 for flows (what is missing is left out and said).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench_allreduce as one
import pen
from star import BURST_BYTES, CHUNK, OVERHEAD, Star, used, used_share

HERE = pathlib.Path(__file__).resolve().parent


def each(links):
    """Every rank gives, or receives, all blocks but its own."""
    return (len(links) - 1) / len(links) / min(links)


def root(links):
    """Rank 0 gives, or receives, all blocks but its own, and another rank one."""
    return max(len(links) - 1, links[0] / min(links)) / len(links) / links[0]


def tree(links):
    """The values cross each link, and in all n - 1 links."""
    return max(1 / min(links), (len(links) - 1) / sum(links))


def both(links):
    """The values cross each link both ways, and in all 2 (n - 1) links."""
    return max(1 / min(links), 2 * (len(links) - 1) / sum(links))


# How long the longest buffer takes at least over links of such rates, where its time over a link of rate 1 is 1.
FLOORS = {
    "allreduce": both, "broadcast": tree, "reduce": tree, "allgather": each, "reduce-scatter": each, "gather": root,
    "scatter": root, "alltoall": each, "barrier": lambda _: 0,
}
SHORT = 64 << 10  # bytes: up to here a latency, with its 99th percentile
ROUNDS = 3, 100  # least and most of a run
ROUNDS_BYTES = 16 << 20  # in between, for this many bytes
GLOO = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

def value(of, round, i):
    return ((i * 7 + of * 3 + round) % 64).float()

def result(name, x, out, block, index, round):
    mine = index[rank * block:(rank + 1) * block]
    everything = lambda i: sum(value(k, round, i) for k in range(size))
    return {"allreduce": lambda: (x, everything(index)), "broadcast": lambda: (x, value(0, round, index)),
            "reduce": lambda: (x, everything(index)), "reduce-scatter": lambda: (out[:block], everything(mine)),
            "scatter": lambda: (out[:block], value(0, round, mine)),
            "allgather": lambda: (out, torch.cat([value(k, round, index[:block]) for k in range(size)])),
            "gather": lambda: (out, torch.cat([value(k, round, index[:block]) for k in range(size)])),
            "alltoall": lambda: (out, torch.cat([value(k, round, mine) for k in range(size)]))}[name]()

def run(name, x, out, block):
    parts, blocks = list(x.split(block)), list(out.split(block))
    root = rank == 0
    calls = {"allreduce": lambda: dist.all_reduce(x), "broadcast": lambda: dist.broadcast(x, 0),
             "reduce": lambda: dist.reduce(x, 0), "allgather": lambda: dist.all_gather(blocks, parts[0]),
             "reduce-scatter": lambda: dist.reduce_scatter(blocks[0], parts),
             "gather": lambda: dist.gather(parts[0], blocks if root else None, 0),
             "scatter": lambda: dist.scatter(blocks[0], parts if root else None, 0),
             "alltoall": lambda: dist.all_to_all_single(out, x), "barrier": dist.barrier}
    began = time.monotonic()
    calls[name]()
    return time.monotonic() - began

def measure(name, bytes, rounds):
    block = bytes // 4 // size
    index = torch.arange(block * size, dtype=torch.int64)
    out = torch.empty(block * size)
    for round in range(rounds + 1):
        x = value(rank, round, index)
        dist.barrier()
        took = run(name, x, out, block)
        if name != "barrier" and (rank == 0 or name not in ("reduce", "gather")):
            assert torch.equal(*result(name, x, out, block, index, round)), name
        took = torch.tensor([took], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        if rank == 0 and round > 0:
            print(f"{name} {bytes} {took.item():.9f}", flush=True)

for name in sys.argv[1].split(","):
    for point in sys.argv[2:]:
        measure(name, *map(int, point.split(":")))
"""
NOT_IN_GLOO = {"reduce-scatter"}  # of PyTorch 1.13
OURS = ("heddle", "network")
COPIES = 5
COPY = """
import ctypes, sys, time
size, times = int(sys.argv[1]), int(sys.argv[2])
a, b = (ctypes.create_string_buffer(size) for _ in range(2))
ctypes.memset(a, 1, size)
ctypes.memset(b, 1, size)
print("ready", flush=True)
sys.stdin.readline()
took = []
for _ in range(times):
    began = time.monotonic()
    ctypes.memmove(a, b, size)
    took.append(time.monotonic() - began)
print(sorted(took)[times // 2])
"""


class Here:
    """All ranks on this host."""
    hub = address = "127.0.0.1"

    def __init__(self, count):
        self.hosts = {f"h{k + 1}": self for k in range(count)}

    def enter(self, *command):
        return list(map(str, command))

    def close(self):
        pass


def links_of(o, count):
    """Mbit/s of each host's link."""
    return [o.mbps[k % len(o.mbps)] for k in range(count)]


def copy_ms(count, size):
    """Of one copy by `count` processes at once; the slowest one's median."""
    running = [subprocess.Popen([sys.executable, "-c", COPY, str(size), str(COPIES)], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for _ in range(count)]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    return max(1e3 * float(process.communicate(timeout=600)[0]) for process in running)


def floor_ms(o, name, size, count, copies):
    """copies: what copy_ms() said in each run; 0: there is no floor."""
    if o.one_host:
        return 0 if name == "barrier" else statistics.median(copies[size])
    return 8e3 * size * FLOORS[name](links_of(o, count)) * (CHUNK + OVERHEAD) / CHUNK / 1e6


def rounds_of(size):
    return min(max(ROUNDS_BYTES // size, ROUNDS[0]), ROUNDS[1])


def member(fabric, k, host, count, mode, o):
    """Environment of Heddle's rank k."""
    where = {"HEDDLE_HOST": "here", "HEDDLE_SHARED_MEMORY": str(int(mode == "heddle"))} if o.one_host else {}
    return {**fabric.member("bench", k, count, host), **where}


def run_mpi(o, star, words, folder):
    source = HERE.parent / "bench/bench_collectives.c"
    if not o.one_host:
        return one.by_mpi(list(star.hosts.values()), source, words, folder)
    program = folder / "mpi-here"
    if not program.exists():
        one.sh("mpicc", "-O2", "-DWITH_MPI", source, "-o", program)
    return one.said(one.start(star, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", len(star.hosts), "--mca",
                              "mpi_yield_when_idle", "1", program, *words, out=subprocess.PIPE), "mpi")


def run(mode, star, names, o, folder):
    """{(collective, bytes): [ms]}."""
    hosts = list(star.hosts.values())
    names = [n for n in names if mode != "gloo" or n not in NOT_IN_GLOO]
    words = [",".join(names), *(f"{size}:{rounds_of(size)}" for size in o.sizes)]
    if mode in OURS:
        fabric = one.Heddle(star, o.build, folder, False, o.flows > 0)
        lines = one.ranks(hosts, [o.build / "tests/bench/bench_collectives", *words],
                          lambda k, host: member(fabric, k, host, len(hosts), mode, o), mode)
        fabric.end()
    elif mode == "gloo":
        device = {"GLOO_SOCKET_IFNAME": "lo"} if o.one_host else {}
        lines = one.ranks(hosts, ["/usr/bin/python3", "-c", GLOO, *words],
                          lambda k, _: {**one.gloo_member(hosts, k), **device}, mode)
    else:
        lines = run_mpi(o, star, words, folder)
    took = {}
    for line in lines:
        name, size, seconds = line.split()
        took.setdefault((name, int(size)), []).append(1e3 * float(seconds))
    return took


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def measure(o, count, folder):
    """[{workers, collective, bytes, floor_ms, modes: {mode: {median_ms: [a run each], p99_ms: [...]}}}]."""
    points, copies = {}, {}
    for _ in range(o.runs):
        for size in o.sizes if o.one_host else []:
            copies.setdefault(size, []).append(copy_ms(count, size))
        star = Here(count) if o.one_host else Star({f"h{k + 1}": mbps for k, mbps in enumerate(links_of(o, count))},
                                                   one.NET, max(one.QUEUE_KB, o.burst_kb), o.burst_kb * 1024)
        flows = one.Flows(star, o.flows)
        try:
            for mode in o.only:
                before = used()
                for point, values in run(mode, star, o.collectives, o, folder).items():
                    row = points.setdefault(point, {}).setdefault(mode, {"median_ms": [], "p99_ms": []})
                    row["median_ms"].append(statistics.median(values))
                    row["p99_ms"].append(percentile(values, 0.99))
                print(f"  {mode}: {100 * used_share(before):.0f} % of the processors", file=sys.stderr, flush=True)
        finally:
            flows.close()
            star.close()
    return [{"workers": count, "collective": name, "bytes": size, "mbps": links_of(o, count), "flows": o.flows,
             "one_host": o.one_host, "modes": points[name, size], "floor_ms": floor_ms(o, name, size, count, copies)}
            for name in o.collectives for size in o.sizes]


def digits(ms, width):
    return f"{ms:{width}.{3 if ms < 10 else 1}f}"


def cell(row, mode, size):
    if mode not in row:
        return f"{'-':>19}"
    median, p99 = (statistics.median(row[mode][key]) for key in ("median_ms", "p99_ms"))
    return digits(median, 10) + (f" ({digits(p99, 6)})" if size <= SHORT else " " * 9)


def show(results, o):
    """ms; the best peer's time in units of ours is above 1 where we are faster."""
    print(f"{'collective':<15} {'n':>2} {'bytes':>9} {'floor':>8}" + "".join(f"{m:>19}" for m in o.only)
          + "  of the floor  best peer / Heddle")
    for r in results:
        medians = {m: statistics.median(row["median_ms"]) for m, row in r["modes"].items()}
        ours, peers = medians.get("heddle"), [v for m, v in medians.items() if m not in OURS]
        print(f"{r['collective']:<15} {r['workers']:>2} {r['bytes']:>9} {digits(r['floor_ms'], 8)}"
              + "".join(cell(r["modes"], m, r["bytes"]) for m in o.only)
              + (f"{ours / r['floor_ms']:>14.2f}" if ours and r["floor_ms"] else f"{'-':>14}")
              + (f"{min(peers) / ours:>10.2f}" if ours and peers else ""), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--mbps", default="200")
    parser.add_argument("--burst-kb", type=int, default=BURST_BYTES // 1024)
    parser.add_argument("--flows", type=int, default=0)
    parser.add_argument("--one-host", action="store_true")
    parser.add_argument("--sizes", default="4096,65536,1048576,4194304")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--collectives", default=",".join(FLOORS))
    parser.add_argument("--only")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.mbps = [int(rate) for rate in o.mbps.split(",")]
    if o.one_host and o.flows:
        parser.error("--flows: there is no link with --one-host")
    o.only = (o.only or ("heddle,network,gloo,mpi" if o.one_host else "heddle,gloo,mpi")).split(",")
    if not o.one_host and "network" in o.only:
        parser.error("--only: network: with --one-host only; otherwise heddle is by the network")
    o.sizes = [int(size) for size in o.sizes.split(",")]
    o.collectives = o.collectives.split(",")
    if unknown := set(o.collectives) - set(FLOORS):
        parser.error(f"--collectives: {', '.join(sorted(unknown))}: want {', '.join(FLOORS)}")
    return o


def main():
    o = parse()
    if not o.one_host or os.geteuid() == 0:
        pen.enter()
    o.only = [m for m in o.only if one.have(m) or print(f"{m}: not installed, left out")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, o.workers.split(",")):
            results += measure(o, count, pathlib.Path(folder))
    show(results, o)
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
