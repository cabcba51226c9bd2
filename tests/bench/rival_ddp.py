#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Synchronous SGD with PyTorch's DistributedDataParallel on Gloo: a process a worker, started by bench_rivals.py.

Model, initial weights, minibatches and the padding of compute time are heddle-train's (librival_trainer.so); the
gradient, its all-reduce (mean) and the step are PyTorch's. A step lasts as its slowest worker's compute and the
all-reduce: DDP starts to reduce when a bucket's gradients are there, and the hook lets none start before its compute
time is over. With --fabric heddle the hook is Heddle's, and all else is the same. Rank 0 writes events and, within its
padding, evaluates: no other rank waits for either.
"""
import argparse
import ctypes
import json
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

JOIN_S = 30
FLOATS = ctypes.POINTER(ctypes.c_float)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for word, kind in (("model", str), ("batch", int), ("seed", int), ("rank", int), ("world", int), ("lr", float),
                       ("compute-ms", float), ("compute-schedule", str), ("momentum", float), ("weight-decay", float),
                       ("observe-ms", int), ("name", str), ("events", str), ("gate", pathlib.Path), ("library", str)):
        parser.add_argument(f"--{word}", type=kind, required=True)
    parser.add_argument("--fabric", choices=["gloo", "heddle"], default="gloo")
    return parser.parse_args()


class Trainer:
    """librival_trainer.so (rival_trainer.h) for one rank."""

    def __init__(self, options):
        self.c = ctypes.CDLL(options.library)
        self.c.rival_open.restype = ctypes.c_void_p
        self.c.rival_error.restype = ctypes.c_char_p
        self.c.rival_values.restype = ctypes.c_uint64
        self.c.rival_now.restype = ctypes.c_uint64
        self.c.rival_open.argtypes = [ctypes.c_char_p, *[ctypes.c_uint32] * 3, ctypes.c_uint64]
        self.of = ctypes.c_void_p(self.c.rival_open(options.model.encode(), options.batch, options.rank, options.world,
                                                    options.seed))
        self.options = options
        if not self.of:
            sys.exit(f"rival: {self.c.rival_error().decode()}")
        self.values = self.c.rival_values(self.of)
        self.features = self.c.rival_features(self.of)
        self.batch = options.batch

    def initial(self):
        w = torch.empty(self.values)
        self.c.rival_initial(self.of, ctypes.cast(w.data_ptr(), FLOATS))
        return w

    def minibatch(self):
        x, y = FLOATS(), ctypes.POINTER(ctypes.c_uint8)()
        self.c.rival_next(self.of, ctypes.byref(x), ctypes.byref(y))
        return (torch.frombuffer(ctypes.string_at(x, 4 * self.batch * self.features), dtype=torch.float32)
                .view(self.batch, self.features),
                torch.frombuffer(ctypes.string_at(y, self.batch), dtype=torch.uint8).long())

    def evaluate(self, w):
        accuracy, loss = ctypes.c_double(), ctypes.c_double()
        self.c.rival_evaluate(self.of, ctypes.cast(w.data_ptr(), FLOATS), ctypes.byref(accuracy), ctypes.byref(loss))
        return accuracy.value, loss.value

    def gradient(self, w):
        g = torch.empty(self.values)
        self.c.rival_gradient(self.of, ctypes.cast(w.data_ptr(), FLOATS), ctypes.cast(g.data_ptr(), FLOATS))
        return g

    def start(self):
        """Compute time counts from now on."""
        if self.c.rival_compute(self.of, ctypes.c_double(self.options.compute_ms),
                                self.options.compute_schedule.encode()) < 0:
            sys.exit(f"rival: {self.c.rival_error().decode()}")

    def pad(self, begun):
        self.c.rival_pad(self.of, ctypes.c_uint64(begun))


class Net(torch.nn.Module):
    """The trainer's MLP in its layout: W (in x out), bias, layer after layer, ReLU between."""

    def __init__(self, model, features, classes, w):
        super().__init__()
        hidden = [] if model == "softmax" else [int(width) for width in model.partition(":")[2].split(",")]
        widths = [features, *hidden, classes]
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        at = 0
        for rows, columns in zip(widths, widths[1:]):
            self.weights.append(torch.nn.Parameter(w[at:at + rows * columns].view(rows, columns).clone()))
            at += rows * columns
            self.biases.append(torch.nn.Parameter(w[at:at + columns].clone()))
            at += columns
        assert at == len(w), (at, len(w))

    def forward(self, x):
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = torch.addmm(bias, x, weight)
            x = torch.relu(x) if index + 1 < len(self.weights) else x
        return x

    def flat(self):
        return torch.cat([p.detach().reshape(-1) for pair in zip(self.weights, self.biases) for p in pair])


