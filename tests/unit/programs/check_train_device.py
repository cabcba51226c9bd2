#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-train --device cuda, with a device that the host simulates: --local, --sync allreduce and pushes to a server
have the loss curve of the processor within rounding, and the same bits in each run. Without a GPU, and with options
that exclude one, it says so. With --gpu the same on a GPU, whose bits are those of the simulated device.

usage: check_train_device.py CONTROLLER SERVER RUN TRAIN TRAIN_ON_FAKE [--gpu]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from processes import Program, check, run, write_keys

CONTROLLER, SERVER, RUN, TRAIN, FAKE = (pathlib.Path(word).resolve() for word in sys.argv[1:6])
GPU = "--gpu" in sys.argv
SKIP = 77
UNAVAILABLE = 69
CURVE = 1e-5  # relative, of a step's loss: sums in another order, and what follows in 60 steps; 2e-6 were seen
STEPS = 60
MODELS = (("softmax", 16), ("mlp:48,33", 32), ("mlp:40", 100))
CUDA = ("--device", "cuda")
ALLREDUCE = ["--sync", "allreduce", "--steps", STEPS, "--bucket-kib", "4", "--check-every", "25", "--eval-every", "50"]
EXCLUDED = (
    (["--filter", "0.7"], "filter"), (["--federated", "mu=0.1"], "federated"), (["--payload", "sparse"], "payload"),
    (["--admm", "0.1", "--sync", "full"], "admm"), (["--memory-mb", "64"], "memory-mb"),
    (["--local", "--steps", "1", "--payload", "bf16"], "payload"),
    (["--local", "--steps", "1", "--data", "generated:logistic", "--model", "logistic"], "model"))


