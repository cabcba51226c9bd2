# SPDX-License-Identifier: BSD-3-Clause
"""One worker of soak_torch.py: trains on the digits, and goes on with the workers that are there.

usage: torch_elastic.py LOG STEP_MS TRAINER     (environment of Heddle; TRAINER: librival_trainer.so)

The all-reduce of a step has the gradients and, at both ends of the buffer, integers that depend on rank and step. So
each sum says whether it is exactly that of the members that the library names. LOG gets a line a step:
    step, when it ended (CLOCK_MONOTONIC), the members, a CRC of the sum's bits, whether the integers are exact
Other lines go to stdout: {"began"}, {"took": step} (the state of another worker, and how long it took), {"end"}.
A step takes STEP_MS of computing; what PyTorch does not need of it is slept, as if an accelerator computed. SIGTERM:
ends after a step, together with all others."""
import json
import os
import pathlib
import signal
import sys
import time
import types
import zlib

import torch
from torch.nn.functional import cross_entropy

import heddle.torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import rival_ddp  # noqa: E402  # pylint: disable=wrong-import-position

HIDDEN, BATCH, SEED, RATE, MOMENTUM = "mlp:128", 32, 7, 0.05, 0.9
MARKS = 8  # integers at each end of the buffer
JOIN_S = 60


def marks(step, ranks):
    """The sums of these ranks' integers: exact in fp32, whatever the order."""
    return [float(sum(rank * 131 + step % 4096 * 7 + k * 17 + 1 for rank in ranks)) for k in range(MARKS)]


def say(**line):
    print(json.dumps(line), flush=True)


class Worker:
    def __init__(self, log, step_s, trainer):
        self.log, self.step_s, self.stopping = log, step_s, False
        rank, size = (int(os.environ[f"HEDDLE_{name}"]) for name in ("RANK", "WORLD_SIZE"))
        options = types.SimpleNamespace(library=trainer, model=HIDDEN, batch=BATCH, rank=rank, world=size, seed=SEED)
        self.trainer = rival_ddp.Trainer(options)
        self.net = rival_ddp.Net(HIDDEN, self.trainer.features, 10, self.trainer.initial())
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=RATE, momentum=MOMENTUM)
        self.step, self.rank = 0, rank
        self.job = heddle.Job()  # last: who is registered is waited for

    def take_state(self):
        """The newest state that a worker has."""
        began = time.monotonic()
        self.step = heddle.torch.share_state(self.net, self.optimizer, self.step, self.job)
        say(took=self.step, seconds=time.monotonic() - began, at=time.monotonic())

    def gradients(self, began):
        """Ready when a step's computing is over."""
        x, y = self.trainer.minibatch()
        self.optimizer.zero_grad()
        cross_entropy(self.net(x), y).backward()
        mine = torch.tensor(marks(self.step, [self.rank]))
        ends = torch.tensor([float(self.stopping)])
        sums = torch.cat([mine, *(p.grad.reshape(-1) for p in self.net.parameters()), mine, ends])
        time.sleep(max(0.0, began + self.step_s - time.monotonic()))
        return sums

    def apply(self, sums, count):
        at = MARKS
        for p in self.net.parameters():
            p.grad.copy_(sums[at:at + p.numel()].view_as(p)).div_(count)
            at += p.numel()
        self.optimizer.step()

    def note(self, sums, members):
        wanted = marks(self.step, members)
        exact = sums[:MARKS].tolist() == wanted and sums[-1 - MARKS:-1].tolist() == wanted
        line = {"step": self.step, "at": time.monotonic(), "members": members,
                "bits": zlib.crc32(sums.numpy().tobytes()), "exact": exact}
        os.write(self.log, (json.dumps(line) + "\n").encode())

    def one_step(self):
        """Whether to go on."""
        sums = self.gradients(time.monotonic())
        ticket = self.job.allreduce_start(sums)
        try:
            status = ticket.wait()
        except heddle.OperationFailed as error:
            if error.status.reason != "late":
                raise
            say(late=self.step, at=time.monotonic())
            self.take_state()
            return True
        members = list(ticket.members())
        self.apply(sums, len(members))
        self.note(sums, members)
        self.step += 1
        if status.waiting:
            self.take_state()
            return True
        return sums[-1].item() == 0

    def run(self):
        self.job.wait_joined(JOIN_S)
        say(began=time.monotonic())
        self.take_state()
        while self.one_step():
            pass
        values = torch.cat([p.detach().reshape(-1) for p in self.net.parameters()])
        alike = self.job.agree(values)
        accuracy, loss = self.trainer.evaluate(self.net.flat())
        say(end=self.step, alike=alike, bits=zlib.crc32(values.numpy().tobytes()), accuracy=accuracy, loss=loss)
        self.job.close()


def main():
    torch.set_num_threads(1)
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    worker = Worker(log, float(sys.argv[2]) / 1000, sys.argv[3])

    def stop(*_):
        worker.stopping = True
    signal.signal(signal.SIGTERM, stop)
    worker.run()


if __name__ == "__main__":
    main()
