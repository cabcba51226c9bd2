#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""p4c makes of the sources what is committed: the same bytes, where it is the version that made those; else a program
with the same tables, actions and arrays."""
import json
import pathlib
import shutil
import sys
import tempfile

from program import compiler, interface_of_json, interface_of_spec, skip


def main():
    lacks = [name for name in ("p4c-bm2-ss", "p4c-dpdk") if shutil.which(name) is None]
    if lacks:
        skip(f"p4c is not installed ({', '.join(lacks)}): docs/switch.md says where to get it")
    made = json.loads((compiler.COMPILED / "made-from.json").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compiler.compile_to(folder)
        for interface in (interface_of_json, interface_of_spec):
            if interface(folder) != interface(compiler.COMPILED):
                sys.exit(f"{interface.__name__}: this p4c's outputs have other tables, actions or arrays")
        if compiler.version() != made["p4c"]:
            print(f"p4c {compiler.version()} is not {made['p4c']}, which made what is committed: bytes not compared")
            return
        for output in compiler.OUTPUTS:
            if (folder / output).read_bytes() != (compiler.COMPILED / output).read_bytes():
                sys.exit(f"p4/compiled/{output}: this p4c makes something else of the sources (run p4/compile)")


if __name__ == "__main__":
    main()
