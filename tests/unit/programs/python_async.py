# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_async.py: asynchronous training with a parameter server.

usage: python_async.py alone|together|stale|other   (environment of heddle-run)"""
import sys

import torch

import heddle
import heddle.torch

STEPS, DECAYS_AT, PATIENCE_S = 40, 25, 30


def make(seed=5):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def loss_of(net, step, rank=0):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(32, 12, generator=generator)
    return torch.nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))


def flat(net):
    return torch.cat([value.detach().reshape(-1) for value in net.parameters()])


def test_alone():
    """One worker that waits for each of its pushes has torch.optim.SGD's model, with its momentum and decay, to
    rounding; also with a scheduler, but without momentum then, which each of them scales in its own way."""
    for momentum in (0.9, 0.0):
        nets = make(), make()
        theirs = torch.optim.SGD(nets[1].parameters(), lr=0.1, momentum=momentum, weight_decay=0.01)
        with heddle.torch.AsyncSGD(nets[0], lr=0.1, momentum=momentum, weight_decay=0.01, name=f"alone-{momentum}",
                                   timeout=PATIENCE_S) as mine:
            schedulers = [torch.optim.lr_scheduler.StepLR(one, DECAYS_AT, 0.1) for one in (mine, theirs)]
            for step in range(STEPS):
                for net, optimizer, scheduler in zip(nets, (mine, theirs), schedulers):
                    optimizer.zero_grad()
                    loss_of(net, step).backward()
                    optimizer.step()
                    if momentum == 0:
                        scheduler.step()
                mine.pull()
            assert (mine.applied, mine.dropped) == (STEPS, 0), (mine.applied, mine.dropped)
            worst = float((flat(nets[0]) - flat(nets[1])).abs().max())
            assert worst <= 1e-5, f"{worst} from SGD's"
            nets[0][0].bias.grad[3] = float("nan")
            try:
                mine.step()
                raise AssertionError("a NaN was pushed")
            except heddle.Error as error:
                assert "0.bias" in str(error), error
    print(f"rank 0: {worst:.1e} from SGD's", flush=True)


def test_together():
    """Three workers: the loss falls, and each update is applied or dropped."""
    net = make()
    before = float(loss_of(net, 10**6))
    with heddle.torch.AsyncSGD(net, lr=0.2, tau_max=8, timeout=PATIENCE_S) as optimizer:
        rank = optimizer.job.rank
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(net, step, rank).backward()
            optimizer.step()
        optimizer.pull()
        after = float(loss_of(net, 10**6))
        assert after < 0.7 * before, (before, after)
        assert optimizer.applied + optimizer.dropped == STEPS and optimizer.applied > 0
        assert optimizer.version % (1 << 48) >= optimizer.applied
    print(f"rank {rank}: loss {before:.2f} to {after:.2f}, {optimizer.applied} applied", flush=True)


def test_stale():
    """The update of a worker whose model is older than the bound is dropped, and its next one is not."""
    nets, options = (make(), make()), {"lr": 0.1, "tau_max": 1, "name": "stale", "timeout": PATIENCE_S}
    with heddle.torch.AsyncSGD(nets[0], rank=0, **options) as fast:
        with heddle.torch.AsyncSGD(nets[1], rank=1, **options) as slow:
            loss_of(nets[1], 0).backward()
            for step in range(3):
                loss_of(nets[0], step).backward()
                fast.step()
                fast.pull()
            slow.step()
            slow.pull()
            assert (slow.applied, slow.dropped) == (0, 1), (slow.applied, slow.dropped)
            slow.step()
            slow.pull()
            assert (slow.applied, slow.dropped) == (1, 1), (slow.applied, slow.dropped)
            assert torch.equal(flat(nets[1]), flat(nets[0])) is False
            fast.pull()
            assert torch.equal(flat(nets[1]), flat(nets[0])), "the same model"
    print("rank 0: one dropped", flush=True)


def test_other():
    """A worker with other initial values is refused; so are other types."""
    try:
        heddle.torch.AsyncSGD(make(6), lr=0.2, tau_max=8, name="together", timeout=PATIENCE_S)
        raise AssertionError("other initial values were taken")
    except heddle.Error as error:
        assert "seed" in str(error) or "description" in str(error), error
    try:
        heddle.torch.AsyncSGD(make().double(), lr=0.2)
        raise AssertionError("float64 was taken")
    except TypeError as error:
        assert "float64" in str(error), error
    print("rank 0: refused", flush=True)


torch.set_num_threads(1)
globals()[f"test_{sys.argv[1]}"]()
