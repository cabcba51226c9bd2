# SPDX-License-Identifier: BSD-3-Clause
"""The process group "heddle": init_process_group("heddle") alone trains DistributedDataParallel over the fabric.

All collectives of tensors on the host or on a GPU travel over Heddle: reductions by SUM, AVG, MIN, MAX and PRODUCT of
the types in buffers.py, and copies of any dtype. Everything else goes to a Gloo group inside, which does it or says why
it cannot.
Each process group is a Heddle job with a name of its own, so groups and subgroups do not disturb each other. A
collective has exactly the members of the group, or it fails with the number of those that are left.

    init_process_group("heddle") ---> _Group              its ranks are those of the start
     enable_reconfigure=True -------> ReconfigurableGroup    has none before reconfigure()
"""
from datetime import timedelta

import torch
import torch.distributed as dist

from .torch_calls import GroupCalls
from .torch_open import join_group
from .torch_reconfigure import ReconfigurableGroup
from .torch_work import Works

_c10d = torch._C._distributed_c10d
_BASE = _c10d.Backend if hasattr(_c10d, "Backend") else dist.ProcessGroup  # since 2.0; before
_DEFAULT_TIMEOUT = timedelta(minutes=30)


class _Group(GroupCalls, _BASE):
    def __init__(self, gloo, job, rank, size, timeout):
        _BASE.__init__(self, rank, size)
        self._works = Works()
        self._use(gloo, job, rank, size, timeout)


def create(store, rank, size, timeout=_DEFAULT_TIMEOUT):
    """The process group of one rank (Backend.register_backend()); a ProcessGroupGloo where no fabric answers and
    HEDDLE_FALLBACK=gloo."""
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
    job = join_group(store, rank, size, gloo)
    return gloo if job is None else _Group(gloo, job, rank, size, timeout)


def _create(options, _):
    """As create(), for today's PyTorch, which has more options. With enable_reconfigure=True the group has no members
    before reconfigure()."""
    if getattr(options, "enable_reconfigure", False):
        return ReconfigurableGroup(options.timeout, options.group_rank, options.group_size)
    return create(options.store, options.group_rank, options.group_size, options.timeout)


def register() -> None:
    """Makes init_process_group("heddle") known; importing heddle.torch does it."""
    known = getattr(dist.Backend, "HEDDLE", None)
    if known is not None:
        return
    try:
        dist.Backend.register_backend("heddle", _create, extended_api=True, devices=["cpu", "cuda"])
    except TypeError:  # PyTorch before 2.0
        dist.Backend.register_backend("heddle", create)
