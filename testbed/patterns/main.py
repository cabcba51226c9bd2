# SPDX-License-Identifier: BSD-3-Clause
"""testbed/patterns/run: its command line, and the runs one after the other."""
import argparse
import json
import pathlib
import shutil
import sys

from lab import command, modes, sandbox
from lab.play import PlayError
from lab.scenario import ScenarioError
from market.owner import OwnerError

from . import play, report, setting as settings

HELP = """Ways to train with several workers, each a scenario: averages of gradients and of models, ADMM, asynchronous
workers with and without a budget, workers that live for a while only, and map-reduce of fresh processes. The same
model and number of gradients for all; one table, and a picture of the loss over time and over cost."""


def parse(arguments):
    known = " ".join(sorted(p.stem for p in settings.SCENARIOS.glob("*.json")))
    parser = command.Parser("patterns", prog="testbed/patterns/run", description=HELP)
    parser.add_argument("scenarios", nargs="*", metavar="NAME|FILE", help=f"of: {known}; or files (all of these)")
    parser.add_argument("--seeds", type=command.runs, default=1, metavar="N", help="runs of each (1)")
    parser.add_argument("--first-seed", type=command.within(0, 2**31), metavar="N", help="of the seeds (scenarios')")
    parser.add_argument("--json", action="store_true", help="the list of runs on standard output, no table")
    parser.add_argument("--out", default="results", metavar="DIR", help="where the picture goes (results)")
    parser.add_argument("--no-pictures", action="store_true", help="the table alone")
    parser.add_argument("--check", action="store_true", help="read the scenarios, say what is wrong, run nothing")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and events of every run")
    parser.add_argument("--build", default="build/gcc", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_all(options, chosen):
    programs = modes.Programs(options.build)
    todo = [(index, own) for index in range(options.seeds) for own in chosen]
    records = []
    with sandbox.scratch("heddle-patterns-") as base:
        for number, (index, own) in enumerate(todo, 1):
            seed = (own["seed"] if options.first_seed is None else options.first_seed) + index
            print(f"== {number} of {len(todo)}: {own['name']}, seed {seed}", file=sys.stderr, flush=True)
            directory = base / f"{number:03d}-{own['name']}-seed{seed}"
            try:
                records.append(play.Play(programs, own, seed, directory,
                                         lambda line: print(f"   {line}", file=sys.stderr, flush=True)).run())
            except (PlayError, OwnerError) as error:
                raise PlayError(f"{own['name']}: {error}") from None
            finally:
                if options.keep:
                    shutil.copytree(directory, pathlib.Path(options.keep) / directory.name, dirs_exist_ok=True)
    return records


def main():
    options = parse(sys.argv[1:])
    names = options.scenarios or sorted(str(path) for path in settings.SCENARIOS.glob("*.json"))
    try:
        chosen = settings.load_all(names)
        if options.check:
            return 0
        sandbox.end_by_signals()
        records = run_all(options, chosen)
    except ScenarioError as error:
        print(f"patterns: {error}", file=sys.stderr)
        return error.code
    except (PlayError, FileNotFoundError) as error:
        print(f"patterns: {error}", file=sys.stderr)
        return command.EX_SOFTWARE
    if options.json:
        json.dump(records, sys.stdout, indent=1)
        print()
    else:
        report.table(chosen, records, sys.stdout)
    if not options.no_pictures:
        from . import plots  # takes a second to load: only when it is needed
        print(f"   picture: {plots.draw(records, options.out)}", file=sys.stderr)
    beyond = [record["pattern"] for record in records if not record["within"]]
    if beyond:
        print(f"patterns: {', '.join(beyond)}: more was spent than its budget", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
