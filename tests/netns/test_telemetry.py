#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One table of counters, three readers: rte_telemetry, the shell and OpenMetrics say the same of a controller on the
dpdk driver, and each ethdev's own counters agree with the port's.

usage: test_telemetry.py BENCH_TRANSFER HEDDLE_CONTROLLER HEDDLECTL"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import dpdk_lab as lab
import fabric
import pen

METRICS = f"{lab.KERNEL}:9477"
GROUPS = {"process", "core", "port", "queue", "fabric", "controller", "updates", "endpoint", "job", "lease", "link",
          "node", "journal"}


HOSTS = 200


def scrape():
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {s.name: s.value for f in families for s in f.samples if not s.labels}


def check_lists(telemetry):
    commands = set(telemetry.ask("/"))
    assert {f"/heddle/{group}" for group in GROUPS} | {"/heddle/groups", "/heddle/driver"} <= commands, commands
    groups = telemetry.ask("/heddle/groups")
    assert set(groups) == GROUPS and all(groups.values()), groups
    assert "Parameter" in telemetry.ask("/help,/heddle/link")["/heddle/link"]


def check_same(telemetry, shell):
    """Counters that do not change between the queries are the same through every interface."""
    told = shell.counters()
    controller, metrics = telemetry.ask("/heddle/controller"), scrape()
    for name, value in controller.items():
        assert told[name] == value == metrics[f"heddle_controller_{name}_total"], (name, told[name], value)
    assert controller["shows"] > 0
    seconds = float(telemetry.ask("/heddle/core")["main"]["user_seconds"])
    assert 0 <= seconds < 60, seconds


def check_port(telemetry):
    """The driver's port is the ethdev, frame by frame but for ARP."""
    port, ethdev, driver = telemetry.ask("/heddle/port")["0/dpdk"], telemetry.port(), telemetry.driver()
    assert port["driver"] == "dpdk" and port["rx_packets"] > 0, port
    arp = driver["arp_requests"] + driver["arp_answers"]
    assert port["rx_packets"] + arp <= ethdev["ipackets"], (port, ethdev)
    assert driver["received_packets"] >= port["rx_packets"], (port, driver)


def check_lists_of_rows(telemetry):
    links = telemetry.ask("/heddle/link")
    assert [link["link"] for link in links.values()] == ["local"], links
    assert not telemetry.ask("/heddle/link,nowhere")
    ended = telemetry.ask("/heddle/updates")
    assert ended["late"] == {"reason": "late", "ended": 0} and len(ended) > 10, ended
    assert set(telemetry.ask("/heddle/updates,lost")) == {"lost_base"}
    assert not telemetry.ask("/heddle/job"), "there is no job"


def queue(telemetry, direction):
    return telemetry.ask(f"/heddle/queue,{direction}")[f"0/{direction}/0"]


def check_neighbours(node, telemetry, shell):
    """ARP's table: unsolicited answers, a station that moves, once a second at most."""
    wire, others = lab.Wire(node.mac()), b"\2\0\0\0\0\7"

    def say(sender, mac):
        """A host that asks for the node's address is learnt; an unsolicited answer is not."""
        wire.send(0x0806, lab.arp(1, mac, sender, b"\0" * 6, lab.FABRIC), source=mac)

    def grows(name, what):
        before = telemetry.driver()[name]
        what()
        pen.until(lambda: telemetry.driver()[name] == before + 1, name, 5)

    grows("arp_ignored", lambda: wire.send(0x0806, lab.arp(2, wire.mac, "10.79.0.50", wire.peer, lab.FABRIC)))
    grows("arp_answered", lambda: say("10.79.0.51", wire.mac))
    grows("arp_ignored", lambda: say("10.79.0.51", others))
    time.sleep(1.1)
    grows("arp_moved", lambda: say("10.79.0.51", others))
    told = {row["counter"] for row in shell.rows("counters")}
    assert {f"driver_{name}" for name in ("arp_given_up", "arp_evicted", "arp_moved", "arp_ignored")} <= told, told


