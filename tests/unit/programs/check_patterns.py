#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Patterns of training: what a wrong scenario is told, what functions cost, and a short run of every shipped pattern,
by its command.

usage: check_patterns.py BUILD_DIR SOURCE_DIR [TEST]...   needs no privileges."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
sys.path.insert(0, str(SOURCE / "testbed"))

from lab.scenario import ScenarioError  # noqa: E402
from patterns import cost, setting  # noqa: E402

DEADLINE_S = 120
WORKERS, GRADIENTS = 3, 60
ADMM = json.loads((setting.SCENARIOS / "admm.json").read_text())
TRAIN = BUILD / "worker-lib/heddle-train"
SANITIZED = any(word in TRAIN.read_bytes() for word in (b"__asan_init", b"__tsan_init"))


class Scenarios(unittest.TestCase):
    def wrong(self, *words, **changes):
        with self.assertRaises(ScenarioError) as caught:
            setting.parse(json.dumps({**copy.deepcopy(ADMM), **changes}, indent=1), "test.json")
        for word in ("test.json: line ", *words):
            self.assertIn(word, str(caught.exception))

    def test_shipped(self):
        names = sorted(path.stem for path in setting.SCENARIOS.glob("*.json"))
        self.assertEqual([own["name"] for own in setting.load_all(names)], names)
        self.assertEqual({own["pattern"]["kind"] for own in setting.load_all(names)}, {
            "gradient-averaging", "model-averaging", "admm", "asynchronous", "short-lived", "budget", "map-reduce"})

    def test_wrong(self):
        job, admm = ADMM["job"], ADMM["pattern"]
        short = {"kind": "short-lived", "lifetime_s": 2, "memory_mb": 64}
        self.wrong("pattern.local_steps", "7 does not divide job.gradients (300)", pattern={**admm, "local_steps": 7})
        self.wrong("pattern.rounds", "400 does not divide", pattern={"kind": "map-reduce", "rounds": 400})
        self.wrong("pattern.rho", "local steps overshoot", pattern={**admm, "rho": 1.5})
        self.wrong("pattern.rho", "is missing", pattern={"kind": "admm", "local_steps": 10})
        self.wrong("pattern.kind", "one of gradient-averaging", pattern={"kind": "gossip"})
        self.wrong("pattern.rounds", "unknown field", pattern={**admm, "rounds": 1})
        self.wrong("pattern.grace_s", "2 is not below lifetime_s (2)", pattern={**short, "grace_s": 2})
        self.wrong("pattern.memory_mb", "0 is outside 1..", pattern={**short, "memory_mb": 0})
        self.wrong("pattern.worker_s", "0 is outside", pattern={"kind": "budget", "worker_s": 0, "deadline_s": 5})
        self.wrong("workers", "0 is outside 1..64", workers=0)
        self.wrong("job.gradients", "is missing", job={"batch": 8})
        self.wrong("job.batch", "0 is outside 1..65536", job={**job, "batch": 0})
        self.wrong("prices.services[0].hour", "-1 is outside", prices={"services": [{"name": "x", "hour": -1}]})

    def test_one_table_one_job(self):
        with tempfile.TemporaryDirectory(prefix="heddle-patterns-") as folder:
            path = pathlib.Path(folder) / "other.json"
            path.write_text(json.dumps({**ADMM, "name": "other", "job": {**ADMM["job"], "batch": 64}}))
            with self.assertRaisesRegex(ScenarioError, "other: job.batch: 64 is not 128 as in admm"):
                setting.load_all(["admm", str(path)])
            with self.assertRaisesRegex(ScenarioError, "admm: name: is there twice"):
                setting.load_all(["admm", "admm"])

    def test_cost(self):
        """MLLess' cost model: 24 workers and a supervisor for 100 s beside two services; 12 from half of it on."""
        prices = {"gb_second": 1.7e-5, "memory_gb": 2, "services": [{"hour": 0.17}, {"hour": 0.15}]}
        self.assertAlmostEqual(cost.cost(prices, 25 * 100, 100), 0.093889, places=6)
        self.assertAlmostEqual(cost.cost(prices, 25 * 50 + 13 * 50, 100), 0.073489, places=6)
        account = cost.Account()
        account.begin(1.0)[1] = 3.0
        account.begin(2.0)
        self.assertEqual([account.worker_s(t) for t in (0, 1.5, 3, 10)], [0, 0.5, 3.0, 10.0])


