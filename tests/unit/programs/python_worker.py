# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python.py. usage: python_worker.py TEST   (environment of heddle-run)"""
import array
import asyncio
import ctypes
import errno
import gc
import logging
import math
import os
import signal
import sys
import threading
import time

import numpy

import heddle
from heddle import native
from python_exchange import PATIENCE_S, VALUES, raised, test_sends, test_state  # noqa: F401: main() finds them
from python_lists import test_lists  # noqa: F401

ROUNDS = 20


def patient(collective):
    """Calls wait for all workers, however slow one of them is, unless they say for how long."""
    def called(self, *arguments, wait=None, **more):
        return collective(self, *arguments, wait=math.inf if wait is None else wait, **more)

    return called


def values(rank, step=0):
    return numpy.arange(VALUES, dtype=numpy.float32) % 97 + 1000 * rank + step


def total(world, step=0):
    return sum(values(rank, step) for rank in range(world))


def test_sums(job):
    x = values(job.rank)
    status = job.allreduce(x, timeout=PATIENCE_S)
    assert status.state == "applied" and status.workers == job.world_size, status
    assert (x == total(job.world_size)).all()
    tickets = []
    for step in range(ROUNDS):  # in flight together; into another buffer
        out = numpy.zeros(VALUES, dtype=numpy.float32)
        tickets.append((job.allreduce_start(values(job.rank, step), out), out))
    for step, (ticket, out) in enumerate(tickets):
        assert ticket.wait(PATIENCE_S).workers == job.world_size
        assert ticket.done() and not ticket.cancel()
        assert (out == total(job.world_size, step)).all()
    mean = array.array("f", [job.rank, 1.0])
    job.allreduce(mean, op="average", ranked=True, timeout=PATIENCE_S)
    assert list(mean) == [(job.world_size - 1) / 2, 1.0]
    half = numpy.full(10, job.rank + 0.5, dtype=numpy.float32)
    job.allreduce(half, payload="fp16", timeout=PATIENCE_S)
    assert (half == sum(rank + 0.5 for rank in range(job.world_size))).all()
    for step in range(ROUNDS):  # dropped tickets keep their memory until the sum is there
        job.allreduce_start(values(job.rank, step))
        gc.collect()
    x = values(job.rank)
    job.allreduce(x, timeout=PATIENCE_S)
    assert (x == total(job.world_size)).all()


