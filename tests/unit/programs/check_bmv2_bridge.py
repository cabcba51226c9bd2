#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""bmv2_bridge.py, alone and under heddle-switch-agent, with a bmv2 (bmv2_fake.py) that is killed and restarted: it is
told again who it is, its ports and stations; leases are over; and what ends leaves it running.

usage: check_bmv2_bridge.py BUILD_DIR [TEST]...   needs no privileges."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import bmv2_fake

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
BRIDGE = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "testbed/lab/bmv2_bridge.py"
DEADLINE_S = 20  # only guards against hangs
STATIONS = [{"ipv4": f"10.0.0.{k}", "mac": f"02:00:00:00:00:0{k}", "port": k} for k in (1, 2)]
IDENTITY = ["identify", "10.0.0.250", "02:00:00:00:00:fe", "00:00:00:00:00:00"]


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lease(number):
    copies = [{"port": station["port"], "mac": station["mac"], "ipv4": station["ipv4"], "udp_port": 4773,
               "token": str(100 * number + station["port"])} for station in STATIONS]
    return {"id": number, "job": "7", "epoch": 1, "attempt": 1, "shard": 0, "first_slot": 4 * number, "slot_count": 4,
            "waits": "3", "receivers": [],
            "members": [{"token": str(1000 * number + i), "worker": i, "copy": copy}
                        for i, copy in enumerate(copies)]}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-bmv2-bridge-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        bmv2_fake.install(self.path / "bin")
        self.env = {**os.environ, "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        self.thrift = free_port()
        self.setting = {"ports": {"1": "s1", "2": "s2"}, "service": IDENTITY[1], "mac": IDENTITY[2],
                        "stations": STATIONS, "thrift_port": self.thrift}
        self.pids = set()
        self.addCleanup(self.end_switches)

    def end_switches(self):
        self.told()
        for pid in self.pids:
            if self.alive(pid):
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def alive(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def until(self, holds, what):
        end = time.monotonic() + DEADLINE_S
        while not (found := holds()):
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)
        return found

    def told(self):
        """All that the switch has; None: there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.thrift)) as end, end.makefile("rw") as stream:
                stream.write("dump\n")
                stream.flush()
                has = json.loads(json.loads(stream.readline()))
        except (OSError, ValueError):
            return None
        self.pids.add(has["pid"])
        return has

    def check_programmed(self, has):
        self.assertEqual(has["identity"], IDENTITY)
        self.assertEqual(sorted(has["macs"]), [[station["mac"], str(station["port"])] for station in STATIONS])
        self.assertEqual(has["groups"].get("1024"), [["0", ["1", "2"]]])

    def kill(self):
        pid = self.told()["pid"]
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.alive(pid), "it ends")
        return pid

    def start_switch(self):
        words = [word for port, name in self.setting["ports"].items() for word in ("-i", f"{port}@{name}")]
        process = subprocess.Popen([self.path / "bin/simple_switch", "--thrift-port", str(self.thrift), *words, "x"],
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(self.told, "the switch is there")
        return process


class Bridge(Case):
    def open(self, **more):
        setting = self.path / "bmv2.json"
        setting.write_text(json.dumps({**self.setting, **more}))
        with open(self.path / "said", "ab") as said:
            self.bridge = subprocess.Popen([BRIDGE, setting], env=self.env, text=True, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=said)
        self.addCleanup(self.close)
        return json.loads(self.bridge.stdout.readline())

    def close(self):
        for pipe in (self.bridge.stdin, self.bridge.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        status = self.bridge.wait(DEADLINE_S)
        self.assertNotIn("Traceback", self.said())
        return status

    def said(self):
        return (self.path / "said").read_text()

    def ask(self, **words):
        self.bridge.stdin.write(json.dumps(words) + "\n")
        self.bridge.stdin.flush()
        return json.loads(self.bridge.stdout.readline())

    def test_killed(self):
        """Its own switch is started again, and told what it must know; the agent gives the leases again."""
        self.assertEqual(self.open(), {})
        self.assertEqual(self.ask(do="watch"), {"life": 1})
        self.assertEqual(self.ask(do="set", lease=lease(1)), {})
        self.check_programmed(self.told())
        self.assertEqual(len(self.told()["tokens"]), 2)
        pid = self.kill()
        self.assertIn("error", self.ask(do="set", lease=lease(2)))
        self.assertEqual(self.ask(do="watch"), {"life": 2})
        has = self.told()
        self.assertNotEqual(has["pid"], pid)
        self.check_programmed(has)
        self.assertEqual([has[table] for table in ("leases", "tokens", "copies")], [[], [], []])
        self.assertEqual(self.ask(do="set", lease=lease(1)), {})
        self.assertEqual(self.ask(do="watch"), {"life": 2})
        self.assertEqual(len(self.told()["tokens"]), 2)

    def test_shell(self):
        """Debian's Python runs simple_switch_CLI, and may keep the modules that it compiles, for the next start."""
        self.open()
        shell, = (pid for pid in map(int, pathlib.Path(
            f"/proc/{self.bridge.pid}/task/{self.bridge.pid}/children").read_text().split())
            if b"simple_switch_CLI" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        words = pathlib.Path(f"/proc/{shell}/environ").read_bytes().decode().split("\0")
        environment = dict(word.partition("=")[::2] for word in words if word)
        self.assertEqual(environment["PATH"], f"/usr/bin:{self.env['PATH']}")
        self.assertNotIn("PYTHONDONTWRITEBYTECODE", environment)

    def test_somebody_elses(self):
        """One that others start is waited for."""
        self.start_switch()
        self.assertEqual(self.open(running=True), {})
        self.check_programmed(self.told())
        self.assertEqual(self.ask(do="set", lease=lease(1)), {})
        self.kill()
        for words in ({"do": "watch"}, {"do": "counters"}, {"do": "set", "lease": lease(2)}, {"do": "watch"}):
            self.assertIn("does not answer" if words["do"] == "set" else "", self.ask(**words)["error"])
        self.assertEqual(self.said().count("\n"), 1, self.said())
        self.start_switch()
        self.assertEqual(self.ask(do="watch"), {"life": 2})
        self.check_programmed(self.told())
        self.assertEqual(self.ask(do="set", lease=lease(2)), {})

    def test_ports(self):
        """Each port that there is has the counters of its interface, and the drops of the queue before its link."""
        queues = [{"dev": "lo", "root": True, "drops": 7}, {"dev": "lo", "parent": "1:1", "drops": 5}]
        (self.path / "bin/tc").write_text(f"#!/bin/sh\necho '{json.dumps(queues)}'\n")
        (self.path / "bin/tc").chmod(0o755)
        self.assertEqual(self.open(ports={"1": "lo", "2": "nowhere"}), {})
        row, = self.ask(do="ports")["ports"]
        self.assertEqual((row["port"], row["interface"]), (1, "lo"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            for _ in range(20):
                end.sendto(bytes(1000), ("127.0.0.1", self.thrift))
        after, = self.ask(do="ports")["ports"]
        for way in ("rx", "tx"):
            self.assertGreaterEqual(after[f"{way}_packets"] - row[f"{way}_packets"], 20)
            self.assertGreaterEqual(after[f"{way}_bytes"] - row[f"{way}_bytes"], 20 * 1042)
        self.assertEqual(row["tx_errors"], 7)

    def test_input_ends(self):
        """The switch goes on without leases; the next bridge takes it over."""
        self.open()
        self.ask(do="set", lease=lease(1))
        pid = self.told()["pid"]
        self.assertEqual(self.close(), 0)
        self.assertIn(str(pid), self.said())
        has = self.told()
        self.assertEqual((has["pid"], has["tokens"]), (pid, []))
        self.check_programmed(has)
        self.assertEqual(self.open(), {})
        self.assertEqual(self.told()["pid"], pid)
        self.assertEqual(self.ask(do="set", lease=lease(1)), {})

    def test_reader_ends(self):
        """Its answers have no reader any more; nor is there a switch."""
        self.open()
        self.ask(do="set", lease=lease(1))
        self.kill()
        self.bridge.stdout.close()
        self.bridge.stdin.write('{"do": "counters"}\n')
        self.assertEqual(self.close(), 0)

    def test_refused(self):
        """One with other ports is not ours; a file that lacks something is told in words."""
        switch = self.start_switch()
        self.assertIn("has the ports", self.open(ports={"1": "s1"})["error"])
        self.assertEqual(self.close(), 69)
        self.assertIsNone(switch.poll())
        self.setting.pop("service")
        self.assertIn("service", self.open()["error"])
        self.assertEqual(self.close(), 69)


class Agent(Case):
    """The same under heddle-switch-agent, with a controller."""

    def start(self, name, *words):
        log = self.path / f"{name}.log"
        with open(log, "wb") as said:
            process = subprocess.Popen([str(word) for word in words], env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(lambda: "ready" in log.read_text() or "listening" in log.read_text(), f"{name} is ready")
        return process

    def rows(self, table, address):
        done = subprocess.run([BUILD / "controller/heddlectl", "--controller", address, "--key-file", self.key, "show",
                               table, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S)
        return json.loads(done.stdout)["rows"] if done.returncode == 0 else []

    def state(self):
        return next((row["state"] for row in self.rows("switch", self.agent)), None)

    def registered(self):
        return len(self.rows("switches", self.controller))

    def setUp(self):
        super().setUp()
        self.key = self.path / "key"
        self.key.write_text("1 " + "42" * 32 + "\n")
        self.key.chmod(0o600)
        self.controller, self.agent = (f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}" for _ in range(2))
        self.start("controller", BUILD / "controller/heddle-controller", "--listen", self.controller, "--key-file",
                   self.key)

    def start_agent(self, **more):
        setting = self.path / "bmv2.json"
        setting.write_text(json.dumps({**self.setting, **more}))
        process = self.start("agent", BUILD / "switch/heddle-switch-agent", "--bridge", f"{BRIDGE} {setting}",
                             "--listen", self.agent, "--controller", self.controller, "--key-file", self.key,
                             "--host", "s1")
        self.until(lambda: self.state() == "led", "the agent is led")
        return process

    def said(self):
        return (self.path / "agent.log").read_text()

    @staticmethod
    def child(agent):
        child, = pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        return int(child)

    def test_away(self):
        """While there is no switch the agent says so, and the controller has none; then all is as before."""
        self.start_switch()
        agent = self.start_agent(running=True)
        self.until(lambda: self.registered() == 1, "the controller has the switch")
        self.kill()
        self.until(lambda: self.state() == "lost" and self.registered() == 0, "both know that it is gone")
        self.assertIn("all leases are over", self.said())
        self.start_switch()
        self.until(lambda: self.state() == "led" and self.registered() == 1, "both know that it is back")
        self.check_programmed(self.told())
        self.assertIn("programmed again", self.said())
        agent.terminate()
        self.assertEqual(agent.wait(DEADLINE_S), 0)
        self.assertIsNotNone(self.told())
        self.assertNotIn("Traceback", self.said())

    def test_ports(self):
        """The ports are the switch's, not the agent's socket; the controller's table has their sums, also of what was
        dropped, and who moves them."""
        self.start_agent(ports={"1": "lo", "2": "nowhere"})
        row, = self.rows("ports", self.agent)
        self.assertEqual((row["port"], row["driver"]), ("1", "lo"))
        shown = self.until(lambda: next((row for row in self.rows("dataplane", self.controller)
                                         if row["role"] == "switch" and row["age_s"] is not None), None), "STATS")
        self.assertGreaterEqual(shown["rx_packets"], row["rx_packets"])
        self.assertGreaterEqual(shown["tx_bytes"], row["tx_bytes"])
        again, = self.rows("ports", self.agent)
        self.assertGreaterEqual(again["rx_bytes"], shown["rx_bytes"])
        self.assertGreater(row["rx_packets"], 0)

    def test_killed(self):
        """Its own is started again, as is a child that is killed; both outlive the agent's own sudden end."""
        agent = self.start_agent()
        first = self.kill()
        self.until(lambda: self.told() and self.told()["groups"], "the switch is programmed again")
        self.until(lambda: self.said().count("programmed again") == 1 and self.state() == "led", "it is led")
        has = self.told()
        self.assertNotEqual(has["pid"], first)
        self.check_programmed(has)
        os.killpg(self.child(agent), signal.SIGKILL)
        self.until(lambda: self.said().count("programmed again") == 2 and self.state() == "led", "with another child")
        self.assertEqual(self.told()["pid"], has["pid"])
        self.check_programmed(self.told())
        child = self.child(agent)
        agent.kill()
        agent.wait()
        self.until(lambda: not self.alive(child), "the child ends")
        self.assertIn("goes on", self.said())
        self.assertEqual(self.told()["pid"], has["pid"])
        self.assertNotIn("Traceback", self.said())


if __name__ == "__main__":
    unittest.main()
