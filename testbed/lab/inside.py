# SPDX-License-Identifier: BSD-3-Clause
"""The demo inside its namespaces: every run in turn, then the table, the list and the pictures."""
import json
import pathlib
import shutil
import subprocess
import sys

from . import bmv2, modes, network, rates, report, run

QUICK = {"workers": 4, "duration_s": 12.0, "tenants": [], "workers_events": [], "nodes_events": []}


def prepare(base):
    """The new namespaces' own /sys, files and loopback; bridges must not pass frames to iptables."""
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "heddle", str(base)], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for table in ("iptables", "ip6tables", "arptables"):
        path = pathlib.Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}")
        if path.exists():
            path.write_text("0\n")


def jobs(options, setting):
    """[(mode, seed, learning rate)], modes side by side within a seed: a drift of the machine affects all."""
    first = options["first_seed"] if options["first_seed"] is not None else setting["seed"]
    for seed in range(first, first + options["seeds"]):
        for mode in options["modes"]:
            if options["grid"]:
                yield from ((mode, seed, rate) for rate in rates.GRID)
            else:
                fallback = setting["job"]["learning_rate"]
                yield mode, seed, options["lr"] or rates.best(setting["name"], mode, fallback)


def one(net, programs, setting, options, job, directory):
    mode, seed, rate = job
    runner = run.Run(programs, net, setting, {
        "mode": mode, "seed": seed, "learning_rate": rate, "full": options["full"] or options["quick"],
        "directory": directory, "say": lambda line: print(f"   {line}", flush=True)})
    try:
        record = runner.execute()
        if options["trace"]:
            write_trace(programs, directory, options["trace_path"])
    finally:
        if options["keep"]:
            shutil.copytree(directory, pathlib.Path(options["keep"]) / directory.name, dirs_exist_ok=True)
    record["slower"] = options["slower"]
    if options["quick"]:
        record["problems"] = [p for p in record["problems"] if not p.startswith(("accuracy", run.NO_SUM))]
        record["valid"] = not record["problems"]
    report.line(record)
    return runner, record


def trace_path(path, job, alone):
    """FILE, or for one of several runs FILE with mode and seed before its suffix."""
    path = pathlib.Path(path)
    return path if alone else path.with_name(f"{path.stem}-{job[0]}-seed{job[1]}{path.suffix}")


def write_trace(programs, directory, path):
    """The run's event logs as spans."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logs = sorted(str(log) for log in directory.glob("events-*.jsonl"))
    subprocess.run([programs["heddle-trace"], "--topology", str(directory / "topology.json"),
                    "--output", str(path), *logs], check=True, stdin=subprocess.DEVNULL)
    print(f"   trace: {path}")


def save(options, records):
    if options["json"]:
        path = pathlib.Path(options["json"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(records, indent=1) + "\n")


def run_all(options, setting, base):
    programs = modes.Programs(options["build"])
    records, pictures = [], {}
    has = modes.drivers(programs)
    driver = options["driver"] or has[0]
    if driver not in has:
        raise run.RunError(f"driver: this build has no {driver}")
    net = network.Network(setting, driver)
    try:
        todo = list(jobs(options, setting))
        report.headline(setting, todo, options["slower"])
        print(f"   controller, server and aggregators on driver {driver}")
        for number, job in enumerate(todo, 1):
            directory = base / f"{number:03d}-{job[0]}-seed{job[1]}"
            print(f"== {number} of {len(todo)}: {job[0]}, seed {job[1]}, learning rate {job[2]}", flush=True)
            if options["trace"]:
                options = {**options, "trace_path": trace_path(options["trace"], job, len(todo) == 1)}
            runner, record = one(net, programs, setting, options, job, directory)
            records.append(record)
            pictures.setdefault(job[0], runner)  # the first run of each mode is drawn
            shutil.rmtree(directory)
            save(options, records)
    finally:
        net.close()
    return records, pictures


def main():
    options = json.loads(sys.argv[1])
    setting = options["setting"]
    base = pathlib.Path(sys.argv[2])
    if options["quick"]:
        setting.update(QUICK)
    prepare(base)
    try:
        records, pictures = run_all(options, setting, base)
    except (run.RunError, bmv2.CommandFailed, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 70
    if options["grid"]:
        chosen, words = rates.choose(records, setting["duration_s"])
        rates.store(setting["name"], chosen)
        for line in words:
            print(f"   {line}")
        print(f"best learning rates of {list(rates.GRID)}: {chosen}, stored")
    report.table(records)
    from . import plots  # takes a second to load: only when it is needed
    for path in plots.draw(setting, pictures, records, pathlib.Path(options["out"])):
        print(f"   picture: {path}")
    if options["grid"]:
        return 0 if len(chosen) == len({record["mode"] for record in records}) else 1
    return 0 if all(record["valid"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
