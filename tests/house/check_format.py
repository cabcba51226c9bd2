#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every C source is as clang-format 14 would write it."""
import subprocess

from house import ROOT, finish, sources


def main():
    files = [str(path) for path in sources(".c", ".h")]
    problems = []
    for start in range(0, len(files), 40):
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", *files[start:start + 40]], cwd=ROOT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            problems += [line for line in done.stderr.splitlines() if "error:" in line] or [done.stderr]
    finish("format", problems, len(files))


if __name__ == "__main__":
    main()