def test_types(job):
    """Each type with each operation, in place and into another array, beside numpy."""
    types = ("float32", "float16", "float64", "int8", "uint8", "int32", "int64", "long", "longlong", "<i4")
    for kind in types:
        for op, ours in (("sum", numpy.add), ("min", numpy.minimum), ("max", numpy.maximum),
                         ("product", numpy.multiply)):
            given = [(numpy.arange(5000) * 7 + 13 * rank) % 5 + 1 for rank in range(job.world_size)]
            given = [(x * 37 if numpy.dtype(kind).kind in "iu" else x).astype(kind) for x in given]  # 8 bits wrap
            wanted = given[0]
            for more in given[1:]:
                wanted = ours(wanted, more)
            out = numpy.zeros_like(wanted)
            job.allreduce(given[job.rank].copy(), out, op=op, timeout=PATIENCE_S)
            x = given[job.rank].copy()
            status = job.allreduce(x, op=op, timeout=PATIENCE_S)
            assert status.bytes == x.nbytes and x.dtype == wanted.dtype
            assert (x == wanted).all() and (out == wanted).all(), (kind, op)
        x = numpy.full(10, 3 * job.rank, dtype=kind)
        job.allreduce(x, op="average", timeout=PATIENCE_S)
        assert (x == 3 * (job.world_size - 1) // 2).all(), (kind, x)
    x = bytearray([1, 2, 250])  # a buffer of uint8
    job.allreduce(x, op="max", timeout=PATIENCE_S)
    assert x == bytes([1, 2, 250])
    x = numpy.array([float(job.rank), numpy.nan if job.rank == 1 else 1.0])
    job.allreduce(x, op="min", timeout=PATIENCE_S)
    assert x[0] == 0 and numpy.isnan(x[1])


def test_groups(job):
    """The last two in another order, the first one alone, and all of them: each has its own calls and ranks."""
    rank, last = job.rank, job.world_size - 1
    ranks = [0] if rank == 0 else list(range(last, 0, -1))
    with job.group("part", ranks) as part, job.group("all", range(job.world_size)) as everybody:
        assert (part.rank, part.world_size, part.values) == (ranks.index(rank), len(ranks), 0)
        x = numpy.full(VALUES, rank, dtype=numpy.int32)
        assert part.allreduce(x, exact=len(ranks), timeout=PATIENCE_S).workers == len(ranks)
        assert (x == sum(ranks)).all()
        assert part.broadcast(x, 0, exact=len(ranks), timeout=PATIENCE_S).workers == len(ranks)
        assert everybody.barrier(exact=job.world_size, timeout=PATIENCE_S).workers == job.world_size
    raised(ValueError, "closed", part.barrier)
    raised(heddle.Error, "is missing", job.group, "part", [rank + 1])
    raised(heddle.Error, "is there twice", job.group, "part", [rank, rank])
    raised(ValueError, "out of range", job.group, "part", [rank, 2 ** 32 + 1])
    raised(heddle.Error, "count: 0", job.group, "part", [])
    assert job.barrier(exact=job.world_size, timeout=PATIENCE_S).workers == job.world_size


def test_collectives(job):
    """Each of them, of a number of values that the workers do not divide, and of copies that are no sums."""
    rank, world = job.rank, job.world_size
    every = [numpy.arange(VALUES, dtype=numpy.int32) * (one + 1) for one in range(world)]
    mine, parts = every[rank], [heddle.block(VALUES, one, world) for one in range(world)]
    assert [value for part in parts for value in part] == list(range(VALUES))
    for exact in (0, world):
        for root in range(world):
            x = mine.copy()
            assert job.broadcast(x, root, exact=exact, timeout=PATIENCE_S).workers == world
            assert (x == every[root]).all()
            out = numpy.zeros_like(mine)
            job.reduce(mine, root, out, op="max", exact=exact, timeout=PATIENCE_S)
            assert (out == (every[-1] if rank == root else 0)).all()
            x = mine.copy()
            job.reduce(x, root, exact=exact, timeout=PATIENCE_S)
            assert (x == (sum(every) if rank == root else mine)).all()
            out = numpy.zeros((world, VALUES), dtype=numpy.int32) if rank == root else None
            job.gather(mine, root, out, exact=exact, timeout=PATIENCE_S)
            assert rank != root or (out == every).all()
            out = numpy.zeros(VALUES // world + 1, dtype=numpy.int32)
            job.scatter(mine if rank == root else None, out, root, count=VALUES, exact=exact, timeout=PATIENCE_S)
            assert (out[:len(parts[rank])] == every[root][parts[rank].start:parts[rank].stop]).all()
        out = numpy.zeros((world, VALUES), dtype=numpy.int32)
        ticket = job.allgather_start(mine, out, exact=exact)
        assert ticket.wait(PATIENCE_S).workers == world and ticket.members() == tuple(range(world))
        assert (out == every).all()
        out = numpy.zeros(VALUES // world + 1, dtype=numpy.int32)
        job.reduce_scatter(mine, out, exact=exact, timeout=PATIENCE_S)
        assert (out[:len(parts[rank])] == sum(every)[parts[rank].start:parts[rank].stop]).all()
        out = numpy.zeros(world * (VALUES // world + 1), dtype=numpy.int32)
        job.alltoall(mine, out, exact=exact, timeout=PATIENCE_S)
        wanted = numpy.concatenate([one[parts[rank].start:parts[rank].stop] for one in every])
        assert (out[:len(wanted)] == wanted).all()
        assert job.barrier(exact=exact, tag="end", timeout=PATIENCE_S).workers == world
    some = numpy.zeros(world, dtype=numpy.int32)
    job.scatter(numpy.arange(2 * world, dtype=numpy.int32) if rank == 1 else None, some[:2], 1, exact=world,
                timeout=PATIENCE_S)
    assert some.tolist() == [2 * rank, 2 * rank + 1, 0]
    refused = raised(heddle.OperationFailed, "mismatch", job.barrier, tag="a" if rank else "b", timeout=PATIENCE_S)
    assert refused.status.reason == "mismatch" and 'tag "b"' in str(refused) and 'tag "a"' in str(refused), refused
    ticket = job.barrier_start(exact=world - 1)
    assert raised(heddle.OperationFailed, "members", ticket.wait, PATIENCE_S).status.reason == "members"
    raised(heddle.Error, "not applied", ticket.members)
    refused = raised(heddle.OperationFailed, "refused", job.allgather, some, some.copy(), timeout=PATIENCE_S)
    raised(ValueError, "needs 9", job.allgather, some, some.copy(), exact=world)
    raised(ValueError, "needs 2", job.reduce_scatter, numpy.zeros(4), numpy.zeros(1), exact=world)
    raised(ValueError, "needs 6", job.alltoall, numpy.zeros(4), numpy.zeros(5), exact=world)
    raised(ValueError, "needs 3", job.reduce, some, rank, some[:2].copy())
    raised(ValueError, "out of type fp64", job.gather, some, rank, numpy.zeros(9))
    raised(ValueError, "count is 9", job.scatter, some, some.copy(), rank, count=9)
    raised(TypeError, "NoneType", job.gather, some, rank)
    raised(heddle.Error, "root", job.broadcast, some, -1)
    raised(heddle.Error, "tag", job.barrier, tag="x" * 64)
    raised(heddle.Error, "index", heddle.block, 3, world, world)
    x = numpy.ones(1, dtype=numpy.float32)  # they are matched as before
    assert job.allreduce(x, timeout=PATIENCE_S).workers == x[0] == world


def test_agree(job):
    """One bit that differs at one worker is found, also in a part of many; likewise a type, a shape, a name."""
    x, y = values(0), numpy.arange(12, dtype=numpy.int16).reshape(3, 4)
    assert heddle.agree(job, x, y, timeout=PATIENCE_S) is True
    other = x.copy()
    if job.rank == 1:
        other.view(numpy.uint32)[VALUES // 2] ^= 1
    assert heddle.agree(job, y, other, timeout=PATIENCE_S) is False
    for mine in (y.reshape(4, 3), y.view(numpy.uint16), y.T):
        assert job.agree(mine if job.rank == 1 else y, timeout=PATIENCE_S) is False
    assert job.agree(y.T, y[::2], {"a": x, "b": y}, timeout=PATIENCE_S) is True
    assert job.agree({"a" if job.rank else "b": x}, timeout=PATIENCE_S) is False
    raised(TypeError, "neither an array nor a tensor", job.agree, object())
    status = native.Status()
    for text, wanted in ((b"the same", 1), (b"rank %d" % job.rank, 0), (b"", 1)):
        found = native.C.heddle_agree(job._open(), text, len(text), 1000 * PATIENCE_S, ctypes.byref(status))
        assert (found, status.workers) == (wanted, job.world_size), (text, found, status.workers)


def test_agree_or_not(job):
    """At the place of the others' agree() one worker adds as many values: all of them are told."""
    x, status = numpy.zeros(256, dtype=numpy.float32), native.Status()

    def ours():
        return job.agree(x, timeout=PATIENCE_S)

    def other():
        return job.allreduce(x, timeout=PATIENCE_S)

    assert raised(heddle.OperationFailed, "", other if job.rank == 1 else ours).status.reason == "mismatch"
    if job.rank == 1:
        assert raised(heddle.OperationFailed, "", other).status.reason == "mismatch"
    else:
        found = native.C.heddle_agree(job._open(), b"x", 1, 1000 * PATIENCE_S, ctypes.byref(status))
        assert found == -errno.EIO and native.C.heddle_reason_name(status.reason) == b"mismatch", (found, status.reason)
    job.allreduce(x, tag="alike", timeout=PATIENCE_S)
    raised(heddle.Error, "tag: longer", job.allreduce, x, tag=64 * "x")


async def awaits(job):
    async def one(step):
        x = values(job.rank, step)
        status = await job.allreduce_start(x)
        assert status.workers == job.world_size and (x == total(job.world_size, step)).all()
        return step

    assert await asyncio.gather(*(one(step) for step in range(ROUNDS))) == list(range(ROUNDS))
    ticks = 0
    task = asyncio.ensure_future(one(0))
    while not task.done():
        ticks += 1
        await asyncio.sleep(0)
    assert ticks > 0 and await task == 0


def has_called_back(job):
    """Functions are called once, with the ticket, by a thread of the library or at once; what they raise is logged."""
    seen, called, lines, main_thread = [], threading.Event(), [], threading.get_ident()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("heddle").addHandler(handler)

    def told(ticket):
        here = threading.get_ident()
        refused = errno.EDEADLK if here == main_thread else raised(heddle.Error, "wait", job.barrier).errno
        for call in (lambda: job.share_state({}, 1), job.wait_members, job.close):
            assert raised(heddle.Error, "wait", call).errno == errno.EDEADLK
        seen.append((ticket, ticket.wait(0).state, refused, here))
        called.set()

    first, word = job.rank == 0, numpy.zeros(1, dtype=numpy.int32)
    for other in range(1, job.world_size) if first else ():  # their barriers end when they have their functions
        job.recv(word, other, timeout=PATIENCE_S)
    ticket = job.barrier_start()
    ticket.add_done_callback(lambda _: 1 / 0)
    ticket.add_done_callback(told)
    raised(TypeError, "not a function", ticket.add_done_callback, 7)
    if not first:
        job.send(word, 0, timeout=PATIENCE_S)
    assert called.wait(PATIENCE_S)
    ticket.add_done_callback(told)
    logging.getLogger("heddle").removeHandler(handler)
    assert [one[:3] for one in seen] == 2 * [(ticket, "applied", errno.EDEADLK)], seen
    assert (first or seen[0][3] != main_thread) and seen[1][3] == main_thread, seen
    assert sum("callback failed" in line for line in lines) == 1, lines


def test_await(job):
    asyncio.run(awaits(job))
    asyncio.run(awaits(job))  # in another loop
    has_called_back(job)


def test_model(job):
    """Push and pull: plain SGD at the server, one worker after the other."""
    assert job.values == 6
    model = numpy.empty(6, dtype=numpy.float32)
    version = job.pull(model, timeout=PATIENCE_S).version
    gradient = numpy.array([1, 2, 3, 4, 5, 6], dtype=numpy.float32)
    pushed = job.push(gradient, version, timeout=PATIENCE_S)
    assert pushed.state in ("applied", "durable"), pushed
    after = numpy.empty((2, 3), dtype=numpy.float32)
    assert job.pull(after, timeout=PATIENCE_S).version >= pushed.version
    while (newest := job.pull(after, timeout=PATIENCE_S).version) % (1 << 48) < job.world_size:
        pass  # each worker pushes once
    assert job.pull(after, newer_than=newest, timeout=PATIENCE_S).reason == "not-modified"
    assert numpy.allclose(after.ravel(), -0.01 * job.world_size * gradient)
    raised(heddle.Error, "w1", job.push, gradient * numpy.float32("nan"), version)
    assert job.stats()["applied"] == 1


def test_errors(job):
    x = values(job.rank)
    raised(TypeError, "'Zd'", job.allreduce, numpy.ones(3, dtype=complex))
    raised(TypeError, "'H', not one of fp32, fp16", job.allreduce, numpy.ones(3, dtype=numpy.uint16))
    raised(TypeError, "'>i', not one of", job.allreduce, numpy.ones(3, dtype=">i4"))
    raised(TypeError, "'d', not fp32", job.push, numpy.ones(3), 0)
    raised(ValueError, "out of type fp64", job.allreduce, x, numpy.ones(VALUES))
    raised(heddle.Error, "their own type", job.allreduce, numpy.ones(3), payload="fp16")
    raised(TypeError, "list", job.allreduce, [1.0])
    raised(ValueError, "contiguous", job.allreduce, numpy.ones((4, 4), dtype=numpy.float32).T[1:])
    raised(ValueError, "empty", job.allreduce, numpy.ones(0, dtype=numpy.float32))
    raised(ValueError, "read-only", job.allreduce, numpy.frombuffer(bytes(8), dtype=numpy.float32))
    raised(ValueError, "not aligned", job.allreduce, numpy.zeros(9, dtype=numpy.uint8)[1:].view(numpy.float32))
    raised(ValueError, "sum, average", job.allreduce, x, op="mean")
    raised(ValueError, "fp32, fp16", job.allreduce, x, payload="fp64")
    raised(ValueError, "data has", job.allreduce, x, x[1:])
    raised(ValueError, "the model has", job.push, x, 0)
    raised(heddle.Error, "member", job.shard, 10, 4000)
    child = os.fork()
    if child == 0:
        try:
            raised(heddle.Error, "", job.allreduce, x)
            assert raised(heddle.Error, "", job.members).errno == errno.ECHILD
            assert not job.close()
        except BaseException as error:  # pylint: disable=broad-except
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "a child's calls are refused"
    job.allreduce(x, timeout=PATIENCE_S)
    assert (x == total(job.world_size)).all()


def test_interrupt(job):
    """A wait without limit ends with KeyboardInterrupt; one with a limit with TimedOut. The others do not call."""
    rank = job.rank
    while rank != 0 and 0 in job.members().ranks:
        time.sleep(0.02)
    if rank == 0:  # closes the job
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        x = values(job.rank)
        error = raised(heddle.TimedOut, "all-reduce", job.allreduce, x, timeout=0.3)
        assert isinstance(error, TimeoutError) and error.errno == errno.ETIMEDOUT
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        raised(KeyboardInterrupt, "", lambda: (timer.start(), job.allreduce(x)))
        ticket, reasons = job.allreduce_start(x), []
        ticket.add_done_callback(lambda ticket: reasons.append(ticket.status().reason))
        assert not job.close(0) and job.close() and reasons == ["closed"], reasons
        raised(ValueError, "closed", ticket.wait)
        raised(ValueError, "closed", job.allreduce, x)


async def awaits_until_closed(job):
    """close() ends what is awaited, and the loop goes on to work with another job."""
    task = asyncio.ensure_future(awaited(job, 0))
    await asyncio.sleep(0.1)
    job.close(0)
    try:
        await task
        raise AssertionError("a closed job's sum")
    except (OSError, ValueError):
        pass


async def awaited(job, step):
    return await job.allreduce_start(values(job.rank, step))


def test_closing(job):
    """A thread waits, and so does a loop, while the job is closed."""
    rank = job.rank
    while rank != 0 and 0 in job.members().ranks:
        time.sleep(0.02)
    if rank != 0:
        return
    ends = []
    ticket = job.allreduce_start(values(0))

    def wait():
        try:
            ends.append(ticket.wait())
        except (OSError, ValueError) as error:
            ends.append(error)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(awaits_until_closed(job))
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(ends) == len(threads) and all(isinstance(end, (OSError, ValueError)) for end in ends), ends
    raised(ValueError, "closed", ticket.status)


def main():
    logging.basicConfig(level=logging.INFO)
    heddle.Job._collective = patient(heddle.Job._collective)
    test = sys.argv[1]
    model = [("w1", (2, 2)), heddle.Tensor("w2", (2,))] if test == "model" else ()
    with heddle.Job(tensors=model) as job:
        job.wait_joined(PATIENCE_S)
        job.wait_members(timeout=PATIENCE_S)
        rank = job.rank
        globals()[f"test_{test}"](job)
        print(f"rank {rank}: done")


main()
