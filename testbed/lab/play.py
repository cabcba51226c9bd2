# SPDX-License-Identifier: BSD-3-Clause
"""Used by all plays of the testbed: Heddle's programs as processes of this machine, each with its output in a file of
the run's directory. They end with this process, however it ends."""
import json
import os
import pathlib
import secrets
import subprocess
import time

from . import measure, sandbox

READY_S, POLL_S = 20.0, 0.02


class PlayError(Exception):
    pass


class Play:
    """One run. `nodes` must not end by themselves; one of them is the observer, once there is a job to watch."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.nodes = {}  # name -> Popen
        self.evaluations = []
        self.read = 0  # position in the observer's output
        self.t0 = 0.0

    def now(self):
        return time.monotonic() - self.t0

    def start(self, name, command, environment=None):
        with open(self.directory / f"{name}.out", "ab") as out:
            return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, cwd=self.directory, preexec_fn=sandbox.die_with_parent,
                                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})})

    def make_keys(self):
        """Writes the keys. Returns the arguments that name them."""
        (self.directory / "keys").write_text(f"1 {secrets.token_hex(32)}\n")
        (self.directory / "keys").chmod(0o600)
        return ["--key-file", self.directory / "keys"]

    def wait_ready(self, names):
        ends = time.monotonic() + READY_S
        for name in names:
            while not any(w in (self.directory / f"{name}.out").read_text() for w in ("ready", "listening")):
                self.check_nodes()
                if time.monotonic() > ends:
                    raise PlayError(f"{name}: not ready within {READY_S:.0f} s")
                time.sleep(POLL_S)

    def check_nodes(self):
        for name, process in self.nodes.items():
            if process.poll() is not None:
                said = (self.directory / f"{name}.out").read_text(errors="replace").strip()
                raise PlayError(f"{name} ended by itself (status {process.returncode}): {said[-300:]}")

    def kill(self, processes):
        """Kills these processes and the nodes."""
        everybody = [*processes, *self.nodes.values()]
        for process in everybody:
            process.kill()
        for process in everybody:
            process.wait()

    def lines(self, path, at):
        """(line, position of the next one) of the complete lines of a growing file, from `at` on."""
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(at)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                at += len(line.encode())
                yield line, at

    def read_evaluations(self):
        for line, self.read in self.lines(self.directory / "observer.out", self.read):
            if line.startswith("{") and '"accuracy"' in line:
                entry = json.loads(line)
                self.evaluations.append({
                    "t": entry["at_ns"] / 1e9 - self.t0, "version": entry["version"] & measure.COUNTER,
                    "accuracy": entry["accuracy"], "loss": entry["loss"]})
