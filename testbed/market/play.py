# SPDX-License-Identifier: BSD-3-Clause
"""One run: a market plays its prices against one strategy's bids, while real workers train over the fabric.

Controller, server, observer and workers are Heddle's programs, on the loopback interface of a network namespace. At
each slot's begin the strategy says which ranks have a machine: one that comes is started, one that goes is told
(SIGTERM, notice_s before its machine is gone), and killed then."""
import json
import os
import pathlib
import secrets
import signal
import statistics
import subprocess
import time

from lab import measure

from . import hooks, price, strategy

CONTROLLER, SERVER = "127.0.0.1:5201", "127.0.0.1:5202"
EVERY_MS = 150  # between two evaluations
READY_S = 20.0
POLL_S = 0.02
OBSERVER = 4000


class PlayError(Exception):
    pass


class Workers:
    """The hooks for processes of this machine."""

    def __init__(self, start):
        self.spawn = start  # of (rank, life): a Popen
        self.processes = {}
        self.lives = {}
        self.told = set()
        self.happened = []  # (monotonic s, what, rank)

    def note(self, what, rank):
        self.happened.append((time.monotonic(), what, rank))

    def start(self, rank):
        life = self.lives[rank] = self.lives.get(rank, 0) + 1
        self.processes[rank] = self.spawn(rank, life)
        self.told.discard(rank)
        self.note("start", rank)

    def notice(self, rank, seconds):
        if not seconds:
            return  # this market takes machines away without a word
        self.processes[rank].send_signal(signal.SIGTERM)
        self.told.add(rank)
        self.note("notice", rank)

    def stop(self, rank):
        process = self.processes.pop(rank)
        process.kill()
        process.wait()
        self.note("kill", rank)

    def running(self):
        for rank, process in list(self.processes.items()):
            if process.poll() is None:
                continue
            if rank not in self.told or process.returncode != 0:
                raise PlayError(f"worker {rank} ended by itself (status {process.returncode})")
            del self.processes[rank]
            self.note("left", rank)
        return set(self.processes)