def check_lost(node, telemetry, shell, process):
    """A node that does not run loses what its ring does not hold."""
    assert queue(telemetry, "in")["drops"] == 0, queue(telemetry, "in")
    limit = queue(telemetry, "in")["limit_bytes"]
    process.send_signal(signal.SIGSTOP)
    wire = lab.Wire(node.mac())
    for _ in range(limit // 1500 + 500):
        wire.send(0x0800, lab.ipv4(17, lab.udp(b"x" * 1000)))
    process.send_signal(signal.SIGCONT)
    pen.until(lambda: queue(telemetry, "in")["drops"] >= 400, "frames that the ring did not hold", 10)
    lab.settled(telemetry)
    lost = telemetry.driver()["receive_overflow"]
    shown = next(row for row in shell.rows("queues") if row["direction"] == "in")
    missed = telemetry.ask("/heddle/port")["0/dpdk"]["rx_missed"]
    assert lost == missed == shown["drops"] == queue(telemetry, "in")["drops"], (lost, missed, shown)


def check_waiting(node, telemetry):
    """Packets that a slow interface has not taken yet."""
    wire = lab.Wire(node.mac())
    node.host.run("tc", "qdisc", "add", "dev", "v1", "root", "tbf", "rate", "200kbit", "burst", "1540",
                  "limit", "1000000")
    body = b"\x08\0\0\0" + b"\0" * 1400
    for _ in range(10):
        wire.send(0x0800, lab.ipv4(1, body[:2] + lab.checksum(body).to_bytes(2, "big") + body[4:]))
    pen.until(lambda: queue(telemetry, "out")["backlog_bytes"] >= 5 * 1400, "echoes that wait", 5)
    pen.until(lambda: queue(telemetry, "out")["backlog_bytes"] == 0, "echoes gone", 5)
    node.host.run("tc", "qdisc", "del", "dev", "v1", "root")


def check_xdp(node, controller, keys, shell):
    """af_xdp counts its losses elsewhere."""
    node.kind = "af_xdp"
    process = node.start(controller, "--key-file", keys, "--listen", lab.FABRIC, *node.words())
    assert re.search("listening on", process.stdout.readline())
    check_lost(node, lab.Telemetry(), shell, process)
    process.terminate()
    process.communicate(timeout=20)


def check_pages(node, controller, keys, folder):
    """Lists beyond an answer's 16 KiB come in pieces that make the whole."""
    hosts = [f"host{i}" for i in range(HOSTS)]
    pathlib.Path(folder, "topology.json").write_text(json.dumps({
        "hosts": hosts, "switches": ["s"], "links": [[h, "s"] for h in hosts]}))
    process = node.start(controller, "--key-file", keys, "--listen", lab.FABRIC, "--topology",
                         f"{folder}/topology.json", *node.words())
    assert re.search("listening on", process.stdout.readline())
    telemetry, rows, pages, more = lab.Telemetry(), {}, 0, 0
    while more is not None:
        answer = telemetry.ask(f"/heddle/link,from={more}")
        more = answer.pop("next_row", None)
        assert answer and not answer.keys() & rows.keys(), (pages, more)
        rows.update(answer)
        pages += 1
    links = {row["link"] for row in rows.values()}
    assert links == {"local"} | {f"{h}>s" for h in hosts} | {f"s>{h}" for h in hosts}, links
    assert pages > 3, pages
    assert set(telemetry.ask("/heddle/link,host17>s from=0")) == {"host17_s"}
    assert not telemetry.ask("/heddle/link,host17>s from=1") and not telemetry.ask("/heddle/link,from=99999")
    process.terminate()
    process.communicate(timeout=20)
    return pages


def check_script():
    """Debian's own reader of that socket."""
    done = subprocess.run(["dpdk-telemetry.py", "-f", f"heddle-{lab.FABRIC}-{lab.PORT}"], text=True, timeout=20,
                          input="/heddle/fabric\n/heddle/core\nquit\n", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert '"/heddle/fabric"' in done.stdout and '"servers": 0' in done.stdout, done.stdout
    assert '"user_seconds"' in done.stdout, done.stdout


def main():
    pen.enter()
    bench, controller, shell = sys.argv[1:4]
    why = lab.missing(bench, "af_packet")
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-telemetry-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        keys = fabric.new_key(pathlib.Path(folder))
        node = lab.Node()
        process = node.start(controller, "--key-file", keys, "--listen", lab.FABRIC, "--metrics", METRICS,
                             "--journal", f"{folder}/journal.db", *node.words(), stderr=subprocess.PIPE)
        assert re.search("listening on", process.stdout.readline())
        shell = fabric.Shell(shell, lab.FABRIC, keys)
        assert shell.rows("ports")[0]["driver"] == "dpdk"
        telemetry = lab.Telemetry()
        check_lists(telemetry)
        check_same(telemetry, shell)
        check_port(telemetry)
        check_lists_of_rows(telemetry)
        check_script()
        check_neighbours(node, telemetry, shell)
        check_lost(node, telemetry, shell, process)
        check_waiting(node, telemetry)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors
        pages = check_pages(node, controller, keys, folder)
        if not lab.missing(bench, "af_xdp"):
            check_xdp(node, controller, keys, shell)
    print(f"telemetry: {len(GROUPS)} groups, {2 * HOSTS + 1} links on {pages} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
