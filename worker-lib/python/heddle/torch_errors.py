# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the process group as exceptions that users of PyTorch know: RuntimeError, and since PyTorch 2.0
its torch.distributed.DistBackendError. They are heddle.Error, too."""
import torch.distributed as dist

from .errors import Error, TimedOut

_BACKEND = getattr(dist, "DistBackendError", RuntimeError)


class GroupError(Error, _BACKEND):
    """An operation of a process group has failed, or the group cannot be made. `errno` as in heddle.h."""


class GroupTimedOut(TimedOut, _BACKEND):
    """An operation was not over in time, or no fabric has answered."""


def as_group_error(error: Error) -> Error:
    """The same error for users of a process group."""
    if isinstance(error, _BACKEND):
        return error
    return (GroupTimedOut if isinstance(error, TimedOut) else GroupError)(error.errno, error.strerror)
