# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of all workers of a job (heddle_collective.h, docs/protocol/collectives.md)."""
import ctypes
import math
from typing import Any, Optional

from . import buffers, native
from .native import C, checked
from .ticket import Status, Ticket


def block(count: int, index: int, workers: int) -> range:
    """Which of `count` values belong to the member `index` of `workers`, in a reduce-scatter, a scatter and an
    all-to-all. Error (EINVAL): there is no such member."""
    first, length = ctypes.c_uint64(), ctypes.c_uint64()
    count = native.integer("count", count, ctypes.c_uint64)
    index, workers = native.integer("index", index, ctypes.c_uint), native.integer("workers", workers, ctypes.c_uint)
    checked(C.heddle_block(count, index, workers, ctypes.byref(first), ctypes.byref(length)))
    return range(first.value, first.value + length.value)


def _reduction(op, payload, ranked):
    return {"reduce_op": native.choice("op", native.OPERATIONS, op), "ranked": int(ranked),
            "payload": native.choice("payload", native.PAYLOADS, payload)}


def _alike(source, target):
    if source.memory != target.memory:
        raise ValueError("data and out are on different devices")
    if source.type != target.type:
        raise ValueError(f"data has values of type {source.type}, out of type {target.type}")


def _wait_ms(wait):
    if wait is None:
        return 0
    if wait == math.inf:
        return native.WAIT_FOREVER
    if not 0 < wait * 1000 < native.WAIT_FOREVER:
        raise ValueError(f"wait is {wait} s: neither above 0 and below 49 days, nor math.inf, nor None")
    return min(math.ceil(wait * 1000), native.WAIT_FOREVER - 1)


def _has_room(target, needed):
    if target.count < needed:
        raise ValueError(f"out has room for {target.count} values, and needs {needed}")


