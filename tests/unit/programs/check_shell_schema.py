#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_shell_schema.py SHELL_SCHEMA_PROGRAM DOCUMENT [--write]
The document is what the program prints from the code's lists of fields. Fails with the first difference; --write puts
it there instead."""
import itertools
import subprocess
import sys


def main():
    program, document = sys.argv[1:3]
    code = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "--write" in sys.argv:
        with open(document, "w", encoding="utf-8") as file:
            file.write(code)
        return
    with open(document, encoding="utf-8") as file:
        written = file.read()
    lines = itertools.zip_longest(written.split("\n"), code.split("\n"), fillvalue="(nothing)")
    for number, (have, want) in enumerate(lines, 1):
        if have != want:
            sys.exit(f"{document}:{number}: document: {have}\n    code: {want}\n"
                     "(check_shell_schema.py --write repairs)")


if __name__ == "__main__":
    main()
