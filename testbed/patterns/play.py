# SPDX-License-Identifier: BSD-3-Clause
"""One run of a pattern: controller, server, observer and workers, Heddle's programs on the loopback interface.

A worker runs until it has computed its gradients, until its time is over (short-lived: notice, then SIGKILL), for one
step (map-reduce), or for as long as the job's owner pays for it (budget)."""
import json
import signal
import socket
import subprocess
import time

from lab import measure, play
from lab.play import POLL_S, READY_S, PlayError
from market import owner

from . import cost

JOB = "pattern"
OBSERVER = 4000
EVERY_MS = 100  # between two evaluations
SEEN_S = 3.0
LOOK_S = 0.3  # between two questions for the owner's target
SPARE_S = 0.7  # of each worker, to end within a budget
BUDGETED = ["--grace", 1, "--shards", "live"]  # the remaining workers take over the rows of those sent away


def free_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Life:
    """One process of a worker."""

    def __init__(self, process, rank, path, span):
        self.process = process
        self.rank = rank
        self.path = path
        self.span = span  # [begun, ended]
        self.told = self.killed = False

    def tell(self, number):
        self.told = True
        self.process.send_signal(number)

    def summary(self):
        """The summary that it wrote at its end; None: it was killed before."""
        lines = [line for line in self.path.read_text(errors="replace").splitlines() if line.startswith('{"role"')]
        return json.loads(lines[-1]) if lines else None


