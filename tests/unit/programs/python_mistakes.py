# SPDX-License-Identifier: BSD-3-Clause
"""One rank of check_python_torch.py: what scripts do wrong with the process group "heddle" and with heddle.Job, and
what looks wrong and is not. Each mistake is an exception that users of PyTorch know, and the next call is good.

usage: python_mistakes.py all   (environment of torchrun)"""
import errno
import math
import threading
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import heddle
import heddle.torch
from python_exchange import raised
from torch_samples import count_gloo, handed

VALUES, PATIENCE_S, THREADS, ROUNDS = 1000, 30, 4, 20


def good():
    """The calls of the ranks are matched as before."""
    x = torch.ones(VALUES)
    dist.all_reduce(x)
    assert x.tolist() == [dist.get_world_size()] * VALUES


def refuses(kind, words, call, *arguments, **more):
    """The same at all ranks; and then the next call."""
    raised(kind, words, call, *arguments, **more)
    good()


def freed(count=0):
    """A tensor whose storage has memory for this many values only, as FSDP frees it."""
    x = torch.ones(VALUES)
    storage = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
    storage.resize_(count * (4 if hasattr(x, "untyped_storage") else 1))
    return x


def check_memory(size):
    for count in (0, VALUES - 1):
        x = freed(count)
        for call in (lambda x=x: dist.all_reduce(x), lambda x=x: dist.broadcast(x, 0), lambda x=x: dist.reduce(x, 0),
                     lambda x=x: dist.all_gather([torch.ones(VALUES)] * size, x),
                     lambda x=x: dist.all_gather([x] * size, torch.ones(VALUES)),
                     lambda x=x: dist.send(x, (dist.get_rank() + 1) % size)):
            refuses(RuntimeError, "has no memory", call)
        raised(ValueError, "has no memory", heddle.torch.agree, x)
    good()
    if not torch.__version__.startswith("1."):
        refuses(RuntimeError, "", dist.all_reduce, torch.ones(1).expand(2**50))  # no memory for a copy
    x = torch.zeros(1).expand(5)
    refuses(RuntimeError, "memory location", dist.all_reduce, x)


def check_dtypes(rank, size):
    refuses(RuntimeError, "", dist.all_reduce, torch.ones(3, dtype=torch.int16))
    x = torch.full((3,), rank == 1)
    dist.broadcast(x, 1)
    assert x.tolist() == [True] * 3
    x = torch.full((3,), 1 + 2j)
    dist.all_reduce(x)
    assert x.tolist() == [size * (1 + 2j)] * 3
    raised((RuntimeError, ValueError), "", dist.all_reduce, torch.full((3,), 1j), dist.ReduceOp.MAX)
    good()
    x = torch.tensor([1 + 2j]).conj().imag  # contiguous, and its sign is not in its memory
    assert x.is_neg()
    dist.all_reduce(x)
    # Today's PyTorch gives a copy to every backend, and does not take the result from it.
    assert x.tolist() == [-2 * size] or not torch.__version__.startswith("1."), x
    assert heddle.torch.agree(torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]) if rank else
                              torch.tensor([1 + 2j]).conj())
    x = torch.tensor(float("nan") if rank == 1 else 1.0)  # of no dimension
    dist.all_reduce(x)
    y = torch.tensor([2.0, float("nan") if rank == 2 else float(rank)])
    dist.all_reduce(y, dist.ReduceOp.MAX)
    assert math.isnan(x) and y[0] == 2 and math.isnan(y[1]), (x, y)
    x = torch.tensor(float(rank))
    outs = [torch.tensor(0.0) for _ in range(size)]
    dist.all_gather(outs, x)
    assert [float(one) for one in outs] == list(range(size))
    with torch.inference_mode():
        good()


