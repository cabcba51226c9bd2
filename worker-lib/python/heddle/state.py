# SPDX-License-Identifier: BSD-3-Clause
"""The newest state of a job, from another worker (heddle_state.h)."""
import ctypes
import errno
import sys
import threading
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from . import buffers, native
from .errors import OperationFailed
from .native import C, checked
from .ticket import SLICE_MS, check_may_wait, ends_at, read

NONE = 2**64 - 1  # HEDDLE_STATE_NONE


class Shared(NamedTuple):
    """The state of a worker after share_state()."""

    version: int
    received: bool  #: from another worker
    workers: int  #: that called it


def _memory(name: str, data: Any) -> Tuple[int, int, Any]:
    """Address and number of the bytes, and what keeps them alive. TypeError, ValueError: as for a buffer."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        if data.device.type != "cpu":
            raise TypeError(f"{name}: the tensor is on device {data.device}, not on cpu")
        if data.layout != torch.strided or not data.is_contiguous():
            raise ValueError(f"{name}: the tensor is not contiguous")
        if not buffers.has_memory(data):
            raise ValueError(f"{name}: {buffers.NO_MEMORY}")
        return data.data_ptr(), data.numel() * data.element_size(), data
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"{name}: {type(data).__name__} is neither an array nor a tensor") from None
    if not view.c_contiguous or view.readonly:
        raise ValueError(f"{name}: the array is read-only or not contiguous")
    if view.nbytes == 0:
        return 0, 0, view
    return ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))), view.nbytes, view


def _run(call) -> None:
    """In a thread of its own: the user can interrupt the wait."""
    thread = threading.Thread(target=call, name="heddle-state", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SLICE_MS / 1000)


class StateSharing:
    """share_state() of a Job."""

    def share_state(self, items: Mapping[str, Any], version: Optional[int], *, exact: int = 0, part_bytes: int = 0,
                    timeout: Optional[float] = None) -> int:
        """Gives all workers of the job the newest state that one of them has, in place; returns its version. All call
        it as their next collective, with items of equal names and sizes: contiguous arrays or tensors on the host, of
        any dtype. A worker that calls it earlier waits: Status.waiting of the others' collectives says so. version:
        that of this worker's items, as the number of its steps; None: it has none; 0: an initial one, of which that of
        the lowest rank counts if no worker has another. Workers that have the newest version keep theirs.
        part_bytes: of one broadcast, at most; 0: 8 MiB. exact: as for collectives. timeout: seconds. After an error
        the items of a worker that lacked the newest version are undefined; after a KeyboardInterrupt close the job.
        OperationFailed: the items differ (reason "mismatch"), others as for an all-reduce; Error (ENODATA): no worker
        has a state; TimedOut."""
        return self._share_state(items, version, exact, part_bytes, timeout).version

    def _share_state(self, items, version, exact, part_bytes, timeout) -> Shared:
        check_may_wait()  # the call is made in another thread, where the library cannot see it
        if version is not None and not 0 <= version < 2**48:
            raise ValueError(f"version: {version} is not within 0 to 2**48 - 1")
        if not hasattr(items, "items"):
            raise TypeError(f"items: {type(items).__name__} is not a mapping from names to arrays")
        held: List[Any] = [(native.text("name", name), *_memory(name, data)) for name, data in items.items()]
        held = [one for one in held if one[2] > 0]
        array = (native.StateItem * len(held))(*((name, at, size) for name, at, size, _ in held))
        options = native.StateOptions(part_bytes=part_bytes, exact=exact)
        status, number = native.Status(), ctypes.c_uint64(NONE if version is None else version)
        handle, ends = self._open(), []
        ends_at(timeout)  # a number
        left_ms = -1 if timeout is None else round(min(2**31 - 1, max(0, 1000 * timeout)))

        def call():
            result = C.heddle_share_state(handle, array, len(held), ctypes.byref(number), ctypes.byref(options),
                                          left_ms, ctypes.byref(status))
            ends.append((result, C.heddle_last_error().decode(errors="replace")))

        _run(call)
        result, words = ends[0]
        if result == -errno.EIO:
            raise OperationFailed(errno.EIO, words, read(status))
        if result < 0:
            checked(result, words)
        return Shared(number.value, result == 1, status.workers)
