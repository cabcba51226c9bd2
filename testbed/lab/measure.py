# SPDX-License-Identifier: BSD-3-Clause
"""The inputs of a run's results: event logs, evaluations, the processor, the estimates."""
import collections
import json
import os
import statistics
import time

EVALUATIONS_MEAN = 3  # accuracy counts as reached when the mean of this many evaluations has it
SUM = 0xffff  # the worker of sums and relayed models
SWITCH = "switch"  # sends sums, and has no log


class Cpu:
    """Shares of all processors since it was made. processes: a function that returns those of the run, as Popen."""

    def __init__(self, processes):
        self.processes = processes
        self.start, self.own_start, self.at = self.read(), self.own_s(), time.monotonic()

    @staticmethod
    def read():
        with open("/proc/stat") as file:
            fields = [int(x) for x in file.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4], fields[5] + fields[6]

    def own_s(self):
        """Processor seconds of the run's processes, and of those that this one has started and that have ended."""
        mine = os.times()
        return sum(processor_s(p.pid) for p in self.processes()) + mine.children_user + mine.children_system

    def shares(self):
        """cpu: the run's own processes and interrupts, in which the kernel forwards packets (those of others, too); at
        most machine: everything."""
        total, idle, interrupts = (now - then for now, then in zip(self.read(), self.start))
        own = (self.own_s() - self.own_start) / (time.monotonic() - self.at) / os.cpu_count()
        machine = 1 - idle / max(1, total)
        return {"cpu": min(own + interrupts / max(1, total), machine), "machine": machine}


def processor_s(pid):
    """Processor seconds of a process, its ended children included; 0: it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def read_jsonl(path, wanted=None):
    """Lines of an event log; skips a last line that was cut by a kill."""
    try:
        with open(path) as file:
            for line in file:
                if not line.endswith("\n"):
                    return
                event = json.loads(line)
                if wanted is None or event["event"] in wanted:
                    yield event
    except FileNotFoundError:
        return


WANTED = {"pushed", "outcome", "committed", "recv-start", "recv-end", "send-start", "estimate", "dropped",
          "granted", "credited", "fallback", "promoted", "replicated"}
COUNTER = 2**48 - 1  # of a version; above it the incarnation


class Log:
    """All nodes' events of one run, times in seconds since the workers started."""

    def __init__(self, paths, t0_ns):
        self.events = []
        for path in paths:
            for event in read_jsonl(path, WANTED):
                event["t"] = (event["at_ns"] - t0_ns) / 1e9
                self.events.append(event)
        self.events.sort(key=lambda e: e["t"])
        self.kept = None

    def of(self, kind):
        return (e for e in self.events if e["event"] == kind)

    def commits(self):
        """The committed events that were not lost: a promoted replica has what it received of its server's commits (and
        some that are missing in the server's log when it was killed); later ones are repeated."""
        if self.kept is None:
            self.kept = history(self.events)
        return self.kept

    def transfers(self):
        """[Transfer] as the receivers logged them. A sum and a relayed model have worker SUM."""
        senders = {e["token"]: e["node"] for e in self.of("send-start") if "token" in e}
        open_at = {}
        done = []
        for event in self.events:
            if event["event"] not in ("recv-start", "recv-end"):
                continue
            worker, node = event.get("worker", 0), event["node"]
            # Only its aggregator knows a sum's round.
            key = (node, worker, event.get("direction", "push"), event.get("token", event.get("round", 0)))
            if event["event"] == "recv-start":
                open_at[key] = event["t"]
            elif key in open_at:
                push = key[2] == "push"
                sender = senders.get(event.get("token"), sender_of(worker, push))
                done.append(Transfer(worker, key[2], host_of(sender), host_of(node), open_at.pop(key), event["t"]))
        return done


Transfer = collections.namedtuple("Transfer", "worker direction source sink start end")


def sender_of(worker, push):
    """The sender of a transfer without a send-start event."""
    if not push:
        return "ps"
    return SWITCH if worker == SUM else f"w{worker}"


def host_of(node):
    """The host of a node in the event logs: workers' hosts are named after their ranks."""
    return f"h{int(node[1:]) + 1}" if node[0] == "w" and node[1:].isdigit() else node


