#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The significance filter over the real fabric on the loopback interface: controller, server, heddle-run, trainer.

usage: check_filter.py BUILD_DIR [TEST]...   needs no privileges.
"""
import json
import signal
import subprocess
import sys
import unittest

import loopback
from loopback import DEADLINE_S, DIGITS, TRAIN
from processes import until

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
        """One worker is the reference in one process, bit for bit, what was held back to the end included."""
        _, server = self.start_fabric()
        train = [*MODEL, "--steps", 80, *more]
        local, plain = self.local(*train), self.local(*MODEL, "--steps", 80)
        fabric = self.one(*train)
        self.assertEqual(fabric["model_crc32"], local["model_crc32"])
        self.assertNotEqual(fabric["model_crc32"], plain["model_crc32"])
        self.assertEqual(fabric["filter"]["sent_values"], local["filter"]["sent_values"])
        # Held values go with the last step: there is no update of its own for them.
        self.assertEqual(fabric["filter"]["flushes"], 0)
        self.assertEqual(fabric["filter"]["held_norm"], 0)
        self.assertEqual(fabric["applied"], 80 - fabric["filter"]["silent"])
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
        """Synchronous: a worker without anything to send still takes part, and all flush at the end."""
        self.start_fabric()
        train = ["--steps", 150, "--sync", "full", "--lr", 0.5, "--seed", 5, "--json", "-", "--quiet"]
        _, plain, _ = self.run_job(3, train, run=["--job", "plain"])
        status, summaries, lines = self.run_job(3, [*train, "--filter", 3, "--filter-flush", 50])
        self.assertEqual(status, 0, lines)
        for rank in range(3):
            self.check_sums(summaries[rank])
            self.assertEqual(summaries[rank]["filter"]["held_norm"], 0)
            self.assertEqual(summaries[rank]["failed"], 0)
            self.assertLess(summaries[rank]["push_bytes"], 0.7 * plain[rank]["push_bytes"])
            self.assertGreater(summaries[rank]["accuracy"], plain[rank]["accuracy"] - 0.05)

    def test_preempted(self):
        """A worker whose machine is taken away goes with nothing held back."""
        self.start_fabric()
        run = subprocess.Popen(
            self.run_command(1, [*MODEL, "--compute-ms", 10, "--filter", 3, "--seconds", 50],
                             run=["--grace", 3]),
            env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, run)
        until(lambda: len(self.events("ps", "committed")) > 20, "commits", DEADLINE_S)
        run.send_signal(signal.SIGTERM)
        out, _ = run.communicate(timeout=DEADLINE_S)
        summaries, lines = self.sort_lines(out)
        self.assertIn(0, summaries, lines)
        self.assertTrue(summaries[0]["preempted"])
        self.assertGreater(summaries[0]["applied"], 20)
        self.assertEqual(summaries[0]["filter"]["held_norm"], 0)
        self.assertEqual(summaries[0]["failed"], 0)

    def check_sparse_model(self, *train, cut):
        """Four workers in synchronous steps: what travels with a threshold, beside what does without."""
        self.start_fabric()
        # The first step waits for four at once, and all four end with the same one.
        train = [*train, "--sync", "nsync:4", "--seed", 1, "--json", "-", "--quiet"]
        bytes_of, loss_of = [], []
        for job, more in (("plain", ["--payload", "sparse"]), ("filtered", ["--filter", 0.7])):
            status, summaries, lines = self.run_job(4, [*train, *more], run=["--job", job])
            self.assertEqual(status, 0, lines)
            for summary in summaries.values():
                self.check_sums(summary)
                self.assertEqual(summary["failed"], 0)
                self.assertEqual(summary["applied"], summary["steps"])
                self.assertEqual(summary["version"], 4 * summary["steps"])
                self.assertEqual((summary["filter"] or {"held_norm": 0})["held_norm"], 0)
            bytes_of.append(sum(s["push_bytes"] for s in summaries.values()))
            loss_of.append(max(s["loss"] for s in summaries.values()))
        print(f"bytes / {bytes_of[0] / bytes_of[1]:.2f}, loss {loss_of[0]:.5f} -> {loss_of[1]:.5f}", file=sys.stderr)
        self.assertGreater(bytes_of[0] / bytes_of[1], cut)
        return loss_of

    def test_logistic_regression(self):
        before, after = self.check_sparse_model(
            "--data", "generated:logistic", "--model", "logistic", "--lr", 1, "--batch", 256, "--steps", 300, cut=2.5)
        self.assertLess(after, 1.01 * before)
        self.assertLess(before, 0.6)

    def test_matrix_factorisation(self):
        before, after = self.check_sparse_model(
            "--data", "generated:ratings", "--model", "pmf:20", "--lr", 20, "--batch", 200, "--steps", 300, cut=2.5)
        # It begins at 0.49, and is still falling when it ends.
        self.assertLess(before, 0.012)
        self.assertLess(after - before, 0.01 * (0.49 - before))

    def test_local_steps(self):
        """Steps of a worker's own, pushed as one: the model after them, to rounding, in a tenth of the bytes."""
        self.start_fabric()
        train = [*MODEL, "--steps", 60]
        local = self.local(*train)
        fabric = self.one(*train, "--local-steps", 10, "--sync", "full")
        self.assertEqual(fabric["applied"], 6)
        self.assertEqual(fabric["steps"], 60)
        self.assertAlmostEqual(fabric["loss"], local["loss"], delta=1e-4)
        self.assertAlmostEqual(fabric["training_loss"], local["training_loss"], delta=1e-4)

    def test_bad_input(self):
        for wrong, word in ((["--filter", -1], "filter"), (["--filter", "nan"], "filter"),
                            (["--filter", 1, "--filter-block", 0], "filter-block"),
                            (["--filter-block", 8], "filter-block"), (["--filter", 1, "--lr", 0], "learning rate"),
                            (["--write-data", "x"], "generated"), (["--local-steps", 2], "local-steps"),
                             (["--model", "pmf:4"], "pmf takes ratings"),
                            (["--data", "generated:ratings:0"], "1..1000000")):
            done = subprocess.run([str(a) for a in (TRAIN, "--local", "--steps", 1, *wrong)], env=self.env,
                                  text=True, capture_output=True, timeout=DEADLINE_S)
            self.assertIn(done.returncode, (64, 65), done.stderr)
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
