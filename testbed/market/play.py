# SPDX-License-Identifier: BSD-3-Clause
"""One run: a market plays its prices against one strategy's bids, while real workers train over the fabric.

Controller, server, observer and workers are Heddle's programs, on the loopback interface of a network namespace, or
with the server behind a link with a given rate. At each slot's begin the strategy decides which ranks have a machine:
new ones are started, others get a notice (SIGTERM, notice_s before their machine is taken away), and are killed then.
With an owner the job's policy in the controller decides how many, and sends workers away itself."""
import json
import signal
import statistics
import time

from lab import measure, play
from lab.play import POLL_S, PlayError

from . import hooks, link, owner, price, strategy

PORT, SERVER_PORT = 5201, 5202
EVERY_MS = 150  # between two evaluations
ASK_S = 0.4  # between two questions for the owner's target
PATIENCE_S = 5.0  # for this time the owner itself sends surplus workers away
HOUR_S = 3600.0
OBSERVER = 4000


class Workers:
    """The hooks for processes of this machine."""

    def __init__(self, start, may_leave=False):
        self.spawn = start  # of (rank, life): a Popen
        self.may_leave = may_leave  # also without a notice from this program
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
            return  # this market takes machines away without notice
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
            if not (self.may_leave or rank in self.told) or process.returncode != 0:
                raise PlayError(f"worker {rank} ended by itself (status {process.returncode})")
            del self.processes[rank]
            self.note("left", rank)
        return set(self.processes)


