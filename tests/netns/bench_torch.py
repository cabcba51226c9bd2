#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps of PyTorch's DistributedDataParallel side by side in one run: on Gloo, with Heddle's hook, and with the process
group heddle, on the same shaped links.

    tests/netns/bench_torch.py BUILD [--workers 2,4] [--mbps N] [--model mlp,transformer] [--scenario quiet,flows,slow]
                               [--steps N] [--runs N] [--only gloo,hook,group,alone] [--python PATH] [--json FILE]

A star: n hosts (network namespaces) around a bridge with a rank each, every link shaped both ways to --mbps. Heddle has
a controller only: the ranks' processes add. Scenarios: quiet; flows: 4 TCP flows of others run into the second host
(CUBIC, as all TCP); slow: the last host's link has 50 Mbit/s. Models: an MLP on the digits (1.2 MB) and a transformer
(42 MB), of few samples a step; PyTorch has one thread a process.

A step is forward and backward pass and SGD, and its time that of the slowest rank; the floor is what the links must
carry of the gradients at line rate, Heddle's headers counted (7 %; TCP's are 5 %). *p95*: of 10 steps the longest.
*off*: the largest difference of a loss from Gloo's, as a part of it; it must be at most 1e-4, and the models of all
ranks must have the same bits. *processors*: the share that the ranks and the fabric's programs take of all. Each run
opens everything again, in an order that changes; the table has medians over the runs. Bucket sizes are DDP's own in
all modes; Heddle's packets carry a MAC, as by default, and Gloo's none.
alone: one process without a network; the share of a step that Heddle's hook takes where each all-reduce has its result
at once, beside a step without a hook, and beside one whose hook does nothing.

--python: an interpreter with another PyTorch. Exit status 1: the losses differ. Needs root, iproute2, PyTorch
(python3-torch), the digits (python3-sklearn), iperf3 for flows (what is missing is left out and said).
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_allreduce as one
import pen
from bench_collectives import both, percentile
from star import CHUNK, OVERHEAD, Star

HERE = pathlib.Path(__file__).resolve().parent
STEPS = {"mlp": 60, "transformer": 10}
ALONE_STEPS = 5  # times as many
SCENARIOS = ("quiet", "flows", "slow")
MODES = ("gloo", "hook", "group")
FLOWS, SLOW_MBPS = 4, 50
OFF_MAX = 1e-4
HOOK_MAX = 0.05  # wanted
PATIENCE_S = 1800  # against a hang


def environment(o):
    """Of each rank."""
    return {"HEDDLE_LIBRARY": str(o.build / "worker-lib/libheddle.so"), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(pen.ROOT / "worker-lib/python"), "PYTHONDONTWRITEBYTECODE": "1"}


def command(o, mode, model, steps, pids=()):
    return [o.python, HERE / "torch_steps.py", mode, model, steps, o.build / "tests/bench/librival_trainer.so", *pids]


def wait(ranks, mode):
    """Until all have ended; if one fails, the others would wait for it."""
    ends = time.monotonic() + PATIENCE_S
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks) or time.monotonic() > ends:
            for rank in ranks:
                rank.kill()
            said = [rank.communicate()[1].strip()[-600:] for rank in ranks]
            raise RuntimeError(f"{mode}: a rank has failed: {said}")
        time.sleep(0.1)


def play(o, star, mode, model, folder, flows):
    """Returns the measurements of each rank."""
    hosts = list(star.hosts.values())
    fabric = None if mode == "gloo" else one.Heddle(star, o.build, folder, False, flows)
    pids = [process.pid for process in fabric.running] if fabric else []
    ranks, said = [], [folder / f"rank-{k}" for k in range(len(hosts))]
    try:
        for k, host in enumerate(hosts):
            env = {**environment(o), **one.gloo_member(hosts, k), "MASTER_PORT": str(29500 + MODES.index(mode))}
            if fabric:
                env.update(fabric.member("bench", k, len(hosts), host))
            with open(said[k], "w", encoding="utf-8") as out:  # a pipe would be full before the ranks end
                ranks.append(one.start(host, *command(o, mode, model, o.steps or STEPS[model], pids if k == 0 else ()),
                                       env=env, out=out))
        wait(ranks, mode)
        return [json.loads(file.read_text(encoding="utf-8").splitlines()[-1]) for file in said]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        if fabric:
            fabric.end()


def beside_flows(o, star, mode, model, folder, count):
    """play(), beside this many TCP flows, which last as long as it does."""
    flows = one.Flows(star, count)
    try:
        told = play(o, star, mode, model, folder, count > 0)
        if any(process.poll() is not None for process in flows.running):
            raise RuntimeError(f"{mode}: the flows of others have ended before it")
        return told
    finally:
        flows.close()


def links_of(o, count, scenario):
    """Mbit/s of each host's link."""
    links = [o.mbps] * count
    if scenario == "slow":
        links[-1] = SLOW_MBPS
    return links


def off(losses, wanted):
    """The largest relative difference; infinite if a loss is not finite."""
    far = [abs(mine - gloo) / abs(gloo) for row, want in zip(losses, wanted) for mine, gloo in zip(row, want)]
    return max(far) if all(map(math.isfinite, far)) else math.inf


def summary(told, gloo):
    """Of one run of a mode. gloo: what was told there, or None."""
    slowest = [1e3 * max(steps) for steps in zip(*(rank["seconds"] for rank in told))]
    row = {"median_ms": statistics.median(slowest), "p95_ms": percentile(slowest, 0.95),
           "processors": sum(rank["processor_s"] for rank in told) / told[0]["took_s"] / os.cpu_count(),
           "same_bits": len({rank["bits"] for rank in told}) == 1, "loss": told[0]["losses"][-1]}
    if gloo:
        row["off"] = off([rank["losses"] for rank in told], [rank["losses"] for rank in gloo])
    return row


