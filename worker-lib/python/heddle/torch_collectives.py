# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of PyTorch tensors over a job whose workers are the ranks of a process group.

    tensor --detached, contiguous, as a type of the library--> values    of the tensor's memory, if that is possible
    tensor <------------- copied back, where it is not -------/

Values that are only copied may be of any dtype: they travel as a type of as many bytes, and their dtype is the call's
tag, so that ranks that give different ones have an error."""
from typing import Any, Callable, List, NamedTuple, Sequence

import torch

from . import buffers
from .job import Job
from .ticket import Ticket
from .torch_parts import HEAD, Parts
from .torch_reduce import begin_allreduce

PARTS_MAX = 65536  # HEDDLE_PARTS_MAX of heddle_list.h
_BY_BYTES = {1: torch.uint8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


class Call(NamedTuple):
    """A collective in flight. finish: is called when the ticket has been applied; results: of the work. order: of the
    calls that end in their order; None: of the group's collectives."""

    ticket: Ticket
    finish: Callable[[], None]
    results: List[torch.Tensor]
    order: Any = None


def check_memory(*tensors: torch.Tensor) -> None:
    """RuntimeError: a tensor has no memory; Gloo would read it all the same."""
    for one in tensors:
        if one.device.type in ("cpu", "cuda") and one.layout == torch.strided and not buffers.has_memory(one):
            raise RuntimeError(buffers.NO_MEMORY)


def can_travel(*tensors: torch.Tensor) -> bool:
    """Whether tensors can be copied over Heddle: on the host or all on one GPU, and neither sparse nor quantized.
    RuntimeError: a tensor has no memory."""
    check_memory(*tensors)
    return len({one.device for one in tensors}) <= 1 and all(
        one.device.type in ("cpu", "cuda") and one.layout == torch.strided and not one.is_quantized
        and (one.is_complex() or one.element_size() in _BY_BYTES) for one in tensors)


