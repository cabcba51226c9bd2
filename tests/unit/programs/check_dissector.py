#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The dissector shows what stands in packets: every message of docs/wire.md with every field, in one packet and in
several fragments; chunks; what is cut short. Its names of codes are the document's.

usage: check_dissector.py SOURCE_DIR
Needs tshark (skips without)."""
import pathlib
import re
import sys
import tempfile

import dissect

ROOT = pathlib.Path(sys.argv[1])
DISSECTOR, WIRE = ROOT / "docs/heddle.lua", ROOT / "docs/wire.md"
CORPUS, GOLDEN = ROOT / "tests/fuzz/corpus", ROOT / "tests/golden/packets"


def bodies():
    """{kind: body} of the corpus: its messages are a kind and a body."""
    found = {}
    for path in sorted((CORPUS / "message").iterdir()):
        data = path.read_bytes()
        found[data[0]] = data[1:]
    return found


def check_names():
    """The tables of codes, which the document has from the code."""
    text = DISSECTOR.read_text()
    lua = {name: re.findall(r'"([^"]+)"', body)
           for name, body in re.findall(r"\t(\w+) = \{ \[0\] = ([^}]*)\}", text)}
    tables = dissect.tables(WIRE)
    for table, name in (("reasons", "reason"), ("outcomes", "outcome"), ("verbs", "verb"), ("roles", "role")):
        wanted = [row[1] for row in tables[table]]
        assert [int(row[0]) for row in tables[table]] == list(range(len(wanted)))
        assert lua[name] == wanted, (name, lua[name], wanted)
    rows = re.findall(r"^\| (\d) \| (\w+)[ :(|]", WIRE.read_text().split("| dtype |")[1].split("\n\n")[0], re.M)
    assert [name for _, name in rows] == lua["dtype"], (rows, lua["dtype"])


def check_message(message, body, shown):
    wanted = dissect.read_body(message, body)
    for key, values in wanted.items():
        texts = shown.get(key, [])
        assert len(texts) == len(values) and all(map(dissect.same, texts, values)), (key, texts, values)
    extra = {key for key in shown if key.startswith(f"heddle.{message[0]}.")} - wanted.keys()
    # A list's line, of which the pieces are what is compared; what is empty is not shown.
    extra -= {f"heddle.{message[0]}.{field}" for field, kind in message[1] if kind in dissect.PIECES}
    assert not extra, extra
    assert "heddle.body" not in shown and "heddle.short" not in shown, shown


def check_messages(folder):
    messages, found = dissect.messages(WIRE), bodies()
    assert messages.keys() == found.keys(), f"no packet of {messages.keys() ^ found.keys()}"
    capture, payloads, split = folder / "messages.pcap", [], {}
    for number, (kind, body) in enumerate(sorted(found.items()), 1):
        payloads.append(dissect.control(kind, body, 100 * number, hello=kind <= 3 or 7 <= kind <= 10))
        if len(body) >= 3:  # the same in three fragments
            split[len(payloads) + 2] = kind
            payloads += [dissect.control(kind, body[:1], 100 * number + 50, True),
                         dissect.control(kind, body[1:2], 100 * number + 51, True),
                         dissect.control(kind, body[2:], 100 * number + 52)]
    dissect.write_capture(capture, payloads)
    shown = dissect.packets(DISSECTOR, capture, folder)
    assert len(shown) == len(payloads)
    for payload, packet in zip(payloads, shown):
        assert packet["heddle.kind"] == [str(payload[28])] and packet["heddle.tag"] == [":".join(["aa"] * 16)], packet
    whole = [packet for payload, packet in zip(payloads, shown) if int.from_bytes(payload[16:20], "big") % 100 == 0]
    for (kind, body), packet in zip(sorted(found.items()), whole, strict=True):
        check_message(messages[kind], body, packet)
    for at, kind in split.items():
        check_message(messages[kind], found[kind], shown[at])
        assert "heddle.body" in shown[at - 1], "a fragment in the middle is bytes"
    return len(whole), len(split)


def check_hostile(folder):
    """Every message cut short at every length, and one byte too long: shown as such, never an error of Lua's."""
    payloads, found = [], bodies()
    for kind, body in sorted(found.items()):
        step = max(1, len(body) // 7)
        payloads += [dissect.control(kind, body[:length]) for length in range(1, len(body), step)]
        payloads.append(dissect.control(kind, body + b"\0"))
    payloads += [b"HD\x13", b"HD\x11" + bytes(52), b"HD\x13" + bytes(44), dissect.control(250, b"what"), b""]
    payloads.append(dissect.control(33, found[33][2:], number=9))  # the end of a message without its beginning
    capture = folder / "hostile.pcap"
    dissect.write_capture(capture, payloads)
    shown = dissect.packets(DISSECTOR, capture, folder)
    assert len(shown) == len(payloads)
    for payload, packet in zip(payloads[:-6], shown):
        assert "heddle.body" in packet, (payload, packet)
    for packet in (*shown[-6:-3], shown[-2]):
        assert "heddle.kind" not in packet and "heddle.chunk" not in packet, packet
    return len(payloads)


def check_packets(folder):
    """The golden packets: chunks besides messages. One of them is a message cut short on purpose."""
    payloads = [bytes.fromhex("".join(line for line in path.read_text().splitlines() if not line.startswith("#")))
                for path in sorted(GOLDEN.glob("*.hex"))]
    capture, messages, chunks, cut = folder / "golden.pcap", dissect.messages(WIRE), 0, []
    dissect.write_capture(capture, payloads)
    shown = dissect.packets(DISSECTOR, capture, folder)
    for number, (payload, packet) in enumerate(zip(payloads, shown, strict=True), 1):
        ours = payload[:2] == b"HD" and len(payload) >= 48
        if ours and payload[2] == 0x11:
            chunks += 1
            for field, at, size in (("job", 4, 4), ("epoch", 8, 2), ("worker", 10, 2), ("round", 12, 4),
                                    ("attempt", 16, 1), ("dtype", 17, 1), ("shard", 20, 2), ("slot", 22, 2),
                                    ("chunk", 24, 4), ("packet", 28, 4), ("incarnation", 32, 2), ("counter", 34, 6),
                                    ("count", 40, 2), ("next", 42, 2), ("token", 48, 8)):
                value = int.from_bytes(payload[at:at + size], "big", signed=field == "next")
                assert int(packet[f"heddle.{field}"][0], 0) == value, (field, packet)
            total = [str(int.from_bytes(payload[44:48], "big"))]
            assert packet.get("heddle.total", ["0"]) == total, packet
            assert dissect.as_value(packet["heddle.values"][0], b"") == payload[56:]
            for flag, mask in (("resend", 1), ("not_finite", 4), ("last", 8), ("ask", 64), ("paced", 128)):
                assert packet[f"heddle.flags.{flag}"] == [str(int(bool(payload[3] & mask)))], (flag, packet)
        elif ours and "heddle.short" in packet:
            cut.append(number)
        elif ours and payload[2] in (0x13, 0x14):
            check_message(messages[payload[28]], payload[32:-16], packet)
    assert chunks >= 3 and cut == [10], (chunks, cut)
    return len(payloads)


def check_superframes(folder):
    """Packets that were captured before their host cut them apart: equally long ones, the last may be shorter."""
    pong = [dissect.control(5, bytes(23) + bytes([i]), 0) for i in range(5)]
    grant = dissect.control(33, bodies()[33], 0)
    chunk = bytes.fromhex("4844110000000001" + "00" * 32 + "0004" + "00" * 6 + "00" * 7 + "05" + "3f800000" * 4)
    frames = [pong, [*pong, dissect.control(4, bytes(8), 0)], [grant, grant], [chunk] * 9]
    capture = folder / "super.pcap"
    dissect.write_capture(capture, [b"".join(frame) for frame in frames])
    shown = dissect.packets(DISSECTOR, capture, folder)
    assert len(shown) == sum(map(len, frames)), len(shown)
    assert not any("heddle.short" in packet for packet in shown)
    assert [p["heddle.pong.replied_ns"] for p in shown[:5]] == [[str(i)] for i in range(5)], shown[:5]
    assert all(len(dissect.as_value(p["heddle.values"][0], b"")) == 16 for p in shown[-9:])
    return len(frames)


def main():
    dissect.need_tshark()
    check_names()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        whole, split = check_messages(folder)
        golden, hostile, frames = check_packets(folder), check_hostile(folder), check_superframes(folder)
        print(f"dissector: {whole} messages, {split} of them also in fragments, {golden} golden packets, {hostile} "
              f"hostile ones, {frames} frames of several")


if __name__ == "__main__":
    main()
