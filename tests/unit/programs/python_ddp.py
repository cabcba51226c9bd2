# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_torch.py: DistributedDataParallel with Heddle's hook, beside DDP on Gloo alone.

usage: python_ddp.py TEST   (environment of torchrun)"""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import heddle
import heddle.torch

STEPS, BATCH, DIES_AT, DIES = 30, 16, 10, 1
PATIENCE_S = 20


class Net(torch.nn.Module):
    """With `spare` there are two ways through it: the parameters of one are unused in each step."""

    def __init__(self, spare=False):
        super().__init__()
        self.first, self.last = torch.nn.Linear(20, 64), torch.nn.Linear(64, 5)
        self.spare = torch.nn.Linear(64, 5) if spare else None

    def forward(self, x, spare=False):
        hidden = torch.relu(self.first(x))
        return self.spare(hidden) if spare else self.last(hidden)


def make(job, hook, unused=False, group=None):
    torch.manual_seed(7)
    model = DistributedDataParallel(Net(unused), bucket_cap_mb=0.002, find_unused_parameters=unused,
                                    process_group=group)
    if hook:
        model.register_comm_hook(job, hook)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, 20, generator=generator), torch.randint(5, (BATCH,), generator=generator)


def train(model, optimizer, steps, rank, accumulate=1, spare=None):
    for step in range(steps):
        x, y = batch(step, rank)
        ends = (step + 1) % accumulate == 0
        with model.no_sync() if not ends else torch.enable_grad():
            out = model(x, spare(step)) if spare else model(x)
            torch.nn.functional.cross_entropy(out, y).backward()
        if ends:
            optimizer.step()
            optimizer.zero_grad()
        yield step


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def same(job, what, hook, tolerance, unused=False, **training):
    """As Gloo's, to rounding; and the same bits on all ranks."""
    models = []
    for use in (hook, None):
        model, optimizer = make(job, use, unused)
        for _ in train(model, optimizer, STEPS, job.rank, **training):
            pass
        models.append(flat(model))
    worst = float((models[0] - models[1]).abs().max())
    assert worst <= tolerance, f"{what}: {worst} from Gloo's"
    mine = models[0]
    highest, lowest = mine.clone(), mine.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    assert torch.equal(highest, lowest), f"{what}: ranks differ"
    print(f"{what}: {worst:.1e} from Gloo's", flush=True)


def test_same(job):
    same(job, "fp32", heddle.torch.allreduce_hook, 1e-5)
    same(job, "fp16", heddle.torch.fp16_hook, 1e-2)
    same(job, "bf16", heddle.torch.bf16_hook, 5e-2)
    same(job, "accumulation", heddle.torch.allreduce_hook, 1e-5, accumulate=3)
    same(job, "unused parameters", heddle.torch.allreduce_hook, 1e-5, unused=True, spare=lambda step: step % 2 == 1)


class Counted:
    """A Gloo group, and how many all-reduces it was asked for."""

    def __init__(self, gloo):
        self._gloo, self.reductions = gloo, 0

    def __getattr__(self, name):
        self.reductions += name == "allreduce"
        return getattr(self._gloo, name)


def reductions(rank, size):
    """Every type and operation travels over Heddle. (Today's PyTorch hides the group's object.)"""
    group = dist.distributed_c10d._get_default_group()  # pylint: disable=protected-access
    counted = Counted(getattr(group, "_gloo", None))
    if hasattr(group, "_gloo"):
        group._gloo = counted
    wanted = {dist.ReduceOp.SUM: size * (size + 1) // 2, dist.ReduceOp.MIN: 1, dist.ReduceOp.MAX: size,
              dist.ReduceOp.PRODUCT: 6, dist.ReduceOp.AVG: (size + 1) // 2}
    assert size == 3
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32,
                  torch.int64):
        for op, result in wanted.items():
            x = torch.full((5, 4), rank + 1).to(dtype)
            dist.all_reduce(x, op=op, async_op=True).wait()
            assert x.dtype == dtype and x.flatten().tolist() == [result] * 20, (dtype, op, x)
            every = torch.full((4, 4), rank + 1).to(dtype)
            dist.all_reduce(every[:, ::2], op=op)  # not contiguous
            assert every[0].tolist() == [result, rank + 1] * 2, (dtype, op, every)
    assert counted.reductions == 0, "Gloo was asked"
    x = torch.tensor([rank + 1, 6])
    dist.all_reduce(x, op=dist.ReduceOp.BAND)
    assert x.tolist() == [0, 6] and counted.reductions == hasattr(group, "_gloo")


