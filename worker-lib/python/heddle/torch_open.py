# SPDX-License-Identifier: BSD-3-Clause
"""Joining a fabric from a PyTorch script, also where none runs yet (fabric.py)."""
import errno
import itertools
import logging
import os
import uuid
import warnings
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import fabric
from .errors import Error, TimedOut
from .job import Job
from .torch_errors import GroupError, GroupTimedOut

WAIT_S = 30.0
logger = logging.getLogger("heddle")
_opened = itertools.count()
_own_store = None


def wait_seconds() -> float:
    """For how long a fabric may be silent at the start: HEDDLE_WAIT_S, else 30 s. ValueError: not a positive number."""
    text = os.environ.get("HEDDLE_WAIT_S", str(WAIT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"HEDDLE_WAIT_S: {text!r} is not a positive number of seconds")
    return seconds


def _wants_gloo():
    wanted = os.environ.get("HEDDLE_FALLBACK", "")
    if wanted not in ("", "gloo"):
        raise ValueError(f"HEDDLE_FALLBACK: {wanted!r} is not 'gloo'")
    return wanted == "gloo"


def _join(store, name, rank, size, again=False, **options):
    given = "controller" in options or "server" in options
    found = fabric.Fabric() if given else fabric.find(store, rank, size, again)
    return _joined(found, name, rank, size, **options)


def _joined(found, name, rank, size, **options):
    if found.is_own:
        options = {"controller": found.controller, "key_file": found.key_file, **options}
    job = Job(name, rank=rank, world_size=size, **options)
    job.fabric = found  # its controller runs as long as the job exists
    seconds = wait_seconds()
    try:
        job.wait_joined(seconds)
    except TimedOut as error:
        job.close(0)
        raise TimedOut(errno.ETIMEDOUT, f"no answer within {seconds:g} s: {error.strerror}") from None
    except BaseException:
        job.close(0)
        raise
    return job


def join_beside(job: Job, rank: int, size: int) -> Job:
    """One more job of the workers of a group, for calls in an order of their own. Each of them calls this."""
    return _joined(job.fabric, f"{job.name}-2", rank, size)


def _all_of(gloo, *flags):
    """Which flags are set at all ranks."""
    values = torch.tensor([int(flag) for flag in flags])
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MIN
    gloo.allreduce([values], options).wait()
    return [bool(value) for value in values]


def join_group(store: dist.Store, rank: int, size: int, gloo: Any, again: bool = False) -> Optional[Job]:
    """The Job of one process group, whose ranks all call this; `gloo` is a group of the same ranks. All of them join
    or none does: None, with a warning, if HEDDLE_FALLBACK=gloo at all of them; else GroupError, GroupTimedOut. again:
    the members have changed, see fabric.find(); HEDDLE_FALLBACK is not used."""
    job = failure = mistake = None
    wants_gloo = False
    try:
        wants_gloo = not again and _wants_gloo()
    except ValueError as error:  # the others wait for this rank's address first
        failure = mistake = error
    try:
        if rank == 0:
            store.set("heddle/job", os.environ.get("HEDDLE_JOB", "torch") + "-" + uuid.uuid4().hex[:12])
        job = _join(store, store.get("heddle/job").decode(), rank, size, again)
    except Exception as error:  # pylint: disable=broad-except  # the others are told first
        failure = failure or error
    joined, falls_back = _all_of(gloo, failure is None, wants_gloo)
    if joined:
        return job
    if job is not None:
        job.close(0)
    if mistake is not None:
        raise mistake
    why = "another rank cannot join" if failure is None else getattr(failure, "strerror", None) or str(failure)
    if falls_back:
        warnings.warn(f"Heddle is not used: {why}; this process group is Gloo's (HEDDLE_FALLBACK)", stacklevel=2)
        return None
    kind = GroupTimedOut if isinstance(failure, TimedOut) else GroupError
    raise kind(getattr(failure, "errno", None) or errno.ENOLINK,
               f"no fabric: {why}. `python3 -m heddle doctor` checks this machine"
               + ("" if again else "; HEDDLE_FALLBACK=gloo trains over Gloo instead")) from failure


def _world():
    """The store, rank and number of the processes that were started together."""
    global _own_store  # pylint: disable=global-statement  # it serves the others as long as this process runs
    if dist.is_initialized():
        return dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE") if name not in os.environ]
    if missing:
        raise Error(errno.EDESTADDRREQ, f"no controller: set HEDDLE_CONTROLLER and HEDDLE_KEY_FILE, or start this "
                                        f"program with torchrun (no {', '.join(missing)} in the environment)")
    if _own_store is None:
        _own_store = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=max(wait_seconds(), 300)))))
    return _own_store


def open_job(name: Optional[str] = None, **options: Any) -> Job:
    """A joined Job of the processes that torchrun has started: with HEDDLE_CONTROLLER the one of the environment;
    without, rank 0 starts a controller that ends with it. All ranks call this equally often, in the same order.
    name, options: as for Job. Uses the store of the default process group, or makes one from MASTER_ADDR and
    MASTER_PORT. Error: no launcher, no heddle-controller; TimedOut: no answer within HEDDLE_WAIT_S (30 s)."""
    store, rank, size = _world()
    store = dist.PrefixStore(f"heddle/open/{next(_opened)}", store)
    return _join(store, name, rank, size, **options)
