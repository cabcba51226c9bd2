# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_collectives.py: each collective of the process group "heddle", of many dtypes, sizes and
shapes, beside the values that it must have; calls that go to Gloo; calls that do not match; the death of a rank.

usage: python_collectives.py TEST   (environment of torchrun)"""
import errno
import os
import signal
import sys
import threading
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

import heddle.torch
from heddle import torch_collectives
from torch_samples import ADDED, COPIED, cases, count_gloo, ended, equal, handed, laid, sample

DIES, PATIENCE_S, MANY, SHORT_S, DELAY_S = 1, 100, 300, 0.1, 0.3
started = []  # operations of all jobs


def count_started():
    collective = heddle.Job._collective

    def counted(self, what, *arguments, **more):
        started.append(what)
        return collective(self, what, *arguments, **more)

    heddle.Job._collective = counted


def copies(group, rank, size, globally):
    """Broadcast, all-gather, gather and scatter. globally: the rank of a member in the default group."""
    for number, (dtype, shape, even) in enumerate(cases(COPIED)):
        every = [sample(one, dtype, shape) for one in range(size)]
        root = number % size
        how = {"group": group, "wait_for": even}
        x = laid(every[rank], even)
        ended(dist.broadcast, x, src=globally(root), **how)
        equal(x, every[root])
        outs = [laid(torch.zeros_like(every[0]), even) for _ in range(size)]
        ended(dist.all_gather, outs, laid(every[rank], even), **how)
        for found, wanted in zip(outs, every):
            equal(found, wanted)
        outs = [laid(torch.zeros_like(every[0]), even) for _ in range(size)] if rank == root else None
        ended(dist.gather, laid(every[rank], even), outs, dst=globally(root), **how)
        for found, wanted in zip(outs or (), every):
            equal(found, wanted)
        x = laid(torch.zeros_like(every[0]), even)
        ended(dist.scatter, x, [laid(one, even) for one in every] if rank == root else None, src=globally(root), **how)
        equal(x, every[rank])
        x = torch.zeros(size * max(1, torch.Size(shape).numel()), dtype=dtype)
        ended(gather_whole, x, laid(every[rank], even), **how)
        equal(x, torch.cat([one.reshape(-1) for one in every]))


def all_to_all(group, rank, size):
    for dtype, shape, even in cases(COPIED):
        every = [sample(one, dtype, (2 * size, *shape)) for one in range(size)]
        x = laid(torch.zeros_like(every[0]), even)
        ended(dist.all_to_all_single, x, laid(every[rank], even), group=group, wait_for=even)
        equal(x, torch.cat([one[2 * rank:2 * rank + 2] for one in every]))


def gather_whole(out, tensor, **how):
    return dist.all_gather_into_tensor(out, tensor, **how)


def combined(op, tensors):
    wanted = tensors[0].double()
    for one in tensors[1:]:
        wanted = {"SUM": torch.add, "AVG": torch.add, "MIN": torch.minimum, "MAX": torch.maximum,
                  "PRODUCT": torch.mul}[op](wanted, one.double())
    if op == "AVG":
        wanted = wanted / len(tensors)
        wanted = wanted if tensors[0].dtype.is_floating_point else wanted.trunc()
    return wanted.to(tensors[0].dtype)


def same(found, wanted):
    """A quotient of 16 bits is rounded from another type here than there."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert torch.allclose(found.double(), wanted.double(), rtol=1e-2 if found.element_size() == 2 else 1e-6), (found,
                                                                                                           wanted)


