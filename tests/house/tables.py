# SPDX-License-Identifier: BSD-3-Clause
"""Tables of functions: whom a call through a member of a struct may reach, by what the sources of the same component
put into that member (initialisers with and without names, assignments, parameters that are assigned). Structs that
another component declares (common's nodes and routes) are contracts between components: who fills them is not called by
a file of his own component."""
import collections
import re

from csource import block, code_of, functions_in, split_top, structs_in

POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)(?:\[\w*\])?\s*\)\s*\(")
TYPE_OF_FUNCTION = re.compile(r"^typedef\s+[\w \*]*?\b(\w+)\(|^typedef[^;(]*\(\s*\*\s*(\w+)\s*\)\s*\(", re.M)
PUT = re.compile(r"(?:\.|->)(\w+)(?:\[[^\]]*\])?\s*=\s*&?(\w+)\s*(?=[,;})])")
CALL = re.compile(r"(?:\.|->)(\w+)(?:\[[^\]]*\])?\s*\)?\s*\(")
INITIALISED = re.compile(r"\bstruct\s+(\w+)\s+\w+(?:\[[^\]]*\])*\s*=\s*\{")
NAME = re.compile(r"&?(\w+)$")
ROW = re.compile(r"^(?:\[[^\]]*\]\s*=\s*)?\{(.*)\}$", re.S)


def members_of(body, types):
    """(name, is a pointer to a function) of a struct's members, in order."""
    for part in split_top(body, ";"):
        pointer = POINTER.search(part)
        if pointer:
            yield pointer[1], True
            continue
        for at, declared in enumerate(split_top(re.sub(r"\[[^\]]*\]|:\s*\w+", "", part))):
            words = re.findall(r"\w+", re.sub(r"\{.*\}", "", declared, flags=re.S))
            if words:
                yield words[-1], at == 0 and words[-2:-1] != [] and words[-2] in types


class Tables:
    """files: a component's sources and headers; defined: {function that crosses files: its sources}."""

    def __init__(self, files, includes, defined):
        self.files = files
        self.includes = includes
        self.defined = defined
        self.statics = {path: {name for name, *_ in functions_in(code_of(path))} for path in files}
        types = {a or b for path in files for a, b in TYPE_OF_FUNCTION.findall(code_of(path))}
        types |= {a or b for path in includes.headers.values() for a, b in TYPE_OF_FUNCTION.findall(code_of(path))}
        self.orders = collections.defaultdict(list)  # struct: [(where, members in order)]
        self.slots = collections.defaultdict(set)  # member: where a struct has it as a pointer to a function
        for path in files:
            for name, body in structs_in(code_of(path)):
                members = list(members_of(body, types))
                self.orders[name].append((path, [member for member, _ in members]))
                for member, is_function in members:
                    if is_function:
                        self.slots[member].add((path, name))
        self.filled = collections.defaultdict(set)  # (where, struct, member): sources of the functions
        for path in files:
            self.read(path)

    def targets(self, path, name):
        if name in self.statics[path]:
            return {path}
        return self.defined.get(name, set())

    def seen_slots(self, path, member):
        seen = self.includes.seen_by(path)
        return [(*slot, member) for slot in self.slots.get(member, ()) if slot[0] in seen]

    def put(self, path, member, targets):
        for slot in self.seen_slots(path, member):
            self.filled[slot] |= targets

    def read(self, path):
        code = code_of(path)
        for found in PUT.finditer(code):
            if found[1] in self.slots:
                self.put(path, found[1], self.targets(path, found[2])
                         or self.handed_in(path, found.start(), found[2]))
        for found in INITIALISED.finditer(code):
            body = code[found.end():block(code, found.end() - 1)]
            for where, order in self.orders.get(found[1], ()):
                if any((where, found[1]) in self.slots.get(member, ()) for member in order):
                    self.read_rows(path, body, order)

    def read_rows(self, path, body, order):
        parts = split_top(body)
        for at, part in enumerate(parts):
            row = ROW.match(part)
            if row:
                self.read_rows(path, row[1], order)
                continue
            name = NAME.match(part)
            if name and at < len(order) and order[at] in self.slots:
                self.put(path, order[at], self.targets(path, name[1]))

    def handed_in(self, path, at, name):
        """Functions that callers hand in as the parameter `name` of the function around offset `at`."""
        reached = set()
        for function, parameters, body, start in functions_in(code_of(path)):
            if start <= at < start + len(body) and re.search(rf"\b{name}\b", parameters):
                for caller in self.files:
                    for call in re.finditer(rf"\b{function}\(", code_of(caller)):
                        code = code_of(caller)
                        for argument in split_top(code[call.end():block(code, call.end() - 1, "()")]):
                            if NAME.match(argument):
                                reached |= self.targets(caller, NAME.match(argument)[1])
        return reached

    def calls(self):
        """(caller, called) of each call through a table."""
        for path in self.files:
            for member in set(CALL.findall(code_of(path))) & set(self.slots):
                for slot in self.seen_slots(path, member):
                    for target in self.filled.get(slot, ()):
                        yield path, target