def losses(path):
    """The loss of each step."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return [(int(row[0]), float(row[1])) for row in rows]


def close(one, other, what):
    check(one and [step for step, _ in one] == [step for step, _ in other], f"{what}: other steps")
    for (step, a), (_, b) in zip(one, other):
        check(abs(a - b) <= CURVE * max(abs(b), 1e-3), f"{what}: step {step}: loss {a}, not {b}")


class Bench:
    """Runs a trainer in one process; FAKE, TRAIN on the processor, or TRAIN on a GPU."""

    def __init__(self, folder):
        self.folder, self.count = pathlib.Path(folder), 0

    def local(self, program, *words):
        self.count += 1
        log = self.folder / f"local-{self.count}"
        done = run(program, "--local", "--lr", "0.1", "--momentum", "0.9", "--weight-decay", "1e-3", "--steps", STEPS,
                   "--quiet", "--json", "-", "--loss-log", log, *words, timeout=60)
        check(done.returncode == 0, (done.returncode, done.stderr))
        return json.loads(done.stdout), losses(log)


def check_local(bench):
    for model, batch in MODELS:
        words = ("--model", model, "--batch", batch)
        host, host_losses = bench.local(TRAIN, *words)
        first, first_losses = bench.local(FAKE, *CUDA, *words)
        second, second_losses = bench.local(FAKE, *CUDA, *words)
        check(host["device"] == "cpu" and first["device"] == "fake device", (host, first))
        check(host_losses[-1][1] < 0.7 * host_losses[0][1], "it learns")
        close(first_losses, host_losses, model)
        check((first["model_crc32"], first_losses) == (second["model_crc32"], second_losses), f"{model}: two runs")
        check(abs(first["accuracy"] - host["accuracy"]) < 0.01, (first, host))
        if GPU:
            real, real_losses = bench.local(TRAIN, *CUDA, *words)
            check(real["device"] not in ("cpu", "fake device"), real)
            check((real["model_crc32"], real_losses) == (first["model_crc32"], first_losses), f"{model}: other bits")


class Job:
    def __init__(self, folder, controller):
        self.folder, self.key = pathlib.Path(folder), write_keys(folder)
        self.controller = controller
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("HEDDLE_")}

    def run(self, name, count, train, words, status=0):
        """({rank: summary}, losses of rank 0, what was said) of a job of `count` workers."""
        log = self.folder / name
        done = subprocess.run(
            [str(word) for word in (
                RUN, "-n", count, "--controller", self.controller, "--key-file", self.key, "--job", name,
                "--host-prefix", "h", "--bind", "127.0.0.1", "--", *train, "--model", "mlp:48", "--lr", "0.1",
                "--momentum", "0.9", "--quiet", "--json", "-", "--loss-log", log, *words)],
            env=self.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=120, check=False)
        check(done.returncode == status, (name, done.returncode, done.stderr))
        lines = [line.partition("] ") for line in done.stdout.splitlines()]
        found = {int(head[1:]): json.loads(rest) for head, _, rest in lines if rest.startswith("{\"role\"")}
        return found, losses(log) if log.exists() else [], done.stderr


def crc_of(summaries):
    found = {summary["model_crc32"] for summary in summaries.values()}
    check(len(found) == 1, f"the models differ: {found}")
    return found.pop()


def far():
    """The program that computes on a device."""
    return [TRAIN if GPU else FAKE, *CUDA]


def check_allreduce(job):
    host, host_losses, _ = job.run("host", 3, [TRAIN], ALLREDUCE)
    results = []
    for name in ("first", "second"):
        summaries, curve, _ = job.run(f"far-{name}", 3, far(), ALLREDUCE)
        check(len(summaries) == 3 and all(s["allreduce"]["equal"] and s["version"] == STEPS
                                          for s in summaries.values()), summaries)
        check(summaries[0]["device"] != "cpu" and summaries[0]["allreduce"]["buckets"] > 2, summaries[0])
        close(curve, host_losses, "allreduce")
        check(abs(summaries[0]["accuracy"] - host[0]["accuracy"]) < 0.01, (summaries[0], host[0]))
        results.append((crc_of(summaries), curve))
    check(results[0] == results[1], "allreduce: two runs have other bits")
    check_mixed(job, host_losses)


def check_mixed(job, host_losses):
    """One worker on the device, two on the processor: one model."""
    choose = "far=$1; shift; [ $HEDDLE_RANK = 1 ] && exec \"$far\" --device cuda \"$@\"; exec \"$0\" \"$@\""
    summaries, curve, _ = job.run("mixed", 3, ["bash", "-c", choose, TRAIN, far()[0]], ALLREDUCE)
    check([summaries[rank]["device"] == "cpu" for rank in range(3)] == [True, False, True], summaries)
    check(crc_of(summaries), summaries)
    close(curve, host_losses, "a worker on a device")


def check_joins(job):
    """A worker that comes later gets the model from the others' device, and continues it on its own."""
    log = job.folder / "late-steps"
    wait = "[ $HEDDLE_RANK = 0 ] || until [ -s \"$0\" ]; do sleep 0.05; done; HEDDLE_WORLD_SIZE=1 exec \"$@\""
    words = ["--sync", "allreduce", "--steps", "150", "--compute-ms", "10", "--step-log", log]
    summaries, _, _ = job.run("late", 2, ["bash", "-c", wait, log, *far()], words)
    check(len(summaries) == 2 and summaries[1]["allreduce"]["received"] >= 1, summaries)
    check(summaries[1]["allreduce"]["joined_step"] > 0 and crc_of(summaries), summaries)


def check_pushes(job):
    """One synchronous worker of a server, then several; gradients and models in device memory."""
    for name, more in (("plain", []), ("half", ["--payload", "bf16", "--pull-payload", "fp16"]),
                       ("local", ["--sync", "full", "--local-steps", "3"])):
        words = ["--steps", STEPS, "--synchronous", *more]
        _, host_losses, _ = job.run(f"push-host-{name}", 1, [TRAIN], words)
        results = []
        for turn in ("first", "second"):
            summaries, curve, _ = job.run(f"push-{name}-{turn}", 1, far(), words)
            check(summaries[0]["device"] != "cpu" and summaries[0]["failed"] == 0, summaries[0])
            check(summaries[0]["applied"] == summaries[0]["pushed"] > 0, summaries[0])
            if name != "half":  # a value between two of 16 bits may go to either
                close(curve, host_losses, f"push {name}")
            results.append((crc_of(summaries), curve))
        check(results[0] == results[1], f"push {name}: two runs have other bits")
        check(results[0][1][-1][1] < results[0][1][0][1], "it learns")
    summaries, _, _ = job.run("push-three", 3, far(), ["--steps", STEPS, "--tau-max", "16"])
    check(len(summaries) == 3 and all(s["pushed"] == s["applied"] + s["dropped"] + s["failed"] and s["failed"] == 0
                                      for s in summaries.values()), summaries)


