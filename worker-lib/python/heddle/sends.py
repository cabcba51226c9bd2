# SPDX-License-Identifier: BSD-3-Clause
"""Values from one worker of a job to one other (heddle_send.h)."""
from typing import Any, Optional

from . import buffers, native
from .lists import Lists
from .native import C
from .ticket import Status, Ticket


class Sends(Lists):
    """The sends and receives of a Job. The k-th send of one worker to another is matched with the k-th receive there
    from it, whatever else they and others call in between. Both must have as many values of the same type and the same
    tag, or both fail (OperationFailed, reason "mismatch").

    data, tag, timeout, X_start() and X(): as of Collectives. OperationFailed with the reason "peer": the other worker
    is lost, or has withdrawn its call."""

    def send_start(self, data: Any, to: int, *, tag: Optional[str] = None) -> Ticket:
        """Starts to send `data` to the worker of rank `to`. The Ticket ends when the receiver has them."""
        values = buffers.of(data, False, native.TYPES)
        to = native.integer("to", to)
        return self._collective("send", C.heddle_send_start, (values,), (values.address, values.count, to), tag)

    def send(self, data: Any, to: int, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As send_start(), and waits; returns the Status."""
        return self._finish(self.send_start(data, to, **options), timeout)

    def recv_start(self, data: Any, source: int, *, tag: Optional[str] = None) -> Ticket:
        """Starts to receive `data` from the worker of rank `source`."""
        values = buffers.of(data, True, native.TYPES)
        source = native.integer("source", source)
        return self._collective("receive", C.heddle_recv_start, (values,), (values.address, values.count, source), tag)

    def recv(self, data: Any, source: int, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As recv_start(), and waits; returns the Status."""
        return self._finish(self.recv_start(data, source, **options), timeout)
