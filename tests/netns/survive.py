# SPDX-License-Identifier: BSD-3-Clause
"""A cluster of real programs in namespaces, and its faults.

       ctl  ps  h1 .. hN      a namespace each, one link each to a bridge in the test's own
         \\   |  /  /
          [ br0 ]              a fault: kill, stop (SIGSTOP), cut (the switch drops), power (all killed at once)
"""
import os
import pathlib
import signal
import subprocess
import time

import fabric
import pen

KEY = "7 " + "5a" * 32 + "\n"
VALUES = 16384  # 47 packets an update: most kills come in the middle of some
COMPUTE_MS = 10
DETECTION_S = 1.0
READY_S = 20


class Node:
    """A host and the program that runs there; each life has event logs of its own."""

    def __init__(self, cluster, name, address):
        self.cluster, self.name, self.address = cluster, name, address
        self.host = pen.Host()
        self.process = None
        self.lives = 0
        self.began = 0.0
        self.exits = []  # (life, status) of those that were not killed
        self.rss = []  # (life, age in s, kB)
        port = f"br-{name}"
        cluster.ip("link", "add", "name", port, "type", "veth", "peer", "name", "e0", "netns",
                   str(self.host.holder.pid))
        cluster.ip("link", "set", port, "master", "br0", "up")
        self.host.run("ip", "addr", "add", f"{address}/24", "dev", "e0")
        self.host.run("ip", "link", "set", "e0", "up")
        self.host.run("ip", "link", "set", "lo", "up")

    def file(self, kind, life=None):
        return self.cluster.path / f"{kind}-{self.name}-{life or self.lives}"

    def start(self):
        self.lives += 1
        self.cluster.before_start(self)
        output = open(self.file("out"), "wb")
        self.process = subprocess.Popen(
            self.host.enter(*self.cluster.command(self)), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**self.cluster.env, **self.cluster.environment(self)})
        output.close()
        self.began = time.monotonic()

    def output(self):
        return self.file("out").read_text(errors="replace")

    def wait_ready(self, word):
        pen.until(lambda: word in self.output() or self.process.poll() is not None, f"{self.name}: ready", READY_S)
        assert self.process.poll() is None, f"{self.name} ended: {self.output()}"

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self, patience_s=60):
        """The ordinary end."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=patience_s)
        self.exits.append((self.lives, status))
        return status

    def sample(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                self.rss.append((self.lives, time.monotonic() - self.began, int(line.split()[1])))

    def link(self, up):
        """At the switch's port: with a link that is down, what the kernel does about ARP would be measured as well
        (an attempt in the meantime holds the address up for another second)."""
        subprocess.run(["bridge", "link", "set", "dev", f"br-{self.name}", "state", "forwarding" if up else "disabled"],
                       check=True, stdin=subprocess.DEVNULL)


class Cluster:
    def __init__(self, build, path, workers, commits=50):
        self.build, self.path, self.commits = pathlib.Path(build), pathlib.Path(path), commits
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}
        self.key = self.path / "key"
        self.key.write_text(KEY)
        self.state = self.path / "state"
        self.state.mkdir()
        self.checkpoints = self.path / "checkpoints"
        self.checkpoints.mkdir()
        self.restored = {}  # incarnation of the server -> name of the checkpoint that it finds, or None
        self.faults = []  # dicts: kind, node, began, ended (times of CLOCK_MONOTONIC)
        self.ip("link", "add", "name", "br0", "type", "bridge")
        self.ip("link", "set", "br0", "up")
        self.controller = Node(self, "ctl", "10.78.0.2")
        self.server = Node(self, "ps", "10.78.0.3")
        self.workers = [Node(self, f"h{rank + 1}", f"10.78.0.{10 + rank}") for rank in range(workers)]

    def ip(self, *command):
        subprocess.run(["ip", *map(str, command)], check=True, stdin=subprocess.DEVNULL)

    def nodes(self):
        return [self.controller, self.server, *self.workers]

    # --- programs ------------------------------------------------------------------------------
    def newest_checkpoint(self):
        names = sorted((p.name for p in self.checkpoints.glob("*.safetensors") if not p.name.startswith(".")),
                       key=lambda name: name.split("-", 1)[1])
        return names[-1] if names else None

    def before_start(self, node):
        if node is self.server:
            self.restored[node.lives] = self.newest_checkpoint()

    def command(self, node):
        if node is self.controller:
            return [self.build / "controller/heddle-controller", "--listen", node.address, "--key-file", self.key,
                    "--state-dir", self.state, "--events", node.file("events")]
        if node is self.server:
            return [self.build / "aggregator/heddle-server", "--listen", node.address, "--host", "ps",
                    "--controller", self.controller.address, "--key-file", self.key, "--checkpoint-dir",
                    self.checkpoints, "--checkpoint-commits", self.commits, "--events", node.file("events")]
        return [self.build / "tests/netns/survive_worker", VALUES, COMPUTE_MS, node.file("told")]

    def environment(self, node):
        if node not in self.workers:
            return {}
        return {"HEDDLE_CONTROLLER": self.controller.address, "HEDDLE_SERVER": self.server.address,
                "HEDDLE_KEY_FILE": str(self.key), "HEDDLE_HOST": node.name, "HEDDLE_BIND": node.address,
                "HEDDLE_RANK": str(self.workers.index(node)), "HEDDLE_WORLD_SIZE": str(len(self.workers)),
                "HEDDLE_EVENTS": str(node.file("events"))}

    def start(self, node):
        node.start()
        if node is self.controller:
            node.wait_ready("listening")
        elif node is self.server:
            node.wait_ready("ready")

    def start_all(self):
        for node in self.nodes():
            self.start(node)

    def outcomes(self):
        """How many outcomes all workers were told."""
        return sum(path.read_bytes().count(b"outcome ") for path in self.path.glob("told-*"))

    def progressed(self, workers=None, patience_s=30):
        """Waits until each of these workers' present lives was told an outcome after now."""
        told = {node: node.file("told") for node in workers or self.workers}
        before = {node: path.read_bytes().count(b"outcome ") if path.exists() else 0 for node, path in told.items()}

        def waiting():
            return [node for node, path in told.items()
                    if not path.exists() or path.read_bytes().count(b"outcome ") <= before[node]]
        try:
            pen.until(lambda: not waiting() or not all(n.alive() for n in self.nodes()), "progress", patience_s)
        except TimeoutError:
            pass
        stuck = [n for n in self.nodes() if not n.alive()] or waiting()
        if stuck:
            raise AssertionError("; ".join(f"{n.name} {'is stalled' if n.alive() else 'is gone'}: {n.output()[-300:]}"
                                           for n in stuck))

    # --- faults --------------------------------------------------------------------------------
    def begin(self, kind, nodes):
        fault = {"kind": kind, "nodes": [n.name for n in nodes], "began": time.monotonic()}
        for node in nodes:
            if kind in ("kill", "power"):
                node.kill()
            elif kind == "stop":
                node.process.send_signal(signal.SIGSTOP)
            elif kind == "restart":
                node.end()
            else:
                node.link(False)
        self.faults.append(fault)
        return fault

    def finish(self, fault):
        nodes = [n for n in self.nodes() if n.name in fault["nodes"]]
        for node in nodes:
            if fault["kind"] in ("kill", "power", "restart"):
                self.start(node)
            elif fault["kind"] == "stop":
                node.process.send_signal(signal.SIGCONT)
            else:
                node.link(True)
        fault["ended"] = time.monotonic()

    def end(self):
        """Workers leave, the server writes its last checkpoint, the controller ends. Exit statuses must be 0."""
        bad = []

        def end(node):
            status = node.end()
            if status != 0:
                bad.append(f"{node.name} ended with {status}: {node.output()[-500:]}")
        for node in self.workers:
            node.process.send_signal(signal.SIGTERM)
        for node in self.workers:
            end(node)
        bad += self.leftovers()
        end(self.server)
        end(self.controller)
        return bad

    def show(self, table):
        """Rows of one of the controller's tables."""
        return fabric.Shell(self.build / "controller/heddlectl", self.controller.address, self.key,
                            self.controller.host).rows(table)

    def leftovers(self):
        """Reservations and transfers that are left although no worker is left; [] is right."""
        bad = [f"transfer left at the controller: {row}" for row in self.show("transfers")]
        bad += [f"still reserved: {row}" for row in self.show("links") if row["reserved_mbps"] or row["running"]]
        return bad