def measure(o, count, model, scenario, folder):
    """{workers, model, scenario, mbps, bytes, floor_ms, modes: {mode: [a row each run]}}"""
    links, modes = links_of(o, count, scenario), {mode: [] for mode in MODES if mode in o.only}
    for run in range(o.runs):
        star = Star({f"h{k + 1}": mbps for k, mbps in enumerate(links)}, one.NET, one.QUEUE_KB)
        order, told = [*modes], {}
        try:
            for mode in order[run % len(order):] + order[:run % len(order)]:  # what drifts is not always the last one's
                told[mode] = beside_flows(o, star, mode, model, folder, FLOWS if scenario == "flows" else 0)
        finally:
            star.close()
        for mode, rows in modes.items():
            rows.append(summary(told[mode], told.get("gloo")))
    size = told[order[0]][0]["bytes"]
    return {"workers": count, "model": model, "scenario": scenario, "mbps": links, "bytes": size,
            "floor_ms": 8e3 * size * both(links) * (CHUNK + OVERHEAD) / CHUNK / 1e6, "modes": modes}


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def is_good(rows):
    return all(row["same_bits"] and row.get("off", 0) <= OFF_MAX for row in rows)


def show(result):
    """A line a mode; Gloo's time in units of ours is above 1 where we are faster."""
    gloo = result["modes"].get("gloo")
    for mode, rows in result["modes"].items():
        ours = median(rows, "median_ms")
        print(f"{result['model']:<12} {result['workers']:>2} {result['scenario']:<9} {result['floor_ms']:>7.1f} "
              f"{mode:<6}{ours:>9.1f}{median(rows, 'p95_ms'):>9.1f}{ours / result['floor_ms']:>10.2f}"
              + (f"{median(gloo, 'median_ms') / ours:>10.2f}" if gloo else f"{'-':>10}")
              + f"{100 * median(rows, 'processors'):>10.0f} %"
              + (f"{max(row['off'] for row in rows):>10.0e}" if gloo else f"{'-':>10}")
              + ("" if is_good(rows) else "  DIFFERS"), flush=True)


def measure_alone(o, model):
    words = list(map(str, command(o, "alone", model, ALONE_STEPS * (o.steps or STEPS[model]))))
    env, told = {**os.environ, **environment(o), "GLOO_SOCKET_IFNAME": "lo"}, []
    for _ in range(o.runs):
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        told.append(json.loads(one.said(process, "alone")[-1]))
    return {"model": model, "alone": told}


def show_alone(result):
    rows = [{**row, "share": 1 - row["none_ms"] / row["hook_ms"], "more": 1 - row["least_ms"] / row["hook_ms"]}
            for row in result["alone"]]
    print(f"{result['model']} without a network: a step {median(rows, 'none_ms'):.2f} ms, with Heddle's hook "
          f"{median(rows, 'hook_ms'):.2f} ms, of which it takes {100 * median(rows, 'share'):.1f} % (wanted: "
          f"{100 * HOOK_MAX:.0f} %); with a hook that does nothing {median(rows, 'least_ms'):.2f} ms "
          f"({100 * median(rows, 'more'):.1f} %)", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--mbps", type=int, default=200)
    parser.add_argument("--model", default=",".join(STEPS))
    parser.add_argument("--scenario", default=",".join(SCENARIOS))
    parser.add_argument("--steps", type=int, help=f"that are measured ({STEPS['mlp']} of the MLP, "
                        f"{STEPS['transformer']} of the transformer)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default=",".join((*MODES, "alone")))
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.workers = [int(count) for count in o.workers.split(",")]
    for name, known in (("model", STEPS), ("scenario", SCENARIOS), ("only", (*MODES, "alone"))):
        setattr(o, name, getattr(o, name).split(","))
        if unknown := set(getattr(o, name)) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))}: want {', '.join(known)}")
    if min(o.workers) < 2 or (o.steps or 1) < 1 or o.runs < 1:
        parser.error("--workers: 2 or more; --steps, --runs: 1 or more")
    return o


def leave_out(o):
    """Leaves out scenarios that this machine has no programs for."""
    found = subprocess.run([o.python, "-c", "import torch.distributed as d; d.is_available() or exit(1)"], check=False,
                           stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        pen.skip(f"{o.python} has no torch.distributed (python3-torch)")
    if "flows" in o.scenario and not shutil.which("iperf3"):
        print("flows: iperf3 is not installed, left out")
        o.scenario.remove("flows")


def main():
    o = parse()
    pen.enter()
    leave_out(o)
    results, good = [], True
    if set(o.only) & set(MODES):
        print(f"{'model':<12} {'n':>2} {'scenario':<9} {'floor':>7} {'':<6}{'median':>9}{'p95':>9}{'of floor':>10}"
              f"{'Gloo / it':>10}{'processors':>12}{'off':>10}   (ms)")
        with tempfile.TemporaryDirectory() as folder:
            for point in [(n, m, s) for m in o.model for n in o.workers for s in o.scenario]:
                results.append(measure(o, *point, pathlib.Path(folder)))
                show(results[-1])
                good = good and all(map(is_good, results[-1]["modes"].values()))
    for model in o.model if "alone" in o.only else ():
        results.append(measure_alone(o, model))
        show_alone(results[-1])
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
