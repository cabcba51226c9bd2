# SPDX-License-Identifier: BSD-3-Clause
"""bmv2 as the switch on the path: starts simple_switch with our program, programs it, reads its counters.

    Bmv2 ---- simple_switch --no-p4 .. heddle.json          frames of its interfaces
       \\                  | thrift, on loopback of the switch's own namespace
        `--- simple_switch_CLI: commands in, words out

simple_switch_CLI says "ok" by its exit status whatever happened: what it prints is read instead, for every command.
All that is known of the program is in p4/v1model.p4 and switch/executor/hd_switch.h.
"""
import dataclasses
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


def missing():
    """None, or why bmv2 cannot be used here."""
    lacks = [name for name in ("simple_switch", "simple_switch_CLI") if shutil.which(name) is None]
    return f"bmv2 is not installed ({', '.join(lacks)}): docs/switch.md says where to get it" if lacks else None


def numbers():
    """What C and P4 share, by name."""
    return {name: int(value, 0) for name, value in
            re.findall(r"^#define (HD_SWITCH_\w+) (\w+)$", NUMBERS.read_text(), re.MULTILINE)}


def counter_names():
    """HD_SWITCH_COUNTERS, in order."""
    listed = CONTRACT.read_text().split("#define HD_SWITCH_COUNTERS(C)")[1].split("\n\n")[0]
    return re.findall(r"\bC\((\w+),", listed)


class CommandFailed(Exception):
    """What simple_switch_CLI said to a command that it did not do."""


