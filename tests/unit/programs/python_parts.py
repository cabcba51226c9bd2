# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_collectives.py: all-to-alls whose parts have different sizes.

usage: python_parts.py TEST   (environment of torchrun)"""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import heddle.torch
from heddle import torch_parts
from torch_samples import COPIED, cases, count_gloo, ended, equal, handed, laid, sample

DIES, PATIENCE_S, STEPS = 1, 100, 30


def counts(kind, size):
    """[giver][taker], of an all-to-all: of a few more or fewer; some of none; only on the diagonal; of none at all; and
    of one giver and one taker alone, whose blocks would be more than PADDING_MAX times as much, from 4 ranks on."""
    return [[{"uneven": 1 + (3 * giver + 5 * taker) % 4, "holes": (giver + taker) % 3, "own": 3 * (giver == taker),
              "none": 0, "one": 50 * (giver == 0 and taker == size - 1)}[kind] for taker in range(size)]
            for giver in range(size)]


def parts(group, rank, size):
    """All-to-alls with split sizes, and of lists. Each value says which giver, taker and place it is from."""
    for number, (dtype, shape, even) in enumerate(cases(COPIED)):
        table = counts(("uneven", "holes", "own", "none", "one")[number % 5], size)
        every = [[sample(giver, dtype, (count, *shape), 10 * taker) for taker, count in enumerate(row)]
                 for giver, row in enumerate(table)]
        mine, wanted = every[rank], [row[rank] for row in every]
        x, how = laid(torch.zeros_like(torch.cat(wanted)), even), {"group": group, "wait_for": even}
        ended(dist.all_to_all_single, x, laid(torch.cat(mine), even), [len(one) for one in wanted],
              [len(one) for one in mine], **how)
        equal(x, torch.cat(wanted))
        outs = [laid(torch.zeros_like(one), even) for one in wanted]
        ended(dist.all_to_all, outs, [laid(one, even) for one in mine], **how)
        for found, one in zip(outs, wanted):
            equal(found, one)
    x, y = torch.arange(2 * size), torch.zeros(2 * size, dtype=torch.int64)
    ended(dist.all_to_all_single, y, x + 100 * rank, [2] * size, None, group=group)  # the sizes of one side are equal
    equal(y, torch.cat([100 * one + x[2 * rank:2 * rank + 2] for one in range(size)]))


def test_whole():
    """In the default group, in a subgroup whose ranks are others, and in a group of one rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts(None, rank, size)
    pair, alone = dist.new_group([0, size - 1]), [dist.new_group([one]) for one in range(size)]
    if rank in (0, size - 1):
        parts(pair, int(rank > 0), 2)
    parts(alone[rank], 0, 1)
    assert not handed, f"to Gloo: {handed}"


def to_all(splits, dtype=torch.float32, expects=None):
    size = dist.get_world_size()
    dist.all_to_all_single(torch.zeros(size, dtype=dtype), torch.ones(size, dtype=dtype), expects or splits, splits)


def count_ways():
    """Which way each second step goes."""
    found = []
    for name in ("_in_blocks", "_over_gloo"):
        def noted(self, *arguments, name=name, way=getattr(torch_parts.Parts, name)):
            found.append(name)
            return way(self, *arguments)

        setattr(torch_parts.Parts, name, noted)
    return found


def test_order():
    """How many times as much blocks may be. Calls between an all-to-all's two steps do not meet the second one, in
    either way of it, nor do the user's messages."""
    rank, size = dist.get_rank(), dist.get_world_size()
    assert torch_parts.fits([[0, 9, 9], [9, 0, 9], [9, 9, 99]]) and torch_parts.fits([[0, 9, 0]] + [[0] * 3] * 2)
    assert not torch_parts.fits([[0, 9, 0, 0]] + [[0] * 4] * 3) and torch_parts.fits([[0, 9, 9, 0]] + [[0] * 4] * 3)
    table, ways = counts("one", size), count_ways()
    for limit in (2, 1):  # 1: at 3 ranks, what else needs 4
        torch_parts.PADDING_MAX, works, sums = limit, [], []
        for step in range(STEPS):
            x, y = torch.full((sum(table[rank]),), float(step)), torch.zeros(sum(row[rank] for row in table))
            works.append((step, y, dist.all_to_all_single(y, x, [row[rank] for row in table], table[rank],
                                                          async_op=True)))
            sums.append(torch.full((5,), float(step)))
            works.append((size * step, sums[-1], dist.all_reduce(sums[-1], async_op=True)))
            z = torch.full((3,), float(step)) if rank == 0 else torch.zeros(3)
            if rank in (0, size - 1):
                (dist.send if rank == 0 else dist.recv)(z, size - 1 - rank)
                assert z.tolist() == [step] * 3
        for wanted, found, work in works:
            work.wait()
            assert bool((found == wanted).all()), (limit, wanted, found)
        assert not set(handed) - {"send", "recv"}, handed
    assert ways == ["_in_blocks"] * STEPS + ["_over_gloo"] * STEPS, ways


def test_mismatch():
    """An error of all ranks, in words; the next call is good."""
    rank, size = dist.get_rank(), dist.get_world_size()
    other, uneven = rank == 1, [1] + [0] * (size - 2) + [size - 1]
    for said, call in (
            ("all-to-all of parts", lambda: to_all(None if other else [1] * size)),
            ("parts, torch.float64", lambda: to_all([1] * size, torch.float64 if other else torch.float32)),
            ("rank 0 gives 0 values to rank 1, which expects 1",
             lambda: to_all(uneven if rank == 0 else [1] * size, expects=[1] * size))):
        try:
            call()
            raise AssertionError(f"{said}: no error")
        except RuntimeError as error:
            assert isinstance(error, heddle.torch.GroupError) and said in str(error), (said, error)
        to_all([1] * size)


def test_death():
    """A rank is killed between the two steps, before it has joined the second one's job: an error of the others. `late`
    where the dead one still had to send a part of the first step's result, which another rank has."""
    size, began = dist.get_world_size(), time.monotonic()
    if dist.get_rank() == DIES:
        torch_parts.Parts.exchange = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    for words in (f"not all of {size} members are left", f"of {size} members are left"):  # 1, where the other has ended
        try:
            to_all([1] * size)
            print("no error", flush=True)
        except RuntimeError as error:
            assert isinstance(error, heddle.torch.GroupError), error
            assert words in str(error) or str(error).endswith("failed: late"), error
            assert time.monotonic() - began < PATIENCE_S
    print("an error each", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


torch.set_num_threads(1)
count_gloo()
dist.init_process_group("heddle")
globals()[f"test_{sys.argv[1]}"]()
dist.barrier()
print("all as it must be", flush=True)
dist.destroy_process_group()
