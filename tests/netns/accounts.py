# SPDX-License-Identifier: BSD-3-Clause
"""Accounts for the outcome of every update from the outside: from the messages that each worker received and from the
commit logs of each incarnation of the server. Replays the surviving history against the last checkpoint."""
import bisect
import json
import pathlib
import subprocess

COUNTER_BITS = 48
# How much longer a node waits for others after it was stopped once, and twice in a row (common/session/hd_liveness.c),
# and for how long.
LATE_S = 0, 0.8, 4
LATE_FOR_S = 8


def lines(path):
    """Whole lines: the last one of a killed program may be cut."""
    text = path.read_text(errors="replace")
    return [line for line in text.split("\n")[:-1] if line]


def named_version(name):
    """(incarnation, counter) of a checkpoint's file name."""
    _, incarnation, counter = name.removesuffix(".safetensors").split("-")
    return int(incarnation, 16), int(counter, 16)


class Life:
    """The messages that one incarnation of a worker received."""

    def __init__(self, rank, number, path):
        self.rank, self.number = rank, number
        self.pushed, self.outcome, self.final = [], {}, {}
        self.durable = {}  # round -> version
        self.times = []  # of outcomes, in s
        self.end = None
        for line in lines(path):
            self.take(line.split())

    def take(self, words):
        what, at = words[0], int(words[1]) / 1e9
        if what == "push":
            self.pushed.append(int(words[2]))
        elif what == "outcome":
            self.outcome[int(words[2])] = self.final[int(words[2])] = words[3]
            self.times.append(at)
        elif what == "durable":
            self.durable[int(words[2])] = int(words[3])
            self.final[int(words[2])] = "applied"
        elif what == "lost":
            self.final[int(words[2])] = words[3]
        elif what == "end":
            self.end = [int(w) for w in words[2:]]


class Accounts:
    def __init__(self, cluster):
        self.cluster = cluster
        self.problems = []
        self.lives = [Life(rank, life, node.file("told", life))
                      for rank, node in enumerate(cluster.workers)
                      for life in range(1, node.lives + 1) if node.file("told", life).exists()]
        self.commits = {}  # incarnation -> {counter: commit}
        self.parent = {}  # incarnation -> (incarnation, counter) that it was restored from, or None
        for life in range(1, cluster.server.lives + 1):
            self.read_server(life)

    def fail(self, text):
        self.problems.append(text)

    # --- the server's history --------------------------------------------------------------------
    def read_server(self, life):
        path = self.cluster.server.file("events", life)
        found = self.cluster.restored[life]
        for line in lines(path) if path.exists() else []:
            event = json.loads(line)
            if event["event"] != "committed":
                continue
            own = self.commits.setdefault(event["incarnation"], {})
            if event["version"] in own:
                self.fail(f"version {event['incarnation']}.{event['version']} was given out twice")
            own[event["version"]] = event
            self.parent.setdefault(event["incarnation"], named_version(found) if found else None)

    def history(self, incarnation, counter):
        """The commits that lead to a version, in order."""
        path = []
        while True:
            own = self.commits.get(incarnation, {})
            parent = self.parent.get(incarnation)
            if not own and incarnation not in self.parent:
                # A life that committed nothing: it wrote what it had restored.
                parent = self.silent_parent(incarnation)
            first = parent[1] if parent else 0
            missing = [v for v in range(first + 1, counter + 1) if v not in own]
            if missing:
                self.fail(f"the log of incarnation {incarnation} lacks {len(missing)} commits from {missing[0]}")
            path[:0] = [own[v] for v in range(first + 1, counter + 1) if v in own]
            if not parent:
                return path
            incarnation, counter = parent

    def silent_parent(self, incarnation):
        older = [named_version(name) for name in self.cluster.restored.values()
                 if name and named_version(name)[0] < incarnation]
        return max(older) if older else None

    # --- counting --------------------------------------------------------------------------------
    def check(self):
        name = self.cluster.newest_checkpoint()
        if not name:
            return self.fail("there is no checkpoint")
        history = self.history(*named_version(name))
        where = {}
        for event in history:
            key = event.get("worker", 0), event["round"]
            if key in where:
                self.fail(f"update {key} is in the model twice")
            where[key] = event
        tau = max((e.get("aux", 0) for e in history), default=0)
        if tau > 16:
            self.fail(f"a delay of {tau} was committed")
        for life in self.lives:
            self.check_life(life, where)
        self.replay(self.cluster.checkpoints / name, history)
        return {"commits": len(history), "logged": sum(len(c) for c in self.commits.values()),
                "pushed": sum(len(life.pushed) for life in self.lives),
                "durable": sum(len(life.durable) for life in self.lives), "max_delay": tau}

    def check_life(self, life, where):
        who = f"worker {life.rank}, life {life.number}"
        if len(set(life.pushed)) != len(life.pushed):
            self.fail(f"{who}: a round was given out twice")
        for number, version in life.durable.items():
            event = where.get((life.rank, number))
            if not event:
                self.fail(f"{who}: round {number} was acknowledged as durable and is lost")
            elif event["version"] != version & ((1 << COUNTER_BITS) - 1):
                self.fail(f"{who}: round {number} is at {event['version']}, it was told {version:#x}")
        if life.end is None:
            return  # killed: outcomes that it had not received are unknown
        for number in life.pushed:
            state = life.final.get(number)
            if state is None:
                self.fail(f"{who}: round {number} has no outcome")
            elif (state == "applied") != ((life.rank, number) in where):
                self.fail(f"{who}: round {number} ended as {state}, and the model says otherwise")
        count = [len(life.pushed), *(sum(s == state for s in life.final.values())
                                     for state in ("applied", "dropped", "failed"))]
        if life.end[0] != sum(life.end[1:]) or life.end != count:
            self.fail(f"{who}: pushed, applied, dropped, failed: {life.end} by its counters, {count} by its outcomes")

    # --- bit for bit -----------------------------------------------------------------------------
    def replay(self, checkpoint, history):
        import survive
        log = "".join(f"{e.get('worker', 0)} {e['round']} {e.get('value', 0)!r} {e.get('more', 0)}\n" for e in history)
        done = subprocess.run([str(self.cluster.build / "tests/netns/survive_replay"), str(checkpoint),
                               str(survive.VALUES)], input=log, text=True, capture_output=True)
        print("replay:", done.stdout.strip().replace("\n", "; "))
        if done.returncode != 0:
            self.fail(f"the model is not what its commit log says: {done.stdout} {done.stderr}")


