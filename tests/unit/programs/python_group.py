# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_torch.py: what scripts for DistributedDataParallel do with a process group, over Heddle and
over Gloo in the same processes, and the errors that they expect.

usage: python_group.py all   (environment of torchrun)"""
import errno
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import heddle.torch

STEPS, BATCH, OVERFLOWS_AT, SHORT_S, DELAY_S = 6, 16, 2, 0.1, 0.5


def make(group):
    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    model = DistributedDataParallel(net, bucket_cap_mb=0.002, process_group=group)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def loss_of(model, step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    x, y = torch.randn(BATCH, 20, generator=generator), torch.randint(5, (BATCH,), generator=generator)
    return torch.nn.functional.cross_entropy(model(x), y)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def train_uneven(group):
    """join(): each rank has a different number of batches; the others go on without those that have none left."""
    model, optimizer = make(group)
    with model.join():
        for step in range(STEPS + 2 * dist.get_rank()):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
    return flat(model)


def train_accumulating(group):
    model, optimizer = make(group)
    for step in range(STEPS):
        if step % 3 < 2:
            with model.no_sync():
                loss_of(model, step).backward()
            continue
        loss_of(model, step).backward()
        optimizer.step()
        optimizer.zero_grad()
    return flat(model)


class Buffered(torch.nn.Module):
    """With buffers of several dtypes: DDP broadcasts each dtype apart, all of them together, before each forward pass.
    One way through it is unused in each step."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.ways = torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8), torch.nn.ModuleList(
            torch.nn.Linear(8, 5) for _ in range(2))
        for number, dtype in enumerate((torch.float64, torch.float16, torch.int32, torch.uint8, torch.int8)):
            self.register_buffer(f"seen_{number}", torch.full((3,), dist.get_rank(), dtype=dtype))
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.ways[self.steps % 2](torch.relu(self.norm(self.first(x))))


def train_buffered(group):
    torch.manual_seed(7 + dist.get_rank())  # rank 0's values are for all
    model = DistributedDataParallel(Buffered(), process_group=group, find_unused_parameters=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9,
                                        process_group=group or dist.group.WORLD)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    assert all(not bool(one.any()) for name, one in model.named_buffers() if "seen" in name), "rank 0's"
    return torch.cat([flat(model), model.module.norm.running_mean])


class Scaler:
    """GradScaler's rule, for PyTorch whose own needs a GPU: a step with Inf or NaN is skipped, and halves the scale."""

    def __init__(self):
        self.factor = 2.0**16

    def scale(self, loss):
        return loss * self.factor

    def step(self, optimizer):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        self.finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
        for grad in grads if self.finite else ():
            grad.div_(self.factor)
        if self.finite:
            optimizer.step()

    def update(self):
        self.factor *= 1 if self.finite else 0.5

    def get_scale(self):
        return self.factor