def check_alone(job):
    """One worker over the fabric computes the model of --local on the same device."""
    words = ["--sync", "allreduce", "--steps", STEPS, "--batch", "32"]
    summaries, _, _ = job.run("alone", 1, far(), words)
    done = run(*far(), "--local", "--model", "mlp:48", "--lr", "0.1", "--momentum", "0.9", "--quiet", "--json", "-",
               "--steps", STEPS, "--batch", "32", timeout=60)
    check(done.returncode == 0, done.stderr)
    check(crc_of(summaries) == json.loads(done.stdout)["model_crc32"], "not the model of --local")


def check_failures(folder):
    """A device that fails ends the program with words."""
    for at in ("1", "40", "700"):
        done = run(FAKE, *CUDA, "--local", "--steps", STEPS, "--model", "mlp:48",
                   env={**os.environ, "FAKE_FAILS_AT": at}, cwd=folder)
        check(done.returncode == 74 and "device: fake device: fell off the bus" in done.stderr,
              (at, done.returncode, done.stderr))


def check_words():
    """Options that exclude a GPU; --device auto, which then uses the processor; no GPU."""
    for words, name in EXCLUDED:
        env = {**os.environ, "HEDDLE_JOB": "none"}
        done = run(FAKE, *CUDA, *words, env=env)
        check(done.returncode == 64 and f"{name}: " in done.stderr and "not with --device cuda" in done.stderr,
              (words, done.returncode, done.stderr))
    for text in ("gpu", "cuda:", "cuda:64", "cuda0", ""):
        done = run(FAKE, "--device", text, "--local", "--steps", "1")
        check(done.returncode == 64 and "(cpu, cuda, cuda:N or auto" in done.stderr, (text, done.stderr))
    for words, device in (((), "fake device"), (("--payload", "bf16"), "cpu")):
        done = run(FAKE, "--device", "auto", "--local", "--steps", "1", "--json", "-", *words)
        check(done.returncode == 0 and json.loads(done.stdout)["device"] == device, (done.stdout, done.stderr))
        check(("computes on the processor: payload" in done.stderr) == (device == "cpu"), done.stderr)
    done = run(TRAIN, *CUDA, "--local", "--steps", "1")
    if done.returncode == 0:
        return  # there is a GPU
    check(done.returncode == UNAVAILABLE and "device: " in done.stderr and "CUDA" in done.stderr,
          (done.returncode, done.stderr))
    done = run(TRAIN, "--device", "auto", "--local", "--steps", "1", "--json", "-")
    check(done.returncode == 0 and json.loads(done.stdout)["device"] == "cpu", done.stderr)
    check("computes on the processor: " in done.stderr and "CUDA" in done.stderr, done.stderr)


def main():
    if GPU:
        done = run(TRAIN, *CUDA, "--local", "--steps", "1", timeout=60)
        if done.returncode == UNAVAILABLE:
            print("SKIP:", done.stderr.strip())
            sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix="heddle-train-device-") as folder:
        check_words()
        check_failures(folder)
        check_local(Bench(folder))
        key = write_keys(folder)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", key)
        server = Program(SERVER, "--listen", "127.0.0.1:0", "--host", "ps", "--key-file", key,
                         "--controller", controller.address)
        job = Job(folder, controller.address)
        for part in (check_allreduce, check_alone, check_joins, check_pushes):
            part(job)
        server.stop()
        controller.stop()


if __name__ == "__main__":
    main()