def test_backward():
    """A member of the process group is killed in a step of DDP: backward() of the others raises an error."""
    dist.init_process_group("heddle")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = make(None, None)
    try:
        for step in train(model, optimizer, STEPS, rank):
            if step == DIES_AT and rank == DIES:
                os.kill(os.getpid(), signal.SIGKILL)
        print("no error", flush=True)
    except RuntimeError as error:
        assert f"{size - 1} of {size} members" in str(error) or "late" in str(error), error
        print(f"backward: an error after {'few' if step <= DIES_AT + 1 else step} steps", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


def test_group():
    """init_process_group("heddle") alone: DDP, sums, a subgroup, what goes to Gloo; then a member is killed."""
    dist.init_process_group("heddle")
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    models = []
    for group in (None, gloo):
        model, optimizer = make(None, None, group=group)
        for _ in train(model, optimizer, STEPS, rank):
            pass
        models.append(flat(model))
    worst = float((models[0] - models[1]).abs().max())
    assert worst <= 1e-5, f"{worst} from Gloo's"
    reductions(rank, size)
    x = torch.tensor([float(rank)])
    dist.broadcast(x, src=1)
    dist.barrier()
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        x = torch.ones(1000) * rank
        dist.all_reduce(x, group=pair)
        assert bool((x == 2).all())
    dist.barrier()
    if rank == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):  # the first may still have all
            dist.all_reduce(torch.ones(10))
        print("no error", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        assert f"{size - 1} of {size} members" in str(error), error
        print(f"group: {worst:.1e} from Gloo's; then an error", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


def test_death(job):
    """Gloo's processes end when one of them dies; Heddle's go on without it."""
    model, optimizer = make(job, heddle.torch.allreduce_hook)
    for step in train(model, optimizer, STEPS, job.rank):
        if step == DIES_AT and job.rank == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
    members, bits = len(job.members().ranks), int(flat(model).view(torch.int32).sum())
    job.barrier(timeout=PATIENCE_S)  # none leaves before the other has counted
    print(f"finished with {members} members, bits {bits}", flush=True)


def test_mismatch(job):
    """A rank has another call in the place of its gradients: backward() of the others says so."""
    torch.manual_seed(7)
    model = DistributedDataParallel(Net())  # one bucket
    model.register_comm_hook(job, heddle.torch.allreduce_hook)
    for step in range(3):
        x, y = batch(step, job.rank)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        try:
            if step == 1 and job.rank == DIES:
                job.barrier(timeout=PATIENCE_S)
            else:
                loss.backward()
            assert step != 1, "no error"
        except heddle.OperationFailed as error:
            assert step == 1 and job.rank == DIES and error.status.reason == "mismatch", error
        except RuntimeError as error:
            assert step == 1 and all(word in str(error) for word in ("OperationFailed", "mismatch", "barrier")), error
        model.zero_grad()
    print("mismatch: an error with the reason", flush=True)


def test_dtype(job):
    """Gradients of other types are averaged in their own type; what is no type of an all-reduce is refused in words."""
    mean = 3 * (job.world_size - 1) / 2
    model = DistributedDataParallel(torch.nn.Linear(3, 2).double())
    model.register_comm_hook(job, heddle.torch.allreduce_hook)
    model(torch.full((1, 3), 3.0 * job.rank, dtype=torch.float64)).sum().backward()
    gradient = model.module.weight.grad
    assert gradient.dtype == torch.float64 and bool((gradient == mean).all()), gradient
    for dtype, payload in ((torch.bfloat16, "fp32"), (torch.bfloat16, "fp16"), (torch.float16, "fp16")):
        x = torch.full((7,), 3 * job.rank).to(dtype)
        sums = heddle.torch.start_allreduce(job, x, op="average", payload=payload).wait()
        assert sums is x and bool((x == mean).all()), x
    lists(job)
    try:
        heddle.torch.start_allreduce(job, torch.ones(3, dtype=torch.bool), op="sum")
    except TypeError as error:
        assert "bool" in str(error) and "int64" in str(error), error
        print("refused", flush=True)


def lists(job):
    """Tensors of a list are added in place, in one operation; those that one call would refuse are refused."""
    xs = [torch.full(shape, job.rank + 1.0).to(torch.bfloat16) for shape in ((2, 3), (0,), (70, 90))]
    assert job.allreduce_list(xs, exact=job.world_size, timeout=PATIENCE_S).bytes == 2 * (6 + 6300)
    assert all(bool((x == sum(range(1, job.world_size + 1))).all()) for x in xs), xs
    net = torch.nn.Linear(5, 4)
    with torch.no_grad():
        job.broadcast_list(net.parameters(), 0, timeout=PATIENCE_S)
    assert job.agree(net.state_dict(), timeout=PATIENCE_S)
    for wrong in (torch.ones(3, 4).t(), torch.ones(3).to_sparse(), net.weight):
        try:
            job.allreduce_list([torch.ones(2), wrong], timeout=PATIENCE_S)
        except ValueError as error:
            assert "contiguous" in str(error) or "requires grad" in str(error), error
        else:
            raise AssertionError(f"not refused: {wrong}")


def test_overflow(job):
    """Gradients that overflow at one rank do so at all of them, so that all skip the step; the next one is as usual."""
    model, optimizer = make(job, heddle.torch.fp16_hook)
    skipped = []
    for step in range(4):
        x, y = batch(step, job.rank)
        scale = 1e30 if step % 2 and job.rank == DIES else 1.0
        (torch.nn.functional.cross_entropy(model(x), y) * scale).backward()
        finite = all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        skipped.append(not finite)
        if finite:
            optimizer.step()
        optimizer.zero_grad()
    assert skipped == [False, True, False, True], skipped
    assert bool(torch.isfinite(flat(model)).all())
    print("two steps skipped", flush=True)


def test_sampler(job):
    rows = list(range(1000))
    job.wait_members(timeout=PATIENCE_S)
    sampler = heddle.torch.ShardSampler(job, rows, seed=3)
    first = list(sampler)
    assert first == list(sampler) and len(first) == len(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler) and sorted(first) == sorted(sampler)
    seen = torch.zeros(len(rows), dtype=torch.int32)
    seen[torch.tensor(first)] += 1
    dist.all_reduce(seen)
    assert bool((seen == 1).all()), "each row belongs to one worker"
    print("each row once", flush=True)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] in ("group", "backward"):
        return globals()[f"test_{sys.argv[1]}"]()
    dist.init_process_group("gloo")
    with heddle.Job() as job:
        job.wait_joined(PATIENCE_S)
        globals()[f"test_{sys.argv[1]}"](job)


main()
