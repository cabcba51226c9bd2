#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Synchronous training by all-reduce, with a controller and no server: of four workers one is killed, later another one
joins. All that are left have the same bits, and the curve is that of one process with the same workers in each step. A
worker with other settings is refused, and the job goes on. A model that was changed behind its worker's back is found,
and every worker ends with status 70.

usage: test_sync.py BUILD_DIR"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import fabric
import pen
import star

WORKERS = 4
KILLED, LATE = 2, 4  # ranks
BATCH, SEED, RATE, MOMENTUM = 16, 2, 0.1, 0.9
NET = "mlp:128,64"
TRAIN = ["--sync", "allreduce", "--batch", BATCH, "--seed", SEED, "--quiet"]
# model: momentum, steps, in which one is killed and another joins, KiB of a bucket, accuracy, steps whose losses are
# compared with the reference's, and how near. Rounding errors grow in a net with ReLU, and shrink in a convex problem.
RUNS = {NET: (MOMENTUM, 320, 80, 140, 16, 0.91, 30, 1e-4), "softmax": (0.5, 240, 40, 70, 1, 0.8, 240, 2e-5)}


class Job:
    """heddle-train on hosts h1, h2, ...; each worker's summary, step log and output are in the folder."""

    def __init__(self, fab, net, name, *words, aggregator_mb=64, size=WORKERS):
        self.fab, self.net, self.name, self.words = fab, net, name, [*TRAIN, *words]
        self.processes, self.aggregator_mb, self.size = {}, aggregator_mb, size

    def path(self, rank, kind):
        return self.fab.folder / f"{self.name}-{rank}.{kind}"

    def start(self, rank, *more):
        host = self.net.hosts[f"h{rank + 1}"]
        log = self.fab.folder / f"{self.name}.steps"
        self.processes[rank] = self.fab.start(
            f"{self.name}-{rank}", host, self.fab.build / "worker-lib/heddle-train", *self.words, "--json",
            self.path(rank, "json"), "--step-log", log, *more,
            env={**self.fab.member(self.name, rank, self.size, host), "OPENBLAS_NUM_THREADS": "1",
                 "HEDDLE_AGGREGATOR_MB": str(self.aggregator_mb)})

    def steps(self, rank):
        log = self.fab.folder / (f"{self.name}.steps" + (f".{rank}" if rank else ""))
        return pen.events(log)

    def reaches(self, rank, step):
        def has():
            assert self.processes[rank].poll() is None, f"rank {rank} has ended: {self.said(rank)}"
            return any(line["step"] >= step for line in self.steps(rank)[-1:])
        pen.until(has, f"step {step} of rank {rank}", 30)

    def said(self, rank):
        return self.fab.said(f"{self.name}-{rank}").strip()

    def end(self, rank, status=0):
        got = self.processes[rank].wait(timeout=40)
        assert got == status, (rank, got, self.said(rank))
        return json.loads(self.path(rank, "json").read_text()) if status == 0 else None


def reference(build, model, steps, each):
    """[(training loss, test accuracy, test loss)] of the same steps in one process."""
    lines = [" ".join(f"{sum(1 << rank for rank in bucket):x}" for bucket in line["members"]) for line in steps]
    words = [build / "tests/netns/sync_reference", model, BATCH, WORKERS, SEED, RATE, RUNS[model][0], each]
    done = subprocess.run([str(word) for word in words], input="\n".join(lines) + "\n", text=True, capture_output=True,
                          check=True, timeout=60)
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def check_curve(build, model, steps, summary):
    *_, compared, near = RUNS[model]
    each, buckets = summary["allreduce"]["bucket_bytes"] // 4, summary["allreduce"]["buckets"]
    assert buckets >= 3 and all(len(line["members"]) == buckets for line in steps), summary["allreduce"]
    told = reference(build, model, steps, each)
    away = max(abs(line["loss"] - loss) / max(loss, 0.01) for line, (loss, _, _) in zip(steps[:compared], told))
    print(f"the losses of {compared} steps are at most {away:.1e} from the reference's")
    assert away < near, away
    if compared == len(steps):
        assert abs(summary["loss"] - told[-1][2]) < near * told[-1][2], (summary["loss"], told[-1])
        assert abs(summary["accuracy"] - told[-1][1]) < 0.006, (summary["accuracy"], told[-1])  # two rows of 360


