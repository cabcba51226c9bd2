#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The part of bmv2 that testbed/lab/bmv2.py sees: simple_switch holds what it was told until it ends, and
simple_switch_CLI speaks with it as the real one does. `dump` is ours: all that it has, as JSON. Where it may, it
forwards frames by the table `macs` and floods others; it adds nothing up.

usage: bmv2_fake.py simple_switch|simple_switch_CLI WORDS"""
import json
import os
import pathlib
import select
import socket
import socketserver
import sys
import threading

TABLES = ("identity", "macs", "routes", "leases", "tokens", "copies")


class State:
    def __init__(self, ports):
        self.ports = ports
        self.reset()

    def reset(self):
        self.next = 0
        self.identity = None
        self.tables = {name: {} for name in TABLES}
        self.nodes, self.groups, self.registers = {}, {}, {}

    def handle(self):
        self.next += 1
        return self.next

    # Each is a command of simple_switch_CLI's; what it raises is told as a refusal.

    def switch_info(self):
        return "device_id: 0"

    def show_ports(self):
        rows = [f"{number:^10}{name:^20}{'UP':^10}" for number, name in self.ports.items()]
        return "\n".join(["  port #        iface name       status  extra info", "=" * 50, *rows])

    def reset_state(self):
        self.reset()
        return ""

    def table_set_default(self, table, *words):
        assert table == "identity"
        self.identity = words
        return ""

    def table_add(self, table, action, *words):
        keys = words[:words.index("=>")]
        assert not any(entry[1] == keys for entry in self.tables[table].values()), "DUPLICATE_ENTRY"
        handle = self.handle()
        self.tables[table][handle] = (action, keys, words[len(keys) + 1:])
        return f"Entry has been added with handle {handle}"

    def table_modify(self, table, action, handle, *words):
        _, keys, _ = self.tables[table][int(handle)]
        self.tables[table][int(handle)] = (action, keys, words)
        return ""

    def table_delete(self, table, handle):
        del self.tables[table][int(handle)]
        return ""

    def mc_node_create(self, rid, *ports):
        handle = self.handle()
        self.nodes[handle] = (rid, ports)
        return f"node was created with handle {handle}"

    def mc_node_destroy(self, handle):
        del self.nodes[int(handle)]
        return ""

    def mc_mgrp_create(self, group):
        assert group not in self.groups, "MC_GROUP_EXISTS"
        self.groups[group] = []
        return ""

    def mc_mgrp_destroy(self, group):
        del self.groups[group]
        return ""

    def mc_node_associate(self, group, handle):
        self.groups[group].append(int(handle))
        return ""

    def mc_node_dissociate(self, group, handle):
        self.groups[group].remove(int(handle))
        return ""

    def register_reset(self, name):
        self.registers.pop(name, None)
        return ""

    def register_write(self, name, index, value):
        self.registers.setdefault(name, {})[index] = value
        return ""

    def counter_read(self, name, index):
        return f"{name}[{index}]= (0 bytes, 0 packets)"

    def dump(self):
        return json.dumps({"pid": os.getpid(), "identity": self.identity, **{
            name: [[*keys, *words] for _, keys, words in self.tables[name].values()] for name in TABLES[1:]},
            "groups": {group: [self.nodes[node] for node in nodes] for group, nodes in self.groups.items()}})

    def do(self, line):
        what, *words = line.split()
        try:
            return getattr(self, what)(*words)
        except (AssertionError, KeyError, TypeError, ValueError) as why:
            return f"Invalid operation ({type(why).__name__}: {why})"


def forward(state):
    """Of a frame's copies on our own sockets, those that we sent are not taken."""
    ends = {}
    for number, name in state.ports.items():
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        end.bind((name, 0))
        ends[end] = number
    while True:
        for end in select.select(list(ends), [], [])[0]:
            frame, (_, _, kind, *_) = end.recvfrom(2048)
            if kind == socket.PACKET_OUTGOING:
                continue
            mac = ":".join(f"{byte:02x}" for byte in frame[:6])
            to = [int(words[0]) for _, keys, words in list(state.tables["macs"].values()) if keys == (mac,)]
            for other, number in ends.items():
                if other is not end and (not to or number in to):
                    other.send(frame)


def serve(words):
    ports, thrift = {}, 9090
    for name, value in zip(words, words[1:]):
        if name == "-i":
            number, _, interface = value.partition("@")
            ports[int(number)] = interface
        elif name == "--thrift-port":
            thrift = int(value)
    state = State(ports)
    if set(ports.values()) <= set(os.listdir("/sys/class/net")):
        threading.Thread(target=forward, args=(state,), daemon=True).start()

    class Connection(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(json.dumps(state.do(line.decode())).encode() + b"\n")

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", thrift), Connection) as server:
        server.serve_forever()


def ask(words):
    """The shell: a broken connection ends it with a traceback, as it does the real one."""
    with socket.create_connection(("127.0.0.1", int(words[words.index("--thrift-port") + 1]))) as end:
        stream = end.makefile("rw")
        print("RuntimeCmd: ", end="", flush=True)
        for line in sys.stdin:
            if line.strip() == "greet":
                print("hello")
            else:
                stream.write(line)
                stream.flush()
                said = stream.readline()
                if not said:
                    raise ConnectionError("TSocket read 0 bytes")
                print(json.loads(said))
            print("RuntimeCmd: ", end="", flush=True)


def install(folder):
    """The two programs, in a folder for PATH."""
    folder.mkdir()
    for name in ("simple_switch", "simple_switch_CLI"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {pathlib.Path(__file__).resolve()} {name} "$@"\n')
        path.chmod(0o755)


if __name__ == "__main__":
    (serve if sys.argv[1] == "simple_switch" else ask)(sys.argv[2:])