class Play(play.Play):
    def __init__(self, programs, setting, chosen, seed, directory, say):
        super().__init__(directory)
        self.programs = programs
        self.setting = setting
        self.job = setting["job"]
        self.strategy = strategy.Strategy(chosen, seed)
        self.name = chosen["name"]
        self.seed = seed
        self.say = say
        self.prices = price.slots(setting["price"], seed, setting["slot_s"], setting["duration_s"])
        self.account = strategy.Account(self.strategy, self.prices, setting["slot_s"], setting["hour_s"],
                                        setting["always"])
        owned = chosen["kind"] == "owner"
        self.workers = Workers(self.spawn_worker, owned)
        self.launcher = hooks.Launcher(self.workers, setting["notice_s"], self.strategy.most(), PATIENCE_S)
        self.address = self.server = "127.0.0.1"
        self.link = None
        self.owner = self.own_words(chosen) if owned else None
        self.asked_at = -ASK_S
        self.targets = []  # [s, target, reason], as they change
        self.given = []  # [s, s of the answer or None, price]: the prices that the owner was told

    def own_words(self, chosen):
        """Creates the owner. It takes the market's hours for real ones; prices and bids are as in the scenario."""
        words = chosen["set"]
        if "policy=dynamic" in words.split() and " price=" not in words:
            words += " price=" + owner.price_words(self.setting["price"])
        return owner.Owner([], self.setting["name"], words)

    # --- processes ---------------------------------------------------------------------------

    def member(self, name, rank, words):
        return self.start(name, [
            self.programs["heddle-train"], "--model", self.job["model"], "--batch", self.job["batch"],
            "--seed", self.seed, "--lr", self.job["learning_rate"], "--momentum", self.job["momentum"],
            "--sync", self.job["sync"], "--scale-rate", self.job["scale_rate"], *words], {
            "HEDDLE_CONTROLLER": f"{self.address}:{PORT}", "HEDDLE_KEY_FILE": str(self.directory / "keys"),
            "HEDDLE_JOB": self.setting["name"], "HEDDLE_RANK": str(rank), "HEDDLE_BIND": self.address,
            "HEDDLE_WORLD_SIZE": str(self.strategy.most()), "HEDDLE_HOST": name})

    def spawn_worker(self, rank, life):
        return self.member(f"w{rank}", rank, [
            "--compute-ms", self.job["compute_ms"], "--shards", "live", "--synchronous", "--quiet",
            *(["--grace", self.setting["notice_s"]] if self.setting["notice_s"] else [])])

    def start_nodes(self):
        keys = self.make_keys()
        enter, rate, mbps = [], [], self.job["link_mbps"]
        if mbps is not None:
            self.link = link.Link(mbps)
            self.address, self.server, enter = link.HERE, link.THERE, self.link.enter()
            rate = ["--initial-mbps", mbps]
        controller = f"{self.address}:{PORT}"
        self.nodes["ctl"] = self.start("ctl", [
            self.programs["heddle-controller"], "--listen", controller, "--state-dir", self.directory,
            "--events", self.directory / "ctl.jsonl", *rate, *keys])
        self.nodes["ps"] = self.start("ps", [
            *enter, self.programs["heddle-server"], "--listen", f"{self.server}:{SERVER_PORT}", "--host", "ps",
            "--controller", controller, "--events", self.directory / "ps.jsonl", *keys])
        if self.owner:
            self.owner.command = [self.programs["heddlectl"], "--controller", controller, *keys]
        self.wait_ready(("ctl", "ps"))

    def end(self):
        self.kill(self.workers.processes.values())
        if self.link:
            self.link.close()

    # --- the market ---------------------------------------------------------------------------

    def slot(self):
        return min(int(self.now() / self.setting["slot_s"]), len(self.prices) - 1)

    def read_steps(self):
        """A step has one update of each worker: their commits are one group."""
        path = self.directory / "ps.jsonl"
        if not path.exists():
            return
        for line, self.read_ps in self.lines(path, self.read_ps):
            event = json.loads(line)
            self.steps += event["event"] == "committed" and not event.get("more", 0)

    def step(self):
        self.read_steps()
        return self.steps

    def book(self):
        """Adds the events of machines since the last call to the account: a machine is paid until it is gone."""
        for at, what, rank in self.workers.happened[self.booked:]:
            if what == "start":
                self.account.begin(rank, at - self.t0)
            elif what in ("kill", "left"):
                self.account.end(rank, at - self.t0)
        self.booked = len(self.workers.happened)

    def launch(self, slot):
        """Keeps the machines that the strategy, or the owner's target, wants in this slot."""
        now = self.now()
        if not self.owner:
            self.launcher.keep(self.strategy.ranks(slot, self.prices[slot]), now)
            return
        if now - self.asked_at >= ASK_S:
            self.asked_at = now
            self.ask(slot)
        row = self.owner.row
        target, leaving = (row["target"], row["leaving"]) if row else (self.strategy.setting["n"], 0)
        if self.strategy.setting["available"] is None:
            self.launcher.keep(min(target, self.strategy.most()), now, leaving)
        else:
            self.launcher.keep(self.strategy.ranks(slot, self.prices[slot], target), now)

    def ask(self, slot):
        missed = self.owner.missed
        row = self.owner.look()
        if row and slot != self.priced and self.tell(self.prices[slot]):
            self.priced = slot
            row = self.owner.look()
        if self.owner.missed > missed:
            self.say(f"{self.name:14} {self.now():4.0f} s   heddlectl: no answer "
                     f"({self.owner.misses} of {owner.MISSES_MAX}); it is asked again")
        if row and (not self.targets or self.targets[-1][1] != row["target"]):
            self.targets.append([self.now(), row["target"], row["reason"]])
            self.say(f"{self.name:14} {self.now():4.0f} s   target {row['target']}: {row['reason']}")

    def tell(self, worth):
        """Tells the owner a price. False: there was no answer, and it may count or not."""
        self.given.append([self.now(), None, worth])
        done = self.owner.price(worth)
        if done:
            self.given[-1][1] = self.now()
        return done

    def run(self):
        """Runs the market until the target is reached, or the time is over. Returns the record."""
        self.booked = self.read_ps = self.steps = 0
        self.priced = None
        try:
            self.start_nodes()
            self.t0 = time.monotonic()
            joined = None
            hit, said = None, 5.0
            while self.now() < self.setting["duration_s"] and not hit:
                slot = self.slot()
                self.launch(slot)
                self.book()
                if joined is None and self.workers.lives:  # the job exists once a worker has described it
                    joined = self.nodes["observer"] = self.member("observer", OBSERVER, [
                        "--evaluate", "--every-ms", EVERY_MS])
                if joined:
                    self.read_evaluations()
                    self.read_steps()
                self.check_nodes()
                hit = self.hit()
                if self.now() >= said:
                    said += 5
                    self.progress()
                time.sleep(POLL_S)
            ended = self.now()
            return self.record(hit, ended)
        finally:
            self.end()

    def hit(self):
        """The first evaluation with the wanted accuracy or loss (mean of three), or None."""
        if self.job["target_loss"] is None:
            return measure.reached(self.evaluations, self.job["target_accuracy"])
        losses = [{**entry, "accuracy": -entry["loss"]} for entry in self.evaluations]
        return measure.reached(losses, -self.job["target_loss"])

    def progress(self):
        accuracy = self.evaluations[-1]["accuracy"] if self.evaluations else 0.0
        self.say(f"{self.name:14} {self.now():4.0f} s   {self.steps:5} steps   accuracy {accuracy:.3f}   "
                 f"{len(self.workers.processes)} workers   cost {self.account.cost(self.now()):.3f}")

    # --- results ------------------------------------------------------------------------------

    def recovery(self):
        """Seconds from each notice or kill after which workers were left to the server's next step."""
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

    def leaving(self):
        """Seconds from each notice of the owner to the worker's leaving, if only the owner gives notices."""
        told, found = {}, []
        if not self.owner or self.strategy.setting["available"] is not None:
            return found
        for event in measure.read_jsonl(self.directory / "ctl.jsonl", {"notice", "node-down"}):
            rank = event.get("worker", 0)
            if event["event"] == "notice":
                told[rank] = event["at_ns"]
            elif rank in told:
                found.append((event["at_ns"] - told.pop(rank)) / 1e9)
        return found

    def record(self, hit, ended):
        until = hit["t"] if hit else ended
        happened = [(at - self.t0, what, rank) for at, what, rank in self.workers.happened]
        recovery, leaving = self.recovery(), self.leaving()
        row = self.owner.row if self.owner else None
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
            "targets": self.targets, "spent_s": row["worker_s"] if row else None,
            "money": row["money"] * HOUR_S / self.setting["hour_s"] if row else None,
            "given": self.given, "ended_s": ended,  # what the owner counts does not end when the target is reached
            "sent_away": row["sent_away"] if row else 0,
            "leaving_s": max(leaving) if leaving else None,
            "leaving_mean_s": statistics.fmean(leaving) if leaving else None,
            "unanswered": self.owner.missed if self.owner else 0,
            "expected": self.strategy.setting.get("expected"),
            "prices": self.prices[:int(ended / self.setting["slot_s"]) + 1], "slot_s": self.setting["slot_s"],
            "machines": [{"rank": r, "begun_s": b, "ended_s": e} for r, b, e in self.account.lives],
            "curve": [{"t": e["t"], "version": e["version"], "accuracy": e["accuracy"], "loss": e["loss"],
                       "cost": self.account.cost(e["t"])} for e in self.evaluations if e["t"] >= 0],
            "workers": [[t, self.account.workers_at(t)] for t in times],
        }
