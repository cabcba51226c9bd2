# SPDX-License-Identifier: BSD-3-Clause
"""The calls of a process group: collectives, sends and receives over a Heddle job, everything else over a Gloo group of
the same ranks.

    GroupCalls -- collectives, send, recv --> heddle.Job
        \\------ all else ---> ProcessGroupGloo
"""
import errno
import functools
import os
import time
from datetime import timedelta

import torch.distributed as dist

from .errors import Error
from .fabric import Fabric
from .torch_collectives import Calls, are_alike, are_empty, can_reduce, can_travel, together
from .torch_errors import GroupError, as_group_error
from .torch_future import complete
from .torch_open import join_beside
from .torch_parts import Parts, split
from .torch_work import Work

_RETRY_S = 0.001
_ALLTOALL_MAX = 32  # ranks: as many as one aggregator has room for (HD_AGGREGATOR_SHARDS_MAX)
_OPERATIONS = {"SUM": "sum", "AVG": "average", "MIN": "min", "MAX": "max", "PRODUCT": "product"}
_FOR_GLOO = (
    "_get_sequence_number_for_group", "_set_sequence_number_for_group", "allgather_coalesced")
_POINT_TO_POINT = ("recv", "recv_anysource", "send")
_SENDS_OVER_GLOO = os.environ.get("HEDDLE_TORCH_SEND", "") == "gloo"
# Names of the same methods in versions of PyTorch between 1.13 and 2.15.
_OTHER_NAMES = {
    "_allgather_base": "all_gather_single", "_reduce_scatter_base": "reduce_scatter_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced", "alltoall_base": "all_to_all_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced"}


def _over_heddle(method, name=None):
    """Of a method that makes a Call, with the options last: returns a work of it. Where the method returns None, Gloo's
    method of this name has the call: it knows more forms, and says what is wrong with others."""
    name = name or method.__name__

    @functools.wraps(method)
    def collective(self, *arguments, **more):
        work = None
        if not set(more) - {"opts"}:
            work = self._begin(method, arguments, more)
        return self._hand_over(name, arguments, more) if work is None else work

    return collective


def _operation(opts):
    """The name of the operation in Job.allreduce(), or None. opts: options with an operation, or one itself."""
    op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    return next((ours for name, ours in _OPERATIONS.items()
                 if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)), None)


def _one_of(tensors):
    """The tensor of a list of one; else None."""
    return tensors[0] if isinstance(tensors, (list, tuple)) and len(tensors) == 1 else None


def _are_good(*tensors):
    return can_travel(*tensors) and are_alike(*tensors)


def _check_sizes(what, whole, part, size):
    """As for NCCL; Gloo of old does not take these calls."""
    if whole.dtype != part.dtype:
        raise TypeError(f"{what} tensor must have the same type as the other one: {whole.dtype}, {part.dtype}")
    if whole.numel() != size * part.numel():
        raise ValueError(f"{what} tensor size must be equal to world_size times that of the other one: {whole.numel()} "
                         f"is not {size} * {part.numel()}")


