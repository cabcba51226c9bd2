#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SPDX lines, lengths of files, functions and lines, forbidden calls, machine paths, scripts that parse and run."""
import os
import re
import shutil
import subprocess

from house import ROOT, finish, shebang, sources, text_of, tracked

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 120  # clang-format keeps C code at 100, but not comments
CODE = {".c", ".h", ".cu", ".py", ".sh", ".build", ".p4", ".map"}
# Without a place of its own, or data: no SPDX line, no length limit.
TEXT = {".md", ".json", ".txt", ".png", ".svg", ".in", ".csv", ".lua"}
FORBIDDEN = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|alloca)\s*\(")
MACHINE = re.compile("(?<![\\w./~-])/(?:" + "|".join(["wo" + "rk", "ho" + "me", "ro" + "ot"]) + r")/\w")


def is_code(path):
    return path.suffix in CODE or path.name in ("meson.build", "meson_options.txt") or bool(shebang(path))


def check_text(path, text):
    if is_code(path) and "SPDX-License-Identifier" not in "\n".join(text.splitlines()[:3]) \
            and path.name != "meson_options.txt":
        yield f"{path}:1: no SPDX line in the first three"
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE.search(line):
            yield f"{path}:{number}: a path of one machine: {MACHINE.search(line)[0]}..."


def check_lengths(path, text):
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{path}: {len(lines)} lines (limit {FILE_LINES_MAX})"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield f"{path}:{number}: {len(line)} columns (limit {LINE_COLUMNS_MAX})"
    if path.suffix not in (".c", ".h", ".cu"):
        return
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"\S.*\{$", line) and ")" in line:  # clang-tidy sees those whose parameters end elsewhere
            start = number
        elif line.startswith("}") and start is not None:
            if number - start - 1 > FUNCTION_LINES_MAX:
                yield f"{path}:{start}: function of {number - start - 1} lines (limit {FUNCTION_LINES_MAX})"
            start = None
        if FORBIDDEN.search(line) and not line.lstrip().startswith(("*", "/*", "//")):
            yield f"{path}:{number}: {FORBIDDEN.search(line)[1]}() is not used here"


def check_script(path):
    first = shebang(path)
    if bool(first) != os.access(ROOT / path, os.X_OK):
        yield f"{path}: " + ("a script, but not executable" if first else "executable, but no script")
    if "python" in first or path.suffix == ".py":
        try:
            compile(text_of(path), str(path), "exec")
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: {error.msg}"
    elif "sh" in first:
        commands = [["bash", "-n", str(path)]]
        if shutil.which("shellcheck"):
            commands.append(["shellcheck", "-S", "warning", "-f", "gcc", str(path)])
        for command in commands:
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode != 0:
                yield f"{path}: {(done.stdout + done.stderr).strip()}"


def main():
    problems = []
    files = [path for path in tracked() if path.suffix not in (".png", ".svg") and "corpus" not in path.parts]
    for path in files:
        text = text_of(path)
        problems += check_text(path, text)
        if is_code(path):
            problems += check_lengths(path, text)
            problems += check_script(path)
    if not sources(".c"):
        problems.append("no C source found")
    finish("sources", problems, len(files))


if __name__ == "__main__":
    main()
