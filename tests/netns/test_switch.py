# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch.py HEDDLE_SWITCH EXECUTOR [SPEC]
Four hosts around heddle-switch, each by a veth of its own: their kernels' ping and TCP pass, sums of a lease are right
while the switch and the members lose packets, a link has the rate that it was given, and an idle switch sleeps."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import dpdk_lab as lab
import pen

HOSTS = 4
AGENT = 3  # the host that has the service address
SERVICE = "10.81.0.100"
MEMBERS = 3
SLOTS, CHUNKS, ROUNDS, LOSS = 16, 256, 4, 0.03
RATE_MBIT = 40
IDLE_MAX = 0.02
SEND_S = 4


def mac(i):
    return f"02:00:00:00:81:{i + 1:02x}"


def address(i):
    return SERVICE if i == AGENT else f"10.81.0.{i + 1}"


class Star:
    """Our namespace is the switch's: s0 .. s3 are its ports, and v0 in each host is the other end."""

    def __init__(self, hosts=HOSTS):
        pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        self.hosts = [pen.Host() for _ in range(hosts)]
        for i, host in enumerate(self.hosts):
            host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            one = ["numrxqueues", "1", "numtxqueues", "1"]
            subprocess.run(["ip", "link", "add", "name", f"s{i}", *one, "type", "veth", "peer", "name", "v0", "address",
                            mac(i), *one, "netns", str(host.holder.pid)], check=True)
            # Work that a kernel leaves to the hardware (checksums, segmentation) would not be done at all.
            host.run("ethtool", "-K", "v0", "tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off")
            subprocess.run(["ip", "link", "set", f"s{i}", "up"], check=True)
            host.run("ip", "addr", "add", f"{address(i)}/24", "dev", "v0")
            host.run("ip", "link", "set", "v0", "up")
            host.run("ip", "link", "set", "lo", "up")

    def start(self, i, *command):
        return subprocess.Popen(self.hosts[i].enter(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                text=True)

    def run(self, i, *command, timeout=60):
        done = subprocess.run(self.hosts[i].enter(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


class Switch:
    def __init__(self, words, *more, ports=("",) * HOSTS):
        self.process = subprocess.Popen(
            [*words, "--service", SERVICE, "--json", *more,
             *(w for i in range(HOSTS) for w in ("--port", f"net_af_packet{i},iface=s{i}{ports[i]}"))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == f"ready {HOSTS}\n", "the switch did not start"

    def stop(self):
        """Its numbers; each frame that came in is in one of the executor's first counters."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, self.process.returncode
        numbers = json.loads(out)
        switch = numbers["switch"][0]
        came = sum(port["rx_packets"] - port["rx_errors"] for port in numbers["port"])
        told = sum(n for name, n in switch.items() if name not in ("copies", "overtaken", "not_finite"))
        assert came == told, (came, switch)
        assert sum(port["rx_missed"] + port["rx_no_buffer"] for port in numbers["port"]) == 0, numbers["port"]
        return numbers


def test_ordinary(star, words, folder):
    """Stations are told to the executor that does not learn them."""
    switch = Switch(words, *(["--static", static(folder, 0)] if "swx" in words else []))
    for a in range(HOSTS):
        out = star.run(a, "ping", "-n", "-c", "3", "-i", "0.05", "-W", "3", address((a + 1) % HOSTS))
        assert " 0% packet loss" in out, out
    # The largest that fits. (Fragments do not come through ports of af_packet: DPDK has the kernel put them together.)
    assert " 0% packet loss" in star.run(0, "ping", "-n", "-c", "3", "-i", "0.05", "-s", "1472", address(1))
    server = star.start(1, "iperf3", "-s", "-1", "--forceflush")
    pen.until(lambda: "listening" in server.stdout.readline(), "iperf3's server")
    out = json.loads(star.run(0, "iperf3", "-c", address(1), "-t", str(SEND_S), "-J", timeout=SEND_S + 30))
    server.wait(timeout=20)
    rate = out["end"]["sum_received"]["bits_per_second"] / 1e6
    print(f"TCP through the switch: {rate:.0f} Mbit/s, {out['end']['sum_sent']['retransmits']} retransmitted")
    assert rate > 100, rate
    time.sleep(1)
    share = pen.core_share(switch.process.pid, 2)
    print(f"idle: {share * 100:.2f} % of a core")
    assert share <= IDLE_MAX, share
    # It wakes at once after all that, and not when something else makes it look.
    assert " 0% packet loss" in star.run(0, "ping", "-n", "-c", "3", "-i", "0.25", "-W", "0.2", address(1))
    numbers = switch.stop()
    assert numbers["switch"][0]["forwarded"] > 1000 and numbers["switch"][0]["flooded"] >= HOSTS, numbers["switch"]
    ports = numbers["port"]
    assert sum(port["tx_packets"] for port in ports) == numbers["switch"][0]["forwarded"] + (
        HOSTS - 1) * numbers["switch"][0]["flooded"] - sum(port["tx_errors"] for port in ports), numbers


def static(folder, loss):
    """A lease for three members, and where all stations are."""
    path = f"{folder}/static.json"
    member = [{"token": f"{0xabcdef00 + i:x}", "worker": i, "port": i, "mac": mac(i), "ipv4": address(i),
               "udp_port": 4773} for i in range(MEMBERS)]
    pathlib.Path(path).write_text(json.dumps({
        "macs": [{"mac": mac(i), "port": i} for i in range(HOSTS)],
        "leases": [{"id": 3, "job": 7, "epoch": 1, "dtype": "fixed32", "count": 32, "first_slot": 100, "slots": SLOTS,
                    "members": member}],
        **({"simulate": {"seed": 5, "loss": loss}} if loss else {}),
    }))
    return path


def test_sums(star, words, folder, loss):
    switch = Switch(words, "--static", static(folder, loss))
    here = pathlib.Path(__file__).resolve().parent / "switch_member.py"
    members = [star.start(i, sys.executable, here, SERVICE, f"{0xabcdef00 + i:x}", i, MEMBERS, SLOTS, CHUNKS, ROUNDS,
                          loss) for i in range(MEMBERS)]
    said = []
    for member in members:
        out, _ = member.communicate(timeout=90)
        assert member.returncode == 0, "a member found a wrong sum, or none"
        said.append(tuple(map(int, out.split())))
    numbers = switch.stop()
    counted = numbers["switch"][0]
    sent, again, results, thrown = map(sum, zip(*said))
    print(f"loss {loss}: {sent} chunks sent ({again} again), {results} results ({thrown} thrown away), {counted}")
    assert counted["completed"] == CHUNKS * ROUNDS and counted["overtaken"] == 0, counted
    assert counted["absorbed"] == CHUNKS * ROUNDS * (MEMBERS - 1), counted
    taken = counted["completed"] + counted["absorbed"] + counted["repeated"] + counted["drop_duplicate"]
    assert taken + counted["drop_stale"] <= sent <= (
        taken + counted["drop_stale"] + counted["drop_simulated"]), (sent, counted)
    assert counted["copies"] == MEMBERS * counted["completed"] + counted["repeated"], counted
    assert results == counted["copies"], "a copy was lost, or came twice"
    if loss:
        assert thrown > 0 and counted["repeated"] > 0 and counted["drop_simulated"] > 0, (thrown, counted)
    else:
        assert counted["completed"] + counted["absorbed"] + counted["drop_duplicate"] + counted["repeated"] == sent


def test_rate(star, words, folder):
    """A link of 40 Mbit/s out of port 1 passes so much of what is sent at three times that."""
    switch = Switch(words, "--static", static(folder, 0), ports=("", f",rate={RATE_MBIT},queue=64,ecn=16", "", ""))
    server = star.start(1, "iperf3", "-s", "-1", "--forceflush")
    pen.until(lambda: "listening" in server.stdout.readline(), "iperf3's server")
    out = json.loads(star.run(0, "iperf3", "-c", address(1), "-u", "-b", f"{3 * RATE_MBIT}M", "-l", "1400", "-t",
                              str(SEND_S), "-S", "0x02", "-J", timeout=SEND_S + 30))
    server.wait(timeout=20)
    numbers = switch.stop()
    link = numbers["switch_port"][1]
    queue = [q for q in numbers["queue"] if q["port"] == "1" and q["queue"] == "data"][0]
    received = out["end"]["sum_received"] if "sum_received" in out["end"] else out["end"]["sum"]
    rate = received["bits_per_second"] / 1e6 * (1400 + 42) / 1400
    print(f"rate={RATE_MBIT}: {rate:.2f} Mbit/s of frames, {queue['drops']} dropped, {link['marked_data']} marked")
    assert abs(rate - RATE_MBIT) <= 0.04 * RATE_MBIT, rate
    assert queue["drops"] > 0 and link["marked_data"] > 0 and link["rate_bps"] == RATE_MBIT * 1000000, (queue, link)


def test_link_down(star, words, folder):
    """A switch that never sleeps counts a link that goes down, and forwards when it is back."""
    switch = Switch(words, "--busy-poll", "--static", static(folder, 0))
    telemetry = lab.Telemetry(name=f"heddle-switch-{SERVICE}")
    subprocess.run(["ip", "link", "set", "s0", "down"], check=True)
    pen.until(lambda: telemetry.ask("/heddle/switch_port")["0"]["errors"] == 1, "the error of a link that is down", 5)
    subprocess.run(["ip", "link", "set", "s0", "up"], check=True)
    pen.until(lambda: " 0% packet loss" in star.run(0, "sh", "-c", f"ping -n -c 3 -i 0.05 -W 1 {address(1)} || true"),
              "a ping after the link came back")
    errors = [port["errors"] for port in switch.stop()["switch_port"]]
    assert errors == [1, 0, 0, 0], errors


def main():
    pen.enter()
    words = [sys.argv[1], "--executor", sys.argv[2]] + (["--spec", sys.argv[3]] if len(sys.argv) > 3 else [])
    with tempfile.TemporaryDirectory(prefix="heddle-switch-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder  # EAL's
        star = Star()
        test_ordinary(star, words, folder)
        test_sums(star, words, folder, 0)
        test_sums(star, words, folder, LOSS)
        test_rate(star, words, folder)
        test_link_down(star, words, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
