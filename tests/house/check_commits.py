#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Subjects of commits are `component: lowercase imperative`, up to 60 characters: those since this check is here, 200
at most. Skips where there is no history, or only that of a repository around a tarball."""
import re
import subprocess
import sys

from house import ROOT, finish

SUBJECT = re.compile(r"[a-z0-9][\w./-]*(, [a-z0-9][\w./-]*)*: \S.*[^.\s]")
# After the colon: no capital, but for a name (EAL, LEAF's, Ctrl-C).
CAPITAL = re.compile(r": [A-Z][a-z]+( |$)")
CHARACTERS_MAX = 60
COMMITS_MAX = 200


def git(*words):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)


def problems_of(subject):
    if len(subject) > CHARACTERS_MAX:
        yield f"{len(subject)} characters (limit {CHARACTERS_MAX})"
    if not SUBJECT.fullmatch(subject):
        yield "is not `component: what it does`"
    elif CAPITAL.search(subject):
        yield "has a capital after the colon"


def main():
    found = git("log", "--diff-filter=A", "--format=%H", "--", "tests/house/check_commits.py")
    if found.returncode != 0 or not found.stdout:
        print("skipped: no git history here")
        sys.exit(77)
    since = [f"{found.stdout.split()[-1]}^!", "HEAD"]
    log = git("log", "--no-merges", f"--max-count={COMMITS_MAX}", "--format=%h %s", *since)
    problems = []
    lines = log.stdout.splitlines()
    for line in lines:
        commit, _, subject = line.partition(" ")
        problems += [f"{commit} {subject}: {problem}" for problem in problems_of(subject)]
    finish("commits", problems, len(lines))


if __name__ == "__main__":
    main()