class Shell:
    """One simple_switch_CLI, kept: a start costs as much as a thousand commands."""

    def __init__(self, enter, thrift_port):
        self.process = subprocess.Popen([*enter, "simple_switch_CLI", "--thrift-port", str(thrift_port)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def ask(self, commands):
        """Runs the commands and returns what each of them printed. Raises CommandFailed for the first that failed,
        but the ones after it were tried as well."""
        commands = list(commands)
        answers = self.say(commands)
        self.check(commands, answers)
        return [said for said, _ in answers]

    @staticmethod
    def check(commands, answers):
        for command, (said, ok) in zip(commands, answers):
            if not ok:
                raise CommandFailed(f"{command}: {said.strip()}")

    def say(self, commands):
        """[(what it printed, whether it was done)] of the commands. Raises CommandFailed only when the shell ends."""
        # `greet` marks where a command's words end; the writer is a thread, as pipes hold only so much.
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
                raise CommandFailed(f"{command}: simple_switch_CLI ended: {''.join(said).strip()}")
            said = "".join(said)
            answers.append((said, not FAILED.search(said)))
        writer.join()
        return answers

    def write(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # ask() meets the end of its output

    def end(self):
        self.process.stdin.close()
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
    """What bmv2 has of a lease: the handle of its entry, and commands that undo all that was done for it."""

    def __init__(self, lease):
        self.lease = lease
        self.entry = None
        self.undo = []  # in the order to run them


class Bmv2:
    """One simple_switch. `ports` are {number: interface}, all in the namespace that `enter` enters. One that is
    `running` already is taken over: all that its tables, groups, registers and counters had is forgotten."""

    def __init__(self, ports, enter=(), thrift_port=9090, log=None, device=0, running=False):
        self.ports = dict(ports)
        self.numbers = numbers()
        self.leases = {}
        self.macs = {}
        self.routes = {}
        self.log = open(log, "w") if log and not running else subprocess.DEVNULL
        self.process = None if running else self.start(list(enter), thrift_port, device)
        self.shell = self.connect(list(enter), thrift_port)
        if running:
            self.shell.ask(["reset_state"])
        self.set_flood()

    def start(self, enter, thrift_port, device):
        flags = [word for number, name in self.ports.items() for word in ("-i", f"{number}@{name}")]
        return subprocess.Popen(
            [*enter, "simple_switch", "--device-id", str(device), "--thrift-port", str(thrift_port), *flags,
             str(PROGRAM)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def connect(self, enter, thrift_port, patience_s=30):
        ends = time.monotonic() + patience_s
        while True:
            shell = Shell(enter, thrift_port)
            try:
                shell.ask(["switch_info"])
                return shell
            except CommandFailed as failed:
                shell.end()
                if self.process and self.process.poll() is not None:
                    raise CommandFailed(f"simple_switch ended, {self.process.returncode}: {failed}") from failed
                if time.monotonic() > ends:
                    if self.process:
                        self.process.kill()
                    raise
            time.sleep(0.1)

    def set_flood(self):
        everybody = " ".join(map(str, sorted(self.ports)))
        node, = self.nodes([f"mc_node_create 0 {everybody}"])
        self.shell.ask([f"mc_mgrp_create {FLOOD_GROUP}", f"mc_node_associate {FLOOD_GROUP} {node}"])

    def nodes(self, commands):
        return [self.handle(said) for said in self.shell.ask(commands)]

    @staticmethod
    def handle(said):
        found = re.search(r"with handle (\d+)", said)
        if found is None:
            raise CommandFailed(f"no handle in: {said.strip()}")
        return int(found[1])

    # -- who it is, and ordinary frames ---------------------------------------------------------

    def identify(self, ipv4, mac, router_mac="00:00:00:00:00:00"):
        self.shell.ask([f"table_set_default identity identify {ipv4} {mac} {router_mac}"])

    def set_mac(self, mac, port):
        if mac in self.macs:
            self.shell.ask([f"table_modify macs forward {self.macs[mac]} {port}"])
        else:
            self.macs[mac] = self.handle(self.shell.ask([f"table_add macs forward {mac} => {port}"])[0])

    def clear_mac(self, mac):
        self.shell.ask([f"table_delete macs {self.macs.pop(mac)}"])

    def set_route(self, prefix, bits, port, mac):
        key = (prefix, bits)
        if key in self.routes:
            self.shell.ask([f"table_modify routes route {self.routes[key]} {port} {mac}"])
        else:
            said = self.shell.ask([f"table_add routes route {prefix}/{bits} => {port} {mac}"])
            self.routes[key] = self.handle(said[0])

    def clear_route(self, prefix, bits):
        self.shell.ask([f"table_delete routes {self.routes.pop((prefix, bits))}"])

    def simulate(self, seed, threshold):
        """Loses of 2^24 frames about `threshold`; 0: none."""
        self.shell.ask([f"register_write simulator 0 {seed}", f"register_write simulator 1 {threshold}"])

    # -- leases ---------------------------------------------------------------------------------

    def lease_words(self, lease, waits):
        everybody = (1 << len(lease.members)) - 1
        return (f"{lease.job} {lease.epoch} {lease.attempt} {lease.shard} {lease.first_slot} {lease.slot_count} "
                f"{waits} {everybody} {len(lease.members)} {len(lease.receivers)}")

    def set_lease(self, lease):
        """Cells first, the lease next, where copies go, and last the tokens, with which chunks are let in. All or
        nothing: when a part of it fails the rest is undone."""
        if lease.id in self.leases:
            raise ValueError(f"lease {lease.id}: in use")
        cells = [base + lease.first_slot + slot for base in (0, self.numbers["HD_SWITCH_SLOTS"])
                 for slot in range(lease.slot_count)]
        # A command a cell takes long; where nobody else has cells, one is enough.
        self.shell.ask([f"register_write keys {cell} 0" for cell in cells] if self.leases else ["register_reset keys"])
        held = Held(lease)
        try:
            self.fill_lease(held)
        except CommandFailed:
            self.shell.say(held.undo)  # the first failure is the one to tell of
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
        """Handles of what the commands made; how to undo it is noted even when one of them fails. Handles are None
        where `undo` needs none."""
        answers = self.shell.say(commands)
        handles = [self.handle(said) if "{}" in undo and ok else None for said, ok in answers]
        held.undo[:0] = [undo.format(handle) for handle, (_, ok) in zip(handles, answers) if ok]
        self.shell.check(commands, answers)
        return handles

    def set_waits(self, lease_id, waits):
        """Members are taken out: one entry is replaced, so that no frame sees half of it."""
        held = self.leases[lease_id]
        self.shell.ask([f"table_modify leases hold {held.entry} {self.lease_words(held.lease, waits)}"])

    def end_lease(self, lease_id):
        self.shell.ask(self.leases.pop(lease_id).undo)

    # -- what it counted ------------------------------------------------------------------------

    def counters(self):
        """{name: count}, HD_SWITCH_COUNTERS. Copies are counted where they leave, by a counter of their own."""
        names = counter_names()
        said = self.shell.ask([*(f"counter_read counters {i}" for i in range(len(names))),
                               "counter_read copies_sent 0"])
        values = [int(re.search(r"(\d+) packets", words)[1]) for words in said]
        return {**dict(zip(names, values)), "copies": values[-1]}

    def end(self):
        self.shell.end()
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