def can_reduce(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be added over Heddle: one of a type in buffers.py, and not empty. RuntimeError: it has no
    memory."""
    check_memory(tensor)
    return buffers.tensor_type(tensor) is not None and tensor.layout == torch.strided and tensor.numel() > 0


def are_empty(*tensors: torch.Tensor) -> bool:
    """Whether all of them can travel, and have no values."""
    return all(one.numel() == 0 for one in tensors) and can_travel(*tensors)


def are_alike(first: torch.Tensor, *others: torch.Tensor) -> bool:
    """Whether tensors have the same dtype and shape."""
    return all(one.dtype == first.dtype and one.shape == first.shape for one in others)


def _values(tensor):
    """The elements in the order of their indices."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    if buffers.tensor_type(plain) is None:
        plain = plain.view(_BY_BYTES[plain.element_size()])
    return plain.view(-1)


def _put(values, tensor):
    """The reverse of _values()."""
    if values.data_ptr() == tensor.data_ptr():
        return
    if tensor.is_complex():
        real = torch.empty(0, dtype=tensor.dtype).real.dtype
        tensor.detach().copy_(torch.view_as_complex(values.view(real).view(*tensor.shape, 2)))
    else:
        tensor.detach().copy_(values.view(tensor.dtype).view(tensor.shape))


def _count(tensors):
    """Of all their values."""
    return sum((2 if one.is_complex() else 1) * one.numel() for one in tensors)


def _joined(tensors):
    return torch.cat([_values(one) for one in tensors])


def _overlap(values):
    """Whether two of them share memory."""
    spans = sorted((one.data_ptr(), one.numel() * one.element_size()) for one in values if one.numel() > 0)
    return any(first + size > following for (first, size), (following, _) in zip(spans, spans[1:]))


def _spread(values: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    for part, tensor in zip(values.chunk(len(tensors)), tensors):
        _put(part, tensor)


def together(calls: Sequence[Call]) -> Call:
    """Several calls as one, which ends with the last of them."""
    def finish():
        for call in calls[:-1]:
            call.ticket.wait()
            call.finish()
        calls[-1].finish()

    return Call(calls[-1].ticket, finish, [one for call in calls for one in call.results])


def _nothing() -> None:
    pass


def _some(values: torch.Tensor) -> torch.Tensor:
    """A message has at least one value, which that of an empty tensor does not keep."""
    return values if values.numel() > 0 else values.new_empty(1)


def _mark(tensor: torch.Tensor, tag: int) -> str:
    """The tag of a message: both ends must give the same."""
    return f"{tensor.dtype}{' of no values' if tensor.numel() == 0 else ''}, tag {tag}"


class Calls:
    """The collectives of one rank. All tensors of a call are alike, and can_travel(), of reductions can_reduce(). op:
    as for Job.allreduce(). Each returns a Call. Error: as of the calls of Job."""

    def __init__(self, job: Job, rank: int, size: int, parts: Parts):
        self._job, self._rank, self._size, self._parts = job, rank, size, parts

    def _copy(self, start: Callable[..., Ticket], tensor: torch.Tensor, *arguments: Any) -> Ticket:
        """Empty tensors have no values to send; all ranks have called, as in a collective with values."""
        if tensor.numel() == 0:
            return self._job.barrier_start(exact=self._size, tag=f"{start.__name__[:-len('_start')]} of no values")
        known = buffers.tensor_type(tensor) is not None
        return start(*arguments, exact=self._size, tag=None if known else str(tensor.dtype))

    def barrier(self, finish: Callable[[], None] = _nothing) -> Call:
        return Call(self._job.barrier_start(exact=self._size), finish, [])

    def nothing(self, what: str, tensors: Sequence[torch.Tensor]) -> Call:
        """A reduction of tensors without values, which all ranks call."""
        return Call(self._job.barrier_start(exact=self._size, tag=f"{what} of no values"), _nothing, list(tensors))

    def allreduce(self, tensor: torch.Tensor, op: str) -> Call:
        ticket, finish = begin_allreduce(self._job, tensor, op=op, exact=self._size)
        return Call(ticket, finish, [tensor])

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], op: str) -> Call:
        """One all-reduce of all of them, which may have different shapes."""
        parts = [_values(one) for one in tensors]
        if len(parts) > PARTS_MAX or parts[0].is_cuda or _overlap(parts):  # the library takes no such list
            joined = torch.cat(parts)
            parts = joined.split([one.numel() for one in parts])
            start, values = self._job.allreduce_start, joined
        else:
            start, values = self._job.allreduce_list_start, parts

        def finish():
            for part, tensor in zip(parts, tensors):
                _put(part, tensor)

        return Call(start(values, op=op, exact=self._size), finish, list(tensors))

    def broadcast(self, tensor: torch.Tensor, root: int) -> Call:
        values = _values(tensor)
        ticket = self._copy(self._job.broadcast_start, tensor, values, root)
        return Call(ticket, (lambda: _put(values, tensor)) if self._rank != root else _nothing, [tensor])

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Call:
        ticket = self._job.send_start(_some(_values(tensor)), to, tag=_mark(tensor, tag))
        return Call(ticket, _nothing, [tensor], ("to", to))

    def recv(self, tensor: torch.Tensor, source: int, tag: int) -> Call:
        values = _values(tensor)
        ticket = self._job.recv_start(_some(values), source, tag=_mark(tensor, tag))
        return Call(ticket, lambda: _put(values, tensor), [tensor], ("from", source))

    def reduce(self, tensor: torch.Tensor, root: int, op: str) -> Call:
        values = _values(tensor)
        ticket = self._job.reduce_start(values, root, op=op, exact=self._size)
        return Call(ticket, (lambda: _put(values, tensor)) if self._rank == root else _nothing, [tensor])

    def allgather(self, outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> Call:
        values = _values(tensor)
        found = values.new_empty(self._size * values.numel())
        ticket = self._copy(self._job.allgather_start, tensor, values, found)
        return Call(ticket, lambda: _spread(found, outputs), list(outputs))

    def allgather_single(self, output: torch.Tensor, tensor: torch.Tensor) -> Call:
        """output: as many elements as all inputs together, in any shape."""
        found = _values(output)
        ticket = self._copy(self._job.allgather_start, tensor, _values(tensor), found)
        return Call(ticket, lambda: _put(found, output), [output])

    def alltoall_single(self, output: torch.Tensor, tensor: torch.Tensor) -> Call:
        """Of as many elements in each direction, the same for each rank."""
        found = _values(output)
        ticket = self._copy(self._job.alltoall_start, tensor, _values(tensor), found)
        return Call(ticket, lambda: _put(found, output), [output])

    def alltoall_parts(self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], wanted: Sequence[int],
                       given: Sequence[int], seconds: float) -> Call:
        """outputs, tensors: of any shapes. wanted, given: their elements from and for each rank. seconds: for the
        parts, when their sizes are known."""
        values = _joined(tensors)
        found = _values(outputs[0]) if len(outputs) == 1 else values.new_empty(_count(outputs))
        each = 2 if tensors[0].is_complex() else 1
        sizes, table = torch.tensor([*given, *wanted]) * each, torch.empty(2 * self._size**2, dtype=torch.int64)
        ticket = self._job.allgather_start(sizes, table, exact=self._size, tag=f"{HEAD}, {tensors[0].dtype}")

        def finish():
            self._parts.exchange(table, values, found, seconds)
            for part, output in zip(found.split([_count([one]) for one in outputs]), outputs):
                _put(part, output)

        return Call(ticket, finish, list(outputs))

    def gather(self, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Call:
        """outputs: at the root; elsewhere empty."""
        values = _values(tensor)
        found = values.new_empty(self._size * values.numel()) if self._rank == root else None
        ticket = self._copy(self._job.gather_start, tensor, values, root, found)
        return Call(ticket, _nothing if found is None else lambda: _spread(found, outputs), list(outputs))

    def scatter(self, output: torch.Tensor, tensors: Sequence[torch.Tensor], root: int) -> Call:
        """tensors: at the root; elsewhere empty."""
        found, values = _values(output), _joined(tensors) if self._rank == root else None
        ticket = self._copy(self._job.scatter_start, output, values, found, root)
        return Call(ticket, lambda: _put(found, output), [output])

    def reduce_scatter(self, output: torch.Tensor, tensors: Sequence[torch.Tensor], op: str) -> Call:
        """tensors: one for each rank, or one of all their elements."""
        found = _values(output)
        ticket = self._job.reduce_scatter_start(_joined(tensors), found, op=op, exact=self._size)
        return Call(ticket, lambda: _put(found, output), [output])
