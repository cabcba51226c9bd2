#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-train --sync allreduce on the loopback interface: a controller, heddle-run and no server. Every worker ends
with the same bits, one alone with those of --local; a worker that leaves or dies does not end the job (heddle-run
--least); the first whose time is over ends it for all; options that do not fit are refused by name.

usage: check_train_sync.py HEDDLE_CONTROLLER HEDDLE_RUN HEDDLE_TRAIN"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from processes import Program, check, run, until, write_keys

CONTROLLER, RUN, TRAIN = (pathlib.Path(word).resolve() for word in sys.argv[1:])
REFUSED = {
    "federated": "mu=0.1", "straggling": "0.5", "client-labels": "2", "tau-max": "16", "div-max": "1",
    "staleness": "adadelay", "filter": "0", "filter-block": "2", "filter-flush": "1", "payload": "bf16",
    "pull-payload": "fp16", "local-steps": "2", "admm": "0.1", "inflight": "2", "synchronous": None, "local": None,
    "evaluate": None, "every-ms": "100", "target": "0", "target-commits": "2"}


class Job:
    def __init__(self, folder, controller):
        self.folder, self.controller, self.key = pathlib.Path(folder), controller, write_keys(folder)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("HEDDLE_")}

    def command(self, name, count, train, more=()):
        return [str(word) for word in (
            RUN, "-n", count, "--controller", self.controller, "--key-file", self.key, "--job", name,
            "--host-prefix", "h", "--bind", "127.0.0.1", *more, "--", TRAIN, "--sync", "allreduce", "--model",
            "mlp:32", "--lr", "0.1", "--bucket-kib", "4", "--quiet", "--json", "-", *train)]

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), env=self.environment, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process, status=0):
        """{rank: summary} and what it said besides."""
        out, said = process.communicate(timeout=60)
        check(process.returncode == status, f"exit status {process.returncode}: {said}")
        lines = [line.partition("] ") for line in out.splitlines()]
        return {int(head[1:]): json.loads(rest) for head, _, rest in lines if rest.startswith("{\"role\"")}, said


def same(summaries, count):
    check(len(summaries) == count, f"{len(summaries)} summaries, not {count}")
    check(len({summary["model_crc32"] for summary in summaries.values()}) == 1, "the models differ")
    check(len({summary["version"] for summary in summaries.values()}) == 1, "the steps differ")
    check(all(summary["allreduce"]["equal"] for summary in summaries.values()), "they were not compared")


def check_refused():
    for name, value in REFUSED.items():
        done = run(TRAIN, "--sync", "allreduce", f"--{name}", *([value] if value else []), env={"HEDDLE_JOB": "none"})
        check(done.returncode == 64 and f"{name}: not with --sync allreduce" in done.stderr, (name, done.stderr))
    for name in ("bucket-kib", "check-every", "wait-ms", "step-log"):
        done = run(TRAIN, f"--{name}", "1", env={"HEDDLE_JOB": "none"})
        check(done.returncode == 64 and f"{name}: without --sync allreduce" in done.stderr, done.stderr)
    done = run(TRAIN, "--sync", "allreduce", env={"HEDDLE_JOB": "none", "HEDDLE_SERVER": "127.0.0.1"})
    check(done.returncode == 64 and "needs a controller" in done.stderr, done.stderr)
    done = run(RUN, "-n", "2", "--least", "1", "--observer", "--", "true")
    check(done.returncode == 64 and "--least, --observer" in done.stderr, done.stderr)


def check_no_controller(job):
    done = run(TRAIN, "--sync", "allreduce", "--join-ms", "300", env={
        "HEDDLE_JOB": "none", "HEDDLE_CONTROLLER": "127.0.0.1:9", "HEDDLE_KEY_FILE": job.key})
    check(done.returncode == 69 and "joining: " in done.stderr, (done.returncode, done.stderr))


