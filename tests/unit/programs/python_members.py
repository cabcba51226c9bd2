# SPDX-License-Identifier: BSD-3-Clause
"""One process of check_python_members.py: trains with a process group whose members change.

    plan/N in the coordinator's store     the processes of the N-th set of members, by rank; until which step; who is
                                          killed in the last one; whether DDP is made again
    done/N/ID                             the steps before and after that, and a digest of ID's model
    done/N                                how many have said so

usage: python_members.py configure|reconfigure ID   (COORDINATOR=ADDRESS:PORT, environment of Heddle)
       python_members.py alone STEPS              the model after STEPS = [[member, ...], ...], a set for each step"""
import gc
import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import heddle.torch
from heddle import equal

BATCH, RATE, PATIENCE, FIRST_SEED = 16, 0.05, timedelta(seconds=150), 7
LOST_S = 20  # until a lost member is told, without a call


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(20, 64), torch.nn.Linear(64, 5)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def batch(step, who):
    generator = torch.Generator().manual_seed(1000 * step + who)
    return torch.randn(BATCH, 20, generator=generator), torch.randint(5, (BATCH,), generator=generator)


def loss_of(model, step, who):
    x, y = batch(step, who)
    return torch.nn.functional.cross_entropy(model(x), y)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def set_flat(model, values):
    with torch.no_grad():
        for p, part in zip(model.parameters(), values.split([p.numel() for p in model.parameters()])):
            p.copy_(part.view_as(p))


class ByTorchft:
    """As torchft calls a group: it is in no table of PyTorch's."""

    def __init__(self, store, who):
        self.group, self.who = heddle.torch.ReconfigurableGroup(PATIENCE), who
        self.address = os.environ["COORDINATOR"]

    def change(self, number, members):
        self.group.configure(f"{self.address}/members/{number}", f"replica_{self.who}", members.index(self.who),
                             len(members), number)

    def wrapped(self, model, again):  # pylint: disable=unused-argument
        return model

    def backward(self, loss, model):
        loss.backward()
        for p in model.parameters():
            self.group.allreduce([p.grad], dist.ReduceOp.AVG).wait()


class ByTorch:
    """As PyTorch's users call it: with the default group, and DistributedDataParallel."""

    def __init__(self, store, who):
        self.store, self.who, self.ddp = store, who, None
        dist.init_process_group("heddle", rank=0, world_size=1, store=dist.HashStore(), timeout=PATIENCE,
                                enable_reconfigure=True)
        self.group = dist.distributed_c10d._get_default_group()
        assert dist._supports_reconfigure()
        store.set(f"handle/{who}", dist._get_reconfigure_handle())

    def change(self, number, members):
        handles = [self.store.get(f"handle/{who}").decode() for who in members]
        handles = handles if number % 2 == 0 else set(handles)
        dist._reconfigure(number, handles, timeout=PATIENCE).wait()
        assert dist.get_world_size() == len(members), dist.get_world_size()

    def wrapped(self, model, again):
        """The same one as long as no backward pass fails, and no newcomer makes its own with all others: it asks the
        group for its size in each pass."""
        if again or self.ddp is None:
            self.ddp = None
            gc.collect()  # its hooks, too
            self.ddp = DistributedDataParallel(model, bucket_cap_mb=0.002)
        return self.ddp

    def backward(self, loss, model):
        loss.backward()


def expect_lost(group):
    """A lost member is told, also when all of the last step was sent."""
    ends = time.monotonic() + LOST_S
    while group.errored() is None:
        assert time.monotonic() < ends, "not told"
        time.sleep(0.05)


def apply(model):
    with torch.no_grad():
        for p in model.parameters():
            p -= RATE * p.grad
    model.zero_grad()


def train(way, model, done, plan):
    """Steps until the plan's last one, or until a member is lost: done[0] of them are in the model."""
    wrapped = way.wrapped(model, plan["again"])
    while done[0] < plan["until"]:
        before, loss = flat(model), loss_of(wrapped, done[0], way.who)
        if done[0] == plan["until"] - 1 and way.who == plan["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            way.backward(loss, model)
        except RuntimeError as error:
            assert plan["dies"] is not None and ("members are left" in str(error) or "late" in str(error)
                                                 or "rank 0 does not answer" in str(error)), error
            assert isinstance(way.group.errored(), heddle.torch.GroupError), way.group.errored()
            set_flat(model, before)
            model.zero_grad()
            return
        apply(model)
        done[0] += 1


def agree(way, model, done):
    """All take the model with most steps: a newcomer has none, and the others may differ by one step after a loss."""
    done[0] = heddle.torch.share_state(model, None, done[0], way.group, timeout=PATIENCE.total_seconds())


def alone(steps):
    """The same steps in one process."""
    torch.manual_seed(FIRST_SEED)
    model = Net()
    for step, members in enumerate(steps):
        for who in members:
            (loss_of(model, step, who) / len(members)).backward()
        apply(model)
    return flat(model)


def member(how, who):
    address, port = os.environ["COORDINATOR"].split(":")
    store = dist.TCPStore(address, int(port), None, False, 2 * PATIENCE, wait_for_workers=False)
    torch.manual_seed(FIRST_SEED if int(os.environ["FIRST"]) == 0 else who)
    model, done = Net(), [0]
    way = {"configure": ByTorchft, "reconfigure": ByTorch}[how](store, who)
    for number in range(int(os.environ["FIRST"]), 100):
        plan = json.loads(store.get(f"plan/{number}"))
        if who not in plan["members"]:
            break
        way.change(number, plan["members"])
        assert way.group.size() == len(plan["members"]) and way.group.errored() is None
        agree(way, model, done)
        first = done[0]
        train(way, model, done, plan)
        if plan["dies"] is None:
            assert way.group.errored() is None, way.group.errored()
        else:
            expect_lost(way.group)
            way.group.abort()
        store.set(f"done/{number}/{who}", json.dumps([first, done[0], equal.digest(flat(model)).hex()]))
        store.add(f"done/{number}", 1)
    torch.save(flat(model), os.environ["RESULT"] + str(who))
    os._exit(0)  # Gloo's threads may wait for the dead


torch.set_num_threads(1)
if sys.argv[1] == "alone":
    torch.save(alone(json.loads(sys.argv[2])), os.environ["RESULT"] + "alone")
else:
    member(sys.argv[1], int(sys.argv[2]))
