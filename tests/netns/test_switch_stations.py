# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch_stations.py BUILD [believe]
A host without a key says by ARP, before the first lease, that a member's address is its own. Of a switch whose --static
names stations it gets none of the member's results, with their token, and rounds go on. (believe: without stations it
gets them, which is ARP's way.)"""
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import bench_allreduce
import bench_inpath
import pen

MEMBERS, VALUES, ROUNDS, CHUNK = 2, 20000, 4, 1408
SPY = """
import select, socket, struct, sys, time
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
end.bind(("e0", 0))
own, victim = end.getsockname()[4], socket.inet_aton(sys.argv[1])
# To no host, so that only the switch takes notice.
head = b"\\x02\\xee\\0\\0\\0\\1" + own + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 2)
claim = head + own + victim + own + victim
got = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    end.send(claim)
    until = time.monotonic() + 0.1
    while select.select([end], [], [], max(0, until - time.monotonic()))[0]:
        frame = end.recv(2048)
        got += frame[:6] == own and frame[12:14] == b"\\x08\\0" and frame[30:34] == victim and frame[42:44] == b"HD"
    if not sys.argv[2]:
        print("claimed", flush=True)
        sys.argv[2] = "once"
print(got, flush=True)
"""


class Path(bench_inpath.Path):
    """Its last host has no key."""

    def start_switch(self, loss):
        self.stations = [{"ipv4": host.address, "mac": bench_inpath.mac_of("e0", host), "port": port}
                         for port, host in enumerate(self.hosts)]
        super().start_switch(loss)

    def static(self, loss):
        known = {} if "believe" in sys.argv else {"stations": self.stations}
        return {**super().static(loss), **known}


def main():
    pen.enter()
    options = types.SimpleNamespace(build=pathlib.Path(sys.argv[1]).resolve(), mbps=200, mtu=1500, executor="native",
                                    chunk=CHUNK)
    with tempfile.TemporaryDirectory(prefix="heddle-stations-") as folder:
        path = Path(MEMBERS + 1, options, pathlib.Path(folder), 0)
        victim, spy = path.hosts[0], path.hosts[MEMBERS]
        try:
            thief = subprocess.Popen(spy.enter("/usr/bin/python3", "-c", SPY, victim.address, ""), text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert thief.stdout.readline() == "claimed\n"
            try:
                times = bench_allreduce.run_heddle(path, path.hosts[:MEMBERS], VALUES, ROUNDS, CHUNK)
            except RuntimeError as failed:  # the thief has what the members wait for
                print(failed)
                times = []
            thief.stdin.write("\n")
            got = int(thief.communicate(timeout=20)[0])
        finally:
            thief.kill()
            counted = path.close()
    print(f"{len(times)} rounds, {counted['completed']} sums, of whose copies {got} went to a host without a key",
          json.dumps({name: n for name, n in counted.items() if n}))
    assert len(times) == ROUNDS and counted["completed"] >= ROUNDS * VALUES * 4 // CHUNK, counted
    assert got == 0, got
    return 0


if __name__ == "__main__":
    sys.exit(main())
