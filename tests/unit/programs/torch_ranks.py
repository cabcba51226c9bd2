# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the checks of PyTorch: ranks in the environment of torchrun."""
import os
import socket
import subprocess
import sys
import time

WORKERS = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def play(command, patience_s, **env):
    """Runs a command at each of WORKERS ranks; returns [(exit status, output)] by rank. env: further environment.
    Those that have not ended after patience_s are killed, and say so."""
    port, running = free_port(), []
    for rank in range(WORKERS):
        mine = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "RANK": str(rank),
                "WORLD_SIZE": str(WORKERS), "HEDDLE_HOST": f"h{rank + 1}", "HEDDLE_BIND": "127.0.0.1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo", **env}
        running.append(subprocess.Popen([sys.executable, *map(str, command)], env=mine, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    ends, outputs = time.monotonic() + patience_s, []
    try:
        for rank in running:
            try:
                outputs.append(rank.communicate(timeout=max(0, ends - time.monotonic()))[0])
            except subprocess.TimeoutExpired:
                rank.kill()
                outputs.append(rank.communicate()[0] + f"\nno end within {patience_s} s")
    finally:
        for rank in running:
            rank.kill()
            rank.wait()
    return [(rank.returncode, output) for rank, output in zip(running, outputs)]
