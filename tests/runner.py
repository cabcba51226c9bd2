#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds every configuration, runs the suites in each where they say something new, and counts.

    build/gcc    every suite; -Werror
    build/asan   clang, also -Werror, ASan + UBSan: unit, sim (but for the suite `measured`), fuzz (libFuzzer)
    build/tsan   clang, TSan: the tests marked with the suite `threads`

A test that runs in several configurations counts once: failed when it failed in any, skipped when it could run
in none. A cmocka program counts once for each of its test functions.

The suite netns waits more than it computes: the other builds and clang-tidy use what it leaves, at the lowest
priority. Everything else is one phase after the other.

Tests by name, and --quick, run in build/gcc alone (or --config), for which only what they need is built.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import faults
import pages
import seeds
import torch2

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SUITES = ["house", "unit", "sim", "fuzz", "golden", "netns", "gpu", "bench"]
DEFAULT = [s for s in SUITES if s != "bench"]
JOBS = str(os.cpu_count() or 2)
DEADLINE_S = 58 * 60  # of the whole run; what has not run by then has failed
PATIENCE = 4  # times each test's own limit, which guards against hangs: machines differ, and may be busy
SANITIZE = ["-Db_lundef=false",
            "-Dc_args=-fno-sanitize-recover=all -fno-omit-frame-pointer -gline-tables-only"]
CONFIGS = {
    "gcc": ("gcc", [], SUITES),
    "asan": ("clang", ["-Db_sanitize=address,undefined", *SANITIZE], ["unit", "sim", "fuzz"]),
    "tsan": ("clang", ["-Db_sanitize=thread", *SANITIZE], ["threads"]),
}
QUICK = ["house", "unit"]  # without what is marked with the suite `slow`
RANK = {"skipped": 0, "passed": 1, "failed": 2}
# Runs a command when nothing else wants to run: SCHED_IDLE, in a session that counts least (sched(7), autogroup).
IDLE = ["sh", "-c", '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec chrt -i 0 "$@"', "idle"]
started = time.monotonic()
children = set()  # each leads a process group, for signals
ending = threading.Event()  # a signal came: no further children
beside = threading.local()  # .idle: this thread's commands run when nothing else wants to


class Phase:
    """A part of the run: how long it took, and the processor time of its commands."""

    all = []

    def __init__(self, text):
        self.text, self.began, self.used = text, time.monotonic(), 0
        self.ended = self.began
        self.all.append(self)
        say(text)

    def __enter__(self):
        beside.phase = self
        return self

    def __exit__(self, *_):
        self.ended = time.monotonic()


def say(text):
    print(f"== [{time.monotonic() - started:4.0f} s] {text}", flush=True)


def show_times():
    """How long each phase took, and what it would need of processors that do nothing else."""
    for phase in Phase.all:
        print(f"   {phase.ended - phase.began:5.0f} s, {phase.used:5.0f} s of processors: {phase.text}")


def wait(child, timeout_s):
    """The processor time that a child took, with those that it waited for."""
    ends = time.monotonic() + timeout_s
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() >= ends:
            raise subprocess.TimeoutExpired(child.args, timeout_s)
        time.sleep(0.05)


def run(command, log=None, env=None):
    """Runs a command in a process group of its own, so that an end of ours ends all of it."""
    if ending.is_set():
        sys.exit(1)  # of this thread
    left = DEADLINE_S - (time.monotonic() - started)
    out = open(log, "w") if log else None
    child = subprocess.Popen(
        [*(IDLE if getattr(beside, "idle", False) else []), *command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
        stderr=subprocess.STDOUT if out else None, env={**os.environ, **(env or {})}, start_new_session=True)
    children.add(child)
    try:
        beside.phase.used += wait(child, max(left, 1))
        return child.returncode
    except subprocess.TimeoutExpired:
        say(f"out of time ({DEADLINE_S} s): {' '.join(map(str, command))}")
        end(child)
        return 124
    finally:
        children.discard(child)
        if out:
            out.close()


def end(child):
    for sig, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, sig)
            wait(child, patience_s)
            return
        except (ProcessLookupError, ChildProcessError):
            return
        except subprocess.TimeoutExpired:
            pass