def reductions(group, rank, size, globally):
    """Reduce, reduce-scatter in its forms, and all-reduce, by each operation."""
    for number, (dtype, shape, even) in enumerate(cases(ADDED)):
        op = ("SUM", "AVG", "MIN", "MAX", "PRODUCT")[number % 5]
        how = {"op": getattr(dist.ReduceOp, op), "group": group, "wait_for": even}
        every, root = [sample(one, dtype, shape) for one in range(size)], number % size
        x = laid(every[rank], even)
        ended(dist.reduce, x, dst=globally(root), **how)
        same(x, combined(op, every) if rank == root else every[rank])
        x = laid(every[rank], even)
        ended(dist.all_reduce, x, **how)
        same(x, combined(op, every))
        mine = [sample(rank, dtype, shape, 3 * place) for place in range(size)]
        wanted = combined(op, [sample(one, dtype, shape, 3 * rank) for one in range(size)])
        x = laid(torch.zeros_like(wanted), even)
        ended(dist.reduce_scatter, x, [laid(one, even) for one in mine], **how)
        same(x, wanted)
        x = laid(torch.zeros_like(wanted), even)
        ended(dist.reduce_scatter_tensor, x, laid(torch.stack(mine), even), **how)
        same(x, wanted)


def all_reduced(group, rank, size):
    """all_reduce_coalesced(), and the coalescing manager, where it makes one of many all-reduces."""
    manager = getattr(dist, "_coalescing_manager", None) if hasattr(torch._C._distributed_c10d, "Backend") else None
    for dtype, op in ((torch.float32, "SUM"), (torch.bfloat16, "MAX"), (torch.int64, "AVG")):
        every = [[sample(one, dtype, shape) for one in range(size)] for shape in ((5,), (2, 3), (0, 4), (40, 90))]
        wanted, how = [combined(op, one) for one in every], {"op": getattr(dist.ReduceOp, op), "group": group}
        xs = [laid(one[rank], number % 2 == 0) for number, one in enumerate(every)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it will be deprecated
            count = len(started)
            dist.all_reduce_coalesced(xs, **how)
        assert len(started) == count + 1, started[count:]
        for x, one in zip(xs, wanted):
            same(x, one)
        if manager is None:
            continue
        xs, count = [one[rank].clone() for one in every], len(started)
        with manager(group):
            for x in xs:
                dist.all_reduce(x, **how)
        assert len(started) == count + 1, started[count:]
        for x, one in zip(xs, wanted):
            same(x, one)


def joined(group, rank, size):
    """Lists that the library does not take: with a tensor twice, and of very many tensors. They are one operation."""
    total, x = size * (size + 1) // 2, torch.full((3, 2), rank + 1.0)
    many = torch.full((torch_collectives.PARTS_MAX + 1, 1), rank + 1.0)
    for xs, whole in (([x, torch.ones(0), x, x[1:]], x), (list(many), many)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it will be deprecated
            count = len(started)
            dist.all_reduce_coalesced(xs, group=group)
        assert started[count:] == ["all-reduce"], started[count:]
        same(whole, torch.full_like(whole, total))


def coalesced(group, rank, size):
    """Several tensors in one call; of shapes that differ. All-reduces are one operation."""
    all_reduced(group, rank, size)
    joined(group, rank, size)
    shapes, every = ((5,), (2, 3)), []
    for shape in shapes:
        every.append([sample(one, torch.float32, shape) for one in range(size)])
    if not hasattr(torch._C._distributed_c10d, "Backend"):
        return
    outs, parts = [torch.zeros(size, *shape) for shape in shapes], [torch.zeros(shape) for shape in shapes]
    with dist._coalescing_manager(group):
        for out, x in zip(outs, every):
            dist.all_gather_into_tensor(out, x[rank], group=group)
    with dist._coalescing_manager(group):
        for part, x in zip(parts, every):
            dist.reduce_scatter_tensor(part, torch.stack(x), group=group)
    for out, part, x in zip(outs, parts, every):
        equal(out, torch.stack(x))
        equal(part, x[rank] * size)


def everything(*where):
    """where: the group, this rank in it, its size, and what a rank of it is in the default group."""
    copies(*where)
    all_to_all(*where[:3])
    reductions(*where)
    coalesced(*where[:3])


def test_whole():
    """Everything, in the default group, in a subgroup whose ranks are others, and in groups of one rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everything(None, rank, size, lambda one: one)
    pair, alone = dist.new_group([0, size - 1]), [dist.new_group([one]) for one in range(size)]
    if rank in (0, size - 1):
        everything(pair, int(rank > 0), 2, lambda one: one * (size - 1))
    everything(alone[rank], 0, 1, lambda one: rank)
    dist.barrier()
    x = torch.tensor([float("nan"), -0.0])
    x.view(torch.int32)[0] = 0x7FA12345
    if rank != 1:
        x.zero_()
    dist.broadcast(x, src=1)
    assert x.view(torch.int32).tolist() == [0x7FA12345, -2**31], "copied bit for bit"
    for dtype in (torch.float32, torch.bool):  # no values
        x = torch.zeros(0, 3, dtype=dtype)
        dist.broadcast(x, src=0)
        dist.all_gather([x.clone() for _ in range(size)], x)
    dist.broadcast(torch.nn.Parameter(torch.ones(4, 3).t()), src=0)  # what requires grad
    assert not handed, f"to Gloo: {handed}"


def test_objects():
    """Collectives of objects; calls that only Gloo has, and its errors."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "text": "x" * (100 * rank)}
    found = [None] * size
    dist.all_gather_object(found, mine)
    assert [one["rank"] for one in found] == list(range(size)) and len(found[2]["text"]) == 200
    given = [{"a": 1}, "b"] if rank == 1 else [None, None]
    dist.broadcast_object_list(given, src=1)
    assert given == [{"a": 1}, "b"]
    found = [None] * size if rank == 2 else None
    dist.gather_object(mine, found, dst=2)
    assert found is None or [one["rank"] for one in found] == list(range(size))
    found = [None]
    dist.scatter_object_list(found, [{"for": one} for one in range(size)] if rank == 0 else None, src=0)
    assert found == [{"for": rank}]
    assert not handed, f"to Gloo: {handed}"
    bits = torch.tensor([rank + 1, 6])
    if rank == 0:
        barrier = dist.barrier(async_op=True)
        time.sleep(DELAY_S)
        dist.all_reduce(bits, op=dist.ReduceOp.BOR)
        barrier.wait()
    else:
        work = dist.all_reduce(bits, op=dist.ReduceOp.BOR, async_op=True)
        dist.barrier()
        assert work.get_future().done(), "a barrier ends after what was called before it"
    assert bits.tolist() == [3, 6]
    received = torch.zeros(3)
    ahead = dist.irecv(received, (rank - 1) % size)
    dist.barrier()  # not after this, of course
    dist.send(torch.full((3,), float(rank)), (rank + 1) % size)
    ahead.wait()
    assert received.tolist() == [(rank - 1) % size] * 3
    assert handed == ["allreduce"], handed
    messages(rank, size)
    refusals(size)


def messages(rank, size):
    """Messages of many dtypes and shapes, of no values, in flight together, and what ends that differ are told."""
    following, before = (rank + 1) % size, (rank - 1) % size
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64, torch.float64):
        given = (torch.arange(6).reshape(2, 3) + rank).to(dtype).t()  # not contiguous
        taken = torch.zeros(3, 2).to(dtype)
        work = dist.isend(given, following, tag=7)
        dist.recv(taken, before, tag=7)
        work.wait()
        assert torch.equal(taken, (torch.arange(6).reshape(2, 3) + before).to(dtype).t()), (dtype, taken)
    works = [dist.isend(torch.zeros(0, 3), following)]
    dist.recv(torch.zeros(0, 3), before)
    many = [torch.zeros(100 + one) for one in range(MANY // 2)]
    works += [dist.irecv(one, before) for one in many]
    works += [dist.isend(torch.full_like(one, float(len(one) + rank)), following) for one in many]
    for work in works:
        work.wait()
    assert all((one == len(one) + before).all() for one in many)
    dist.barrier()
    if rank < 2:
        try:
            (dist.send if rank == 0 else dist.recv)(torch.zeros(3), 1 - rank, tag=rank)
            raise AssertionError("ends with other tags agree")
        except RuntimeError as error:
            assert "rank 0 sends 12 bytes" in str(error) and "torch.float32, tag 1" in str(error), error
    assert refused(dist.recv, torch.zeros(1)) == RuntimeError, "from any source"
    dist.barrier()
    assert handed == ["allreduce"], handed


def refused(call, *arguments, **more):
    """The error of a call that fails before anything is sent; None: there is none."""
    try:
        call(*arguments, **more)
        return None
    except (RuntimeError, TypeError, ValueError) as error:
        assert not isinstance(error, OSError), error
        return type(error)


def refusals(size):
    """Tensors that cannot travel are Gloo's, with its errors; where Gloo of old has no call, the errors are NCCL's."""
    gloo = dist.new_group(backend="gloo")
    for call, arguments in ((dist.all_reduce, (torch.ones(3, dtype=torch.bool),)),
                            (dist.all_reduce, (torch.ones(3, dtype=torch.int16),)),
                            (dist.reduce, (torch.ones(3, dtype=torch.int16), 0)),
                            (dist.all_gather, ([torch.ones(2)] * size, torch.ones(3))),
                            (dist.broadcast, (torch.ones(3).to_sparse(), 0))):
        found = [refused(call, *arguments, group=group) for group in (None, gloo)]
        assert found[0] == found[1], (call, found)
    assert refused(dist.all_reduce, torch.ones(3, dtype=torch.int16)) is not None
    for wanted, call, arguments in (
            (ValueError, dist.all_gather_into_tensor, (torch.ones(4), torch.ones(3))),
            (TypeError, dist.all_gather_into_tensor, (torch.ones(3 * size), torch.ones(3).int())),
            (ValueError, dist.reduce_scatter_tensor, (torch.ones(3), torch.ones(4)))):
        assert refused(call, *arguments) == wanted, call
    dist.barrier()


def test_works():
    """Works and futures are Gloo's; many are in flight together; waits end in time, and the operation goes on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    for group in (gloo, None):
        x = torch.full((4,), float(rank))
        outs = [torch.zeros(4) for _ in range(size)]
        works = [dist.broadcast(x, 0, group=group, async_op=True),
                 dist.all_gather(outs, torch.full((4,), float(rank)), group=group, async_op=True),
                 dist.scatter(torch.zeros(2), [torch.ones(2)] * size if rank == 0 else None, 0, group=group,
                              async_op=True)]
        for work, results in zip(works, (1, size, 1)):
            assert len(work.get_future().wait()) == results, work
            work.wait()
            if not hasattr(torch._C._distributed_c10d, "Backend"):  # today's work of a group in Python has no results
                assert work.is_completed() and work.is_success() and len(work.result()) == results, work
        assert works[0].get_future().value()[0].tolist() == [0] * 4
        assert [one.tolist() for one in works[1].get_future().value()] == [[one] * 4 for one in range(size)]
        dist.barrier(group=group, async_op=True).wait()
    xs = [torch.full((1 + one % 50,), float(rank + one)) for one in range(MANY)]
    works = []
    for one, x in enumerate(xs):
        works.append(dist.broadcast(x, one % size, async_op=True) if one % 2 else dist.all_reduce(x, async_op=True))
    for one, x in enumerate(xs):
        works[one].wait()
        wanted = one % size + one if one % 2 else sum(range(size)) + size * one
        assert x.tolist() == [wanted] * len(x), (one, wanted, x)
    dist.barrier()
    x = torch.full((1000,), float(rank))
    if rank == 0:
        dist.barrier(gloo)
    work = dist.broadcast(x, 0, async_op=True)
    if rank != 0:
        try:
            work.wait(timedelta(seconds=SHORT_S))
            raise AssertionError("wait() returned")
        except RuntimeError as error:
            assert "broadcast is not over" in str(error), error
        dist.barrier(gloo)
    work.wait()
    assert not x.any()
    full_queue()
    threads(rank, size)


def full_queue():
    """A call for which the library has no room yet is made as soon as it has."""
    broadcast, refusals_left = torch_collectives.Calls.broadcast, [2]

    def full(self, *arguments):
        if refusals_left[0] == 0:
            return broadcast(self, *arguments)
        refusals_left[0] -= 1
        raise heddle.Error(errno.EAGAIN)

    torch_collectives.Calls.broadcast = full
    x = torch.full((5,), float(dist.get_rank()))
    dist.broadcast(x, 1)
    assert x.tolist() == [1] * 5 and refusals_left == [0], (x, refusals_left)
    torch_collectives.Calls.broadcast = broadcast


def threads(rank, size):
    groups, found = [dist.new_group() for _ in range(3)], [None] * 3

    def gather(index):
        for _ in range(5):
            outs = [torch.zeros(1000) for _ in range(size)]
            dist.all_gather(outs, torch.full((1000,), float(10 * index + rank)), group=groups[index])
        found[index] = [float(one[-1]) for one in outs]

    running = [threading.Thread(target=gather, args=(index,)) for index in range(3)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert found == [[10 * index + one for one in range(size)] for index in range(3)], found


def test_mismatch():
    """Each pair of calls that differ is an error of all ranks, with both in words; the next call is good."""
    rank, size = dist.get_rank(), dist.get_world_size()
    other = rank == 1
    xs = [torch.zeros(8) for _ in range(size)]
    for said, call in (
            ("1200 bytes", lambda: dist.broadcast(torch.ones(300 if other else 200), 0)),
            ("torch.bool", lambda: dist.broadcast(torch.ones(8, dtype=torch.bool if other else torch.uint8), 0)),
            ("root", lambda: dist.broadcast(torch.ones(8), 1 if other else 0)),
            ("barrier", lambda: dist.barrier() if other else dist.all_gather(xs, torch.ones(8))),
            ("fp64", lambda: dist.all_reduce(torch.ones(8, dtype=torch.float64 if other else torch.float32))),
            ("max", lambda: dist.all_reduce(torch.ones(8), dist.ReduceOp.MAX if other else dist.ReduceOp.SUM)),
            ("no values", lambda: dist.broadcast(torch.ones(0 if other else 8), 0))):
        try:
            call()
            raise AssertionError(f"{said}: no error")
        except RuntimeError as error:
            assert isinstance(error, heddle.torch.GroupError), error
            assert "mismatch" in str(error) and said in str(error), (said, error)
        x = torch.full((3,), float(rank))
        dist.all_reduce(x)
        assert x.tolist() == [sum(range(size))] * 3, said
    assert not handed, handed


def test_death():
    """A rank is killed: collectives of the others fail soon, and say how many are left."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    if rank == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    outs = [torch.zeros(9) for _ in range(size)]
    for call in (lambda: dist.all_gather(outs, torch.ones(9)), lambda: dist.broadcast(torch.ones(9), 0),
                 lambda: dist.reduce(torch.ones(9), 0), dist.barrier, lambda: dist.broadcast(torch.ones(9), DIES)):
        began = time.monotonic()
        try:
            call()
            print("no error", flush=True)
        except RuntimeError as error:
            assert f"{size - 1} of {size} members" in str(error) or f"root, rank {DIES}, is lost" in str(error), error
            assert time.monotonic() - began < PATIENCE_S
    assert not handed, handed
    print("an error each", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


def main():
    torch.set_num_threads(1)
    count_gloo()
    count_started()
    dist.init_process_group("heddle")
    globals()[f"test_{sys.argv[1]}"]()
    dist.barrier()
    print("all as it must be", flush=True)
    dist.destroy_process_group()


main()
