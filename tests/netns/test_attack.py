#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An attacker without the key sees, changes and replays a job's packets under any address.

usage: test_attack.py BUILD_DIR   needs root; everything runs in a network namespace of its own.

The attacker gets answers from controller and server to HELLOs that it has changed and to packets of sessions that they
do not know, and passes these answers on to the openers, under the address that these have asked. It plays all of this
while the job starts and while it runs. Then it replays one HELLO to the controller, 5,000 times a second, from on-link
addresses that do not answer ARP. No node may lose a session, and the jobs end as without an attack.
"""
import collections
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = {"controller": "controller/heddle-controller", "server": "aggregator/heddle-server",
            "run": "worker-lib/heddle-run", "train": "worker-lib/heddle-train"}
CONTROLLER, SERVER = ("127.0.0.1", 4773), ("127.0.0.1", 4774)
STRANGER = ("127.0.0.66", 999)
STEPS, WORKERS, ROLE_CONTROLLER, ROLE_WORKER = 150, 2, 1, 3
CONTROL, HELLO = 3, 4  # packet types
KIND_HELLO, KIND_REFUSE, KIND_RESET = 1, 3, 8
PER_S = 400  # packets of sessions that are played again
FLOODED, FLOOD_PER_S, FLOOD_S, FLOOD_ADDRESSES = "10.9.0.1", 5000, 4, 500
E0_MAC, E1_MAC = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def checksum(head):
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


class Attacker(threading.Thread):
    """Sees every packet on the loopback interface and sends from any address."""

    def __init__(self):
        super().__init__(daemon=True)
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.sniffer.bind(("lo", 0x0800))
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.counts = collections.Counter()
        self.mine = collections.deque(maxlen=512)  # what was injected lately
        self.questions = {}  # stranger's port -> (opener, whom it asked): whose question was played from there
        self.port = 10000
        self.allowed, self.second = PER_S, 0
        self.hello = None  # the newest to the controller
        self.meddles = True
        self.ended = False

    def inject(self, source, target, data):
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0, 64, 17, 0,
                           socket.inet_aton(source[0]), socket.inet_aton(target[0]))
        udp = struct.pack("!HHHH", source[1], target[1], 8 + len(data), 0)
        self.mine.append((source, target, data))
        self.raw.sendto(head + udp + data, (target[0], 0))

    def ask(self, opener, asked, target, data):
        """From an address of our own; the answer there belongs to what the opener asked."""
        self.port = 10000 + (self.port - 9999) % 40000
        self.questions[self.port] = (opener, asked)
        self.inject((STRANGER[0], self.port), target, data)

    def on_hello(self, source, target, data):
        self.counts["hello"] += 1
        if target == CONTROLLER:
            self.hello = data
        if not self.meddles:
            return
        for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[:29] + b"\0\x63" + data[31:],
                        data[:2] + bytes([2 << 4 | HELLO]) + data[3:]):
            for node in (CONTROLLER, SERVER):
                self.ask(source, target, node, changed)

    def on_control(self, source, target, data):
        if int(time.monotonic()) != self.second:
            self.second, self.allowed = int(time.monotonic()), PER_S
        if self.allowed == 0:
            return
        self.allowed -= 1
        self.counts["control"] += 1
        other = SERVER if target == CONTROLLER else CONTROLLER
        self.ask(source, target, other, data)

    def on_answer(self, port, data):
        opener, asked = self.questions.get(port, (None, None))
        if opener:
            self.counts["answers"] += 1
            self.inject(asked, opener, data)  # as if from the node that was asked

    def on_packet(self, frame):
        head = (frame[0] & 15) * 4
        if frame[9] != 17 or len(frame) < head + 8 + 32:
            return
        source = (socket.inet_ntoa(frame[12:16]), struct.unpack("!H", frame[head:head + 2])[0])
        target = (socket.inet_ntoa(frame[16:20]), struct.unpack("!H", frame[head + 2:head + 4])[0])
        data = frame[head + 8:]
        if data[:2] != b"HD" or (source, target, data) in self.mine:
            return
        kind, packet = data[28], data[2] & 15
        if target[0] == STRANGER[0]:
            self.on_answer(target[1], data)
        elif packet == HELLO and kind == KIND_HELLO:
            self.on_hello(source, target, data)
        elif packet == CONTROL and target in (CONTROLLER, SERVER) and self.meddles:
            self.on_control(source, target, data)

    def flood(self, seconds):
        """The newest HELLO to the controller again and again, from unused addresses."""
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        wire.bind(("e1", 0))
        end = begun = time.monotonic()
        while end < begun + seconds:
            for _ in range(FLOOD_PER_S // 100):
                self.counts["flood"] += 1
                number = self.counts["flood"] % FLOOD_ADDRESSES
                source = f"10.9.{1 + number // 250}.{1 + number % 250}"
                udp = struct.pack("!HHHH", 4773, CONTROLLER[1], 8 + len(self.hello), 0) + self.hello
                head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                                   socket.inet_aton(source), socket.inet_aton(FLOODED))
                head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
                wire.send(E0_MAC + E1_MAC + b"\x08\x00" + head + udp)
            end = time.monotonic()
            time.sleep(max(0, 0.01 * (self.counts["flood"] // (FLOOD_PER_S // 100)) - (end - begun)))

    def run(self):
        while not self.ended:
            if select.select([self.sniffer], [], [], 0.1)[0]:
                data, where = self.sniffer.recvfrom(65536)
                if where[2] != socket.PACKET_OUTGOING:
                    self.on_packet(data)


def start(*command):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = process.stdout.readline()
    while line and "ready" not in line and "listening" not in line:
        line = process.stdout.readline()
    check(line, f"{command[0]} ended before it was ready")
    return process


def lost_sessions(folder):
    """Nodes that server and controller lost. At its end each worker closes its session with the server. Before the
    server's session with the controller opens, an answer that is not authenticated is reported once, as a hint."""
    lost, ends = [], WORKERS
    for name in ("controller", "server"):
        opened = False
        for line in (folder / f"{name}.jsonl").read_text().splitlines():
            event = json.loads(line)
            opened |= event["event"] == "node-up" and event["aux"] == ROLE_CONTROLLER
            if event["event"] != "node-down" or event.get("reason") in (None, "none", "left"):
                continue
            if (name, event["reason"], event["aux"], opened) == ("server", "unknown-key", ROLE_CONTROLLER, False):
                continue
            if (name, event["reason"], event["aux"]) == ("server", "closed", ROLE_WORKER) and ends > 0:
                ends -= 1
            else:
                lost.append((name, event))
    return lost


