# SPDX-License-Identifier: BSD-3-Clause
"""tshark with docs/heddle.lua, and the messages' fields read from docs/wire.md instead: what it must show."""
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

UNITS = {"u8": ">B", "u16": ">H", "u32": ">I", "u64": ">Q", "f32": ">f", "f64": ">d"}
PREFIX = {"name": ">B", "text": ">H", "blob": ">I", "segs": ">B", "ranges": ">B"}
PIECES = {"segs": ("segment", (("start_ns", ">Q"), ("rate_bps", ">Q"), ("bytes", ">Q"))),
          "ranges": ("range", (("first", ">I"), ("last", ">I")))}


def need_tshark():
    if not shutil.which("tshark"):
        print("SKIP: needs tshark")
        sys.exit(77)


def tables(wire_md):
    """{table: [[cell]]} of the marked tables."""
    found = {}
    for name, rows in re.findall(r"<!-- table: (\w+) -->\n((?:\|[^\n]*\n)*)", pathlib.Path(wire_md).read_text()):
        cells = [[cell.strip().strip("`") for cell in row.strip("|\n").split("|")] for row in rows.splitlines()]
        found[name] = cells[2:]
    return found


def messages(wire_md):
    """{kind: (name, [(field, type)])}"""
    return {int(kind): (name, re.findall(r"`?(\w+)`?:(\w+)", fields))
            for kind, name, fields in tables(wire_md)["messages"]}


def read_body(message, body):
    """{filter: [value as tshark writes it in a JSON]} of a body."""
    name, fields = message
    shown, at = {}, 0

    def take(form):
        nonlocal at
        (value,) = struct.unpack_from(form, body, at)
        at += struct.calcsize(form)
        return value

    for field, kind in fields:
        key = f"heddle.{name}.{field}"
        if kind in UNITS:
            shown[key] = [take(UNITS[kind])]
        elif kind == "nonce":
            shown[key] = [body[at:at + 16]]
            at += 16
        else:
            count = take(PREFIX[kind])
            if kind in PIECES:
                piece, parts = PIECES[kind]
                for _ in range(count):
                    for part, form in parts:
                        shown.setdefault(f"heddle.{piece}.{part}", []).append(take(form))
            else:
                if count:
                    raw = body[at:at + count]
                    shown[key] = [raw if kind == "blob" else raw.decode()]
                at += count
    assert at == len(body), (name, at, len(body))
    return shown


def as_value(text, like):
    """The output of tshark, as a value of the kind of `like`."""
    if isinstance(like, bytes):
        return bytes.fromhex(text.replace(":", ""))
    if isinstance(like, float):
        return float(text)
    if isinstance(like, int) and text.count(".") == 3:
        return int.from_bytes(map(int, text.split(".")), "big")
    return int(text, 0) if isinstance(like, int) else text


def same(text, value):
    read = as_value(text, value)
    return abs(read - value) <= 1e-5 * abs(value) if isinstance(value, float) else read == value


def flatten(node, found):
    """Every field of a packet as tshark's JSON has it: {filter: [text]}."""
    items = node if isinstance(node, list) else node.items() if isinstance(node, dict) else []
    for item in items:
        if isinstance(item, tuple):
            key, value = item
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    found.setdefault(key, []).append(one)
                else:
                    flatten(one, found)
        else:
            flatten(item, found)
    return found


def pairs(members):
    """Keys that stand several times are kept."""
    merged = {}
    for key, value in members:
        merged.setdefault(key, []).append(value)
    return merged


def tshark(dissector, capture, home, *arguments):
    command = ["tshark", "-X", f"lua_script:{dissector}", "-r", str(capture), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"})
    noise = [line for line in done.stderr.splitlines() if line and "as user" not in line]
    if done.returncode or noise:
        sys.exit(f"tshark: {done.returncode}\n{done.stderr}")
    return done.stdout


def packets(dissector, capture, home):
    """[{filter: [text]}]: the fields of each packet of ours, several of which may lie in a frame; {}: a frame of
    another's."""
    found = []
    for packet in json.loads(tshark(dissector, capture, home, "-T", "json"), object_pairs_hook=pairs):
        found += [flatten(ours, {}) for ours in packet["_source"][0]["layers"][0].get("heddle", [{}])]
    return found


def frame(payload, source=40000):
    udp = struct.pack(">HHHH", source, 4773, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return ip + udp


def write_capture(path, payloads):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))  # raw IPv4
        for payload in payloads:
            data = frame(payload)
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def control(kind, body, number=1, more=False, hello=False):
    return struct.pack(">HBBIQIIIBHB", 0x4844, 0x14 if hello else 0x13, more, 7, 1, number, 0, 0, kind, 1, 0) + \
        body + b"\xaa" * 16
