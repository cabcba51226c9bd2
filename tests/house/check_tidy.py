#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over every compiled source, two at a time, within a time limit; a warning fails.

usage: check_tidy.py BUILD_DIR [LIMIT_S]
A source whose text, headers, flags and checks are those of an earlier clean run is not read again."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

from house import ROOT, finish, sources


def commands_of(build):
    """{source: its compile command}; a source that is compiled twice is checked once."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".c" and path.is_relative_to(ROOT) and not path.is_relative_to(build):
            commands.setdefault(path, entry["command"])
    return commands


def headers_digest():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + pathlib.Path(__file__).read_bytes())
    for header in sources(".h"):
        digest.update(str(header).encode() + (ROOT / header).read_bytes())
    return digest.digest()


def tidy(build, path):
    command = ["nice", "clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", str(build),
               "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument",
               str(path)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    lines = [line for line in done.stdout.splitlines() if " error: " in line or " warning: " in line]
    return [line.replace(f"{ROOT}/", "") for line in lines] or [f"{path}: {done.stdout}{done.stderr}"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    limit_s = float(sys.argv[2]) if len(sys.argv) > 2 else 1500
    ends = time.monotonic() + limit_s
    commands = commands_of(build)
    seen = build / "tidy-seen"
    seen.mkdir(exist_ok=True)
    common = headers_digest()

    def check(item):
        path, command = item
        stamp = seen / hashlib.sha256(common + command.encode() + path.read_bytes()).hexdigest()
        if stamp.exists():
            return []
        if time.monotonic() > ends:
            return [f"{path.relative_to(ROOT)}: not reached within {limit_s:.0f} s"]
        problems = tidy(build, path)
        if not problems:
            stamp.touch()
        return problems

    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        found = list(pool.map(check, sorted(commands.items())))
    finish("clang-tidy", sorted({p for problems in found for p in problems}), len(commands))


if __name__ == "__main__":
    main()
