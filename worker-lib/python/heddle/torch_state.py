# SPDX-License-Identifier: BSD-3-Clause
"""The newest state of a module and its optimizer, from another worker. The state of an optimizer grows when it makes
its first step, so a worker that joins does not know its form. It is told first:

    length of the form     8 bytes          ("length", then "form", then "values": each by Job.share_state())
    the form               JSON: everything but the values of tensors
    the values             those of each tensor
"""
import errno
import json
from typing import Any, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

from .errors import Error
from .job import Job

_TRIES = 10  # the source of a form may be lost before it has given the values


def _describe(value: Any, tensors: List[torch.Tensor]) -> Any:
    """The form of a value for JSON; its tensors are appended. TypeError: something else than state_dict()s have."""
    if isinstance(value, torch.Tensor):
        held = value.detach().cpu().contiguous()
        tensors.append(held)
        return ["tensor", str(held.dtype).partition(".")[2], list(held.shape)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    if isinstance(value, dict):
        return ["dict", [[_describe(key, tensors), _describe(one, tensors)] for key, one in value.items()]]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_describe(one, tensors) for one in value]]
    raise TypeError(f"the state has a {type(value).__name__}, which cannot be sent")


def _make(form: Any, tensors: List[torch.Tensor]) -> Any:
    """A value of this form, with new tensors, which are appended."""
    kind, held = form[0], form[1]
    if kind == "tensor":
        tensors.append(torch.empty(form[2], dtype=getattr(torch, held)))
        return tensors[-1]
    if kind == "value":
        return held
    if kind == "dict":
        return {_make(key, tensors): _make(one, tensors) for key, one in held}
    made = [_make(one, tensors) for one in held]
    return made if kind == "list" else tuple(made)


def _job_of(group: Any) -> Tuple[Job, int]:
    """The job, and how many workers must take part; 0: those that are there."""
    if isinstance(group, Job):
        return group, 0
    group = dist.distributed_c10d._get_default_group() if group is None else group
    asks = not hasattr(group, "_job") and hasattr(group, "_get_backend")  # since 2.0; before, it is its own backend
    backend = group._get_backend(torch.device("cpu")) if asks else group
    if not hasattr(backend, "_job"):
        raise TypeError("the process group is not of the backend heddle: pass a heddle.Job")
    return backend._job, backend._size


class _Sharing:
    """offered: the step of this worker's state; None: it has none, or it is not to be used. That is so once the
    length of another one has come: the job takes a worker that was late for one that is not from then on."""

    def __init__(self, job, exact, timeout, step):
        self._job, self._exact, self._timeout, self.offered = job, exact, timeout, step

    def _share(self, items):
        return self._job._share_state(items, self.offered, self._exact, 0, self._timeout)

    def once(self, parts):
        """The new version, and the new parts or None. Error (ESTALE): the source was lost in between."""
        tensors: List[torch.Tensor] = []
        form = bytearray(json.dumps(_describe(parts, tensors)).encode())
        length = torch.tensor([len(form)])
        told = self._share({"length": length})
        if told.received:
            self.offered, form = None, bytearray(int(length))
        self._follow(self._share({"form": form}), told)
        if told.received:
            tensors = []
            parts = _make(json.loads(form.decode()), tensors)
        self._follow(self._share({f"tensor {i}": one for i, one in enumerate(tensors)}), told)
        return told.version, parts if told.received else None

    @staticmethod
    def _follow(now, before):
        if now.version != before.version:
            raise Error(errno.ESTALE, "the worker that had the newest state is lost")


def _is_repeated(error):
    return error.errno in (errno.ESTALE, errno.ENODATA) or getattr(getattr(error, "status", None), "reason", "") \
        == "mismatch"


def share_state(model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer], step: Optional[int],
                group: Union[Job, Any, None] = None, *, timeout: Optional[float] = None) -> int:
    """Gives all workers the newest state of the module and the optimizer (None: of the module alone) that one of them
    has; returns its step. All call it as their next collective. step: how many steps this worker's state has; 0: it is
    initial, and that of the lowest rank counts if no worker has made a step; None: it is not to be used. Workers that
    have the newest state keep theirs. group: a Job, over the workers that are there, or a process group "heddle" (None:
    the default one), over all its members. timeout: seconds, of each of its three parts. Errors as for
    Job.share_state(); TypeError: a state_dict() has something else than tensors, numbers, texts, lists and dicts."""
    job, exact = _job_of(group)
    parts = [model.state_dict(), None if optimizer is None else optimizer.state_dict()]
    sharing = _Sharing(job, exact, timeout, step)
    for left in reversed(range(_TRIES)):
        try:
            version, taken = sharing.once(parts)
            break
        except Error as error:
            if left == 0 or not _is_repeated(error):
                raise
            if error.errno == errno.ENODATA:  # those that had one are lost, and this one is better than none
                sharing.offered = step
    if taken is not None:
        model.load_state_dict(taken[0])
        if optimizer is not None:
            optimizer.load_state_dict(taken[1])
    return version
