#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether each command prints what the pages say that it prints, to the last digit.

    tests/run pages [OPTIONS] [WORD...]    every block, in build/gcc; WORD: of commands or pages that contain it
    tests/pages.py BUILD [OPTIONS] [WORD...]    in a tree that is built

A block of a page (README.md, CONTRIBUTING.md, docs/) whose digits are the same at each run stands behind a line

    <!-- prints: COMMAND -->          and the suite golden compares it
    <!-- prints in N s: COMMAND -->   the same, but it takes N processor seconds: only `tests/run pages` compares it
    <!-- prints -->                   COMMAND is the block's own first line, after `$ ` (as many as end in a backslash)

COMMAND runs in the project's folder, without a shell; NAME=VALUE may stand before it, and build/ is the build folder.
In the block a line `...` stands for any lines, and ` ...` at a line's end for its rest (times, say). With --write the
blocks that differ are printed again.
"""
import argparse
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"<!-- prints(?: in (?P<seconds>\d+) s)?(?:: (?P<command>.+?))? *-->$")
LOOKS_LIKE_MARK = re.compile(r"<!--\s*prints")
ASSIGNMENT = re.compile(r"\w+=")
LEFT_OUT, REST_LEFT_OUT = "...", " ..."
PATIENCE_S = 7200  # against a hang
SHOWN_MAX = 40  # lines of a difference
# Each of these prints the same digits at each run, so it has a block at least.
REPEATABLE = ("build/controller/heddle-plan", "build/controller/heddlectl", "build/testbed/heddle-sim",
              "build/tests/bench/bench_credits", "build/tests/bench/bench_grouping", "build/tests/bench/bench_replica",
              "build/tests/bench/bench_shards", "build/tests/bench/bench_sparse")


class Wrong(Exception):
    """An error in a page: a line of text."""


class Block:
    """One marked block: lines[first:last] of its page are compared; `words` are its command."""

    def __init__(self, page, lines, at):
        self.page, self.mark = page, at + 1
        found = MARK.fullmatch(lines[at].strip())
        if not found:
            raise Wrong(f"{page}:{at + 1}: {lines[at].strip()}: not `<!-- prints: COMMAND -->`")
        self.seconds = int(found["seconds"]) if found["seconds"] else None
        fence = at + 1
        if not lines[fence:fence + 1] or not lines[fence].startswith("```"):
            raise Wrong(f"{page}:{at + 1}: no block begins in the next line")
        self.first = fence + 1
        self.last = next((k for k in range(self.first, len(lines)) if lines[k].startswith("```")), None)
        if self.last is None:
            raise Wrong(f"{page}:{fence + 1}: the block does not end")
        typed = self.take_typed(lines)
        self.words = shlex.split(found["command"]) if found["command"] else typed
        if not self.words or self.first == self.last:
            raise Wrong(f"{page}:{at + 1}: no command, or nothing that it prints")
        if found["command"] and typed and typed[1:] != self.words[1:]:
            raise Wrong(f"{page}:{at + 1}: the block's `$ ` has other words than the mark's command")

    def take_typed(self, lines):
        """Words behind `$ `; the block then begins after them."""
        text = ""
        if lines[self.first].startswith("$ "):
            text = lines[self.first][2:]
            self.first += 1
            while text.endswith("\\"):
                text = text[:-1] + " " + lines[self.first].strip()
                self.first += 1
        return shlex.split(text)


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page, text):
    lines = text.splitlines()
    return [Block(page, lines, at) for at, line in enumerate(lines) if LOOKS_LIKE_MARK.match(line.strip())]


def resolve(words, build):
    """(environment, command line) of a block's words; Wrong when its program or a file of the tree is not there."""
    count = next((k for k, word in enumerate(words) if not ASSIGNMENT.match(word)), len(words))
    environment = dict(word.split("=", 1) for word in words[:count])
    command = list(words[count:])
    if not command:
        raise Wrong(f"{shlex.join(words)}: no program")
    if "/" not in command[0]:
        command[0] = next((name for name in REPEATABLE if name.endswith("/" + command[0])), command[0])
    program = build / command[0].removeprefix("build/") if command[0].startswith("build/") else ROOT / command[0]
    if not (program.is_file() and os.access(program, os.X_OK)):
        raise Wrong(f"{shlex.join(words)}: no program {command[0]}")
    for word in command[1:]:
        if "/" in word and word.endswith((".json", ".csv")) and not (ROOT / word).is_file():
            raise Wrong(f"{shlex.join(words)}: no file {word}")
    return environment, [str(program), *command[1:]]


def run(words, build):
    """(lines that it prints, processor seconds)"""
    environment, command = resolve(words, build)
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        before = os.times()
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False,
                              timeout=PATIENCE_S, env={**os.environ, **environment})
        after = os.times()
        out.seek(0)
        err.seek(0)
        if done.returncode != 0:
            raise Wrong(f"{shlex.join(words)}: status {done.returncode}: {err.read().strip()[-500:]}")
        lines = [line.rstrip() for line in out.read().splitlines()]
    return lines, sum(after[2:4]) - sum(before[2:4])


