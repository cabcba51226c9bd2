#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The significance filter over the real fabric on the loopback interface: controller, server, heddle-run, trainer.

usage: check_filter.py BUILD_DIR [TEST]...   needs no privileges.
"""
import json
import subprocess
import sys
import unittest

import loopback
from loopback import DEADLINE_S, DIGITS, TRAIN

MODEL = ["--model", "mlp:32", "--lr", 0.1, "--seed", 5, "--json", "-", "--quiet"]


class Filter(loopback.Loopback):
    def local(self, *train):
        done = subprocess.run([str(a) for a in (TRAIN, "--local", *train)], env=self.env, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        return json.loads(done.stdout)

    def one(self, *train):
        status, summaries, lines = self.run_job(1, ["--synchronous", *train])
        self.assertEqual(status, 0, lines)
        self.check_sums(summaries[0])
        return summaries[0]

    def test_no_threshold_is_no_filter(self):
        self.start_fabric()
        train = [*MODEL, "--steps", 60, "--momentum", 0.9, "--weight-decay", 1e-3]
        plain = self.local(*train)
        with_filter = self.one(*train, "--filter", 0)
        self.assertEqual(with_filter["model_crc32"], plain["model_crc32"])
        self.assertEqual(with_filter["filter"]["held_norm"], 0)
        self.assertEqual(self.local(*train, "--filter", 0)["model_crc32"], plain["model_crc32"])

    def check_same(self, *more):
        """One worker is the reference in one process, bit for bit, what was held back and flushed included."""
        _, server = self.start_fabric()
        train = [*MODEL, "--steps", 80, *more]
        local, plain = self.local(*train), self.local(*MODEL, "--steps", 80)
        fabric = self.one(*train)
        self.assertEqual(fabric["model_crc32"], local["model_crc32"])
        self.assertNotEqual(fabric["model_crc32"], plain["model_crc32"])
        self.assertEqual(fabric["filter"]["sent_values"], local["filter"]["sent_values"])
        self.assertEqual(fabric["filter"]["flushes"], 1)
        self.assertEqual(fabric["filter"]["held_norm"], 0)
        self.assertEqual(fabric["applied"], 81 - fabric["filter"]["silent"])
        self.assertAlmostEqual(fabric["loss"], plain["loss"], delta=0.1 * plain["loss"])
        self.end(server)
        sizes = [event["bytes"] for event in self.events("ps", "committed")]
        dense = 4 * (64 * 32 + 32 + 32 * 10 + 10)
        self.assertLess(sum(sizes) / len(sizes), 0.8 * dense)
        return sizes

    def test_same_as_local(self):
        self.check_same("--filter", 0.7)

    def test_same_as_local_in_blocks(self):
        self.check_same("--filter", 0.7, "--filter-block", 16)

    def test_all_steps_wait_for_everybody(self):
        """Synchronous: whoever has nothing to send still takes part, and all flush at the end."""
        self.start_fabric()
        train = [*MODEL, "--steps", 150, "--sync", "full", "--lr", 0.5]
        _, plain, _ = self.run_job(3, train, run=["--job", "plain"])
        status, summaries, lines = self.run_job(3, [*train, "--filter", 3, "--filter-flush", 50])
        self.assertEqual(status, 0, lines)
        for rank in range(3):
            self.check_sums(summaries[rank])
            self.assertEqual(summaries[rank]["filter"]["held_norm"], 0)
            self.assertEqual(summaries[rank]["failed"], 0)
            self.assertLess(summaries[rank]["push_bytes"], 0.7 * plain[rank]["push_bytes"])
            self.assertGreater(summaries[rank]["accuracy"], plain[rank]["accuracy"] - 0.05)

    def test_bad_input(self):
        for wrong, word in ((["--filter", -1], "filter"), (["--filter", "nan"], "filter"),
                            (["--filter", 1, "--filter-block", 0], "filter-block"),
                            (["--filter-block", 8], "filter-block"), (["--filter", 1, "--lr", 0], "learning rate")):
            done = subprocess.run([str(a) for a in (TRAIN, "--local", "--steps", 1, *wrong)], env=self.env,
                                  text=True, capture_output=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(word, done.stderr)


def load_tests(loader, tests, pattern):
    """Only these, not the ones that they inherit from."""
    names = sorted(name for name in vars(Filter) if name.startswith("test_"))
    return unittest.TestSuite(Filter(name) for name in names)


if __name__ == "__main__":
    if not DIGITS.exists():
        print(f"skipped: {DIGITS} is missing (Debian's python3-sklearn)")
        sys.exit(77)
    unittest.main(verbosity=2)
