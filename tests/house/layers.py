# SPDX-License-Identifier: BSD-3-Clause
"""The rooms of layers.txt: which room a file lies in, and what a room may know."""
from house import ROOT


def read_layers():
    layers = {}
    for line in (ROOT / "tests/house/layers.txt").read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            layers[fields[0]] = fields[1:]
    return layers


def layer_of(path, layers):
    """The nearest folder around `path` that has a line."""
    return next((str(folder) for folder in path.parents if str(folder) in layers), None)


def may_know(layer, other, layers):
    return layer is None or other == layer or other in layers[layer] or "*" in layers[layer]
