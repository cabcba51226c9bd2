# SPDX-License-Identifier: BSD-3-Clause
"""One push, pull or collective in flight."""
import asyncio
import ctypes
import errno
import itertools
import logging
import math
import threading
import time
import weakref
from typing import Any, Callable, Dict, Generator, NamedTuple, Optional, Tuple

from . import native
from .errors import Error, OperationFailed, TimedOut
from .native import C, checked

logger = logging.getLogger("heddle")
_keys = itertools.count(1)
_thens: Dict[int, tuple] = {}  # of add_done_callback(), until the library has called
SLICE_MS = 100  # a wait looks this often whether the user has interrupted it


class Status(NamedTuple):
    """The state of an operation (struct heddle_status). Times in seconds of time.monotonic()."""

    state: str  #: "queued", "requested", "granted", "sending", "held", "applied", "durable", "dropped" or "failed"
    reason: str  #: why it was dropped or has failed; "none"
    released: bool  #: the library does not use the buffer any more
    granted: bool  #: by the controller; False: directly by the server
    round: int  #: number of this worker's push, pull or collective
    delay: int  #: push: commits since its base version
    workers: int  #: collective: workers that took part
    base: int  #: push: the version it was computed from
    version: int  #: push: after its commit; pull: the version that was delivered
    bytes: int  #: on the wire
    started: float
    ended: float  #: 0: not yet
    scale: float  #: all-reduce: the members' factor when the sum was made
    waiting: int  #: collective: workers that waited in Job.share_state() when it began


def ends_at(timeout):
    """The end of a wait on time.monotonic(); None: no limit. ValueError: NaN, which is never over."""
    if timeout is not None and math.isnan(timeout):
        raise ValueError("timeout: it is NaN")
    return None if timeout is None else time.monotonic() + timeout


def slice_ms(ends):
    """How long to wait in one call, when the whole wait ends at time.monotonic() == ends (None: never)."""
    return SLICE_MS if ends is None else round(min(SLICE_MS, max(0, 1000 * (ends - time.monotonic()))))


def read(status):
    return Status(native.STATES[status.state], C.heddle_reason_name(status.reason).decode(), bool(status.released),
                  bool(status.granted), status.round, status.delay, status.workers, status.base, status.version,
                  status.bytes, status.started_ns / 1e9, status.ended_ns / 1e9, status.scale, status.waiting)


_inside = threading.local()


def is_inside():
    """Whether this thread is in a function of add_done_callback()."""
    return getattr(_inside, "yes", False)


def check_may_wait():
    """Error: the thread that would be waited for is this one."""
    if is_inside():
        raise Error(errno.EDEADLK, "a function of add_done_callback() must not wait for other nodes")


@native.THEN
def _ended(_, key):
    ticket, function = _thens.pop(key)
    before, _inside.yes = is_inside(), True
    try:
        function(ticket)
    except Exception:  # pylint: disable=broad-except
        logger.exception("%s: a callback failed: %r", ticket.what, function)
    finally:
        del ticket, function  # perhaps the last references to the job: its __del__() must know where it is
        _inside.yes = before


