#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each header compiles alone; the public one as C11 and as C++11, under gcc's and clang's pedantry."""
import re
import subprocess
import sys

from house import ROOT, finish, sources

PUBLIC = "worker-lib/include"
WARN = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def compiles(command, header):
    text = f'#include "{header.name}"\n#include "{header.name}"\ntypedef int translation_unit_is_not_empty;\n'
    done = subprocess.run([*command, "-"], input=text, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        yield f"{header}: {' '.join(command[:3])}: {done.stderr.strip()[:600]}"


def problems_of(header, folders, packages):
    if header.is_relative_to(PUBLIC):
        own = [f"-I{header.parent}", "-pedantic"]
        yield from compiles(["gcc", "-std=c11", "-xc", *WARN, *own], header)
        yield from compiles(["clang", "-std=c11", "-xc", *WARN, *own], header)
        yield from compiles(["clang", "-std=c++11", "-xc++", *WARN, *own], header)
        return
    yield from compiles(["gcc", "-std=gnu17", "-xc", *WARN, "-Wno-unused-parameter", "-D_GNU_SOURCE",
                         *[f"-I{f}" for f in folders], *packages], header)


def main():
    headers = [h for h in sources(".h") if not re.search(r"\.skel\.h$", h.name)]
    folders = sorted({str(h.parent) for h in headers})
    packages = sys.argv[1:]  # include flags of the libraries, from meson
    problems = []
    for header in headers:
        problems += problems_of(header, folders, packages)
    finish("headers", problems, len(headers))


if __name__ == "__main__":
    main()
