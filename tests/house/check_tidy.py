#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over every compiled source, one on each processor, within a time limit; a warning fails.

usage: check_tidy.py BUILD_DIR [LIMIT_S] [--deep]
The analyzer leaves a function after 75,000 states, as its own shallow mode does, and does not look at tests: they run
under the sanitizers. --deep: it looks at tests too, and leaves a function after three times as many
states, which takes four times as long. A source that reads the same as in an earlier clean run of that depth, its
headers included, is not looked at again."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

from house import ROOT, finish

DEEP = "--deep" in sys.argv
STATES = 225000 if DEEP else 75000  # of a function: the analyzer's defaults
RULES = (ROOT / ".clang-tidy").read_bytes() + pathlib.Path(__file__).read_bytes()


def commands_of(build):
    """{source: its entry of the compile commands}; one of a source that several programs compile."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".c" and path.is_relative_to(ROOT) and not path.is_relative_to(build):
            commands.setdefault(path, entry)
    return commands


def digest(entry):
    """Of what clang-tidy sees of a source: its text with all headers and comments, flags and checks."""
    words, command = iter(shlex.split(entry["command"])), []
    for word in words:
        if word in ("-o", "-MQ", "-MF"):
            next(words)
        elif word not in ("-c", "-MD", "ccache"):
            command.append(word)
    done = subprocess.run([*command, "-E", "-CC"], cwd=entry["directory"], stdin=subprocess.DEVNULL,
                          capture_output=True, check=True)
    return hashlib.sha256(RULES + f"{STATES} {' '.join(command)}".encode() + done.stdout).hexdigest()


def tidy(build, folder, path):
    """Its findings; the folder has the compile commands, one of each source: clang-tidy reads a source once for each
    that it finds, and what the analyzer knows of va_start() and va_end() is wrong from the second time on."""
    command = ["nice", "clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", str(folder),
               "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument",
               *(f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={STATES}")),
               *([] if DEEP or not path.is_relative_to(ROOT / "tests") else ["--checks=-clang-analyzer-*"]), str(path)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    found = [line.split(":", 1) for line in done.stdout.splitlines() if re.search(" (error|warning): ", line)]
    found = [((build / file).resolve(), rest) for file, rest in found]
    ours = [f"{os.path.relpath(file, ROOT)}:{rest}" for file, rest in found if not file.is_relative_to(build)]
    if found and not ours:  # of a text that a tool generated
        return []
    return ours or [f"{path}: {done.stdout}{done.stderr}"]


def main():
    words = [word for word in sys.argv[1:] if word != "--deep"]
    build = pathlib.Path(words[0]).resolve()
    limit_s = float(words[1]) if len(words) > 1 else 1500
    ends = time.monotonic() + limit_s
    commands = commands_of(build)
    seen = build / "tidy-seen"
    seen.mkdir(exist_ok=True)
    (seen / "compile_commands.json").write_text(json.dumps(list(commands.values())))

    def check(item):
        path, entry = item
        stamp = seen / digest(entry)
        if stamp.exists():
            return []
        if time.monotonic() > ends:
            return [f"{path.relative_to(ROOT)}: not reached within {limit_s:.0f} s"]
        problems = tidy(build, seen, path)
        if not problems:
            stamp.touch()
        return problems

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(check, sorted(commands.items(), key=lambda item: item[0])))
    finish("clang-tidy", sorted({p for problems in found for p in problems}), len(commands))


if __name__ == "__main__":
    main()
