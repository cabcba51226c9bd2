#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tests/run seeds`: every seed is run once, bad ones are told with what replays them, and broken programs too."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import seeds  # noqa: E402
from processes import check  # noqa: E402

WELL = """#!/bin/sh
echo $HEDDLE_SIM_FIRST $HEDDLE_SIM_SEEDS "$@" >>$(dirname $0)/ran
"""
BAD = """#!/bin/sh
for seed in $(seq $HEDDLE_SIM_FIRST $((HEDDLE_SIM_FIRST + HEDDLE_SIM_SEEDS - 1))); do
	[ $((seed % 40)) != 7 ] || { echo "seed $seed: an update was lost"; bad=1; }
done
exit ${bad:-0}
"""
STOPS = """#!/bin/sh
for seed in $(seq $HEDDLE_SIM_FIRST $((HEDDLE_SIM_FIRST + HEDDLE_SIM_SEEDS - 1))); do
	echo $seed >>$(dirname $0)/stops.ran
	[ $((seed % 10)) != 7 ] || { echo "seed $seed: an update was lost"; exit 1; }
done
"""
BROKEN = """#!/bin/sh
[ $HEDDLE_SIM_FIRST != 26 ] || kill -SEGV $$
"""


def run(build, *words):
    """(status, what it printed)"""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = seeds.main([str(build), *words])
    return status, said.getvalue()


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-seeds-") as folder:
        build = pathlib.Path(folder)
        for name, text in (("well", WELL), ("bad", BAD), ("stops", STOPS), ("broken", BROKEN)):
            (build / name).write_text(text)
            os.chmod(build / name, 0o755)
        seeds.WORLDS = {"well": seeds.World("well", ["hard", "--first", "{first}"], seeds.SEED, seeds.ENVIRONMENT),
                        "bad": seeds.World("bad", [], seeds.SEED, seeds.RANDOM),
                        "stops": seeds.World("stops", [], seeds.SEED, seeds.ENVIRONMENT),
                        "broken": seeds.World("broken", [], seeds.SEED, seeds.ENVIRONMENT)}
        status, said = run(build, "60", "--first", "3", "--worlds", "well", "--jobs", "3")
        check(status == 0 and "60 seeds, none bad" in said, said)
        ran = sorted((build / "ran").read_text().splitlines(), key=lambda line: int(line.split()[0]))
        check(ran == ["3 25 hard --first 3", "28 25 hard --first 28", "53 10 hard --first 53"], ran)
        status, said = run(build, "100", "--worlds", "well,bad")
        check(status == 1 and "200 seeds, SOME BAD" in said, said)
        check("BAD bad, seed 7: an update was lost" in said and "seed 47: an" in said and "seed 87: an" in said, said)
        check(f"replay: {build}/testbed/heddle-sim --random --seed 47 --trace FILE" in said, said)
        check("[7, 47, 87]" in said, said)
        status, said = run(build, "60", "--first", "3", "--worlds", "stops")
        check(status == 1 and "[7, 17, 27, 37, 47, 57]" in said, said)
        check(sorted(map(int, (build / "stops.ran").read_text().split())) == list(range(3, 63)), "not each seed once")
        status, said = run(build, "60", "--worlds", "broken")
        check(status == 1 and "BAD broken, seeds 26..50: status -11" in said, said)
        check(f"HEDDLE_SIM_FIRST=26 HEDDLE_SIM_SEEDS=25 {build}/broken" in said, said)
        status, said = run(build, "1000", "--worlds", "well", "--minutes", "0.000001")
        check(status == 0 and "not all that were asked for" in said, said)


main()
