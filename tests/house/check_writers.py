#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_writers.py [BUILD] [--show] Of a struct that a component keeps inside, each field is written by one
room. Reads assignments through pointers (`job->load.bytes += n`) and finds the struct by the declarations of the
variables; writers.txt has the fields that several rooms write, and in how many; it may only shrink. Initial values do
not count: the writes of a function into an object that it has just allocated. Not seen: writes through a pointer to the
field itself."""
import collections
import re
import sys

from csource import Includes, block, code_of, functions_in, split_top
from check_circles import COMPONENTS, faces
from house import finish, sources
from layers import layer_of, read_layers
from ledger import check_rows
from tables import POINTER

STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
DECLARED = re.compile(r"\bstruct\s+(\w+)\s+(?:\*\s*(?:const\s*)?)*(\w+)\s*(?=[;,=\[)]|$)")
MORE = re.compile(r"\bstruct\s+(\w+)\s+\*?\w+[^;{}()]*;")
RETURNS = re.compile(r"^(?:static |inline |const |extern )*struct\s+(\w+)\s+\*\s*(\w+)\(", re.M)
PATH = r"\b(\w+(?:\([^()]*\))?)((?:(?:->|\.)\w+)+)"  # of a text whose indices are blanked
WRITE = re.compile(rf"{PATH}\s*(?:=(?!=)|[-+*/|&^%]=|<<=|>>=|\+\+|--)|(?:\+\+|--){PATH}")
INDEX = re.compile(r"\[[^\[\]]*\]")
STEP = re.compile(r"(->|\.)(\w+)")
ALLOCATED = re.compile(r"\b(\w+) = [cm]alloc\(")


class Structs:
    """types: {struct: {member: struct that it is or points to, or None}}; homes: {struct: files that define it}. A
    source's own structs hide those of `others` that have the same name."""

    def __init__(self, files, others=None):
        self.types = dict(others.types) if others else {}
        self.homes = dict(others.homes) if others else {}
        own = {}
        for path in files:
            code = code_of(path)
            for found in STRUCT.finditer(code):
                if found[1] not in own:
                    self.types[found[1]] = {}
                self.read(found[1], code[found.end():block(code, found.end() - 1)])
                own.setdefault(found[1], set()).add(path)
        self.homes.update(own)

    def read(self, name, body):
        members = self.types.setdefault(name, {})
        for part in split_top(body, ";"):
            nested = re.match(r"(?:const\s+)?(?:struct|union)\s*(\w*)\s*\{", part)
            if nested:
                end = block(part, nested.end() - 1)
                named = re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", part[end + 1:]))
                inner = nested[1] or (f"{name}.{named[0]}" if named else name)
                self.read(inner, part[nested.end():end])
                members.update({member: inner for member in named})
                continue
            kind = re.match(r"(?:const\s+)?struct\s+(\w+)", part)
            for declared in split_top(re.sub(r"\[[^\]]*\]|:\s*\w+", "", part)):
                words = re.findall(r"\w+", declared)
                pointer = POINTER.search(part)
                if pointer or words:
                    members.setdefault(pointer[1] if pointer else words[-1], kind[1] if kind and not pointer else None)


def variables(text):
    """{variable: the struct that it is or points to}."""
    found = {name: kind for kind, name in DECLARED.findall(text)}
    for line in MORE.finditer(text):
        for declared in split_top(line[0].rstrip(";"))[1:]:
            name = re.match(r"\**\s*(\w+)", declared)
            if name:
                found[name[1]] = line[1]
    return found


def resolve(structs, kind, steps):
    """(struct, field) that a path of members ends at, or None."""
    for _, member in steps[:-1]:
        kind = structs.types.get(kind, {}).get(member)
    member = steps[-1][1]
    return (kind, member) if kind and member in structs.types.get(kind, {}) else None


def statements(body):
    """Statements that may write through a pointer, without indices."""
    for part in re.split(r"[;{}]", body):
        if "->" in part and ("=" in part or "++" in part or "--" in part):
            for _ in range(3):
                part = INDEX.sub("", part)
            yield part


def writes_of(path, structs, returned):
    """(struct, field) of each write through a pointer in a source; None where the struct is not known."""
    code = code_of(path)
    outside = variables(re.sub(r"^[ \t].*$", "", code, flags=re.M))
    for _, parameters, body, _ in functions_in(code):
        known = outside | variables(parameters) | variables(body)
        fresh = set(ALLOCATED.findall(body))
        for found in (found for part in statements(body) for found in WRITE.finditer(part)):
            base, steps = found[1] or found[3], STEP.findall(found[2] or found[4])
            pointers = [arrow for arrow, _ in steps].count("->")
            if pointers > (base in fresh):  # else a value of its own, or a fresh object
                kind = returned.get(base.split("(")[0]) if "(" in base else known.get(base)
                yield resolve(structs, kind, steps)


def measure():
    """{(header, struct, field): its rooms that write it}; numbers of writes that were and were not understood."""
    layers, includes = read_layers(), Includes()
    returned = {name: kind for path in sources(".h", ".c") for kind, name in RETURNS.findall(code_of(path))}
    shared = {header for path in sources(".c", ".h") if path.parts[0] != "tests"
              for header in includes.directly(path) if header.parts[0] != path.parts[0]}
    shared |= {header for header in sources(".h") if layer_of(header, layers) in faces(layers)}
    all_headers = Structs(sources(".h"))
    writers = collections.defaultdict(set)
    understood = collections.Counter()
    for path in sources(".c"):
        if path.parts[0] not in COMPONENTS:
            continue
        structs = Structs([path], all_headers)
        for where in writes_of(path, structs, returned):
            understood[bool(where)] += 1
            homes = structs.homes.get(where[0].split(".")[0], set()) & includes.seen_by(path) if where else set()
            if any(home.parts[0] == path.parts[0] and home not in shared | {path} for home in homes):
                writers[(*sorted(map(str, homes)), *where)].add(layer_of(path, layers))
    return writers, understood


def several(writers):
    """{struct.field: (rooms,)} of the fields that several rooms write."""
    return {".".join(key[-2:]): (len(rooms),) for key, rooms in sorted(writers.items()) if len(rooms) > 1}


def rows(_build=None):
    return several(measure()[0])


def main():
    writers, understood = measure()
    for key, rooms in sorted(writers.items()):
        if len(rooms) > 1 and "--show" in sys.argv:
            print(".".join(key[-2:]), *sorted(rooms))
    print(f"{understood[True]} writes through pointers, {understood[False]} more that were not understood")
    finish("writers", list(check_rows("writers.txt", ("rooms write it",), several(writers))), len(writers))


if __name__ == "__main__":
    main()
