# SPDX-License-Identifier: BSD-3-Clause
"""One worker of check_python_state.py: trains with all-reduces of gradients, and prints after each step the number of
workers in it and a digest of its model and optimizer. It ends with the others, after a step in which one of them has
seen the file END.

usage: python_state.py END   (environment of Heddle)"""
import os
import sys
import time

import torch

import heddle
import heddle.torch
from heddle import equal

BATCH, STEP_S, PATIENCE_S = 16, 0.02, 60


def make(rank):
    torch.manual_seed(rank)  # each process would begin with a model of its own
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 5))
    for module in model:  # its averages are those of the worker's own rows: no part of what all have alike
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = 0.0
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def gradient(model, step, rank, ends):
    """With one value more: whether the run is over."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(BATCH, 20, generator=generator), torch.randint(5, (BATCH,), generator=generator)
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()] + [torch.tensor([float(ends)])])


def apply(model, optimizer, sums, workers):
    parts = sums[:-1].split([p.numel() for p in model.parameters()])
    for p, part in zip(model.parameters(), parts):
        p.grad = (part / workers).reshape(p.shape)
    optimizer.step()


def digest(model, optimizer):
    state = optimizer.state_dict()["state"]
    return equal.digest(model.state_dict(), *[state[key] for key in sorted(state)]).hex()[:24]


def train(job, end):
    model, optimizer = make(job.rank + 100 * os.getpid())
    step, ends = heddle.torch.share_state(model, optimizer, 0, job, timeout=PATIENCE_S), False
    print("has", step, digest(model, optimizer), flush=True)
    while not ends:
        sums, waits = gradient(model, step, job.rank, os.path.exists(end)), True
        try:
            status = job.allreduce(sums, timeout=PATIENCE_S)
            apply(model, optimizer, sums, status.workers)
            step, waits, ends = step + 1, status.waiting > 0, sums[-1] > 0
            print("step", step, digest(model, optimizer), status.workers, flush=True)
        except heddle.OperationFailed as error:
            if error.status.reason != "late":
                raise
            print("late", flush=True)
        if waits and not ends:
            step = heddle.torch.share_state(model, optimizer, step, job, timeout=PATIENCE_S)
        time.sleep(STEP_S)
    print("done", flush=True)


torch.set_num_threads(1)
with heddle.Job("state") as one:
    train(one, sys.argv[1])
