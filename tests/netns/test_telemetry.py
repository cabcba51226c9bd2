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
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import dpdk_lab as lab
import pen

METRICS = f"{lab.KERNEL}:9477"
GROUPS = {"process", "core", "port", "queue", "fabric", "controller", "updates", "endpoint", "job", "link", "journal"}


def scrape():
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {s.name: s.value for f in families for s in f.samples if not s.labels}


def show(shell, table, **environment):
    done = subprocess.run([shell, "show", table, "--json"], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def check_lists(telemetry):
    commands = set(telemetry.ask("/"))
    assert {f"/heddle/{group}" for group in GROUPS} | {"/heddle/groups", "/heddle/driver"} <= commands, commands
    groups = telemetry.ask("/heddle/groups")
    assert set(groups) == GROUPS and all(groups.values()), groups
    assert "Parameter" in telemetry.ask("/help,/heddle/link")["/heddle/link"]


def check_same(telemetry, shell, environment):
    """Counters that stand still between the questions are the same by every way."""
    told = {row["counter"]: row["value"] for row in show(shell, "counters", **environment)}
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
        keys = pathlib.Path(folder, "keys")
        keys.write_text("1 " + "42" * 32 + "\n")
        node = lab.Node()
        process = node.start(controller, "--key-file", keys, "--listen", lab.FABRIC, "--metrics", METRICS,
                             "--journal", f"{folder}/journal.db", *node.words(), stderr=subprocess.PIPE)
        assert re.search("listening on", process.stdout.readline())
        environment = {"HEDDLE_CONTROLLER": lab.FABRIC, "HEDDLE_KEY_FILE": str(keys)}
        assert show(shell, "ports", **environment)[0]["driver"] == "dpdk"
        telemetry = lab.Telemetry()
        check_lists(telemetry)
        check_same(telemetry, shell, environment)
        check_port(telemetry)
        check_lists_of_rows(telemetry)
        check_script()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors
    print(f"telemetry: {len(GROUPS)} groups")
    return 0


if __name__ == "__main__":
    sys.exit(main())
