# SPDX-License-Identifier: BSD-3-Clause
"""bmv2 as the switch on the path: starts simple_switch with our program, programs it, reads its counters.

    Bmv2 ---- simple_switch --no-p4 .. heddle.json          frames of its interfaces
       \\                  | thrift, on loopback of the switch's own namespace
        `--- simple_switch_CLI: commands in, text out

simple_switch_CLI's exit status is 0 even after errors: its output is read instead, for every command. The program's
tables and numbers are from p4/v1model.p4 and switch/executor/hd_switch.h.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "p4" / "compiled" / "heddle.json"
NUMBERS = ROOT / "common" / "wire" / "hd_switch_numbers.h"
CONTRACT = ROOT / "switch" / "executor" / "hd_switch.h"
FLOOD_GROUP = 1024  # HD_FLOOD_GROUP of p4/v1model.p4
FAILED = re.compile(r"^(Error|Invalid|Unknown|\*\*\* |Traceback|.*Exception)|Could not connect|is not (a )?valid",
                    re.MULTILINE)
PROMPT = re.compile(r"(RuntimeCmd: )+")
PORT = re.compile(r"^\s*(\d+)\s+(\S+)\s+(?:UP|DOWN)\b", re.MULTILINE)
START_S, AGAIN_S = 30, 4  # until a simple_switch answers: the first time; later (HD_SWITCH_BRIDGE_ANSWER_MS is more)


def missing():
    """None, or why bmv2 cannot be used here."""
    lacks = [name for name in ("simple_switch", "simple_switch_CLI") if shutil.which(name) is None]
    return f"bmv2 is not installed ({', '.join(lacks)}): docs/switch.md says where to get it" if lacks else None


def numbers():
    """The constants that C and P4 share, by name."""
    return {name: int(value, 0) for name, value in
            re.findall(r"^#define (HD_SWITCH_\w+) (\w+)$", NUMBERS.read_text(), re.MULTILINE)}


def counter_names():
    """HD_SWITCH_COUNTERS, in order."""
    listed = CONTRACT.read_text().split("#define HD_SWITCH_COUNTERS(C)")[1].split("\n\n")[0]
    return re.findall(r"\bC\((\w+),", listed)


class CommandFailed(Exception):
    """The output of simple_switch_CLI for a command that failed."""


class Shell:
    """One simple_switch_CLI that keeps running: a start costs as much as a thousand commands."""

    def __init__(self, enter, thrift_port):
        # Its first line is `env python3`, and thrift is Debian's. It reads its modules in 0.3 s where Python may keep
        # them compiled, and else compiles them in 1 s.
        environment = {**os.environ, "PATH": f"/usr/bin:{os.environ.get('PATH', os.defpath)}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = subprocess.Popen(
            [*enter, shutil.which("simple_switch_CLI") or "simple_switch_CLI", "--thrift-port", str(thrift_port)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)

    @staticmethod
    def check(commands, answers):
        """Raises CommandFailed for the first command that failed; later ones were tried as well."""
        for command, (said, ok) in zip(commands, answers):
            if not ok:
                raise CommandFailed(f"{command}: {said.strip()}")

    def say(self, commands):
        """[(output, success)] of the commands. Raises CommandFailed only when the shell ends."""
        # `greet` marks the end of a command's output; a thread writes, as a pipe has a limited size.
        text = "".join(f"{command}\ngreet\n" for command in commands)
        writer = threading.Thread(target=self.write, args=(text,), daemon=True)
        writer.start()
        answers = []
        for command in commands:
            said = []
            for line in iter(self.process.stdout.readline, ""):
                line = PROMPT.sub("", line)
                if line.strip() == "hello":
                    break
                said.append(line)
            else:
                last = ("".join(said).strip().splitlines() or [""])[-1]  # of a traceback, the error
                raise CommandFailed(f"{command}: simple_switch_CLI ended: {last}")
            said = "".join(said)
            answers.append((said, not FAILED.search(said)))
        writer.join()
        return answers

    def write(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # ask() reads the end of its output

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before it read everything
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclasses.dataclass
class Copy:
    """struct hd_switch_copy"""
    port: int
    mac: str
    ipv4: str
    udp_port: int
    token: int


@dataclasses.dataclass
class Member:
    token: int
    worker: int
    copy: Copy


@dataclasses.dataclass
class Lease:
    """struct hd_switch_lease"""
    id: int
    job: int
    epoch: int
    attempt: int
    shard: int
    first_slot: int
    slot_count: int
    waits: int
    members: list
    receivers: list = dataclasses.field(default_factory=list)


class Held:
    """The state of a lease in bmv2: the handle of its entry, and commands that undo all that was done for it."""

    def __init__(self, lease):
        self.lease = lease
        self.entry = None
        self.undo = []  # in the order in which they run


class Bmv2:
    """One simple_switch. `ports` are {number: interface}, all in the namespace that `enter` enters. A simple_switch
    that answers on its thrift port already is used: the contents of its tables, groups, registers and counters are
    erased. Otherwise one is started (not with `running`), and restarted when it has ended.

        watch() --+-- it answers: the number of its process, as before
                  +-- a new process answers: gets its identity, ports and stations; no leases; the next number
                  +-- none answers: CommandFailed, as for all other calls until watch() has found one
    """

    def __init__(self, ports, enter=(), thrift_port=9090, log=None, device=0, running=False):
        self.ports = dict(ports)
        self.enter = list(enter)
        self.thrift_port = thrift_port
        self.device = device
        self.running = running
        self.numbers = numbers()
        self.log = open(log, "w") if log and not running else subprocess.DEVNULL
        self.process = self.shell = None
        self.life = 0
        self.leases = {}
        self.macs = {}  # handles of bmv2's entries
        self.routes = {}
        self.identity = self.loss = None  # restored after a restart
        self.stations = {}
        self.paths = {}
        try:
            self.revive(START_S)
        except CommandFailed:
            self.end()
            raise

    # -- its process ----------------------------------------------------------------------------

    def watch(self):
        """The number of its present process. Raises CommandFailed while there is none."""
        try:
            if self.process is None or self.process.poll() is None:
                self.ask(["switch_info"])
                return self.life
        except CommandFailed:
            pass
        self.revive(AGAIN_S)
        return self.life

    def revive(self, patience_s):
        self.part()
        if self.process is not None and self.process.poll() is not None:
            self.process = None
        fresh = self.process is None and not self.running and not self.is_there()
        if fresh:
            self.process = self.start()
        try:
            self.shell = self.connect(patience_s if self.process else 0)
            if not fresh:
                self.ask(["reset_state"])
            self.begin()
        except CommandFailed:
            self.part()
            raise
        self.life += 1

    def part(self):
        """The shell of a process that is gone, or whose state is unknown."""
        if self.shell is not None:
            self.shell.end()
        self.shell = None
        self.leases, self.macs, self.routes = {}, {}, {}

    def begin(self):
        """Sets up an empty process: everything except leases."""
        has = {int(number): name for number, name in PORT.findall(self.ask(["show_ports"])[0])}
        if has != self.ports:
            raise CommandFailed(f"simple_switch on port {self.thrift_port} has the ports {has}, not {self.ports}")
        self.set_flood()
        if self.identity:
            self.identify(*self.identity)
        if self.loss:
            self.simulate(*self.loss)
        for mac, port in self.stations.items():
            self.set_mac(mac, port)
        for (prefix, bits), (port, mac) in self.paths.items():
            self.set_route(prefix, bits, port, mac)

    def is_there(self):
        """Whether a process listens on the thrift port, where simple_switch's loopback is."""
        probe = f": </dev/tcp/127.0.0.1/{self.thrift_port}"
        return subprocess.run([*self.enter, "bash", "-c", probe], stdin=subprocess.DEVNULL, check=False,
                              stderr=subprocess.DEVNULL).returncode == 0

    def start(self):
        """In a session of its own: a signal to the group of the program that started it does not end it."""
        flags = [word for number, name in self.ports.items() for word in ("-i", f"{number}@{name}")]
        return subprocess.Popen(
            [*self.enter, "simple_switch", "--device-id", str(self.device), "--thrift-port", str(self.thrift_port),
             *flags, str(PROGRAM)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True)

    def connect(self, patience_s):
        ends = time.monotonic() + patience_s
        while True:
            if self.is_there():
                return Shell(self.enter, self.thrift_port)
            if self.process and self.process.poll() is not None:
                raise CommandFailed(f"simple_switch ended, {self.process.returncode}")
            if time.monotonic() >= ends:
                raise CommandFailed(f"simple_switch does not answer on port {self.thrift_port}")
            time.sleep(0.05)

    def say(self, commands):
        if self.shell is None:
            raise CommandFailed(f"simple_switch does not answer on port {self.thrift_port}")
        return self.shell.say(commands)

    def ask(self, commands):
        """The output of each command, as Shell.ask()."""
        commands = list(commands)
        answers = self.say(commands)
        Shell.check(commands, answers)
        return [said for said, _ in answers]

    def set_flood(self):
        ports = " ".join(map(str, sorted(self.ports)))
        node, = self.nodes([f"mc_node_create 0 {ports}"])
        self.ask([f"mc_mgrp_create {FLOOD_GROUP}", f"mc_node_associate {FLOOD_GROUP} {node}"])

    def nodes(self, commands):
        return [self.handle(said) for said in self.ask(commands)]

    @staticmethod
    def handle(said):
        found = re.search(r"with handle (\d+)", said)
        if found is None:
            raise CommandFailed(f"no handle in: {said.strip()}")
        return int(found[1])

    # -- its identity, and ordinary frames ------------------------------------------------------

    def identify(self, ipv4, mac, router_mac="00:00:00:00:00:00"):
        self.ask([f"table_set_default identity identify {ipv4} {mac} {router_mac}"])
        self.identity = (ipv4, mac, router_mac)

    def set_mac(self, mac, port):
        if mac in self.macs:
            self.ask([f"table_modify macs forward {self.macs[mac]} {port}"])
        else:
            self.macs[mac] = self.handle(self.ask([f"table_add macs forward {mac} => {port}"])[0])
        self.stations[mac] = port

    def clear_mac(self, mac):
        self.ask([f"table_delete macs {self.macs.pop(mac)}"])
        del self.stations[mac]

    def set_route(self, prefix, bits, port, mac):
        key = (prefix, bits)
        if key in self.routes:
            self.ask([f"table_modify routes route {self.routes[key]} {port} {mac}"])
        else:
            said = self.ask([f"table_add routes route {prefix}/{bits} => {port} {mac}"])
            self.routes[key] = self.handle(said[0])
        self.paths[key] = (port, mac)

    def clear_route(self, prefix, bits):
        self.ask([f"table_delete routes {self.routes.pop((prefix, bits))}"])
        del self.paths[(prefix, bits)]

    def simulate(self, seed, threshold):
        """Drops about `threshold` of 2^24 frames; 0: none."""
        self.ask([f"register_write simulator 0 {seed}", f"register_write simulator 1 {threshold}"])
        self.loss = (seed, threshold)

    # -- leases ---------------------------------------------------------------------------------

    def lease_words(self, lease, waits):
        members = (1 << len(lease.members)) - 1
        return (f"{lease.job} {lease.epoch} {lease.attempt} {lease.shard} {lease.first_slot} {lease.slot_count} "
                f"{waits} {members} {len(lease.members)} {len(lease.receivers)}")

    def set_lease(self, lease):
        """Cells first, then the lease, then the addresses of copies, and last the tokens, with which chunks are
        accepted. All or nothing: when a part of it fails the rest is undone."""
        if lease.id in self.leases:
            raise ValueError(f"lease {lease.id}: in use")
        cells = [base + lease.first_slot + slot for base in (0, self.numbers["HD_SWITCH_SLOTS"])
                 for slot in range(lease.slot_count)]
        # A command for each cell takes long; when no other lease has cells, one is enough.
        self.ask([f"register_write keys {cell} 0" for cell in cells] if self.leases else ["register_reset keys"])
        held = Held(lease)
        try:
            self.fill_lease(held)
        except CommandFailed:
            self.say(held.undo)  # the first failure is the one to report
            raise
        self.leases[lease.id] = held

    def fill_lease(self, held):
        lease, n = held.lease, self.numbers
        held.entry, = self.make(held, "table_delete leases {}", [
            f"table_add leases hold {lease.id} => {self.lease_words(lease, lease.waits)}"])
        self.fill_copies(held, 1, 0, [member.copy for member in lease.members])
        if lease.receivers:
            self.fill_copies(held, 2, n["HD_SWITCH_COPY_RECEIVER"], lease.receivers)
        self.make(held, "table_delete tokens {}", [
            *(f"table_add tokens member {member.token} => {lease.id} {member.worker} {1 << i} {i} {member.copy.port}"
              for i, member in enumerate(lease.members)),
            *(f"table_add tokens receiver {copy.token} => {lease.id}" for copy in lease.receivers)])

    def fill_copies(self, held, which, first, copies):
        """A multicast group of the lease, its nodes, and their addresses."""
        group = which + 2 * held.lease.id
        rids = [held.lease.id * self.numbers["HD_SWITCH_COPIES_PER_LEASE"] + first + i for i in range(len(copies))]
        self.make(held, "table_delete copies {}", [
            f"table_add copies address {rid} => {copy.mac} {copy.ipv4} {copy.udp_port} {copy.token}"
            for rid, copy in zip(rids, copies)])
        self.make(held, f"mc_mgrp_destroy {group}", [f"mc_mgrp_create {group}"])
        nodes = self.make(held, "mc_node_destroy {}", [
            f"mc_node_create {rid} {copy.port}" for rid, copy in zip(rids, copies)])
        for node in nodes:
            self.make(held, f"mc_node_dissociate {group} {node}", [f"mc_node_associate {group} {node}"])

    def make(self, held, undo, commands):
        """Handles of the entries that the commands made; their undo is stored even when one of them fails. Handles are
        None when `undo` needs none."""
        answers = self.say(commands)
        handles = [self.handle(said) if "{}" in undo and ok else None for said, ok in answers]
        held.undo[:0] = [undo.format(handle) for handle, (_, ok) in zip(handles, answers) if ok]
        Shell.check(commands, answers)
        return handles

    def set_waits(self, lease_id, waits):
        """Removes members: replaces one entry, so that no frame sees half of it."""
        held = self.leases[lease_id]
        self.ask([f"table_modify leases hold {held.entry} {self.lease_words(held.lease, waits)}"])

    def end_lease(self, lease_id):
        self.ask(self.leases.pop(lease_id).undo)

    # -- counters ------------------------------------------------------------------------------

    def counters(self):
        """{name: count}, HD_SWITCH_COUNTERS. Copies are counted at egress, by a separate counter."""
        names = counter_names()
        said = self.ask([*(f"counter_read counters {i}" for i in range(len(names))),
                               "counter_read copies_sent 0"])
        values = [int(re.search(r"(\d+) packets", words)[1]) for words in said]
        return {**dict(zip(names, values)), "copies": values[-1]}

    def port_counts(self):
        """A row (HD_PORT_STATS) for each port whose interface is there. bmv2 counts none of it, so these are the
        interface's numbers since it was made, in whole frames; tx_errors has what the queue before its link dropped."""
        lost = {queue["dev"]: queue["drops"] for queue in json.loads(self.inside("tc", "-s", "-j", "qdisc", "show"))
                if queue.get("root")}
        lines = [line.partition(":") for line in self.inside("cat", "/proc/net/dev").splitlines()[2:]]
        counted = {name.strip(): list(map(int, numbers.split())) for name, _, numbers in lines}
        rows = []
        for number, name in sorted((number, name) for number, name in self.ports.items() if name in counted):
            rx, tx = counted[name][:8], counted[name][8:]  # bytes, packets, errors, dropped, overruns, framing, ..
            rows.append({"port": number, "interface": name, "rx_bytes": rx[0], "rx_packets": rx[1],
                         "rx_missed": rx[3] + rx[4], "rx_errors": rx[2] + rx[5], "tx_bytes": tx[0],
                         "tx_packets": tx[1], "tx_errors": tx[2] + tx[3] + lost.get(name, 0)})
        return rows

    def inside(self, *words):
        """Runs a command in the interfaces' namespace, and returns its output."""
        done = subprocess.run([*self.enter, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def leave(self):
        """Closes the shell; simple_switch goes on, with its state."""
        self.part()

    def end(self):
        self.part()
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.log is not subprocess.DEVNULL:
            self.log.close()
