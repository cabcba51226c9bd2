#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every collective side by side in one run: Heddle's, Gloo's (PyTorch) and Open MPI's, on the same shaped links.

    tests/netns/bench_collectives.py BUILD [--workers 4,8] [--mbps N] [--sizes BYTES,...] [--runs N]
                                     [--collectives NAME,...] [--only heddle,gloo,mpi] [--json FILE]

Heddle has a controller only: the workers' processes add. A star: n hosts (network namespaces) around a bridge, every
link shaped to --mbps both ways. A size is that of the longest buffer: of it each rank has an n-th where it has a block.
A time is that of the slowest rank, each round begins with a barrier, and every result is checked. The floor is what a
link must carry at line rate, headers counted. Each run opens all three again; the table has the median over the runs of
each run's median, and for short ones also of its 99th percentile. Needs root, iproute2, python3-torch for Gloo,
openmpi-bin and libopenmpi-dev for Open MPI (what is missing is left out and said).
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import bench_allreduce as one
import pen
from star import CHUNK, OVERHEAD, Star, busy, busy_share

HERE = pathlib.Path(__file__).resolve().parent
# Of the longest buffer, what the busiest direction of a link must carry, for n ranks.
LOADS = {
    "allreduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda _: 1, "reduce": lambda _: 1,
    "allgather": lambda n: (n - 1) / n, "reduce-scatter": lambda n: (n - 1) / n, "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n, "barrier": lambda _: 0,
}
SHORT = 64 << 10  # bytes: up to here a latency, with its 99th percentile
ROUNDS = 5, 100  # least and most of a run
ROUNDS_BYTES = 12 << 20  # in between, for this many bytes
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
            "gather": lambda: (out, torch.cat([value(k, round, index[:block]) for k in range(size)]))}[name]()

def run(name, x, out, block):
    parts, blocks = list(x.split(block)), list(out.split(block))
    root = rank == 0
    calls = {"allreduce": lambda: dist.all_reduce(x), "broadcast": lambda: dist.broadcast(x, 0),
             "reduce": lambda: dist.reduce(x, 0), "allgather": lambda: dist.all_gather(blocks, parts[0]),
             "reduce-scatter": lambda: dist.reduce_scatter(blocks[0], parts),
             "gather": lambda: dist.gather(parts[0], blocks if root else None, 0),
             "scatter": lambda: dist.scatter(blocks[0], parts if root else None, 0), "barrier": dist.barrier}
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


def rounds_of(size):
    return min(max(ROUNDS_BYTES // size, ROUNDS[0]), ROUNDS[1])


def run(mode, star, names, o, folder):
    """{(collective, bytes): [ms]}."""
    hosts = list(star.hosts.values())
    names = [n for n in names if mode != "gloo" or n not in NOT_IN_GLOO]
    words = [",".join(names), *(f"{size}:{rounds_of(size)}" for size in o.sizes)]
    if mode == "heddle":
        fabric = one.Heddle(star, o.build, folder, False, False)
        lines = one.ranks(hosts, [o.build / "tests/bench/bench_collectives", *words],
                          lambda k, host: fabric.member("bench", k, len(hosts), host), mode)
        fabric.end()
    elif mode == "gloo":
        lines = one.ranks(hosts, ["/usr/bin/python3", "-c", GLOO, *words], lambda k, _: one.gloo_member(hosts, k), mode)
    else:
        lines = one.by_mpi(hosts, HERE.parent / "bench/bench_collectives.c", words, folder)
    took = {}
    for line in lines:
        name, size, seconds = line.split()
        took.setdefault((name, int(size)), []).append(1e3 * float(seconds))
    return took


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def measure(o, count, folder):
    """[{workers, collective, bytes, floor_ms, modes: {mode: {median_ms: [a run each], p99_ms: [...]}}}]."""
    points = {}
    for _ in range(o.runs):
        star = Star({f"h{k + 1}": o.mbps for k in range(count)}, one.NET, one.QUEUE_KB)
        try:
            for mode in o.only:
                before = busy()
                for point, values in run(mode, star, o.collectives, o, folder).items():
                    row = points.setdefault(point, {}).setdefault(mode, {"median_ms": [], "p99_ms": []})
                    row["median_ms"].append(statistics.median(values))
                    row["p99_ms"].append(percentile(values, 0.99))
                print(f"  {mode}: processors {100 * busy_share(before):.0f} % busy", file=sys.stderr, flush=True)
        finally:
            star.close()
    return [{"workers": count, "collective": name, "bytes": size, "mbps": o.mbps, "modes": points[name, size],
             "floor_ms": 8e3 * size * LOADS[name](count) * (CHUNK + OVERHEAD) / CHUNK / (o.mbps * 1e6)}
            for name in o.collectives for size in o.sizes]


def cell(row, mode, size):
    if mode not in row:
        return f"{'-':>19}"
    median, p99 = (statistics.median(row[mode][key]) for key in ("median_ms", "p99_ms"))
    return f"{median:10.2f} ({p99:6.1f})" if size <= SHORT else f"{median:10.1f}         "


def show(results, o):
    """ms; the best peer's time in units of ours is above 1 where we are faster."""
    print(f"{'collective':<15} {'n':>2} {'bytes':>9} {'floor':>8}" + "".join(f"{m:>19}" for m in o.only)
          + "  of the floor  best peer / Heddle")
    for r in results:
        medians = {m: statistics.median(row["median_ms"]) for m, row in r["modes"].items()}
        ours, peers = medians.get("heddle"), [v for m, v in medians.items() if m != "heddle"]
        print(f"{r['collective']:<15} {r['workers']:>2} {r['bytes']:>9} {r['floor_ms']:>8.2f}"
              + "".join(cell(r["modes"], m, r["bytes"]) for m in o.only)
              + (f"{ours / r['floor_ms']:>14.2f}" if ours and r["floor_ms"] else f"{'-':>14}")
              + (f"{min(peers) / ours:>10.2f}" if ours and peers else ""), flush=True)


def main():
    pen.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--mbps", type=int, default=200)
    parser.add_argument("--sizes", default="4096,65536,1048576,4194304")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--collectives", default=",".join(LOADS))
    parser.add_argument("--only", default="heddle,gloo,mpi")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.sizes = [int(size) for size in o.sizes.split(",")]
    o.collectives = o.collectives.split(",")
    if unknown := set(o.collectives) - set(LOADS):
        parser.error(f"--collectives: {', '.join(sorted(unknown))}: want {', '.join(LOADS)}")
    o.only = [m for m in o.only.split(",") if one.have(m) or print(f"{m}: not installed, left out")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, o.workers.split(",")):
            results += measure(o, count, pathlib.Path(folder))
    show(results, o)
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
