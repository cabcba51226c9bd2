#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's process group on two hosts, each with a heddle-run that starts its part of the ranks. Without a controller
in the environment, the host of rank 0 starts one, and the other host's ranks find it through the group's store. With
one, none is started; if only one of the hosts has it, all ranks say so. If the first host is lost, the other one says
so.

usage: test_python_hosts.py BUILD_DIR"""
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import fabric
import pen
from star import Star

BUILD = pathlib.Path(sys.argv[1]).resolve()
RANK = pathlib.Path(__file__).parent / "python_host_rank.py"
HERE, SIZE, MBPS, QUEUE_KB = 2, 4, 1000, 256  # ranks of a host, of all
NET, PORT, PATIENCE_S = "10.83.0", 29500, 120


class Ranks:
    """The ranks of both hosts."""

    def __init__(self, star, folder, what, port, given=({}, {})):
        self.hosts, self.running, self.logs = list(star.hosts.values()), [], []
        for index, host in enumerate(self.hosts):
            env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")},
                   "HEDDLE_LIBRARY": str(BUILD / "worker-lib/libheddle.so"),
                   "HEDDLE_CONTROLLER_PROGRAM": str(BUILD / "controller/heddle-controller"),
                   "PYTHONPATH": str(pen.ROOT / "worker-lib/python"), "GLOO_SOCKET_IFNAME": "e0",
                   "MASTER_ADDR": self.hosts[0].address, "MASTER_PORT": str(port), **given[index]}
            words = [BUILD / "worker-lib/heddle-run", "-n", HERE, "--first-rank", HERE * index, "--world-size", SIZE,
                     "--no-prefix", "--", sys.executable, RANK, what]
            self.logs.append(folder / f"{what}-{port}-{index}")
            with open(self.logs[-1], "w", encoding="utf-8") as log:
                self.running.append(subprocess.Popen(host.enter(*words), env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                     stderr=subprocess.STDOUT))

    def said(self):
        """By rank, the last of each."""
        lines = [line for log in self.logs for line in log.read_text(encoding="utf-8").splitlines()]
        found = [json.loads(line) for line in lines if line.startswith('{"rank"')]
        return {one["rank"]: one for one in found}

    def all(self):
        return [log.read_text(encoding="utf-8") for log in self.logs]

    def ends(self, *which):
        for index in which or range(len(self.running)):
            status = self.running[index].wait(PATIENCE_S)
            assert status == 0, (index, status, self.all())
        return self.said()

    def close(self):
        for one in self.running:
            one.kill()
            one.wait()


def network_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def controllers():
    """Processes that run the program, in every namespace. Orphans are children of this one, which does not wait for
    them."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, state = (process / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if name == "heddle-controller"[:15] and state.split()[0] != "Z":
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return found


def check_own(star, folder):
    """The controller listens at the address by which the second host reaches the first."""
    ranks = Ranks(star, folder, "work", PORT)
    try:
        said = ranks.ends()
    finally:
        ranks.close()
    assert sorted(said) == list(range(SIZE)), ranks.all()
    addresses = {address for one in said.values() for address in one["controllers"]}
    assert len(addresses) == 1 and addresses.pop().startswith(f"{ranks.hosts[0].address}:"), said
    assert [len(said[rank]["children"]) for rank in range(SIZE)] == [1, 0, 0, 0], said
    assert [said[rank]["local"] for rank in range(SIZE)] == [0, 1, 0, 1], said
    pen.until(lambda: not controllers(), "the controller ends with rank 0")
    print(f"own: {said[3]['controllers']}")


def check_given(star, folder):
    """A controller in the environment: none is started."""
    hub = f"{star.hub}:5300"
    running = fabric.Fabric(BUILD, folder, hub)
    both = {"HEDDLE_CONTROLLER": hub, "HEDDLE_KEY_FILE": str(running.key)}
    try:
        ranks = Ranks(star, folder, "work", PORT + 1, (both, both))
        try:
            said = ranks.ends()
        finally:
            ranks.close()
        assert sorted(said) == list(range(SIZE)), ranks.all()
        assert all(one["controllers"] == [None] or not one["controllers"] for one in said.values()), said
        assert not any(one["children"] for one in said.values()), said
        ranks = Ranks(star, folder, "work", PORT + 2, (both, {}))
        try:
            said = ranks.ends()
        finally:
            ranks.close()
    finally:
        running.end()
    assert sorted(said) == list(range(SIZE)), ranks.all()
    for rank, one in said.items():
        words = "another rank cannot join" if rank < HERE else "export it and HEDDLE_KEY_FILE on every machine"
        assert words in one["error"], said
    print("given: none is started; on one host only: refused")


def check_lost(star, folder):
    """All of the first host at once: its launcher, its ranks, the controller."""
    ranks = Ranks(star, folder, "lost", PORT + 3)
    try:
        pen.until(lambda: len(ranks.said()) == SIZE, "sums", PATIENCE_S)
        mine = controllers()
        assert len(mine) == 1 and network_of(mine[0]) == network_of(ranks.hosts[0].holder.pid), mine
        ranks.running[0].send_signal(signal.SIGKILL)
        said = ranks.ends(1)
    finally:
        ranks.close()
    assert all("error" in said[rank] for rank in range(HERE, SIZE)), ranks.all()
    pen.until(lambda: not controllers(), "the controller ends with rank 0")
    print(f"lost: {said[SIZE - 1]['error']}")


def main():
    if importlib.util.find_spec("torch") is None:
        pen.skip("PyTorch is not installed (python3-torch)")
    pen.enter()
    star = Star({"h1": MBPS, "h2": MBPS}, NET, QUEUE_KB)
    with tempfile.TemporaryDirectory(prefix="heddle-python-hosts-") as folder:
        try:
            for check in (check_own, check_given, check_lost):
                check(star, pathlib.Path(folder))
        finally:
            star.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
