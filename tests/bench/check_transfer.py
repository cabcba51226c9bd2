#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_transfer over the loopback interface: all of it arrives, and neither end leaves memory behind, also when it is
ended in the middle (where the build has AddressSanitizer, that is an exit code).

usage: check_transfer.py BENCH_TRANSFER"""
import atexit
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "unit/programs"))

from processes import DEADLINE_S, check  # noqa: E402

BENCH = sys.argv[1]
BYTES, COUNT = 1000000, 3


def start(address, words, *more):
    program = subprocess.Popen([BENCH, *words, address, "--bytes", str(BYTES), *map(str, more)], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    atexit.register(program.kill)  # also when a check fails
    first = program.stdout.readline()
    check(first == "ready\n", f"{words}: {first!r}")
    return program


def ended(program, number=None):
    """The program's report."""
    if number:
        program.send_signal(number)
    output, errors = program.communicate(timeout=DEADLINE_S)
    check(program.returncode == 0, f"{program.args}: exit code {program.returncode}: {errors}")
    return json.loads(output)


def main():
    number = os.getpid()  # an address of its own for each that runs at the same time
    address = f"127.{number >> 14 & 255}.{number >> 7 & 127}.{(number & 127) + 1}:4773"
    receiver = start(address, ["recv", "--listen"])
    sender = start(address, ["send", "--peer"], "--count", COUNT)
    for end in (ended(sender), ended(receiver, signal.SIGTERM)):
        check(end["done"] == COUNT, f"all of them: {end}")
    receiver = start(address, ["recv", "--listen"])
    sender = start(address, ["send", "--peer"], "--count", COUNT, "--rate-mbps", 1, "--seconds", 0.5)
    for end in (ended(sender), ended(receiver, signal.SIGTERM)):
        check(end["done"] == 0 and end["goodput_mbps"] > 0, f"in the middle of the first: {end}")


main()
