# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the house checks: the tracked files, and how a check ends."""
import functools
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@functools.cache
def tracked():
    """Files of the project, relative to ROOT: git's list, or (in a tarball) all but build trees."""
    git = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z",
                          "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    if git.returncode == 0:
        names = [name for name in git.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
        names = [name for name in names if not name.startswith((".git/", "build", "results/"))]
    return sorted(p for p in map(pathlib.PurePath, set(names)) if (ROOT / p).is_file())


def sources(*suffixes):
    return [path for path in tracked() if path.suffix in suffixes]


def text_of(path):
    return (ROOT / path).read_text(errors="replace")


def shebang(path):
    with open(ROOT / path, "rb") as file:
        line = file.readline(100)
    return line.decode(errors="replace") if line.startswith(b"#!") else ""


def finish(what, problems, checked):
    for problem in problems:
        print(problem)
    if not checked:
        print(f"{what}: nothing to check, which is wrong in itself")
        sys.exit(1)
    print(f"{what}: {checked} checked, {len(problems)} problems")
    sys.exit(1 if problems else 0)