def parts_of(wanted):
    """The runs of lines between lines that stand for any."""
    parts = [[]]
    for line in wanted:
        if line == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def fits(wanted, printed):
    """Whether lines of a page are these printed ones."""
    return len(wanted) == len(printed) and all(
        line == word or line.endswith(REST_LEFT_OUT) and word.startswith(line.removesuffix(REST_LEFT_OUT))
        for line, word in zip(wanted, printed))


def first_missing(wanted, printed):
    """The first run of lines that is not where it should be in what is printed; None: all are."""
    head, *middle, tail = parts_of(wanted) if LEFT_OUT in wanted else [wanted, None]
    if tail is None:
        return None if fits(wanted, printed) else wanted
    if not fits(head, printed[:len(head)]):
        return head
    at = len(head)
    for part in middle:
        at = next((k + len(part) for k in range(at, len(printed) - len(part) + 1)
                   if fits(part, printed[k:k + len(part)])), None)
        if at is None:
            return part
    return None if len(printed) - len(tail) >= at and fits(tail, printed[len(printed) - len(tail):]) else tail


def compare(block, lines, printed):
    """The difference, as text; '' if there is none."""
    wanted = [line.rstrip() for line in lines[block.first:block.last]]
    missing = first_missing(wanted, printed)
    if missing is None:
        return ""
    shown = list(difflib.unified_diff(missing, printed, "page", "printed", lineterm="", n=1))
    return "\n".join(shown[:SHOWN_MAX])


def write(page, lines, block, printed):
    """Replaces the block; the lines behind it move."""
    lines[block.first:block.last] = printed
    page.write_text("\n".join(lines) + "\n")


def judge(page, results, options):
    """(blocks compared, problems) of one page; `results`: what each command printed, or what was wrong."""
    text = page.read_text()
    lines, compared, problems = text.splitlines(), 0, []
    try:
        blocks = blocks_of(page.relative_to(ROOT), text)
    except Wrong:
        return 0, []  # collect() has told
    for block in reversed(blocks):  # --write moves what stands behind
        if tuple(block.words) not in results:
            continue
        compared += 1
        printed = results[tuple(block.words)]
        where = f"{block.page}:{block.mark}: {shlex.join(block.words)}"
        if isinstance(printed, Wrong):
            problems.append(f"{block.page}:{block.mark}: {printed}")
            continue
        differs = compare(block, lines, printed)
        if differs and options.write and not any(line.endswith(LEFT_OUT) for line in lines[block.first:block.last]):
            write(page, lines, block, printed)
            print(f"{where}: written")
        elif differs:
            problems.append(f"{where}: prints something else\n{differs}")
    return compared, problems


def is_wanted(block, options):
    words = [*map(str, options.words)]
    if words:
        return any(word in shlex.join(block.words) or word in str(block.page) for word in words)
    return options.all or block.seconds is None


def collect(options):
    """(commands to run, problems of marks and of commands that are not there)"""
    commands, seen, problems = {}, set(), []
    for page in pages():
        try:
            for block in blocks_of(page.relative_to(ROOT), page.read_text()):
                _, command = resolve(block.words, options.build)
                seen.add(command[0])
                if is_wanted(block, options):
                    commands[tuple(block.words)] = None
        except Wrong as wrong:
            problems.append(f"{page.relative_to(ROOT)}: {wrong}")
    problems += [f"{name}: no page has a block that says what it prints" for name in REPEATABLE
                 if str(options.build / name.removeprefix("build/")) not in seen]
    return list(commands), problems


def run_one(words, build):
    try:
        printed, seconds = run(words, build)
    except (Wrong, subprocess.TimeoutExpired) as wrong:
        return words, wrong if isinstance(wrong, Wrong) else Wrong(str(wrong)), 0
    print(f"{seconds:6.1f} s of processors: {shlex.join(words)}", flush=True)
    return words, printed, seconds


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run pages", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve(), help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--all", action="store_true", help="those that take long, too (tests/run pages: always)")
    parser.add_argument("--write", action="store_true", help="print again the blocks that differ")
    return parser.parse_intermixed_args(arguments)


def main(arguments):
    options = parse(arguments)
    commands, problems = collect(options)
    results, compared, seconds = {}, 0, 0.0
    # One at a time: a process's seconds are what its parent's children have used.
    for words in commands:
        _, results[words], took = run_one(words, options.build)
        seconds += took
    for page in pages():
        count, wrong = judge(page, results, options)
        compared += count
        problems += wrong
    for problem in problems:
        print(problem)
    print(f"{compared} blocks of {len(commands)} commands compared in {seconds:.0f} s of processors, "
          f"{len(problems)} problems")
    return 1 if problems or not compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