def stalls(cluster, accounts, until):
    """(longest time without any outcome, longest of one worker), in s: without the time for which what they need
    (the server; for one worker, also itself) was taken away, and counted from its return. A worker that was stopped
    waits for others longer, for some seconds."""
    def gaps(times, outages, stopped=()):
        times = sorted(times)
        longest = (0.0, 0.0)
        for a, b in zip(times, times[1:]):
            if b - a <= longest[0]:
                continue  # outages only shorten it
            begins = max([a] + [end for begin, end in outages if begin < b and end < b and end > a])
            covered = any(begin <= b <= end for begin, end in outages)
            late = LATE_S[min(sum(0 <= begins - end < LATE_FOR_S for end in stopped), 2)]
            if not covered and b - begins - late > longest[0]:
                longest = (b - begins - late, begins)
        return longest
    server = [(f["began"], f["ended"]) for f in cluster.faults if "ps" in f["nodes"]]
    everybody = gaps([t for life in accounts.lives for t in life.times], server)
    alone = (0.0, 0.0, "")
    for life in accounts.lives:
        node = cluster.workers[life.rank].name
        own = [f for f in cluster.faults if node in f["nodes"]]
        gap = gaps(life.times, server + [(f["began"], f["ended"]) for f in own],
                   [f["ended"] for f in own if f["kind"] == "stop"])
        alone = max(alone, (*gap, node))
    return everybody, alone


def around(cluster, stall):
    """In words: the faults that a stall may come from."""
    length, began = stall[0], stall[1]
    near = [f for f in cluster.faults if f["began"] < began + length and f["ended"] > began - 1]
    return ", ".join(f"{f['kind']} {'+'.join(f['nodes']) if len(f['nodes']) < 4 else 'all'} from "
                     f"{f['began'] - began:+.2f} to {f['ended'] - began:+.2f} s" for f in near) or "no fault"


def false_alarms(cluster, margin_s=1.0):
    """Sessions that ended by silence without a fault then or within the margin before: a node was only slow."""
    count = 0
    for path in sorted(cluster.path.glob("events-*")):
        for line in lines(path):
            if '"node-down"' not in line:
                continue
            event = json.loads(line)
            at = event["at_ns"] / 1e9
            if event.get("reason") in ("timeout", "lease") and not any(
                    f["began"] <= at <= f["ended"] + margin_s for f in cluster.faults):
                count += 1
    return count


ROLES = {"ctl": "controller", "ps": "server"}


def by_kind(cluster, accounts):
    """{(kind, role): (n, medians and maxima of the others' longest pause, of the time until all workers go on)} of the
    faults that no other one overlapped. The server's absence is not counted as the others' pause."""
    found = {}
    every = sorted((t, cluster.workers[life.rank].name) for life in accounts.lives for t in life.times)
    for fault, before, after in zip(cluster.faults, [None, *cluster.faults], [*cluster.faults[1:], None]):
        if not fault["alone"] or (before and not before["alone"]):
            continue
        role = "all" if len(fault["nodes"]) > 1 else ROLES.get(fault["nodes"][0], "worker")
        since = fault["ended"] if role in ("server", "all") else fault["began"]
        window = every[bisect.bisect(every, (since,)):bisect.bisect(every, (fault["back"],))]
        times = [t for t, name in window if role == "all" or name not in fault["nodes"]]
        pause = max((b - a for a, b in zip([since, *times], times)), default=0.0)
        found.setdefault((fault["kind"], role), []).append((pause, fault["back"] - fault["ended"]))
    table = {}
    for key, pairs in sorted(found.items()):
        columns = [sorted(column) for column in zip(*pairs)]
        table[key] = len(pairs), *((column[len(column) // 2], column[-1]) for column in columns)
    return table


def rolled_back(cluster):
    """Commits that controllers reported as lost by restarts of the server."""
    return sum(json.loads(line).get("aux", 0)
               for life in range(1, cluster.controller.lives + 1)
               for line in lines(cluster.controller.file("events", life)) if '"rolled-back"' in line)


def crashed(cluster):
    """Outputs that speak of a bug: a sanitizer, an assertion, a status of our own."""
    bad = []
    for path in sorted(pathlib.Path(cluster.path).glob("out-*")):
        text = path.read_text(errors="replace")
        if any(word in text for word in ("ssertion", "ERROR: AddressSanitizer", "runtime error", "Segmentation")):
            bad.append(f"{path.name}: {text[-400:]}")
    return bad
