#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The wheel of the Python package: its record, its tag, that it is made the same twice, and that it works where nothing
else of Heddle is.

usage: check_python_wheel.py WHEEL_SCRIPT BUILD_DIR"""
import base64
import csv
import hashlib
import io
import os
import re
import sys
import tempfile
import zipfile

from processes import check, run

SCRIPT, BUILD = sys.argv[1:3]
PATIENCE_S = 400


def make(folder):
    done = run(SCRIPT, "--build", os.path.join(BUILD, "wheel"), folder, timeout=PATIENCE_S)
    check(done.returncode == 0, f"the wheel is made: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def check_record(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        check([row[0] for row in rows] == names, f"the record names all files: {rows}")
        for name, digest, size in rows[:-1]:
            content = archive.read(name)
            mine = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            check(digest == f"sha256={mine}" and int(size) == len(content), f"{name}: {digest} {size}")


def unpack(wheel, site):
    """As pip does it: what may be executed stays so."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, site)
            if entry.external_attr >> 16 & 0o111:
                os.chmod(path, 0o755)


# One job over the controller that the wheel brings, which must end with its parent's object.
OWN = """
import os, heddle, heddle.fabric as fabric
key = fabric.Key("5a" * 32)
controller = fabric.Controller(key)
pid = controller.pid
with heddle.Job("own", controller=controller.address, key_file=key.path) as job:
    job.wait_joined(10)
del controller
print(fabric.program(), os.path.exists(f"/proc/{pid}"))
"""


def main():
    with tempfile.TemporaryDirectory() as where:
        wheel = make(where)
        check(re.search(r"/heddle-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$", wheel), f"its name: {wheel}")
        check_record(wheel)
        with open(wheel, "rb") as first, open(make(os.path.join(where, "again")), "rb") as second:
            check(first.read() == second.read(), "the same sources make the same wheel")
        site = os.path.join(where, "site")
        unpack(wheel, site)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": site}
        done = run(sys.executable, "-c", "import heddle; print(heddle.__file__, heddle.version())", env=env,
                   timeout=PATIENCE_S)
        check(done.returncode == 0 and done.stdout.startswith(site), f"it is imported: {done.stdout}{done.stderr}")
        done = run(sys.executable, "-m", "heddle", "doctor", env=env, timeout=PATIENCE_S)  # imports torch
        check(done.returncode == os.EX_CONFIG and f"({site}/heddle/libheddle.so.0." in done.stdout,
              f"its own library: {done.stdout}{done.stderr}")
        done = run(sys.executable, "-c", OWN, env={**env, "PATH": "/none"}, timeout=PATIENCE_S)
        check(done.stdout == f"{site}/heddle/heddle-controller False\n",
              f"its own controller: {done.stdout}{done.stderr}")


main()