class GroupCalls:  # pylint: disable=too-many-public-methods  # PyTorch's
    """A class of PyTorch's inherits these. It sets _works to a Works, and calls _use() before everything else."""

    def _use(self, gloo, job, rank, size, timeout):
        """The members of this group are the workers of a job; `gloo` is a group of the same ranks."""
        self._rank, self._size, self._timeout, self._gloo, self._job = rank, size, timeout, gloo, job
        self._parts = Parts(job, lambda: join_beside(job, rank, size), gloo, rank, size)
        self._calls, self._others = Calls(job, rank, size, self._parts), []

    def set_timeout(self, timeout):
        """Of calls that have none of their own. timeout: a timedelta."""
        self._timeout = timeout

    def getBackendName(self):  # noqa: N802  # PyTorch's name
        return "heddle"

    # --- calls ---------------------------------------------------------------------------------------------------

    def _seconds(self, opts):
        timeout = getattr(opts, "timeout", timedelta(0))  # negative: was not set
        return (timeout if timeout > timedelta(0) else self._timeout).total_seconds()

    def _begin(self, method, arguments, more):
        seconds = self._seconds(more.get("opts") or (arguments[-1] if arguments else None))
        ends = time.monotonic() + seconds
        while True:
            try:
                call = method(self, *arguments, **more)
                break
            except Error as error:  # in a child process, after destroy_process_group(), or too many calls in flight
                if error.errno != errno.EAGAIN or time.monotonic() >= ends:
                    raise as_group_error(error) from error
            except ValueError as error:
                if not self._job.is_closed:
                    raise
                raise GroupError(errno.ESHUTDOWN, "the process group is closed") from error
            time.sleep(_RETRY_S)
        if call is None:
            return None
        gpus = [one.device for one in call.results[:1] if one.is_cuda]

        def result():
            call.finish()
            return call.results

        future = complete(call.ticket, result, timeout=seconds, devices=gpus, order=call.order)
        self._watch(future)
        return Work(call.ticket.what, future, call.results, self._works)

    def _watch(self, future):
        """Is called with the future of each collective."""

    def _hand_over(self, name, arguments, more):
        work = getattr(self._gloo, name)(*arguments, **more)
        if name not in _POINT_TO_POINT and hasattr(work, "is_completed"):
            self._others = [one for one in self._others if not one.is_completed()] + [work]
        return work

    def _has_root(self, opts):
        return hasattr(opts, "rootRank") and 0 <= opts.rootRank < self._size

    def _is_root(self, opts):
        return opts.rootRank == self._rank

    # --- collectives ---------------------------------------------------------------------------------------------

    @_over_heddle
    def allreduce(self, tensors, opts=None):
        tensor, op = _one_of(tensors), _operation(opts)
        if tensor is not None and are_empty(tensor):
            return self._calls.nothing("allreduce", tensors)
        if tensor is None or op is None or not can_reduce(tensor):
            return None
        return self._calls.allreduce(tensor, op)

    @_over_heddle
    def allreduce_coalesced(self, tensors, opts=None):
        op, with_values = _operation(opts), [one for one in tensors if one.numel() > 0]
        if tensors and are_empty(*tensors):
            return self._calls.nothing("allreduce_coalesced", tensors)
        if op is None or not can_travel(*tensors) or not with_values or not all(map(can_reduce, with_values)) \
                or len({one.dtype for one in tensors}) != 1:
            return None
        return self._calls.allreduce_coalesced(tensors, op)

    @_over_heddle
    def barrier(self, opts=None):  # pylint: disable=unused-argument
        """As Gloo's, it ends after collectives that were called before it."""
        before = [one for one in self._others if not one.is_completed()]

        def finish():
            for work in before:
                work.wait()

        return self._calls.barrier(finish)

    def monitored_barrier(self, options, wait_all_ranks=False):
        """Gloo's, which names the ranks that are late. options: a timedelta, or today's BarrierOptions."""
        self._gloo.monitored_barrier(getattr(options, "timeout", options), wait_all_ranks)

    @_over_heddle
    def broadcast(self, tensors, opts=None):
        tensor = _one_of(tensors)
        if tensor is None or not can_travel(tensor) or not self._has_root(opts):
            return None
        return self._calls.broadcast(tensor, opts.rootRank)

    @_over_heddle
    def reduce(self, tensors, opts=None):
        tensor, op = _one_of(tensors), _operation(opts)
        if tensor is not None and self._has_root(opts) and are_empty(tensor):
            return self._calls.nothing("reduce", tensors)
        if tensor is None or op is None or not self._has_root(opts) or not can_travel(tensor) or not can_reduce(tensor):
            return None
        return self._calls.reduce(tensor, opts.rootRank, op)

    @_over_heddle
    def allgather(self, outputs, inputs, opts=None):  # pylint: disable=unused-argument
        outputs, tensor = _one_of(outputs), _one_of(inputs)
        if outputs is None or tensor is None or len(outputs) != self._size or not _are_good(tensor, *outputs):
            return None
        return self._calls.allgather(outputs, tensor)

    @_over_heddle
    def gather(self, outputs, inputs, opts=None):
        tensor = _one_of(inputs)
        if tensor is None or not self._has_root(opts):
            return None
        outputs = _one_of(outputs) if self._is_root(opts) else []
        if outputs is None or len(outputs) != self._size * self._is_root(opts) or not _are_good(tensor, *outputs):
            return None
        return self._calls.gather(outputs, tensor, opts.rootRank)

    @_over_heddle
    def scatter(self, outputs, inputs, opts=None):
        tensor = _one_of(outputs)
        if tensor is None or not self._has_root(opts):
            return None
        inputs = _one_of(inputs) if self._is_root(opts) else []
        if inputs is None or len(inputs) != self._size * self._is_root(opts) or not _are_good(tensor, *inputs):
            return None
        return self._calls.scatter(tensor, inputs, opts.rootRank)

    @_over_heddle
    def reduce_scatter(self, outputs, inputs, opts=None):
        tensor, inputs = _one_of(outputs), _one_of(inputs)
        op = _operation(opts)
        if tensor is not None and inputs is not None and len(inputs) == self._size and are_empty(tensor, *inputs):
            return self._calls.nothing("reduce_scatter", [tensor])
        if tensor is None or inputs is None or op is None or len(inputs) != self._size \
                or not _are_good(tensor, *inputs) or not can_reduce(tensor):
            return None
        return self._calls.reduce_scatter(tensor, inputs, op)

    # --- from one rank to another --------------------------------------------------------------------------------

    @_over_heddle
    def send(self, tensors, dst, tag=0):
        tensor = _one_of(tensors)
        if _SENDS_OVER_GLOO or tensor is None or not can_travel(tensor):
            return None
        return self._calls.send(tensor, dst, tag)

    @_over_heddle
    def recv(self, tensors, src, tag=0):
        tensor = _one_of(tensors)
        if _SENDS_OVER_GLOO or tensor is None or not can_travel(tensor):
            return None
        return self._calls.recv(tensor, src, tag)

    def recv_anysource(self, tensors, tag=0):
        """Over Gloo, where it finds no message of a rank that sends over Heddle."""
        if not _SENDS_OVER_GLOO:
            raise RuntimeError("recv() without a source: messages over Heddle are received from a rank that is named; "
                               "HEDDLE_TORCH_SEND=gloo at all ranks sends and receives over Gloo instead")
        return self._hand_over("recv_anysource", (tensors, tag), {})

    # --- of one tensor of all ranks ------------------------------------------------------------------------------

    @_over_heddle
    def all_gather_single(self, output, tensor, opts=None):  # pylint: disable=unused-argument
        if not can_travel(output, tensor):
            return None
        _check_sizes("output", output, tensor, self._size)
        return self._calls.allgather_single(output, tensor)

    @_over_heddle
    def all_to_all_single(self, output, tensor, output_splits, splits, opts=None):
        if self._size > _ALLTOALL_MAX or not can_travel(output, tensor) or output.dtype != tensor.dtype \
                or tensor.dim() == 0 or output.dim() == 0:
            return None
        given = split(tensor.shape[0], splits, self._size)
        wanted = split(output.shape[0], output_splits, self._size)
        if given is None or wanted is None:
            return None
        if not splits and not output_splits:
            return self._calls.alltoall_single(output, tensor) if output.numel() == tensor.numel() else None
        each = tensor.shape[1:].numel()
        if output.shape[1:].numel() != each:
            return None
        return self._calls.alltoall_parts([output], [tensor], [each * rows for rows in wanted],
                                          [each * rows for rows in given], self._seconds(opts))

    @_over_heddle
    def alltoall(self, outputs, inputs, opts=None):
        if self._size > _ALLTOALL_MAX or len(outputs) != self._size or len(inputs) != self._size \
                or not can_travel(*outputs, *inputs) or len({one.dtype for one in (*outputs, *inputs)}) != 1:
            return None
        return self._calls.alltoall_parts(outputs, inputs, [one.numel() for one in outputs],
                                          [one.numel() for one in inputs], self._seconds(opts))

    @_over_heddle
    def reduce_scatter_single(self, output, tensor, opts=None):
        op = _operation(opts)
        if are_empty(output, tensor):
            return self._calls.nothing("reduce_scatter", [output])
        if op is None or not can_travel(output, tensor) or not can_reduce(output):
            return None
        _check_sizes("input", tensor, output, self._size)
        return self._calls.reduce_scatter(output, [tensor], op)

    @_over_heddle
    def all_gather_single_coalesced(self, outputs, tensors, opts=None):  # pylint: disable=unused-argument
        if len(outputs) != len(tensors) or not tensors or not can_travel(*outputs, *tensors):
            return None
        for output, tensor in zip(outputs, tensors):
            _check_sizes("output", output, tensor, self._size)
        return together([self._calls.allgather_single(*pair) for pair in zip(outputs, tensors)])

    @_over_heddle
    def reduce_scatter_single_coalesced(self, outputs, tensors, opts=None):
        op = _operation(opts)
        if op is None or len(outputs) != len(tensors) or not tensors or not can_travel(*outputs, *tensors) \
                or not all(map(can_reduce, outputs)):
            return None
        for output, tensor in zip(outputs, tensors):
            _check_sizes("input", tensor, output, self._size)
        return together([self._calls.reduce_scatter(output, [one], op) for output, one in zip(outputs, tensors)])

    # --- the end -------------------------------------------------------------------------------------------------

    def shutdown(self):
        """Leaves the job (destroy_process_group() of today's PyTorch). A controller of this process ends with its last
        group, although models may keep the object of the group."""
        self._leave(1.0)

    def abort(self):
        """Leaves the job at once: operations in flight fail."""
        self._leave(0)

    def _leave(self, timeout):
        self._job.close(timeout)
        self._parts.close(timeout)
        self._job.fabric = Fabric()


def _to_gloo(name):
    def method(self, *arguments, **more):
        return self._hand_over(name, arguments, more)

    method.__name__ = name
    return method


for _name in _FOR_GLOO:
    if hasattr(dist.ProcessGroupGloo, _name):
        setattr(GroupCalls, _name, _to_gloo(_name))
for _name, _known in _OTHER_NAMES.items():
    setattr(GroupCalls, _name, _over_heddle(getattr(GroupCalls, _known).__wrapped__, _name))
