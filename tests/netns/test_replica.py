#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A server is killed while workers train, real processes all of them: its replica takes over, no durable update is
lost, and the old server comes back as the new one's replica.

usage: test_replica.py BUILD_DIR"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import fabric
import pen

BUILD = pathlib.Path(sys.argv[1]).resolve()
ENV = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}
ENV["HEDDLE_KEEP_MB"] = "64"
CONTROLLER, SERVER, REPLICA = "127.0.0.1:4773", "127.0.0.1:4774", "127.0.0.1:4775"
COUNTER = 2**48 - 1


def start(folder, *command):
    process = subprocess.Popen([str(a) for a in command], env=ENV, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=open(folder / "errors", "a", encoding="utf-8"))
    line = process.stdout.readline()
    assert "ready" in line or "listening" in line, (command, line, (folder / "errors").read_text())
    return process


def start_server(folder, address, host, life, *more):
    return start(folder, BUILD / "aggregator/heddle-server", "--listen", address, "--controller", CONTROLLER, "--host",
                 host, "--key-file", folder / "key", "--events", folder / f"{host}-{life}", "--checkpoint-dir",
                 folder / f"{host}-disk", "--checkpoint-commits", 1, *more)


def newest(path, kind, field="version"):
    return max((e.get(field, 0) & COUNTER for e in pen.events(path, kind)), default=0)


def train(folder):
    return subprocess.Popen(
        [str(a) for a in (
            BUILD / "worker-lib/heddle-run", "-n", 3, "--controller", CONTROLLER, "--key-file", folder / "key", "--job",
            "digits", "--host-prefix", "h", "--bind", "127.0.0.1", "--", BUILD / "worker-lib/heddle-train", "--model",
            "mlp:64", "--seconds", 120, "--compute-ms", 10, "--json", "-", "--quiet")],
        env=ENV, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def summaries(text):
    found = [json.loads(line.partition("] ")[2]) for line in text.splitlines() if line.partition("] ")[2][:1] == "{"]
    return [s for s in found if "role" in s]


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def check_takes_over(folder, dead, heir, life):
    """The one that was killed had told workers no more than what the other begins with."""
    pen.until(lambda: pen.events(folder / heir, "promoted"), "a promotion")
    promoted = pen.events(folder / heir, "promoted")[-1]
    # The last lines of its log went with it.
    durable, base = newest(folder / dead, "durable"), promoted["base"] & COUNTER
    assert 0 < durable <= base, (durable, base)
    pen.until(lambda: newest(folder / heir, "committed") > base + 30, "commits of its own")
    print(f"life {life}: durable {durable}, taken over at {base}, "
          f"distance at most {promoted.get('value', 0):.3g}")
    return base


def run(folder, running):
    fabric.new_key(folder)
    running.append(start(folder, BUILD / "controller/heddle-controller", "--listen", CONTROLLER, "--key-file",
                         folder / "key", "--state-dir", folder))
    server = start_server(folder, SERVER, "ps", 1)
    replica = start_server(folder, REPLICA, "rp", 1, "--replica")
    running += [server, replica]
    workers = train(folder)
    running.append(workers)
    pen.until(lambda: len(pen.events(folder / "rp-1", "replicated")) > 50, "a replica that follows")
    pen.until(lambda: newest(folder / "ps-1", "durable") > 50, "durable updates")
    kill(server)
    check_takes_over(folder, "ps-1", "rp-1", 1)
    # The old server comes back as a replica; then it takes over in turn.
    running.append(start_server(folder, SERVER, "ps", 2))
    pen.until(lambda: len(pen.events(folder / "ps-2", "replicated")) > 50, "the old server as a replica")
    assert not pen.events(folder / "ps-2", "committed")
    kill(replica)
    check_takes_over(folder, "rp-1", "ps-2", 2)
    workers.terminate()
    out, _ = workers.communicate(timeout=60)
    assert workers.returncode == 128 + signal.SIGTERM, out
    for summary in summaries(out):
        assert summary["pushed"] == summary["applied"] + summary["dropped"] + summary["failed"], summary
        assert summary["failed"] == 0 and summary["applied"] > 0, summary
    assert len(summaries(out)) == 3, out


def main():
    pen.enter()
    running = []
    with tempfile.TemporaryDirectory(prefix="heddle-replica-") as folder:
        try:
            run(pathlib.Path(folder), running)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    main()
