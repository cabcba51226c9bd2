#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The owner of a job's worker count over the loopback interface: controller, server, heddle-train, testbed/launch.

usage: check_elastic.py BUILD_DIR [TEST]...   needs no privileges."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import loopback

HEDDLECTL = loopback.BUILD / "controller/heddlectl"
LAUNCH = Path(__file__).resolve().parents[3] / "testbed/launch"
PATIENCE_S = 25
# Machines as processes: their ids lie in files named after ranks.
START = """HEDDLE_RANK=$1 HEDDLE_HOST=h$1 HEDDLE_EVENTS=w$1.jsonl nohup {train} --json w$1.json \
>out.$1 2>&1 </dev/null & echo $! >pid.$1"""
STOP = "kill -9 $(cat pid.$1); rm pid.$1"
LIST = """for f in pid.[0-9]*; do [ -f $f ] || continue; s=$(cut -d' ' -f3 /proc/$(cat $f)/stat 2>/dev/null)
[ -z "$s" ] || [ $s = Z ] || echo ${f#pid.}; done"""


class Elastic(loopback.Loopback):
    def setUp(self):
        super().setUp()
        self.start_controller("--events", self.path / "ctl.jsonl")
        self.ps = self.start_server("--controller", self.controller)
        self.env.update(HEDDLE_KEY_FILE=str(self.key), HEDDLE_JOB="digits", HEDDLE_CONTROLLER=self.controller,
                        HEDDLE_BIND="127.0.0.1", HEDDLE_WORLD_SIZE="2", OPENBLAS_NUM_THREADS="1")

    def train(self, *more):
        return [str(a) for a in (loopback.TRAIN, "--model", "mlp:32", "--lr", 0.05, "--compute-ms", 20, "--quiet",
                                 "--seconds", 60, "--shards", "live", *more)]

    def start_worker(self, rank, *more):
        process = subprocess.Popen(
            self.train("--json", self.path / f"w{rank}.json", *more),
            env={**self.env, "HEDDLE_RANK": str(rank), "HEDDLE_HOST": f"h{rank}",
                 "HEDDLE_EVENTS": str(self.path / f"w{rank}.jsonl")}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process, signal.SIGKILL)
        return process

    def control(self, *words):
        done = subprocess.run([str(HEDDLECTL), "--controller", self.controller, "--key-file", str(self.key), *words],
                              env=self.env, capture_output=True, text=True, timeout=10)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def row(self):
        rows = json.loads(self.control("elastic", "show", "--json"))["rows"]
        return rows[0] if rows else None

    def wait_row(self, what, true):
        """The owner's row, once it is so."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            row = self.row()
            if row and true(row):
                return row
            self.assertLess(time.monotonic(), ends, f"no {what}: {row}")
            time.sleep(0.1)

    def summary(self, rank):
        return json.loads((self.path / f"w{rank}.json").read_text())

    def test_growth_by_steps(self):
        """The target is what the steps that workers report make it, not what time does."""
        workers = [self.start_worker(rank, "--sync", "full") for rank in range(2)]
        self.wait_row("two workers", lambda row: row["workers"] == 2)
        self.control("elastic", "set", "digits", "policy=growth", "n=2", "eta=1.01", "n_max=4")
        self.control("elastic", "price", "digits", "0.00036")
        first = self.wait_row("steps", lambda row: row["step"] > 2)
        self.assertGreater(first["loss"], 0)
        self.assertGreater(first["step_ms"], 15)
        grown = self.wait_row("growth", lambda row: row["target"] == 4)
        self.assertGreaterEqual(grown["step"], 41)  # 2 x 1.01^41 > 3
        self.assertLess(grown["loss"], first["loss"])
        self.assertEqual(grown["workers"], 2)
        self.assertEqual(grown["refused"], 0)
        self.assertEqual(grown["price"], 0.00036)
        self.assertGreater(grown["money"], 0)  # also far below a thousandth
        self.assertLessEqual(grown["money"], (grown["worker_s"] + 1e-3) * 1e-7)
        # A worker that joins later counts from 1, and the target stays.
        late = self.start_worker(2, "--sync", "full")
        self.wait_row("a third", lambda row: row["workers"] == 3)
        self.end(workers[0], signal.SIGKILL)
        self.end(workers[1], signal.SIGKILL)
        self.wait_row("one", lambda row: row["workers"] == 1)
        time.sleep(1)
        self.assertEqual(self.row()["target"], 4)
        self.assertGreaterEqual(self.row()["step"], grown["step"])
        self.assertIsNone(late.poll())

    def test_highest_rank_leaves(self):
        """Too many: the highest rank flushes what its filter holds, and leaves by itself; its notice is no time to
        work on."""
        self.leaves([])

    def test_leaves_a_step(self):
        """The same in synchronous steps: what is held goes with the last step that it is in."""
        self.leaves(["--sync", "full"])

    def leaves(self, words):
        workers = [self.start_worker(rank, "--filter", 3, *words) for rank in range(3)]
        self.wait_row("three workers", lambda row: row["workers"] == 3)
        self.control("elastic", "set", "digits", "policy=manual", "n=3", "notice=20")
        held = self.wait_row("norms", lambda row: row["held_norm"] is not None and row["held_norm"] > 0)
        self.assertEqual(held["sent_away"], 0)
        self.control("elastic", "set", "digits", "n=2")
        self.assertEqual(workers[2].wait(PATIENCE_S), 0)
        self.assertLess(self.left_in(2), 5)
        row = self.wait_row("two workers", lambda row: row["workers"] == 2)
        self.assertEqual((row["target"], row["sent_away"]), (2, 1))
        summary = self.summary(2)
        self.check_sums(summary)
        self.assertTrue(summary["preempted"])
        self.assertEqual(summary["failed"], 0)
        self.assertEqual(summary["filter"]["held_norm"], 0)
        self.assertEqual([w.poll() for w in workers[:2]], [None, None])

    def test_scale_is_the_owners(self):
        """--scale-rate holds until the owner says a factor, and after that. Either is the server's, a step at a time:
        what workers push, full batches of a model that stays as it is, has the same norm all the time."""
        self.env["HEDDLE_WORLD_SIZE"] = "3"  # a rank's rows are a batch
        workers = [self.start_worker(rank, "--sync", "full", "--scale-rate", "linear:1", "--lr", 0, "--batch", 479,
                                     "--shards", "rank") for rank in range(2)]
        self.wait_row("two workers", lambda row: row["workers"] == 2)
        for words, scale in (["scale=none"], None), (["scale=linear", "base=4"], 0.5), (["scale=none"], None):
            self.control("elastic", "set", "digits", "policy=fixed", "n=2", *words)
            row = self.wait_row("its factor", lambda row: row["scale"] == scale)
            self.wait_row("steps with it", lambda now: now["step"] > row["step"] + 5)
        self.end(workers[1])
        self.assertAlmostEqual(self.summary(1)["scale"], 2)
        self.end(workers[0])
        self.end(self.ps)  # its log's last words are written then
        scales = [e["value"] for e in self.events("ps", "stepped") if e["aux"] == 2]
        changes = [scale for i, scale in enumerate(scales) if i == 0 or scale != scales[i - 1]]
        self.assertEqual(changes[-3:], [2, 0.5, 2])
        for rank in range(2):
            norms = [e["value"] for e in self.events(f"w{rank}", "pushed")]
            self.assertGreater(len(norms), 15)
            self.assertAlmostEqual(min(norms) / max(norms), 1, delta=1e-4)

    def left_in(self, rank):
        """Seconds from a worker's notice to its leaving, as the controller has it."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            # The end is read before the notice, which is in the log by then.
            downs, notices = ([e for e in self.events("ctl", kind) if e.get("worker", 0) == rank]
                              for kind in ("node-down", "notice"))
            if downs:
                break
            self.assertLess(time.monotonic(), ends, "it is not written that it has left")
            time.sleep(0.05)
        self.assertEqual(downs[0]["reason"], "left")
        return (downs[0]["at_ns"] - notices[0]["at_ns"]) / 1e9

    def stop_machines(self):
        for file in self.path.glob("pid.*"):
            try:
                os.kill(int(file.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_launch(self):
        """testbed/launch follows the target: 2, 4, 2 workers, each a process."""
        self.addCleanup(self.stop_machines)
        script = {"start": START.format(train=" ".join(self.train("--sync", "full"))), "stop": STOP, "list": LIST}
        for name, text in script.items():
            (self.path / name).write_text(text)
        launch = subprocess.Popen(
            [str(LAUNCH), "--job", "digits", "--controller", self.controller, "--key-file", str(self.key),
             "--heddlectl", str(HEDDLECTL), "--start", "sh start {rank}", "--stop", "sh stop {rank}",
             "--list", "sh list", "--workers", "2", "--every-s", "0.3", "--notice-s", "3"],
            cwd=self.path, env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.addCleanup(self.end, launch)
        self.wait_row("two workers", lambda row: row["workers"] == 2)
        self.control("elastic", "set", "digits", "policy=growth", "n=2", "eta=1.02", "n_max=4", "notice=2")
        row = self.wait_row("four workers", lambda row: row["workers"] == 4)
        self.assertGreater(row["step"], 20)  # 2 x 1.02^21 > 3
        self.control("elastic", "set", "digits", "policy=manual", "n=2", "notice=2")
        self.wait_row("two workers", lambda row: row["workers"] == 2 and row["leaving"] == 0)
        time.sleep(1.5)
        self.assertEqual(self.row()["workers"], 2)
        self.end(launch)
        for rank in (2, 3):
            self.assertTrue(self.summary(rank)["preempted"])
            self.assertEqual(self.summary(rank)["failed"], 0)
        running = subprocess.run(["sh", "list"], cwd=self.path, capture_output=True, text=True, timeout=10).stdout
        self.assertEqual(running.split(), ["0", "1"])


def load_tests(loader, tests, pattern):
    """Only these, not the ones that they inherit from."""
    names = sorted(name for name in vars(Elastic) if name.startswith("test_"))
    return unittest.TestSuite(Elastic(name) for name in names)


if __name__ == "__main__":
    if not loopback.DIGITS.exists():
        print(f"skipped: {loopback.DIGITS} is missing (Debian's python3-sklearn)")
        sys.exit(77)
    unittest.main(verbosity=2)