class Ticket:
    """Wait for it (`wait()`, `await ticket`), look at it (`status()`, `done()`), or withdraw it (`cancel()`).
    The operation keeps its buffer alive until it has ended, also when the ticket is dropped."""

    def __init__(self, job, what, handle, buffers):
        self._job, self._handle, self._buffers = job, handle, buffers
        self.what = what  #: "push", "pull", "all-reduce" ...
        self._closed = False

    def _open(self):
        if self._closed:
            raise ValueError("the job of this ticket is closed")
        return self._handle

    def status(self) -> Status:
        """The Status now."""
        status = native.Status()
        checked(C.heddle_ticket_test(self._open(), ctypes.byref(status)))
        return read(status)

    def done(self) -> bool:
        """Whether it has ended: applied, dropped or failed."""
        return bool(checked(C.heddle_ticket_test(self._open(), None)))

    def cancel(self) -> bool:
        """Withdraws it. False: too late."""
        result = C.heddle_ticket_cancel(self._open())
        return result != -errno.EALREADY and checked(result) == 0

    def add_done_callback(self, function: Callable[["Ticket"], Any]) -> None:
        """Has function(ticket) called when it is done(): by the library's thread, or by close(); at once, if it is done
        already. It must not wait for other operations (Error, EDEADLK), but may start them (X_start()); its exceptions
        are logged.
        At most 16 for one ticket (Error, ENOSPC)."""
        if not callable(function):
            raise TypeError(f"not a function: {function!r}")
        handle, key = self._open(), next(_keys)
        _thens[key] = self, function
        result = C.heddle_ticket_then(handle, native.WAITS["outcome"], _ended, key)
        if result < 0:
            del _thens[key]
        checked(result)

    def wait(self, timeout: Optional[float] = None, until: str = "outcome") -> Status:
        """Waits until the "outcome" is known, the update is "held" or "durable", or its buffer is "released".
        timeout: seconds; None: no limit. Returns the Status; a dropped push is no error. OperationFailed; TimedOut:
        the operation continues."""
        wait = native.choice("until", native.WAITS, until)
        status = native.Status()
        ends = ends_at(timeout)
        while True:
            result = C.heddle_ticket_wait(self._open(), wait, slice_ms(ends), ctypes.byref(status))
            if result != -errno.ETIMEDOUT:
                checked(result)
                return self._outcome(read(status))
            if ends is not None and time.monotonic() >= ends:
                raise TimedOut(errno.ETIMEDOUT, f"{self.what}: still {native.STATES[status.state]} after {timeout} s")

    def _outcome(self, status):
        dropped = status.state == "dropped" and self.what != "push" and status.reason != "not-modified"
        if status.state == "failed" or dropped:
            words = C.heddle_ticket_error(self._handle).decode(errors="replace")
            raise OperationFailed(errno.EIO, f"{self.what} failed: {status.reason}{words and ': '}{words}", status)
        return status

    def members(self) -> Tuple[int, ...]:
        """The ranks of the workers that took part in a collective, ascending. Error (ENODATA): it has not been
        applied, or they are unknown, as a switch has added."""
        ranks = (ctypes.c_int * native.WORKERS_MAX)()
        return tuple(ranks[:checked(C.heddle_ticket_members(self._open(), ranks, native.WORKERS_MAX))])

    def __await__(self) -> Generator[Any, None, Status]:
        return self._job._notifier(asyncio.get_running_loop()).wait(self).__await__()

    def _close(self):
        """The job is closed. The handle stays until no thread can be in a call with it (__del__)."""
        self._closed, self._buffers = True, None

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self._job._adopt(self._handle, self._buffers)
            self._handle = None


class Notifier:
    """Ends the awaited tickets of one job in one event loop: the loop watches the job's descriptor."""

    def __init__(self, job, loop):
        self._job, self._loop, self._waiting, self._watched = job, weakref.ref(loop), {}, None

    async def wait(self, ticket):
        if not ticket.done():
            loop = asyncio.get_running_loop()
            if self._watched is None:
                self._watched = self._job.fileno()
                loop.add_reader(self._watched, self._ready)
            future = self._waiting.setdefault(ticket, loop.create_future())
            self._ready()  # it may have ended before the descriptor was watched
            await asyncio.shield(future)
        return ticket.wait(0)

    def _ready(self):
        gone = False
        try:
            self._job._progress()
        except (OSError, ValueError):  # this worker has left, or the job is closed: wait(0) says why
            gone = True
        self.look(gone)
        self._job._look(gone, self)  # what this loop has read, other loops do not see

    def look(self, gone):
        """Ends the futures of tickets that have ended; gone: of all."""
        for ticket in [one for one in self._waiting if gone or one.done()]:
            future = self._waiting.pop(ticket)
            if not future.done():
                future.set_result(None)
        if not self._waiting and self._watched is not None:
            self._loop().remove_reader(self._watched)
            self._watched = None

    def look_soon(self, gone):
        """look() in the loop's own thread; at once, if this is its thread."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            self.look(gone)
        else:
            loop.call_soon_threadsafe(self.look, gone)
