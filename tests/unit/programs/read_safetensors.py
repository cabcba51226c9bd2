#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads a safetensors file by the format's own rules, and prints what is in it. Knows nothing of Heddle
but the metadata's names on the last line."""
import json
import struct
import sys


def main():
    data = open(sys.argv[1], "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0 and length <= 100_000_000, "header length"
    text = data[8:8 + length]
    assert text[:1] == b"{", "header begins with {"
    header = json.loads(text)
    metadata = header.pop("__metadata__")
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in metadata.items()), "metadata is text"
    end = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end_of_this = tensor["data_offsets"]
        assert begin == end, f"{name}: a hole before it, or an overlap"
        assert (8 + length + begin) % 4 == 0, f"{name}: not aligned"
        count = 1
        for dimension in tensor["shape"]:
            count *= dimension
        assert tensor["dtype"] == "F32" and end_of_this - begin == 4 * count, f"{name}: size"
        end = end_of_this
        values = struct.unpack(f"<{count}f", data[8 + length + begin:8 + length + end])
        print(name, tensor["dtype"], tensor["shape"], "sum", sum(values))
    assert 8 + length + end == len(data), "bytes after the last tensor"
    print("version", metadata["version"], "seed", metadata["seed"], "name", metadata["name"])


main()
