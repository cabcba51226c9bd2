# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch over Heddle: communication hooks of DistributedDataParallel, the process group "heddle", and a sampler over
live members.

    job = heddle.Job("resnet")
    model = DistributedDataParallel(net)
    model.register_comm_hook(job, heddle.torch.allreduce_hook)

With a hook gradients are averaged over the workers that are in the sum: when one dies, the others continue without it.
With init_process_group("heddle") instead, all members are in each sum, or it is an error. Buckets are all-reduced while
the backward pass computes the next ones.
"""
from typing import Any, Iterator, Sized

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from .equal import all_equal, bits_of, digest
from .job import Job
from .torch_async import AsyncSGD
from .torch_errors import GroupError, GroupTimedOut
from .torch_future import fails_in_c
from .torch_group import register
from .torch_open import open_job as open  # pylint: disable=redefined-builtin
from .torch_reconfigure import ReconfigurableGroup
from .torch_reduce import start_allreduce
from .torch_state import share_state


def _reduce(job, bucket, payload):
    return fails_in_c(start_allreduce(job, bucket.buffer(), op="average", payload=payload))


def allreduce_hook(job: Job, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Hook for register_comm_hook(job, ...): the mean of each bucket over the workers, in the gradients' own type. If
    an all-reduce fails, backward() raises a RuntimeError with the words of the error."""
    return _reduce(job, bucket, "fp32")


def fp16_hook(job: Job, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """As allreduce_hook(), with IEEE fp16 on the wire: half the bytes, 11 bits of precision, up to 65504."""
    return _reduce(job, bucket, "fp16")


def bf16_hook(job: Job, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """As allreduce_hook(), with bfloat16 on the wire: half the bytes, 8 bits of precision, fp32's range."""
    return _reduce(job, bucket, "bf16")


def agree(*data: Any, group: Any = None) -> bool:
    """Whether `data` are bit-equal at all ranks of a process group (None: the default group) of any backend, which all
    call this: modules, tensors of any dtype, shape and device, or mappings from names to them. GroupError or another
    RuntimeError: as for torch.distributed.all_reduce()."""
    parts = [item.state_dict() if isinstance(item, torch.nn.Module) else item for item in data]
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    sums = torch.tensor(bits_of(digest(*parts)), dtype=torch.float32, device=device)
    dist.all_reduce(sums, group=group)
    return all_equal(sums.tolist(), dist.get_world_size(group))


class ShardSampler(Sampler):
    """The rows of a data set that belong to this worker while the job's members share it, in an order that depends on
    `seed` and the epoch (set_epoch()); shuffle=False: ascending. Each iteration begins with the members of that
    moment: a row belongs to exactly one of them."""

    def __init__(self, job: Job, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self._job, self._size, self._shuffle, self._seed, self._epoch = job, len(dataset), shuffle, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """As DistributedSampler.set_epoch(): another order for each epoch."""
        self._epoch = epoch

    def _rows(self):
        parts = [torch.arange(rows.start, rows.stop) for rows in self._job.shard(self._size)]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def __iter__(self) -> Iterator[int]:
        rows = self._rows()
        if self._shuffle:
            generator = torch.Generator()
            generator.manual_seed(self._seed + self._epoch)
            rows = rows[torch.randperm(len(rows), generator=generator)]
        return iter(rows.tolist())

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._job.shard(self._size))


register()
