#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Federated rounds of real processes: a server and six clients with two labels each, most of them straggling; and
clients whose rows are those of users in a file of LEAF's format.

usage: federated_loopback.py BUILD_DIR"""
import json
import pathlib
import random
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


def users(folder):
    """Twice as many users as clients, and one more; the label is whether x0 > x1."""
    draw, names = random.Random(3), [f"user{i}" for i in range(2 * CLIENTS + 1)]
    data = {}
    for i, name in enumerate(names):
        x = [[draw.uniform(0, 1) for _ in range(4)] for _ in range(10 + i)]
        data[name] = {"x": x, "y": [int(row[0] > row[1]) for row in x]}
    path = pathlib.Path(folder, "users.json")
    path.write_text(json.dumps({"users": names, "num_samples": [10 + i for i in range(len(names))],
                                "user_data": data}))
    return ["--data", f"leaf:{path}", "--batch", "10", "--lr", "0.5"]


def digits(_):
    return ["--client-labels", "2", "--lr", "0.1"]


def slow(_):
    """An epoch takes about the time that a round has: clients with more rows are late, and their work counts."""
    return ["--client-labels", "2", "--lr", "0.1", "--compute-ms", "7"]


def run(folder, where, rounds, data):
    args = [BUILD / "worker-lib/heddle-run", "-n", CLIENTS, "--", BUILD / "worker-lib/heddle-train", "--quiet",
            "--federated", f"available={CLIENTS},epochs=4,{rounds}", "--straggling", "0.5", *data(folder),
            "--steps", ROUNDS, "--json", "-"]
    env = {"HEDDLE_SERVER": where, "HEDDLE_KEY_FILE": f"{folder}/keys", "HEDDLE_JOB": "fed", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([str(a) for a in args], env=env, capture_output=True, text=True, timeout=60, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    text = [line[line.index("{"):] for line in done.stdout.splitlines() if "{" in line]
    return [json.loads(line) for line in text]


def check(rounds, drops, data=digits):
    where = f"127.0.0.1:{port()}"
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("1 " + "5a" * 32 + "\n")
        keys.chmod(0o600)
        server = subprocess.Popen([str(BUILD / "aggregator/heddle-server"), "--listen", where, "--key-file",
                                   str(keys)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            reports = run(folder, where, rounds, data)
        finally:
            server.terminate()
            server.communicate(timeout=20)
    assert len(reports) == CLIENTS, reports
    for report in reports:
        assert report["pushed"] == report["applied"] + report["dropped"] + report["failed"], report
        assert report["failed"] == 0, report
        assert report["pushed"] > 0, report
        if data is not slow:
            assert report["gamma"]["count"] == report["pushed"], report
            assert 0 < report["gamma"]["mean"] <= report["gamma"]["max"], report
    applied, dropped = (sum(r[key] for r in reports) for key in ("applied", "dropped"))
    assert applied > CLIENTS, reports
    if data is slow:  # an update may still be older than tau_max
        assert max(r["staleness"]["max"] for r in reports) > 0, reports
        assert applied > 4 * dropped, (applied, dropped)
    else:
        assert (dropped > 0) == drops, (applied, dropped)
    print(rounds, "applied", applied, "dropped", dropped, "accuracy", max(r["accuracy"] for r in reports))


def main():
    check("clients=6,min=1,mu=0.1", False)
    check("clients=4,min=1,mu=0,stragglers=drop", True)
    check("clients=6,min=1,mu=0.1", False, users)
    check("clients=6,min=1,mu=0.1,deadline-ms=60,late=weight", False, slow)


main()
