# SPDX-License-Identifier: BSD-3-Clause
"""Parts of python_worker.py: messages from one worker to another, and the newest state of a job."""
import asyncio
import errno
import time

import numpy

import heddle

VALUES, PATIENCE_S = 50000, 20
MANY = 20  # messages of a worker to another, at once


def raised(kind, words, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind as error:
        assert words in str(error), f"{error!r} does not say {words!r}"
        return error
    raise AssertionError(f"no {kind.__name__}")


async def passes_on(job):
    """A message around the ring, by coroutines."""
    x = numpy.full(VALUES, -1, dtype=numpy.int64)
    if job.rank == 0:
        x[:] = 0
        await job.send_start(x, 1)
    await job.recv_start(x, (job.rank - 1) % job.world_size)
    x += 1
    if job.rank != 0:
        await job.send_start(x, (job.rank + 1) % job.world_size)
    assert (x == (job.rank or job.world_size)).all(), x


def test_sends(job):
    """Around a ring, in both directions at once, beside collectives; of many types, and many in flight."""
    rank, world = job.rank, job.world_size
    following, before = (rank + 1) % world, (rank - 1) % world
    for kind in (numpy.float32, numpy.float64, numpy.int8, numpy.uint8, numpy.int64):
        x, y = (numpy.arange(VALUES) % 100).astype(kind) + kind(rank), numpy.zeros(VALUES, dtype=kind)
        ticket = job.recv_start(y, before, tag="ring")
        status = job.send(x, following, tag="ring", timeout=PATIENCE_S)
        assert (status.state, status.workers) == ("applied", 2), status
        assert ticket.wait(PATIENCE_S).bytes == x.nbytes and (y == x - kind(rank) + kind(before)).all()
        assert ticket.members() == tuple(sorted((rank, before)))
    bits = numpy.frombuffer(b"\x01\x00\xa0\x7f\x00\x00\x00\x80", dtype=numpy.float32)  # a signaling NaN, and -0
    got = numpy.zeros_like(bits)
    if rank == 0:
        job.send(bits, 1, timeout=PATIENCE_S)
    elif rank == 1:
        job.recv(got, 0, timeout=PATIENCE_S)
        assert got.tobytes() == bits.tobytes()
    many = numpy.zeros((MANY, 2, VALUES), dtype=numpy.int32)  # the k-th with the k-th, whatever is called in between
    tickets = [job.recv_start(many[k, 0], before) for k in range(MANY)]
    tickets += [job.recv_start(many[k, 1], following) for k in range(MANY)]
    x = numpy.ones(VALUES, dtype=numpy.int32)
    job.allreduce(x, exact=world, timeout=PATIENCE_S)
    for k in range(MANY):
        tickets += [job.send_start(numpy.full(VALUES, 1000 * rank + k, dtype=numpy.int32), to)
                    for to in (before, following)]
    for ticket in tickets:
        assert ticket.wait(PATIENCE_S).state == "applied"
    for k in range(MANY):
        assert (many[k, 0] == 1000 * before + k).all() and (many[k, 1] == 1000 * following + k).all(), k
    asyncio.run(passes_on(job))
    if rank < 2:
        wrong = raised(heddle.OperationFailed, "mismatch", job.send if rank else job.recv, x[:rank + 1], 1 - rank,
                       timeout=PATIENCE_S)
        assert "rank 1 sends 8 bytes of int32" in str(wrong) and "rank 0 receives 4 bytes" in str(wrong), wrong
        y = numpy.zeros(1, dtype=numpy.int32)  # they are matched as before
        job.send(x[:1], 0, timeout=PATIENCE_S) if rank else job.recv(y, 1, timeout=PATIENCE_S)
        assert rank or y[0] == x[0]
    raised(heddle.Error, "own rank", job.send, x, rank)
    raised(heddle.Error, "from: -1", job.recv, x, -1)
    lost = raised(heddle.OperationFailed, "peer", job.recv, x, world + 7, timeout=PATIENCE_S)
    assert lost.status.reason == "peer" and f"rank {world + 7} is lost" in str(lost), lost
    if rank == 0:  # no worker sends
        raised(heddle.TimedOut, "", job.recv, x, 2, timeout=0.1)
    job.barrier()
    if rank == 2:
        lost = raised(heddle.OperationFailed, "peer", job.send, x, 0, timeout=PATIENCE_S)
        assert "rank 0 has given it up" in str(lost), lost
    job.barrier()


def test_state(job):
    """The newest one comes in place; those that have it keep it; what differs is named; who comes first waits."""
    rank, world = job.rank, job.world_size
    x, y = numpy.full(VALUES, rank, dtype=numpy.float64), bytearray([rank] * 10)
    more = {"part_bytes": 90001, "timeout": PATIENCE_S}
    assert job.share_state({"x": x, "y": y}, 5 + rank, **more) == 4 + world
    assert (x == world - 1).all() and y == bytes([world - 1] * 10)
    assert job.share_state({"x": x, "y": y}, 4 + world, exact=world, **more) == 4 + world
    x[:] = rank
    assert job.share_state({"x": x}, 9 if rank == 1 else None, **more) == 9
    assert (x == 1).all()
    x[:] = rank
    assert job.share_state({"x": x}, 0, **more) == 0
    assert (x == 0).all()  # of initial ones that of the lowest rank
    error = raised(heddle.Error, f"none of {world} workers has a state", job.share_state, {"x": x}, None, **more)
    assert error.errno == errno.ENODATA
    name = "z" if rank == 1 else "y"
    error = raised(heddle.OperationFailed, f'item 1, which is "{name}" of 10 bytes', job.share_state,
                   {"x": x, name: y}, 1, **more)
    assert error.status.reason == "mismatch", error.status
    raised(heddle.OperationFailed, "1 items here, and 2 at another" if rank == 1 else "item 1", job.share_state,
           {"x": x} if rank == 1 else {"x": x, "y": y}, 1, **more)
    raised(heddle.OperationFailed, "part_bytes", job.share_state, {"x": x}, 1, part_bytes=100 + rank,
           timeout=PATIENCE_S)
    raised(ValueError, "version: -1", job.share_state, {"x": x}, -1)
    raised(TypeError, "x: float is neither", job.share_state, {"x": 1.0}, 1)
    x[:] = rank
    if rank == 0:
        assert job.share_state({"x": x}, 4, **more) == 7
    else:
        for _ in range(5):
            status = job.allreduce(numpy.ones(10), timeout=PATIENCE_S)
            assert (status.workers, status.waiting) == (world - 1, 1), status
        assert job.share_state({"x": x}, 7, **more) == 7
    assert (x == (1 if rank == 0 else rank)).all()  # the others have the same version, and may have other bits
    status = job.barrier(timeout=PATIENCE_S)
    assert (status.workers, status.waiting) == (world, 0), status
    if rank == 0:  # the others do not come
        raised(heddle.TimedOut, "not in time", job.share_state, {"x": x}, 7, timeout=0.2)
        job.close()
    ends = time.monotonic() + PATIENCE_S
    while rank > 0 and 0 in job.members().ranks:
        assert time.monotonic() < ends, job.members()
        time.sleep(0.01)
