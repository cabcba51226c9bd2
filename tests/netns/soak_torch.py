#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch under faults: a job trains for long while workers, the controller and the aggregator are killed, stopped and
cut off, one after another.

    tests/netns/soak_torch.py BUILD [--minutes N] [--workers N] [--every S] [--seed N] [--undisturbed MINUTES]
                              [--step-ms N] [--roles worker,controller,aggregator] [--kinds kill,stop,cut]
                              [--faults N] [--untold] [--json FILE] [--plot FILE] [--keep DIR]

Namespaces around a bridge: a controller, an aggregator, and hosts with a worker each (torch_elastic.py: an MLP on the
digits, Job.allreduce(), share_state() for those that join). Every S seconds one fault, each kind at each role in turn,
in an order of the seed: kill (SIGKILL, and started again at once), stop (SIGSTOP, SIGCONT after 1.5 to 4 s), cut (the
bridge drops the host's packets for as long). As a launcher sees that its process has died, a worker's death is told:
`heddlectl evict worker`; with --untold only its silence tells it. With --faults there is this number of them, each as
soon as all workers are back, whatever the minutes.

    stall     of a fault: the longest time between two steps of a worker that is not the faulty one, from the fault to
              the next one, less the median step
    share     samples whose gradients are in the model, of those of an undisturbed run of the same length (or of
              --undisturbed minutes, at the same rate)
    exact     integers beside the gradients: each sum is that of the members that the library names, and all workers
              that go on have the same bits; in the end all models have

Exit status 1: a sum or a model is wrong, or a worker ended or did not come back. The goals for stall and share are
printed and fail nothing, as they depend on the machine. Needs root, iproute2, python3-torch, python3-sklearn.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import fabric
import pen
import survive

HERE = pathlib.Path(__file__).resolve().parent
ROLES, KINDS = ("worker", "controller", "aggregator"), ("kill", "stop", "cut")
NET, JOB = "10.81.0", "soak"
AWAY_S, PAUSE_S = (1.5, 4.0), 1.0
STALL_S, SHARE = 0.5, 0.975  # wanted
BATCH = 32  # of torch_elastic.py
READY_S, BACK_S, END_S = 120, 90, 60  # against hangs


class Lab:
    """The hosts and their programs; what survive.Node needs of its cluster."""

    def __init__(self, o, path):
        self.o, self.path = o, path
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HEDDLE_")}
        self.env.update(HEDDLE_LIBRARY=str(o.build / "worker-lib/libheddle.so"), OMP_NUM_THREADS="1",
                        PYTHONPATH=str(pen.ROOT / "worker-lib/python"), PYTHONDONTWRITEBYTECODE="1")
        self.key = fabric.new_key(path)
        self.state = path / "state"
        self.state.mkdir()
        self.ip("link", "add", "name", "br0", "type", "bridge")
        self.ip("link", "set", "br0", "up")
        self.controller = survive.Node(self, "ctl", f"{NET}.2")
        self.aggregator = survive.Node(self, "agg", f"{NET}.3")
        self.workers = [survive.Node(self, f"h{rank + 1}", f"{NET}.{10 + rank}") for rank in range(o.workers)]

    @staticmethod
    def ip(*command):
        subprocess.run(["ip", *map(str, command)], check=True, stdin=subprocess.DEVNULL)

    def nodes(self):
        return [self.controller, self.aggregator, *self.workers]

    def of_role(self, role):
        return self.workers if role == "worker" else [getattr(self, role)]

    def before_start(self, node):
        pass

    def events(self, node):
        return ["--events", node.file("events")] if self.o.keep else []

    def command(self, node):
        if node is self.controller:
            return [self.o.build / "controller/heddle-controller", "--listen", node.address, "--key-file", self.key,
                    "--state-dir", self.state, *self.events(node)]
        if node is self.aggregator:
            return [self.o.build / "aggregator/heddle-aggregator", "--listen", node.address, "--host", node.name,
                    "--controller", self.controller.address, "--key-file", self.key, *self.events(node)]
        return [self.o.python, HERE / "torch_elastic.py", node.file("steps"), self.o.step_ms,
                self.o.build / "tests/bench/librival_trainer.so"]

    def environment(self, node):
        if node not in self.workers:
            return {}
        env = fabric.member(self.controller.address, self.key, JOB, self.workers.index(node), len(self.workers),
                            node.address)
        if self.o.keep:
            env["HEDDLE_EVENTS"] = str(node.file("events"))
        return env

    def shell(self):
        return fabric.Shell(self.o.build / "controller/heddlectl", self.controller.address, self.key,
                            self.controller.host)

    def start(self, node):
        node.start()
        if node is self.controller:
            node.wait_ready("listening")
        elif node is self.aggregator:
            node.wait_ready("ready")

    def start_all(self):
        for node in self.nodes():
            self.start(node)
        self.stepped(self.workers, READY_S)

    def stepped(self, workers, patience_s=BACK_S):
        """Waits until each of them has made a step from now on."""
        def made(worker):
            return worker.file("steps").stat().st_size if worker.file("steps").exists() else 0

        before = {worker: (worker.lives, made(worker)) for worker in workers}

        def all_have():
            gone = [node for node in self.nodes() if not node.alive()]
            if gone:
                raise AssertionError("; ".join(f"{node.name} has ended: {node.output()[-600:]}" for node in gone))
            return all(made(worker) > (size if worker.lives == life else 0)
                       for worker, (life, size) in before.items())
        try:
            pen.until(all_have, "a step of each worker", patience_s)
        except TimeoutError as error:
            stuck = [f"{worker.name}: {worker.output()[-300:]}" for worker, (_, size) in before.items()
                     if made(worker) <= size]
            raise AssertionError(f"{error}: {'; '.join(stuck)}") from None

    def end(self):
        """The last line of each worker. All end after the same step."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGTERM)
        status = [worker.process.wait(timeout=END_S) for worker in self.workers]
        assert not any(status), [worker.output()[-400:] for worker, code in zip(self.workers, status) if code]
        for node in (self.aggregator, self.controller):
            assert node.end() == 0, node.output()[-400:]
        ends = [[row for row in worker.output().splitlines() if row.startswith('{"end"')] for worker in self.workers]
        return [json.loads(rows[0]) for rows in ends]

    def close(self):
        for node in self.nodes():
            node.kill()
            self.ip("link", "del", f"br-{node.name}")
            node.host.holder.kill()
            node.host.holder.wait()
        self.ip("link", "del", "br0")


# --- faults ----------------------------------------------------------------------------------------------------------

def begin(lab, kind, node):
    if kind == "kill":
        node.kill()
        if node in lab.workers and not lab.o.untold:
            lab.shell().ask("evict", "worker", JOB, lab.workers.index(node))
        lab.start(node)
    elif kind == "stop":
        node.process.send_signal(signal.SIGSTOP)
    else:
        node.link(False)


def finish(kind, node):
    if kind == "stop":
        node.process.send_signal(signal.SIGCONT)
    elif kind == "cut":
        node.link(True)


def play_one(lab, dice, role, kind):
    node = dice.choice(lab.of_role(role))
    away = 0 if kind == "kill" else dice.uniform(*AWAY_S)
    fault = {"role": role, "kind": kind, "node": node.name, "away": away, "began": time.monotonic()}
    begin(lab, kind, node)
    time.sleep(away)
    finish(kind, node)
    fault["ended"] = time.monotonic()
    lab.stepped(lab.workers)
    fault["back"] = time.monotonic()
    return fault


def torment(lab, until):
    """A fault every so often, each kind at each role in turn; the last ones have their time to end."""
    dice, faults, deck, every = random.Random(lab.o.seed), [], [], PAUSE_S if lab.o.faults else lab.o.every
    due = time.monotonic() + every
    while len(faults) < lab.o.faults if lab.o.faults else due + AWAY_S[1] < until:
        time.sleep(max(0.0, due - time.monotonic()))
        if not deck:
            deck = [(role, kind) for role in lab.o.roles for kind in lab.o.kinds]
            dice.shuffle(deck)
        fault = play_one(lab, dice, *deck.pop())
        faults.append(fault)
        print(f"{len(faults):4} {fault['kind']:5} {fault['node']:4} {fault['away']:4.2f} s, all are back "
              f"{fault['back'] - fault['ended']:5.2f} s after it", flush=True)
        due = time.monotonic() + PAUSE_S if lab.o.faults else max(due + every, time.monotonic())
    if not lab.o.faults:
        time.sleep(max(0.0, until - time.monotonic()))
    return faults


# --- what the workers have noted -------------------------------------------------------------------------------------

class Notes:
    """The lines of all lives of all workers."""

    def __init__(self, lab):
        self.lives = {}  # (worker, life): its lines
        for worker in lab.workers:
            for life in range(1, worker.lives + 1):
                self.lives[worker.name, life] = self.lines(worker, life)
        self.at = {worker.name: sorted(line["at"] for (name, _), lines in self.lives.items() if name == worker.name
                                       for line in lines) for worker in lab.workers}
        self.late = {(line["late"], worker.name, life) for worker in lab.workers for life in range(1, worker.lives + 1)
                     for line in self.said(worker, life) if "late" in line}

    @staticmethod
    def lines(worker, life):
        file = worker.file("steps", life)
        rows = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        return [json.loads(row) for row in rows if row.endswith("}")]  # a killed one's last row may be cut

    @staticmethod
    def said(worker, life):
        rows = worker.file("out", life).read_text(errors="replace").splitlines()
        return [json.loads(row) for row in rows if row.startswith("{") and row.endswith("}")]

    def given_up(self, name, index, lines, life_count, life):
        """The last sum of a killed life, or that before a late one: others may have made it again."""
        if index + 1 == len(lines):
            return life < life_count
        return (lines[index]["step"] + 1, name, life) in self.late

    def by_step(self, lab):
        """{step: [line, ...]} of those whose sum is in the model."""
        lives, steps, others = {worker.name: worker.lives for worker in lab.workers}, {}, {}
        for (name, life), lines in self.lives.items():
            for index, line in enumerate(lines):
                given_up = self.given_up(name, index, lines, lives[name], life)
                (others if given_up else steps).setdefault(line["step"], []).append(line)
        return {**others, **steps}

    def problems(self, steps):
        """Sums that are wrong."""
        bad = [f"{name} (life {life}), step {line['step']}: not the sum of {line['members']}"
               for (name, life), lines in self.lives.items() for line in lines if not line["exact"]]
        bad += [f"step {step}: different sums: {sorted({(line['bits'], tuple(line['members'])) for line in lines})}"
                for step, lines in steps.items() if len({(line["bits"], *line["members"]) for line in lines}) > 1]
        if sorted(steps) != list(range(len(steps))):
            bad.append(f"steps are missing: {len(steps)} of {max(steps) + 1}")
        return bad


def median_step(notes, lab):
    return statistics.median(after - before for worker in lab.workers
                             for before, after in zip(notes.at[worker.name], notes.at[worker.name][1:]))


def samples(steps, since, until):
    return BATCH * sum(len(lines[0]["members"]) for lines in steps.values()
                       if since <= min(line["at"] for line in lines) < until)


def stall(notes, lab, fault, until, usual):
    """(s, worker): of those that are not faulty. A gap counts if a part of it is within the fault's time; that of the
    next fault begins with the last step before it."""
    worst = (0.0, "-")
    for worker in lab.workers:
        if worker.name == fault["node"]:
            continue
        times = notes.at[worker.name]
        for before, after in zip(times, times[1:]):
            if after > fault["began"] and before < until - 2 * usual:
                worst = max(worst, (after - before - usual, worker.name))
    return worst


# --- the two runs ----------------------------------------------------------------------------------------------------

def run(o, path, minutes, disturbed):
    """The samples, faults and sums of these minutes, which begin with the first step of all workers."""
    path.mkdir()
    lab = Lab(o, path)
    try:
        lab.start_all()
        since = time.monotonic()
        until = since + 60 * minutes
        faults = torment(lab, until) if disturbed else time.sleep(60 * minutes) or []
        until = time.monotonic()
        lab.stepped(lab.workers)
        told = lab.end()
        notes = Notes(lab)
        steps = notes.by_step(lab)
        usual = median_step(notes, lab)
        for fault, following in zip(faults, [*faults[1:], {"began": until}]):
            fault["stall"], fault["stalled"] = stall(notes, lab, fault, following["began"], usual)
            for moment in ("began", "ended", "back"):
                fault[moment] -= since
        return {"seconds": until - since, "samples": samples(steps, since, until), "median_step_s": usual,
                "steps": len(steps), "faults": faults, "problems": notes.problems(steps),
                "late": len(notes.late), "accuracy": told[0]["accuracy"],
                "equal": len({(one["end"], one["bits"]) for one in told}) == 1 and all(one["alike"] for one in told),
                "ends": [min(line["at"] for line in steps[step]) - since for step in sorted(steps)],
                "members": [len(steps[step][0]["members"]) for step in sorted(steps)]}
    finally:
        lab.close()


def summary(o, quiet, run_):
    rows = []
    for role in o.roles:
        for kind in o.kinds:
            stalls = [fault["stall"] for fault in run_["faults"] if (fault["role"], fault["kind"]) == (role, kind)]
            if stalls:
                rows.append({"role": role, "kind": kind, "count": len(stalls), "mean_s": statistics.fmean(stalls),
                             "max_s": max(stalls)})
    stalls = [fault["stall"] for fault in run_["faults"]]
    wanted = quiet["samples"] / quiet["seconds"] * run_["seconds"]
    return {"rows": rows, "mean_stall_s": statistics.fmean(stalls) if stalls else 0.0,
            "max_stall_s": max(stalls, default=0.0), "share": run_["samples"] / wanted,
            "exact": not run_["problems"] and not quiet["problems"], "equal": run_["equal"] and quiet["equal"]}


def show(o, quiet, run_, told):
    print(f"\n{o.workers} workers, {run_['seconds'] / 60:.1f} minutes, {len(run_['faults'])} faults (seed {o.seed}); a "
          f"step {1e3 * run_['median_step_s']:.1f} ms, {1e3 * quiet['median_step_s']:.1f} ms undisturbed "
          f"({quiet['seconds'] / 60:.1f} minutes); {run_['late']} calls late; accuracy {run_['accuracy']:.3f}")
    print(f"{'fault':<18}{'count':>6}{'mean stall':>12}{'max':>8}   (s)")
    for row in told["rows"]:
        print(f"{row['kind']:<6}{row['role']:<12}{row['count']:>6}{row['mean_s']:>12.2f}{row['max_s']:>8.2f}")
    print(f"{'all':<18}{len(run_['faults']):>6}{told['mean_stall_s']:>12.2f}{told['max_stall_s']:>8.2f}")
    there = [fault["stall"] for fault in run_["faults"] if fault["role"] != "controller" or fault["kind"] == "kill"]
    if there:
        print(f"without a controller that is away: {len(there)} faults, {statistics.fmean(there):.2f} s, at most "
              f"{max(there):.2f} s")
    for good, words in (
            (told["mean_stall_s"] <= STALL_S, f"mean stall {told['mean_stall_s']:.2f} s (wanted: {STALL_S} s)"),
            (told["share"] >= SHARE, f"{100 * told['share']:.1f} % of the samples (wanted: {100 * SHARE} %)"),
            (told["exact"], f"sums exact, {run_['steps']} steps"), (told["equal"], "models bit-equal")):
        print(f"{'yes' if good else 'NO':<4}{words}")
    for problem in (quiet["problems"] + run_["problems"])[:20]:
        print("PROBLEM:", problem)


def draw(run_, file):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    bin_s = 0.5
    bins = [0.0] * (int(run_["seconds"] / bin_s) + 1)
    for at, members in zip(run_["ends"], run_["members"]):
        if 0 <= at < run_["seconds"]:
            bins[int(at / bin_s)] += members * BATCH / bin_s
    figure, axes = plt.subplots(2, 1, figsize=(12, 5), sharex=True, layout="constrained", height_ratios=(2, 1))
    axes[0].step([i * bin_s for i in range(len(bins))], bins, where="post", lw=0.6, color="#2a7ab9")
    axes[0].set(ylabel="samples / s", ylim=(0, None))
    for number, kind in enumerate(KINDS):
        for role, marker in zip(ROLES, "osD"):
            own = [fault for fault in run_["faults"] if (fault["role"], fault["kind"]) == (role, kind)]
            if own:
                axes[1].plot([fault["began"] for fault in own], [fault["stall"] for fault in own], marker, ms=5,
                             color=f"C{number}", label=f"{kind} {role}")
    axes[1].axhline(STALL_S, color="black", lw=0.6, ls=":")
    axes[1].set(xlabel="seconds", ylabel="stall, s", ylim=(0, None))
    axes[1].legend(fontsize=6, ncol=3)
    figure.savefig(file, dpi=90)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--every", type=float, default=29)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--undisturbed", type=float, help="minutes (as the other run)")
    parser.add_argument("--step-ms", type=float, default=50)
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--faults", type=int, default=0, help="this many, one after another")
    parser.add_argument("--untold", action="store_true", help="the controller is not notified of deaths")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path, help="a picture: samples and stalls over time (matplotlib)")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for all logs, with events")
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.undisturbed = o.minutes if o.undisturbed is None else o.undisturbed
    for name, known in (("roles", ROLES), ("kinds", KINDS)):
        setattr(o, name, getattr(o, name).split(","))
        if unknown := set(getattr(o, name)) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))}: want {', '.join(known)}")
    if o.workers < 3 or min(o.minutes, o.undisturbed, o.every) <= 0:
        parser.error("--workers: 3 or more; --minutes, --undisturbed, --every: above 0")
    return o


def need(o):
    words = [o.python, "-c", "import torch, sklearn"]
    if subprocess.run(words, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        pen.skip(f"{o.python} has no torch or no sklearn (python3-torch, python3-sklearn)")


def main():
    o = parse()
    pen.enter()
    need(o)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heddle-soak-"))
    try:
        quiet = run(o, folder / "undisturbed", o.undisturbed, False)
        disturbed = run(o, folder / "disturbed", o.minutes, True)
    finally:
        if o.keep:
            shutil.copytree(folder, o.keep, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    told = summary(o, quiet, disturbed)
    show(o, quiet, disturbed, told)
    if o.json:
        o.json.write_text(json.dumps({**told, "undisturbed": quiet, "disturbed": disturbed}, indent=1))
    if o.plot:
        draw(disturbed, o.plot)
    return 0 if told["exact"] and told["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
