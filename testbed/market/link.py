# SPDX-License-Identifier: BSD-3-Clause
"""A network namespace for the server behind a link with a given rate, so that workers share the server's port as in a
cluster.

    workers, controller  10.77.0.1 ---[tbf]  [tbf]--- 10.77.0.2  server"""
import os
import subprocess
import time

HERE, THERE = "10.77.0.1", "10.77.0.2"
BURST_BYTES = 15000  # a few frames
QUEUE_BYTES = 256 << 10
READY_S = 10.0


class Link:
    """Needs a network namespace of our own; close() removes everything."""

    def __init__(self, mbps):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        try:
            self.make(mbps)
        except BaseException:
            self.close()
            raise

    def make(self, mbps):
        self.until_moved()
        shape = ["root", "tbf", "rate", f"{mbps * 1e6:.0f}bit", "burst", str(BURST_BYTES), "limit", str(QUEUE_BYTES)]
        for command in (
                ["ip", "link", "add", "market0", "type", "veth", "peer", "name", "market1"],
                ["ip", "link", "set", "market1", "netns", str(self.holder.pid)],
                ["ip", "addr", "add", f"{HERE}/24", "dev", "market0"],
                ["ip", "link", "set", "market0", "up"],
                [*self.enter(), "ip", "addr", "add", f"{THERE}/24", "dev", "market1"],
                [*self.enter(), "ip", "link", "set", "lo", "up"],
                [*self.enter(), "ip", "link", "set", "market1", "up"],
                ["tc", "qdisc", "add", "dev", "market0", *shape],
                [*self.enter(), "tc", "qdisc", "add", "dev", "market1", *shape]):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def until_moved(self):
        """unshare creates its namespace a moment after its start."""
        own = os.readlink("/proc/self/ns/net")
        ends = time.monotonic() + READY_S
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == own:
            if time.monotonic() > ends or self.holder.poll() is not None:
                raise subprocess.CalledProcessError(1, "unshare --net")
            time.sleep(0.01)

    def enter(self):
        """The command prefix that runs a command at the server's end."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def close(self):
        """The link is removed with the namespace."""
        self.holder.kill()
        self.holder.wait()
        subprocess.run(["ip", "link", "del", "market0"], check=False, stdin=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