class Play(play.Play):
    def __init__(self, programs, setting, seed, directory, say):
        super().__init__(directory)
        self.programs = programs
        self.setting = setting
        self.job = setting["job"]
        self.pattern = setting["pattern"]
        self.kind = self.pattern["kind"]
        self.seed = seed
        self.say = say
        self.controller, self.server = free_address(), free_address()
        self.account = cost.Account()
        self.alive, self.ended = [], []
        self.said = 0.0
        self.owner = self.target = None
        self.targets = []

    # --- processes ---------------------------------------------------------------------------

    def words(self):
        """heddle-train's options for the pattern. Processes start and end one after the other: N of N-sync is all."""
        pattern, everybody = self.pattern, f"nsync:{self.setting['workers']}"
        words = ["--lr", self.setting["learning_rate"]]
        if self.kind in ("asynchronous", "short-lived", "budget"):
            return [*words, "--tau-max", pattern["tau_max"]]
        if self.kind == "map-reduce":
            each = self.job["gradients"] // pattern["rounds"]
            return [*words, "--sync", everybody.replace("nsync", "nbatch"), "--local-steps", each]
        words += ["--sync", everybody]
        if self.kind == "admm":
            words += ["--admm", f"{pattern['rho']},{pattern['local_steps']}"]
        if self.kind == "model-averaging":
            words += ["--local-steps", pattern["local_steps"]]
        return words + (["--filter", pattern["filter"]] if pattern.get("filter") is not None else [])

    def member(self, name, rank, words):
        return self.start(name, [
            self.programs["heddle-train"], "--data", self.job["data"], "--model", self.job["model"],
            "--batch", self.job["batch"], "--seed", self.seed, *self.words(), *words], {
            "HEDDLE_CONTROLLER": self.controller, "HEDDLE_KEY_FILE": str(self.directory / "keys"),
            "HEDDLE_JOB": JOB, "HEDDLE_RANK": str(rank), "HEDDLE_BIND": "127.0.0.1",
            "HEDDLE_WORLD_SIZE": str(self.setting["workers"]), "HEDDLE_HOST": f"h{rank}"})

    def live(self, rank, steps, first, more=()):
        """Starts a worker of this rank that computes this many gradients, from its first-th minibatch on."""
        name = f"w{rank}-{len(self.account.lives)}"
        span = self.account.begin(self.now())
        process = self.member(name, rank, [
            "--compute-ms", self.job["compute_ms"], "--first-step", first, "--json", "-", "--quiet",
            *(["--steps", steps] if steps else []), *more])
        self.alive.append(Life(process, rank, self.directory / f"{name}.out", span))
        return self.alive[-1]

    def start_nodes(self):
        keys = self.make_keys()
        self.nodes["ctl"] = self.start("ctl", [
            self.programs["heddle-controller"], "--listen", self.controller, "--state-dir", self.directory, *keys])
        self.nodes["ps"] = self.start("ps", [
            self.programs["heddle-server"], "--listen", self.server, "--host", "ps", "--controller", self.controller,
            "--events", self.directory / "ps.jsonl", *keys])
        self.wait_ready(("ctl", "ps"))

    def end_server(self):
        """Then its log is complete."""
        self.nodes["ps"].terminate()
        try:
            self.nodes["ps"].wait(READY_S)
        except subprocess.TimeoutExpired:
            raise PlayError(f"ps: did not end within {READY_S:.0f} s") from None

    # --- time ---------------------------------------------------------------------------------

    def reap(self):
        """Handles workers that have ended since the last call. One that ended with an error ends the run."""
        gone = [life for life in self.alive if life.process.poll() is not None]
        for life in gone:
            life.span[1] = self.now()
            self.alive.remove(life)
            self.ended.append(life)
            if life.told and life.process.returncode in (-signal.SIGINT, -signal.SIGTERM):
                life.killed = True  # the signal came before it could handle it
            if life.process.returncode != 0 and not life.killed:
                said = life.path.read_text(errors="replace").strip()
                raise PlayError(f"worker {life.rank}: status {life.process.returncode}: {said[-300:]}")
        return gone

    def turn(self):
        """One iteration of the run; returns the processes that have ended."""
        time.sleep(POLL_S)
        self.check_nodes()
        if "observer" in self.nodes:
            self.read_evaluations()
        if self.now() > self.said + 5:
            self.said = self.now()
            loss = self.evaluations[-1]["loss"] if self.evaluations else float("nan")
            self.say(f"{self.setting['name']:20} {self.now():4.0f} s   {len(self.alive)} workers   loss {loss:.4f}")
        if self.now() > self.setting["duration_s"]:
            raise PlayError(f"{self.setting['name']}: did not end within duration_s ({self.setting['duration_s']})")
        return self.reap()

    def watch(self):
        """Starts the observer, once there is a job that it can watch."""
        if "observer" not in self.nodes:
            self.nodes["observer"] = self.member("observer", OBSERVER, ["--evaluate", "--every-ms", EVERY_MS])

    # --- patterns -----------------------------------------------------------------------------

    def all_ended(self):
        self.watch()
        while self.alive:
            self.turn()

    def steady(self):
        for rank in range(self.setting["workers"]):
            self.live(rank, self.job["gradients"], 0)
        self.all_ended()

    def map_reduce(self):
        each = self.job["gradients"] // self.pattern["rounds"]
        for index in range(self.pattern["rounds"]):
            for rank in range(self.setting["workers"]):
                self.live(rank, each, index * each)
            self.all_ended()

    def short_lived(self):
        """One process follows another until the rank's gradients are computed; those of a killed one are computed
        again."""
        made = dict.fromkeys(range(self.setting["workers"]), 0)
        more = ["--memory-mb", self.pattern["memory_mb"], "--grace", self.pattern["grace_s"]]
        for rank in made:
            self.live(rank, self.job["gradients"], 0, more)
        self.watch()
        while self.alive:
            for life in self.alive:
                age = self.now() - life.span[0]
                if age >= self.pattern["lifetime_s"]:
                    life.killed = True
                    life.process.kill()
                elif age >= self.pattern["lifetime_s"] - self.pattern["grace_s"] and not life.told:
                    life.tell(signal.SIGTERM)
            for life in self.turn():
                summary = life.summary()
                made[life.rank] += summary["steps"] if summary else 0
                if made[life.rank] < self.job["gradients"]:
                    self.live(life.rank, self.job["gradients"] - made[life.rank], made[life.rank], more)

    def follow(self, made):
        """Keeps as many workers as the job's owner wants; it sends surplus ones away itself."""
        row = self.owner.look()
        target = row["target"] if row and self.owner.is_set else 0
        if not target:
            return
        if target != self.target:
            self.target = target
            self.targets.append([self.now(), target])
        there = {life.rank for life in self.alive}
        for rank in range(target):
            if rank not in there and len(self.alive) < target:
                self.live(rank, 0, made.get(rank, 0), BUDGETED)

    def budget(self):
        """Ends with the gradients of all, or with the budget, whichever comes first."""
        limit, made, looked = self.pattern["worker_s"], {}, 0.0
        wanted = self.job["gradients"] * self.setting["workers"]
        words = (f"policy=budget n={self.setting['workers']} worker_s={limit} "
                 f"deadline={self.pattern['deadline_s']} interval=1 notice=1")
        self.owner = owner.Owner([self.programs["heddlectl"], "--controller", self.controller,
                                  "--key-file", self.directory / "keys"], JOB, words)
        for rank in range(self.setting["workers"]):
            self.live(rank, 0, 0, BUDGETED)
        self.watch()
        while self.alive:
            left = limit - self.account.worker_s(self.now())
            done = self.evaluations[-1]["version"] if self.evaluations else 0
            ending = done >= wanted or left <= SPARE_S * len(self.alive)
            for life in self.alive:
                if ending and not life.told:
                    life.tell(signal.SIGINT)
                if left <= 3 * POLL_S * len(self.alive):
                    life.killed = True
                    life.process.kill()
            if not ending and self.now() >= looked + LOOK_S:
                looked = self.now()
                self.follow(made)
            for life in self.turn():
                summary = life.summary()
                made[life.rank] = made.get(life.rank, 0) + (summary["steps"] if summary else 0)

    def run(self):
        """Runs the pattern to its end. Returns the record."""
        ways = {"map-reduce": self.map_reduce, "short-lived": self.short_lived, "budget": self.budget}
        try:
            self.start_nodes()
            self.t0 = time.monotonic()
            ways.get(self.kind, self.steady)()
            ended = self.now()
            newest = max((s["version"] for s in self.summaries()), default=0)
            until = self.now() + SEEN_S  # the observer evaluates at intervals
            while self.now() < until and not (self.evaluations and self.evaluations[-1]["version"] >= newest):
                self.turn()
            self.end_server()
            return self.record(ended)
        finally:
            self.kill(life.process for life in self.alive)

    # --- results ------------------------------------------------------------------------------

    def summaries(self):
        return [summary for summary in (life.summary() for life in self.ended) if summary]

    def cost_at(self, t):
        return cost.cost(self.setting["prices"], self.account.worker_s(t), t)

    def record(self, ended):
        if not self.evaluations:
            raise PlayError("the observer saw no model")
        summaries = self.summaries()
        commits = list(measure.read_jsonl(self.directory / "ps.jsonl", {"committed"}))
        moved = sum(s["granted_bytes"] + s["direct_bytes"] - s["push_bytes"] for s in summaries)
        last = self.evaluations[-1]
        spent = self.account.worker_s(ended)
        return {
            "pattern": self.setting["name"], "kind": self.kind, "about": self.setting["about"], "seed": self.seed,
            "time_s": ended, "loss": last["loss"], "accuracy": last["accuracy"],
            "gradients": sum(s["steps"] for s in summaries), "updates": len(commits),
            "dropped": sum(s["dropped"] for s in summaries),
            "pushed_mb": sum(e["bytes"] for e in commits) / 1e6, "pulled_mb": moved / 1e6,
            "lives": len(self.account.lives), "killed": sum(life.killed for life in self.ended),
            "peak_mb": max((s["peak_mb"] for s in summaries), default=0.0),
            "worker_s": spent, "cost": self.cost_at(ended),
            "budget_s": self.pattern.get("worker_s"), "targets": self.targets,
            "within": spent <= self.pattern.get("worker_s", spent),
            "curve": [{**e, "cost": self.cost_at(e["t"])} for e in self.evaluations if e["t"] >= 0],
        }
