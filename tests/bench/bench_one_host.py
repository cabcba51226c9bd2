#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of processes on one host, side by side in one run: through shared memory, through the network (loopback),
and Gloo's (PyTorch, over loopback).

    tests/bench/bench_one_host.py BUILD [--workers 2,4] [--sizes BYTES,...] [--runs N] [--collectives NAME,...]
                                  [--only memory,network,gloo] [--json FILE]

memory, network: Heddle with a controller only; network has HEDDLE_SHARED_MEMORY=0. A size is that of the longest
buffer. A time is that of the slowest rank, each round begins with a barrier, and every result is checked. The floor is
one copy of the buffer by each rank at once (memmove). Each run starts all again, in turn; the table has the median over
the runs of each run's median. Needs no privileges; without python3-torch Gloo is left out, and that is said.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "netns"), str(HERE.parent / "unit/programs")]
import bench_collectives as peers  # pylint: disable=wrong-import-position
from processes import Program, write_keys  # pylint: disable=wrong-import-position

ROUNDS = 7, 200  # least and most of a run
ROUNDS_BYTES = 64 << 20  # in between, for this many bytes
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


def rounds_of(size):
    return min(max(ROUNDS_BYTES // size, ROUNDS[0]), ROUNDS[1])


def lines_of(commands):
    """Rank 0's lines; each command is (words, environment)."""
    running = [subprocess.Popen([str(word) for word in words], env=env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for words, env in commands]
    lines = []
    for k, process in enumerate(running):
        out, err = process.communicate(timeout=1800)
        if process.returncode != 0:
            raise RuntimeError(f"rank {k}: status {process.returncode}: {err.strip()[-600:]}")
        lines += out.splitlines() if k == 0 else []
    return lines


def plain():
    return {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}


def run(mode, count, o, folder):
    """{(collective, bytes): [ms]}."""
    names = [n for n in o.collectives if mode != "gloo" or n not in peers.NOT_IN_GLOO]
    words = [",".join(names), *(f"{size}:{rounds_of(size)}" for size in o.sizes)]
    if mode == "gloo":
        lines = lines_of([(["/usr/bin/python3", "-c", peers.GLOO, *words],
                           {**plain(), "RANK": str(k), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "lo"}) for k in range(count)])
    else:
        keys = write_keys(folder)
        controller = Program(o.build / "controller/heddle-controller", "--listen", "127.0.0.1:0", "--key-file", keys)
        lines = lines_of([([o.build / "tests/bench/bench_collectives", *words],
                           {**plain(), "HEDDLE_CONTROLLER": controller.address, "HEDDLE_KEY_FILE": keys,
                            "HEDDLE_JOB": "bench", "HEDDLE_RANK": str(k), "HEDDLE_WORLD_SIZE": str(count),
                            "HEDDLE_BIND": "127.0.0.1", "HEDDLE_SHARED_MEMORY": str(int(mode == "memory"))})
                          for k in range(count)])
        controller.stop()
    took = {}
    for line in lines:
        name, size, seconds = line.split()
        took.setdefault((name, int(size)), []).append(1e3 * float(seconds))
    return took


def floor_ms(count, size):
    """Of one copy by `count` processes at once; the slowest one's median."""
    running = [subprocess.Popen([sys.executable, "-c", COPY, str(size), str(COPIES)], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for _ in range(count)]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    return max(1e3 * float(process.communicate(timeout=600)[0]) for process in running)


def measure(o, count, folder):
    points, floors = {}, {}
    for _ in range(o.runs):
        for mode in o.only:
            for point, values in run(mode, count, o, folder).items():
                points.setdefault(point, {}).setdefault(mode, []).append(statistics.median(values))
        for size in o.sizes:
            floors.setdefault(size, []).append(floor_ms(count, size))
    return [{"workers": count, "collective": name, "bytes": size, "floor_ms": statistics.median(floors[size]),
             "modes_ms": points[name, size]} for name in o.collectives for size in o.sizes]


def show(results, o):
    """ms, the median of the runs and their range."""
    print(f"{'collective':<15} {'n':>2} {'bytes':>9} {'copy':>9}" + "".join(f"{m:>26}" for m in o.only)
          + "  Gloo / memory")
    for r in results:
        modes = {mode: (statistics.median(v), min(v), max(v)) for mode, v in r["modes_ms"].items()}
        print(f"{r['collective']:<15} {r['workers']:>2} {r['bytes']:>9} {r['floor_ms']:>9.3f}"
              + "".join(f"{modes[m][0]:>10.3f} ({modes[m][1]:.3f}-{modes[m][2]:.3f})".rjust(26) if m in modes
                        else f"{'-':>26}" for m in o.only)
              + (f"{modes['gloo'][0] / modes['memory'][0]:>15.2f}" if {"gloo", "memory"} <= set(modes) else ""),
              flush=True)


def has_gloo():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--sizes", default="4096,65536,1048576,16777216,67108864")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--collectives", default="allreduce")
    parser.add_argument("--only", default="memory,network,gloo")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.sizes = [int(size) for size in o.sizes.split(",")]
    o.collectives = o.collectives.split(",")
    o.only = [m for m in o.only.split(",") if m != "gloo" or has_gloo() or print("gloo: not installed, left out")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, o.workers.split(",")):
            results += measure(o, count, folder)
    show(results, o)
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
