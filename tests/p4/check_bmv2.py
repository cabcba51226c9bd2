#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""bmv2 as the demo's switch: hosts reach each other through it, other tenants' TCP too, and when it was killed; two
workers' chunks, sent by their kernels, come back to both as their sum; a third that has no token gets nothing. Of a
lease that is refused in part nothing is left."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))

import pen  # noqa: E402: how tests get namespaces of their own

SERVICE, PORT, LANES = "10.77.0.250", 5000, 32
SETTING = {
    "name": "bmv2", "about": "bmv2 forwards and adds", "seed": 1, "workers": 3, "link_mbps": 100, "duration_s": 1,
    "switches": "bmv2", "job": {"model": "softmax"}}
HEADER = ">HBBIHHIBBhHHIIQHhIQ"  # common/wire/hd_wire.h


def chunk(worker, token, values, exponent=-20, proposed=-19):
    head = struct.pack(HEADER, 0x4844, 0x11, 0, 7, 1, worker, 1, 1, 3, exponent, 0, 0, 0, 1 + worker, 0, LANES,
                       proposed + worker, 0, token)
    return head + struct.pack(f">{LANES}i", *values)


def ping(net, source, target):
    done = subprocess.run([*net.enter(source), "ping", "-c", "3", "-i", "0.2", "-W", "2", net.ip(target)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0 and " 0% packet loss" in done.stdout, done.stdout + done.stderr


def transfer(net, source, target):
    """A megabyte by TCP: superframes and sums that the kernel leaves to its card must not reach bmv2."""
    take = "import socket; end = socket.create_server(('', 6000)); print('up', flush=True); end = end.accept()[0]; " \
        "print(sum(map(len, iter(lambda: end.recv(65536), b''))))"
    give = f"import socket; socket.create_connection(('{net.ip(target)}', 6000)).sendall(bytes(1 << 20))"
    taker = subprocess.Popen([*net.enter(target), sys.executable, "-c", take], stdout=subprocess.PIPE, text=True)
    assert taker.stdout.readline() == "up\n"
    subprocess.run([*net.enter(source), sys.executable, "-c", give], check=True, timeout=60, stdin=subprocess.DEVNULL)
    assert int(taker.communicate(timeout=60)[0]) == 1 << 20


def revive(net):
    """One that was killed is started, and told all again, when it is looked at."""
    assert net.watch_switches() == []
    net.net["s1"].bmv2.process.kill()
    net.net["s1"].bmv2.process.wait()
    assert net.watch_switches() == ["s1"]
    ping(net, "h2", "h1")
    assert net.watch_switches() == []


def lease_of(bmv2, net, names):
    def copy(i, name):
        device = net.net[name].defaultIntf()
        port = {mac: number for mac, number in net.net["s1"].neighbours().items()}[device.MAC()]
        return bmv2.Copy(port, device.MAC(), net.ip(name), PORT, 0x7700 + i)
    members = [bmv2.Member(0x1234567800000001 + i, i, copy(i, name)) for i, name in enumerate(names)]
    return bmv2.Lease(id=3, job=7, epoch=1, attempt=1, shard=0, first_slot=100, slot_count=4,
                      waits=(1 << len(members)) - 1, members=members)


def had(switch):
    """The switch's entries of leases."""
    entries = [f"table_num_entries {table}" for table in ("tokens", "leases", "copies")]
    return switch.ask([*entries, "mc_dump"])


def refuse(bmv2, net):
    """A lease of which a part fails is not there at all, whichever part; the one beside it stays."""
    switch = net.net["s1"].bmv2
    one = lease_of(bmv2, net, ["h1", "h2"])
    switch.set_lease(one)
    before = had(switch)
    for spoil in ("token", "mac", "port"):
        two = lease_of(bmv2, net, ["h1", "h2"])
        two.id, two.first_slot = one.id + 1, one.first_slot + one.slot_count
        for member in two.members:
            member.token += 0x100
        if spoil == "token":  # the last of all that is told
            two.members[1].token = one.members[1].token
        else:
            setattr(two.members[1].copy, spoil, "nowhere")
        try:
            switch.set_lease(two)
        except bmv2.CommandFailed as failed:
            assert had(switch) == before, (spoil, failed, before, had(switch))
        else:
            raise AssertionError(f"{spoil}: not refused")
    two.members[1].copy.port = one.members[1].copy.port
    switch.set_lease(two)  # by the same number
    assert had(switch) != before
    switch.end_lease(two.id)
    assert had(switch) == before
    switch.end_lease(one.id)


def reduce(bmv2, net):
    """The sums that h1 and h2 got, and what h3 did."""
    switch = net.net["s1"].bmv2
    switch.identify(SERVICE, "02:00:00:00:00:fe")
    lease = lease_of(bmv2, net, ["h1", "h2"])
    switch.set_lease(lease)
    values = [[1000 * (worker + 1) + i for i in range(LANES)] for worker in range(3)]
    tokens = [*(member.token for member in lease.members), 0xbad]
    ends = []
    for worker in range(3):
        name = f"h{worker + 1}"
        subprocess.run([*net.enter(name), "ip", "neigh", "replace", SERVICE, "lladdr", "02:00:00:00:00:fe",
                        "dev", f"{name}-eth0"], check=True)
        ends.append(subprocess.Popen(
            [*net.enter(name), sys.executable, str(pathlib.Path(__file__).parent / "member.py"), SERVICE, str(PORT)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for worker, end in enumerate(ends):
        end.stdin.write(chunk(worker, tokens[worker], values[worker]).hex() + "\n")
        end.stdin.close()
    got = [end.stdout.read().split() for end in ends]
    assert [end.wait() for end in ends] == [0, 0, 0]
    for worker in range(2):
        assert len(got[worker]) == 1, (worker, got)
        frame = bytes.fromhex(got[worker][0])
        head = struct.unpack_from(HEADER, frame)
        assert head[1] == 0x12 and head[5] == 0xffff and head[14] == 0b11, head
        assert head[9] == -20 and head[16] == -18 and head[18] == lease.members[worker].copy.token, head
        assert struct.unpack_from(f">{LANES}i", frame, 56) == tuple(a + b for a, b in zip(*values[:2]))
    assert got[2] == [], got[2]
    switch.end_lease(lease.id)
    return switch.counters()


def main():
    pen.enter()
    from lab import bmv2, inside, network, scenario  # Mininet is there only where it is installed
    why = bmv2.missing()
    if why:
        pen.skip(why)
    with tempfile.TemporaryDirectory(prefix="heddle-bmv2-test-") as folder:
        inside.prepare(pathlib.Path(folder))
        path = pathlib.Path(folder) / "bmv2.json"
        path.write_text(json.dumps(SETTING))
        net = network.Network(scenario.load(str(path)))
        try:
            ping(net, "h1", "h2")
            ping(net, "ctl", "h3")
            transfer(net, "h1", "h3")
            before = net.net["s1"].bmv2.counters()
            assert before["forwarded"] >= 12 and before["flooded"] >= 2, before
            revive(net)
            refuse(bmv2, net)
            counts = reduce(bmv2, net)
        finally:
            net.close()
            subprocess.run(["umount", folder], check=True)
    print({name: count for name, count in counts.items() if count})
    want = {"absorbed": 1, "completed": 1, "copies": 2, "drop_token": 1}
    assert {name: counts[name] for name in want} == want, counts
    return 0


if __name__ == "__main__":
    sys.exit(main())