class Play:
    def __init__(self, programs, setting, chosen, seed, directory, say):
        self.programs = programs
        self.setting = setting
        self.job = setting["job"]
        self.strategy = strategy.Strategy(chosen, seed)
        self.name = chosen["name"]
        self.seed = seed
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.say = say
        self.prices = price.slots(setting["price"], seed, setting["slot_s"], setting["duration_s"])
        self.account = strategy.Account(self.strategy, self.prices, setting["slot_s"], setting["hour_s"],
                                        setting["always"])
        self.workers = Workers(self.spawn_worker)
        self.launcher = hooks.Launcher(self.workers, setting["notice_s"], self.strategy.most())
        self.nodes = {}
        self.evaluations = []
        self.t0 = 0.0

    # --- processes ---------------------------------------------------------------------------

    def start(self, name, command, environment=None):
        with open(self.directory / f"{name}.out", "ab") as out:
            return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, cwd=self.directory,
                                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})})

    def member(self, name, rank, words):
        return self.start(name, [
            self.programs["heddle-train"], "--model", self.job["model"], "--batch", self.job["batch"],
            "--seed", self.seed, "--lr", self.job["learning_rate"], "--momentum", self.job["momentum"],
            "--sync", self.job["sync"], *words], {
            "HEDDLE_CONTROLLER": CONTROLLER, "HEDDLE_KEY_FILE": str(self.directory / "keys"),
            "HEDDLE_JOB": self.setting["name"], "HEDDLE_RANK": str(rank), "HEDDLE_BIND": "127.0.0.1",
            "HEDDLE_WORLD_SIZE": str(self.strategy.most()), "HEDDLE_HOST": name})

    def spawn_worker(self, rank, life):
        return self.member(f"w{rank}", rank, [
            "--compute-ms", self.job["compute_ms"], "--shards", "live", "--synchronous", "--quiet",
            *(["--grace", self.setting["notice_s"]] if self.setting["notice_s"] else [])])

    def start_nodes(self):
        (self.directory / "keys").write_text(f"1 {secrets.token_hex(32)}\n")
        keys = ["--key-file", self.directory / "keys"]
        self.nodes["ctl"] = self.start("ctl", [
            self.programs["heddle-controller"], "--listen", CONTROLLER, "--state-dir", self.directory,
            "--events", self.directory / "ctl.jsonl", *keys])
        self.nodes["ps"] = self.start("ps", [
            self.programs["heddle-server"], "--listen", SERVER, "--host", "ps", "--controller", CONTROLLER,
            "--events", self.directory / "ps.jsonl", *keys])
        for name in ("ctl", "ps"):
            self.until(lambda name=name: any(
                word in (self.directory / f"{name}.out").read_text() for word in ("ready", "listening")), name)

    def until(self, holds, what):
        ends = time.monotonic() + READY_S
        while not holds():
            self.check_nodes()
            if time.monotonic() > ends:
                raise PlayError(f"{what}: not ready within {READY_S:.0f} s")
            time.sleep(POLL_S)

    def check_nodes(self):
        for name, process in self.nodes.items():
            if process.poll() is not None:
                said = (self.directory / f"{name}.out").read_text(errors="replace").strip()
                raise PlayError(f"{name} ended by itself (status {process.returncode}): {said[-300:]}")

    def end(self):
        everybody = [*self.workers.processes.values(), *self.nodes.values()]
        for process in everybody:
            process.kill()
        for process in everybody:
            process.wait()

    # --- the market ---------------------------------------------------------------------------

    def now(self):
        return time.monotonic() - self.t0

    def slot(self):
        return min(int(self.now() / self.setting["slot_s"]), len(self.prices) - 1)

    def read_steps(self):
        """A step is made of one update of each worker: their commits are one group."""
        path = self.directory / "ps.jsonl"
        if not path.exists():
            return
        with open(path, encoding="utf-8") as file:
            file.seek(self.read_ps)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                self.read_ps += len(line.encode())
                event = json.loads(line)
                self.steps += event["event"] == "committed" and not event.get("more", 0)

    def step(self):
        self.read_steps()
        return self.steps

    def book(self):
        """What happened to machines since the last call, into the account: a machine is paid until it is gone."""
        for at, what, rank in self.workers.happened[self.booked:]:
            if what == "start":
                self.account.begin(rank, at - self.t0)
            elif what in ("kill", "left"):
                self.account.end(rank, at - self.t0)
        self.booked = len(self.workers.happened)

    def read_evaluations(self):
        with open(self.directory / "observer.out", encoding="utf-8", errors="replace") as file:
            file.seek(self.read)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                self.read += len(line.encode())
                if not line.startswith("{") or '"accuracy"' not in line:
                    continue
                entry = json.loads(line)
                self.evaluations.append({
                    "t": entry["at_ns"] / 1e9 - self.t0, "version": entry["version"] & measure.COUNTER,
                    "accuracy": entry["accuracy"], "loss": entry["loss"]})

    def run(self):
        """The market until the target, or the time is over. Returns the record."""
        self.booked = self.read = self.read_ps = self.steps = 0
        try:
            self.start_nodes()
            self.t0 = time.monotonic()
            joined = None
            hit, said = None, 5.0
            while self.now() < self.setting["duration_s"] and not hit:
                slot = self.slot()
                ranks = self.strategy.ranks(slot, self.prices[slot], self.step())
                self.launcher.keep(ranks, self.now())
                self.book()
                if joined is None and self.workers.lives:  # a job is there once a worker has described it
                    joined = self.nodes["observer"] = self.member("observer", OBSERVER, [
                        "--evaluate", "--every-ms", EVERY_MS])
                if joined:
                    self.read_evaluations()
                    self.read_steps()
                self.check_nodes()
                hit = measure.reached(self.evaluations, self.job["target_accuracy"])
                if self.now() >= said:
                    said += 5
                    self.progress()
                time.sleep(POLL_S)
            ended = self.now()
            return self.record(hit, ended)
        finally:
            self.end()

    def progress(self):
        accuracy = self.evaluations[-1]["accuracy"] if self.evaluations else 0.0
        self.say(f"{self.name:14} {self.now():4.0f} s   {self.steps:5} steps   accuracy {accuracy:.3f}   "
                 f"{len(self.workers.processes)} workers   cost {self.account.cost(self.now()):.3f}")

    # --- what came out -------------------------------------------------------------------------

    def recovery(self):
        """Seconds from each notice or kill that left somebody working to the next step that the server made."""
        commits = sorted(e["at_ns"] / 1e9 for e in measure.read_jsonl(self.directory / "ps.jsonl", {"committed"}))
        found, at, kept = [], 0, []
        for when, what, rank in self.workers.happened:
            kept = [life for life in self.account.lives if life[1] + self.t0 < when
                    and (life[2] is None or life[2] + self.t0 > when) and life[0] != rank]
            if what not in ("notice", "kill") or not kept:
                continue
            while at < len(commits) and commits[at] <= when:
                at += 1
            if at < len(commits):
                found.append(commits[at] - when)
        return found

    def record(self, hit, ended):
        until = hit["t"] if hit else ended
        happened = [(at - self.t0, what, rank) for at, what, rank in self.workers.happened]
        recovery = self.recovery()
        times = [i * 0.1 for i in range(int(ended / 0.1) + 1)]
        return {
            "strategy": self.name, "kind": self.strategy.kind, "seed": self.seed, "reached": bool(hit),
            "time_s": until, "cost": self.account.cost(until), "worker_s": self.account.worker_s(until),
            "accuracy": measure.final_accuracy([e for e in self.evaluations if e["t"] <= until]),
            "steps": self.step(), "updates": self.evaluations[-1]["version"] if self.evaluations else 0,
            "mean_workers": self.account.worker_s(until) / until,
            "started": sum(what == "start" for _, what, _ in happened),
            "noticed": sum(what == "notice" for _, what, _ in happened),
            "left": sum(what == "left" for _, what, _ in happened),
            "killed": sum(what == "kill" for _, what, _ in happened),
            "next_step_s": max(recovery) if recovery else None,
            "next_step_mean_s": statistics.fmean(recovery) if recovery else None,
            "prices": self.prices[:int(ended / self.setting["slot_s"]) + 1], "slot_s": self.setting["slot_s"],
            "machines": [{"rank": r, "begun_s": b, "ended_s": e} for r, b, e in self.account.lives],
            "curve": [{"t": e["t"], "version": e["version"], "accuracy": e["accuracy"], "loss": e["loss"],
                       "cost": self.account.cost(e["t"])} for e in self.evaluations if e["t"] >= 0],
            "workers": [[t, self.account.workers_at(t)] for t in times],
        }
