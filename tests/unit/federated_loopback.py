#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Federated rounds of real processes: a server and six clients with two labels each, most of them straggling.

usage: federated_loopback.py BUILD_DIR"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
CLIENTS, ROUNDS = 6, 12


def port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(folder, where, rounds):
    args = [BUILD / "worker-lib/heddle-run", "-n", CLIENTS, "--", BUILD / "worker-lib/heddle-train", "--quiet",
            "--federated", f"available={CLIENTS},epochs=4,{rounds}", "--straggling", "0.5", "--client-labels", "2",
            "--lr", "0.1", "--steps", ROUNDS, "--json", "-"]
    env = {"HEDDLE_SERVER": where, "HEDDLE_KEY_FILE": f"{folder}/keys", "HEDDLE_JOB": "fed", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([str(a) for a in args], env=env, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    text = [line[line.index("{"):] for line in done.stdout.splitlines() if "{" in line]
    return [json.loads(line) for line in text]


def check(rounds, drops):
    where = f"127.0.0.1:{port()}"
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("1 " + "5a" * 32 + "\n")
        keys.chmod(0o600)
        server = subprocess.Popen([str(BUILD / "aggregator/heddle-server"), "--listen", where, "--key-file",
                                   str(keys)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            reports = run(folder, where, rounds)
        finally:
            server.terminate()
            server.communicate(timeout=20)
    assert len(reports) == CLIENTS, reports
    for report in reports:
        assert report["pushed"] == report["applied"] + report["dropped"] + report["failed"], report
        assert report["failed"] == 0, report
    applied, dropped = (sum(r[key] for r in reports) for key in ("applied", "dropped"))
    assert applied > CLIENTS, reports
    assert (dropped > 0) == drops, (applied, dropped)
    print(rounds, "applied", applied, "dropped", dropped, "accuracy", max(r["accuracy"] for r in reports))


def main():
    check("clients=6,min=1,mu=0.1", False)
    check("clients=4,min=1,mu=0,stragglers=drop", True)


main()