def play(folder, flooded):
    """Returns how the job ended, and what the attacker did."""
    keys = folder / "keys"
    keys.write_text("7 " + "5a" * 32 + "\n")
    keys.chmod(0o600)
    program = {name: BUILD / path for name, path in PROGRAMS.items()}
    attacker = Attacker()
    attacker.meddles = not flooded
    attacker.start()
    nodes = [start(program["controller"], "--listen", "0.0.0.0" if flooded else CONTROLLER[0], "--key-file", keys,
                   "--events", folder / "controller.jsonl")]
    nodes.append(start(program["server"], "--listen", f"{SERVER[0]}:{SERVER[1]}", "--host", "ps", "--controller",
                       CONTROLLER[0], "--key-file", keys, "--events", folder / "server.jsonl"))
    job = subprocess.Popen(
        [str(word) for word in (program["run"], "-n", WORKERS, "--controller", CONTROLLER[0], "--key-file", keys,
                                "--job", "attacked", "--bind", "127.0.0.1", "--", program["train"], "--model",
                                "mlp:64", "--steps", STEPS, "--compute-ms", 40 if flooded else 20, "--json", "-",
                                "--quiet")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if flooded:
        time.sleep(1)
        check(attacker.hello, "a HELLO to the controller was seen")
        attacker.flood(FLOOD_S)
    text = job.communicate(timeout=60)[0]
    attacker.ended = True
    attacker.join()
    for node in reversed(nodes):
        node.terminate()
        node.communicate(timeout=20)
    return job.returncode, text, attacker.counts


def check_job(status, text, folder):
    check(status == 0, f"the job ends well: {status}\n{text[-3000:]}")
    workers = [json.loads(line.partition("] ")[2]) for line in text.splitlines() if '"pushed"' in line]
    check(len(workers) == WORKERS, f"all workers tell how it was: {text[-3000:]}")
    for worker in workers:
        check(worker["pushed"] == worker["applied"] + worker["dropped"], f"none failed: {worker}")
        check(worker["pushed"] == STEPS, f"all were pushed: {worker['pushed']}")
    lost = lost_sessions(folder)
    check(not lost, f"{len(lost)} sessions were lost, the first: {lost[:3]}")


def main():
    if os.geteuid() != 0:
        skip("needs root: it makes a network namespace and sends raw packets")
    if "inside" not in sys.argv:
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv, "inside"])
    for words in ("link set lo up", f"addr add {STRANGER[0]}/8 dev lo",
                  f"link add e0 address {E0_MAC.hex(':')} type veth peer name e1 address {E1_MAC.hex(':')}",
                  f"addr add {FLOODED}/16 dev e0", "link set e0 up", "link set e1 up"):
        subprocess.run(["ip", *words.split()], check=True)
    for flooded in (False, True):
        with tempfile.TemporaryDirectory(prefix="heddle-attack-") as name:
            status, text, counts = play(pathlib.Path(name), flooded)
            print(f"{dict(counts)}", flush=True)
            check_job(status, text, pathlib.Path(name))
        if flooded:
            check(counts["flood"] > FLOOD_PER_S, f"it was flooded: {dict(counts)}")
        else:
            check(counts["hello"] > 3 and counts["control"] > 300 and counts["answers"] > 100,
                  f"it was attacked: {dict(counts)}")


main()
