#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Includes point down only: fails when one crosses a layer that layers.txt does not allow, when two
headers share a name, or when a source lies in no layer."""
import re

from house import finish, sources, text_of
from layers import layer_of, may_know, read_layers


def check_includes(path, text, headers, layers):
    layer = layer_of(path, layers)
    if layer is None:
        yield f"{path}: lies in no layer of tests/house/layers.txt"
        return
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        target = headers.get(include[1].split("/")[-1]) if include else None
        if target is not None and not may_know(layer, layer_of(target, layers), layers):
            yield f"{path}:{number}: {layer} must not include {target}"


def main():
    layers = read_layers()
    problems = []
    headers = {}
    for header in sources(".h"):
        if headers.setdefault(header.name, header) != header:
            problems.append(f"{header}: same name as {headers[header.name]}")
    everything = sources(".c", ".h", ".cu")
    for path in everything:
        text = text_of(path)
        problems += check_includes(path, text, headers, layers)
    finish("includes", problems, len(everything))


if __name__ == "__main__":
    main()
