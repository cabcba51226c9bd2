# SPDX-License-Identifier: BSD-3-Clause
"""Object files of a build folder: which source each is of, what it defines and what its relocations name."""
import collections
import json
import os
import pathlib
import struct
import sys

from house import ROOT

SYMBOL_TABLE = 2
LOCAL = 0


class Object:
    """target: the library or program that it is a part of; defined, undefined: names that cross files."""

    def __init__(self, target, defined, undefined):
        self.target = target
        self.is_host = not target.name.endswith(".a.p")  # a program or the shared library: what cores are linked into
        self.defined = defined
        self.undefined = undefined


def names_of(data):
    """(defined, undefined) of a 64-bit little-endian ELF object. A name stands in its symbol table as undefined
    exactly when a relocation, of code or of data, needs it."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF object")
    start, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    defined, undefined = set(), set()
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != SYMBOL_TABLE:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, 24):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info >> 4 != LOCAL and name:
                begin = strings + name
                text = data[begin:data.index(b"\0", begin)].decode()
                (defined if section else undefined).add(text)
    return defined, undefined


def read_objects(build):
    """{source relative to ROOT: [Object]} of what is built outside tests/. Ends the check when some is missing."""
    build = pathlib.Path(build).resolve()
    objects = collections.defaultdict(list)
    missing = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if source.startswith(("tests/", "..")) or os.path.isabs(source):
            continue
        file = build / entry["output"]
        if not file.exists():
            missing.append(source)
            continue
        target = pathlib.PurePath(entry["output"]).parent
        objects[pathlib.PurePath(source)].append(Object(target, *names_of(file.read_bytes())))
    if missing:
        print(f"{len(missing)} objects are not built, {missing[0]}'s first: ninja -C {build}")
        sys.exit(1)
    return objects
