#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_words.py [BUILD] [--show [PATH...]]
The project is written in standard terms. words.txt lists words that are not, each with the terms that replace it, and
identifiers.txt those that names in C code do not use; dialect.txt has how often they still occur, a row a file: in
prose (a document without its code; comments), in strings (messages, help texts), and in names. A file without a row has
none, and no row may grow. --show prints each place."""
import functools
import io
import re
import sys
import tokenize

from csource import BLANKED, strip_comments
from house import finish, shebang, text_of, tracked
from ledger import check_rows, read_rows

C_CODE = {".c", ".h", ".cu", ".p4"}
COLUMNS = ("words of words.txt in its prose", "words of words.txt in its strings",
           "words of identifiers.txt in its names")
KINDS = ("prose", "string", "name")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
SENTENCE = r"(?:^|(?<=[.!?:] ))"
IN_LINE = re.compile(r"`[^`]*`|\]\([^)]*\)")
GLUE = re.compile(r"[ \t\\\n]*")
LEADER = re.compile(r"^[ \t]*(?:/\*+|\*+/?|//+|#+)?[ \t]*|[ \t]*(?:\*/)?[ \t\\]*$", re.M)
BLOCK = re.compile(r"\s*(?:[-*|>]|\d+\.) ")


@functools.cache
def read_words(name="words.txt"):
    """[(pattern, the terms that replace what it finds)]"""
    words = []
    for line in text_of(f"tests/house/{name}").splitlines():
        if line.strip() and not line.startswith("#"):
            word, terms = re.split(r"  +", line, maxsplit=1)
            whole = rf"{SENTENCE}{word[1:]}\b(?![^.!]*\?)" if word[0] == "^" else rf"(?<!\w)(?i:{word})(?!\w)"
            if name == "identifiers.txt":
                whole = rf"(?<![A-Za-z0-9])(?i:{word})(?![A-Za-z0-9])"
            words.append((re.compile(whole), terms))
    return words


@functools.cache
def any_word(name="words.txt"):
    return re.compile("|".join(word.pattern for word, _ in read_words(name)))


def joined(pieces, text, kind):
    """(line, kind, text) of pieces [(begin, end)], neighbours with only blanks between them as one."""
    begin, end, parts = None, None, []
    for at, after in pieces:
        if begin is None or not GLUE.fullmatch(text, end, at):
            if parts:
                yield text.count("\n", 0, begin) + 1, kind, parts
            begin, parts = at, []
        parts.append(text[at:after])
        end = after
    if parts:
        yield text.count("\n", 0, begin) + 1, kind, parts


def in_c(text):
    found = [(m.start(), m.end()) for m in BLANKED.finditer(text) if m[0][0] != "'"]
    strings = [span for span in found if text[span[0]] == '"']
    comments = [span for span in found if text[span[0]] == "/"]
    for line, kind, parts in joined(comments, text, 0):
        yield line, kind, LEADER.sub("", "\n".join(parts))
    for line, kind, parts in joined(strings, text, 1):
        yield line, kind, "".join(part[1:-1] for part in parts).replace("\\n", " ")


def in_python(text):
    comments, before = [], tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if not comments or token.start[0] > comments[-1][0] + 1:
                yield from block_of(comments)
                comments = []
            comments.append((token.start[0], token.string))
        elif token.type == tokenize.STRING:
            docstring = before in (tokenize.NEWLINE, tokenize.INDENT)
            yield token.start[0], 0 if docstring else 1, token.string.strip("rbf\"'")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    yield from block_of(comments)


def block_of(comments):
    if comments:
        yield comments[0][0], 0, LEADER.sub("", "\n".join(line for _, line in comments))


def in_script(text):
    comments = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")]
    for number, line in comments:
        yield number, 0, LEADER.sub("", line)


def in_document(text):
    """Paragraphs, rows and points. A heading is a title, no sentence: in small letters."""
    fenced, begin, lines = False, 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence, title = line.lstrip().startswith("```"), line.startswith("#")
        if fence or title or not line.strip() or BLOCK.match(line):
            yield begin, 0, IN_LINE.sub("_", "\n".join(lines))
            lines = []
        fenced ^= fence
        if title and not fenced:
            yield number, 0, IN_LINE.sub("_", line.lower())
        elif not fence and not fenced:
            begin = begin if lines else number
            lines.append(BLOCK.sub("", line, count=1))


def pieces_of(path):
    """(line, 0 prose or 1 string, text) of what a reader reads in a file."""
    text = text_of(path)
    if path.suffix == ".md":
        return in_document(text)
    if path.suffix in C_CODE:
        return in_c(text)
    if path.suffix == ".py" or "python" in shebang(path):
        return in_python(text)
    return in_script(text) if path.suffix == ".sh" or path.name == "meson.build" or shebang(path) else ()


def names_of(path):
    """(line, name) of the names in a C file: its own, and each identifier where it stands first."""
    yield 1, path.stem
    code, seen = strip_comments(text_of(path)), set()
    if any_word("identifiers.txt").search(code):
        for found in IDENTIFIER.finditer(code):
            if found[0] not in seen:
                seen.add(found[0])
                yield code.count("\n", 0, found.start()) + 1, found[0]


def places_of(path):
    """(line of the piece, kind, word, terms) of each word of words.txt in a file."""
    for line, kind, text in pieces_of(path):
        text = re.sub(r"\s+", " ", text).strip()
        if any_word().search(text):
            for word, terms in read_words():
                yield from ((line, kind, found[0], terms) for found in word.finditer(text))
    for line, name in names_of(path) if path.suffix in C_CODE else ():
        if any_word("identifiers.txt").search(name):
            for word, terms in read_words("identifiers.txt"):
                yield from ((line, 2, name, terms) for _ in word.finditer(name))


@functools.cache
def all_places():
    return {str(path): found for path in tracked() if (found := list(places_of(path)))}


def rows(_build=None):
    """{path: (words in prose, in strings, in names)} of the files that have any."""
    return {path: tuple(sum(kind == column for _, kind, *_ in found) for column in range(len(KINDS)))
            for path, found in all_places().items()}


def show(path):
    for line, kind, word, terms in all_places()[path]:
        print(f"{path}:{line}: {KINDS[kind]}: `{word}`: {terms}")


def main():
    found, noted = rows(), read_rows("dialect.txt")
    wanted = sys.argv[sys.argv.index("--show") + 1:] if "--show" in sys.argv else None
    for path, counts in found.items():
        allowed = noted.get(path, (0, 0, 0))
        if any(now > before for now, before in zip(counts, allowed)) or wanted == [] or path in (wanted or ()):
            show(path)
    total = sum(sum(counts) for counts in found.values())
    print(f"{total} words of words.txt and identifiers.txt in {len(found)} files")
    finish("words", list(check_rows("dialect.txt", COLUMNS, found)), len(tracked()))


if __name__ == "__main__":
    main()
