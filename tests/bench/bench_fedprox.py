#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""FedProx and FedAvg in the fabric, beside the reference of one process: a server and 30 clients, all processes of
their own, over loopback; Synthetic iid, (0,0), (0.5,0.5) and (1,1) with 0, 50 and 90 % stragglers. Then digits dealt by
label, with 90 % stragglers, over several seeds. An observer pulls the models between rounds and evaluates them; of
rounds that it missed there is no point.

The loss is that of all clients' training rows; the reference does the same rounds in double precision.

usage: bench_fedprox.py BUILD_DIR [--quick] [--json FILE] [--out DIR]   needs no privileges."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CLIENTS, DRAWN, EPOCHS = 30, 10, 20  # of the paper (arXiv 1812.06127, 5.1 and C.2), as batch and rate
TASK = ["--batch", "10", "--lr", "0.01"]
DATA = ("iid", "0,0", "0.5,0.5", "1,1")
METHODS = {"FedAvg": (0, True), "FedProx mu 0": (0, False), "FedProx mu 1": (1, False)}
DIGITS = {"FedAvg": (0, True), "FedProx mu 0": (0, False), "FedProx mu 0.1": (0.1, False)}
DIGITS_TASK = ["--client-labels", "2", "--batch", "10", "--lr", "0.05"]
RUN_S = 120
SHAPES_ROUNDS = 50  # of fewer the paper says nothing


def variants(options):
    for data in options.data:
        for share in (0.9,) if options.quick else (0, 0.5, 0.9):
            for method, (mu, drop) in METHODS.items():
                if share > 0 or not drop:  # without stragglers FedAvg is FedProx with mu 0
                    yield {"data": data, "stragglers": share, "method": method, "mu": mu, "drop": drop}


def address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def end(process):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start(errors, *command, **more):
    return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stderr=errors, text=True, **more)


def members(variant):
    """Updates in each round: as many versions."""
    return DRAWN - (round(DRAWN * variant["stragglers"]) if variant["drop"] else 0)


def fabric(build, variant, task, rounds):
    """A run of the fabric: an evaluation of each round that the observer saw, up to `rounds`."""
    begun, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="heddle-fedprox-") as folder, \
            open(f"{folder}/errors", "w+", encoding="utf-8") as errors:
        key, where = pathlib.Path(folder, "key"), address()
        key.write_text("1 " + "5a" * 32 + "\n", encoding="utf-8")
        key.chmod(0o600)
        env = {"HEDDLE_SERVER": where, "HEDDLE_KEY_FILE": str(key), "HEDDLE_JOB": "fed", "PATH": os.environ["PATH"]}
        options = [build / "worker-lib/heddle-train", *task, "--federated",
                   f"available={CLIENTS},clients={DRAWN},epochs={EPOCHS},mu={variant['mu']},stragglers="
                   + ("drop" if variant["drop"] else "accept") + f",seed={variant.get('seed', 0)}",
                   "--straggling", variant["stragglers"]]
        processes = [start(errors, build / "aggregator/heddle-server", "--listen", where, "--key-file", key,
                           stdout=errors, cwd=folder)]
        try:
            observer = start(errors, *options, "--evaluate", "--every-ms", 2, "--seconds", RUN_S, env=env, cwd=folder,
                             stdout=subprocess.PIPE)
            processes.insert(0, observer)
            processes.insert(0, start(errors, build / "worker-lib/heddle-run", "-n", CLIENTS, "--", *options, "--quiet",
                                      env=env, cwd=folder, stdout=errors))
            for line in observer.stdout:
                at = json.loads(line)
                which, rest = divmod(at["version"], members(variant))
                if rest:
                    raise RuntimeError(f"version {at['version']}: a round of other than {members(variant)} updates")
                if which > rounds:
                    break
                found[which] = {"round": which, **{k: at[k] for k in ("train_loss", "accuracy")}}
                if which == rounds:
                    break
            else:
                errors.seek(0)
                raise RuntimeError(f"{variant}: ended after {max(found, default=0)} rounds of {rounds}: "
                                   f"{errors.read()[-2000:]}")
        finally:
            for process in processes:
                end(process)
    return [found[r] for r in sorted(found) if r > 0], time.monotonic() - begun