def check_empty(rank, size):
    """Nothing is added, by all ranks together; one that gives values there is told, as are the others."""
    good()
    before = list(handed)
    x = torch.ones(0, 3)
    dist.all_reduce(x)
    dist.all_reduce(torch.ones(0, dtype=torch.bool), dist.ReduceOp.BOR)
    dist.reduce(x, 1)
    dist.reduce_scatter(x, [x] * size)
    dist.reduce_scatter_tensor(torch.ones(0), torch.ones(0))
    dist.all_gather([torch.ones(0, 3) for _ in range(size)], x)
    dist.all_to_all_single(torch.ones(0), torch.ones(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it will be deprecated
        dist.all_reduce_coalesced([torch.ones(0), x])
    assert handed == before, handed
    for call in (lambda one: dist.all_reduce(one), lambda one: dist.reduce(one, 0),
                 lambda one: dist.reduce_scatter_tensor(one[:len(one) // size], one)):
        refuses(heddle.torch.GroupError, "of no values", call, torch.ones(0 if rank == 1 else 3 * size))


def check_aliases(rank, size):
    """An input that is a part of the output, as frameworks have it."""
    whole = torch.zeros(size, VALUES)
    whole[rank] = rank
    dist.all_gather_into_tensor(whole, whole[rank])
    assert all(bool((whole[one] == one).all()) for one in range(size))
    whole = torch.arange(size * VALUES, dtype=torch.float32)
    wanted = size * whole[rank * VALUES:(rank + 1) * VALUES]
    dist.reduce_scatter_tensor(whole[rank * VALUES:(rank + 1) * VALUES], whole)
    assert torch.equal(whole[rank * VALUES:(rank + 1) * VALUES], wanted)


def check_works():
    work = dist.all_reduce(torch.ones(3), async_op=True)  # of a tensor that only the call knows
    raised(TypeError, "", work.wait, 5)
    raised(TypeError, "", work.wait, "5")
    assert work.wait() and work.wait()
    good()


def check_threads(size):
    """Calls of one group by several threads: they are matched in any order, and are alike."""
    found = []

    def add():
        for _ in range(ROUNDS):
            x = torch.ones(VALUES)
            dist.all_reduce(x)
            found.append(bool((x == size).all()))

    threads = [threading.Thread(target=add) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * THREADS * ROUNDS


def check_children():
    """A DataLoader's processes are children of this one."""
    rows = torch.arange(40).reshape(20, 2)
    batches = list(DataLoader(rows, batch_size=5, num_workers=2, multiprocessing_context="fork"))
    assert torch.equal(torch.cat(batches), rows)
    good()


def check_job(job):
    """Numbers of which C would take the lower bits, times, texts."""
    x = torch.ones(3)
    for call in (lambda: job.broadcast(x, 2**32), lambda: job.reduce(x, -2**32), lambda: job.gather(x, 2**32, x),
                 lambda: job.scatter(x, x, 2**32), lambda: job.scatter(x, x, 7, count=-1), lambda: job.send(x, 2**32),
                 lambda: job.recv(x, 2**32), lambda: job.barrier(exact=-1), lambda: job.barrier(least=2**32),
                 lambda: job.broadcast_list([x], 2**32), lambda: job.shard(-1), lambda: job.superseded(-1),
                 lambda: job.share_state({"x": x}, 1, exact=-1), lambda: heddle.block(-1, 0, 1),
                 lambda: heddle.Job("other", rank=2**32), lambda: heddle.Job("other", world_size=2**32 + 1),
                 lambda: heddle.Job("other", tau_max=-1), lambda: heddle.Job("other", keep_bytes=-1)):
        raised(ValueError, "out of range", call)
    for call in (lambda: job.broadcast(x, 1.0), lambda: job.barrier(exact=1.5), lambda: job.barrier(tag=7),
                 lambda: job.send(x, None), lambda: job.share_state([x], 1), lambda: job.share_state({1: x}, 1)):
        raised(TypeError, "", call)
    for call in (lambda: job.barrier(tag="a\0b"), lambda: heddle.Job("a\0b"), lambda: job.group("a\0b", [job.rank]),
                 lambda: job.share_state({"a\0b": x}, 1)):
        raised(ValueError, "NUL", call)
    raised(ValueError, "no memory", job.allreduce, freed())
    raised(ValueError, "no memory", job.share_state, {"x": freed()}, 1)
    raised(ValueError, "resolve_neg", job.allreduce, torch.tensor([1 + 2j]).conj().imag)
    raised(TypeError, "device meta", job.allreduce, torch.ones(3, device="meta"))
    ticket = job.barrier_start()
    raised(ValueError, "NaN", ticket.wait, math.nan)
    assert ticket.wait(math.inf).workers == job.world_size
    raised(ValueError, "NaN", job.wait_joined, math.nan)
    raised(ValueError, "NaN", job.share_state, {"x": x}, 1, timeout=math.nan)
    job.share_state({"x": x}, 1, timeout=math.inf)
    for rate in (0, -1.0, math.nan, math.inf):
        raised(ValueError, "lr: ", heddle.torch.AsyncSGD, torch.nn.Linear(2, 2), rate)
    job.barrier(timeout=math.inf)
    assert job.close(math.inf) and job.close() and job.is_closed
    raised(ValueError, "closed", job.barrier)


def check_closed(group, model):
    """Calls of a group that is closed; closing it again."""
    asks = not hasattr(group, "_job") and hasattr(group, "_get_backend")  # since 2.0
    backend = group._get_backend(torch.device("cpu")) if asks else group
    dist.destroy_process_group()
    backend.shutdown()
    backend.shutdown()
    wrong = raised(RuntimeError, "closed", backend.allreduce, [torch.ones(3)])
    assert isinstance(wrong, heddle.torch.GroupError) and wrong.errno == errno.ESHUTDOWN, wrong
    raised(RuntimeError, "closed", lambda: model(torch.ones(1, 4)).sum().backward())
    raised((RuntimeError, ValueError, AssertionError), "", dist.destroy_process_group)
    raised((RuntimeError, ValueError, AssertionError), "", dist.all_reduce, torch.ones(3))


def main():
    torch.set_num_threads(1)
    count_gloo()
    dist.init_process_group("heddle")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    check_memory(size)
    check_dtypes(rank, size)
    check_empty(rank, size)
    check_aliases(rank, size)
    check_works()
    check_threads(size)
    check_children()
    job = heddle.Job("mistakes-job")
    job.wait_joined(PATIENCE_S)
    check_job(job)
    dist.barrier()
    check_closed(dist.distributed_c10d._get_default_group(), model)
    print("each has its error", flush=True)


main()
