#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A bridge between worker and server drops what is longer than 1,000 bytes, and their links' MTU is 1,500: the worker
says so, and with shorter chunks both ways it trains.

usage: test_narrow.py BUILD_DIR"""
import pathlib
import subprocess
import sys
import tempfile

import fabric
import pen
import star

NARROW = 1000
CHUNK = NARROW - 88  # headers are 84 bytes, and chunks a multiple of 8
STEPS = 20


def train(lab, host, more):
    """The only worker of its job, in its host."""
    return lab.start("worker", host, lab.build / "worker-lib/heddle-train", "--model", "mlp:64", "--steps", STEPS,
                     "--seed", 1, env={**lab.member("digits", 0, 1, host), **more})


def serve(lab, net, *more):
    return lab.start_node("server", net.hosts["ps"], "ps", *more)


def main():
    pen.enter()
    build = pathlib.Path(sys.argv[1]).resolve()
    net = star.Star({"ps": 100, "w": 100}, "10.94.0", 512)
    for name, host in net.hosts.items():
        star.sh("ip", "link", "set", f"p-{name}", "mtu", NARROW)
        # Segments that the host's card makes later are not measured on this path.
        subprocess.run(host.enter("ethtool", "-K", "e0", "tx-udp-segmentation", "off"), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="heddle-narrow-") as folder:
        lab = fabric.Fabric(build, pathlib.Path(folder), net.hub)
        try:
            serve(lab, net)
            worker = train(lab, net.hosts["w"], {})
            pen.until(lambda: "MTU" in lab.said("worker"), "a warning of the worker", 60)
            said = next(line for line in lab.said("worker").splitlines() if "MTU" in line)
            assert net.hosts["ps"].address in said and "1464 bytes" in said, said
            assert worker.poll() is None, "it goes on trying"
            lab.end(keep=1)
            serve(lab, net, "--chunk-bytes", CHUNK)
            worker = train(lab, net.hosts["w"], {"HEDDLE_CHUNK_BYTES": str(CHUNK)})
            assert worker.wait(timeout=60) == 0, lab.said("worker")
            assert "MTU" not in lab.said("worker"), lab.said("worker")
            print(said)
        finally:
            lab.end()
            net.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
