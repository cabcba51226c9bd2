#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of real processes on the loopback interface, with a controller and nothing else: four workers.

usage: check_collectives.py HEDDLE_CONTROLLER COLLECTIVE_WORKER"""
import signal
import sys
import tempfile

from collective_job import Job, is_good
from processes import Program, check, write_keys

CONTROLLER, WORKER = sys.argv[1:3]
WORKERS = 4
DETECTION_S = 1


def start(address, keys, name, calls):
    """Each worker on a host of its own: they share no memory."""
    return Job(WORKER, address, keys, name, calls, lambda rank: {"HEDDLE_HOST": f"h{rank + 1}"})


def mismatch(address, keys):
    """All have both calls in words, and the next call is good. Lists are left as they were."""
    for which, other in (("count", "allreduce,count=20001,exact=4,tag=a"),
                         ("tag", "allreduce,count=20000,exact=4,tag=b"),
                         ("list-count", "allreduce_list,count=20001,exact=4,tag=a")):
        mine = [f"allreduce{'_list' if 'list' in which else ''},count=20000,exact=4,tag=a",
                "allreduce,count=20000,exact=4"]
        with start(address, keys, f"mismatch-{which}", [mine] * 3 + [[other, mine[1]]]) as job:
            results = [job.line(rank) for rank in range(WORKERS)]
            print(which, results[0])
            for one in results:
                check(one["rc"] < 0 and one["reason"] == "mismatch", f"{which}: {one}")
                said = one["error"][0]
                check('80000 bytes of fp32, exactly 4 members, tag "a"' in said and "rank 3 calls " in said,
                      f"{which}: calls: {said}")
                check(('tag "b"' if which == "tag" else '80004 bytes') in said, f"{which}: the other call: {said}")
            check(is_good([job.line(rank) for rank in range(WORKERS)], WORKERS), f"{which}: the next one is good")
            job.end(range(WORKERS))


def exact(address, keys):
    """One is killed: those that wait have their error within the detection time, and go on without it."""
    calls = ["allreduce,count=5000,exact=4", "wait", "allreduce,count=5000,exact=4", "allreduce,count=5000,exact=3"]
    with start(address, keys, "exact", [calls] * WORKERS) as job:
        check(is_good([job.line(rank) for rank in range(WORKERS)], WORKERS), "all are there")
        others = [0, 1, 3]
        for rank in others:
            job.go(rank)
            job.line(rank)
        job.running[2].send_signal(signal.SIGKILL)
        results = [job.line(rank) for rank in others]
        print("exact", results[0])
        for one in results:
            check(one["rc"] < 0 and one["reason"] == "members", f"an error: {one}")
            check(one["error"][0].endswith("3 of 4 members are left"), f"in words: {one}")
            check(one["took"] < 3 * DETECTION_S, f"at once: {one}")
        check(is_good([job.line(rank) for rank in others], 3), "they go on")
        job.end(others)


def whole(address, keys):
    """Each collective, of sizes from one value on, with each root; every value is checked in the workers."""
    calls = []
    for count in (1, 7, 3000, 100003):
        for name in ("allreduce", "allgather", "reduce_scatter", "alltoall", "allreduce_list"):
            calls.append(f"{name},count={count},exact=4")
        for name in ("broadcast", "reduce", "gather", "scatter", "broadcast_list", "reduce_list"):
            calls += [f"{name},count={count},root={root},exact=4" for root in (0, 3)]
        calls.append("barrier")
    with start(address, keys, "whole", [calls] * WORKERS) as job:
        for call in calls:
            results = [job.line(rank) for rank in range(WORKERS)]
            check(is_good(results, WORKERS), f"{call}: {results}")
            check(all(one["ranks"] == [0, 1, 2, 3] for one in results), f"{call}: its members: {results}")
        job.end(range(WORKERS))
    print(f"whole: {len(calls)} calls")


def lists(address, keys):
    """One buffer at one worker, many at the others: the same operation. A death leaves the lists as they were."""
    calls = [f"{name}_list,count={count},root=2,number={count},exact=4" for count in (5, 30000)
             for name in ("allreduce", "broadcast", "reduce")]
    of_one = [call.replace("_list", "") for call in calls]
    more = ["wait", "allreduce_list,count=30000,exact=4", "allreduce_list,count=30000,exact=3"]
    with start(address, keys, "lists", [of_one + more, *[calls + more] * (WORKERS - 1)]) as job:
        for _ in calls:
            results = [job.line(rank) for rank in range(WORKERS)]
            check(is_good(results, WORKERS), f"lists and buffers: {results}")
        for rank in (0, 1, 2):
            job.go(rank)
            job.line(rank)
        job.running[3].send_signal(signal.SIGKILL)
        results = [job.line(rank) for rank in (0, 1, 2)]
        check(all(one["rc"] < 0 and one["reason"] == "members" for one in results), f"one is lost: {results}")
        results = [job.line(rank) for rank in (0, 1, 2)]
        check(is_good(results, 3), f"they go on: {results}")
        job.end((0, 1, 2))
    print(f"lists: {len(calls)} calls beside those of one buffer")


def killed(address, keys):
    """Rank 2 is killed: the others make the same without it. Where it is the root, they are told that it is lost."""
    others, members = [0, 1, 3], [0, 1, 3]
    good = ["allgather,count=2000", "reduce_scatter,count=5000", "alltoall,count=5000", "gather,count=500,root=3",
            "scatter,count=5000,root=0", "broadcast,count=9000,root=1", "reduce,count=9000,root=0", "barrier"]
    lost = [f"{name},count=4000,root=2" for name in ("broadcast", "reduce", "gather", "scatter")]
    good = [f"{call},patient=1" for call in good]  # else one that is late on a busy machine is left out
    calls = ["barrier", "wait", *lost, *good]
    with start(address, keys, "killed", [calls] * WORKERS) as job:
        check(is_good([job.line(rank) for rank in range(WORKERS)], WORKERS), "all are there")
        for rank in others:
            job.go(rank)
            job.line(rank)
        job.running[2].send_signal(signal.SIGKILL)
        for call in lost:
            for rank in others:
                one = job.line(rank)
                check(one["rc"] < 0 and one["reason"] == "root", f"{call}: {one}")
                check(one["error"][0].endswith("its root, rank 2, is lost"), f"{call}: in words: {one}")
                check(one["took"] < 3 * DETECTION_S, f"{call}: at once: {one}")
        for call in good:
            results = [job.line(rank) for rank in others]
            check(is_good(results, 3), f"{call}: {results}")
            check(all(one["ranks"] == members for one in results), f"{call}: who is in it: {results}")
        job.end(others)
    print(f"killed: {len(lost)} calls without their root, {len(good)} of those that are left")


def groups(address, keys):
    """Two groups, and all: each has an order of its own, and a death in one does not disturb the other."""
    pair = ["allreduce,count=5000,exact=2,number=1", "broadcast,count=3000,root=1,number=2"]
    three = ["allgather,count=700,exact=3,number=3", "alltoall,count=9999,exact=3,number=4",
             "reduce_scatter,count=9999,exact=3,number=5"]
    pair = [f"{call},group=0+1" for call in pair]
    three = [f"{call},group=3+1+2" for call in three]
    after = ["barrier", "wait", "allreduce,count=5000,exact={},group={},number=6"]
    calls = [[*pair, *after], [three[0], *pair, *three[1:], *after], [*three, *after], [*three, *after]]
    for rank, (size, group) in enumerate([(2, "0+1"), (2, "0+1"), (3, "3+1+2"), (3, "3+1+2")]):
        calls[rank][-1] = calls[rank][-1].format(size, group)
    with start(address, keys, "groups", calls) as job:
        for rank, mine in enumerate(calls):
            for call in mine[:-2]:
                one = job.line(rank)
                size = WORKERS if call == "barrier" else call.count("+") + 1
                check(is_good([one], size) and one["ranks"] == list(range(size)), f"rank {rank}: {call}: {one}")
        job.running[3].send_signal(signal.SIGKILL)
        for rank in (2, 1, 0):
            job.go(rank)
            job.line(rank)
        one = job.line(2)
        check(one["rc"] < 0 and one["reason"] == "members", f"its group has lost one: {one}")
        check(is_good([job.line(0), job.line(1)], 2), "the other goes on")
        job.end([0, 1, 2])
    print(f"groups: {sum(map(len, calls))} calls")


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
        mismatch(controller.address, keys)
        exact(controller.address, keys)
        whole(controller.address, keys)
        lists(controller.address, keys)
        killed(controller.address, keys)
        groups(controller.address, keys)
        controller.stop()


main()