def givers(logs, line):
    """The ranks whose gradients are in each bucket of a step. A worker that joins is in a sum to which it gives
    nothing: it has made neither this step nor the one before. (One that has made the one before may have died in this
    one, or others may have a sum that it lacks.)"""
    step = line["step"]
    return [[rank for rank in bucket if step == 1 or step in logs[rank] or step - 1 in logs[rank]]
            for bucket in line["members"]]


def check_members(steps):
    """All four, then without the killed one, then with the late one."""
    kinds = [bucket for line in steps for bucket in line["members"]]
    rest = [rank for rank in range(WORKERS) if rank != KILLED]
    assert kinds[0] == [*range(WORKERS)] and kinds[-1] == [*rest, LATE], (kinds[0], kinds[-1])
    both = [bucket for bucket in kinds if {KILLED, LATE} <= set(bucket)]
    assert rest in kinds and not both, both


def check_summaries(summaries, steps_made, accuracy):
    for rank, summary in summaries.items():
        print(f"rank {rank}: {summary['steps']} gradients, accuracy {summary['accuracy']:.4f}, "
              f"{summary['model_crc32']}, {summary['allreduce']}")
        assert summary["version"] == steps_made and summary["allreduce"]["equal"], summary
        assert summary["allreduce"]["workers"] == len(summaries), summary
        assert summary["accuracy"] >= accuracy, summary
        assert summary["model_crc32"] == summaries[0]["model_crc32"], (rank, summary)


def all_steps(logs):
    """{step: its line}. Every worker has logged the same of each step that it made."""
    steps = {}
    for rank, lines in logs.items():
        for step, line in lines.items():
            same = {key: line[key] for key in ("step", "loss", "workers", "members")}
            assert steps.setdefault(step, same) == same, (rank, step)
    return steps


def elastic(fab, net, model):
    momentum, steps_made, kill_at, join_at, bucket_kib, accuracy, *_ = RUNS[model]
    job = Job(fab, net, f"elastic-{model[:3]}", "--model", model, "--lr", RATE, "--momentum", momentum, "--steps",
              steps_made, "--compute-ms", 8, "--bucket-kib", bucket_kib, "--check-every", 100)
    for rank in range(WORKERS):
        job.start(rank)
    job.reaches(0, kill_at)
    job.processes[KILLED].kill()
    job.reaches(0, join_at)
    job.start(LATE)
    left = [rank for rank in (*range(WORKERS), LATE) if rank != KILLED]
    summaries = {rank: job.end(rank) for rank in left}
    check_summaries(summaries, steps_made, accuracy)
    late = summaries[LATE]["allreduce"]
    assert join_at <= late["joined_step"] < steps_made and late["received"] >= 1, late
    logs = {rank: {line["step"]: line for line in job.steps(rank)} for rank in (*range(WORKERS), LATE)}
    assert min(logs[LATE]) == late["joined_step"] + 1
    steps = all_steps(logs)
    assert sorted(steps) == [*range(1, steps_made + 1)]
    ours = [{**steps[step], "members": givers(logs, steps[step])} for step in sorted(steps)]
    check_members(ours)
    check_curve(fab.build, model, ours, summaries[0])


