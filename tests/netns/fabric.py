# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests and benches that start the fabric's programs themselves: a key, a worker's environment, heddlectl,
and programs with their logs."""
import json
import os
import subprocess


def new_key(folder):
    key = folder / "key"
    key.write_text("1 " + os.urandom(32).hex() + "\n")
    key.chmod(0o600)
    return key


def member(controller, key, job, rank, size, address):
    """The environment in which a worker joins its job."""
    names = {"CONTROLLER": controller, "KEY_FILE": key, "JOB": job, "RANK": rank, "WORLD_SIZE": size,
             "HOST": f"h{rank + 1}", "BIND": address}
    return {f"HEDDLE_{name}": str(value) for name, value in names.items()}


class Shell:
    """heddlectl, in our own namespace or in a host's."""

    def __init__(self, program, controller, key, host=None):
        self.program, self.controller, self.key, self.host = program, controller, key, host

    def ask(self, *words, of=None):
        words = [self.program, "--controller", of or self.controller, "--key-file", self.key, *words]
        return subprocess.run(self.host.enter(*words) if self.host else [str(word) for word in words], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=20)

    def say(self, *words):
        done = self.ask(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def rows(self, table, of=None):
        done = self.ask("show", table, "--json", of=of)
        assert done.returncode == 0, (table, done.stderr)
        return json.loads(done.stdout)["rows"]

    def seen(self, table, of=None):
        """The same; [] without an answer."""
        done = self.ask("show", table, "--json", of=of)
        return json.loads(done.stdout)["rows"] if done.returncode == 0 else []

    def counters(self, of=None):
        return {row["counter"]: row["value"] for row in self.rows("counters", of)}


class Fabric:
    """A controller and what joins it; what a program says is in FOLDER/NAME.log."""

    def __init__(self, build, folder, controller, *more):
        """controller: where it listens, in our own namespace; more: its further options."""
        self.build, self.folder, self.controller = build, folder, controller
        self.key = new_key(folder)
        self.shell = Shell(build / "controller/heddlectl", controller, self.key)
        self.running = []
        self.start("controller", None, build / "controller/heddle-controller", "--listen", controller, "--key-file",
                   self.key, *more)

    def start(self, name, host, *command, env=None, pipes=False):
        words = [str(word) for word in command]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HEDDLE_")}
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(host.enter(*words) if host else words, env={**clean, **(env or {})}, text=True,
                                       stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                                       stdout=subprocess.PIPE if pipes else log, stderr=log)
        self.running.append(process)
        return process

    def start_node(self, role, host, name, *more):
        return self.start(name, host, self.build / f"aggregator/heddle-{role}", "--listen", host.address, "--host",
                          name, "--controller", self.controller, "--key-file", self.key, *more)

    def member(self, job, rank, size, host):
        return member(self.controller, self.key, job, rank, size, host.address)

    def start_pushers(self, hosts, *words):
        """A bench_push on each host, all of one job; they wait for a line."""
        workers = [self.start(f"w{rank}", host, self.build / "tests/bench/bench_push", *words, pipes=True,
                              env=self.member("bench", rank, len(hosts), host)) for rank, host in enumerate(hosts)]
        for worker in workers:
            assert worker.stdout.readline().strip() == "joined", "a worker did not join"
        return workers

    def said(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def end(self, keep=0):
        """Ends all programs but the first `keep`, the last one first. Programs that read our pipe end by themselves."""
        for process in self.running:
            if process.stdin:
                process.stdin.close()
        while len(self.running) > keep:
            process = self.running.pop()
            if not process.stdin:
                process.terminate()
            process.wait(timeout=30)


def go(workers):
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
