# SPDX-License-Identifier: BSD-3-Clause
"""usage: switch_member.py SERVICE TOKEN WORKER MEMBERS SLOTS CHUNKS ROUNDS LOSS A minimal member of a lease of a
switch's slots: one chunk a slot is in flight, chunks without an answer are retransmitted, LOSS of the results are
discarded as if the path had lost them. Every lane of every sum is compared."""
import random
import select
import socket
import struct
import sys
import time

CHUNK = ">HBBIHHIBBhHHIIQHhIQ"
LANES = 32
RESEND_S = 0.02
PATIENCE_S = 60


def lane(worker, round_, chunk, index):
    return (worker + 1) * 1000003 + round_ * 7919 + chunk * 31 - index * 65537


class Member:
    def __init__(self, service, token, worker, members, slots, loss):
        self.token, self.worker, self.members, self.slots, self.loss = token, worker, members, slots, loss
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", 4773))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.peer = (service, 4773)
        self.packet = self.sent = self.again = self.thrown = self.results = 0
        self.random = random.Random(worker)

    def send(self, round_, chunk, again):
        slot = chunk % self.slots | (chunk // self.slots % 2) << 15
        self.packet += 1
        values = struct.pack(">32i", *(lane(self.worker, round_, chunk, i) for i in range(LANES)))
        head = struct.pack(CHUNK, 0x4844, 0x11, 1 if again else 0, 7, 1, self.worker, round_, 0, 3, 0, 0, slot, chunk,
                           self.packet, 0, LANES, -5, 0, self.token)
        self.socket.sendto(head + values, self.peer)
        self.sent += 1
        self.again += again

    def take(self, round_, waiting):
        """The chunk whose sum this is, or None."""
        data = self.socket.recv(2048)
        head = struct.unpack(CHUNK, data[:56])
        self.results += 1
        assert head[1] == 0x12 and head[5] == 0xffff and head[-1] == self.token, head
        if self.random.random() < self.loss:
            self.thrown += 1
            return None
        chunk = head[12]
        if head[6] != round_ or chunk not in waiting:
            return None  # a sum that came twice
        assert head[14] == (1 << self.members) - 1, f"members {head[14]:x}"
        sums = struct.unpack(">32i", data[56:])
        wanted = tuple(sum(lane(w, round_, chunk, i) for w in range(self.members)) for i in range(LANES))
        assert sums == wanted, (round_, chunk, sums, wanted)
        return chunk

    def round(self, round_, chunks, until):
        waiting = {}
        for chunk in range(min(self.slots, chunks)):
            self.send(round_, chunk, False)
            waiting[chunk] = time.monotonic()
        while waiting:
            assert time.monotonic() < until, f"round {round_}: {len(waiting)} chunks without a sum"
            if select.select([self.socket], [], [], RESEND_S)[0]:
                chunk = self.take(round_, waiting)
                if chunk is not None:
                    del waiting[chunk]
                    if chunk + self.slots < chunks:
                        self.send(round_, chunk + self.slots, False)
                        waiting[chunk + self.slots] = time.monotonic()
            now = time.monotonic()
            for chunk in [c for c, at in waiting.items() if now > at + RESEND_S]:
                self.send(round_, chunk, True)
                waiting[chunk] = now

    def linger(self):
        """Others may lack a sum that is complete; what comes is counted."""
        while select.select([self.socket], [], [], 0.5)[0]:
            self.socket.recv(2048)
            self.results += 1


def main():
    service, token, loss = sys.argv[1], int(sys.argv[2], 16), float(sys.argv[8])
    worker, members, slots, chunks, rounds = map(int, sys.argv[3:8])
    assert chunks % (2 * slots) == 0, "a slot's versions take turns across rounds too"
    member = Member(service, token, worker, members, slots, loss)
    until = time.monotonic() + PATIENCE_S
    for round_ in range(1, rounds + 1):
        member.round(round_, chunks, until)
    member.linger()
    print(member.sent, member.again, member.results, member.thrown)


if __name__ == "__main__":
    main()