def other_settings(fab, net):
    """Workers with another rate or size of buckets join, are told which it should be, and leave. With the other size
    their calls match none: the others make that step again. All sums are those of an aggregator that stands apart."""
    fab.start_node("aggregator", net.hosts[f"h{WORKERS + 1}"], "a1")
    job = Job(fab, net, "settings", "--steps", 400, "--compute-ms", 8, aggregator_mb=0)
    for rank in range(WORKERS):
        job.start(rank, "--lr", RATE)
    for step, words, told in ((20, ["--lr", 0.2], "lr=0.100000001, not lr=0.200000003"),
                              (60, ["--lr", RATE, "--bucket-kib", 1], "bucket-values=650, not bucket-values=217")):
        job.reaches(0, step)
        job.start(LATE, *words)
        job.end(LATE, 78)
        assert told in job.said(LATE), job.said(LATE)
    summaries = [job.end(rank) for rank in range(WORKERS)]
    assert len({summary["model_crc32"] for summary in summaries}) == 1, summaries
    assert all(summary["allreduce"]["equal"] for summary in summaries), summaries
    again = [summary["allreduce"]["repeated"] for summary in summaries]
    assert min(again) >= 1, again
    assert all(summary["steps"] == 400 + count for summary, count in zip(summaries, again)), summaries


def join_together(fab, net):
    """A worker joins in the same step as one with another size of buckets, which makes calls that match none: after the
    roll the one has the model and has not yet compared it, unlike the others."""
    steps_made, bad = 30, LATE
    job = Job(fab, net, "together", "--steps", steps_made, "--lr", RATE, "--compute-ms", 200, "--check-every", 1,
              aggregator_mb=0, size=3)
    for rank in range(3):
        job.start(rank)
    job.reaches(0, 3)
    job.start(3)
    job.start(bad, "--bucket-kib", 1)
    job.end(bad, 78)
    summaries = [job.end(rank) for rank in range(4)]
    assert len({summary["model_crc32"] for summary in summaries}) == 1, summaries
    for summary in summaries:
        assert summary["version"] == steps_made and summary["allreduce"]["equal"], summary
        assert summary["allreduce"]["workers"] == 4, summary


def poke(pid, pattern):
    """Flips a bit of the first value after each copy of these bytes in the process's memory. Returns how many."""
    found = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            low, high, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if not rights.startswith("rw") or "[v" in line:
                continue
            memory.seek(int(low, 16))
            data = memory.read(int(high, 16) - int(low, 16))
            at = data.find(pattern)
            while at >= 0:
                memory.seek(int(low, 16) + at)
                memory.write(bytes([pattern[0] ^ 1]))
                found += 1
                at = data.find(pattern, at + 1)
    return found


def changed_model(fab, net):
    """With rate 0 the model stays the initial one, so that it can be found in a worker's memory."""
    words = [fab.build / "tests/netns/sync_reference", NET, BATCH, WORKERS, SEED, 0, MOMENTUM, 0]
    initial = subprocess.run([str(word) for word in words], capture_output=True, check=True, timeout=30,
                             stdin=subprocess.DEVNULL).stdout
    job = Job(fab, net, "changed", "--model", NET, "--lr", 0, "--compute-ms", 8, "--check-every", 20)
    for rank in range(WORKERS):
        job.start(rank)
    job.reaches(0, 30)
    assert poke(job.processes[1].pid, initial[:256]) > 0, "the model was not found"
    for rank in range(WORKERS):
        job.end(rank, 70)
        assert "the models of the 4 workers are not the same" in job.said(rank), job.said(rank)


def main():
    pen.enter()
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="heddle-sync-") as folder:
        net = star.Star({f"h{i + 1}": 1000 for i in range(WORKERS + 1)}, "10.81.0", 256)
        fab = fabric.Fabric(build, pathlib.Path(folder), f"{net.hub}:7310")
        try:
            for part, *more in (*((elastic, model) for model in RUNS), (other_settings,), (join_together,),
                                (changed_model,)):
                began = time.monotonic()
                part(fab, net, *more)
                print(f"{part.__name__}{more}: {time.monotonic() - began:.1f} s", flush=True)
        finally:
            fab.end()
            net.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
