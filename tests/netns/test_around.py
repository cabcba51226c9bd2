# SPDX-License-Identifier: BSD-3-Clause
"""testbed/bmv2 runs a program of the user's around a bmv2 switch.

With bmv2 its ranks all-reduce, each checks every sum, and they were the switch's. With a stand-in (bmv2_fake.py), which
forwards but adds nothing, all but that: each rank has its environment and reaches the controller, also when the switch
has been killed; its lines come with its number, and the first failure ends the others and is the command's status.

usage: test_around.py BUILD_DIR fake|bmv2"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pen  # also makes the demo's own modules known
from lab import bmv2

sys.path.insert(0, str(pen.ROOT / "tests/unit/programs"))
import bmv2_fake  # noqa: E402: found by now

HOSTS, VALUES, ROUNDS = 3, 2000, 4
PATIENCE_S = 150  # against a hang
KILL = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f | grep -q '[b]mv2_fake.py simple_switch ' || continue; " \
    "f=${f#/proc/}; kill -9 ${f%/cmdline}; done 2>/dev/null"
RANK = "echo rank $HEDDLE_RANK of $HEDDLE_WORLD_SIZE at $HEDDLE_BIND in $PWD; ping -c 1 -W 5 -q $HEDDLE_CONTROLLER " \
    "| grep -c ' 1 received'; [ $HEDDLE_RANK = 1 ] || exec sleep 100; " + KILL + "; for i in 1 2 3 4 5 6 7 8 9; do " \
    "ping -c 1 -W 2 -q $HEDDLE_CONTROLLER | grep -q ' 1 received' && echo again at $((i > 1)) && exit 3; done"


def around(build, folder, *words):
    done = subprocess.run([pen.ROOT / "testbed/bmv2", "--hosts", str(HOSTS), "--keep", folder / "kept", "--",
                           *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          cwd=folder, timeout=PATIENCE_S, env={**os.environ, "HEDDLE_BUILD": str(build)})
    print(done.stdout, done.stderr, flush=True)
    return done.returncode, done.stdout.splitlines()


def check_fake(build, folder):
    bmv2_fake.install(folder / "bin")
    os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    status, lines = around(build, folder, "sh", "-c", RANK)
    assert status == 3, status
    for rank in range(HOSTS):
        said = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert re.fullmatch(rf"\[{rank}\] rank {rank} of {HOSTS} at 10\.77\.\d+\.\d+ in {folder}", said[0]), said
        if rank == 1:  # it ends, and the others with it
            assert said[1:] == ["[1] 1", "[1] again at 1"], said
        else:
            assert said[1:] in ([f"[{rank}] 1"], []), said
    assert "led" not in lines[-1] and lines[-1].startswith("bmv2: 0 rounds"), lines
    assert "ready" in (folder / "kept/sa1.log").read_text()


def check_bmv2(build, folder):
    status, lines = around(build, folder, build / "tests/bench/bench_allreduce", VALUES, ROUNDS, 1408)
    assert status == 0 and sum(line.startswith("[0] ") for line in lines) >= 1, status
    rounds, total = map(int, re.match(r"bmv2: (\d+) rounds through the switch, of (\d+);", lines[-1]).groups())
    assert rounds == total >= ROUNDS, lines[-1]
    assert int(re.search(r"completed (\d+)", lines[-1])[1]) >= ROUNDS * -(-VALUES // 32), lines[-1]


def main():
    build, kind = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    pen.need_namespaces()
    why = bmv2.missing() if kind == "bmv2" else None
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-around-") as folder:
        (check_bmv2 if kind == "bmv2" else check_fake)(build, pathlib.Path(folder).resolve())


if __name__ == "__main__":
    main()
