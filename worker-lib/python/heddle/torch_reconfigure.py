# SPDX-License-Identifier: BSD-3-Clause
"""A process group whose members change while its processes run: for PyTorch's reconfigure() (since 2.14, where this is
experimental), and for torchft's configure().

    reconfigure(uuid, handles)                              rank: the place of this process's handle
          | a store of the first handle's process
          v
    configure(ADDRESS:PORT/PREFIX, ..., rank, world_size)   leaves the old job; a new job and a new Gloo group

Nothing of the old members is needed: each process serves a store for the groups in which it is rank 0, and rank 0
starts a controller unless the environment has one or it has one already. PyTorch's own classes for backends cannot
change their rank and size from Python; its ProcessGroup can."""
import errno
import hashlib
import threading
import uuid
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from . import fabric
from .errors import Error, OperationFailed, TimedOut
from .torch_calls import GroupCalls
from .torch_errors import GroupError, as_group_error
from .torch_open import join_group
from .torch_work import Work, Works

DEFAULT_TIMEOUT = timedelta(seconds=60)
_ERRORS = getattr(torch._C._distributed_c10d, "ErrorType", None)  # of today's PyTorch
_lock = threading.Lock()
_served = None


class _Nobody:
    """Stands for the job and the Gloo group while the process group has no members."""

    def __getattr__(self, name):
        raise GroupError(errno.ENOTCONN, "the process group has no members: reconfigure() or configure() it first")


def _served_store(timeout):
    """The store that this process serves, and its address."""
    global _served  # pylint: disable=global-statement  # it serves the others as long as this process runs
    with _lock:
        if _served is None:
            host = fabric.own_address()
            store = dist.TCPStore(host, 0, None, True, timeout, wait_for_workers=False)
            _served = store, f"{host}:{store.port}"
        return _served


def _store_at(text, timeout):
    """Of ADDRESS:PORT/PREFIX. RuntimeError: it does not answer."""
    address, _, prefix = text.partition("/")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not ADDRESS:PORT/PREFIX")
    store = dist.TCPStore(host.strip("[]"), int(port), None, False, timeout, wait_for_workers=False)
    return dist.PrefixStore(prefix, store)


def _done(works, name):
    future = torch.futures.Future()
    future.set_result([])
    return Work(name, future, [], works)


