#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_circles.py BUILD [--show] Calls inside a component point one way. Counts, for each component, from the
relocations of its object files (code and data) and from what is put into its tables of functions: files of the largest
circle (strongly connected component), arrows from file to file that layers.txt does not allow, lines of the largest
internal header. circles.txt has the numbers; they may only shrink. A number that shrank is lowered there:
tests/house/ledger.py update BUILD.

A host (a program, or the library that users link) hands files, clocks and a user's functions to a core through the
core's tables of functions: these entries are no arrows. A file that may include a room of headers alone may call the
room that implements it."""
import collections
import sys

from csource import Includes
from house import finish, sources, text_of
from layers import layer_of, may_know, read_layers
from ledger import compare, read_rows
from objects import read_objects
from tables import Tables

COMPONENTS = ("common", "dataplane", "switch", "controller", "aggregator", "worker-lib", "testbed")
NUMBERS = ("files in the largest circle", "upward arrows", "lines of the largest internal header")
HEADER_LINES = 250  # no need to note a header that is shorter


def is_of(path, component):
    return path.parts[0] == component


def definitions(objects):
    """{name: sources that define it}."""
    defined = collections.defaultdict(set)
    for path, parts in objects.items():
        for part in parts:
            for name in part.defined:
                defined[name].add(path)
    return defined


def reached(path, name, objects, defined):
    """Sources that `name` may be in, seen from `path`: those of the same target if it is in one of them."""
    targets = {part.target for part in objects[path]}
    near = {other for other in defined[name] if targets & {part.target for part in objects[other]}}
    return near or defined[name]


def is_handed_in(caller, called, objects):
    """`called` is a part of hosts only, and of none that the caller is a part of."""
    hosts = {part.target for part in objects[called] if part.is_host}
    return len(hosts) == len(objects[called]) and not hosts & {part.target for part in objects[caller]}


def arrows_of(component, objects, defined, includes):
    """{source: sources that it calls or takes data from} for the sources of a component."""
    arrows = {path: set() for path in objects if is_of(path, component)}
    for path in arrows:
        for name in {name for part in objects[path] for name in part.undefined if name in defined}:
            arrows[path] |= reached(path, name, objects, defined)
    everything = list(sources(".c", ".h"))
    files = [path for path in everything if is_of(path, component)]
    for caller, called in Tables(files, includes, defined).calls():
        if caller in arrows and called in objects and not is_handed_in(caller, called, objects):
            arrows[caller].add(called)
    for path, others in arrows.items():
        others.discard(path)
        others.intersection_update(everything)  # what a build generates is in no room
    return arrows


def circles(arrows):
    """Strongly connected components of more than one file, the largest first (Tarjan, without recursion)."""
    index, low, stack, found = {}, {}, [], []
    for root in sorted(arrows):
        work = [] if root in index else [(root, None)]
        while work:
            path, others = work.pop()
            if others is None:
                index[path] = low[path] = len(index)
                stack.append(path)
                others = iter(sorted(arrows[path] & arrows.keys()))
            for other in others:
                if other not in index:
                    work += [(path, others), (other, None)]
                    break
                if other in stack:
                    low[path] = min(low[path], low[other])
            else:
                if low[path] == index[path]:
                    at = stack.index(path)
                    found.append(sorted(stack[at:]))
                    del stack[at:]
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[path])
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)


def faces(layers):
    """Rooms that have headers and no sources."""
    return set(layers) - {layer_of(path, layers) for path in sources(".c")}


def upward(arrows, layers, includes):
    """(caller, called) that layers.txt does not allow."""
    alone = faces(layers)
    for path, others in sorted(arrows.items()):
        layer = layer_of(path, layers)
        for other in sorted(others):
            face = {layer_of(header, layers) for header in includes.seen_by(other)} & alone
            if not may_know(layer, layer_of(other, layers), layers) and not face & set(layers[layer]):
                yield path, other


def largest_header(component, layers, includes):
    """(lines, header) of the largest header that no other component includes and no room offers alone."""
    seen = {header for path in sources(".c", ".h") if path.parts[0] not in (component, "tests")
            for header in includes.seen_by(path)}
    inside = [path for path in includes.headers.values() if is_of(path, component) and path not in seen
              and layer_of(path, layers) not in faces(layers)]
    return max(((len(text_of(path).splitlines()), path) for path in inside), default=(0, None))


def measure(build):
    """(component, numbers of its row, what they are made of, all its sources are compiled) of each component."""
    objects = read_objects(build)
    defined, includes, layers = definitions(objects), Includes(), read_layers()
    for component in COMPONENTS:
        arrows = arrows_of(component, objects, defined, includes)
        knots, wrong = circles(arrows), list(upward(arrows, layers, includes))
        lines, header = largest_header(component, layers, includes)
        row = (len(knots[0]) if knots else 1, len(wrong), max(lines, HEADER_LINES))
        words = [f"{component}: circle of {len(knot)}: {' '.join(path.name for path in knot)}" for knot in knots]
        words += [f"{component}: upward: {path} -> {other}" for path, other in wrong]
        words += [f"{component}: largest internal header: {header}, {lines} lines"] if header else []
        compiled = all(path in objects for path in sources(".c") if is_of(path, component)
                       and not path.name.endswith(".bpf.c"))
        yield component, row, words, compiled


def rows(build):
    return {component: row for component, row, _, _ in measure(build)}


def main():
    ledger = read_rows("circles.txt")
    problems = []
    checked = 0
    for component, row, words, compiled in measure(sys.argv[1]):
        found = list(compare("circles.txt", component, NUMBERS, ledger.get(component), row, compiled))
        problems += found
        if found or "--show" in sys.argv:
            print("\n".join(words))
        checked += 1
    finish("circles", problems, checked)


if __name__ == "__main__":
    main()
