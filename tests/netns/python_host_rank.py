# SPDX-License-Identifier: BSD-3-Clause
"""One rank of test_python_hosts.py: what it has found, as one JSON line.

usage: python_host_rank.py work|lost   (environment of heddle-run, MASTER_ADDR and MASTER_PORT)"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

import heddle.fabric
import heddle.torch

VALUES, PATIENCE_S = 100000, 60


def say(**words):
    print(json.dumps({"rank": int(os.environ["RANK"]), **words}), flush=True)


def sums(size):
    """Of the group, of a subgroup over both hosts, of a hook's job; and the last rank's values."""
    rank = dist.get_rank()
    x = torch.arange(VALUES, dtype=torch.float32) % 100 + rank
    dist.all_reduce(x)
    assert torch.equal(x, size * (torch.arange(VALUES) % 100) + sum(range(size))), x
    both = dist.new_group([1, size - 1])
    if rank in (1, size - 1):
        y = torch.full((VALUES,), float(rank))
        dist.all_reduce(y, group=both)
        assert bool((y == size).all()), y
    z = torch.full((VALUES,), float(rank))
    dist.broadcast(z, size - 1)
    assert bool((z == size - 1).all()), z
    with heddle.torch.open("hook") as job:
        assert job.allreduce(torch.ones(10), timeout=PATIENCE_S).workers == size


def work():
    try:
        dist.init_process_group("heddle")
    except RuntimeError as error:
        assert isinstance(error, heddle.torch.GroupError), error
        say(error=str(error))
        os._exit(0)
    sums(dist.get_world_size())
    known = list(heddle.fabric._known.values())
    say(controllers=[one.controller for one in known], children=[one.child.pid for one in known if one.child],
        local=int(os.environ["LOCAL_RANK"]))
    dist.barrier()
    dist.destroy_process_group()


def lost():
    """The host of rank 0 is lost: an error of the others."""
    dist.init_process_group("heddle")
    dist.all_reduce(torch.ones(3))
    say(ready=True)
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            assert isinstance(error, heddle.torch.GroupError), error
            say(error=str(error))
            os._exit(0)  # Gloo's threads wait for the dead
        time.sleep(0.05)
    os._exit(1)


torch.set_num_threads(1)
globals()[sys.argv[1]]()
