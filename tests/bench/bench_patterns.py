#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ways to train with several workers, over the same fabric on the loopback interface, in one table: averages of
gradients and of models, with and without a significance filter, workers that do not wait, workers that live for a few
steps, and a map-reduce of fresh processes. Each makes the same number of gradients.

usage: bench_patterns.py BUILD_DIR [--workers N] [--steps N] [--json]   needs no privileges.
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASK = ["--data", "generated:logistic", "--model", "logistic", "--batch", "128", "--seed", "1"]
RATE = 1.0
SHORT_LIFE = 30  # steps of a worker that lives for a while only
MAP_REDUCE = 10  # rounds of fresh processes: each costs a start
DEADLINE_S = 300


def patterns(steps, workers):
    """Name -> options of the trainer, gradients of one life, what it is."""
    # Processes begin and end one after the other: every step is of all of them.
    sync = ["--sync", f"nsync:{workers}", "--lr", str(RATE)]
    return {
        "gradient averaging": (sync, steps, "every step waits for all (bulk synchronous)"),
        "gradient averaging, filter 0.7": ([*sync, "--filter", "0.7"], steps, "MLLess"),
        "model averaging, 10 local steps": ([*sync, "--local-steps", "10"], steps, "LambdaML's MA-SGD"),
        "model averaging, filter 0.7": ([*sync, "--local-steps", "10", "--filter", "0.7"], steps, "both"),
        "asynchronous": (["--lr", str(RATE / 4), "--tau-max", "64"], steps, "SIREN's setting, without its budget"),
        "short lives": (["--lr", str(RATE / 4), "--tau-max", "64"], SHORT_LIFE,
                        f"Cirrus: a worker ends after {SHORT_LIFE} steps, another takes its place"),
        "map-reduce": (["--sync", f"nbatch:{workers}", "--lr", str(RATE), "--local-steps", str(steps // MAP_REDUCE)],
                       steps // MAP_REDUCE,
                       f"PyWren: {MAP_REDUCE} rounds, each of fresh processes"),
    }


class Fabric:
    def __init__(self, build, folder):
        self.build, self.folder, self.processes = build, Path(folder), []
        self.key = self.folder / "key"
        self.key.write_text("7 " + "5a" * 32 + "\n", encoding="utf-8")
        self.controller, self.server = self.free_address(), self.free_address()
        self.start("controller/heddle-controller", "--listen", self.controller, "--key-file", self.key,
                   "--state-dir", folder)
        self.start("aggregator/heddle-server", "--listen", self.server, "--host", "ps", "--key-file", self.key,
                   "--controller", self.controller)

    @staticmethod
    def free_address():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{probe.getsockname()[1]}"

    def start(self, program, *arguments):
        process = subprocess.Popen([str(a) for a in (self.build / program, *arguments)], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(process)
        for line in process.stdout:
            if "ready" in line or "listening" in line:
                return
        raise RuntimeError(f"{program} ended before it was ready")

    def train(self, job, workers, options):
        """One life of each worker: their summaries."""
        run = [self.build / "worker-lib/heddle-run", "-n", workers, "--controller", self.controller, "--key-file",
               self.key, "--job", job, "--host-prefix", "h", "--bind", "127.0.0.1", "--",
               self.build / "worker-lib/heddle-train", *TASK, *options, "--json", "-", "--quiet"]
        done = subprocess.run([str(a) for a in run], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{job}: {done.stdout}")
        heads = (line.partition("] ")[2] for line in done.stdout.splitlines())
        return [json.loads(rest) for rest in heads if rest.startswith("{") and '"role"' in rest]

    def close(self):
        for process in self.processes:
            process.terminate()
            process.communicate(timeout=20)


def measure(fabric, name, pattern, workers, steps):
    options, life, what = pattern
    job = "".join(c if c.isalnum() else "-" for c in name)
    pushed = lives = gradients = 0
    begun = time.monotonic()
    while gradients < steps:
        summaries = fabric.train(job, workers, [*options, "--steps", str(life)])
        pushed += sum(s["push_bytes"] for s in summaries)
        gradients += life
        lives += 1
    return {"pattern": name, "what": what, "seconds": time.monotonic() - begun, "lives": lives,
            "pushed_mb": pushed / 1e6, "updates": max(s["version"] for s in summaries),
            "loss": max(s["loss"] for s in summaries), "accuracy": min(s["accuracy"] for s in summaries)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300, help="gradients of each worker")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.pop("HEDDLE_OBSERVER", None)
    rows = []
    with tempfile.TemporaryDirectory(prefix="heddle-patterns-") as folder:
        fabric = Fabric(args.build.resolve(), folder)
        try:
            for name, pattern in patterns(args.steps, args.workers).items():
                rows.append(measure(fabric, name, pattern, args.workers, args.steps))
        finally:
            fabric.close()
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        print()
        return
    print(f"{args.workers} workers, {args.steps} gradients each\n")
    print("| | time | lives | updates | pushed | test loss | accuracy | |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['pattern']} | {row['seconds']:.1f} s | {row['lives']} | {row['updates']} | "
              f"{row['pushed_mb']:.2f} MB | {row['loss']:.4f} | {row['accuracy']:.3f} | {row['what']} |")


if __name__ == "__main__":
    main()
