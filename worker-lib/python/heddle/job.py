# SPDX-License-Identifier: BSD-3-Clause
"""A worker's membership in a job."""
import atexit
import ctypes
import errno
import logging
import math
import operator
import os
import threading
import time
import weakref
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import buffers, equal, native
from .errors import TimedOut
from .fabric import Fabric
from .native import C, checked
from .sends import Sends
from .state import StateSharing
from .ticket import Notifier, Status, Ticket, check_may_wait, ends_at, is_inside, slice_ms

POLL_S = 0.01
LEVELS = (logging.ERROR, logging.WARNING, logging.INFO)
logger = logging.getLogger("heddle")
_open_jobs = weakref.WeakSet()


class Tensor(NamedTuple):
    """One fp32 tensor of the model that a parameter server keeps. init: "zero", or "uniform" within +-scale."""

    name: str
    shape: Tuple[int, ...]
    init: str = "zero"
    scale: float = 0.0


class Members(NamedTuple):
    """The workers of a job (struct heddle_members)."""

    change: int  #: number of this set, growing; 0: none was received yet
    ranks: Tuple[int, ...]
    target: int  #: wanted number of workers; 0: no policy sets one
    scale: float  #: factor by which updates are to be multiplied


@native.LOG
def _log(_, level, text):
    logger.log(LEVELS[level] if 0 <= level < len(LEVELS) else logging.INFO, "%s", text.decode(errors="replace"))


def _bytes(text):
    """ValueError: C would take what comes before a 0."""
    found = None if text is None else os.fsencode(text)
    if found is not None and b"\0" in found:
        raise ValueError(f"{text!r} has a NUL character")
    return found


