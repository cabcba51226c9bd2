# SPDX-License-Identifier: BSD-3-Clause
"""Checks this host's set-up: what is wrong, and what to type."""
import argparse
import json
import os
import pathlib
import stat
import sys

from . import errors, native, version
from .job import Job

GOOD, BAD, NOTE = "ok", "wrong", "note"
BUFFER_BYTES = 8 << 20  # the library asks for so much; the kernel grants rmem_max at most
JOB = "heddle-doctor"


def check_library():
    """The library is there, or this module would not have been imported."""
    return GOOD, f"libheddle {version()} ({native.C._name})"


def check_address():
    controller, server = os.environ.get("HEDDLE_CONTROLLER"), os.environ.get("HEDDLE_SERVER")
    if controller:
        return GOOD, f"controller {controller}"
    if server:
        return NOTE, f"no controller: only the server {server}, without scheduling and all-reduce"
    return BAD, "no controller: export HEDDLE_CONTROLLER=ADDRESS[:PORT] (heddle-run sets it)"


def check_key():
    path = os.environ.get("HEDDLE_KEY_FILE")
    if not path:
        return BAD, "no key file: export HEDDLE_KEY_FILE=PATH, a copy of the file that the controller reads"
    try:
        mode = os.stat(path).st_mode
        pathlib.Path(path).read_bytes()
    except OSError as error:
        return BAD, f"key file {path}: {error.strerror}"
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return NOTE, f"other users may read the key file: chmod 600 {path}"
    return GOOD, f"key file {path}"


def check_answer(timeout_s):
    if not os.environ.get("HEDDLE_CONTROLLER"):
        return None
    try:
        with Job(JOB, observe=True) as job:
            job.wait_joined(timeout_s)
    except errors.TimedOut:
        return BAD, (f"no answer within {timeout_s:g} s: is heddle-controller running there, is the key the same, and "
                     "does a firewall pass its UDP port?")
    except errors.Error as error:
        return BAD, f"the controller can't be used: {error.strerror}"
    return GOOD, "the controller answers, and knows the key"


def check_buffers():
    try:
        granted = int(pathlib.Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        return None
    if granted < BUFFER_BYTES:
        return NOTE, f"small receive buffers: sysctl -w net.core.rmem_max={BUFFER_BYTES}  (now {granted})"
    return GOOD, f"receive buffers up to {granted >> 10} KiB"


def check_torch():
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        return NOTE, "PyTorch is not installed: heddle.torch can't be used"
    return GOOD, f"PyTorch {torch.__version__}"


def main(words=None):
    parser = argparse.ArgumentParser(prog="python3 -m heddle", description="Heddle's Python package")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help=__doc__, description=__doc__)
    doctor.add_argument("--json", action="store_true", help="one JSON array of objects: check, result, text")
    doctor.add_argument("--timeout", type=float, default=3.0, metavar="S",
                        help="how long to wait for the controller, in seconds (3)")
    commands.add_parser("version", help="the library's version")
    options = parser.parse_args(words)
    if options.command == "version":
        print(version())
        return 0
    checks = {"library": check_library(), "address": check_address(), "key": check_key(), "buffers": check_buffers(),
              "torch": check_torch()}
    if not any(found and found[0] == BAD for found in checks.values()):
        checks["controller"] = check_answer(options.timeout)
    rows = [{"check": name, "result": found[0], "text": found[1]} for name, found in checks.items() if found]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(f"{row['result']:6} {row['check']:10} {row['text']}")
    return os.EX_CONFIG if any(row["result"] == BAD for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
