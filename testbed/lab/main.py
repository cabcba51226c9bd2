# SPDX-License-Identifier: BSD-3-Clause
"""The demo's command line, outside of the namespaces; inside.py does the work."""
import argparse
import json
import os
import pathlib
import sys

from . import command, modes, rates, sandbox, scenario

HELP = """Trains a real model over an emulated, contended network in up to four modes, and shows what came out:
a table, pictures, and with --json every number."""


def parse(arguments):
    known = " ".join(sorted(p.stem for p in scenario.SCENARIOS.glob("*.json")))
    parser = command.Parser("demo", prog="testbed/demo", description=HELP)
    parser.add_argument("--scenario", default="star", metavar="NAME|FILE", help=f"one of: {known}; or a file (star)")
    parser.add_argument("--modes", help="comma-separated, of " + ",".join(modes.MODES) + " (all; aggregated where the "
                        "scenario has aggregators, or switches that add)")
    parser.add_argument("--seeds", type=command.runs, default=1, metavar="N", help="runs of each mode (1)")
    parser.add_argument("--first-seed", type=int, metavar="N", help="of the seeds (the scenario's)")
    parser.add_argument("--json", metavar="FILE", help="write the list of runs")
    parser.add_argument("--out", default="results", metavar="DIR", help="where pictures go (results)")
    parser.add_argument("--full", action="store_true", help="run for duration_s even when the target is reached")
    parser.add_argument("--quick", action="store_true", help="four workers, 12 s a mode: does it work at all?")
    parser.add_argument("--lr", type=float, metavar="X", help="this learning rate for every mode")
    parser.add_argument("--grid", action="store_true",
                        help=f"search each mode's best learning rate in {list(rates.GRID)}, and store it")
    parser.add_argument("--slower", type=command.within(1, 100, float), metavar="X",
                        help="links, computing and all that happens slower by this factor, in every mode "
                        f"({scenario.CORES_WANTED} / processors, at least 1: else they would be the limit)")
    parser.add_argument("--driver", choices=("dpdk", "udp"),
                        help="what controller and server run on (dpdk where this build has it)")
    parser.add_argument("--trace", metavar="FILE",
                        help="write spans for Perfetto and chrome://tracing; with several runs mode and seed are added "
                        "to the file's name")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and events of every run")
    parser.add_argument("--build", default="build/gcc", help=argparse.SUPPRESS)
    options = vars(parser.parse_args(arguments))
    options["modes"] = options["modes"].split(",") if options["modes"] else []
    for mode in options["modes"]:
        if mode not in modes.MODES:
            parser.error(f"modes: {mode}: not one of {', '.join(modes.MODES)}")
    return options


def choose_modes(asked, setting):
    """The requested modes, or all that the scenario can show. Raises ScenarioError."""
    adders = setting["aggregators"] or setting["switches"] == "bmv2"
    if "aggregated" in asked and not adders:
        raise scenario.ScenarioError(f"modes: aggregated: scenario {setting['name']} has no aggregators")
    if "tcp-ps" in asked and setting["nodes_events"]:
        raise scenario.ScenarioError(f"modes: tcp-ps: nodes of scenario {setting['name']} die, and it has no replica")
    without = {"aggregated"} if not adders else set()
    without |= {"tcp-ps"} if setting["nodes_events"] or setting["replica"] else set()
    return asked or [mode for mode in modes.MODES if mode not in without]


def main():
    options = parse(sys.argv[1:])
    try:
        options["setting"] = scenario.load(options["scenario"])
        options["modes"] = choose_modes(options["modes"], options["setting"])
        options["slower"] = options["slower"] or scenario.slowness(len(os.sched_getaffinity(0)))
        options["setting"] = scenario.slowed(options["setting"], options["slower"])
    except scenario.ScenarioError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.code
    why = sandbox.possible()
    if why:
        print(f"demo: {why}", file=sys.stderr)
        return command.EX_UNAVAILABLE
    for field in ("json", "out", "trace", "keep", "build"):
        if options[field]:
            options[field] = os.path.abspath(options[field])
    pathlib.Path(options["out"]).mkdir(parents=True, exist_ok=True)
    used = [options[field] for field in ("json", "out", "trace", "keep", "build") if options[field]]
    return sandbox.run([sys.executable, "-m", "lab.inside", json.dumps(options)], [*used, __file__])


if __name__ == "__main__":
    sys.exit(main())