class Collectives:
    """The collectives of a Job. The k-th call of one worker, of whatever kind, is matched with the k-th call of the
    others; calls that differ fail at all of them (OperationFailed, reason "mismatch").

    data, out: contiguous arrays or tensors of equal type (fp32, fp16, bf16, fp64, int8, uint8, int32, int64), on the
    host, or both on one GPU: there they are used in the order of its current stream. The caller does not touch them
    until the Ticket has ended. A member's block is at its place in the order of the members' ranks (Ticket.members()).
    root: a rank.
    exact: exactly this many workers take part, or the call fails at all of them (reason "members"); 0: those that are
    there (`status.workers`).
    wait: how many seconds after the first call workers that have not called are waited for; None: 1 s, with `least`
    until that many have called, with `exact` and of a barrier math.inf: as long as they are registered. A worker that
    was left out is not waited for again until it calls: that call fails (reason "late"), and its next one is matched
    with the others' next. least: the operation starts when this number have called; with wait=None these are the first.
    tag: None, or a text of up to 63 bytes that all workers give alike.
    op: "sum", "average", "min", "max" or "product". payload: how fp32 values travel: "fp32", "fp16", "bf16". 16-bit
    values are combined in fp32, integers wrap. ranked: the same bits in every run.

    Each X_start() returns a Ticket; X() waits for it and returns the Status. After OperationFailed the contents of
    `out` are undefined. After TimedOut (timeout: seconds; None: no limit), too, and the result may still be written
    into it: do not use the buffer again."""

    def _collective(self, what, start, held, arguments, tag, *, wait=None, **fields):
        options = native.CollectiveOptions(borrow=1, tag=None if tag is None else native.text("tag", tag),
                                           wait_ms=_wait_ms(wait), **fields)
        if held:
            options.memory, options.stream, options.type = held[0].memory, held[0].stream, native.TYPES[held[0].type]
        ticket = ctypes.c_void_p()
        checked(start(self._open(), *arguments, ctypes.byref(options), ctypes.byref(ticket)))
        return self._ticket(what, ticket, held)

    @staticmethod
    def _finish(ticket, timeout):
        try:
            return ticket.wait(timeout)
        except BaseException:
            ticket.cancel()
            raise

    def allreduce_start(self, data: Any, out: Any = None, *, op: str = "sum", payload: str = "fp32",
                        ranked: bool = False, exact: int = 0,
                        wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to add `data` of every worker of the job into `out`, which has as many values (default: in place)."""
        target = buffers.of(data if out is None else out, True, native.TYPES)
        source = target if out is None else buffers.of(data, False, native.TYPES)
        if source.count != target.count or source.memory != target.memory:
            raise ValueError(f"data has {source.count} values and out {target.count}, or they are on different devices")
        _alike(source, target)
        return self._collective("all-reduce", C.heddle_allreduce_start, (source, target),
                                (source.address, target.address, source.count), tag, exact=exact,
                                wait=wait, least=least,
                                **_reduction(op, payload, ranked))

    def allreduce(self, data: Any, out: Any = None, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As allreduce_start(), and waits; returns the Status."""
        return self._finish(self.allreduce_start(data, out, **options), timeout)

    def barrier_start(self, *, exact: int = 0,
                      wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts a barrier: it has ended when all workers have called it."""
        return self._collective("barrier", C.heddle_barrier_start, (), (), tag, exact=exact, wait=wait, least=least)

    def barrier(self, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """Waits until all workers have called it; returns the Status."""
        return self._finish(self.barrier_start(**options), timeout)

    def broadcast_start(self, data: Any, root: int, *, exact: int = 0,
                        wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to copy `data` of the root into `data` of all others."""
        root = native.integer("root", root)
        values = buffers.of(data, self.rank != root, native.TYPES)
        return self._collective("broadcast", C.heddle_broadcast_start, (values,), (values.address, values.count, root),
                                tag, exact=exact, wait=wait, least=least)

    def broadcast(self, data: Any, root: int, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As broadcast_start(), and waits; returns the Status."""
        return self._finish(self.broadcast_start(data, root, **options), timeout)

    def reduce_start(self, data: Any, root: int, out: Any = None, *, op: str = "sum", payload: str = "fp32",
                     ranked: bool = False, exact: int = 0,
                     wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to add `data` of every worker into `out` of the root, which has as many values (default: in place).
        Elsewhere `out` is not used."""
        root = native.integer("root", root)
        is_root = self.rank == root
        source = buffers.of(data, is_root and out is None, native.TYPES)
        target = source if out is None or not is_root else buffers.of(out, True, native.TYPES)
        _alike(source, target)
        _has_room(target, source.count)
        return self._collective("reduce", C.heddle_reduce_start, (source, target),
                                (source.address, target.address if is_root else None, source.count, root), tag,
                                exact=exact, wait=wait, least=least, **_reduction(op, payload, ranked))

    def reduce(self, data: Any, root: int, out: Any = None, *, timeout: Optional[float] = None,
               **options: Any) -> Status:
        """As reduce_start(), and waits; returns the Status."""
        return self._finish(self.reduce_start(data, root, out, **options), timeout)

    def allgather_start(self, data: Any, out: Any, *, exact: int = 0,
                        wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to copy `data` of each worker, equally many values, as its block into `out` of all of them. If there
        are more workers than `out` has room for, the call fails at all of them (reason "refused")."""
        source, target = buffers.of(data, False, native.TYPES), buffers.of(out, True, native.TYPES)
        _alike(source, target)
        _has_room(target, source.count * max(exact, 1))
        return self._collective("all-gather", C.heddle_allgather_start, (source, target),
                                (source.address, target.address, source.count), tag, exact=exact,
                                wait=wait, least=least,
                                out_count=target.count)

    def allgather(self, data: Any, out: Any, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As allgather_start(), and waits; returns the Status."""
        return self._finish(self.allgather_start(data, out, **options), timeout)

    def reduce_scatter_start(self, data: Any, out: Any, *, op: str = "sum", payload: str = "fp32",
                             ranked: bool = False, exact: int = 0,
                             wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to add `data` of every worker; each of them receives its block of the sum (block()) in `out`."""
        source, target = buffers.of(data, False, native.TYPES), buffers.of(out, True, native.TYPES)
        _alike(source, target)
        _has_room(target, -(-source.count // exact) if exact else 1)
        return self._collective("reduce-scatter", C.heddle_reduce_scatter_start, (source, target),
                                (source.address, target.address, source.count), tag, exact=exact,
                                wait=wait, least=least,
                                out_count=target.count, **_reduction(op, payload, ranked))

    def reduce_scatter(self, data: Any, out: Any, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As reduce_scatter_start(), and waits; returns the Status."""
        return self._finish(self.reduce_scatter_start(data, out, **options), timeout)

    def alltoall_start(self, data: Any, out: Any, *, exact: int = 0,
                       wait: Optional[float] = None, least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to copy the blocks of `data` (block()) of each worker, one to each worker: `out` receives this
        worker's block of each of them, in the order of their ranks. At most 64 workers (reason "refused")."""
        source, target = buffers.of(data, False, native.TYPES), buffers.of(out, True, native.TYPES)
        _alike(source, target)
        _has_room(target, -(-source.count // exact) * exact if exact else 1)
        return self._collective("all-to-all", C.heddle_alltoall_start, (source, target),
                                (source.address, target.address, source.count), tag, exact=exact,
                                wait=wait, least=least,
                                out_count=target.count)

    def alltoall(self, data: Any, out: Any, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As alltoall_start(), and waits; returns the Status."""
        return self._finish(self.alltoall_start(data, out, **options), timeout)

    def gather_start(self, data: Any, root: int, out: Any = None, *, exact: int = 0,
                     wait: Optional[float] = None, least: int = 0,
                     tag: Optional[str] = None) -> Ticket:
        """As allgather_start(), for the root only: elsewhere `out` is not used."""
        source, target, root = buffers.of(data, False, native.TYPES), None, native.integer("root", root)
        if self.rank == root:
            target = buffers.of(out, True, native.TYPES)
            _alike(source, target)
            _has_room(target, source.count * max(exact, 1))
        return self._collective("gather", C.heddle_gather_start, (source, target),
                                (source.address, target and target.address, source.count, root), tag, exact=exact,
                                wait=wait, least=least,
                                out_count=target.count if target else 0)

    def gather(self, data: Any, root: int, out: Any = None, *, timeout: Optional[float] = None,
               **options: Any) -> Status:
        """As gather_start(), and waits; returns the Status."""
        return self._finish(self.gather_start(data, root, out, **options), timeout)

    def scatter_start(self, data: Any, out: Any, root: int, *, count: Optional[int] = None, exact: int = 0,
                      wait: Optional[float] = None, least: int = 0,
                      tag: Optional[str] = None) -> Ticket:
        """Starts to copy to each worker its block (block()) of `data` of the root into `out`. Elsewhere `data` is not
        used, and count is how many values the root has; None: `exact` times those of `out`."""
        target, source, root = buffers.of(out, True, native.TYPES), None, native.integer("root", root)
        if self.rank == root:
            source = buffers.of(data, False, native.TYPES)
            _alike(source, target)
        if count is None:
            count = source.count if source else target.count * exact
        count = native.integer("count", count, ctypes.c_uint64)
        if source and source.count != count:
            raise ValueError(f"data has {source.count} values, and count is {count}")
        _has_room(target, -(-count // exact) if exact else 1)
        return self._collective("scatter", C.heddle_scatter_start, (target, source),
                                (source and source.address, target.address, count, root), tag, exact=exact,
                                wait=wait, least=least,
                                out_count=target.count)

    def scatter(self, data: Any, out: Any, root: int, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As scatter_start(), and waits; returns the Status."""
        return self._finish(self.scatter_start(data, out, root, **options), timeout)
