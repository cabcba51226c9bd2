#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package on the loopback interface: its structs are the compiler's; collectives, pushes and pulls of
numpy arrays, awaited and waited for; bad input; `python3 -m heddle doctor`.

usage: check_python.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE HEDDLE_AGGREGATOR HEDDLE_SERVER HEDDLE_RUN PYTHON_STRUCTS"""
import ctypes
import json
import os
import pathlib
import sys
import tempfile

from processes import Program, check, run, write_keys

CONTROLLER, LIBRARY, PACKAGE, AGGREGATOR, SERVER, RUN, STRUCTS = sys.argv[1:8]
HERE = pathlib.Path(__file__).parent
WORKERS, PATIENCE_S = 3, 60
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "HEDDLE_LIBRARY": LIBRARY,
       "PYTHONPATH": PACKAGE}


def check_structs():
    os.environ["HEDDLE_LIBRARY"] = LIBRARY
    sys.path.insert(0, PACKAGE)
    from heddle import native  # pylint: disable=import-error,import-outside-toplevel
    wanted = json.loads(run(STRUCTS).stdout)
    check(wanted.keys() == native.STRUCTS.keys(), f"the same structs: {wanted.keys()}")
    for name, struct in native.STRUCTS.items():
        mine = {"": ctypes.sizeof(struct), **{field[0]: getattr(struct, field[0]).offset for field in struct._fields_}}
        check(mine == wanted[name], f"struct {name}: {mine} is not {wanted[name]}")


def doctor(*words, **env):
    done = run(sys.executable, "-m", "heddle", "doctor", *words, env={**ENV, **env}, timeout=PATIENCE_S)
    return done.returncode, done.stdout + done.stderr


def check_doctor(address, keys, where):
    code, text = doctor("--json", HEDDLE_CONTROLLER=address, HEDDLE_KEY_FILE=keys)
    rows = {row["check"]: row["result"] for row in json.loads(text)}
    check(code == 0 and rows["controller"] == "ok" and rows["key"] == "ok", f"all is well: {code} {text}")
    code, text = doctor()
    check(code == os.EX_CONFIG and "export HEDDLE_CONTROLLER" in text and "HEDDLE_KEY_FILE" in text, text)
    other = write_keys(where, "other", "1 " + "43" * 32)
    code, text = doctor("--timeout", "0.5", HEDDLE_CONTROLLER=address, HEDDLE_KEY_FILE=other)
    check(code == os.EX_CONFIG and "wrong  controller" in text, f"another key: {text}")
    code, text = doctor(HEDDLE_CONTROLLER=address, HEDDLE_KEY_FILE=os.path.join(where, "none"))
    check(code == os.EX_CONFIG and "No such file" in text, text)


def check_import():
    done = run(sys.executable, "-c", "import heddle", env={**ENV, "HEDDLE_LIBRARY": "/none/libheddle.so"})
    check(done.returncode == 1 and "HEDDLE_LIBRARY" in done.stderr, f"no library: {done.stderr}")


def main():
    check_structs()
    check_import()
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
        common = ["--listen", "127.0.0.1:0", "--controller", controller.address, "--key-file", keys, "--host"]
        others = [Program(AGGREGATOR, *common, "a1"), Program(SERVER, *common, "ps")]
        check_doctor(controller.address, keys, where)
        for test in ("sums", "types", "collectives", "lists", "sends", "groups", "state", "agree", "agree_or_not",
                     "await", "model", "errors", "interrupt", "closing"):
            done = run(RUN, "-n", WORKERS, "--controller", controller.address, "--key-file", keys, "--job", test,
                       "--bind", "127.0.0.1", "--host-prefix", "h", "--",
                       sys.executable, HERE / "python_worker.py", test, env=ENV, timeout=PATIENCE_S)
            check(done.returncode == 0, f"{test}: {done.returncode}\n{done.stdout}{done.stderr}")
            check(done.stdout.count(": done") == WORKERS, f"{test}: each worker is done\n{done.stdout}{done.stderr}")
            print(f"{test}: done")
        for program in (*others, controller):
            program.stop()


main()
