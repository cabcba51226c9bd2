#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time to accuracy beside others' training: Heddle unscheduled, scheduled and aggregated, a plain parameter server on
ps-lite, PyTorch's DistributedDataParallel on Gloo and with Heddle's hook, and heddle-train without a server (--sync
allreduce), on the same shaped links.

    tests/bench/bench_rivals.py BUILD [--ps-lite DIR] [--quick | --seeds N] [--grid] [--only MODE,...] [--json FILE]
                                [--out DIR]

Real processes in namespaces, as the demo runs them: same model, data, minibatches, initial weights, padded compute
time and target; every TCP on CUBIC. ps-lite: asynchronous, pull, compute, push, wait, one server on the server's host.
DDP: synchronous, no server; with Heddle's hook, and in heddle-sync, there is a controller, and the workers add. Each
at its own best rate of a grid (--grid searches and stores it, one seed). Time begins when a mode's processes are ready
(the rivals') or started (Heddle's). DIR has ps-lite's sources and build/libps.a; without it, and without
python3-torch, the mode is left out and said. Needs root and what the demo needs.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "testbed"))

from lab import inside, measure as results, modes, network, rates, report, run, sandbox, scenario  # noqa: E402

MODES = ("unscheduled", "scheduled", "aggregated", "ps-lite", "ddp-gloo", "ddp-heddle", "heddle-sync")
# A step: the mean of all gradients.
GRIDS = dict.fromkeys(("ddp-gloo", "ddp-heddle", "heddle-sync"), (0.01, 0.02, 0.05, 0.1, 0.2))
OBSERVE_MS = modes.OBSERVE_MS
PORT = "29500"
STEP_LOG = "steps.jsonl"


class Rival(modes.Plan):
    """Programs that are not ours: their workers take the TCP parameter server's words."""
    gate = True

    def monitors(self):
        return []

    def words(self, name, rank, schedule):
        job = self.scenario["job"]
        return [*self.job_words(), "--rank", str(rank), "--world", str(self.scenario["workers"]), "--name", name,
                "--lr", str(self.learning_rate), "--momentum", str(job["momentum"]), "--weight-decay",
                str(job["weight_decay"]), "--compute-ms", str(job["compute_ms"]), "--compute-schedule", str(schedule),
                "--gate", str(self.directory)]


class PsLite(Rival):
    def node(self, role, host):
        return ["env", f"DMLC_ROLE={role}", f"DMLC_NUM_WORKER={self.scenario['workers'] + 1}", "DMLC_NUM_SERVER=1",
                f"DMLC_PS_ROOT_URI={self.network.ip('ctl')}", f"DMLC_PS_ROOT_PORT={PORT}",
                f"DMLC_NODE_HOST={self.network.ip(host)}", str(self.programs.build / "tests/bench/rival_pslite")]

    def infrastructure(self):
        nothing = self.directory / "no-schedule"
        nothing.touch()
        return [("ctl", "ctl", [*self.node("scheduler", "ctl"), *self.words("ctl", 0, nothing)]),
                ("ps", "ps", [*self.node("server", "ps"), *self.words("ps", 0, nothing),
                              "--events", str(self.events("ps"))])]

    def worker(self, rank, schedule, life):
        host = f"h{rank + 1}"
        return host, [*self.node("worker", host), *self.words(f"w{rank}", rank, schedule),
                      "--events", str(self.events(f"w{rank}-{life}"))], {}

    def observer(self):
        return "ps", [*self.node("worker", "ps"), *self.words("observer", 0, self.directory / "no-schedule"),
                      "--observe-ms", str(OBSERVE_MS)], {}


class Ddp(Rival):
    watcher = "w0"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gradients = self.scenario["workers"]

    def infrastructure(self):
        return []

    def worker(self, rank, schedule, life):
        host = f"h{rank + 1}"
        return host, ["/usr/bin/python3", str(HERE / "rival_ddp.py"), *self.words(f"w{rank}", rank, schedule),
                      "--observe-ms", str(OBSERVE_MS), "--events", str(self.events(f"w{rank}-{life}")),
                      "--library", str(self.programs.build / "tests/bench/librival_trainer.so")], {
            "MASTER_ADDR": self.network.ip("h1"), "MASTER_PORT": PORT, "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": f"{host}-eth0"}

    def observer(self):
        return None


