#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real processes on the loopback interface: workers whose machine is taken away, with a notice (SIGTERM) and without.

usage: preempt.py BUILD_DIR [TEST]...   needs no privileges."""
import json
import signal
import subprocess
import sys
import time
import unittest

import loopback

HEDDLECTL = loopback.BUILD / "controller/heddlectl"
GRACE_S = 3
DETECTION_S = 1
PATIENCE_S = 20


class Preempt(loopback.Loopback):
    def start_worker(self, rank, *more, world=3):
        env = {**self.env, "HEDDLE_KEY_FILE": str(self.key), "HEDDLE_JOB": "digits", "HEDDLE_RANK": str(rank),
               "HEDDLE_WORLD_SIZE": str(world), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1",
               "HEDDLE_EVENTS": str(self.path / f"w{rank}.jsonl"), "OPENBLAS_NUM_THREADS": "1", **self.where}
        process = subprocess.Popen(
            [str(loopback.TRAIN), "--model", "mlp:64", "--lr", "0.01", "--compute-ms", "20", "--quiet", "--seconds",
             "120", "--json", str(self.path / f"w{rank}.json"), "--shards", "live", *more],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process, signal.SIGKILL)
        return process

    def scheduled(self):
        self.where = {"HEDDLE_CONTROLLER": self.controller}
        return self.start_controller("--events", self.path / "ctl.jsonl"), \
            self.start_server("--controller", self.controller)

    def wait(self, what, found):
        ends = time.monotonic() + PATIENCE_S
        while not found():
            self.assertLess(time.monotonic(), ends, f"no {what}")
            time.sleep(0.02)

    def seen(self, name, kind):
        try:
            return self.events(name, kind)
        except (OSError, json.JSONDecodeError):
            return []

    def commits(self, rank):
        return [e for e in self.seen("ps", "committed") if e.get("worker", 0) == rank]

    def work(self, *ranks):
        for rank in ranks:
            before = len(self.commits(rank))
            self.wait(f"commits of worker {rank}", lambda: len(self.commits(rank)) > before + 3)

    def sizes(self, node):
        return [e.get("aux", 0) for e in self.seen(node, "roster")]

    def summary(self, rank):
        return json.loads((self.path / f"w{rank}.json").read_text())

    def nothing_is_lost(self, rank):
        """It left by itself; what it pushed was applied or dropped by policy, and the server says the same."""
        summary = self.summary(rank)
        self.check_sums(summary)
        self.assertTrue(summary["preempted"], summary)
        self.assertEqual(summary["failed"], 0, summary)
        self.assertGreater(summary["applied"], 0)
        self.wait("the last commits in the log", lambda: len(self.commits(rank)) == summary["applied"])

    def test_with_notice(self):
        self.scheduled()
        workers = [self.start_worker(rank, "--grace", str(GRACE_S)) for rank in range(3)]
        self.work(0, 1, 2)
        self.wait("a roster of three", lambda: self.sizes("ctl")[-1:] == [3])
        begun = time.monotonic()
        workers[1].send_signal(signal.SIGTERM)
        self.wait("the notice", lambda: self.seen("ctl", "notice"))
        shown = json.loads(subprocess.run(
            [str(HEDDLECTL), "--controller", self.controller, "--key-file", str(self.key), "show", "nodes", "--json"],
            capture_output=True, text=True, timeout=10, check=True, env=self.env).stdout)
        left = {row["worker"]: row["preempted_in_s"] for row in shown["rows"] if row["role"] == "worker"}
        self.assertTrue(0 < left[1] <= GRACE_S, left)
        self.assertEqual([left[0], left[2]], [None, None])
        # It works on while it can.
        self.work(1)
        self.assertEqual(workers[1].wait(PATIENCE_S), 0)
        took = time.monotonic() - begun
        self.assertTrue(1 < took < GRACE_S, took)
        self.nothing_is_lost(1)
        self.wait("its leave", lambda: any(
            e.get("worker", 0) == 1 and e.get("reason") == "left" for e in self.seen("ctl", "node-down")))
        self.wait("a roster of two", lambda: self.sizes("ctl")[-1:] == [2])
        self.work(0, 2)
        # It comes again.
        again = self.start_worker(1)
        self.wait("a roster of three", lambda: self.sizes("ctl")[-1:] == [3])
        self.work(0, 1, 2)
        self.assertIsNone(again.poll())

    def test_without_notice(self):
        self.scheduled()
        workers = [self.start_worker(rank) for rank in range(3)]
        self.work(0, 1, 2)
        self.wait("a roster of three", lambda: self.sizes("ctl")[-1:] == [3])
        killed = time.monotonic_ns()
        workers[1].kill()
        self.wait("a roster of two", lambda: self.sizes("ctl")[-1:] == [2])
        roster = self.seen("ctl", "roster")[-1]
        self.assertLess((roster["at_ns"] - killed) / 1e9, DETECTION_S + 0.5)
        self.work(0, 2)
        for rank in (0, 2):
            times = [e["at_ns"] for e in self.commits(rank) if e["at_ns"] > killed - 10**9]
            gaps = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
            self.assertLess(max(gaps), DETECTION_S + 1, "the living waited longer than the detection time")

    def norms(self, rank):
        return [e["value"] for e in self.seen(f"w{rank}", "pushed")]

    def scales(self, of):
        """The scales of the steps of `of` updates."""
        return [e["value"] for e in self.seen("ps", "stepped") if e["aux"] == of]

    def test_scale_follows(self):
        """Full batches of a model that stays as it is: the norms of a worker's updates stay the same when any worker
        goes; steps are scaled."""
        self.scheduled()
        words = ["--scale-rate", "linear:2", "--lr", "0", "--shards", "rank", "--batch", "479", "--sync", "full"]
        workers = [self.start_worker(rank, *words) for rank in range(3)]
        self.wait("a roster of three", lambda: self.sizes("ctl")[-1:] == [3])
        self.work(0, 1, 2)
        three = [self.norms(rank)[-1] for rank in range(3)]
        self.wait("steps of three", lambda: self.scales(3)[-1:] == [1.5])
        workers[2].send_signal(signal.SIGTERM)
        self.assertEqual(workers[2].wait(PATIENCE_S), 0)
        self.assertEqual(self.summary(2)["scale"], 1.5)
        self.wait("a roster of two", lambda: self.sizes("ctl")[-1:] == [2])
        self.work(0, 1)
        self.wait("steps of two", lambda: self.scales(2)[-1:] == [1])
        for rank in (0, 1):
            self.assertAlmostEqual(self.norms(rank)[-1] / three[rank], 1, delta=1e-4)
            workers[rank].send_signal(signal.SIGTERM)
        self.assertEqual([workers[rank].wait(PATIENCE_S) for rank in (0, 1)], [0, 0])
        self.assertIn(self.summary(0)["scale"], (1, 0.5))  # it may have seen the other go

    def test_without_a_controller(self):
        self.where = {"HEDDLE_SERVER": self.server}
        self.start_server()
        workers = [self.start_worker(rank, "--grace", str(GRACE_S)) for rank in range(3)]
        self.work(0, 1, 2)
        self.wait("a roster of three", lambda: self.sizes("ps")[-1:] == [3])
        workers[2].send_signal(signal.SIGTERM)
        self.wait("the notice", lambda: self.seen("ps", "notice"))
        self.assertEqual(workers[2].wait(PATIENCE_S), 0)
        self.nothing_is_lost(2)
        self.wait("a roster of two", lambda: self.sizes("ps")[-1:] == [2])
        self.work(0, 1)

    def test_whole_run(self):
        """heddle-run --grace: SIGTERM is a notice to all, the observer is no member."""
        self.where = {}
        self.start_controller("--events", self.path / "ctl.jsonl")
        self.start_server("--controller", self.controller)
        command = self.run_command(
            2, ["--model", "mlp:64", "--compute-ms", 20, "--quiet", "--json", "-", "--every-ms", 100],
            run=["--grace", 2, "--observer"])
        process = subprocess.Popen(command, env=self.env, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        self.work(0, 1)
        self.wait("a roster of two", lambda: self.sizes("ctl")[-1:] == [2])
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        summaries, _ = self.sort_lines(output)
        for rank in (0, 1):
            self.assertTrue(summaries[rank]["preempted"], output)
            self.assertEqual(summaries[rank]["failed"], 0, output)
        self.assertEqual(max(self.sizes("ctl")), 2)


def load_tests(loader, tests, pattern):
    """These, and not those that come with the fixture."""
    return unittest.TestSuite(Preempt(name) for name in vars(Preempt) if name.startswith("test_"))


if __name__ == "__main__":
    if not loopback.DIGITS.exists():
        print(f"skipped: {loopback.DIGITS} is missing (Debian's python3-sklearn)")
        sys.exit(77)
    unittest.main(verbosity=2)
