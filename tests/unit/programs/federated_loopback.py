#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Federated rounds of real processes: a server and six clients with two labels each, most of them straggling; and
clients whose rows are those of users in files of LEAF's format. Where fewer are left than a round needs, as the others
are done or were killed, the last ones end, and say why.

usage: federated_loopback.py BUILD_DIR"""
import contextlib
import json
import os
import pathlib
import re
import random
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
CLIENTS, ROUNDS = 6, 12


def port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def users(folder):
    """Twice as many users as clients, and one more, in a folder of two files; the label is whether x0 > x1."""
    draw, names = random.Random(3), [f"user{i}" for i in range(2 * CLIENTS + 1)]
    data, train = {}, pathlib.Path(folder, "users")
    for i, name in enumerate(names):
        x = [[draw.uniform(0, 1) for _ in range(4)] for _ in range(10 + i)]
        data[name] = {"x": x, "y": [int(row[0] > row[1]) for row in x]}
    train.mkdir()
    for i, some in enumerate((names[:5], names[5:])):
        (train / f"{i}.json").write_text(json.dumps({
            "users": some, "num_samples": [len(data[name]["y"]) for name in some],
            "user_data": {name: data[name] for name in some}}))
    return ["--data", f"leaf:{train}", "--batch", "10", "--lr", "0.5"]


def digits(_):
    return ["--client-labels", "2", "--lr", "0.1"]


def slow(_):
    """An epoch takes about the time that a round has: clients with more rows are late, and their work counts."""
    return ["--client-labels", "2", "--lr", "0.1", "--compute-ms", "7"]


def train(folder, rounds, data):
    return [BUILD / "worker-lib/heddle-train", "--quiet", "--federated", f"available={CLIENTS},epochs=4,{rounds}",
            "--straggling", "0.5", *data(folder), "--steps", ROUNDS, "--json", "-"]


def environment(folder, where):
    return {"HEDDLE_SERVER": where, "HEDDLE_KEY_FILE": f"{folder}/keys", "HEDDLE_JOB": "fed", "PATH": "/usr/bin:/bin"}


def run(folder, where, rounds, data):
    args = [BUILD / "worker-lib/heddle-run", "-n", CLIENTS, "--", *train(folder, rounds, data)]
    done = subprocess.run([str(a) for a in args], env=environment(folder, where), capture_output=True, text=True,
                          timeout=60, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    text = [line[line.index("{"):] for line in done.stdout.splitlines() if "{" in line]
    return [json.loads(line) for line in text]


@contextlib.contextmanager
def server_of():
    """A server, while it is needed; its folder and address."""
    where = f"127.0.0.1:{port()}"
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("1 " + "5a" * 32 + "\n")
        keys.chmod(0o600)
        server = subprocess.Popen([str(BUILD / "aggregator/heddle-server"), "--listen", where, "--key-file",
                                   str(keys)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            yield folder, where
        finally:
            server.terminate()
            server.communicate(timeout=20)


def check(rounds, drops, data=digits):
    with server_of() as (folder, where):
        reports = run(folder, where, rounds, data)
    assert len(reports) == CLIENTS, reports
    for report in reports:
        assert report["pushed"] == report["applied"] + report["dropped"] + report["failed"], report
        assert report["failed"] == 0, report
        assert report["pushed"] > 0, report
        if data is not slow:
            assert report["gamma"]["count"] == report["pushed"], report
            assert 0 < report["gamma"]["mean"] <= report["gamma"]["max"], report
    if "wait-ms" in rounds:
        assert max(r["pushed"] for r in reports) == ROUNDS > min(r["pushed"] for r in reports), reports
    applied, dropped = (sum(r[key] for r in reports) for key in ("applied", "dropped"))
    assert applied > CLIENTS, reports
    if data is slow:  # an update may still be older than tau_max
        assert max(r["staleness"]["max"] for r in reports) > 0, reports
        assert applied > 4 * dropped, (applied, dropped)
    else:
        assert (dropped > 0) == drops, (applied, dropped)
    print(rounds, "applied", applied, "dropped", dropped, "accuracy", max(r["accuracy"] for r in reports))


def rounds_of(where, folder):
    """The table, and the weights that came and that are in the model."""
    env = environment(folder, where)
    ctl = [str(BUILD / "controller/heddlectl"), "--server", where, "--json", "show"]
    text = [subprocess.run([*ctl, table], env=env, capture_output=True, text=True, timeout=20, check=True).stdout
            for table in ("rounds", "models")]
    return json.loads(text[0])["rows"], (json.loads(text[1])["rows"] or [None])[0]


def wait_for(what, seconds):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.05)


def lacks(row):
    return row["lacks"] if row["state"] in ("waits", "lacks") else 0


def check_lost():
    """All but two clients are killed, of four that a round needs: those two say so and end."""
    with server_of() as (folder, where):
        args = [str(a) for a in train(folder, "clients=6,min=4,wait-ms=1000", digits)]
        clients = [subprocess.Popen(args + ["--compute-ms", "10"], cwd=folder, stdout=subprocess.PIPE, text=True,
                                    stderr=subprocess.PIPE, env=dict(environment(folder, where), HEDDLE_RANK=str(rank),
                                                                     HEDDLE_WORLD_SIZE=str(CLIENTS)))
                   for rank in range(CLIENTS)]
        try:
            wait_for(lambda: len(rounds_of(where, folder)[0]) > 2, 30)
            for client in clients[2:]:
                client.kill()
            # One of the dead may have an update in the step. Deaths are noticed one by one.
            wait_for(lambda: lacks(rounds_of(where, folder)[0][-1]) in (1, 2), 20)
            for client in clients[:2]:
                _, said = client.communicate(timeout=30)
                assert client.returncode == os.EX_UNAVAILABLE, (client.returncode, said)
                assert re.search("min_clients 4, [23] here or in its step, 4 lost, and none has come for 1 s", said), \
                    said
            model = rounds_of(where, folder)[1]
            assert model["weight_received"] == model["weight_applied"] > 0, model
            assert model["rounds_lacked"] > 0, model
        finally:
            for client in clients:
                client.kill()
                client.communicate()
    print("lost: said so")


def main():
    check("clients=6,min=1,mu=0.1", False)
    check("clients=4,min=1,mu=0,stragglers=drop", True)
    check("clients=6,min=1,mu=0.1", False, users)
    check("clients=6,min=1,mu=0.1,deadline-ms=60,late=weight", False, slow)
    # Five of six are drawn, so that some are done before others; those end when fewer than five are left.
    check("clients=5,min=5,mu=0.1,wait-ms=1000", False)
    check_lost()


main()
