# SPDX-License-Identifier: BSD-3-Clause
"""Parts of python_worker.py: collectives of many arrays as one operation."""
import array

import numpy

import heddle
from python_exchange import PATIENCE_S, raised

SHAPES = ((3, 4), (0, 7), (1,), (50, 60), (2, 2, 2), (20000,))
ROUNDS = 20


def arrays(rank, kind=numpy.float32, step=0):
    return [((numpy.arange(numpy.prod(shape)) + 10 * number + step) % 50 + rank + 1).astype(kind).reshape(shape)
            for number, shape in enumerate(SHAPES)]


def sums(world, kind=numpy.float32, step=0):
    return [sum(each[1:], each[0]) for each in zip(*(arrays(rank, kind, step) for rank in range(world)))]


def same(found, wanted):
    return all(x.shape == y.shape and x.dtype == y.dtype and (x == y).all() for x, y in zip(found, wanted))


def many(job):
    """In flight together, also dropped tickets; nothing is written beside the arrays."""
    world, lists = job.world_size, [arrays(job.rank, step=step) for step in range(ROUNDS)]
    tickets = [job.allreduce_list_start(one, exact=world) for one in lists]
    for step, (one, ticket) in enumerate(zip(lists, tickets)):
        assert ticket.wait(PATIENCE_S).workers == world and ticket.members() == tuple(range(world))
        assert same(one, sums(world, step=step)), step
    for step in range(ROUNDS):
        job.allreduce_list_start(arrays(job.rank, step=step))
    rows = numpy.full((5, 1000), float(job.rank))
    assert job.allreduce_list(rows[::2], timeout=PATIENCE_S).workers == world  # the rows of a matrix
    assert (rows[::2] == sum(range(world))).all() and (rows[1::2] == job.rank).all()


def rooted(job):
    rank, world = job.rank, job.world_size
    for root in range(world):
        for kind in (numpy.float32, numpy.int64):
            x = arrays(rank, kind)
            job.reduce_list(x, root, exact=world, timeout=PATIENCE_S)
            assert same(x, sums(world, kind) if rank == root else arrays(rank, kind))
            job.broadcast_list(x, root, exact=world, timeout=PATIENCE_S)
            assert same(x, sums(world, kind))
    given = numpy.frombuffer(bytes(range(8)), dtype=numpy.float32)  # read-only
    x = [numpy.zeros(1, dtype=numpy.float32), numpy.zeros(1, dtype=numpy.float32)]
    job.broadcast_list([given] if rank == 0 else x, 0, timeout=PATIENCE_S)
    assert rank == 0 or b"".join(one.tobytes() for one in x) == bytes(range(8))
    given = numpy.arange(1000, dtype=numpy.float32) + 0.25  # its elements are scalars, each a read-only buffer
    x = numpy.zeros(1000, dtype=numpy.float32)
    job.broadcast_list(given if rank == 0 else [x], 0, timeout=PATIENCE_S)
    assert rank == 0 or (x == given).all(), x


def differ(job):
    """Lists that do not match are left as they were, with both totals in words; the next call is matched."""
    rank, world = job.rank, job.world_size
    total = sum(map(numpy.size, arrays(rank)))
    x = [*arrays(rank), numpy.ones(1, dtype=numpy.float32)][:None if rank == 1 else -1]
    wrong = raised(heddle.OperationFailed, "mismatch", job.allreduce_list, x, tag="sums", timeout=PATIENCE_S)
    assert f"{4 * total} bytes" in str(wrong) and f"{4 * total + 4} bytes" in str(wrong), wrong
    assert same(x, arrays(rank))
    one = numpy.concatenate([each.ravel() for each in arrays(rank)])
    if rank == 1:  # one array, where the others give many
        job.allreduce(one, timeout=PATIENCE_S)
        assert (one == numpy.concatenate([each.ravel() for each in sums(world)])).all()
    else:
        x = arrays(rank)
        job.allreduce_list(x, timeout=PATIENCE_S)
        assert same(x, sums(world))


def mistakes(job):
    x = numpy.ones(8, dtype=numpy.float32)
    raised(ValueError, "contiguous", job.allreduce_list, [x, numpy.ones((4, 4), dtype=numpy.float32).T[1:]])
    raised(ValueError, "read-only", job.allreduce_list, [x, numpy.frombuffer(bytes(8), dtype=numpy.float32)])
    raised(ValueError, "fp32 and int64", job.allreduce_list, [x, numpy.ones(3, dtype=numpy.int64)])
    raised(TypeError, "'Zd'", job.allreduce_list, [x, numpy.ones(3, dtype=complex)])
    raised(TypeError, "neither an array", job.allreduce_list, [x, None])
    raised(TypeError, "iter", job.allreduce_list, 7)
    raised(ValueError, "the list is empty", job.allreduce_list, [])
    raised(ValueError, "are empty", job.allreduce_list, [x[:0], x[:0]])
    raised(heddle.Error, "0 and 2 overlap", job.allreduce_list, [x[:5], x[5:5], x[4:]])
    raised(heddle.Error, "overlap", job.allreduce_list, [x, x])
    raised(heddle.Error, "root: -1", job.broadcast_list, [x], -1)
    raised(ValueError, "sum, average", job.allreduce_list, [x], op="mean")
    assert (x == 1).all()


def test_lists(job):
    """Arrays of many shapes, some empty, of each type; the options and errors of the calls of one array."""
    world = job.world_size
    for kind in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64"):
        x = arrays(job.rank, kind)
        status = job.allreduce_list(x, timeout=PATIENCE_S)
        assert (status.workers, status.bytes) == (world, sum(one.nbytes for one in x)) and same(x, sums(world, kind))
    x = [array.array("f", [job.rank, 1.0]), numpy.full(3, 2 * job.rank, dtype=numpy.float32)]
    job.allreduce_list(x, op="average", ranked=True, payload="bf16", tag="mean", timeout=PATIENCE_S)
    assert list(x[0]) == [(world - 1) / 2, 1.0] and (x[1] == world - 1).all(), x
    many(job)
    rooted(job)
    differ(job)
    mistakes(job)
    job.barrier(exact=world, timeout=PATIENCE_S)
