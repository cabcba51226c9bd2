#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM and SIGINT end every program from every wait: a silent peer, a stalled server, an incomplete step.

usage: check_signals.py BUILD_DIR [PART_OF_A_NAME]   needs no privileges. Real processes on the loopback interface;
keeps everything under one temporary folder, and ends only what it started.
"""
import concurrent.futures
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
from processes import catches, pending, processor_waits, state_of

BUILD = Path(sys.argv[1]).resolve()
PROGRAMS = {
    "controller": BUILD / "controller/heddle-controller", "server": BUILD / "aggregator/heddle-server",
    "aggregator": BUILD / "aggregator/heddle-aggregator", "agent": BUILD / "switch/heddle-switch-agent",
    "train": BUILD / "worker-lib/heddle-train", "run": BUILD / "worker-lib/heddle-run",
    "shell": BUILD / "controller/heddlectl", "plan": BUILD / "controller/heddle-plan",
    "switch": BUILD / "switch/heddle-switch", "sim": BUILD / "testbed/heddle-sim",
    "trace": BUILD / "testbed/heddle-trace", "tcp": BUILD / "testbed/heddle-tcp-ps",
}
LIMIT_S = 2  # from a signal to the end, without the time in which other processes have the processors
AT_ONCE_S = 0.5  # from the second one
PATIENCE_S = 20  # only guards against hangs
SETTLED_S, LOOK_S = 0.3, 0.02  # without work for so long, at each look: it waits
TOGETHER = 12  # cases at a time: they sleep

MODES = {
    "async": [],
    "synchronous": ["--synchronous"],
    "sync": ["--sync", "full"],
    "nsync": ["--sync", "nsync:9"],
    "nbatch": ["--sync", "nbatch:9"],
    "filter": ["--filter", "0.5", "--sync", "nsync:9"],
    "admm": ["--sync", "full", "--admm", "0.1"],
    "elastic": ["--shards", "live", "--scale-rate", "linear"],
    "federated": ["--federated", "clients=9,min=9"],
    "evaluate": ["--evaluate"],
}


class Case:
    """One program in one situation. A test is a function of it; what it starts ends with it."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder / re.sub(r"[^\w-]+", "-", name)
        self.folder.mkdir()
        self.key = processes.write_keys(str(self.folder))
        self.closing = contextlib.ExitStack()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}

    def fail(self, what):
        raise AssertionError(f"{self.name}: {what}")

    def check(self, good, what):
        if not good:
            self.fail(what)

    def until(self, holds, what):
        end = time.monotonic() + PATIENCE_S
        while True:
            found = holds()
            if found:
                return found
            self.check(time.monotonic() < end, what)
            time.sleep(0.02)

    # --- who does not answer ----------------------------------------------------------------------
    def silent(self, kind=socket.SOCK_DGRAM):
        """A port whose owner takes all packets and sends no answer."""
        quiet = self.closing.enter_context(socket.socket(socket.AF_INET, kind))
        quiet.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            quiet.listen(8)
        return f"127.0.0.1:{quiet.getsockname()[1]}"

    def nobody(self):
        """An unused port: the kernel reports that."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{probe.getsockname()[1]}"

    # --- processes --------------------------------------------------------------------------------
    def begin(self, program, *words, **more):
        log = self.closing.enter_context(open(self.folder / f"{program}.log", "ab"))
        out = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, "env": self.env}
        process = subprocess.Popen([str(PROGRAMS[program]), *map(str, words)], **{**out, **more})
        self.closing.callback(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()

    def said(self, program):
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def last_words(self):
        """Of each of its programs, for a failure's cause: a sanitizer's report is there."""
        return "\n".join(f"--- {log.name}:\n{log.read_text(errors='replace')}" for log in self.folder.glob("*.log"))

    def service(self, program, *words):
        """A program that says where it listens."""
        process = self.begin(program, "--listen", "127.0.0.1:0", "--key-file", self.key, *words)
        self.until(lambda: " 127.0.0.1:" in self.said(program) or process.poll() is not None, f"{program}: not ready")
        self.check(process.poll() is None, f"{program} ended: {self.said(program)}")
        return process, re.search(r"127[\d.]+:\d+", self.said(program))[0]

    def server(self, *words):
        return self.service("server", "--host", "ps", *words)

    def controller(self, *words):
        return self.service("controller", "--state-dir", self.folder, *words)

    def train(self, mode, *words, **where):
        self.env.update(HEDDLE_KEY_FILE=self.key, HEDDLE_RANK="0", HEDDLE_HOST="h1", HEDDLE_BIND="127.0.0.1",
                        HEDDLE_JOB="job", HEDDLE_EVENTS=str(self.folder / "worker.jsonl"),
                        OPENBLAS_NUM_THREADS="1")
        self.env.update({f"HEDDLE_{key.upper()}": value for key, value in where.items()})
        return self.begin("train", "--model", "mlp:16", "--quiet", *MODES[mode], *words)

    def joined(self, process):
        """Until the worker has joined its job."""
        log = self.folder / "worker.jsonl"
        words = ('"roster"', '"pulled"')
        self.until(lambda: process.poll() is not None or log.exists() and any(w in log.read_text() for w in words),
                   "it has not joined")
        self.check(process.poll() is None, f"it ended: {process.returncode}\n{self.said('train')}")

    # --- the end ----------------------------------------------------------------------------------
    def settled(self, process):
        """Until it is in its wait: its handlers are there, and it does nothing."""
        end = time.monotonic() + PATIENCE_S
        quiet, before = 0, None
        # By looks, not by time: on a busy machine that passes without one.
        while quiet < SETTLED_S / LOOK_S:
            now = state_of(process.pid)
            self.check(now, "it ended by itself")
            self.check(time.monotonic() < end, "it never waits: a busy loop?")
            # A process that sleeps may still wake for its timers: a tick of 10 ms is no work.
            if before is None or now[1] > before + 1 or now[0] != "S":
                quiet, before = 0, now[1]
            quiet += 1
            time.sleep(LOOK_S)

    def wait(self, process):
        """Until it ends. Returns the seconds that one of its threads has waited for a processor, the longest of all."""
        end, last = time.monotonic() + PATIENCE_S, {}
        first = processor_waits(process.pid)
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            self.check(time.monotonic() < end, "it does not end")
            time.sleep(LOOK_S)
            last.update(processor_waits(process.pid))
        return max((waited - first.get(thread, 0) for thread, waited in last.items()), default=0)

    def ends(self, process, number, codes, limit_s=LIMIT_S):
        begun = time.monotonic()
        process.send_signal(number)
        busy = self.wait(process)
        took = time.monotonic() - begun
        process.wait()
        self.check(took - busy < limit_s, f"it ended {took:.1f} s after signal {number} (limit {limit_s} s; "
                   f"{busy:.1f} s of it without a processor)")
        self.check(process.returncode in codes, f"exit status {process.returncode}, wanted {codes}")
        return took


# --- the trainer ------------------------------------------------------------------------------------

def waits_to_join(mode, kind):
    def test(case, number):
        where = {"no server": lambda: {"server": case.silent()},
                 "refused": lambda: {"server": case.nobody()},
                 "no controller": lambda: {"controller": case.silent()},
                 "controller alone": lambda: {"controller": case.controller()[1]}}[kind]()
        process = case.train(mode, **where)
        case.settled(process)
        return case.ends(process, number, [0])
    return test


def server_stands_still(mode):
    def test(case, number):
        server, address = case.server()
        process = case.train(mode, server=address)
        case.joined(process)
        server.send_signal(signal.SIGSTOP)
        case.settled(process)
        return case.ends(process, number, [0])
    return test


def step_is_not_complete(mode, scheduled):
    def test(case, number):
        where = {}
        if scheduled:
            where["controller"] = case.controller()[1]
            case.server("--controller", where["controller"])
        else:
            where["server"] = case.server()[1]
        process = case.train(mode, **where)
        case.joined(process)
        case.settled(process)
        return case.ends(process, number, [0])
    return test


def trains(mode):
    """In the middle of its steps."""
    def test(case, number):
        process = case.train(mode, server=case.server()[1])
        case.joined(process)
        return case.ends(process, number, [0])
    return test


def time_is_up(mode, stage_s):
    """It has done its part and waits for its transfers in flight, or to leave; there is no answer."""
    def test(case, number):
        server, address = case.server()
        process = case.train(mode, "--seconds", 1, "--compute-ms", 100, server=address)
        case.joined(process)
        server.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 1 + stage_s
        case.settled(process)
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.02)
        case.check(process.poll() is None, "it ended by itself before the signal came")
        return case.ends(process, number, [0])
    return test


def round_is_not_complete(case, number):
    """A client has done its part and leaves, which takes as long as the others of its round."""
    _, address = case.server()
    both = ["--federated", "clients=2,min=2", "--steps", 1]
    slow = case.train("async", *both, "--compute-ms", 60000, server=address, world_size="2", rank="1",
                      events=str(case.folder / "slow.jsonl"))
    process = case.train("async", *both, server=address, world_size="2", rank="0",
                         events=str(case.folder / "worker.jsonl"))
    log = case.folder / "worker.jsonl"
    case.until(lambda: log.exists() and '"pushed"' in log.read_text(), "it has pushed nothing")
    case.settled(process)
    case.check(slow.poll() is None, "the other client has ended")
    return case.ends(process, number, [0])


def computes(case, number):
    process = case.train("async", "--compute-ms", 60000, server=case.server()[1])
    case.joined(process)
    case.settled(process)
    return case.ends(process, number, [0])


def reads_its_data(case, number):
    """There is no writer of its data: there is nothing to leave yet."""
    data = case.folder / "data"
    os.mkfifo(data)
    process = case.train("async", "--data", f"svmlight:{data}", "--model", "logistic", server=case.silent())
    case.settled(process)
    return case.ends(process, number, [-number])


def trains_alone(case, number):
    process = case.train("async", "--local", "--seconds", 600, "--compute-ms", 60000)
    case.settled(process)
    return case.ends(process, number, [0])


def sleeps_between_evaluations(case, number):
    process = case.train("evaluate", "--every-ms", 60000, server=case.server()[1])
    case.joined(process)
    case.settled(process)
    return case.ends(process, number, [0])


def twice(case, number):
    """The second signal ends it at once, whatever it waits for."""
    server, address = case.server()
    process = case.train("nsync", server=address)
    case.joined(process)
    case.settled(process)
    server.send_signal(signal.SIGSTOP)
    process.send_signal(number)
    case.until(lambda: not catches(process.pid, number), "it has not taken the first one")
    return case.ends(process, number, [-number, 0], AT_ONCE_S)


def noticed(case, number):
    """With --grace SIGTERM is a notice; while it waits to join, too, the worker is gone in that time."""
    del number
    process = case.train("async", "--grace", 1, server=case.silent())
    case.settled(process)
    return case.ends(process, signal.SIGTERM, [0])


def seconds(mode):
    """--seconds ends a run that waits."""
    def test(case, number):
        begun = time.monotonic()
        process = case.train(mode, "--seconds", 1, server=case.server()[1])
        busy = case.wait(process)
        took = time.monotonic() - begun - busy
        # Transfers in flight have 5 s to end; then the worker leaves.
        case.check(took < 8, f"it ended after {took:.1f} s")
        case.check(process.wait() == 0, f"exit status {process.returncode}: {case.said('train')}")
        return took
    return test


def seconds_to_join(case, number):
    begun = time.monotonic()
    process = case.train("async", "--seconds", 1, server=case.silent())
    busy = case.wait(process)
    took = time.monotonic() - begun - busy
    case.check(took < 3, f"it ended after {took:.1f} s")
    case.check(process.wait() == os.EX_UNAVAILABLE, f"exit status {process.returncode}")
    return took


# --- heddle-run -------------------------------------------------------------------------------------

def run_waits(case, number):
    process = case.begin("run", "-n", 3, "--server", case.silent(), "--key-file", case.key, "--job", "job",
                         "--bind", "127.0.0.1", "--", PROGRAMS["train"], "--quiet", "--model", "mlp:16")
    children = case.until(lambda: children_of(process.pid, 3), "it has not started its processes")
    for child in children:
        case.until(lambda c=child: catches(c, number), "a process has not begun")
    took = case.ends(process, number, [128 + number])
    case.check(not any(state_of(child) for child in children), "a process is left")
    return took


def children_of(pid, count):
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [int(child) for child in found] if len(found) == count else None
    return None


def run_is_not_read(case, number):
    """The output of its processes is not read."""
    reader, writer = os.pipe()
    case.closing.callback(os.close, reader)
    process = case.begin("run", "-n", 1, "--job", "job", "--", "yes", stdout=writer)
    os.close(writer)
    case.settled(process)
    return case.ends(process, number, [128 + number])


def run_is_read_fast(case, number):
    """Its process says more than it can pass on: there is always something to read and room to write."""
    process = case.begin("run", "-n", 1, "--job", "job", "--", "yes", stdout=subprocess.DEVNULL)
    case.until(lambda: (state_of(process.pid) or ("", 0))[1] > 20, "it passes nothing on")
    return case.ends(process, number, [128 + number])


def run_is_read_slowly(case, number):
    """So slowly that what is written would take longer than the grace, but steadily."""
    reader = subprocess.Popen(["sh", "-c", "while sleep 0.1; do head -c 4096; done"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
    case.closing.callback(case.end, reader)
    case.closing.callback(reader.stdin.close)
    process = case.begin("run", "-n", 1, "--job", "job", "--grace-ms", 500, "--", "yes", stdout=reader.stdin)
    case.settled(process)
    return case.ends(process, number, [128 + number])


def run_has_left_one_behind(case, number):
    """Its process has ended, and what that left behind goes on to write: the run ends."""
    del number
    begun = time.monotonic()
    process = case.begin("run", "-n", 1, "--job", "job", "--", "sh", "-c",
                         "echo $$; setsid yes & sleep 0.2; printf last", stdout=subprocess.DEVNULL)
    process.wait(PATIENCE_S)
    case.check(process.returncode == 0, f"exit status {process.returncode}")
    return time.monotonic() - begun


def run_is_not_heard(case, number):
    """Its process heeds no signal: SIGKILL ends it after the grace, or with the second signal."""
    process = case.begin("run", "-n", 1, "--job", "job", "--grace-ms", 60000, "--", "sh", "-c",
                         "trap '' INT TERM; echo deaf; while :; do sleep 1; done")
    case.until(lambda: "deaf" in case.said("run"), "it has not started its process")
    case.settled(process)
    process.send_signal(number)
    case.until(lambda: not pending(process.pid, number), "it has not taken the first one")  # two would be one
    time.sleep(0.1)
    case.check(process.poll() is None, "its process was not given its grace")
    return case.ends(process, number, [128 + number], AT_ONCE_S)


# --- services ---------------------------------------------------------------------------------------

def service(name, *words, controller=None):
    def test(case, number):
        more = ["--controller", getattr(case, controller)()] if controller else []
        if name == "controller":
            more += ["--state-dir", case.folder]
        process, _ = case.service(name, *words, *more)
        case.settled(process)
        return case.ends(process, number, [0])
    return test


def server_with_members(case, number):
    """A worker stalls in the middle of a transfer."""
    process, address = case.server()
    worker = case.train("async", server=address)
    case.joined(worker)
    worker.send_signal(signal.SIGSTOP)
    return case.ends(process, number, [0])


def controller_with_members(case, number):
    process, address = case.controller()
    server, _ = case.server("--controller", address)
    worker = case.train("async", controller=address)
    case.joined(worker)
    worker.send_signal(signal.SIGSTOP)
    server.send_signal(signal.SIGSTOP)
    return case.ends(process, number, [0])


def agent(bridge):
    """Its bridge answers nothing."""
    def test(case, number):
        process = case.begin("agent", "--bridge", bridge, "--listen", case.nobody(), "--key-file", case.key,
                             "--controller", case.silent())
        case.settled(process)
        return case.ends(process, number, [0, -number, 128 + number])
    return test


# --- commands ---------------------------------------------------------------------------------------

def shell(*words, codes=(), interactive=False):
    """No answer comes."""
    def test(case, number):
        more = {}
        if interactive:
            reader, writer = os.pipe()
            case.closing.callback(os.close, writer)
            more["stdin"] = reader
        process = case.begin("shell", "--controller", case.silent(), "--key-file", case.key,
                             "--timeout-ms", PATIENCE_S * 1000, *words, **more)
        case.settled(process)
        return case.ends(process, number, [-number, *codes])
    return test


def shell_watches(case, _):
    """Ctrl-C ends the watch; the other signal has no handler."""
    _, address = case.controller()
    process = case.begin("shell", "--controller", address, "--key-file", case.key, "--interval-s", 60, "watch", "nodes")
    case.until(lambda: case.said("shell"), "it has shown nothing")
    case.settled(process)
    return case.ends(process, signal.SIGINT, [0])


def shell_watches_nobody(case, _):
    """The controller stalls, and a query is in flight."""
    controller, address = case.controller()
    process = case.begin("shell", "--controller", address, "--key-file", case.key, "--interval-s", 0.1,
                         "--timeout-ms", PATIENCE_S * 1000, "watch", "nodes")
    case.until(lambda: case.said("shell"), "it has shown nothing")
    controller.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # of which it asks after 0.1
    case.settled(process)
    return case.ends(process, signal.SIGINT, [0])


def reads(program, *words):
    """There is no writer of its input."""
    def test(case, number):
        reader, writer = os.pipe()
        case.closing.callback(os.close, writer)
        process = case.begin(program, *words, stdin=reader)
        os.close(reader)
        case.settled(process)
        return case.ends(process, number, [-number])
    return test


def forwards(case, number):
    """Its ports bring nothing."""
    process = case.begin("switch", "--service", case.nobody(), "--port", "net_null0", "--port", "net_null1",
                         "--controller", case.silent(), "--key-file", case.key)
    case.until(lambda: "ready 2" in case.said("switch") or process.poll() is not None, "it is not ready")
    return case.ends(process, number, [0])


def simulates(case, number):
    process = case.begin("sim", "--random", "--seeds", 100000, "--quiet")
    case.until(lambda: (state_of(process.pid) or ("", 0))[1] > 20, "it does not compute")
    return case.ends(process, number, [-number])


# --- the plain TCP server ---------------------------------------------------------------------------

def tcp(kind):
    def test(case, number):
        where = case.silent(socket.SOCK_STREAM) if kind == "silent" else case.nobody()
        words = ["--serve"] if kind == "serve" else ["--rank", 0, "--world", 1]
        process = case.begin("tcp", *words, "--model", "mlp:16", "--port", where.rsplit(":", 1)[1])
        case.settled(process)
        return case.ends(process, number, [0])
    return test


def cases():
    """Name, test."""
    for mode in ("async", "federated", "evaluate"):
        for kind in ("no server", "refused", "no controller", "controller alone"):
            yield f"train {mode}, {kind}", waits_to_join(mode, kind)
    for mode in MODES:
        yield f"train {mode}, stopped server", server_stands_still(mode)
        yield f"train {mode}, running", trains(mode)
    for mode in ("nsync", "nbatch", "filter", "federated"):
        yield f"train {mode}, incomplete step", step_is_not_complete(mode, False)
        yield f"train {mode}, incomplete step, planned", step_is_not_complete(mode, True)
        yield f"train {mode}, --seconds", seconds(mode)
    for mode in ("async", "filter", "nbatch"):  # with nbatch several are in flight
        yield f"train {mode}, last push", time_is_up(mode, 0.5)
    yield "train async, leaving", time_is_up("async", 5.5)
    yield "train federated, leaving", round_is_not_complete
    yield "train, reading its data", reads_its_data
    yield "train, computing", computes
    yield "train, alone", trains_alone
    yield "train, between evaluations", sleeps_between_evaluations
    yield "train, second signal", twice
    yield "train, notice while joining", noticed
    yield "train, --seconds while joining", seconds_to_join
    yield "run, waiting processes", run_waits
    yield "run, not read", run_is_not_read
    yield "run, read fast", run_is_read_fast
    yield "run, read slowly", run_is_read_slowly
    yield "run, left behind", run_has_left_one_behind
    yield "run, deaf process", run_is_not_heard
    yield "server, idle", service("server", "--host", "ps")
    yield "server, no controller", service("server", "--host", "ps", controller="silent")
    yield "server, members stopped", server_with_members
    yield "aggregator, no controller", service("aggregator", controller="silent")
    yield "controller, idle", service("controller")
    yield "controller, members stopped", controller_with_members
    yield "switch agent, silent bridge", agent("sleep 1000")
    yield "heddlectl, no answer", shell("show", "nodes")
    yield "heddlectl, command not answered", shell("set", "theta", "0.5")
    yield "heddlectl, interactive", shell(interactive=True)
    yield "heddlectl, watching", shell_watches
    yield "heddlectl, watching no controller", shell_watches_nobody
    if PROGRAMS["switch"].exists():  # where DPDK is
        yield "switch, idle ports", forwards
    yield "heddle-plan", reads("plan")
    yield "heddle-trace", reads("trace", "/dev/stdin")
    yield "heddle-sim", simulates
    for kind in ("serve", "silent", "no-server"):
        yield f"tcp-ps, {kind}", tcp(kind)


def play(name, test, number, folder):
    case = Case(f"{name}, {signal.Signals(number).name}", folder)
    try:
        with case.closing:
            return f"{case.name}: {test(case, number):.2f} s", None
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return None, f"{error}\n{case.last_words()}"


def main(cases):
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    failures = []
    with tempfile.TemporaryDirectory(prefix="heddle-signals-") as folder:
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            # One handler takes both signals: every second case gets the other one.
            found = [pool.submit(play, name, test, (signal.SIGTERM, signal.SIGINT)[i % 2], Path(folder))
                     for i, (name, test) in enumerate(cases()) if part in name]
            for future in found:
                good, bad = future.result()
                print(good or f"FAILED: {bad}", flush=True)
                if bad:
                    failures.append(bad)
    processes.check(not failures, f"{len(failures)} of {len(found)} cases")


if __name__ == "__main__":
    main(cases)
