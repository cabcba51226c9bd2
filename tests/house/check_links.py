#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Targets of links in documents exist, headings included; documents that code names exist in docs/."""
import collections
import os
import pathlib
import re

from house import ROOT, finish, text_of, tracked

LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
NAMED = re.compile(r"\bdocs/[A-Za-z0-9_/-]+\.(?:md|png|lua|json)\b")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def anchors(text):
    """Names in `text`: those it has itself, and a renderer's for headings (lower case, no punctuation, repeated ones
    numbered)."""
    yield from re.findall(r'<a id="([^"]+)">', text)
    seen = collections.Counter()
    for line in FENCE.sub("", text).splitlines():
        heading = re.match(r"#+ (.*)$", line)
        if not heading:
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        name = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        yield f"{name}-{seen[name]}" if seen[name] else name
        seen[name] += 1


def check_document(path, files, names, root=ROOT):
    """Problems of one document below `root`, where `files` are. `names` keeps what each file has, for the next call."""
    def read(name):
        return (root / name).read_text(errors="replace")
    for number, line in enumerate(FENCE.sub(lambda m: "\n" * m[0].count("\n"), read(path)).splitlines(), 1):
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = pathlib.PurePath(os.path.normpath(path.parent / file)) if file else path
            if there not in files and not (root / there).is_dir():
                yield f"{path}:{number}: {target}: no file {there}"
            elif anchor and anchor not in names.setdefault(there, set(anchors(read(there)))):
                yield f"{path}:{number}: {target}: nothing of that name in {there}"


def main():
    files = set(tracked())
    problems = []
    names = {}
    texts = [path for path in files if path.suffix in (".md", ".c", ".h", ".py", ".cu", ".p4", ".cc", ".build")]
    for path in sorted(texts):
        if path.suffix == ".md":
            problems += check_document(path, files, names)
        for number, line in enumerate(text_of(path).splitlines(), 1):
            problems += [f"{path}:{number}: no file {name}" for name in NAMED.findall(line)
                         if pathlib.PurePath(name) not in files]
    finish("links", problems, len(texts))


if __name__ == "__main__":
    main()
