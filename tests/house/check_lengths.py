#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No file grows past 450 lines. lengths.txt has the files that are longer, by name without folder; they may only
shrink, and check_sources.py has the limit of all."""
from check_sources import is_code
from house import finish, text_of, tracked
from ledger import check_rows

LINES_MAX = 450


def rows(_build=None):
    """{name: (lines,)} of the files that are too long."""
    found = {}
    for path in tracked():
        if path.suffix in (".png", ".svg") or not is_code(path):
            continue
        lines = len(text_of(path).splitlines())
        if lines > LINES_MAX:
            found[path.name] = (max(lines, *found.get(path.name, (0,))),)
    return dict(sorted(found.items()))


def main():
    problems = check_rows("lengths.txt", ("lines",), rows())
    finish("lengths", list(problems), len([path for path in tracked() if is_code(path)]))


if __name__ == "__main__":
    main()
