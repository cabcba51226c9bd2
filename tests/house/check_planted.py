#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every fault of tests/planted.py can still be planted: its old text stands exactly once in its file."""
import collections
import sys

from house import ROOT, finish

sys.path.insert(0, str(ROOT / "tests"))
import planted  # noqa: E402

LEAST = 30


def problems_of(fault, times):
    problems = []
    path = ROOT / fault.file
    count = path.read_text(encoding="utf-8").count(fault.old) if path.is_file() else 0
    if count != 1:
        problems.append(f"its old text stands {count} times in {fault.file}, not once")
    if fault.old == fault.new:
        problems.append("its new text is the old one")
    if times != 1:
        problems.append(f"{times} faults have this name")
    return [f"tests/planted.py: {fault.name}: {what}" for what in problems]


def main():
    names = collections.Counter(fault.name for fault in planted.FAULTS)
    problems = [what for fault in planted.FAULTS for what in problems_of(fault, names[fault.name])]
    if len(planted.FAULTS) < LEAST:
        problems.append(f"tests/planted.py: {len(planted.FAULTS)} faults, fewer than {LEAST}")
    finish("planted faults", problems, len(planted.FAULTS))


if __name__ == "__main__":
    main()