def reference(build, variant, rounds):
    done = subprocess.run([str(c) for c in (
        build / "tests/bench/bench_fedprox_reference", variant["data"], variant["stragglers"], variant["mu"],
        "drop" if variant["drop"] else "accept", rounds)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(record):
    """How far the fabric's losses are from the reference's in the rounds that both have, in %."""
    of = {point["round"]: point["train_loss"] for point in record["reference"]}
    return [abs(p["train_loss"] / of[p["round"]] - 1) * 100 for p in record["fabric"] if p["round"] in of]


def near(points, wanted):
    """The point of that round, or of the one seen last before it."""
    return [p for p in points if p["round"] <= wanted][-1]


def late(points, rounds, key):
    """Mean over the second half."""
    return statistics.fmean(p[key] for p in points if p["round"] > rounds / 2)


def show(records, rounds):
    marks = [m for m in (10, 50, 100, 200) if m <= rounds] or [rounds]
    print(f"\n{rounds} rounds; training loss: fabric / reference. Rounds that the observer saw; mean and most that the "
          "loss is off in those.")
    head = ["data", "stragglers", "", *(f"L{m}" for m in marks), f"mean L, rounds > {rounds // 2}", "accuracy", "seen",
            "off, %"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for record in records:
        off, cells = compare(record), []
        for mark in marks:
            here = near(record["fabric"], mark)
            there = record["reference"][here["round"] - 1]
            cells.append(f"{here['train_loss']:.4f} / {there['train_loss']:.4f}"
                         + (f" (round {here['round']})" if here["round"] != mark else ""))
        for key, form in (("train_loss", "{:.4f}"), ("accuracy", "{:.3f}")):
            cells.append(" / ".join(form.format(late(record[side], rounds, key)) for side in ("fabric", "reference")))
        print("| " + " | ".join([record["data"], f"{record['stragglers'] * 100:.0f} %", record["method"], *cells,
                                 f"{len(off)}", f"{statistics.fmean(off):.1g}, {max(off):.1g}"]) + " |")


def shapes(records, rounds):
    """Checks the claims of the paper's figures about these runs."""
    of = {(r["data"], r["stragglers"], r["method"]): r["fabric"] for r in records}
    for data in DATA:
        for share in (0, 0.5, 0.9):
            runs = [of.get((data, share, f"FedProx mu {mu}")) for mu in (0, 1)]
            if None in runs:
                continue
            zero, one = (late(run, rounds, "train_loss") for run in runs)
            claim = "slower than" if data == "iid" else "below"
            holds = one > zero if data == "iid" else one < zero
            print(f"{data}, {share * 100:.0f} %: mu 1 {claim} mu 0: {'yes' if holds else 'NO'} ({one:.4f}, {zero:.4f})")
        if (data, 0.9, "FedAvg") in of and data != "iid":
            top = [max(p["train_loss"] for p in of[data, 0.9, m] if p["round"] > 20) for m in ("FedAvg", "FedProx mu 1")
                   if rounds > 20]
            print(f"{data}, 90 %: greatest loss after round 20, FedAvg and mu 1: {', '.join(f'{t:.2f}' for t in top)}")
        ones = [of.get((data, share, "FedProx mu 1")) for share in (0, 0.5, 0.9)]
        if None not in ones:
            levels = [late(run, rounds, "train_loss") for run in ones]
            print(f"{data}: mu 1 with 0, 50, 90 %: {', '.join(f'{x:.4f}' for x in levels)} "
                  f"({(max(levels) / min(levels) - 1) * 100:.1f} % between them)")


def show_digits(records, rounds):
    print(f"\ndigits, two labels each, 90 % stragglers, {rounds} rounds; mean ± standard deviation over "
          f"{len({r['seed'] for r in records})} seeds, of each run's mean over the rounds after {rounds // 2}\n")
    print("| | test accuracy | worst in those rounds | training loss |\n|---|---|---|---|")
    for method in DIGITS:
        runs = [r["fabric"] for r in records if r["method"] == method]
        worst = [min(p["accuracy"] for p in run if p["round"] > rounds / 2) for run in runs]
        accuracy, loss = ([late(run, rounds, key) for run in runs] for key in ("accuracy", "train_loss"))
        values = [accuracy, worst, loss]
        print(f"| {method} | " + " | ".join(
            f"{statistics.fmean(v):.3f} ± {statistics.stdev(v) if len(v) > 1 else 0:.3f}" for v in values) + " |")


def draw(records, digits, out):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    names = list(dict.fromkeys((r["data"], r["stragglers"]) for r in records))
    names.sort(key=lambda name: (DATA.index(name[0]), name[1]))  # a row a set: 0, 50, 90 %
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, panels = plt.subplots(rows + bool(digits), columns, squeeze=False, layout="constrained",
                                  figsize=(5 * columns, 3.2 * (rows + bool(digits))))
    color = {m: f"C{i}" for i, m in enumerate(dict.fromkeys([*METHODS, *DIGITS]))}
    flat = list(panels.flat)

    def curve(axes, points, key, method, **more):
        axes.plot([p["round"] for p in points], [p[key] for p in points], color=color[method], **more)

    for axes, name in zip(flat, names):
        for record in (r for r in records if (r["data"], r["stragglers"]) == name):
            curve(axes, record["reference"], "train_loss", record["method"], lw=3, alpha=0.3)
            curve(axes, record["fabric"], "train_loss", record["method"], lw=1, label=record["method"])
        axes.set_title(f"Synthetic {name[0]}, {name[1] * 100:.0f} % stragglers", fontsize=9)
        axes.set(xlabel="round", ylabel="training loss (wide: reference)")
        axes.legend(fontsize=7)
    for axes in flat[len(names):]:
        axes.set_visible(False)
    if digits:
        axes = panels[-1][0]
        axes.set_visible(True)
        for record in digits:
            first = record["seed"] == digits[0]["seed"]
            curve(axes, record["fabric"], "accuracy", record["method"], lw=1, alpha=0.7,
                  label=record["method"] if first else None)
        axes.set_title("digits, two labels each, 90 % stragglers", fontsize=9)
        axes.set(xlabel="round", ylabel="test accuracy")
        axes.legend(fontsize=7)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "fedprox.png", dpi=70)
    print("picture:", out / "fedprox.png")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="(1,1), 90 %% stragglers, 12 rounds, two seeds of digits")
    parser.add_argument("--rounds", type=int, metavar="N", help="of Synthetic (200, as the paper; quick: 12)")
    parser.add_argument("--digits-rounds", type=int, metavar="N", help="(50; quick: 12)")
    parser.add_argument("--seeds", type=int, metavar="N", help="of digits (5; quick: 2; 0: no digits)")
    parser.add_argument("--data", action="append", choices=DATA, help="only this Synthetic set; may be said again")
    parser.add_argument("--json", metavar="FILE", help="all points of all runs")
    parser.add_argument("--read", metavar="FILE", type=pathlib.Path, action="append",
                        help="show these runs, of several files together; run nothing")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="a picture of the curves goes there")
    options = parser.parse_args()
    options.rounds = options.rounds or (12 if options.quick else 200)
    options.digits_rounds = options.digits_rounds or (12 if options.quick else 50)
    if options.seeds is None:
        options.seeds = 2 if options.quick else 5
    options.data = options.data or (DATA[-1:] if options.quick else DATA)
    return options


