# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_own.py: no controller is given.

usage: python_own.py group|none|mistakes|ended|given|silent|lost|backward   (environment of torchrun)"""
import os
import pathlib
import signal
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import heddle
import heddle.fabric
import heddle.torch

STEPS, PATIENCE_S = 10, 30


def controllers():
    """Process ids of those that this process has started."""
    return [fabric.child.pid for fabric in heddle.fabric._known.values() if fabric.child is not None]


def begin(name):
    """The default group of another name: a store serves one group of a name only."""
    store = dist.PrefixStore(name, next(iter(dist.rendezvous("env://")))[0])
    dist.init_process_group("heddle", store=store, rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))


def trained(group):
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(20, 5), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randn(8, 20, generator=generator)).square().mean().backward()
        optimizer.step()
    return torch.cat([value.detach().reshape(-1) for value in model.parameters()])


def check_secret():
    """The key is in no command line, in no environment, and in no file that others may read."""
    fabric = next(iter(heddle.fabric._known.values()))
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                assert fabric.digits.encode() not in (process / name).read_bytes(), f"{process}/{name} has the key"
            except (OSError, PermissionError):
                continue  # it has ended
    assert fabric.digits in pathlib.Path(fabric.key_file).read_text(encoding="ascii")
    assert os.stat(fabric.key_file).st_mode & 0o077 == 0


def test_group():
    """The two lines, a subgroup, a hook's job, another group of this process; then rank 0 is killed."""
    dist.init_process_group("heddle")
    rank, size = dist.get_rank(), dist.get_world_size()
    first = controllers()
    assert len(first) == (rank == 0), first
    check_secret()
    worst = float((trained(None) - trained(dist.new_group(backend="gloo"))).abs().max())
    assert worst <= 1e-5, f"{worst} from Gloo's"
    others = dist.new_group(list(range(1, size)))
    if rank > 0:
        x = torch.full((1000,), float(rank))
        dist.all_reduce(x, group=others)
        assert bool((x == sum(range(1, size))).all())
    with heddle.open("hook") as job:
        assert job.allreduce(torch.ones(10), timeout=PATIENCE_S).workers == size
    assert controllers() == first, "one controller for all of them"
    del others, job
    dist.destroy_process_group()
    assert not controllers()
    for pid in first:
        assert not os.path.exists(f"/proc/{pid}"), f"the controller {pid} has ended with the group"
    begin("again")
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3
    print(f"rank {rank}: {worst:.1e} from Gloo's, controllers {controllers()}", flush=True)
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(PATIENCE_S)  # torchrun ends the others
    os._exit(1)


def test_none():
    """No heddle-controller on rank 0's machine: all ranks say so; or they use Gloo, if asked."""
    try:
        begin("first")
        print("no error", flush=True)
    except RuntimeError as error:
        assert isinstance(error, heddle.torch.GroupError) and "/none" in str(error), error
        assert "HEDDLE_FALLBACK=gloo" in str(error) and "heddle doctor" in str(error), error
    os.environ["HEDDLE_FALLBACK"] = "gloo"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        begin("second")
    assert any("Heddle is not used" in str(one.message) for one in seen), seen
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [dist.get_world_size()] * 3
    print(f"rank {dist.get_rank()}: refused, then Gloo", flush=True)


def test_mistakes():
    """One rank's environment is wrong: all say so, and none waits."""
    rank = int(os.environ["RANK"])
    if rank == 1:
        os.environ["HEDDLE_FALLBACK"] = "glo"
    try:
        begin("first")
        print("no error", flush=True)
    except ValueError as error:
        assert rank == 1 and "HEDDLE_FALLBACK: 'glo' is not 'gloo'" in str(error), error
    except RuntimeError as error:
        assert rank != 1 and "another rank cannot join" in str(error), error
    print(f"rank {rank}: mistakes are errors", flush=True)


def test_ended():
    """One rank leaves in the middle of a sum."""
    begin("first")
    dist.barrier()
    if dist.get_rank() == 2:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        group = dist.distributed_c10d._get_default_group()
        (group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group).abort()
        try:
            work.wait()
            print("no error", flush=True)
        except RuntimeError as error:
            assert isinstance(error, heddle.torch.GroupError) and "closed" in str(error), error
    print(f"rank {os.environ['RANK']}: has left", flush=True)
    os._exit(0)


def test_given():
    """heddle.torch.open() of a controller that is named: none is started."""
    try:
        heddle.torch.open("given", controller="127.0.0.1:9", key_file=os.environ["TEST_KEY_FILE"])
        print("no error", flush=True)
    except heddle.TimedOut as error:
        assert not controllers(), controllers()
        print(f"rank {os.environ['RANK']}: {error.strerror}", flush=True)


def test_silent():
    """A controller is given that does not answer."""
    began = time.monotonic()
    try:
        dist.init_process_group("heddle")
        print("no error", flush=True)
    except RuntimeError as error:
        assert isinstance(error, heddle.TimedOut) and "no answer within 1 s" in str(error), error
        took = time.monotonic() - began
        assert took >= 1, took
        print(f"rank {os.environ['RANK']}: no answer", flush=True)


def test_lost():
    """Rank 0 is killed, and no launcher ends the others: their next all-reduce is an error."""
    dist.init_process_group("heddle")
    dist.all_reduce(torch.ones(3))
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):  # the first may still have all
            dist.all_reduce(torch.ones(3))
        print("no error", flush=True)
    except RuntimeError as error:
        assert isinstance(error, heddle.torch.GroupError), error
        print("rank 0 is lost", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


def test_backward():
    """Rank 0 is killed in a backward pass of DDP with the hook, and its controller ends with it: backward() of the
    others says so."""
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(20, 5))
    model.register_comm_hook(heddle.torch.open("hook"), heddle.torch.allreduce_hook)
    try:
        for step in range(STEPS):
            if step == STEPS - 1 and dist.get_rank() == 0:
                model.module.bias.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
            model(torch.ones(8, 20)).sum().backward()
        print("no error", flush=True)
    except RuntimeError as error:
        assert step == STEPS - 1 and "rank 0 does not answer" in str(error), error
        print("backward() has failed", flush=True)
    os._exit(0)  # Gloo's threads wait for the dead


torch.set_num_threads(1)
globals()[f"test_{sys.argv[1]}"]()
if dist.is_initialized():  # Gloo's threads do not always bear the end of a process with a group
    dist.destroy_process_group()
