#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`testbed/install build` installs every library that the build files ask for outside tests/, so that a bare machine
builds. Says of a library only what Debian knows: which package has its .pc file."""
import pathlib
import re
import shutil
import subprocess
import sys

from house import finish, text_of, tracked

DEPENDENCY = re.compile(r"(?<!_)dependency\('([\w+.-]+)'")
WORD = re.compile(r"[a-z0-9][a-z0-9.+-]+")  # of a list of packages; versions do no harm
NOT_LIBRARIES = {"threads"}


def said(command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def package_of(library):
    """Package that has a library's .pc file, or ''."""
    folder = said(["pkg-config", "--variable=pcfiledir", library])
    if not folder:
        return ""
    # Alternatives (BLAS) are links; the file that one leads to belongs to a package.
    file = (pathlib.Path(folder) / f"{library}.pc").resolve()
    return said(["dpkg-query", "-S", str(file)]).partition(":")[0]


def main():
    if not (shutil.which("dpkg-query") and shutil.which("pkg-config")):
        print("skipped: dpkg-query or pkg-config is missing, so the package of a library is not known")
        sys.exit(77)
    rows = [line.split() for line in text_of("testbed/packages.txt").splitlines() if line and line[0] != "#"]
    packages = {package for group, package in rows if group == "build"}
    packages |= set(WORD.findall(said(["dpkg-query", "-W", "-f", "${Depends}\n", *packages])))
    files = [path for path in tracked() if path.name == "meson.build" and path.parts[0] != "tests"]
    problems = []
    libraries = set()
    for path in files:
        for library in set(DEPENDENCY.findall(text_of(path))) - NOT_LIBRARIES:
            libraries.add(library)
            package = package_of(library)
            if package and package not in packages:
                problems.append(f"{path}: {library} is of {package}, which the group `build` of "
                                f"testbed/packages.txt neither has nor pulls in")
    if not libraries:
        problems.append("no meson.build asks for any library: this check is broken")
    finish("packages", problems, len(libraries))


if __name__ == "__main__":
    main()
