# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch_lease.py HEDDLE_SWITCH HEDDLE_CONTROLLER HEDDLECTL
heddle-switch with its agent: it registers with a controller that it reaches through its own ports, answers a shell by
message with its ports and counters, says goodbye through them, and ends with 0. A switch whose controller is not there
forwards all the same."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import dpdk_lab
import fabric
import pen
from test_switch import SERVICE, Star, address

CONTROLLER = 0  # the host that it is on


class Agent:
    """A link from our namespace, where the agent's socket is, to a port of the switch."""

    def __init__(self):
        subprocess.run(["ip", "link", "add", "name", "agent", "type", "veth", "peer", "name", "s3"], check=True)
        for name in ("agent", "s3"):
            subprocess.run(["ethtool", "-K", name, "tx", "off", "tx-udp-segmentation", "off"], check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
        subprocess.run(["ip", "addr", "add", f"{SERVICE}/24", "dev", "agent"], check=True)


def start(words, key, *more):
    process = subprocess.Popen([*words, "--service", SERVICE, "--json", "--host", "s1", "--controller",
                                address(CONTROLLER), "--key-file", key, *more,
                                *(w for i in range(4) for w in ("--port", f"net_af_packet{i},iface=s{i}"))],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready 4\n", "the switch did not start"
    return process


def stop(process):
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, process.returncode
    return out


def check_numbers():
    """OpenMetrics and DPDK's telemetry have the same numbers: of ports, queues, the executor and the agent."""
    text = urllib.request.urlopen("http://127.0.0.1:9478/metrics", timeout=10).read().decode()
    families = [family.name for family in text_string_to_metric_families(text)]
    assert len(set(families)) == len(families), families
    for wanted in ('heddle_port_rx_packets_total{port="1",driver="s1"}', "heddle_switch_forwarded_total ",
                   'heddle_switch_port_rate_bps{port="0"} 0', 'heddle_queue_drops_total{port="3"',
                   "heddle_switch_agent_slots_now"):
        assert wanted in text, (wanted, text)
    telemetry = dpdk_lab.Telemetry(name=f"heddle-switch-{SERVICE}")
    assert telemetry.ask("/heddle/switch")["forwarded"] > 0
    assert len(telemetry.ask("/heddle/switch_port")) == 4


def check_cores(star, agent):
    """Frames that pass without the agent cost the thread of the ports."""
    before = {row["core"]: row for row in agent.rows("cores")}
    assert set(before) == {"ports", "main"}, before
    assert " 0% packet loss" in star.run(1, "ping", "-n", "-c", "200", "-i", "0.005", "-W", "3", address(2))
    after = {row["core"]: row for row in agent.rows("cores")}
    assert after["ports"]["polls"] >= before["ports"]["polls"] + 200, (before, after)
    assert after["ports"]["wakeups"] >= before["ports"]["wakeups"] + 100, (before, after)


def check_dataplane(agent, controller):
    """The controller's view of the switch: each frame once, and the time of the ports' thread."""
    def ports():
        return sum(row["rx_packets"] for row in agent.rows("ports"))

    def switch():
        return next(row for row in controller.rows("dataplane") if row["role"] == "switch")

    before = ports()
    time_us = sum(row["user_seconds"] + row["system_seconds"] for row in agent.rows("cores")) * 1e6
    pen.until(lambda: switch()["age_s"] is not None, "the switch has answered", 20)
    row = switch()
    assert before <= row["rx_packets"] <= ports(), (before, row, ports())
    assert row["processor_us"] >= 0.99 * time_us > 0, (time_us, row)


def check_refused(words):
    """Results come from the service address: it is one, and not any."""
    for service, why in (("0.0.0.0", "must be an address of this switch, not 0.0.0.0"),
                         ("10.0.0.1:x", "not an IPv4 address or host name")):
        done = subprocess.run([*words, "--service", service, "--port", "net_null0"], capture_output=True, text=True,
                              timeout=20, check=False)
        assert done.returncode == 64 and f"--service: '{service}': {why}" in done.stderr, (service, done.stderr)


def main():
    pen.enter()
    words, controller, shell = [sys.argv[1]], sys.argv[2], sys.argv[3]
    check_refused(words)
    with tempfile.TemporaryDirectory(prefix="heddle-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        key = fabric.new_key(pathlib.Path(folder))
        star = Star(hosts=3)
        Agent()
        switch = start(words, key, "--events", f"{folder}/events", "--metrics", "9478")
        assert " 0% packet loss" in star.run(0, "ping", "-n", "-c", "3", "-i", "0.05", "-W", "3", address(1))
        process = star.start(CONTROLLER, controller, "--key-file", key)
        process.stdout.readline()  # it listens

        def switches(host, to):
            rows = fabric.Shell(shell, to, key, star.hosts[host]).seen("nodes")
            return [row["host"] for row in rows if row["role"] == "switch"]

        pen.until(lambda: switches(2, address(CONTROLLER)) == ["s1"], "a switch in nodes", 20)

        agent = fabric.Shell(shell, SERVICE, key, star.hosts[1])
        assert agent.rows("slots") == []
        # The agent's own socket is no port of the switch: its packets pass one.
        assert [row["driver"] for row in agent.rows("ports")] == ["s0", "s1", "s2", "s3"]
        assert {row["port"] for row in agent.rows("queues")} == {"0", "1", "2", "3"}
        check_cores(star, agent)
        check_dataplane(agent, fabric.Shell(shell, address(CONTROLLER), key, star.hosts[2]))
        counted = agent.counters()
        assert counted["driver_received_packets"] > 0, counted
        assert any("forwarded" in name and value > 0 for name, value in counted.items()), counted
        check_numbers()
        numbers = json.loads(stop(switch))
        assert sum(row["rx_packets"] for row in numbers["port"]) > 10, numbers
        # It said goodbye in time: the controller does not have to find out by silence.
        assert switches(CONTROLLER, "127.0.0.1") == []
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    return 0


if __name__ == "__main__":
    sys.exit(main())