class Runs(unittest.TestCase):
    def run_patterns(self, folder, *options):
        return subprocess.run(
            ["/usr/bin/python3", "-m", "patterns.main", "--build", str(BUILD), "--out", str(folder), "--json",
             *map(str, options)], cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
            env={**os.environ, "PYTHONPATH": str(SOURCE / "testbed"), "PYTHONDONTWRITEBYTECODE": "1"})

    def small(self, folder, name, **pattern):
        """A shipped scenario with less to do."""
        own = json.loads((setting.SCENARIOS / f"{name}.json").read_text())
        own["workers"] = WORKERS
        own["job"] |= {"gradients": GRADIENTS, "compute_ms": 4}
        own["pattern"] |= pattern
        path = folder / f"{name}.json"
        path.write_text(json.dumps(own))
        return path

    def test_every_pattern(self):
        more = {"cirrus": {"lifetime_s": 1.5, "grace_s": 0.5}, "pywren": {"rounds": 2},
                "siren": {"worker_s": 6, "deadline_s": 3}}
        if SANITIZED:
            more["cirrus"]["memory_mb"] = 1 << 20  # a sanitizer's own memory counts
            more["siren"] = {"worker_s": 18, "deadline_s": 9}  # its processes take seconds to start beside others
        with tempfile.TemporaryDirectory(prefix="heddle-patterns-") as name:
            folder = pathlib.Path(name)
            files = [self.small(folder, path.stem, **more.get(path.stem, {}))
                     for path in sorted(setting.SCENARIOS.glob("*.json"))]
            done = self.run_patterns(folder, *files)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((folder / "patterns.png").stat().st_size > 10000)
            records = {record["pattern"]: record for record in json.loads(done.stdout)}
        self.assertEqual(len(records), len(files))
        for name, record in records.items():
            self.assertLess(record["loss"], 0.68, record)  # log 2 where it began
            self.assertGreater(record["cost"], 0)
            self.assertGreaterEqual(record["worker_s"], record["time_s"] * 0.3)
            costs = [point["cost"] for point in record["curve"]]
            self.assertEqual(costs, sorted(costs))
            if name not in ("siren", "cirrus"):
                self.assertEqual(record["gradients"], WORKERS * GRADIENTS, record)
        made = WORKERS * GRADIENTS
        for name, updates in (("ga-sgd", made), ("async", made), ("ma-sgd", made / 10), ("admm", made / 10),
                              ("pywren", WORKERS * 2)):
            self.assertEqual(records[name]["updates"] + records[name]["dropped"], updates, records[name])
        self.assertLess(records["isp"]["pushed_mb"], 0.8 * records["ga-sgd"]["pushed_mb"])
        self.assertEqual(records["pywren"]["lives"], 2 * WORKERS)
        self.assertGreaterEqual(records["cirrus"]["gradients"], made)
        siren = records["siren"]
        self.assertTrue(siren["within"])
        self.assertLessEqual(siren["worker_s"], more["siren"]["worker_s"])
        self.assertTrue(siren["targets"], siren)  # the owner said how many
        self.assertTrue(all(1 <= target <= 2 for _, target in siren["targets"]), siren["targets"])

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory counts, and it hangs or ends the program where there is none")
    def test_too_little_memory(self):
        """A worker that needs more than its function has says so, and the run with it."""
        with tempfile.TemporaryDirectory(prefix="heddle-patterns-") as name:
            folder = pathlib.Path(name)
            done = self.run_patterns(folder, self.small(folder, "cirrus", memory_mb=1), "--no-pictures")
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertRegex(done.stderr, "patterns: cirrus: worker [0-9]: status 71: .*no memory for .*memory-mb 1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
