# SPDX-License-Identifier: BSD-3-Clause
"""Tickets of PyTorch tensors as torch.futures.Future."""
import contextlib
import errno
import queue
import threading
import time
import weakref

import torch

from .errors import Error, TimedOut

LOOK_S, LOST_S = 1.0, 5.0  # how often a controller of this job's own is looked after; for how long it may be silent
_waiters = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class _Waiter:
    """A thread that completes the futures of tickets, in their order."""

    def __init__(self):
        self._started = queue.SimpleQueue()
        threading.Thread(target=_complete, args=(self._started,), daemon=True, name="heddle-futures").start()

    def add(self, *operation):
        self._started.put(operation)

    def __del__(self):
        self._started.put(None)


def _complete(started):
    while (item := started.get()) is not None:
        ticket, ends, result, future, stream = item
        try:
            outcome(ticket, ends)
            with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                future.set_result(result())
        except Exception as error:  # pylint: disable=broad-except  # raised where the future is waited for
            future.set_exception(error)
            with contextlib.suppress(OSError, ValueError):  # it has ended, or its job is closed
                ticket.cancel()
        del item, ticket, result, future, stream


def outcome(ticket, ends):
    """Waits for a ticket. TimedOut: at time.monotonic() == ends. Error (EPIPE): rank 0 has ended, and with it the
    controller that it had started for this job, which does not return as another one may. Error (ESHUTDOWN): the job
    has been closed meanwhile."""
    try:
        _wait(ticket, ends)
    except ValueError as error:
        raise Error(errno.ESHUTDOWN, str(error)) from None


def _wait(ticket, ends):
    job, silent_since = ticket._job, None
    while True:
        now = time.monotonic()
        left = LOOK_S if ends is None else min(LOOK_S, max(0, ends - now))
        try:
            ticket.wait(left)
            return
        except TimedOut:
            if ends is not None and time.monotonic() >= ends:
                raise
        if not job.fabric.is_own or not job.stats()["direct"]:
            silent_since = None
        elif silent_since is None:
            silent_since = now
        elif now - silent_since > LOST_S:
            raise Error(errno.EPIPE, "rank 0 does not answer, and its controller: has it ended?")


def fails_in_c(future):
    """The same result for callers in C++, such as DistributedDataParallel's: there, a future whose set_exception() was
    called has the exception as its value, so that a caller takes it for a tensor. A future whose callback raises fails
    in C++, too; its error is a RuntimeError with the type and the words of the exception."""
    return future.then(lambda done: done.wait())


def _waiter(job, order):
    with _lock:
        waiters = _waiters.setdefault(job, {})
        if order not in waiters:
            waiters[order] = _Waiter()
        return waiters[order]


def complete(ticket, result, *, timeout=None, devices=None, order=None):
    """A torch.futures.Future of a Ticket; those of one job and one `order` are completed in the order of these calls.
    result: makes its value when the ticket has been applied. timeout: seconds. devices: GPUs of the value's tensors;
    result() runs with the stream of the first one that is current now."""
    future = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
    stream = torch.cuda.current_stream(devices[0]) if devices else None
    ends = None if timeout is None else time.monotonic() + timeout
    _waiter(ticket._job, order).add(ticket, ends, result, future, stream)
    return future
