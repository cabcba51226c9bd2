# SPDX-License-Identifier: BSD-3-Clause
"""Command lines of the testbed's programs: numbers within limits, errors in one line, exit codes of sysexits.h."""
import argparse
import pathlib
import re
import sys

EX_USAGE, EX_UNAVAILABLE, EX_SOFTWARE = 64, 69, 70


def version():
    """The project's version, as in meson.build: that of every program."""
    text = (pathlib.Path(__file__).parents[2] / "meson.build").read_text(encoding="utf-8")
    return re.search(r"^project\([^)]*?version: '([^']+)'", text, re.MULTILINE | re.DOTALL)[1]


class Parser(argparse.ArgumentParser):
    """Errors are printed as `NAME: what`, where NAME is the program's name for itself."""

    def __init__(self, name, **more):
        super().__init__(**more)
        self.name = name
        self.add_argument("--version", action="version", version=f"{name} {version()}",
                          help="which version this is")

    def error(self, message):
        self.print_usage(sys.stderr)
        print(f"{self.name}: {message}", file=sys.stderr)
        sys.exit(EX_USAGE)


def within(least, most, kind=int):
    """The `type` of an option whose value is a number from `least` to `most`."""
    def number(text):
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is outside {least}..{most}")
        return value
    number.__name__ = "whole number" if kind is int else "number"  # argparse names it: invalid ... value
    return number


runs = within(1, 1000)  # of a scenario: --seeds