class Step:
    """Of one worker: when it began."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.begun = 0


def reduce_bucket(step, bucket):
    """DDP's own mean over the workers, not before this worker's compute time is over."""
    step.trainer.pad(step.begun)
    mean = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])


def fabric_hook(options):
    """The hook of the fabric in use."""
    if options.fabric == "gloo":
        return reduce_bucket
    import heddle.torch  # pylint: disable=import-outside-toplevel
    job = heddle.Job(integrity=False)
    job.wait_joined(JOIN_S)

    def reduce_over_heddle(step, bucket):
        step.trainer.pad(step.begun)
        return heddle.torch.allreduce_hook(job, bucket)

    return reduce_over_heddle


class Watch:
    """Rank 0's events and evaluations."""

    def __init__(self, options):
        self.log = open(options.events, "w", encoding="ascii") if options.rank == 0 else None
        self.period = options.observe_ms * 10**6
        self.next = 0

    def event(self, kind, step, **more):
        if self.log:
            line = {"at_ns": time.monotonic_ns(), "node": "ps" if kind == "committed" else "w0", "event": kind,
                    "round": step, "version": step, **more}
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def evaluate(self, trainer, net, step):
        now = time.monotonic_ns()
        if not self.log or now < self.next:
            return
        self.next = now + self.period
        accuracy, loss = trainer.evaluate(net.flat())
        print(json.dumps({"at_ns": now, "version": step, "accuracy": accuracy, "loss": loss}), flush=True)


def check(trainer, net):
    """PyTorch's model is the trainer's: one gradient of both."""
    x, y = trainer.minibatch()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    ours = trainer.gradient(net.flat())
    theirs = torch.cat([p.grad.reshape(-1) for pair in zip(net.weights, net.biases) for p in pair])
    assert torch.norm(ours - theirs) < 1e-4 * torch.norm(ours), "PyTorch's gradient is not the trainer's"


def train(options, trainer, net):
    state, watch = Step(trainer), Watch(options)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    ddp.register_comm_hook(state, fabric_hook(options))
    sgd = torch.optim.SGD(ddp.parameters(), lr=options.lr, momentum=options.momentum,
                          weight_decay=options.weight_decay)
    dist.barrier()
    (options.gate / f"ready-{options.name}").touch()
    while not (options.gate / "go").exists():
        time.sleep(0.002)
    trainer.start()
    step = 0
    while True:
        state.begun = time.monotonic_ns()
        watch.evaluate(trainer, net, step)
        x, y = trainer.minibatch()
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(x), y)
        watch.event("pushed", step + 1)
        loss.backward()
        sgd.step()
        step += 1
        watch.event("committed", step, aux=1)
        watch.event("outcome", step, aux=1)


def main():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at once, wherever it waits
    options = parse()
    torch.set_num_threads(1)
    trainer = Trainer(options)
    net = Net(options.model, trainer.features, 10, trainer.initial())
    check(Trainer(options), net)
    dist.init_process_group("gloo", rank=options.rank, world_size=options.world)
    train(options, trainer, net)


if __name__ == "__main__":
    main()
