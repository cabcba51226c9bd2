# SPDX-License-Identifier: BSD-3-Clause
"""Heddle: the update fabric for distributed training, from Python (docs/pytorch.md).

    import heddle, numpy

    with heddle.Job("sums") as job:             # controller and key file from the environment (heddle-run)
        x = numpy.ones(1000, dtype=numpy.float32)
        job.allreduce(x)                        # the sum over all workers, in place

heddle.torch has a communication hook for PyTorch's DistributedDataParallel; `python3 -m heddle doctor` checks this
host's set-up."""
import errno as _errno
import os as _os
from typing import Any, Optional

from .collectives import block
from .errors import Error, OperationFailed, TimedOut
from .job import Job, Members, Tensor
from .native import C as _C
from .ticket import Status, Ticket

__all__ = ["Error", "Job", "Members", "OperationFailed", "Status", "Tensor", "Ticket", "TimedOut", "agree", "block",
           "open", "version"]


def version() -> str:
    """The version of libheddle, as "0.1.0"."""
    return _C.heddle_version_text().decode()


def agree(job: Job, *data: Any, timeout: Optional[float] = None) -> bool:
    """Whether `data` are bit-equal at all workers of `job` (Job.agree()). For a process group: heddle.torch.agree()."""
    return job.agree(*data, timeout=timeout)


def open(name: Optional[str] = None, **options: Any) -> Job:  # pylint: disable=redefined-builtin
    """A Job, also where no controller runs yet. With HEDDLE_CONTROLLER or HEDDLE_SERVER (or options of these names): as
    Job(name, **options). Without: rank 0 of the processes that torchrun has started starts a controller, which ends
    with it, and the Job is joined when this returns (heddle.torch.open())."""
    if any(options.get(word) or _os.environ.get(f"HEDDLE_{word.upper()}") for word in ("controller", "server")):
        return Job(name, **options)
    try:
        from .torch_open import open_job  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Error(_errno.EDESTADDRREQ,
                    f"no controller: set HEDDLE_CONTROLLER and HEDDLE_KEY_FILE ({error})") from None
    return open_job(name, **options)