def interrupted(number, frame):
    ending.set()
    for child in list(children):
        end(child)
    os._exit(128 + number)  # whatever the other thread waits for


class Results:
    """(suite, test) -> (result, explanation); of several configurations the higher rank stays."""

    def __init__(self):
        self.tests = {}

    def add(self, suite, name, result, why=""):
        old = self.tests.get((suite, name))
        if old is None or RANK[result] > RANK[old[0]]:
            self.tests[suite, name] = (result, why)

    def passed(self, suite, name):
        return self.tests.get((suite, name), ("", ""))[0] == "passed"

    def count(self, result):
        return sum(1 for r, _ in self.tests.values() if r == result)


def tail(path, lines=40):
    try:
        print("\n".join(pathlib.Path(path).read_text(errors="replace").splitlines()[-lines:]), flush=True)
    except OSError:
        pass


def build(name, results, wanted=None):
    """Builds all of a configuration, or what the tests need for which `wanted` holds. False: it does not build."""
    compiler, options, _ = CONFIGS[name]
    directory = BUILD / name
    log = BUILD / f"{name}.log"
    BUILD.mkdir(exist_ok=True)
    setup = ["meson", "setup", str(directory), "-Dtests=enabled", *options]
    if (directory / "build.ninja").exists():
        setup.append("--reconfigure")
    elif directory.exists():
        shutil.rmtree(directory)
    ccache = ["ccache"] if shutil.which("ccache") else []
    env = {"CC": " ".join([*ccache, compiler]), "CC_LD": "gold"}  # binutils' own; half the time of its other linker
    with Phase(f"build/{name}: {compiler} {' '.join(o for o in options if 'sanitize=' in o)}".rstrip()):
        for step in (lambda: setup, lambda: ["ninja", "-C", str(directory), "-j", JOBS, *targets_of(name, wanted)]):
            if run(step(), log, env) != 0:
                tail(log)
                results.add("build", name, "failed", f"build/{name} does not build (build/{name}.log)")
                return False
    results.add("build", name, "passed")
    return True