def check_steps(job):
    log = job.folder / "steps"
    summaries, _ = job.end(job.start("steps", 3, ["--steps", "60", "--momentum", "0.9", "--check-every", "25",
                                                  "--step-log", log, "--scale-rate", "linear:2"]))
    same(summaries, 3)
    check(summaries[0]["version"] == 60 and summaries[0]["scale"] == 1.5, summaries[0])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    check([line["step"] for line in lines] == [*range(1, 61)], "a line for each step")
    check(all(line["members"] == [[0, 1, 2]] * summaries[0]["allreduce"]["buckets"] for line in lines), lines[0])
    check(pathlib.Path(f"{log}.2").read_text().count("\n") == 60, "rank 2's log")


def check_evaluations(job):
    """The first model's, every 20th, and the last one's; each once."""
    for steps, told in ((40, [0, 20, 40]), (50, [0, 20, 40, 50])):
        process = job.start(f"evaluations-{steps}", 1, ["--steps", steps, "--eval-every", "20"])
        out, said = process.communicate(timeout=60)
        check(process.returncode == 0, said)
        lines = [json.loads(line.partition("] ")[2]) for line in out.splitlines()]
        check([line["version"] for line in lines[:-1]] == told, lines)
        check(abs(lines[-2]["accuracy"] - lines[-1]["accuracy"]) < 1e-5, lines)


def check_alone(job):
    """One worker makes the steps of --local, bit for bit: its batch is a power of two, so dividing loses nothing."""
    words = ["--steps", "40", "--momentum", "0.9", "--weight-decay", "1e-3", "--batch", "32", "--seed", "7"]
    summaries, _ = job.end(job.start("alone", 1, words))
    done = run(TRAIN, "--local", "--model", "mlp:32", "--lr", "0.1", "--quiet", "--json", "-", *words)
    check(done.returncode == 0, done.stderr)
    check(summaries[0]["model_crc32"] == json.loads(done.stdout)["model_crc32"], "not the model of --local")


def check_seconds(job):
    """All end with the same step, and have compared their models."""
    summaries, _ = job.end(job.start("seconds", 3, ["--seconds", "4", "--compute-ms", "20"]))
    same(summaries, 3)
    check(1 <= summaries[0]["version"] <= 201, summaries[0]["version"])


def check_diverged(job):
    """All have the same bits, and they are no model: every worker fails."""
    process = job.start("diverged", 3, ["--lr", "10", "--weight-decay", "10", "--steps", "200"],
                        ["--least", "1"])
    _, said = job.end(process, 70)
    for rank in range(3):
        check(f"rank {rank}: exit status 70" in said, said)
    check(said.count("not finite") == 3, said)


def pids_of(parent):
    return [int(pid) for pid in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def check_losses(job):
    """One is killed, one is told to end: it leaves with success, and two are left, which share all rows."""
    log = job.folder / "losses"
    process = job.start("losses", 4, ["--steps", "150", "--compute-ms", "10", "--step-log", log, "--shards", "live"],
                        ["--least", "2"])
    until(lambda: log.exists() and log.read_text().count("\n") > 20, "20 steps")
    pids = pids_of(process.pid)
    os.kill(pids[1], signal.SIGKILL)
    os.kill(pids[2], signal.SIGTERM)
    summaries, said = job.end(process)
    check("rank 1: killed by signal 9" in said, said)
    left = summaries.pop(2)
    check(left["version"] < 150 and not left["allreduce"]["equal"], left)
    same(summaries, 2)
    check(summaries[0]["version"] == 150 and summaries[0]["allreduce"]["workers"] == 2, summaries[0])


def check_least(job):
    """Without --least, or with fewer left, the run ends with the status of the one that failed."""
    for name, more in (("all", []), ("two", ["--least", "2"])):
        log = job.folder / name
        process = job.start(name, 2, ["--compute-ms", "10", "--step-log", log], more)
        until(lambda path=log: path.exists() and path.read_text().count("\n") > 5, "5 steps")
        os.kill(pids_of(process.pid)[1], signal.SIGKILL)
        job.end(process, 137)


def main():
    check_refused()
    with tempfile.TemporaryDirectory(prefix="heddle-train-sync-") as folder:
        write_keys(folder)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", f"{folder}/keys")
        job = Job(folder, controller.address)
        for part in (check_no_controller, check_steps, check_evaluations, check_alone, check_seconds, check_diverged,
                     check_losses, check_least):
            part(job)
        controller.stop()


if __name__ == "__main__":
    main()