def count_of(event, field="version"):
    return event.get(field, 0) & COUNTER


def history(events):
    """The committed events of a run's log that were not lost, in order."""
    kept, copied = [], {}
    for event in events:
        if event["event"] == "committed":
            kept.append(event)
        elif event["event"] == "replicated":
            copied.setdefault(event["node"], {})[count_of(event)] = event
        elif event["event"] == "promoted" and event["node"] in copied:
            base = count_of(event, "base")
            kept = [e for e in kept if count_of(e) <= base]
            known = {push_of(e) for e in kept}
            kept += [e for count, e in sorted(copied.get(event["node"], {}).items(), key=lambda item: item[0])
                     if count <= base and push_of(e) not in known]
    return kept


def failovers(log, happened):
    """Each kill of the present server: its successor, the time, the bound of the successor's distance, and the number
    of lost commits."""
    found, server = [], "ps"
    promotions = [e for e in log.of("promoted") if e["node"] != "controller"]  # the node that reports its version
    for t, what, name in happened:
        if what != "killed" or name != server:
            continue
        heir = next((e for e in promotions if e["t"] >= t), None)
        entry = {"killed": name, "killed_s": t, "heir": None, "promoted_s": None, "version": None,
                 "rolled_back": None, "divergence": None}
        if heir:
            base, server = count_of(heir, "base"), heir["node"]
            made = [count_of(e) for e in log.of("committed") if e["node"] == name and e["t"] <= heir["t"]]
            entry.update(heir=server, promoted_s=heir["t"], version=base, divergence=heir.get("value", 0.0),
                         rolled_back=max([0, *(count - base for count in made)]))
        found.append(entry)
    return found


def groups(log):
    """The number of applied updates that came in sums, and of sums."""
    grouped = sums = parts = 0
    for event in log.commits():
        parts += 1
        if event.get("more", 0):
            continue
        grouped += parts if parts > 1 else 0
        sums += parts > 1
        parts = 0
    return {"grouped": grouped, "sums": sums}


def staleness(log, bound):
    delays = [e.get("aux", 0) for e in log.commits()]
    if not delays:
        return {"mean": None, "variance": None, "max": None, "bound": bound}, {}
    return {"mean": statistics.fmean(delays), "variance": statistics.pvariance(delays), "max": max(delays),
            "bound": bound}, dict(sorted(collections.Counter(delays).items()))


OUTCOMES = {1: "applied", 2: "dropped", 3: "failed"}


def push_of(event):
    return event.get("worker", 0), event.get("round", 0)


def outcomes(log, killed=()):
    """Every push has one outcome; pushes cut off by a kill or by the end of the run have failed. The last lines of the
    workers `killed` are lost, but updates that the server committed were pushed."""
    known = [push_of(e) for e in log.of("pushed")]
    lost = {push_of(e) for e in log.commits() if e.get("worker", 0) in killed} - set(known)
    pushed = len(known) + len(lost)
    counts = collections.Counter()
    reasons = collections.Counter()
    for event in log.of("outcome"):
        if event.get("direction", "push") != "push":
            continue
        outcome = OUTCOMES.get(event.get("aux"), "failed")
        counts[outcome] += 1
        if outcome != "applied":
            reasons[f"{outcome}: {event.get('reason', 'none')}"] += 1
    applied = len(log.commits())
    cut = pushed - applied - counts["dropped"] - counts["failed"]
    if cut > 0:
        reasons["failed: cut off by the end of its worker"] += cut
    return {"pushed": pushed, "applied": applied, "dropped": counts["dropped"],
            "failed": counts["failed"] + max(0, cut), "reasons": dict(reasons)}


def reached(evaluations, target):
    """The first evaluation at which the mean of the last three reaches the target, or None."""
    for index in range(EVALUATIONS_MEAN - 1, len(evaluations)):
        window = evaluations[index - EVALUATIONS_MEAN + 1:index + 1]
        if statistics.fmean(e["accuracy"] for e in window) >= target:
            return evaluations[index]
    return None


def final_accuracy(evaluations):
    last = [e["accuracy"] for e in evaluations[-EVALUATIONS_MEAN:]]
    return statistics.fmean(last) if last else None
