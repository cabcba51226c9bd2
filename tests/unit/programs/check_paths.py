#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ways to train over the real fabric on the loopback interface: consensus ADMM, workers that live for a while only, and
in little memory.

usage: check_paths.py BUILD_DIR [TEST]...   needs no privileges.
"""
import json
import resource
import subprocess
import sys
import unittest

import loopback
from loopback import DEADLINE_S, TRAIN

TASK = ["--data", "generated:logistic", "--model", "logistic", "--batch", 128, "--lr", 1, "--seed", 3, "--json", "-",
        "--quiet"]
SANITIZED = any(word in TRAIN.read_bytes() for word in (b"__asan_init", b"__tsan_init"))
SANITIZED_WHY = "a sanitizer's own memory counts, and it ends the program where there is none"


class Ways(loopback.Loopback):
    def three(self, job, *train):
        status, summaries, lines = self.run_job(3, [*TASK, "--sync", "nsync:3", *train], run=["--job", job])
        self.assertEqual(status, 0, lines)
        for summary in summaries.values():
            self.check_sums(summary)
            self.assertEqual((summary["failed"], summary["dropped"]), (0, 0))
        self.assertEqual(len({summary["model_crc32"] for summary in summaries.values()}), 1, summaries)
        return summaries

    def test_three_workers(self):
        """A model in a tenth of the updates that is as good as with averages of gradients, from the same gradients."""
        self.start_fabric()
        plain = self.three("plain", "--steps", 200)
        admm = self.three("admm", "--steps", 200, "--admm", "0.01,10")
        for rank, summary in admm.items():
            self.assertEqual((summary["steps"], summary["applied"]), (200, 20))
            self.assertLess(summary["push_bytes"], plain[rank]["push_bytes"] / 9)
            self.assertLess(summary["loss"], plain[rank]["loss"] + 0.02)
        self.assertNotEqual(admm[0]["model_crc32"], plain[0]["model_crc32"])

    def test_payloads(self):
        """Fixed point, and 16 bits: what rounding takes from an update, its worker's dual gives back."""
        self.start_fabric()
        loss = {payload: self.three(payload, "--steps", 100, "--admm", 0.05, "--payload", payload)[0]["loss"]
                for payload in ("fp32", "fixed32", "bf16")}
        self.assertAlmostEqual(loss["fixed32"], loss["fp32"], delta=1e-4)
        self.assertAlmostEqual(loss["bf16"], loss["fp32"], delta=0.01)

    def test_lives(self):
        """A process that goes on where another ended: together they are one, bit for bit."""
        self.start_fabric()
        train = ["--model", "mlp:16", "--lr", 0.1, "--momentum", 0.9, "--seed", 5, "--json", "-", "--quiet"]
        local = subprocess.run([str(a) for a in (TRAIN, "--local", *train, "--steps", 60)], env=self.env, text=True,
                               stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        for first, steps in ((0, 25), (25, 35)):
            status, summaries, lines = self.run_job(
                1, ["--synchronous", *train, "--steps", steps, "--first-step", first])
            self.assertEqual(status, 0, lines)
        self.assertEqual(summaries[0]["model_crc32"], json.loads(local.stdout)["model_crc32"])

    def check_unsealed(self, scheduled):
        train = ["--lr", 0.1, "--seed", 5, "--steps", 20, "--json", "-", "--quiet"]
        local = subprocess.run([str(a) for a in (TRAIN, "--local", *train)], env=self.env, text=True,
                               stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        status, summaries, lines = self.run_job(1, ["--synchronous", "--integrity", "off", *train], (), scheduled)
        self.assertEqual(status, 0, lines)
        self.assertEqual(summaries[0]["model_crc32"], json.loads(local.stdout)["model_crc32"])
        status, _, lines = self.run_job(1, ["--synchronous", *train], (), scheduled)
        self.assertEqual(status, 78, lines)
        self.assertIn("integrity: on, the job has off", "".join(lines[0]))

    def test_unsealed(self):
        """Without MACs it is the same model. A worker whose setting differs from the job's is refused."""
        self.start_fabric()
        self.check_unsealed(True)

    def test_unsealed_direct(self):
        self.start_server()
        self.check_unsealed(False)

    @unittest.skipIf(SANITIZED, SANITIZED_WHY)
    def test_memory(self):
        """A worker that needs more than it may have says what for, and how much there is."""
        self.start_fabric()
        said = set()
        for mb in (1, 4, 10, 20, 60):
            status, summaries, lines = self.run_job(
                1, ["--model", "mlp:1024,1024", "--steps", 2, "--memory-mb", mb, "--json", "-", "--quiet"],
                run=["--job", f"m{mb}"])
            if mb == 60:
                self.assertEqual(status, 0, lines)
                self.assertGreater(summaries[0]["peak_mb"], 4 * 1.1)  # the model and its updates
                continue
            self.assertEqual(status, 71, lines)
            self.assertIn(f"MiB of --memory-mb {mb} are in use", "".join(lines[0]))
            said.add(lines[0][0].partition(":")[2].partition(":")[0])
        self.assertGreaterEqual(len(said), 3, said)  # the data, the model, gradients or a thread

    @unittest.skipIf(SANITIZED, SANITIZED_WHY)
    def test_little_address_space(self):
        """Whatever it may have, it ends: a BLAS that finds no room for its buffer would try for ever."""
        ended = {}
        for mib in (16, 48, 96, 160, 1024):
            done = subprocess.run([str(TRAIN), "--local", "--steps", "2"], env=self.env,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)),
                                  capture_output=True, text=True, timeout=DEADLINE_S)
            ended[mib] = done.returncode
            if done.returncode == 71:
                self.assertIn("no memory for", done.stderr)
        # 127: not even its libraries have room; -2: OpenBLAS's own word when it can begin no thread.
        self.assertLessEqual(set(ended.values()), {0, 71, 127, -2}, ended)
        self.assertEqual((ended[96], ended[1024]), (71, 0), ended)

    def test_bad_input(self):
        sync = ["--sync", "full"]
        for wrong, words in ((["--admm", "x", *sync], "RHO[,LOCAL_STEPS]"), (["--admm", "0", *sync], "above 0"),
                             (["--admm", "1,0", *sync], "1..1000000"), (["--admm", "1,2.5", *sync], "admm"),
                             (["--admm", "1,5x", *sync], "admm"), (["--admm", "nan", *sync], "admm"),
                             (["--admm", "0.1"], "needs --sync"), (["--admm", "0.1", "--sync", "nbatch:2"], "nsync:N"),
                             (["--admm", "2", "--lr", 1, *sync], "RHO x --lr is 2"),
                             (["--admm", "0.1", "--momentum", 0.9, *sync], "momentum"),
                             (["--admm", "0.1", "--filter", 1, *sync], "not with"),
                             (["--admm", "0.1", "--local", "--steps", 1, *sync], "not with"),
                             (["--integrity", "none"], "--integrity: 'none' (on or off)"),
                             (["--integrity", ""], "--integrity: '' (on or off)"), (["--integrity"], "integrity")):
            done = subprocess.run([str(a) for a in (TRAIN, *wrong)], env=self.env, text=True, capture_output=True,
                                  timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(words, done.stderr)


def load_tests(loader, tests, pattern):
    """Only these, not the ones that they inherit from."""
    names = sorted(name for name in vars(Ways) if name.startswith("test_"))
    return unittest.TestSuite(Ways(name) for name in names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
