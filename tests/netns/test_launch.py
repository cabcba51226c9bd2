#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/launch with machines that are network namespaces, each with a link of its own to a bridge, and commands that
make and end them: a target that moves while machines start, a start that fails, a launcher that is killed.

usage: test_launch.py BUILD_DIR"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fabric
import pen

from lab import modes

PROGRAMS = modes.Programs(sys.argv[1])
BRIDGE, CONTROLLER, SERVER = "10.78.0.1", "10.78.0.1:5201", "10.78.0.1:5202"
LAUNCH = pen.ROOT / "testbed/launch"
# One machine: its namespace is held by a process whose id lies in ns.RANK, its worker's in pid.RANK.
START = """set -e
[ ! -e broken.$1 ] || {{ echo "no machine for $1" >&2; exit 3; }}
[ ! -e slow ] || sleep 0.7
unshare --net sleep 1000000 >/dev/null 2>&1 </dev/null &
ns=$!
until [ "$(readlink /proc/$ns/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link del m$1 2>/dev/null || : # of the machine before, which may still be going
ip link add m$1 type veth peer name eth0 netns $ns
ip link set m$1 master br0 up
nsenter --net=/proc/$ns/ns/net sh -ec "ip link set lo up; ip link set eth0 up
ip addr add 10.78.0.$((10 + $1))/24 dev eth0"
echo $ns >ns.$1
HEDDLE_RANK=$1 HEDDLE_HOST=h$1 HEDDLE_BIND=10.78.0.$((10 + $1)) nohup nsenter --net=/proc/$ns/ns/net \\
    {train} --json w$1.json >out.$1 2>&1 </dev/null &
echo $! >pid.$1
echo $1 >>started
"""
NOTICE = "kill -TERM $(cat pid.$1); echo $1 $2 >>noticed"
STOP = "kill -9 $(cat pid.$1) $(cat ns.$1) 2>/dev/null; rm -f pid.$1 ns.$1; echo $1 >>stopped"
LIST = """for f in pid.[0-9]*; do [ -f $f ] || continue; s=$(cut -d' ' -f3 /proc/$(cat $f)/stat 2>/dev/null)
r=${f#pid.}
if [ -z "$s" ] || [ $s = Z ]; then kill -9 $(cat ns.$r) 2>/dev/null; rm -f $f ns.$r; else echo $r; fi; done"""


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-launch-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.shell = fabric.Shell(PROGRAMS["heddlectl"], CONTROLLER, fabric.new_key(self.path))
        self.env = {**os.environ, "HEDDLE_CONTROLLER": CONTROLLER, "HEDDLE_KEY_FILE": str(self.path / "key"),
                    "HEDDLE_JOB": "digits", "HEDDLE_WORLD_SIZE": "4", "OPENBLAS_NUM_THREADS": "1"}
        for words in ("link add br0 type bridge", f"addr add {BRIDGE}/24 dev br0", "link set br0 up"):
            subprocess.run(["ip", *words.split()], check=True, stdin=subprocess.DEVNULL)
        self.addCleanup(subprocess.run, ["ip", "link", "del", "br0"], check=True, stdin=subprocess.DEVNULL)
        train = " ".join(map(str, (PROGRAMS["heddle-train"], "--model", "softmax", "--lr", 0.05, "--compute-ms", 30,
                                   "--quiet", "--shards", "live", "--sync", "full", "--grace", 3)))
        for name, text in (("start", START.format(train=train)), ("notice", NOTICE), ("stop", STOP), ("list", LIST)):
            (self.path / name).write_text(text)
        self.addCleanup(self.stop_machines)
        keys = ["--key-file", self.path / "key"]
        self.spawn("ctl", PROGRAMS["heddle-controller"], "--listen", CONTROLLER, "--state-dir", self.path, *keys)
        self.spawn("ps", PROGRAMS["heddle-server"], "--listen", SERVER, "--host", "ps", "--controller", CONTROLLER,
                   *keys)

    def spawn(self, name, *words):
        with open(self.path / f"{name}.out", "ab") as out:
            process = subprocess.Popen([str(word) for word in words], cwd=self.path, env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process, number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
        process.wait(20)

    def stop_machines(self):
        for file in [*self.path.glob("pid.*"), *self.path.glob("ns.*")]:
            try:
                os.kill(int(file.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def launch(self, *more):
        return self.spawn("launch", LAUNCH, "--job", "digits", "--controller", CONTROLLER, "--key-file",
                          self.path / "key", "--heddlectl", PROGRAMS["heddlectl"], "--start", "sh start {rank}",
                          "--notice", "sh notice {rank} {seconds}", "--stop", "sh stop {rank}", "--list", "sh list",
                          "--workers", 2, "--every-s", 0.2, "--notice-s", 3, "--most", 4, *more)

    def row(self):
        rows = json.loads(self.shell.say("elastic", "show", "--json"))["rows"]
        return rows[0] if rows else {"workers": 0, "step": 0, "leaving": 0}

    def workers(self, count):
        pen.until(lambda: self.row()["workers"] == count and self.row()["leaving"] == 0, f"{count} workers")

    def ranks(self, name):
        """The ranks that a command noted, in order."""
        file = self.path / name
        return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []

    def running(self):
        done = subprocess.run(["sh", "list"], cwd=self.path, capture_output=True, text=True, timeout=10, check=True)
        return {int(word) for word in done.stdout.split()}

    def said(self):
        return (self.path / "launch.out").read_text()

    def test_target_moves_while_machines_start(self):
        """Up to 4 while each start takes its time, down to 1 before they are there, and up again. In the end as many
        workers run as are wanted, none was started twice, and steps go on."""
        (self.path / "slow").touch()
        self.launch("--patience-s", 5)
        self.workers(2)
        self.shell.say("elastic", "set", "digits", "policy=manual", "n=4", "notice=2")
        pen.until(lambda: len(self.ranks("started")) >= 3, "a third start")
        self.shell.say("elastic", "set", "digits", "n=1")
        self.workers(1)
        self.assertEqual(len(self.running()), 1)
        self.shell.say("elastic", "set", "digits", "n=3")
        self.workers(3)
        step = self.row()["step"]
        pen.until(lambda: self.row()["step"] > step, "a step more")
        self.assertEqual(len(self.running()), 3)
        self.assertEqual(self.ranks("noticed"), [], "the owner itself sends workers away")

    def test_start_that_fails(self):
        """No machine for rank 1: it is said, rank 2 is started in its place, and workers learn."""
        (self.path / "broken.1").touch()
        launch = self.launch()
        self.workers(2)
        self.assertEqual(self.running(), {0, 2})
        self.assertIn("start 1: status 3: no machine for 1", self.said())
        self.shell.say("elastic", "set", "digits", "policy=manual", "n=3", "notice=2")
        self.workers(3)
        self.assertEqual(self.running(), {0, 2, 3})
        self.assertIsNone(launch.poll())

    def test_launcher_is_killed(self):
        """The next launcher finds the machines that are there, starts none twice, and gives surplus ones notice after
        its own patience: the policy (fixed) stops no worker."""
        first = self.launch("--patience-s", 60)
        self.workers(2)
        self.end(first, signal.SIGKILL)
        before = self.ranks("started")
        self.launch("--patience-s", 0.5)
        time.sleep(1)
        self.assertEqual((self.ranks("started"), self.running()), (before, {0, 1}))
        self.shell.say("elastic", "set", "digits", "policy=fixed", "n=1")
        self.workers(1)
        pen.until(lambda: self.running() == {0}, "one machine")
        self.assertEqual((self.path / "noticed").read_text(), "1 3\n")
        self.assertEqual(self.ranks("stopped"), [], "it left in time")
        worker = int((self.path / "pid.0").read_text())
        os.kill(worker, signal.SIGKILL)  # its machine dies
        pen.until(lambda: self.ranks("started") == [*before, 0], "rank 0 again")
        self.workers(1)


if __name__ == "__main__":
    pen.enter()
    del sys.argv[1:]
    unittest.main(verbosity=2)
