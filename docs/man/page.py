#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: page.py PROGRAM VERSION OUTPUT
Writes the manual page of a program. Synopsis, description and options are what `PROGRAM --help` prints from the
program's table of options; pages.py has the rest. Ends with an error when it does not understand a line."""
import pathlib
import re
import subprocess
import sys

from pages import COMMON, ENVIRONMENT, EXIT, PAGES

VERSION_HELP = "which version this is"  # of --version, which every table ends with: its column is that of all words
OPTION = re.compile(r"  ((?:-\w, )?--[a-z][a-z0-9-]*)(?: (.*))?$")


class Help:
    """The output of --help, in parts."""

    def __init__(self, text):
        lines = text.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("  --version ") and VERSION_HELP in line)
        self.column = lines[at].index(VERSION_HELP)
        first = next(i for i, line in enumerate(lines) if OPTION.match(line))
        self.usage, self.description = split_usage(lines[:first])
        self.options = read_options(lines[first:at + 1], self.column)
        self.after = lines[at + 1:]


def split_usage(lines):
    """The lines of the synopsis, and those behind it. A synopsis goes on as long as lines are indented."""
    if not lines or not lines[0].startswith("usage: "):
        raise SystemExit(f"man: no usage in: {lines[:1]}")
    end = 1
    while end < len(lines) and lines[end].startswith("       "):
        end += 1
    usage = [lines[0].removeprefix("usage: "), *[line.strip() for line in lines[1:end]]]
    return usage, lines[end:]


def split_option(line, column):
    """(names, value, words) of an option's first line."""
    head, words = line[:column], line[column:]
    if len(line) <= column or not head.endswith(" ") or words.startswith(" "):  # the value goes beyond the column
        head, _, words = line.strip().partition("  ")
        head = "  " + head
    match = OPTION.match(head.rstrip())
    if not match:
        raise SystemExit(f"man: not an option: {line}")
    return match[1].split(", "), match[2], words.strip()


def read_options(lines, column):
    """[(names, value, words)]; a line between options is (None, None, line)."""
    options = []
    for line in lines:
        if OPTION.match(line):
            options.append(split_option(line, column))
        elif line.startswith(" " * column) and options and options[-1][0]:
            names, value, words = options[-1]
            options[-1] = (names, value, f"{words} {line.strip()}")
        elif not line.startswith(" "):
            options.append((None, None, line.strip()))
        else:
            raise SystemExit(f"man: neither an option nor words of one: {line}")
    return options


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{text}" if text.startswith(".") else text


def paragraphs(lines):
    """Text as it is in --help: what is indented stays in its columns."""
    out, inside = [], False
    for line in lines:
        if line.startswith("  ") != inside:
            out.append(".EE" if inside else ".PP\n.EX")
            inside = not inside
        out.append(escaped(line) if line else ".PP")
    if inside:
        out.append(".EE")
    while out and out[-1] == ".PP":
        out.pop()
    while out and out[0] == ".PP":
        out.pop(0)
    return out


def option_lines(options):
    out = []
    for names, value, words in options:
        if names is None:
            out += [".PP", escaped(words)] if words else []
            continue
        shown = ", ".join(f"\\fB{escaped(name)}\\fP" for name in names)
        out += [".TP", shown + (f" \\fI{escaped(value)}\\fP" if value else ""), escaped(words)]
    return out


def tagged(rows):
    return [line for tag, words in rows for line in (".TP", f"\\fB{escaped(tag)}\\fP", escaped(words))]


def references(names):
    return [", ".join(f"\\fB{escaped(name)}\\fP({PAGES[name]['section']})" for name in sorted(names))]


def page(name, version, text):
    data, shown = PAGES[name], Help(text)
    out = [f'.TH {name.upper()} {data["section"]} "" "Heddle {version}" "Heddle"', ".SH NAME",
           f"{escaped(name)} \\- {escaped(data['brief'])}", ".SH SYNOPSIS", ".nf",
           *[f"\\fB{escaped(first)}\\fP{escaped(' ' + rest if rest else '')}" for first, _, rest in
             (line.partition(" ") for line in shown.usage)], ".fi"]
    out += [".SH DESCRIPTION", *paragraphs([*shown.description, *data.get("more", [])])]
    out += [".SH OPTIONS", *option_lines(shown.options)]
    after = paragraphs(shown.after)
    if after:
        out += [".SH NOTES", *after]
    out += [".SH ENVIRONMENT", *tagged([(variable, ENVIRONMENT[variable]) for variable in
                                        [*data.get("environment", []), *COMMON]])]
    out += [".SH EXIT STATUS", *tagged([(str(code), EXIT[code]) for code in (0, *data["exit"])])]
    if "files" in data:
        out += [".SH FILES", *tagged(data["files"])]
    out += [".SH SEE ALSO", *references(data["see"])]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    program, version, output = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    done = subprocess.run([program.resolve(), "--help"], capture_output=True, text=True, timeout=60, check=True)
    output.write_text(page(program.name, version, done.stdout))


if __name__ == "__main__":
    main()
