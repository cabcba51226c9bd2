#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: ledger.py update|begin BUILD
The ledgers of the house: numbers that may only shrink, a row each: a name, then its numbers. A check fails when a
number grew, and also when it shrank and the ledger does not say so yet. `update` lowers what shrank and takes out what
is gone; it refuses to raise or add anything. `begin` writes what is there now, for what was renamed: read its diff."""
import importlib
import sys

from house import ROOT

LEDGERS = {"circles.txt": "check_circles", "dialect.txt": "check_words", "lengths.txt": "check_lengths",
           "writers.txt": "check_writers"}
LOWER = "lower it by `tests/house/ledger.py update BUILD`"


def lines_of(name):
    return (ROOT / "tests/house" / name).read_text().splitlines()


def read_rows(name):
    """{first word: the numbers behind it} of a ledger."""
    rows = {}
    for line in lines_of(name):
        fields = line.split("#")[0].split()
        if fields:
            rows[fields[0]] = tuple(int(field) for field in fields[1:])
    return rows


def compare(ledger, name, words, noted, found, complete=True):
    """Problems of one row. noted: the ledger's numbers, or None; complete: all was there to be counted."""
    if noted is None:
        counted = ", ".join(f"{number} {word}" for number, word in zip(found, words) if number)
        yield f"{name}: {counted}, and tests/house/{ledger} takes no new rows"
        return
    for word, before, now in zip(words, noted, found):
        if now > before:
            yield f"{name}: {now} {word}; tests/house/{ledger} allows {before}"
        if now < before and complete:
            yield f"{name}: {now} {word} instead of {before}: {LOWER}"


def check_rows(ledger, words, found):
    """Problems of a whole ledger, of which `found` has all rows."""
    noted = read_rows(ledger)
    for name, numbers in found.items():
        yield from compare(ledger, name, words, noted.get(name), numbers)
    for name in noted.keys() - found.keys():
        yield f"{name}: in tests/house/{ledger} without need: {LOWER}"


def rewritten(name, found, may_grow):
    """A ledger's new text; what it refuses."""
    before, refused = read_rows(name), []
    head = [line for line in lines_of(name) if line.startswith("#")]
    rows = dict(found) if may_grow else {}
    for key, numbers in {} if may_grow else found.items():
        old = before.get(key)
        if old is None or any(now > then for now, then in zip(numbers, old)):
            refused.append(f"{name}: {key} {numbers}, noted: {old}")
        if old is not None:
            rows[key] = tuple(map(min, numbers, old))
    width = max(map(len, rows), default=0)
    text = [f"{key:{width}} {' '.join(f'{number:4}' for number in numbers)}".rstrip() for key, numbers in rows.items()]
    return "\n".join([*head, *text]) + "\n", refused


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("update", "begin"):
        sys.exit(__doc__)
    refused = []
    for name, module in LEDGERS.items():
        found = importlib.import_module(module).rows(sys.argv[2])
        text, left = rewritten(name, found, sys.argv[1] == "begin")
        (ROOT / "tests/house" / name).write_text(text)
        refused += left
    print("\n".join(f"not raised: {line}" for line in refused) or "the ledgers say what is there")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
