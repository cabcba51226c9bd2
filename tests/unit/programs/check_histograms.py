#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Histograms over the real fabric on the loopback interface: when a job has ended, each grant, first chunk, applied
update and delivered pull has been counted once, and shell and metrics say the same.

usage: check_histograms.py BUILD_DIR [TEST]...   needs no privileges.
"""
import json
import socket
import subprocess
import time
import unittest
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import loopback
from loopback import BUILD, DEADLINE_S
from metric_rules import histograms

SHELL = BUILD / "controller/heddlectl"


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Histograms(loopback.Loopback):
    def setUp(self):
        super().setUp()
        self.metrics = {of: f"127.0.0.1:{free_tcp_port()}" for of in ("controller", "server")}
        self.start_controller("--metrics", self.metrics["controller"])
        self.start_server("--controller", self.controller, "--metrics", self.metrics["server"])

    def ask(self, *words, of):
        where = ["--controller", self.controller] if of == "controller" else ["--server", self.server]
        done = subprocess.run([str(w) for w in (SHELL, *where, "--key-file", self.key, *words)], text=True,
                              capture_output=True, check=False, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        return done.stdout

    def rows(self, *words, of):
        return json.loads(self.ask("show", *words, "--json", of=of))["rows"]

    def counter(self, name, of):
        return next(row["value"] for row in self.rows("counters", of=of) if row["counter"] == name)

    def shown(self, of):
        """{(histogram, of): row}, each of them whole."""
        rows = self.rows("histograms", of=of)
        for row in rows:
            counts = [bucket["count"] for bucket in row["buckets"]]
            bounds = [bucket["le"] for bucket in row["buckets"]]
            self.assertEqual(counts, sorted(counts), row)
            self.assertEqual(bounds[:-1], sorted(bounds[:-1]), row)
            self.assertIsNone(bounds[-1], row)
            self.assertEqual(counts[-1], row["count"], row)
            if row["count"] == 0:
                self.assertEqual([row[name] for name in ("mean", "p50", "p90", "p99", "max")], [None] * 5, row)
                continue
            self.assertLessEqual(row["p50"], row["p90"], row)
            self.assertLessEqual(row["p90"], row["p99"], row)
            self.assertLessEqual(row["p99"], row["max"], row)
            self.assertLessEqual(row["mean"], row["max"], row)
        return {(row["histogram"], row["of"]): row for row in rows}

    def scraped(self, of):
        """{(metric, values of its labels): (buckets, count, sum)}."""
        with urllib.request.urlopen(f"http://{self.metrics[of]}/metrics", timeout=DEADLINE_S) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {(family.name, tuple(value for _, value in key)): histogram for family in families
                if family.type == "histogram" for key, histogram in histograms(family).items()}

    def assert_same(self, row, histogram):
        buckets, count, total = histogram
        size = {"ms": 1e3, "updates": 1}[row["unit"]]
        self.assertEqual(row["count"], count, row)
        self.assertEqual([bucket["count"] for bucket in row["buckets"]], [value for _, value in buckets])
        for bucket, (le, _) in zip(row["buckets"][:-1], buckets):
            self.assertAlmostEqual(bucket["le"], le * size, delta=1e-9 + 1e-6 * bucket["le"])
        if count > 0:
            self.assertAlmostEqual(row["mean"] * count, total * size, delta=1e-3 * count)

    def test_counted_once(self):
        self.ask("set", "credit-bytes", "off", of="controller")  # all ask
        status, summaries, lines = self.run_job(
            2, ["--model", "mlp:64", "--steps", 60, "--compute-ms", 1, "--tau-max", 8, "--json", "-", "--quiet"])
        self.assertEqual(status, 0, lines)
        shown = self.shown("controller")
        waits = {of: row["count"] for (name, of), row in shown.items() if name == "grant_wait"}
        self.assertEqual(sorted(waits), ["pull", "push", "replicate"])
        self.assertEqual(sum(waits.values()), self.counter("grants", "controller"))
        self.assertGreaterEqual(waits["push"], sum(summary["applied"] for summary in summaries.values()))
        self.assertGreater(waits["pull"], 0)
        job = self.rows("jobs", of="controller")[0]
        delays = shown["staleness", "default/digits"]
        staleness = self.rows("staleness", of="controller")[0]
        self.assertEqual(delays["count"], job["applied"])
        self.assertEqual((delays["mean"], delays["max"]), (staleness["mean"], staleness["max"]))
        metrics = self.scraped("controller")
        for direction in waits:
            self.assert_same(shown["grant_wait", direction], metrics["heddle_controller_grant_wait_seconds",
                                                                      (direction,)])
        self.assert_same(delays, metrics["heddle_job_staleness", ("digits", "default")])
        self.assertEqual(len(metrics), len(shown))

        for summary in summaries.values():
            self.check_times(summary)

        shown, metrics = self.shown("server"), self.scraped("server")
        self.assertEqual(shown["staleness", ""]["count"], self.counter("committed", "server"))
        self.assertEqual(shown["staleness", ""]["max"], delays["max"])
        self.assertEqual(shown["pull", ""]["count"], self.counter("pulls_delivered", "server"))
        self.assertGreater(shown["pull", ""]["max"], 0)
        self.assertEqual(shown["first_chunk", ""]["count"], self.until_begun(shown["first_chunk", ""]["count"]))
        self.assertGreaterEqual(shown["first_chunk", ""]["count"], self.counter("committed", "server"))
        self.assert_same(shown["staleness", ""], metrics["heddle_server_staleness", ()])
        self.assert_same(shown["first_chunk", ""], metrics["heddle_server_first_chunk_seconds", ()])
        self.assert_same(shown["pull", ""], metrics["heddle_server_pull_seconds", ()])
        self.assertEqual(len(metrics), len(shown))

    def check_times(self, summary):
        """A worker's own: each applied push and each delivered model once, and what each waited for."""
        times = summary["times_ms"]
        self.assertEqual(sorted(times), sorted(["push", "push_grant", "push_first_chunk",
                                                "pull", "pull_grant", "pull_first_chunk"]))
        for of in times.values():
            self.assertTrue(0 <= of["mean"] <= of["max"] < 1e3 * DEADLINE_S, of)  # 0: in the same call
            self.assertTrue(0 <= of["p50"] <= of["p90"] <= of["p99"] <= of["max"] + 1e-6, of)
        self.assertEqual(times["push"]["count"], summary["applied"])
        self.assertGreater(min(times[direction]["mean"] for direction in ("push", "pull")), 0)
        self.assertEqual(times["pull"]["count"], summary["pulls"]["delivered"] + 1)  # the last one, for the summary
        for direction in ("push", "pull"):
            self.assertGreaterEqual(times[f"{direction}_grant"]["count"], times[direction]["count"])
            self.assertGreaterEqual(times[f"{direction}_first_chunk"]["count"], times[direction]["count"])
            self.assertLess(times[f"{direction}_grant"]["mean"], times[direction]["mean"])

    def until_begun(self, count):
        """The number of pushes whose first chunks are in the server's log, once it is `count`: the log is written a
        moment later."""
        end = time.monotonic() + DEADLINE_S
        while True:
            begun = sum(event.get("direction", "push") == "push" for event in self.events("ps", "recv-start"))
            if begun >= count or time.monotonic() > end:
                return begun
            time.sleep(0.05)

    def test_text(self):
        text = self.ask("show", "histograms", of="controller").splitlines()
        self.assertEqual(text[0].split(), "histogram of unit count mean p50 p90 p99 max help".split())
        self.assertEqual(len(text), 1 + 3)
        self.assertEqual(text[1].split()[:9], "grant_wait push ms 0 - - - - -".split())
        wide = self.ask("show", "histograms", "pull", "--wide", of="server").splitlines()
        self.assertEqual(len(wide), 2)
        self.assertNotIn("buckets", wide[0])


def load_tests(loader, tests, pattern):
    """Only these, not the ones that they inherit from."""
    names = sorted(name for name in vars(Histograms) if name.startswith("test_"))
    return unittest.TestSuite(Histograms(name) for name in names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