def train_scaled(group):
    """One rank's gradients overflow in one step: all ranks skip it, and have the same scale then."""
    model, optimizer = make(group)
    scaler = torch.amp.GradScaler("cpu") if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler") else Scaler()
    for step in range(STEPS):
        optimizer.zero_grad()
        before = scaler.get_scale()
        factor = 1e38 if step == OVERFLOWS_AT and dist.get_rank() == 1 else 1.0
        scaler.scale(loss_of(model, step) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (scaler.get_scale() < before) == (step == OVERFLOWS_AT), (step, scaler.get_scale())
    return flat(model)


def check_training(gloo):
    for train in (train_uneven, train_accumulating, train_scaled, train_buffered):
        mine, theirs = train(None), train(gloo)
        worst = float((mine - theirs).abs().max())
        assert worst <= 1e-5, f"{train.__name__}: {worst} from Gloo's"


def check_timeout(gloo):
    """wait(timeout) ends in time with a RuntimeError, and the operation goes on."""
    x = torch.ones(1000)
    if dist.get_rank() == 0:
        dist.barrier(gloo)  # the others have waited
        dist.all_reduce(x)
    else:
        work, began = dist.all_reduce(x, async_op=True), time.monotonic()
        try:
            work.wait(timedelta(seconds=SHORT_S))
            raise AssertionError("wait() returned")
        except RuntimeError as error:
            assert "timed out" in str(error).lower(), error
            assert SHORT_S <= time.monotonic() - began
        dist.barrier(gloo)
        work.wait()
    assert bool((x == dist.get_world_size()).all())
    dist.barrier()


def check_barriers(gloo):
    """No rank leaves it before all have come. The clock is the host's."""
    if dist.get_rank() == 0:
        time.sleep(DELAY_S)
    times, came = [None] * dist.get_world_size(), time.monotonic()
    dist.barrier()
    dist.all_gather_object(times, (came, time.monotonic()), group=gloo)
    assert max(came for came, _ in times) <= min(left for _, left in times), times
    dist.monitored_barrier(gloo)
    if hasattr(dist.ProcessGroup, "_device_types"):  # today's takes groups of every backend for the CPU
        return dist.monitored_barrier()
    try:
        dist.monitored_barrier()
        raise AssertionError("monitored_barrier() is for Gloo only")
    except (RuntimeError, ValueError) as error:
        assert "GLOO" in str(error).upper(), error


def check_threads():
    """Threads with a group each do not disturb one another."""
    groups, results = [dist.new_group() for _ in range(3)], [None] * 3

    def add(index):
        x = torch.full((10000,), float(index))
        for _ in range(3):
            dist.all_reduce(x, group=groups[index])
        results[index] = float(x[-1])

    threads = [threading.Thread(target=add, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [index * dist.get_world_size()**3 for index in range(3)], results


def check_fork():
    """In a child process an all-reduce is an error in words; the parent's group is as before."""
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            os._exit(0 if getattr(error, "errno", None) == errno.ECHILD else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [dist.get_world_size()] * 3


def check_agreement(gloo):
    model, _ = make(None)
    assert heddle.torch.agree(model, torch.zeros(3, dtype=torch.bfloat16), torch.tensor(True))
    with torch.no_grad():
        if dist.get_rank() == 2:
            model.module[0].bias.view(torch.int32)[5] ^= 1
    for group in (None, gloo):
        assert not heddle.torch.agree(model, group=group)
        assert heddle.torch.agree(torch.ones(2, 3).t(), group=group)
    model, optimizer = make(None)
    steps = dist.get_rank() if dist.get_rank() < 2 else None  # rank 1 has made a step, rank 2 is to have none
    if steps == 1:
        model.module(torch.ones(1, 20)).sum().backward()
        optimizer.step()
    assert heddle.torch.share_state(model, optimizer, steps) == 1
    assert heddle.torch.agree(model) and len(optimizer.state_dict()["state"]) > 0
    try:
        heddle.torch.share_state(model, None, 1, gloo)
        raise AssertionError("a state over Gloo")
    except TypeError as error:
        assert "not of the backend heddle" in str(error), error


def check_refusals(gloo):
    """A tensor without memory is refused, unless PyTorch itself ends the call, as today's does."""
    refused = []
    for group in (None, gloo):
        try:
            dist.all_reduce(torch.ones(3, device="meta"), group=group)
            refused.append(False)
        except (RuntimeError, TypeError, NotImplementedError):
            refused.append(True)
    assert refused[0] == refused[1] and refused[0] >= torch.__version__.startswith("1."), refused


def main():
    torch.set_num_threads(1)
    dist.init_process_group("heddle")
    gloo = dist.new_group(backend="gloo")
    check_training(gloo)
    check_timeout(gloo)
    check_barriers(gloo)
    check_threads()
    check_fork()
    check_agreement(gloo)
    check_refusals(gloo)
    dist.destroy_process_group()
    print("as on Gloo", flush=True)


main()
