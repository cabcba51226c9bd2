#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`heddlectl check` finds what is wrong with a host that is made wrong on purpose, and says so by its exit code.

usage: test_check.py HEDDLE_CONTROLLER HEDDLECTL"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

import pen

FAILS = 78


def check(shell, *options, unprivileged=False):
    """{check: [(status, found, advice)]}, and the exit code."""
    command = [shell, "--json", "--timeout-ms", "300", *options, "check"]
    if unprivileged:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs",
                   *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL,
                          env={k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")})
    document = json.loads(done.stdout)
    found = {}
    for row in document["rows"]:
        found.setdefault(row["check"], []).append((row["status"], row["found"], row["advice"]))
    fails = sum(row["status"] == "fail" for row in document["rows"])
    assert document["failed"] == fails and done.returncode == (FAILS if fails else 0), (done.returncode, document)
    return found, done.returncode


def link(name, mtu, address):
    subprocess.run(["ip", "link", "add", "name", name, "mtu", str(mtu), "type", "veth", "peer", "name", name + "p"],
                   check=True)
    subprocess.run(["ip", "addr", "add", address, "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)


def main():
    pen.enter()
    controller, shell = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="heddle-check-") as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("1 " + "42" * 32 + "\n")
        keys.chmod(0o644)
        found, code = check(shell)
        assert code == 0, found
        assert found["mtu"][0][0] == "warn" and "no interface" in found["mtu"][0][1], found["mtu"]
        assert found["key-file"][0][:2] == ("warn", "none given") and found["controller"][0][0] == "skip", found
        assert found["port"][0][:2] == ("ok", "UDP 4773 is free"), found["port"]
        assert found["privileges"][0][0] == "ok" and found["bpf"][0][0] in ("ok", "warn"), found

        link("narrow", 1280, "10.79.1.1/24")
        link("jumbo", 9000, "10.79.2.1/24")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("0.0.0.0", 4773))
            found, code = check(shell, "--key-file", str(keys))
        assert code == FAILS and found["controller"][0][0] == "fail", found["controller"]
        assert "no answer" in found["controller"][0][1] and "4773" in found["controller"][0][2], found["controller"]
        mtus = {row[1].split(":")[0]: row for row in found["mtu"]}
        assert mtus["narrow"][0] == "warn" and "ip link set narrow mtu 1500" in mtus["narrow"][2], mtus
        assert mtus["jumbo"][:2] == ("ok", "jumbo: 9000 (jumbo frames)"), mtus
        assert found["port"][0][0] == "warn" and "in use" in found["port"][0][1], found["port"]
        assert found["key-file"][0][0] == "warn" and "chmod 600" in found["key-file"][0][2], found["key-file"]

        keys.chmod(0o600)
        process = subprocess.Popen([controller, "--key-file", keys, "--listen", "10.79.2.1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        assert "listening" in process.stdout.readline()
        found, code = check(shell, "--key-file", str(keys), "--controller", "10.79.2.1")
        assert code == 0 and found["controller"][0][:2] == ("ok", "10.79.2.1: epoch 1, 1 nodes"), found["controller"]
        assert found["key-file"][0][0] == "ok", found["key-file"]
        found, code = check(shell, unprivileged=True)
        assert code == 0 and found["privileges"][0][0] == "warn" and "NET_RAW: no" in found["privileges"][0][1], found
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    print(f"check: {len(found)} kinds of finding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
