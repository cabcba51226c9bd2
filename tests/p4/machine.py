# SPDX-License-Identifier: BSD-3-Clause
"""A machine for p4/compiled/heddle.spec: DPDK's SWX instructions, one frame at a time, and what the C code around the
pipeline does. It is slow and checks everything; so p4c's outputs can be held to the vectors where there is no DPDK.

Source of what an instruction means: DPDK 22.11, rte_swx_pipeline.h."""
import ipaddress
import re

from program import bmv2, compiler

DROP, FORWARD, FLOOD, COPY = range(4)
PORT_BYTES, FRAME_BYTES = 8, 226  # hd_port_t; from Ethernet's header on to the end of the lanes
METADATA_BITS_MAX = 256 * 8  # DPDK 22.11: one byte for a field's place
PASSES_MAX = 5000  # instructions of one frame
OPERATORS = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
             "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "mov": lambda a, b: b,
             "sub": lambda a, b: a - b}
JUMPS = {"jmpeq": lambda a, b: a == b, "jmpneq": lambda a, b: a != b, "jmplt": lambda a, b: a < b,
         "jmpgt": lambda a, b: a > b}


def blocks(kind, text):
    return re.findall(rf"^{kind} (\S+)([^\n]*?) ?\{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)


class Machine:
    def __init__(self, path):
        text = path.read_text()
        self.structs = {name: [(field, int(bits)) for bits, field in re.findall(r"bit<(\d+)> (\w+)", body)]
                        for name, _, body in blocks("struct", text)}
        self.headers = {name: self.structs[kind] for name, kind in
                        re.findall(r"^header (\w+) instanceof (\w+)", text, re.MULTILINE)}
        meta = re.search(r"^metadata instanceof (\w+)", text, re.MULTILINE)[1]
        self.bits = {f"m.{field}": bits for field, bits in self.structs[meta]}
        assert sum(bits for _, bits in self.structs[meta]) <= METADATA_BITS_MAX, "metadata that DPDK cannot name"
        for name, fields in self.headers.items():
            self.bits |= {f"h.{name}.{field}": bits for field, bits in fields}
        self.registers = {name: [int(first, 0)] * int(size, 0) for name, size, first in
                          re.findall(r"^regarray (\w+) size (\w+) initval (\w+)", text, re.MULTILINE)}
        self.actions = {}
        for name, words, body in blocks("action", text):
            kind = words.split()[-1]
            self.actions[name] = ([] if kind == "none" else self.structs[kind],
                                  [line.split() for line in body.strip().splitlines()])
        self.tables = {name: self.table(body) for name, _, body in blocks("table", text)}
        self.code, self.labels = [], {}
        for line in text.split("\napply {\n")[1].rstrip().removesuffix("}").strip().splitlines():
            label, colon, rest = line.rpartition(" :")
            if colon:
                self.labels[label.strip()] = len(self.code)
            self.code.append((rest if colon else line).split())
        self.values = {}  # metadata is not cleared between frames

    def table(self, body):
        key = re.search(r"key \{\n\s*(\S+) (\w+)", body)
        default = re.search(r"default_action (\w+) args (.*)", body)
        words = default[2].split()
        given = {} if words[0] == "none" else {words[i]: int(words[i + 1], 0) for i in range(0, len(words), 2)}
        return {"key": key[1] if key else None, "kind": key[2] if key else None, "entries": {},
                "default": (default[1], given)}

    def read(self, operand):
        if operand.startswith(("h.", "m.", "t.")):
            return self.values.get(operand, 0)
        return int(operand, 0)

    def write(self, operand, value):
        self.values[operand] = value & ((1 << self.bits[operand]) - 1)

    def act(self, name, given):
        _, lines = self.actions[name]
        for field, value in given.items():
            self.values[f"t.{field}"] = value
        for words in lines:
            if words[0] != "return":
                assert words[0] == "mov", words
                self.write(words[1], self.read(words[2]))

    def look_up(self, table):
        entries, kind = table["entries"], table["kind"]
        found = None
        if kind == "exact":
            found = entries.get(self.read(table["key"]))
        elif kind == "lpm":
            value = self.read(table["key"])
            fits = [(bits, entry) for (prefix, bits), entry in entries.items() if (value ^ prefix) >> (32 - bits) == 0]
            found = max(fits, key=lambda fit: fit[0])[1] if fits else None
        self.act(*(found or table["default"]))

    def extract(self, name, data, at):
        for field, bits in self.headers[name]:
            self.values[f"h.{name}.{field}"] = int.from_bytes(data[at:at + bits // 8], "big")
            at += bits // 8
        assert at <= len(data), f"{name}: beyond what is there"
        return at

    def emitted(self, name):
        return b"".join(self.values[f"h.{name}.{field}"].to_bytes(bits // 8, "big")
                        for field, bits in self.headers[name])

    def run(self, data):
        """Runs the program for one packet with its hd_port_t header. Returns the packets that leave."""
        at, out, valid, place = 0, b"", set(), 0
        for _ in range(PASSES_MAX):
            name, *words = self.code[place]
            place += 1
            if name == "tx":
                return out + data[at:]
            if name == "extract":
                at = self.extract(words[0][2:], data, at)
                valid.add(words[0])
            elif name == "emit":
                out += self.emitted(words[0][2:]) if words[0] in valid else b""
            elif name == "table":
                self.look_up(self.tables[words[0]])
            elif name == "jmp" or name in JUMPS:
                if name == "jmp" or JUMPS[name](self.read(words[1]), self.read(words[2])):
                    place = self.labels[words[0]]
            elif name in ("jmpv", "jmpnv"):
                if (words[1] in valid) == (name == "jmpv"):
                    place = self.labels[words[0]]
            elif name == "regrd":
                self.write(words[0], self.registers[words[1]][self.read(words[2])])
            elif name in ("regwr", "regadd"):
                cells, cell = self.registers[words[0]], self.read(words[1])
                cells[cell] = (self.read(words[2]) + (cells[cell] if name == "regadd" else 0)) % (1 << 64)
            elif name != "rx":
                self.write(words[0], OPERATORS[name](self.read(words[0]), self.read(words[1])))
        raise RuntimeError("a frame does not come to its end")


def mac_number(mac):
    return int(mac.replace(":", ""), 16)


def ipv4_number(ipv4):
    return int(ipaddress.IPv4Address(ipv4))


class Switch:
    """The machine's control plane, and the C code around it: as bmv2.Bmv2, and a frame in, frames out."""

    def __init__(self, ports):
        self.machine = Machine(compiler.COMPILED / "heddle.spec")
        self.numbers = bmv2.numbers()
        self.ports = ports
        self.leases = {}

    def entries(self, table):
        return self.machine.tables[table]["entries"]

    def entry(self, action, *values):
        return action, dict(zip((name for name, _ in self.machine.actions[action][0]), values, strict=True))

    def identify(self, ipv4, mac, router_mac):
        self.service, self.mac = ipv4_number(ipv4), mac
        self.machine.tables["identity"]["default"] = self.entry(
            "identify", self.service, mac_number(mac), mac_number(router_mac))

    def set_mac(self, mac, port):
        self.entries("macs")[mac_number(mac)] = self.entry("forward", port)

    def set_route(self, prefix, bits, port, mac):
        self.entries("routes")[ipv4_number(prefix), bits] = self.entry("route", port, mac_number(mac))

    def simulate(self, seed, threshold):
        self.machine.registers["simulator"] = [seed, threshold]

    def hold(self, lease, waits):
        self.entries("leases")[lease.id] = self.entry(
            "hold", lease.job, lease.epoch, lease.attempt, lease.shard, lease.first_slot, lease.slot_count, waits,
            (1 << len(lease.members)) - 1, len(lease.members), len(lease.receivers))

    def set_lease(self, lease):
        for slot in range(lease.slot_count):
            for base in (0, self.numbers["HD_SWITCH_SLOTS"]):
                self.machine.registers["keys"][base + lease.first_slot + slot] = 0
        self.leases[lease.id] = lease
        self.hold(lease, lease.waits)
        for i, member in enumerate(lease.members):
            self.entries("tokens")[member.token] = self.entry(
                "member", lease.id, member.worker, 1 << i, i, member.copy.port)
        for copy in lease.receivers:
            self.entries("tokens")[copy.token] = self.entry("receiver", lease.id)

    def set_waits(self, lease_id, waits):
        self.hold(self.leases[lease_id], waits)

    def end_lease(self, lease_id):
        lease = self.leases.pop(lease_id)
        for token in [*(member.token for member in lease.members), *(copy.token for copy in lease.receivers)]:
            del self.entries("tokens")[token]
        del self.entries("leases")[lease_id]

    def counters(self):
        return dict(zip(bmv2.counter_names(), self.machine.registers["counters"]))

    def addressed(self, frame, copy):
        """hd_switch_address()"""
        head = bytearray(frame)
        head[0:12] = (mac_number(copy.mac) << 48 | mac_number(self.mac)).to_bytes(12, "big")
        head[15] = 0
        head[18:26] = bytes([0, 0, 0x40, 0, 64, 17, 0, 0])
        head[26:34] = (self.service << 32 | ipv4_number(copy.ipv4)).to_bytes(8, "big")
        total = sum(int.from_bytes(head[i:i + 2], "big") for i in range(14, 34, 2))
        total = (total & 0xffff) + (total >> 16)
        head[24:26] = (0xffff - ((total & 0xffff) + (total >> 16))).to_bytes(2, "big")
        head[34:38] = (4773 << 16 | copy.udp_port).to_bytes(4, "big")
        head[40:42] = bytes(2)
        head[90:98] = copy.token.to_bytes(8, "big")
        return bytes(head)

    def copies(self, lease, copy):
        members = [member.copy for member in lease.members]
        if copy == self.numbers["HD_SWITCH_COPY_MEMBERS"]:
            return members
        return lease.receivers if copy == self.numbers["HD_SWITCH_COPY_RECEIVERS"] else [members[copy]]

    def frame(self, port, frame):
        """[(port, frame)] that leave."""
        head = port.to_bytes(2, "big") + len(frame).to_bytes(2, "big") + bytes(4)
        out = self.machine.run(head + frame.ljust(FRAME_BYTES, b"\0"))
        to, size = int.from_bytes(out[:2], "big"), int.from_bytes(out[2:4], "big")
        verdict, copy, lease = out[4], out[5], int.from_bytes(out[6:8], "big")
        left = out[PORT_BYTES:PORT_BYTES + size]
        if verdict == FORWARD:
            return [(to, left)]
        if verdict == FLOOD:
            return [(other, left) for other in range(self.ports) if other != port]
        if verdict == COPY:
            return [(copy.port, self.addressed(left, copy)) for copy in self.copies(self.leases[lease], copy)]
        return []