def introspect(name, what):
    return json.loads(subprocess.run(["meson", "introspect", what, str(BUILD / name)], cwd=ROOT, check=True,
                                     stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout)


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def targets_of(name, wanted):
    """The targets that ninja builds: all (also for tests that read all object files), or what these tests need."""
    tests = [test for test in introspect(name, "--tests") if wanted and wanted(test)]
    if not wanted or any("objects" in suites_of(test) for test in tests):
        return ["all"]
    needed = {i for test in tests for i in test["depends"]}
    return ["build.ninja"] + [os.path.relpath(file, BUILD / name) for target in introspect(name, "--targets")
            if target["id"] in needed for file in target["filename"]]


def tests_of(name):
    """{suite: number of meson tests}, benchmarks under `bench`."""
    counts = {}
    for what in ("--tests", "--benchmarks"):
        for test in introspect(name, what):
            for suite in suites_of(test) if what == "--tests" else ["bench"]:
                counts[suite] = counts.get(suite, 0) + 1
    return counts


def namespaces_work():
    probe = ["unshare", "--net", "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"]
    return subprocess.run(probe, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def reason_of(test):
    lines = [line.strip() for line in (test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()]
    skips = [line for line in lines if re.search(r"\b(skip|skipped|SKIP)\b", line)]
    lines = [line for line in lines if line]
    return (skips or lines or ["no reason given"])[-1]


def cmocka_functions(text):
    """[(name, result)] of a cmocka program's output; [] when it is no cmocka program."""
    found = re.findall(r"\[\s*(OK|FAILED|SKIPPED)\s*\]\s+(\w[\w./-]*)\s*$", text, re.M)
    # A failure is reported twice (when it happens and in the summary); group errors have no function.
    words = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    functions = {}
    for result, name in found:
        if RANK[words[result]] >= RANK[functions.get(name, "skipped")]:
            functions[name] = words[result]
    return list(functions.items())


def read_log(path, config, suite, results, netns_ok):
    for line in path.read_text(errors="replace").splitlines():
        test = json.loads(line)
        name = test["name"].split(" / ")[-1]
        output = test.get("stdout", "") + "\n" + test.get("stderr", "")
        outcome = test["result"]
        where = suite if suite != "threads" else "unit"
        if outcome in ("OK", "EXPECTEDFAIL"):
            for function, result in cmocka_functions(output) or [("", "passed")]:
                results.add(where, f"{name} {function}".rstrip(), result, f"{config}: {reason_of(test)}")
        elif outcome == "SKIP":
            result = "failed" if suite == "netns" and netns_ok else "skipped"
            results.add(where, name, result, f"{config}: {reason_of(test)}"
                        + (" (skipped although namespaces can be made here)" if result == "failed" else ""))
        else:
            bad = [f for f, r in cmocka_functions(output) if r == "failed"]
            for function, result in cmocka_functions(output):
                results.add(where, f"{name} {function}", result, f"{config}: {outcome}")
            if not bad:
                results.add(where, name, "failed", f"{config}: {outcome} after {test['duration']:.1f} s")


def run_suite(config, suite, results, netns_ok, options=()):
    base = f"run-{suite}"
    log = BUILD / config / "meson-logs" / f"{base}.json"
    log.unlink(missing_ok=True)
    jobs = 1 if suite in ("netns", "bench", "house", "gpu") else JOBS
    command = ["meson", "test", "-C", str(BUILD / config), "--no-rebuild", "--print-errorlogs",
               "--logbase", base, "--num-processes", str(jobs),
               "--timeout-multiplier", str(PATIENCE)]
    command += ["--benchmark", "--verbose"] if suite == "bench" else ["--suite", suite]
    command += [] if config == "gcc" else ["--no-suite", "measured"]
    command += options
    env = {"UBSAN_OPTIONS": "print_stacktrace=1", "HEDDLE_TEST_CONFIG": config}
    if config == "tsan":  # the sanitizer's fixed memory map does not survive much address randomisation
        command = ["setarch", "-R", *command]
    with Phase(f"{suite} ({config})"):
        code = run(command, env=env)
    if not log.exists():
        results.add(suite, f"meson test ({config})", "failed", f"exit status {code}, no log")
        return
    read_log(log, config, suite, results, netns_ok)
    if code in (124,):
        results.add(suite, f"meson test ({config})", "failed", "out of time")


def run_beside(configs, tidy, results):
    """Tests that need nothing of the network, when nothing else wants to run; files that clang-tidy found clean are not
    checked again by the suite house."""
    beside.idle = True
    threads = {"tsan": lambda test: "threads" in suites_of(test)}
    for config in configs:
        build(config, results, threads.get(config))
    if tidy:
        with Phase("clang-tidy, beside"):
            run([sys.executable, "tests/house/check_tidy.py", str(BUILD / "gcc")], BUILD / "tidy.log")


def run_all(wanted, results):
    others = ["asan"] if {"unit", "sim", "fuzz"} & set(wanted) else []
    others += ["tsan"] if "unit" in wanted else []
    netns_ok = namespaces_work()
    gcc = build("gcc", results)
    lane = threading.Thread(target=run_beside, args=(others, gcc and "house" in wanted, results), daemon=True)
    lane.start()
    if gcc and "netns" in wanted:
        run_tests("gcc", ["netns"], results, netns_ok)
    lane.join()
    for config in ["gcc", *others]:
        if results.passed("build", config):
            suites = [s for s in CONFIGS[config][2] if s == "threads" or (s in wanted and s != "netns")]
            run_tests(config, suites, results, netns_ok)


def run_tests(config, suites, results, netns_ok):
    have = tests_of(config)
    for suite in suites:
        if have.get(suite):
            run_suite(config, suite, results, netns_ok)
        elif config == "gcc" or suite == "threads":
            results.add(suite, f"suite ({config})", "failed", "the suite has no tests")


def run_quick(results):
    if not build("gcc", results, lambda test: "unit" in suites_of(test) and "slow" not in suites_of(test)):
        return
    for suite in QUICK:
        run_suite("gcc", suite, results, False, ["--no-suite", "slow"])


def run_named(config, names, results):
    """Tests, by what matches their names, in the order of the suites; a name that fits none fails."""
    def wanted(test):
        return any(fnmatch.fnmatchcase(test["name"], name) for name in names)
    if not build(config, results, wanted):
        return
    tests = [test for test in introspect(config, "--tests") if wanted(test)]
    for name in names:
        if not fnmatch.filter([test["name"] for test in tests], name):
            results.add("build", name, "failed", f"build/{config} has no test and no suite of this name (--list)")
    for suite in SUITES:
        mine = sorted({test["name"] for test in tests if suite in suites_of(test)})
        if mine:
            run_suite(config, suite, results, namespaces_work(), mine)


def show_list(config, results):
    with contextlib.redirect_stdout(sys.stderr):
        if not build(config, results, lambda test: False):
            return report(results)
    for suite in SUITES:
        what = "--benchmarks" if suite == "bench" else "--tests"
        for test in introspect(config, what):
            if suite in suites_of(test):
                print(f"{suite:8} {test['name']}{'  (not in --quick)' if 'slow' in suites_of(test) else ''}")
    return 0


def report(results):
    say("done")
    show_times()
    for suite in ["build", *SUITES]:
        mine = [r for (s, _), (r, _) in results.tests.items() if s == suite]
        if mine:
            print(f"   {suite:8} " + ", ".join(f"{mine.count(r)} {r}" for r in RANK if mine.count(r)))
    for wanted in ("skipped", "failed"):
        for (suite, name), (result, why) in sorted(results.tests.items()):
            if result == wanted:
                print(f"   {wanted}: {suite} {name}: {why}")
    counts = [results.count(r) for r in ("passed", "failed", "skipped")]
    print("{} passed, {} failed, {} skipped".format(*counts), flush=True)
    return 1 if counts[1] or not counts[0] else 0


COMMANDS = {  # tests/run NAME: its module, the words that come first, which tests' programs it needs (None: all)
    "seeds": (seeds, [], None),
    "pages": (pages, ["--all"], None),
    "torch2": (torch2, [], torch2.is_of_package),
}


def run_command(name, arguments):
    """Another program of tests/, in build/gcc."""
    module, words, wanted = COMMANDS[name]
    if {"-h", "--help"} & set(arguments):
        return module.main(["build", "--help"])
    results = Results()
    if not build("gcc", results, wanted):
        return report(results)
    return module.main([str(BUILD / "gcc"), *words, *arguments])


def main():
    if sys.argv[1:] and sys.argv[1] in COMMANDS:
        return run_command(sys.argv[1], sys.argv[2:])
    if sys.argv[1:2] == ["faults"]:
        return faults.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="tests/run", description=__doc__.splitlines()[0],
                                     epilog="Also: tests/run seeds, faults, pages and torch2, each with --help")
    parser.add_argument("what", nargs="*", metavar="SUITE | TEST",
                        help=f"suites: {' '.join(SUITES)} (default: all but bench); or tests by name, with * and ?")
    parser.add_argument("--quick", action="store_true", help="house and unit, in minutes: gcc, and nothing slow")
    parser.add_argument("--list", action="store_true", help="the tests that there are, by suite")
    parser.add_argument("--config", choices=[name for name, row in CONFIGS.items() if row[2]],
                        help="the build that tests by name run in (gcc)")
    options = parser.parse_args()
    suites = [what for what in options.what if what in SUITES]
    named = options.what and not suites
    if suites and suites != options.what:
        other = next(what for what in options.what if what not in SUITES)
        parser.error(f"{other}: not one of {' '.join(SUITES)}, as the others")
    if options.quick and options.what:
        parser.error("--quick: with no SUITE and no TEST")
    if options.config and not (named or options.list):
        parser.error("--config: for tests by name, or --list")
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    results = Results()
    if options.list:
        return show_list(options.config or "gcc", results)
    if options.quick:
        run_quick(results)
    elif named:
        run_named(options.config or "gcc", options.what, results)
    else:
        run_all(suites or DEFAULT, results)
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
