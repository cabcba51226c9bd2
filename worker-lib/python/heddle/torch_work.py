# SPDX-License-Identifier: BSD-3-Clause
"""Operations in flight of a process group."""
import errno
import threading
from datetime import timedelta

import torch.distributed as dist

from .errors import Error
from .torch_errors import GroupTimedOut, as_group_error
from .torch_future import fails_in_c

_BASE = dist.Work if hasattr(dist, "Work") else dist._Work
UNREAD_MAX = 16


class Work(_BASE):
    """A collective in flight. (PyTorch's own work of a future swallows its exception in wait().)

    DistributedDataParallel does not call wait(): its C++ reads the value of get_future()."""

    def __init__(self, what, future, tensors, works):
        super().__init__()
        self._what, self._future, self._tensors, self._over = what, future, tensors, threading.Event()
        self._in_c = fails_in_c(future)
        self._works, over = works, self._over
        self._in_c.add_done_callback(lambda _: over.set())  # it ends last
        works.keep(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the result; True. timeout: a timedelta; 0: the operation's own. GroupTimedOut (a RuntimeError, as
        of other backends): the operation continues, and the tensors are not to be used. GroupError: it has failed."""
        if not isinstance(timeout, (timedelta, type(None))):
            raise TypeError(f"timeout: {timeout!r} is not a timedelta")
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self._over.wait(seconds if seconds > 0 else None):
            raise GroupTimedOut(errno.ETIMEDOUT,
                                f"Operation timed out! The {self._what} is not over after {seconds:g} s")
        self._works.release(self)
        try:
            self._future.wait()
        except Error as error:
            raise as_group_error(error) from error
        return True

    def get_future(self):
        """Its wait() raises a RuntimeError with the words of the error."""
        return self._in_c

    def is_completed(self):
        return self._in_c.done()

    def is_success(self):
        return self._in_c.done() and self.exception() is None

    def exception(self):
        try:
            self.wait()
        except Exception as error:  # pylint: disable=broad-except
            return error
        return None

    def result(self):
        self.wait()
        return self._tensors


class Works:
    """Keeps works: C++ does not keep the Python part of a work that it is given, and waits for it later (as DDP's
    broadcasts do, for at most three at a time) or never (as its all-reduces, of which it has the futures)."""

    def __init__(self):
        self._lock, self._kept, self._read, self._sweep_at = threading.Lock(), {}, [], UNREAD_MAX

    def keep(self, work: Work) -> None:
        with self._lock:
            self._read.clear()
            self._kept[id(work)] = work
            if len(self._kept) > self._sweep_at:
                self._sweep()

    def release(self, work: Work) -> None:
        """A caller has waited for it: it stays until the next one comes."""
        with self._lock:
            if self._kept.pop(id(work), None) is not None:
                self._read.append(work)

    def _sweep(self):
        """Those in flight stay, and the newest of those that no caller has waited for."""
        over = [one for one in self._kept.values() if one.is_completed()]
        for work in over[:-UNREAD_MAX]:
            del self._kept[id(work)]
        self._sweep_at = 2 * len(self._kept) + UNREAD_MAX
