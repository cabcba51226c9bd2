#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`meson install` into an empty folder: every program starts from there, and a program of a user's builds against
the header, the library and the pkg-config file, and nothing else.

usage: check_install.py BUILD_DIR SOURCE_DIR"""
import json
import os
import pathlib
import re
import sys
import tempfile

import processes

BUILD, SOURCE = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tests/house"))
import check_links  # noqa: E402
PROGRAMS = ["heddle-controller", "heddlectl", "heddle-plan", "heddle-server", "heddle-aggregator",
            "heddle-switch-agent", "heddle-train", "heddle-run", "heddle-sim", "heddle-tcp-ps", "heddle-trace"]
SCRIPTS = {"bmv2": "testbed/bmv2", "demo": "testbed/demo", "launch": "testbed/launch",
           "market": "testbed/market/run", "patterns": "testbed/patterns/run"}
OPTIONAL = {"heddle-monitor", "heddle-switch"}  # where libbpf is, where DPDK is
FILES = ["share/doc/heddle/README.md", "share/doc/heddle/LICENSE", "share/doc/heddle/docs/heddlectl.schema.json",
         "share/doc/heddle/docs/heddle.lua", "share/doc/heddle/docs/benchmarks/README.md"]


def run(*command, **more):
    done = processes.run(*command, timeout=60, **more)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def check_pages(docs):
    """All pages of the sources are there, and what they link to."""
    files = {pathlib.PurePath(path.relative_to(docs)) for path in docs.rglob("*") if path.is_file()}
    pages = {path for path in files if path.suffix == ".md"}
    wanted = {pathlib.PurePath(path.relative_to(SOURCE)) for path in [
        SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *(SOURCE / "docs").rglob("*.md")]}
    assert pages == wanted, pages ^ wanted
    names = {}
    problems = [problem for page in sorted(pages) for problem in check_links.check_document(page, files, names, docs)]
    assert not problems, "\n".join(problems)


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-install-") as folder:
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder)
        programs = sorted(pathlib.Path(folder).rglob("bin/heddle*"))
        assert {p.name for p in programs} - OPTIONAL == set(PROGRAMS), [p.name for p in programs]
        prefix = programs[0].parent.parent
        for name in FILES:
            assert (prefix / name).is_file(), f"{name} is not installed"
        for header in (SOURCE / "worker-lib/include").glob("*.h"):
            assert (prefix / "include" / header.name).is_file(), f"{header.name} is not installed"
        for path in pathlib.Path(folder).rglob("*"):  # tests and what only they need stay behind
            assert "test" not in path.name and ("bench" not in path.name or path.name == "benchmarks"), path
        docs = prefix / "share/doc/heddle"
        check_pages(docs)

        library = next(prefix.rglob("libheddle.so.0.2")).parent
        version = json.loads(run("meson", "introspect", "--projectinfo", BUILD))["version"]
        here = {**os.environ, "LD_LIBRARY_PATH": str(library)}
        for program in programs:
            assert "usage: " in run(program, "--help", env=here).lower(), f"{program.name} --help"
            assert len([*prefix.rglob(f"{program.name}.[18]")]) == 1, f"{program.name} has no manual page"
            assert run(program, "--version", env=here) == f"{program.name} {version}\n", f"{program.name} --version"
        header = (SOURCE / "worker-lib/include/heddle_base.h").read_text(encoding="utf-8")
        assert ".".join(re.findall(r"define HEDDLE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)) == version
        for name, script in SCRIPTS.items():
            assert run(SOURCE / script, "--version") == f"{name} {version}\n", f"{script} --version"

        words = run("pkg-config", "--cflags", "--libs", "heddle", env={
            **os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": folder}).split()
        minimal = pathlib.Path(folder) / "minimal"
        run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", SOURCE / "worker-lib/examples/minimal.c", *words,
            "-o", minimal)
        # No server to talk to: it must report that, which it can only when it found its library.
        bare = {k: v for k, v in here.items() if not k.startswith("HEDDLE_")}
        done = processes.run(minimal, env=bare, timeout=60)
        assert done.returncode == 1 and "HEDDLE_" in done.stderr, done
        for more, words in (({}, "no job name: set HEDDLE_JOB, or start it with heddle-run --job"),
                            ({"HEDDLE_JOB": "j"}, "fabric: no controller and no server: set HEDDLE_CONTROLLER or "
                             "HEDDLE_SERVER"),
                            ({"HEDDLE_JOB": "j", "HEDDLE_SERVER": "127.0.0.1:9"},
                             "fabric: no key file: set HEDDLE_KEY_FILE")):
            done = processes.run(prefix / "bin/heddle-train", "--data", "generated:logistic:100,20,5,1", "--model",
                                 "logistic", env={**bare, **more}, timeout=60)
            assert done.returncode == 64 and done.stderr == f"heddle-train: {words}\n", done
        symbols = run("nm", "-D", "--defined-only", library / "libheddle.so.0.2").splitlines()
        names = [line.split()[-1] for line in symbols]
        assert names and all(name.startswith(("heddle_", "HEDDLE_")) for name in names), names
        print(f"install: {len(programs)} programs, {len(names)} symbols")


if __name__ == "__main__":
    main()
