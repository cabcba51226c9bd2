#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_wire_doc.py WIRE_TABLES_PROGRAM DOCUMENT [--write]
Each `<!-- table: NAME -->` of the document is followed by the table that the program prints under that
name, up to an empty line. Fails with the first difference; with --write puts the tables there instead."""
import re
import subprocess
import sys


def tables_of(text):
    """{name: rows} of what stands after each marker, up to an empty line, another marker or the end."""
    return {m[1]: m[2].rstrip("\n").split("\n")
            for m in re.finditer(r"^<!-- table: (\w+) -->\n((?:\|[^\n]*\n)*)", text, re.M)}


def main():
    program, document = sys.argv[1:3]
    code = tables_of(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    text = open(document, encoding="utf-8").read()
    if "--write" in sys.argv:
        for name, rows in code.items():
            text = re.sub(rf"(<!-- table: {name} -->\n)(?:\|[^\n]*\n)*", lambda m: m[1] + "\n".join(rows) + "\n", text)
        open(document, "w", encoding="utf-8").write(text)
        return
    written = tables_of(text)
    problems = [f"table {name}: missing" for name in code if name not in written]
    problems += [f"table {name}: the code has none" for name in written if name not in code]
    for name in code.keys() & written.keys():
        ours, theirs = code[name], written[name]
        for i in range(max(len(ours), len(theirs))):
            have = theirs[i] if i < len(theirs) else "(nothing)"
            want = ours[i] if i < len(ours) else "(nothing)"
            if have != want:
                problems.append(f"table {name}, row {i + 1}: document: {have}\n    code: {want}")
                break
    if problems:
        sys.exit("\n".join(f"{document}: {p}" for p in problems) + "\n(check_wire_doc.py --write repairs)")


if __name__ == "__main__":
    main()
