#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_dissector.py DISSECTOR CORPUS
Packets of the fuzz corpus through tshark with our dissector: what it reads is what stands in them.
Needs tshark (skips without)."""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile


def frame(payload):
    udp = struct.pack(">HHHH", 40000, 4773, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return ip + udp


def write_capture(path, payloads):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))  # raw IPv4
        for payload in payloads:
            data = frame(payload)
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def main():
    dissector, corpus = sys.argv[1], pathlib.Path(sys.argv[2])
    if not shutil.which("tshark"):
        print("SKIP: needs tshark")
        sys.exit(77)
    grant, chunk = (corpus / "control/grant").read_bytes(), (corpus / "chunk/fp32").read_bytes()
    part = bytearray(grant)
    part[3] |= 1  # MORE: its body is a part
    fields = ["heddle.type", "heddle.kind", "heddle.token", "heddle.grant.token", "heddle.grant.weight",
              "heddle.grant.conditional", "heddle.hello.name", "heddle.chunk", "_ws.malformed"]
    expected = [
        ["1", "", "0x0000000000000005", "", "", "", "", "2", ""],
        # 1099511627782 = 2^40 | 6: the sixth field, as the corpus was made
        ["3", "33", "", "1099511627782", "0.5", "1", "", "", ""],
        ["3", "33", "", "", "", "", "", "", ""],
        ["3", "33", "", "1099511627782", "0.5", "", "", "", ""],
        ["4", "1", "", "", "", "", "n\u00e9", "", ""],
        ["", "", "", "", "", "", "", "", ""],
    ]
    with tempfile.TemporaryDirectory() as folder:
        capture = f"{folder}/capture.pcap"
        write_capture(capture, [chunk, grant, bytes(part), grant[:100] + bytes(16),
                                (corpus / "control/hello").read_bytes(), b"HD\x13"])
        done = subprocess.run(
            ["tshark", "-X", f"lua_script:{dissector}", "-r", capture, "-T", "fields",
             *[x for f in fields for x in ("-e", f)]],
            capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": folder, "LC_ALL": "C.UTF-8"})
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    if done.returncode or rows != expected:
        sys.exit(f"tshark: {done.returncode}\n{done.stderr}\nread: {rows}\nexpected: {expected}")


if __name__ == "__main__":
    main()
