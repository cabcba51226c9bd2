# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of many arrays as one operation (heddle_list.h)."""
from typing import Any, Iterable, Optional

from . import buffers, native
from .collectives import Collectives, _reduction
from .native import C
from .ticket import Status, Ticket


class Lists(Collectives):
    """The collectives of a Job over lists: of all values of all arrays, in one operation, with one Ticket.

    data: arrays or tensors as of Collectives, on the host, which do not overlap; some may be empty. The result replaces
    their values. All workers give the same number of values in all; they may divide them differently, and one may give
    a single array to the call without `_list`. Unlike there, an operation that fails leaves the arrays as they were: so
    they are after OperationFailed. After TimedOut, the result may still be written into them. The library
    copies the values once in each direction, the result in its own thread: split lists of more than about 1 GB, in
    whose copy the others take this worker for lost. All else is as of Collectives."""

    def _list(self, what, start, data, tag, *arguments, changes=True, **fields):
        """changes: whether the arrays of this worker receive the result."""
        held = tuple(buffers.of(one, changes, native.TYPES, empty=True) for one in data)
        if not any(one.count for one in held):
            raise ValueError("the list is empty" if not held else "all arrays of the list are empty")
        for one in held[1:]:
            if one.type != held[0].type:
                raise ValueError(f"the list has values of type {held[0].type} and {one.type}")
            if one.memory != held[0].memory:
                raise ValueError("the list has arrays on different devices")
        parts = (native.Part * len(held))(*((one.address, one.count) for one in held))
        return self._collective(what, start, held, (parts, len(held), *arguments), tag, **fields)

    def allreduce_list_start(self, data: Iterable[Any], *, op: str = "sum", payload: str = "fp32",
                             ranked: bool = False, exact: int = 0, wait: Optional[float] = None, least: int = 0,
                             tag: Optional[str] = None) -> Ticket:
        """Starts to add the arrays of every worker of the job, in place."""
        return self._list("all-reduce", C.heddle_allreduce_list_start, data, tag, exact=exact, wait=wait, least=least,
                          **_reduction(op, payload, ranked))

    def allreduce_list(self, data: Iterable[Any], *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As allreduce_list_start(), and waits; returns the Status."""
        return self._finish(self.allreduce_list_start(data, **options), timeout)

    def broadcast_list_start(self, data: Iterable[Any], root: int, *, exact: int = 0, wait: Optional[float] = None,
                             least: int = 0, tag: Optional[str] = None) -> Ticket:
        """Starts to copy the arrays of the root into those of all others."""
        root = native.integer("root", root)
        return self._list("broadcast", C.heddle_broadcast_list_start, data, tag, root, changes=self.rank != root,
                          exact=exact, wait=wait, least=least)

    def broadcast_list(self, data: Iterable[Any], root: int, *, timeout: Optional[float] = None,
                       **options: Any) -> Status:
        """As broadcast_list_start(), and waits; returns the Status."""
        return self._finish(self.broadcast_list_start(data, root, **options), timeout)

    def reduce_list_start(self, data: Iterable[Any], root: int, *, op: str = "sum", payload: str = "fp32",
                          ranked: bool = False, exact: int = 0, wait: Optional[float] = None, least: int = 0,
                          tag: Optional[str] = None) -> Ticket:
        """Starts to add the arrays of every worker into those of the root. Elsewhere they keep their values."""
        root = native.integer("root", root)
        return self._list("reduce", C.heddle_reduce_list_start, data, tag, root, changes=self.rank == root,
                          exact=exact, wait=wait, least=least, **_reduction(op, payload, ranked))

    def reduce_list(self, data: Iterable[Any], root: int, *, timeout: Optional[float] = None,
                    **options: Any) -> Status:
        """As reduce_list_start(), and waits; returns the Status."""
        return self._finish(self.reduce_list_start(data, root, **options), timeout)