class ReconfigurableGroup(GroupCalls, dist.ProcessGroup):
    """The process group "heddle" of init_process_group(..., enable_reconfigure=True), and a ProcessGroup for torchft:

        manager = torchft.Manager(pg=heddle.torch.ReconfigurableGroup(timeout), ...)

    It has no members before reconfigure() or configure(): calls are a GroupError (ENOTCONN). timeout: of calls, and for
    a new set of members. A call that has failed, or a member that is lost, is told by errored(): all members that are
    left call reconfigure() or configure() then, and the same group has them. Newcomers call it with a new group. Calls
    in flight fail. After a change share_state() gives all members the newest model."""

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT, rank: int = 0, size: int = 1):
        dist.ProcessGroup.__init__(self, rank, size)
        self._works, self._name, self._description = Works(), "", ""
        self._used, self._token, self._number = set(), uuid.uuid4().hex[:12], 0
        self._error: Optional[Exception] = None
        self._were_all = False
        self._timeout = timeout
        self._forget(rank, size)

    def _forget(self, rank, size):
        nobody = _Nobody()
        self._rank, self._size = rank, size
        self._job = self._gloo = self._calls = self._parts = nobody
        self._others, self._error, self._were_all = [], None, False
        self._number += 1

    # --- members -------------------------------------------------------------------------------------------------

    def configure(self, store_addr: str, replica_id: str, rank: int, world_size: int, quorum_id: Optional[int] = None,
                  group_rank: Optional[int] = None, group_world_size: Optional[int] = None,
                  global_ranks: Optional[List[int]] = None) -> None:
        """torchft's: the group has `world_size` members now, which all call this, each with another `rank`. store_addr:
        ADDRESS:PORT/PREFIX of a TCPStore; the prefix was not used before. The other arguments are not used. Returns
        when all have joined. GroupError, GroupTimedOut; RuntimeError: the store does not answer."""
        del replica_id, quorum_id, group_rank, group_world_size, global_ranks
        self._change(_store_at(store_addr, self._timeout), rank, world_size, self._timeout)

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        """How the others reach this process, as long as it runs; for its reconfigure() and theirs."""
        return f"{_served_store(DEFAULT_TIMEOUT)[1]}/{self._token}"

    def reconfigure(self, opts: Any) -> Any:
        """PyTorch's: the processes of opts.handles are the members now. All call this with the same handles and uuid. A
        list: the ranks are the places in it; a set: they are in the order of the handles. Returns when all have joined,
        a work that is done. GroupError (EEXIST): the uuid was used before; others as configure(). ValueError: the
        handle of this process is not among them, or one is there twice."""
        handles = list(opts.handles) if isinstance(opts.handles, (list, tuple)) else sorted(opts.handles)
        mine, timeout = self.get_reconfigure_handle(), opts.timeout or self._timeout
        if opts.uuid in self._used:
            raise GroupError(errno.EEXIST, f"uuid {opts.uuid} was already used")
        if handles.count(mine) != 1 or len(set(handles)) != len(handles):
            raise ValueError(f"{mine}, the handle of this process, must be one of the handles, and each there once")
        self._used.add(opts.uuid)
        rank, which = handles.index(mine), hashlib.sha256(" ".join(handles).encode()).hexdigest()[:16]
        prefix = f"{handles[0].partition('/')[2]}/{opts.uuid}/{which}"
        if rank == 0:
            store = dist.PrefixStore(prefix, _served_store(timeout)[0])
        else:
            store = _store_at(f"{handles[0].partition('/')[0]}/{prefix}", timeout)
        self._change(store, rank, len(handles), timeout)
        return _done(self._works, "reconfigure")

    def _change(self, store, rank, size, timeout):
        kept = None if isinstance(self._job, _Nobody) else self._job.fabric
        self._part(0)
        gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
        job = join_group(store, rank, size, gloo, again=True)
        del kept  # rank 0's controller has served until here, for the new job, too
        self._use(gloo, job, rank, size, self._timeout)

    def _part(self, timeout):
        """Leaves the job, if there is one."""
        if not isinstance(self._job, _Nobody):
            self._leave(timeout)
        self._forget(self._rank, self._size)

    def abort(self) -> None:
        """Leaves the job at once: operations in flight fail. The group can be reconfigured."""
        self._part(0)

    def shutdown(self) -> None:
        """Leaves the job. The group can be reconfigured."""
        self._part(1.0)

    def broadcast_one(self, tensor: torch.Tensor, root: int) -> Any:
        """torchft's: broadcast() of one tensor."""
        options = dist.BroadcastOptions()
        options.rootRank = root
        return self.broadcast([tensor], options)

    # --- errors --------------------------------------------------------------------------------------------------

    def _watch(self, future):
        number = self._number

        def note(done):
            try:
                done.wait()
            except Error as error:
                repeatable = isinstance(error, OperationFailed) and error.status.reason == "mismatch"
                if number == self._number and not repeatable:
                    self._error = self._error or as_group_error(error)

        future.add_done_callback(note)

    def errored(self) -> Optional[Exception]:
        """torchft's: why the group has to be reconfigured, or None: the first call that has failed since then (calls
        that do not match are no reason), or a member that is lost, also when no call is in flight."""
        if self._error is None and not isinstance(self._job, _Nobody):
            left = len(self._job.members().ranks)
            self._were_all |= left == self._size
            if self._were_all and left < self._size:
                self._error = GroupError(errno.EPIPE, f"{left} of {self._size} members are left")
        return self._error

    def get_error(self) -> Any:
        """The same as PyTorch's ErrorType."""
        error = self.errored()
        if error is None:
            return _ERRORS.SUCCESS
        return _ERRORS.TIMEOUT if isinstance(error, TimedOut) else _ERRORS.COMM_ERROR

    # --- what PyTorch's ProcessGroup asks -------------------------------------------------------------------------

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size  # noqa: N815  # from C++

    def _get_backend(self, device: Any) -> Any:  # pylint: disable=unused-argument
        return self

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupName(self) -> str:  # noqa: N802  # from C++
        return self._name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    group_name, group_desc = property(getGroupName), property(getGroupDesc)