class DdpHeddle(Ddp):
    """The same script with Heddle's hook."""

    def infrastructure(self):
        return [self.node("ctl")]

    def worker(self, rank, schedule, life):
        host, command, environment = super().worker(rank, schedule, life)
        return host, [*command, "--fabric", "heddle"], {
            **environment, "HEDDLE_CONTROLLER": self.network.node_ip("ctl"), "HEDDLE_KEY_FILE": str(self.keys),
            "HEDDLE_JOB": "ddp", "HEDDLE_RANK": str(rank), "HEDDLE_WORLD_SIZE": str(self.scenario["workers"]),
            "HEDDLE_HOST": host, "HEDDLE_BIND": self.network.ip(host),
            "HEDDLE_LIBRARY": str(self.programs.build / "worker-lib/libheddle.so"),
            "PYTHONPATH": str(ROOT / "worker-lib/python")}


class HeddleSync(modes.Plan):
    """heddle-train without a server: rank 0 evaluates, within its padding, about as often as the observers."""
    watcher = "w0"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gradients = self.scenario["workers"]

    def infrastructure(self):
        return [self.node("ctl")]

    def monitors(self):
        return []

    def worker(self, rank, schedule, life):
        job = self.scenario["job"]
        words = ["--compute-ms", str(job["compute_ms"]), "--compute-schedule", str(schedule), "--quiet"]
        if rank == 0:
            words += ["--eval-every", str(max(1, round(OBSERVE_MS / max(1, job["compute_ms"])))), "--step-log",
                      str(self.directory / STEP_LOG)]
        host, command, environment = self.member(f"w{rank}", f"h{rank + 1}", rank, words, "")
        command = [str(word) for word in command]
        for name in ("--tau-max", "--sync", "--div-max", "--payload", "--pull-payload", "--staleness"):
            del command[command.index(name):command.index(name) + 2]
        del environment["HEDDLE_EVENTS"]
        return host, [*command, "--sync", "allreduce", "--integrity", "off"], environment

    def observer(self):
        return None


class SyncRun(run.Run):
    """Its log of steps, as the others' events: a step is one update."""

    def record(self):
        with open(self.directory / "events-w0-1.jsonl", "w", encoding="ascii") as events:
            for line in results.read_jsonl(self.directory / STEP_LOG):
                for node, kind in (("w0", "pushed"), ("ps", "committed"), ("w0", "outcome")):
                    events.write(json.dumps({"at_ns": line["at_ns"], "node": node, "event": kind, "round": line["step"],
                                             "version": line["step"], "aux": 1}) + "\n")
        return super().record()


PLANS = {"ps-lite": PsLite, "ddp-gloo": Ddp, "ddp-heddle": DdpHeddle, "heddle-sync": HeddleSync}
RUNS = {"heddle-sync": SyncRun}


def cubic(net):
    """Every connection's congestion control is a route's here: none of these programs chooses."""
    for name in [*net.shaped, "ctl"]:
        subprocess.run([*net.enter(name), "ip", "route", "replace", "10.77.0.0/16", "dev", f"{name}-eth0", "src",
                        net.ip(name), "congctl", "cubic"], check=True, stdin=subprocess.DEVNULL)


def jobs(options, setting):
    """[(mode, seed, rate)]"""
    for seed in range(options["first_seed"], options["first_seed"] + options["seeds"]):
        for mode in options["modes"]:
            fallback = rates.best("aggregation", mode, setting["job"]["learning_rate"])
            grid = GRIDS.get(mode, rates.GRID)
            yield from ((mode, seed, rate) for rate in (
                grid if options["grid"] else [rates.best(setting["name"], mode, fallback)]))


def measure(options, setting, base):
    records = []
    programs = modes.Programs(options["build"])
    net = network.Network(setting, "udp")
    try:
        cubic(net)
        todo = list(jobs(options, setting))
        report.headline(setting, todo)
        for number, (mode, seed, rate) in enumerate(todo, 1):
            print(f"== {number} of {len(todo)}: {mode}, seed {seed}, learning rate {rate}", flush=True)
            directory = base / f"{number:03d}-{mode}"
            one = RUNS.get(mode, run.Run)(programs, net, setting, {
                "mode": mode, "seed": seed, "learning_rate": rate, "directory": directory,
                "plan": PLANS.get(mode, modes.Plan), "say": lambda line: print(f"   {line}", flush=True)})
            try:
                records.append(one.execute())
            finally:
                if options["keep"]:
                    shutil.copytree(directory, pathlib.Path(options["keep"]) / directory.name, dirs_exist_ok=True)
            report.line(records[-1])
            shutil.rmtree(directory)
            inside.save(options, records)
    finally:
        net.close()
    return records


