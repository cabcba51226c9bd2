#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the dataplane over the real fabric on the loopback interface: a controller, a server, an aggregator and
two workers that train; what the controller's tables say of the nodes is what these count themselves.

usage: check_dataplane.py BUILD_DIR [TEST]...   needs no privileges.
"""
import json
import re
import socket
import subprocess
import time
import unittest
import urllib.request

import loopback
from loopback import BUILD, DEADLINE_S, free_port

AGGREGATOR = BUILD / "aggregator/heddle-aggregator"
SHELL = BUILD / "controller/heddlectl"
ROLES = {"controller": 1, "server": 1, "aggregator": 1, "worker": 2}
COUNTED = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")


class Dataplane(loopback.Loopback):
    def setUp(self):
        super().setUp()
        self.aggregator = f"127.0.0.1:{free_port()}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.metrics = f"127.0.0.1:{probe.getsockname()[1]}"
        self.start_controller("--metrics", self.metrics)
        self.start_server("--controller", self.controller)
        self.start(AGGREGATOR, "--listen", self.aggregator, "--controller", self.controller, "--host", "a1",
                   "--key-file", self.key)
        train = ["--model", "mlp:64", "--steps", 1000000, "--lr", 0.001, "--seed", 3, "--quiet"]
        job = subprocess.Popen(self.run_command(2, train), env=self.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, job)

    def ask(self, *words, of=None):
        where = ["--server", of] if of else ["--controller", self.controller]
        done = subprocess.run([str(w) for w in (SHELL, *where, "--key-file", self.key, *words)], text=True,
                              capture_output=True, check=False, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        return done.stdout

    def rows(self, *words, of=None):
        return json.loads(self.ask("show", *words, "--json", of=of))["rows"]

    def until(self, holds, what):
        end = time.monotonic() + DEADLINE_S
        while not (found := holds()):
            self.assertLess(time.monotonic(), end, what)
        return found

    def trained(self):
        """The table, once all nodes are there and have answered twice."""
        def whole():
            rows = self.rows("dataplane")
            roles = [row["role"] for row in rows]
            good = all(roles.count(role) == count for role, count in ROLES.items())
            return rows if good and all(row["tx_mbps"] is not None for row in rows) else None
        return self.until(whole, "all nodes answer")

    def own(self, address):
        return self.rows("ports", of=address)[0]

    def one(self, role, rows):
        return next(row for row in rows if row["role"] == role)

    def test_same_as_nodes(self):
        """Each node's row lies between what it says itself before and after; what is sent is received."""
        self.trained()
        nodes = {"server": self.server, "aggregator": self.aggregator}
        before = {role: self.own(address) for role, address in nodes.items()}

        def later():
            rows = self.trained()
            newer = all(self.one(role, rows)[name] > before[role][name] for role in nodes for name in COUNTED)
            return rows if newer else None
        rows = self.until(later, "what the controller shows is newer than what the nodes have said")
        after = {role: self.own(address) for role, address in nodes.items()}
        for role in nodes:
            row = self.one(role, rows)
            for name in COUNTED:
                self.assertLessEqual(row[name], after[role][name], (role, name))
        for row in rows:
            self.assertLess(row["age_s"], 3, row)
            self.assertGreater(row["rx_packets"], 0, row)
            self.assertGreaterEqual(row["cpu_percent"], 0, row)
            drops = sum(value for name, value in row.items() if re.match("drop_(?!reason)", name))
            self.assertEqual(row["drops"], drops, row)
            self.assertEqual(row["drop_reason"] == "", drops == 0, row)
        workers = [row for row in rows if row["role"] == "worker"]
        self.assertEqual(sorted(row["worker"] for row in workers), [0, 1])
        for row in workers:
            self.assertEqual((row["tenant"], row["job"]), ("default", "digits"), row)
            self.assertGreater(row["chunks_sent"], 0, row)
            self.assertGreater(row["processor_us"], 0, row)
            # Except those that are in flight into the socket, and trains of probes.
            self.assertAlmostEqual(row["tx_packets"], row["chunks_sent"] + row["control_sent"],
                                   delta=512 + row["tx_packets"] // 50, msg=row)
        sent, received = (sum(row[name] for row in rows) for name in ("tx_bytes", "rx_bytes"))
        self.assertLess(abs(sent - received), 0.25 * sent, (sent, received))

    def test_groups(self):
        before = self.trained()
        jobs = self.rows("dataplane", "by", "job")
        hosts = self.rows("dataplane", "by", "host")
        links = self.rows("dataplane", "by", "link", "host=ps")
        after = self.trained()
        self.assertEqual([(row["job"], row["workers"], row["silent"]) for row in jobs], [("digits", 2, 0)])
        for name in (*COUNTED, "chunks_sent"):
            low, high = (sum(row[name] for row in rows if row["role"] == "worker") for rows in (before, after))
            self.assertLessEqual(low, jobs[0][name], name)
            self.assertLessEqual(jobs[0][name], high, name)
        self.assertEqual({row["host"]: row["nodes"] for row in hosts}.get("ps"), 1, hosts)
        self.assertEqual({row["direction"] for row in links}, {"in", "out"}, links)
        for row in links:
            name = "rx_bytes" if row["direction"] == "in" else "tx_bytes"
            self.assertLessEqual(self.one("server", before)[name], row["bytes"])
            self.assertLessEqual(row["bytes"], self.one("server", after)[name])

    def test_clear_and_watch(self):
        self.trained()
        self.assertIn("were reset", self.ask("clear", "dataplane"))
        row = self.one("server", self.rows("dataplane"))
        self.assertIsNotNone(row["cleared_s"], row)
        own = self.own(self.server)
        self.assertLess(row["rx_packets"], own["rx_packets"], "the node itself goes on")
        text = self.ask("watch", "dataplane", "role=server", "--count", 3)
        tables = text.strip().split("\n\n")
        self.assertEqual(len(tables), 3, text)
        self.assertNotIn("(+", tables[0])
        for table in tables[1:]:
            self.assertRegex(table, r"\d \(\+\d+\)", text)
        text = self.ask("watch", "dataplane", "by", "host", "--count", 2)
        self.assertIn("silent", text)

    def scrape(self):
        """{(node, role, host): {counter: value}} of the controller's metrics."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=DEADLINE_S) as answer:
            page = answer.read().decode()
        nodes = {}
        for name, node, role, host, value in re.findall(
                r'^heddle_node_(\w+?)(?:_total)?\{node="(.*?)",role="(.*?)",host="(.*?)"\} (\d+)$', page, re.M):
            self.assertNotIn(name, nodes.setdefault((node, role, host), {}), "each sample once")
            nodes[node, role, host][name] = int(value)
        return nodes

    def test_metrics(self):
        """The controller's metrics have every node's counters, which `clear` does not change."""
        def whole():
            nodes = self.scrape()
            return nodes if len(nodes) == 4 else None
        self.trained()
        nodes = self.until(whole, "all nodes are in the metrics")
        self.assertEqual(sorted(role for _, role, _ in nodes), ["aggregator", "server", "worker", "worker"])
        self.assertIn("default/digits/1", [node for node, _, _ in nodes])
        self.ask("clear", "dataplane")
        rows = self.trained()
        later = self.scrape()
        for key, counted in nodes.items():
            for name in COUNTED:
                self.assertLessEqual(counted[name], later[key][name], (key, name))
        server = next(counted for (_, role, _), counted in later.items() if role == "server")
        self.assertLess(self.one("server", rows)["rx_packets"], server["rx_packets"])

    def test_nobody_looks(self):
        """Nothing is asked then."""
        self.trained()
        seen = []

        def still():
            """For two looks, each later than the next question would be."""
            seen.append(next(row["value"] for row in self.rows("counters") if row["counter"] == "polls"))
            if len(seen) > 2 and len(set(seen[-3:])) == 1:
                return True
            time.sleep(1.2)
            return False
        self.until(still, seen)
        self.assertGreater(seen[0], 0)


def load_tests(loader, tests, pattern):
    """Only these, not the ones that they inherit from."""
    names = sorted(name for name in vars(Dataplane) if name.startswith("test_"))
    return unittest.TestSuite(Dataplane(name) for name in names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
