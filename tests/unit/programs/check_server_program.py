#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-server as a process: its messages and exit codes, a job through libheddle, the checkpoint of its end, the next
incarnation, damage, and how little it does when there is nothing to do.

usage: check_server_program.py HEDDLE_SERVER LIBHEDDLE SANITIZE"""
import ctypes
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from processes import Program, run

SERVER, LIBRARY, SANITIZE = sys.argv[1:4]
VALUES = 5000
EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_CANTCREAT = 64, 65, 66, 69, 73


def fails_with(code, words, *arguments):
    done = run(SERVER, *arguments)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}, not {code}: {done.stderr}"
    assert done.stderr.startswith("heddle-server: ") or code == EX_USAGE, done.stderr
    assert words in done.stderr, f"{arguments}: '{words}' is not in: {done.stderr}"


def start(directory, *arguments):
    program = Program(SERVER, "--listen", "127.0.0.1:0", "--key-file", f"{directory}/key", "--checkpoint-dir",
                      f"{directory}/checkpoints", "--host", "ps", *arguments, stderr=subprocess.PIPE)
    assert program.first.startswith("ready 127.0.0.1:"), program.first
    return program, program.address


class Status(ctypes.Structure):
    """struct heddle_status."""
    _fields_ = [("size", ctypes.c_size_t), *[(name, ctypes.c_int) for name in (
        "state", "reason", "direction", "released", "granted")], *[(name, ctypes.c_uint32) for name in (
            "round", "delay", "workers")], *[(name, ctypes.c_uint64) for name in (
                "base", "version", "bytes", "started_ns", "ended_ns")], ("scale", ctypes.c_float)]


class Worker:
    """One worker of the job through libheddle."""

    def __init__(self, directory, address):
        os.environ.update(HEDDLE_SERVER=address, HEDDLE_KEY_FILE=f"{directory}/key", HEDDLE_RANK="0")
        self.library = ctypes.CDLL(LIBRARY)
        self.library.heddle_spec_add_tensor.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                                        ctypes.c_size_t, ctypes.c_int, ctypes.c_float]
        self.library.heddle_last_error.restype = ctypes.c_char_p
        self.model = (ctypes.c_float * VALUES)()
        self.version = ctypes.c_uint64()
        self.spec, self.fabric = ctypes.c_void_p(), ctypes.c_void_p()
        dimensions = (ctypes.c_uint64 * 1)(VALUES)
        assert self.library.heddle_spec_create(b"team", b"program", ctypes.byref(self.spec)) == 0
        assert self.library.heddle_spec_add_tensor(self.spec, b"w", dimensions, 1, 1, 0.5) == 0
        assert self.library.heddle_open(self.spec, None, ctypes.byref(self.fabric)) == 0
        self.joined = self.library.heddle_wait_joined(self.fabric, 10000, None, None)

    def pull(self):
        status = Status(size=ctypes.sizeof(Status))
        assert self.library.heddle_pull(self.fabric, self.model, None, 10000, ctypes.byref(status)) == 0
        self.version.value = status.version
        return self.version.value & ((1 << 48) - 1), self.version.value >> 48

    def push(self, value):
        data = (ctypes.c_float * VALUES)(*([value] * VALUES))
        return self.library.heddle_push(self.fabric, data, self.version, None, 10000, None)

    def error(self):
        return self.library.heddle_last_error().decode()

    def close(self):
        self.library.heddle_close(self.fabric, 2000)
        self.library.heddle_spec_destroy(self.spec)


def check_words(directory):
    key = f"{directory}/key"
    done = run(SERVER, "--help")
    assert done.returncode == 0 and "--checkpoint-dir" in done.stdout and not done.stderr
    fails_with(EX_USAGE, "--key-file", "--listen", "127.0.0.1")
    fails_with(EX_USAGE, "no-such", "--no-such")
    fails_with(EX_USAGE, "takes no arguments", "--key-file", key, "more")
    fails_with(EX_USAGE, "--memory: '12Q'", "--key-file", key, "--memory", "12Q")
    fails_with(EX_USAGE, "--checkpoint-commits: '-3'", "--key-file", key, "--checkpoint-commits", "-3")
    fails_with(EX_USAGE, "--listen", "--key-file", key, "--listen", "999.1.2.3.4:x")
    fails_with(EX_NOINPUT, "--key-file", "--key-file", f"{directory}/none")
    pathlib.Path(f"{directory}/bad").write_text("1 abc\n")
    fails_with(EX_DATAERR, "line 1", "--key-file", f"{directory}/bad")
    fails_with(EX_CANTCREAT, "--checkpoint-dir", "--key-file", key, "--listen", "127.0.0.1:0",
               "--checkpoint-dir", f"{directory}/bad")
    fails_with(EX_CANTCREAT, "--report-dir", "--key-file", key, "--listen", "127.0.0.1:0",
               "--report-dir", f"{directory}/none/reports")
    fails_with(EX_CANTCREAT, "--events", "--key-file", key, "--listen", "127.0.0.1:0", "--events",
               f"{directory}/none/events")


def check_idle(process):
    def ticks():
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(1)
    assert ticks() - before <= 2, "an idle server takes more than 2 % of a core"


def main():
    directory = tempfile.mkdtemp(prefix="heddle-server-")
    pathlib.Path(f"{directory}/key").write_text(f"1 {secrets.token_hex(32)}\n")
    check_words(directory)
    if SANITIZE != "none":
        shutil.rmtree(directory)
        print("skipped: Python cannot load a library with a sanitizer in it (b_sanitize=none is needed)")
        sys.exit(77)

    process, address = start(directory, "--events", f"{directory}/events", "--checkpoint-commits", "1000")
    fails_with(EX_UNAVAILABLE, "in use", "--key-file", f"{directory}/key", "--listen", address)
    worker = Worker(directory, address)
    assert worker.joined == 0, worker.error()
    for round_ in range(5):
        assert worker.pull()[0] == round_
        assert worker.push(0.01) == 0
    counter, incarnation = worker.pull()
    model = bytes(worker.model)
    assert counter == 5
    check_idle(process.process)
    # One more by mistake does not touch the first one's log.
    fails_with(EX_UNAVAILABLE, "in use", "--key-file", f"{directory}/key", "--listen", address, "--events",
               f"{directory}/events")
    errors = process.stop()
    worker.close()
    events = [json.loads(line) for line in pathlib.Path(f"{directory}/events").read_text().splitlines()]
    assert sum(e["event"] == "committed" for e in events) == 5
    assert events[-1]["event"] == "durable" or any(e["event"] == "durable" for e in events)
    assert "job team/program: all workers left after" in errors and "5 applied" in errors, errors
    reports = list(pathlib.Path(f"{directory}/checkpoints").glob("*.report.json"))
    assert len(reports) == 1, reports
    report = json.loads(reports[0].read_text())
    assert (report["tenant"], report["job"], report["applied"]) == ("team", "program", 5), report
    assert report["rounds"] == 5 and report["dropped"] == report["failed"] == {}, report
    assert report["durable"] == report["version"] == {"incarnation": incarnation, "count": 5}, report
    assert report["staleness"]["mean"] == 1 and report["staleness"]["variance"] == 0, report
    assert [w["applied"] for w in report["workers"]] == [5], report
    reports[0].unlink()
    files = sorted(pathlib.Path(f"{directory}/checkpoints").glob("*.safetensors"))
    assert len(files) == 1 and files[0].suffix == ".safetensors", files

    # The next incarnation goes on where this one ended.
    process, address = start(directory)
    worker = Worker(directory, address)
    assert worker.joined == 0, worker.error()
    assert worker.pull() == (5, incarnation + 1)
    assert bytes(worker.model) == model
    assert worker.push(0.02) == 0
    process.stop()
    worker.close()

    # Damage to the newest: said, and the one before it is used.
    files = sorted(pathlib.Path(f"{directory}/checkpoints").glob("*.safetensors"))
    assert len(files) == 2, files
    damaged = bytearray(files[-1].read_bytes())
    damaged[-1] ^= 1
    files[-1].write_bytes(damaged)
    process, address = start(directory)
    worker = Worker(directory, address)
    assert worker.pull() == (5, incarnation + 2)
    worker.close()
    errors = process.stop(signal.SIGINT)
    assert files[-1].name in errors and "used instead" in errors, errors

    # All damaged: the job is refused in words, the server goes on.
    for file in pathlib.Path(f"{directory}/checkpoints").glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-4])
    process, address = start(directory)
    worker = Worker(directory, address)
    assert worker.joined < 0 and "restored" in worker.error(), worker.error()
    worker.close()
    errors = process.stop()
    assert "all checkpoints of this job are damaged" in errors, errors
    shutil.rmtree(directory)
    print("heddle-server: words, life, restart and damage are as they should be")


main()
