# SPDX-License-Identifier: BSD-3-Clause
"""testbed/market/run: its command line, and the runs inside their namespaces."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

from lab import command, modes, sandbox
from lab.play import PlayError

from . import hooks, owner, play, report, setting as settings

HELP = """Plays the prices of a market against strategies that bid for machines, while real workers train over the
fabric: they start, get their notice, are killed and come again. Shows what each strategy paid for the same accuracy."""


def parse(arguments):
    known = " ".join(sorted(p.stem for p in settings.SCENARIOS.glob("*.json")))
    parser = command.Parser("market", prog="testbed/market/run", description=HELP)
    parser.add_argument("scenario", metavar="NAME|FILE", help=f"one of: {known}; or a file")
    parser.add_argument("--strategies", metavar="NAME,...", help="only these of the scenario's")
    parser.add_argument("--seeds", type=command.runs, default=1, metavar="N", help="runs of each strategy (1)")
    parser.add_argument("--first-seed", type=int, metavar="N", help="of the seeds (the scenario's)")
    parser.add_argument("--json", metavar="FILE", help="write the list of runs")
    parser.add_argument("--runs", metavar="FILE", help="table and pictures of the runs in a --json file; runs nothing")
    parser.add_argument("--out", default="results", metavar="DIR", help="where pictures go (results)")
    parser.add_argument("--no-pictures", action="store_true", help="the table alone")
    parser.add_argument("--check", action="store_true", help="read the scenario, say what is wrong, run nothing")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and events of every run")
    parser.add_argument("--build", default="build/gcc", help=argparse.SUPPRESS)
    return parser, vars(parser.parse_args(arguments))


def choose(parser, options, setting):
    if not options["strategies"]:
        return
    names = options["strategies"].split(",")
    there = [strategy["name"] for strategy in setting["strategies"]]
    for name in names:
        if name not in there:
            parser.error(f"strategies: {name}: not one of {', '.join(there)}")
    setting["strategies"] = [strategy for strategy in setting["strategies"] if strategy["name"] in names]


def plan_all(setting, programs):
    """Before any run, asks heddlectl for the numbers of the strategies that have a plan instead."""
    for index, strategy in enumerate(setting["strategies"]):
        if not strategy.get("plan"):
            continue
        try:
            found = setting["strategies"][index] = owner.plan(programs["heddlectl"], setting, strategy)
        except owner.OwnerError as error:
            raise owner.OwnerError(f"strategies[{index}].plan: {error}") from None
        words = " ".join(f"{field}={found[field]}" for field in settings.PLANNED[found["kind"]])
        print(f"== plan of {found['name']}: {words} iterations={found['iterations']}", flush=True)


def run_all(options, base):
    setting = options["setting"]
    programs = modes.Programs(options["build"])
    plan_all(setting, programs)
    first = options["first_seed"] if options["first_seed"] is not None else setting["seed"]
    todo = [(seed, strategy) for seed in range(first, first + options["seeds"]) for strategy in setting["strategies"]]
    records = []
    for number, (seed, strategy) in enumerate(todo, 1):
        print(f"== {number} of {len(todo)}: {strategy['name']}, seed {seed}", flush=True)
        directory = base / f"{number:03d}-{strategy['name']}-seed{seed}"
        try:
            records.append(play.Play(programs, setting, strategy, seed, directory,
                                     lambda line: print(f"   {line}", flush=True)).run())
        finally:
            if options["keep"]:
                shutil.copytree(directory, pathlib.Path(options["keep"]) / directory.name, dirs_exist_ok=True)
        shutil.rmtree(directory)
        if options["json"]:
            pathlib.Path(options["json"]).write_text(json.dumps(records, indent=1) + "\n")
    return records


def inside(options, base):
    """As PID 1 of new namespaces."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "heddle", str(base)], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    setting = options["setting"]
    try:
        records = run_all(options, base)
    except (PlayError, hooks.HookError, owner.OwnerError, FileNotFoundError,
            subprocess.CalledProcessError) as error:
        print(f"market: {error}", file=sys.stderr)
        return command.EX_SOFTWARE
    return show(options, records)


def show(options, records):
    report.table(options["setting"], records)
    if not options["no_pictures"]:
        from . import plots  # takes a second to load: only when it is needed
        for path in plots.draw(options["setting"], records, options["out"]):
            print(f"   picture: {path}")
    return 0 if all(record["reached"] for record in records) else 1


def kept(path):
    """The runs in a file of --json."""
    try:
        records = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise settings.ScenarioError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise settings.ScenarioError(f"{path}: {error}") from None
    if not isinstance(records, list) or not records or not all(
            isinstance(record, dict) and {"strategy", "curve", "workers", "prices"} <= set(record)
            for record in records):
        raise settings.ScenarioError(f"{path}: is not a list of runs, as --json writes it")
    return records


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(json.loads(sys.argv[2]), pathlib.Path(sys.argv[3]))
    parser, options = parse(sys.argv[1:])
    try:
        options["setting"] = settings.load(options["scenario"])
    except settings.ScenarioError as error:
        print(f"market: {error}", file=sys.stderr)
        return error.code
    choose(parser, options, options["setting"])
    if options["check"]:
        return 0
    if options["runs"]:
        try:
            return show(options, kept(options["runs"]))
        except settings.ScenarioError as error:
            print(f"market: {error}", file=sys.stderr)
            return error.code
    why = sandbox.possible()
    if why:
        print(f"market: {why}", file=sys.stderr)
        return command.EX_UNAVAILABLE
    for field in ("json", "out", "keep", "build"):
        if options[field]:
            options[field] = os.path.abspath(options[field])
    pathlib.Path(options["out"]).mkdir(parents=True, exist_ok=True)
    used = [options[field] for field in ("json", "out", "keep", "build") if options[field]]
    return sandbox.run([sys.executable, "-m", "market.main", "--inside", json.dumps(options)], [*used, __file__])


if __name__ == "__main__":
    sys.exit(main())
