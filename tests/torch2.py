#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tests of PyTorch with a newer one than Debian's, in a virtual environment of its own.

    tests/run torch2 [--version V] [--environment DIR] [TEST...]
    tests/torch2.py BUILD [...]         in a tree that is built

Installs torch (2.15, several GB) and numpy from the Python package index into DIR (build/torch2), unless it is there.
TEST: names of tests of the Python package, with * and ? (default: all that the build has). They use the CPU. Exit
status 1: one has failed.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATIENCE_S = 1200  # against a hang


def is_of_package(test):
    """Of a row of `meson introspect --tests`."""
    return test["name"] == "python" or test["name"].startswith("python-")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run torch2", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*", metavar="TEST", default=["*"])
    parser.add_argument("--version", default="2.15.*", help="of torch (2.15.*)")
    parser.add_argument("--environment", type=pathlib.Path, default=ROOT / "build/torch2", metavar="DIR")
    options = parser.parse_intermixed_args(arguments)
    options.build, options.environment = options.build.resolve(), options.environment.absolute()
    return options


def wanted(options):
    """The tests, as rows of `meson introspect --tests`."""
    known = json.loads(subprocess.run(["meson", "introspect", options.build, "--tests"], capture_output=True,
                                      check=True, stdin=subprocess.DEVNULL).stdout)
    known = {test["name"]: test for test in known if is_of_package(test)}
    for pattern in options.tests:
        if not fnmatch.filter(known, pattern):
            sys.exit(f"torch2: {pattern}: not one of {', '.join(sorted(known)) or 'no tests: this build has none'}")
    return [test for name, test in sorted(known.items())
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.tests)]


def environment(options):
    """Its python, with torch."""
    python = options.environment / "bin/python"
    if not python.exists():
        made = subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], capture_output=True, check=False,
                              stdin=subprocess.DEVNULL)
        if made.returncode != 0:
            sys.exit("torch2: python3 cannot make virtual environments: apt-get install python3-venv")
        subprocess.run(["/usr/bin/python3", "-m", "venv", options.environment], check=True, stdin=subprocess.DEVNULL)
    has = "import importlib.metadata, numpy; print(importlib.metadata.version('torch'))"
    found = subprocess.run([python, "-c", has], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if found.returncode != 0 or not fnmatch.fnmatch(found.stdout.strip().split("+")[0], options.version):
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={options.version}", "numpy"], check=True,
                       stdin=subprocess.DEVNULL)
        found = subprocess.run([python, "-c", has], capture_output=True, text=True, check=True,
                               stdin=subprocess.DEVNULL)
    print(f"torch {found.stdout.strip()} in {options.environment}", flush=True)
    return python


def run(test, python, build):
    """Whether the test passes with that python in the place of Debian's."""
    began = time.monotonic()
    command = [python, *test["cmd"][1:]]
    try:
        done = subprocess.run(command, cwd=build, env={**os.environ, **test["env"]}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S,
                              check=False)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = f"no end within {PATIENCE_S} s", (error.stdout or b"").decode(errors="replace")
    if status != 0:
        print(output)
    print(f"   {test['name']:20} {'passed' if status == 0 else f'FAILED: {status}'}, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return status == 0


def main(arguments):
    options = parse(arguments)
    tests = wanted(options)
    python = environment(options)
    failed = [test["name"] for test in tests if not run(test, python, options.build)]
    print(f"{len(tests) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
