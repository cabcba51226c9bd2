# SPDX-License-Identifier: BSD-3-Clause
"""Reads C as clang-format leaves it: blanked comments, functions, structs, include closures. No compiler."""
import functools
import re

from house import sources, text_of

BLANKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+["<](?:[^">]*/)?([^">/]+)[">]', re.M)
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w \t\*]*[ \t\*])?(\w+)\(([^;{}]*)\)\s*\{\n(.*?)^\}", re.M | re.S)
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "else", "case", "do", "goto"}


def strip_comments(text):
    """Blanks comments and strings, keeps the line count and every offset."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


@functools.cache
def code_of(path):
    return strip_comments(text_of(path))


def block(text, start, pair="{}"):
    """End of the bracket that opens at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if not depth:
            return at
    return len(text)


def split_top(text, separator=","):
    """Parts of `text` between separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == separator and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()]


def functions_in(code):
    """(name, parameters, body, offset of the body) of each function of a blanked text."""
    for found in FUNCTION.finditer(code):
        if found[1] not in KEYWORDS:
            yield found[1], found[2], found[3], found.start(3)


def structs_in(code):
    """(name, body) of each struct that has a body."""
    for found in STRUCT.finditer(code):
        yield found[1], code[found.end():block(code, found.end() - 1)]


class Includes:
    """Which headers of the project a source sees."""

    def __init__(self):
        self.headers = {path.name: path for path in sources(".h")}

    @functools.cache
    def directly(self, path):
        return {self.headers[name] for name in INCLUDE.findall(text_of(path)) if name in self.headers}

    @functools.cache
    def seen_by(self, path):
        seen, todo = {path}, [path]
        while todo:
            new = self.directly(todo.pop()) - seen
            seen |= new
            todo += new
        return seen
