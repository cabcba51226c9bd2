# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_bmv2_lease.py BUILD
Processes all-reduce over bmv2 by a lease from the controller: heddle-switch-agent has it programmed, each rank checks
every sum, and what bmv2 counted is in the agent's tables."""
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import bench_inpath
import fabric
import pen

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "testbed"))

from lab import bmv2  # noqa: E402: found by now

HOSTS, VALUES, ROUNDS, LANES = 3, 2000, 4, 32
BRIDGE = pathlib.Path(bmv2.__file__).parent / "bmv2_bridge.py"


class Path(bench_inpath.Path):
    """Its hosts and links around bmv2 in our own namespace: port k is host k's, the last one the agent's."""

    def start_switch(self, loss):
        service, own = bench_inpath.SERVICE, bench_inpath.mac_of("va")
        stations = [{"ipv4": host.address, "mac": bench_inpath.mac_of("e0", host), "port": k}
                    for k, host in enumerate(self.hosts)]
        stations.append({"ipv4": service, "mac": own, "port": len(self.hosts)})
        ports = {**{k: f"s{k}" for k in range(len(self.hosts))}, len(self.hosts): "sa"}
        setting = self.folder / "bmv2.json"
        setting.write_text(json.dumps({"ports": ports, "service": service, "mac": own, "stations": stations,
                                       "log": str(self.folder / "bmv2.log")}))
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for device in ports.values():
            subprocess.run(["ethtool", "-K", device, *bench_inpath.OFFLOADS], check=True, stdout=subprocess.DEVNULL)
        self.switch = subprocess.Popen(
            [self.build / "switch/heddle-switch-agent", "--bridge", f"{BRIDGE} {setting}", "--listen", service,
             "--controller", bench_inpath.CONTROLLER, "--key-file", self.key, "--host", "s1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.switch.stdout.readline().startswith("ready"), "the agent did not start"

    def numbers(self, out):
        """They are in the agent's tables."""
        assert self.switch.returncode == 0, self.switch.returncode


def check_refusals(build, folder):
    """A child that cannot have a switch, ends, or says something else: the agent does not start, and says why."""
    key = fabric.new_key(folder)
    for bridge, words in (("echo '{\"error\": \"no bmv2\"}'", "no bmv2"), ("true", "has ended"),
                          ("echo hello", "gave an unexpected answer")):
        done = subprocess.run([build / "switch/heddle-switch-agent", "--bridge", bridge, "--listen", "127.0.0.1",
                               "--controller", "127.0.0.1", "--key-file", key, "--host", "s1"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        assert done.returncode == 69 and words in done.stderr, (bridge, done)


def main():
    pen.enter()
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
    why = bmv2.missing()
    if why:
        pen.skip(why)
    options = types.SimpleNamespace(build=pathlib.Path(sys.argv[1]).resolve(), mbps=20, mtu=1500, chunk=1408)
    with tempfile.TemporaryDirectory(prefix="heddle-bmv2-lease-") as folder:
        path = Path(HOSTS, options, pathlib.Path(folder), 0, told=("--initial-mbps", "20"))
        try:
            times = path.run(VALUES, ROUNDS)
            counted = path.counters(bench_inpath.SERVICE)
        finally:
            path.close()
    assert len(times) == ROUNDS, times
    assert counted["switch_agent_leases"] >= 1 and counted["switch_agent_executor_errors"] == 0, counted
    got = {name: counted[name] for name in bmv2.counter_names()}
    chunks = -(-VALUES // LANES)
    assert got["completed"] >= ROUNDS * chunks, got
    assert got["absorbed"] >= (HOSTS - 1) * ROUNDS * chunks and got["copies"] >= HOSTS * ROUNDS * chunks, got
    assert not any(got[f"drop_{why}"] for why in ("malformed", "lease", "slot", "exponent", "member")), got
    print(f"{ROUNDS} rounds of {VALUES} values by bmv2: {({name: n for name, n in got.items() if n})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
