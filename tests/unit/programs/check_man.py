#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each manual page is well formed, has every section in its order, names every option that --help of its program
names with the same words, and refers only to pages that there are. A page that lacks one of these is seen.

usage: check_man.py {PROGRAM PAGE}..."""
import pathlib
import re
import shutil
import subprocess
import sys

import processes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "docs/man"))
from pages import PAGES  # noqa: E402

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "NOTES", "ENVIRONMENT", "EXIT STATUS", "FILES", "SEE ALSO"]
OPTIONAL = {"NOTES", "FILES"}
REQUESTS = {".TH", ".SH", ".PP", ".TP", ".EX", ".EE", ".nf", ".fi"}
OPTION = re.compile(r"^  (?:-(\w), )?--([a-z][a-z0-9-]*)", re.M)


def plain(text):
    """The words of a page, without its formatting, with single blanks."""
    text = re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")
    return " ".join(text.replace("\\&", "").replace("\\e", "\\").split())


def problems_of(page, text, shown, pages):
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith((".", "'")) and line.split()[0] not in REQUESTS:
            yield f"{page}:{number}: unknown request: {line}"
    if not re.fullmatch(rf'\.TH {page.stem.upper()} {page.suffix[1:]} "" "Heddle \d+\.\d+\.\d+" "Heddle"', lines[0]):
        yield f"{page}: {lines[0]}"
    found = [line[4:] for line in lines if line.startswith(".SH ")]
    if [name for name in found if name not in OPTIONAL] != [name for name in SECTIONS if name not in OPTIONAL] \
            or found != [name for name in SECTIONS if name in found]:
        yield f"{page}: sections {found}"
    part = text[text.index(".SH OPTIONS"):].split("\n.SH ")[0] if ".SH OPTIONS" in text else ""
    tags = {line for tag in re.findall(r"^\.TP\n(.*)$", part, re.M) for line in plain(tag).replace(",", "").split()}
    words, help_words = plain(text), " ".join(shown.split())
    for letter, name in OPTION.findall(shown):
        if f"--{name}" not in tags or (letter and f"-{letter}" not in tags):
            yield f"{page}: no option --{name}"
    for entry in re.findall(r"^\.TP\n.*\n(.*)$", part, re.M):
        if plain(entry) not in help_words:
            yield f"{page}: --help does not say: {entry}"
    for name, section in re.findall(r"([a-z-]+)\(([18])\)", words):
        if f"{name}.{section}" not in pages:
            yield f"{page}: refers to {name}({section})"


def check_groff(path):
    """The warnings of groff's macros."""
    done = processes.run("groff", "-man", "-Tutf8", "-ww", "-z", path, timeout=30)
    return [f"{path.name}: {line}" for line in done.stderr.splitlines()]


def check_itself(page, text, shown, pages):
    """Each kind of damage is seen."""
    damages = ((r"\.TP\n.*version.*\n", ".TP\n\\\\fB\\\\-\\\\-other\\\\fP\n"), (r"\.SH ENVIRONMENT", ".PP"),
               (r"which version this is", "this page"), (r"\.SH NAME", ".XX"),
               (r"heddle\\-controller\\fP\(8\)", "heddle\\\\-other\\\\fP(8)"))
    for pattern, instead in damages:
        damaged, count = re.subn(pattern, instead, text)
        assert count and list(problems_of(page, damaged, shown, pages)), f"{pattern}: damage is not seen"


def main():
    rows = list(zip(*[iter(map(pathlib.Path, sys.argv[1:]))] * 2))
    pages = {f"{name}.{data['section']}" for name, data in PAGES.items()}
    assert {page.name for _, page in rows} <= pages, rows
    problems = []
    for program, page in rows:
        text, shown = page.read_text(encoding="utf-8"), processes.run(program, "--help", timeout=30).stdout
        problems += problems_of(pathlib.Path(page.name), text, shown, pages)
        if shutil.which("groff"):
            problems += check_groff(page)
        if program.name == "heddle-server":
            check_itself(pathlib.Path(page.name), text, shown, pages)
    assert len(rows) >= 11 and not problems, "\n".join(problems)
    print(f"man: {len(rows)} pages{'' if shutil.which('groff') else '; groff is missing, so it did not read them'}")


if __name__ == "__main__":
    main()