class Job(Sends, StateSharing):
    """Joins a job as one worker; leaves it at close() or at the end of a `with` block.

    name, tenant: None: HEDDLE_JOB and HEDDLE_TENANT ("default"). tensors: the model that a parameter server keeps, as
    Tensor or (name, shape); none: a job that only uses all-reduce, which needs no server. learning_rate, momentum,
    weight_decay: the server's optimizer. sync: "async", "sync", or "n-sync" and "n-batch-sync" with sync_count.
    rank, world_size: None: HEDDLE_RANK and HEDDLE_WORLD_SIZE, or RANK and WORLD_SIZE (torchrun). Everything else as in
    heddle.h's heddle_options and heddle_spec_*; None: from the environment. All workers of a job must give the same
    description.

    Error: a bad option, no controller and no server, a key file that can't be read, no such host.
    """

    def __init__(self, name: Optional[str] = None, *, tenant: Optional[str] = None, tensors: Iterable[tuple] = (),
                 seed: int = 0, learning_rate: float = 0.01, momentum: float = 0.0, weight_decay: float = 0.0,
                 tau_max: int = 16, sync: str = "async", sync_count: int = 0, staleness: str = "constant",
                 staleness_factor: float = 1.0, div_max: float = 0.0, allow_not_finite: bool = False,
                 integrity: bool = True, controller: Optional[str] = None, server: Optional[str] = None,
                 key_file: Optional[str] = None, host: Optional[str] = None, bind: Optional[str] = None,
                 events: Optional[str] = None, rank: Optional[int] = None, world_size: Optional[int] = None,
                 keep_bytes: int = 0, chunk_bytes: int = 0, fallback_ms: int = 0, job_weight: float = 0.0,
                 observe: bool = False, aggregator_mb: int = 0):
        self._prepare(name)
        spec = ctypes.c_void_p()
        checked(C.heddle_spec_create(_bytes(tenant), _bytes(name), ctypes.byref(spec)))
        try:
            for tensor in tensors:
                self._add(spec, Tensor(*tensor))
            C.heddle_spec_set_seed(spec, seed)
            C.heddle_spec_set_sgd(spec, learning_rate, momentum, weight_decay)
            C.heddle_spec_set_tau_max(spec, native.integer("tau_max", tau_max, ctypes.c_uint32))
            C.heddle_spec_set_sync(spec, native.choice("sync", native.SYNCS, sync),
                                   native.integer("sync_count", sync_count, ctypes.c_uint32))
            C.heddle_spec_set_staleness(spec, native.choice("staleness", native.STALENESS, staleness), staleness_factor)
            C.heddle_spec_set_div_max(spec, div_max)
            C.heddle_spec_set_integrity(spec, int(integrity))
            if allow_not_finite:
                C.heddle_spec_allow_not_finite(spec)
            self._values = C.heddle_spec_value_count(spec)
            options = native.Options(
                controller=_bytes(controller), server=_bytes(server), key_file=_bytes(key_file), host=_bytes(host),
                bind=_bytes(bind), events=_bytes(events), rank=self._rank(rank), keep_bytes=keep_bytes,
                chunk_bytes=chunk_bytes, fallback_ms=fallback_ms, job_weight=job_weight, log=_log,
                observe=int(observe), aggregator_mb=aggregator_mb, world_size=self._size(world_size))
            handle = ctypes.c_void_p()
            checked(C.heddle_open(spec, ctypes.byref(options), ctypes.byref(handle)))
            self._handle = handle
        finally:
            C.heddle_spec_destroy(spec)
        _open_jobs.add(self)

    def _prepare(self, name):
        self.name = name  #: None: HEDDLE_JOB's
        self._handle, self._lock, self._values = None, threading.Lock(), 0
        self.fabric = Fabric()  #: of heddle.open(): the controller that this group of processes has started
        self._orphans, self._tickets, self._notifiers = [], weakref.WeakSet(), weakref.WeakKeyDictionary()

    @staticmethod
    def _add(spec, tensor):
        shape = [native.integer(f"shape of {tensor.name}", size, ctypes.c_uint64) for size in tensor.shape]
        shape = (ctypes.c_uint64 * max(1, len(shape)))(*shape)
        init = native.choice(f"init of {tensor.name}", native.INITS, tensor.init)
        name = native.text("name", tensor.name)
        checked(C.heddle_spec_add_tensor(spec, name, shape, len(tensor.shape), init, tensor.scale))

    @staticmethod
    def _rank(rank):
        if rank is None and "HEDDLE_RANK" not in os.environ and "RANK" in os.environ:
            rank = int(os.environ["RANK"])
        if rank is not None and rank < 0:
            raise ValueError(f"rank: {rank} is negative")
        return -1 if rank is None else rank

    @staticmethod
    def _size(size):
        if size is None and "HEDDLE_WORLD_SIZE" not in os.environ and "WORLD_SIZE" in os.environ:
            size = int(os.environ["WORLD_SIZE"])
        if size is not None and size < 1:
            raise ValueError(f"world_size: {size} is not positive")
        return 0 if size is None else size

    def _open(self):
        if self._handle is None:
            raise ValueError("the job is closed")
        self._sweep()
        return self._handle

    def group(self, name: str, ranks: Iterable[int]) -> "Job":
        """Opens a group: the workers of these ranks, this one's among them, with collectives of their own. Each of them
        calls it, with the same name and list; the others need not know of it. Worker ranks[i] has rank i in the group.
        It is a job beside this one, to be closed. name: unlike those of this job's other open groups. Error: a rank out
        of range, twice, or this worker's is missing; a name that is too long; and as for Job."""
        ranks = [operator.index(rank) for rank in ranks]
        if any(not 0 <= rank <= 0xffff for rank in ranks):  # ctypes would take the lower bits
            raise ValueError(f"ranks: {ranks} has one that is out of range")
        group, handle = Job.__new__(Job), ctypes.c_void_p()
        group._prepare(name)
        text = native.text("name", name)
        checked(C.heddle_group_open(
            self._open(), text, (ctypes.c_int * len(ranks))(*ranks), len(ranks), ctypes.byref(handle)))
        group._handle, group.fabric = handle, self.fabric  # the controller runs as long as either of them
        _open_jobs.add(group)
        return group

    # --- joining and leaving -------------------------------------------------------------------------------------

    def wait_joined(self, timeout: Optional[float] = None) -> int:
        """Waits until the job is joined; returns the model's version. timeout: seconds. TimedOut; Error: refused."""
        version = ctypes.c_uint64()
        ends = ends_at(timeout)
        while True:
            left_ms = slice_ms(ends)
            result = C.heddle_wait_joined(self._open(), left_ms, ctypes.byref(version), None)
            if result != -errno.ETIMEDOUT or (ends is not None and time.monotonic() >= ends):
                checked(result)
                return version.value

    def close(self, timeout: Optional[float] = 1.0) -> bool:
        """Leaves the job: waits for the operations in flight for at most `timeout` seconds (None: no limit). Those that
        have not ended by then fail. False: there were such. Closing again does nothing."""
        if self._handle is not None:
            check_may_wait()
        handle, self._handle = self._handle, None
        if handle is None:
            return True
        _open_jobs.discard(self)
        self._look(True)
        result = C.heddle_close(handle, _ms(timeout))
        for ticket in list(self._tickets):
            ticket._close()
        for orphan, _ in self._orphans:
            C.heddle_ticket_free(orphan)
        self._orphans.clear()
        return checked(0 if result in (-errno.ETIMEDOUT, -errno.ECHILD) else result) == 0 and result == 0

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is None:
            return
        if is_inside():  # the library's thread cannot wait for its own end
            threading.Thread(target=self.close, name="heddle-close", daemon=True).start()
        else:
            self.close()

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._handle is None

    @property
    def rank(self) -> int:
        """This worker's rank."""
        return checked(C.heddle_rank(self._open()))

    @property
    def world_size(self) -> int:
        """The number of workers that the job was opened for."""
        return checked(C.heddle_world_size(self._open()))

    @property
    def values(self) -> int:
        """The number of values of the model; 0: a job without a server."""
        return self._values

    # --- operations ----------------------------------------------------------------------------------------------

    def agree(self, *data: Any, timeout: Optional[float] = None) -> bool:
        """Whether `data` are bit-equal at all workers of the job, which all call this: arrays, tensors of any dtype,
        shape and device, or mappings from names to them. It is matched like an all-reduce, but only with other agree()
        calls ("mismatch"). Errors as for allreduce(); TypeError: neither an array nor a tensor."""
        sums = equal.bits_of(equal.digest(*data))
        status = self.allreduce(sums, timeout=timeout, tag="Job.agree()", wait=math.inf)
        return equal.all_equal(sums, status.workers)

    def push_start(self, data: Any, base: int, *, payload: str = "fp32", scale: float = 1.0) -> Ticket:
        """Starts a push of one update: the values of the whole model, tensor after tensor, computed at version `base`.
        Copies them. Error (EDOM): NaN or Inf."""
        source = self._model(data, False)
        options = native.PushOptions(memory=source.memory, stream=source.stream, scale=scale,
                                     payload=native.choice("payload", native.PAYLOADS, payload))
        ticket = ctypes.c_void_p()
        base = native.integer("base", base, ctypes.c_uint64)
        checked(C.heddle_push_start(self._open(), source.address, base, ctypes.byref(options), ctypes.byref(ticket)))
        return self._ticket("push", ticket, (source,))

    def push(self, data: Any, base: int, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As push_start(), and waits for the outcome; returns the Status ("applied" or "dropped")."""
        return self.push_start(data, base, **options).wait(timeout)

    def pull_start(self, data: Any, *, newer_than: Optional[int] = None, payload: str = "fp32") -> Ticket:
        """Starts a pull of the model into `data`. newer_than: only a newer version; else the Status says "dropped"."""
        target = self._model(data, True)
        options = native.PullOptions(memory=target.memory, stream=target.stream, have=newer_than or 0,
                                     conditional=int(newer_than is not None),
                                     payload=native.choice("payload", native.PAYLOADS, payload))
        ticket = ctypes.c_void_p()
        checked(C.heddle_pull_start(self._open(), target.address, ctypes.byref(options), ctypes.byref(ticket)))
        return self._ticket("pull", ticket, (target,))

    def pull(self, data: Any, *, timeout: Optional[float] = None, **options: Any) -> Status:
        """As pull_start(), and waits; returns the Status, with the version that was delivered."""
        return self._finish(self.pull_start(data, **options), timeout)

    def superseded(self, base: int) -> bool:
        """Whether the server would drop an update that is still being computed from version `base`."""
        return bool(C.heddle_is_superseded(self._open(), native.integer("base", base, ctypes.c_uint64)))

    def _model(self, data, writable):
        buffer = buffers.of(data, writable)
        if buffer.count != self._values:
            raise ValueError(f"{buffer.count} values, and the model has {self._values}")
        return buffer

    def _ticket(self, what, handle, held):
        ticket = Ticket(self, what, handle, held)
        self._tickets.add(ticket)
        return ticket

    # --- membership, statistics ----------------------------------------------------------------------------------

    def members(self) -> Members:
        """The newest membership that was received."""
        members, ranks = native.Members(), (ctypes.c_int * native.WORKERS_MAX)()
        checked(C.heddle_get_members(self._open(), ctypes.byref(members), ranks, native.WORKERS_MAX))
        return Members(members.change, tuple(ranks[:members.count]), members.target, members.scale)

    def wait_members(self, count: Optional[int] = None, timeout: Optional[float] = None) -> Members:
        """Waits until the job has `count` members (default: world_size) and this worker is one of them; returns the
        Members. timeout: seconds. TimedOut."""
        check_may_wait()
        ends = ends_at(timeout)
        count = self.world_size if count is None else count
        while True:
            members = self.members()
            if len(members.ranks) >= count and self.rank in members.ranks:
                return members
            if ends is not None and time.monotonic() >= ends:
                raise TimedOut(errno.ETIMEDOUT, f"{len(members.ranks)} of {count} members after {timeout} s")
            time.sleep(POLL_S)

    def shard(self, dataset_size: int, rank: Optional[int] = None) -> List[range]:
        """The rows of a data set that belong to a worker (default: this one) while the members share
        it: a list of ranges. Error (ENOENT): the worker is no member."""
        ranks = self.members().ranks
        dataset_size = native.integer("dataset_size", dataset_size, ctypes.c_uint64)
        array, rank = (ctypes.c_int * len(ranks))(*ranks), self.rank if rank is None else native.integer("rank", rank)
        needed = checked(C.heddle_shard(array, len(ranks), dataset_size, rank, None, 0))
        found = (native.Range * needed)()
        checked(C.heddle_shard(array, len(ranks), dataset_size, rank, found, needed))
        return [range(one.first, one.first + one.count) for one in found]

    def notify_preemption(self, seconds: float) -> None:
        """Announces that this worker's machine is preempted in `seconds`."""
        checked(C.heddle_notify_preemption(self._open(), seconds))

    def time_left(self) -> Optional[float]:
        """For how many seconds new pushes are accepted; None: no notice was given."""
        left = C.heddle_time_left_ms(self._open())
        return None if left < 0 else left / 1000

    def stats(self) -> Dict[str, int]:
        """The handle's counters (struct heddle_stats), by name."""
        stats = native.Stats()
        checked(C.heddle_get_stats(self._open(), ctypes.byref(stats)))
        return {name: getattr(stats, name) for name, _ in stats._fields_[1:]}

    # --- event loops ---------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """A descriptor that is readable when a ticket has ended or the membership has changed."""
        return checked(C.heddle_fd(self._open()))

    def _progress(self):
        checked(C.heddle_progress(self._open(), 0))

    def _look(self, gone, but=None):
        for notifier in list(self._notifiers.values()):
            if notifier is not but:
                notifier.look_soon(gone)

    def _notifier(self, loop):
        return self._notifiers.setdefault(loop, Notifier(self, loop))

    # --- buffers of tickets that were dropped -------- -----------------------------------------------------------

    def _adopt(self, handle, held):
        """From a ticket's end: its operation may still use the buffers."""
        if C.heddle_ticket_test(handle, None) != 0:
            C.heddle_ticket_free(handle)
        else:
            self._orphans.append((handle, held))

    def _sweep(self):
        if self._orphans and self._lock.acquire(blocking=False):
            try:
                orphans, self._orphans = self._orphans, []
                for handle, held in orphans:
                    self._adopt(handle, held)
            finally:
                self._lock.release()


def _ms(timeout):
    return -1 if timeout is None else round(min(2**31 - 1, max(0, 1000 * timeout)))


@atexit.register
def _close_all():
    for job in list(_open_jobs):
        job.close()