def run(options):
    build, records = options.build.resolve(), []
    for variant in variants(options):
        points, took = fabric(build, variant, ["--data", f"synthetic:{variant['data']}", *TASK], options.rounds)
        records.append({**variant, "rounds": options.rounds, "seconds": took, "fabric": points,
                        "reference": reference(build, variant, options.rounds)})
        print(f"{variant['data']}, {variant['stragglers']}, {variant['method']}: {took:.1f} s", file=sys.stderr)
    for seed in range(1, options.seeds + 1):
        for method, (mu, drop) in DIGITS.items():
            variant = {"data": "digits", "stragglers": 0.9, "method": method, "mu": mu, "drop": drop, "seed": seed}
            points, took = fabric(build, variant, [*DIGITS_TASK, "--seed", str(seed)], options.digits_rounds)
            records.append({**variant, "rounds": options.digits_rounds, "seconds": took, "fabric": points})
            print(f"digits, seed {seed}, {method}: {took:.1f} s", file=sys.stderr)
    return records


def main():
    options = parse()
    records = [r for path in options.read for r in json.loads(path.read_text(encoding="utf-8"))] if options.read else \
        run(options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    synthetic, digits = ([r for r in records if (r["data"] == "digits") == which] for which in (False, True))
    show(synthetic, synthetic[0]["rounds"])
    if synthetic[0]["rounds"] >= SHAPES_ROUNDS:
        print()
        shapes(synthetic, synthetic[0]["rounds"])
    if digits:
        show_digits(digits, digits[0]["rounds"])
    if options.out:
        draw(synthetic, digits, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
