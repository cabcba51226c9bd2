#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Faults that a programmer makes, planted one at a time: each is to be caught by an assertion.

    tests/run faults [--only NAME,...] [--jobs J]
    tests/faults.py [...]                 the same without installing anything

tests/planted.py lists them: what is changed, and the program that then has to die. Each is planted in a copy of the
tree (build/faults), which has a build folder of its own; only that program is built. A fault is caught when the program
ends by a failed assertion of the code under test: not by a check of the test, a signal, or a sanitizer.
Exit status 1: some were missed.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import planted

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "faults"
BUILD = TREE / "build"  # as deep as any other build folder, so that ccache knows its files
PATIENCE_S = 120  # a fault may well make a program hang
TESTED = "controller|aggregator|worker-lib|common|switch"
ASSERTION = re.compile(rf"(?:\.\./)*((?:{TESTED})/\S+):(\d+): .*: Assertion `")


def tracked():
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard"], check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def write(path, data):
    """Only what is another text than before, so that only this is built again."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return True
    return False


def copy_tree():
    names = set(tracked())
    TREE.mkdir(parents=True, exist_ok=True)
    for name in names:
        if write(TREE / name, (ROOT / name).read_bytes()):
            shutil.copymode(ROOT / name, TREE / name)
    for path in TREE.rglob("*"):
        relative = path.relative_to(TREE)
        if relative.parts[0] != "build" and path.is_file() and str(relative) not in names:
            path.unlink()


def environment():
    home = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    ccache = ["ccache"] if shutil.which("ccache") else []
    return {**home, "CC": " ".join([*ccache, "gcc"]), **os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def run(command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          check=False, env={**environment(), **options.pop("env", {})}, **options)


def setup():
    if (BUILD / "build.ninja").exists():
        return
    done = run(["meson", "setup", "-Dtests=enabled", str(BUILD)], cwd=TREE)
    if done.returncode != 0:
        sys.exit(f"meson setup {BUILD}:\n{done.stdout}{done.stderr}")


def build(targets, jobs):
    """None, or what does not build."""
    done = run(["ninja", "-C", str(BUILD), "-j", str(jobs), *targets])
    return None if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-15:])


def play(fault):
    """(whether an assertion ended it, which or what else happened)"""
    program, *words = fault.run.split()
    seeds = {"HEDDLE_SIM_FIRST": "1", "HEDDLE_SIM_SEEDS": str(fault.seeds)}
    try:
        done = run([str(BUILD / program), *words], cwd=BUILD, env=seeds, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False, f"no end within {PATIENCE_S} s"
    found = ASSERTION.search(done.stderr)
    if done.returncode == -signal.SIGABRT and found:
        return True, f"{found[1]}:{found[2]}"
    lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing said"]
    return False, f"status {done.returncode}: {lines[-1][:150]}"


def try_one(fault, jobs):
    """(caught, by what). The copy keeps the fault: the next one restores the file, and both are built at once."""
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        return False, f"{fault.file} has the old text {text.count(fault.old)} times, not once"
    write(TREE / fault.file, text.replace(fault.old, fault.new).encode())
    try:
        broken = build([fault.run.split()[0]], jobs)
        return (False, f"does not build:\n{broken}") if broken else play(fault)
    finally:
        write(TREE / fault.file, text.encode())


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,...", help="of these names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="J", help="of the compiler")
    options = parser.parse_args(arguments)
    names = [fault.name for fault in planted.FAULTS]
    for name in options.only or []:
        if name not in names:
            parser.error(f"--only: {name}: not one of {', '.join(names)}")
    options.faults = [fault for fault in planted.FAULTS if not options.only or fault.name in options.only]
    return options


def main(arguments):
    options = parse(arguments)
    copy_tree()
    setup()
    broken = build(sorted({fault.run.split()[0] for fault in options.faults}), options.jobs)
    if broken:
        print(f"without a fault it does not build:\n{broken}")
        return 1
    missed = 0
    for fault in options.faults:
        began = time.monotonic()
        caught, what = try_one(fault, options.jobs)
        missed += not caught
        print(f"   {fault.name:26} {'' if caught else 'MISSED: '}{what}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(options.faults) - missed} caught, {missed} missed", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