SHOWN = ("mode", "rate", "time to accuracy s", "updates to it", "delay mean", "cpu %", "machine %", "valid")
COLUMNS = [column for column in report.COLUMNS if column[0] in SHOWN]
COLUMNS[4:4] = [
    ("updates/s", "{:.1f}", lambda r: r["applied_per_s"]),
    ("gradients/s", "{:.1f}", lambda r: r["applied_per_s"] * r["gradients_per_update"]),
    ("server link MB/s", "{:.1f}", lambda r: r["server_link_bytes"] / 1e6 / r["seconds"])]


def work():
    options, base = json.loads(sys.argv[2]), pathlib.Path(sys.argv[3])
    setting = options["setting"]
    inside.prepare(base)
    try:
        records = measure(options, setting, base)
    except (run.RunError, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"bench_rivals: {error}", file=sys.stderr)
        return 70
    if options["grid"]:
        chosen, words = rates.choose(records, setting["duration_s"])
        rates.store(setting["name"], chosen)
        print("\n".join([*words, f"best learning rates: {chosen}, stored"]))
    report.table(records, COLUMNS)
    if options["out"]:
        from lab import plots  # takes a second to load
        for path in plots.single(setting, records, pathlib.Path(options["out"]), "rivals", plots.draw_accuracy):
            print(f"   picture: {path}")
    return 0


def missing(mode, options):
    """Why a mode cannot run here, or None. Compiles what is ours of ps-lite's."""
    if mode.startswith("ddp-"):
        found = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed as d; d.is_available() or exit(1)"],
                               check=False, stdin=subprocess.DEVNULL, capture_output=True)
        return None if found.returncode == 0 else "python3-torch is not installed"
    if mode != "ps-lite":
        return None
    if not options.ps_lite:
        return "no --ps-lite DIR"
    there = options.ps_lite.resolve()
    out = options.build / "tests/bench"
    done = subprocess.run(
        ["g++", "-std=c++14", "-O2", f"-I{there}/include", f"-I{there}/src", f"-I{HERE}",
         str(HERE / "rival_pslite.cc"), f"{there}/build/libps.a", f"{out}/librival_trainer.so", f"-Wl,-rpath,{out}",
         "-lprotobuf-lite", "-lzmq", "-lpthread", "-o", f"{out}/rival_pslite"],
        check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return None if done.returncode == 0 else f"does not build with {there}: {done.stderr.strip()[-400:]}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--ps-lite", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--scenario", default="aggregation", metavar="NAME|FILE")
    parser.add_argument("--only", default=",".join(MODES), metavar="MODE,...")
    parser.add_argument("--quick", action="store_true", help="one seed: five minutes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--grid", action="store_true", help="search each mode's best rate on one seed more, and store")
    for word in ("json", "out", "keep"):
        parser.add_argument(f"--{word}", type=os.path.abspath)
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--inside"]:
        return work()
    options = parse()
    why = sandbox.possible()
    if why:
        print(f"SKIP: {why}")
        return 77
    setting = scenario.load(options.scenario)
    wanted = []
    for mode in options.only.split(","):
        why = missing(mode, options)
        if why:
            print(f"{mode}: left out: {why}")
        else:
            wanted.append(mode)
    given = {"setting": setting, "modes": wanted, "build": str(options.build), "grid": options.grid,
             "seeds": 1 if options.quick or options.grid else options.seeds, "first_seed": options.first_seed,
             "json": options.json, "out": options.out, "keep": options.keep}
    used = [path for path in (options.json, options.out, options.keep, str(options.build)) if path]
    if options.out:
        pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    return sandbox.run([sys.executable, __file__, "--inside", json.dumps(given)], [*used, __file__])


if __name__ == "__main__":
    sys.exit(main())
