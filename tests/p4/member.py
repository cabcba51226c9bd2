#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: member.py SERVICE PORT < CHUNKS
A worker's end for the test of bmv2: sends each line's bytes (hexadecimal) to the service address, and prints the
datagrams that come back within 2 s of the last."""
import socket
import sys

PATIENCE_S = 2.0


def main():
    service, port = sys.argv[1], int(sys.argv[2])
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("", port))
    for line in sys.stdin:
        own.sendto(bytes.fromhex(line), (service, 4773))
    own.settimeout(PATIENCE_S)
    try:
        while True:
            print(own.recv(2048).hex(), flush=True)
    except TimeoutError:
        pass


if __name__ == "__main__":
    main()
