#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_wire_doc.py WIRE_TABLES_PROGRAM DOCUMENT [--write]
Each `<!-- table: NAME -->` (Lua: `-- table: NAME`) of the document is followed by the table that the
program prints under that name. Fails with the first difference; --write puts the tables there instead."""
import re
import subprocess
import sys

MARKER = r"((?:<!--|--) table: (\w+)(?: -->)?\n)((?:(?:\||\t\[)[^\n]*\n)*)"


def tables_of(text):
    return {m[2]: m[3].rstrip("\n").split("\n") for m in re.finditer(f"^{MARKER}", text, re.M)}


def main():
    program, document = sys.argv[1:3]
    code = tables_of(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    # A document has all tables of its language.
    code = {name: rows for name, rows in code.items() if (name == "lua") == document.endswith(".lua")}
    text = open(document, encoding="utf-8").read()
    if "--write" in sys.argv:
        text = re.sub(f"^{MARKER}", lambda m: m[1] + "\n".join(code[m[2]]) + "\n", text, flags=re.M)
        open(document, "w", encoding="utf-8").write(text)
        return
    written = tables_of(text)
    problems = [f"table {name}: missing" for name in code if name not in written]
    problems += [f"table {name}: the code has none" for name in written if name not in code]
    for name in sorted(code.keys() & written.keys()):
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
