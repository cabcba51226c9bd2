#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each header compiles alone; the public one as C11 and as C++11, under gcc's and clang's pedantry."""
import re
import subprocess
import sys

from house import ROOT, finish, sources, text_of

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


def can_compile(header, packages):
    """Headers that need DPDK are left out where that is not installed, as are their sources."""
    return any("dpdk" in flag for flag in packages) or not re.search(r"#include <rte_", text_of(header))


def main():
    packages = sys.argv[1:]  # include flags of the libraries, from meson
    headers = [h for h in sources(".h") if not re.search(r"\.skel\.h$", h.name) and can_compile(h, packages)]
    folders = sorted({str(h.parent) for h in headers})
    problems = []
    for header in headers:
        problems += problems_of(header, folders, packages)
    finish("headers", problems, len(headers))


if __name__ == "__main__":
    main()
