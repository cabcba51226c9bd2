#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real programs in namespaces, an aggregator among them, on kernel sockets or on a port of its own: a worker is killed
while its update is in an incomplete sum, then the aggregator is. The others go on, sums are made again after each, and
no round is committed twice.

usage: test_aggregate.py BUILD udp|af_packet"""
import pathlib
import subprocess
import sys
import tempfile

import dpdk_lab
import pen
import survive

WORKERS = 5
VALUES = 200000  # 0.8 MB: 250 ms of a worker's link, longer than it takes to be seen in the event log
COMPUTE_MS = 5
OUT_MBPS, IN_MBPS = 25, 200  # of workers
FAST_MBPS, SERVER_IN_MBPS = 1000, 13  # updates wait for the server's link, models do not: there are sums
SUM = 65535  # whose chunks a sum's are
SUMS = 5  # to be delivered before and after each fault
PATIENCE_S = 90


class Cluster(survive.Cluster):
    def __init__(self, build, path, kind):
        super().__init__(build, path, WORKERS)
        self.kind = kind
        self.aggregator = survive.Node(self, "agg", "10.78.0.4")
        for node in self.workers:
            self.shape(node, OUT_MBPS, IN_MBPS)
        self.shape(self.aggregator, FAST_MBPS, FAST_MBPS)
        self.shape(self.server, FAST_MBPS, SERVER_IN_MBPS)
        if kind != "udp":
            # The kernel must not have the node's address; superframes would arrive in one piece, truncated.
            self.aggregator.host.run("ip", "addr", "flush", "dev", "e0")
            for node in self.nodes():
                node.host.run("ethtool", "-K", "e0", "tx-udp-segmentation", "off")

    @staticmethod
    def shape(node, out_mbps, in_mbps):
        def words(mbps):
            return ["root", "tbf", "rate", f"{mbps}mbit", "burst", "15k", "limit", "128k"]
        node.host.run("tc", "qdisc", "add", "dev", "e0", *words(out_mbps))
        subprocess.run(["tc", "qdisc", "add", "dev", f"br-{node.name}", *words(in_mbps)], check=True,
                       stdin=subprocess.DEVNULL)

    def nodes(self):
        return [*super().nodes(), *([self.aggregator] if hasattr(self, "aggregator") else [])]

    def command(self, node):
        if node in self.workers:
            return [self.build / "tests/netns/survive_worker", VALUES, COMPUTE_MS, node.file("told")]
        if not hasattr(self, "aggregator") or node is not self.aggregator:
            return super().command(node)
        where = ["--listen", node.address]
        if self.kind != "udp":
            where = ["--driver", "dpdk", "--port", f"net_{self.kind}0,iface=e0", "--address", f"{node.address}/24"]
        return [self.build / "aggregator/heddle-aggregator", *where, "--host", "agg", "--controller",
                self.controller.address, "--key-file", self.key, "--memory", "256M", "--events", node.file("events")]

    def start(self, node):
        super().start(node)
        if node is self.aggregator:
            node.wait_ready("ready")


def events(node, life=None):
    return pen.events(node.file("events", life))


def sums_delivered(cluster):
    """The number of delivered sums of at least two members."""
    return sum(e["event"] == "send-end" and e.get("worker") == SUM and e.get("reason", "none") == "none"
               for e in events(cluster.aggregator))


def wait_sums(cluster, more):
    wanted = sums_delivered(cluster) + more
    pen.until(lambda: sums_delivered(cluster) >= wanted, f"{more} more sums at the aggregator", PATIENCE_S)


def last_update(cluster, rank):
    """The newest update of this worker in flight into a sum: its token (None: there was none yet) and its end according
    to the log: "whole", "failed" with its group, or None."""
    log = events(cluster.aggregator)
    begun = [i for i, e in enumerate(log) if e["event"] == "recv-start" and e.get("worker", 0) == rank]
    if not begun:
        return None, None
    token = log[begun[-1]]["token"]
    for e in log[begun[-1]:]:
        if e["event"] == "recv-end" and e["token"] == token:
            return token, "whole"
        if e["event"] == "voided" and e["aux"] > 1:  # inputs; a relayed model is one
            return token, "failed"
    return token, None


def under_way(cluster, rank):
    token, end = last_update(cluster, rank)
    return token is not None and end is None


def kill_midway(cluster, victim, rank):
    """Kills it while an update of it is in flight, so that its group fails. The log is at least 200 ms late, so the
    update may have been complete by then, and not be affected. Then tries again."""
    for _ in range(10):
        pen.until(lambda: under_way(cluster, rank), "an update of the victim in flight into a sum", PATIENCE_S)
        victim.kill()
        pen.until(lambda: not under_way(cluster, rank), "the group of the dead fails", PATIENCE_S)
        if last_update(cluster, rank)[1] == "failed":
            return
        cluster.start(victim)
    raise AssertionError("the victim's updates are never in flight for long")


def check_commits(cluster):
    """No round twice, versions one after the other, some of them in sums."""
    seen, version, lives = set(), 0, cluster.server.lives
    assert lives == 1
    for e in events(cluster.server):
        if e["event"] != "committed":
            continue
        key = (e.get("worker", 0), e["round"])
        assert key not in seen, f"committed twice: {key}"
        seen.add(key)
        counter = int(e["version"]) & ((1 << 48) - 1) if not isinstance(e["version"], dict) else e["version"]["counter"]
        assert counter == version + 1, f"version {counter} after {version}"
        version = counter
    assert version > 0
    return version


def play(cluster):
    for node in cluster.nodes():
        cluster.start(node)
    wait_sums(cluster, SUMS)

    victim = cluster.workers[2]
    others = [w for w in cluster.workers if w is not victim]
    kill_midway(cluster, victim, 2)
    wait_others(cluster, others)
    wait_sums(cluster, SUMS)

    cluster.aggregator.kill()
    wait_others(cluster, others)
    cluster.start(cluster.aggregator)
    wait_sums(cluster, SUMS)
    wait_others(cluster, others)

    status = cluster.aggregator.end()
    assert status == 0, f"the aggregator ended with {status}: {cluster.aggregator.output()[-500:]}"
    wait_others(cluster, others)
    for node in (*others, cluster.server, cluster.controller):
        status = node.end()
        assert status == 0, f"{node.name} ended with {status}: {node.output()[-500:]}"


def wait_others(cluster, others):
    """Each of these was told an outcome after now."""
    before = {w: w.file("told").read_bytes().count(b"outcome ") for w in others}
    pen.until(lambda: all(w.file("told").read_bytes().count(b"outcome ") > before[w] for w in others),
              "outcomes for all workers", PATIENCE_S)


def main():
    build, kind = sys.argv[1:3]
    pen.enter()
    if kind != "udp":
        why = dpdk_lab.missing(sys.argv[3], kind)
        if why:
            pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-aggregate-") as folder:
        cluster = Cluster(build, pathlib.Path(folder), kind)
        try:
            play(cluster)
        except (AssertionError, TimeoutError):
            for node in cluster.nodes():
                if node.lives:
                    print(f"--- {node.name}: {node.output()[-800:]}", file=sys.stderr)
            raise
        commits = check_commits(cluster)
        lives = [events(cluster.aggregator, life) for life in range(1, cluster.aggregator.lives + 1)]
        sums = sum(e["event"] == "send-end" and e.get("worker") == SUM and e.get("reason", "none") == "none"
                   for log in lives for e in log)
        print(f"aggregate on {kind}: {commits} commits, {sums} sums delivered, a member and the aggregator killed")


main()
