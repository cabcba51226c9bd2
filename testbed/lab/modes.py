# SPDX-License-Identifier: BSD-3-Clause
"""The three modes: which programs run on which host, with which arguments.

    unscheduled   heddle-controller --unscheduled: every worker sends at will, same congestion control
    tcp-ps        the plain TCP parameter server
    scheduled     the controller orders every transfer
"""
import json
import os
import pathlib
import secrets

MODES = ("unscheduled", "tcp-ps", "scheduled")
EVAL_EVERY = 4  # pulls of rank 0 between two evaluations


class Programs:
    """Where the built programs are."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.paths = {p.name: str(p) for p in sorted(self.build.glob("**/heddle*"))
                      if p.is_file() and os.access(p, os.X_OK) and p.suffix == ""}

    def __getitem__(self, name):
        if name not in self.paths:
            raise FileNotFoundError(f"{name} is not built in {self.build}")
        return self.paths[name]


def model_of(job):
    return job["model"] if job["model"] == "softmax" else "mlp:" + ",".join(map(str, job["hidden"]))


class Plan:
    """What one run starts: `infrastructure` first, then a worker a rank."""

    def __init__(self, programs, star, scenario, mode, seed, learning_rate, directory):
        self.programs = programs
        self.star = star
        self.scenario = scenario
        self.mode = mode
        self.seed = seed
        self.learning_rate = learning_rate
        self.directory = pathlib.Path(directory)
        self.keys = self.directory / "keys"
        self.keys.write_text(f"1 {secrets.token_hex(32)}\n")
        self.topology = self.directory / "topology.json"
        self.topology.write_text(json.dumps(star.topology()))

    def events(self, node):
        return self.directory / f"events-{node}.jsonl"

    def infrastructure(self):
        """[(name, host, command)] in the order to start them."""
        if self.mode == "tcp-ps":
            job = self.scenario["job"]
            return [("ps", "ps", [
                self.programs["heddle-tcp-ps"], "--serve", "--address", self.star.ip("ps"), *self.job_words(),
                "--lr", str(self.learning_rate), "--momentum", str(job["momentum"]),
                "--weight-decay", str(job["weight_decay"]),
                "--name", "ps", "--events", str(self.events("ps"))])]
        controller = [
            self.programs["heddle-controller"], "--listen", self.star.ip("ctl"), "--key-file", str(self.keys),
            "--topology", str(self.topology), "--events", str(self.events("ctl"))]
        if self.mode == "unscheduled":
            controller.append("--unscheduled")
        return [("ctl", "ctl", controller), ("ps", "ps", [
            self.programs["heddle-server"], "--listen", self.star.ip("ps"), "--controller", self.star.ip("ctl"),
            "--host", "ps", "--key-file", str(self.keys), "--events", str(self.events("ps"))])]

    def job_words(self):
        job = self.scenario["job"]
        return ["--model", model_of(job), "--batch", str(job["batch"]), "--seed", str(self.seed)]

    def worker(self, rank, schedule, life):
        """(host, command, environment, events file) of a worker's nth life."""
        host = f"h{rank + 1}"
        job = self.scenario["job"]
        events = self.events(f"w{rank}-{life}")
        words = [*self.job_words(), "--compute-ms", str(job["compute_ms"]), "--compute-schedule", str(schedule)]
        if self.mode == "tcp-ps":
            return host, [
                self.programs["heddle-tcp-ps"], "--address", self.star.ip("ps"), *words,
                "--rank", str(rank), "--world", str(self.scenario["workers"]),
                "--eval-every", str(EVAL_EVERY if rank == 0 else 0),
                "--name", f"w{rank}", "--events", str(events)], {}, events
        environment = {
            "HEDDLE_CONTROLLER": self.star.ip("ctl"), "HEDDLE_KEY_FILE": str(self.keys),
            "HEDDLE_JOB": self.scenario["name"], "HEDDLE_TENANT": "demo", "HEDDLE_RANK": str(rank),
            "HEDDLE_WORLD_SIZE": str(self.scenario["workers"]), "HEDDLE_HOST": host,
            "HEDDLE_BIND": self.star.ip(host), "HEDDLE_EVENTS": str(events)}
        return host, [
            self.programs["heddle-train"], *words,
            "--lr", str(self.learning_rate), "--momentum", str(job["momentum"]),
            "--weight-decay", str(job["weight_decay"]), "--tau-max", str(job["tau_max"]),
            "--staleness", job["staleness"]["rule"], "--staleness-c", str(job["staleness"]["c"]),
            "--eval-every", str(EVAL_EVERY if rank == 0 else 0)], environment, events

    def heddlectl(self, table):
        return [*self.star.enter("ctl"), self.programs["heddlectl"], "--controller", self.star.ip("ctl"),
                "--key-file", str(self.keys), "show", table, "--json"]
