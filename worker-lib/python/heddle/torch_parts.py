# SPDX-License-Identifier: BSD-3-Clause
"""All-to-alls whose parts have different sizes. The library's has equal blocks, and a rank does not know the parts of
the others:

    1. all-gather of the sizes                   over the group's job, as every other call
    2. all-to-all of blocks, of which the        over a job of its own
       longest part fills one
       or Gloo's send() and recv()               if blocks would load the busiest rank more than PADDING_MAX times as
                                                 much as the parts

The second step begins when the first is over, in the thread that completes the group's futures: in the order of the
calls, which is the same at all ranks, but at any time between calls that a rank makes meanwhile. That is why it has a
job of its own, and a tag that no send() of the user's has."""
import errno
import time
from datetime import timedelta
from typing import Any, Callable, List, Sequence

import torch

from .errors import Error, TimedOut
from .job import Job
from .torch_future import LOOK_S, outcome

PADDING_MAX = 2
TAG = 2**31 - 1  # of send(): the largest
HEAD = "all-to-all of parts"
ANNOUNCED_S = 5  # within this time all members know who they are


def split(rows: int, splits: Sequence[int], size: int) -> "List[int] | None":
    """The rows for each rank; None: they are not all of them."""
    if not splits:
        return [rows // size] * size if rows % size == 0 else None
    good = len(splits) == size and sum(splits) == rows and min(splits) >= 0
    return list(splits) if good else None


def disagreement(given: List[List[int]], wanted: List[List[int]]) -> "str | None":
    """given[i][k]: values that rank i gives to k; wanted[k][i]: that k expects from i."""
    for giver, row in enumerate(given):
        for taker, count in enumerate(row):
            if wanted[taker][giver] != count:
                return (f"rank {giver} gives {count} values to rank {taker}, which expects {wanted[taker][giver]}")
    return None


def block_of(given: List[List[int]]) -> int:
    """The values of the longest part that one rank gives to another."""
    return max((count for giver, row in enumerate(given) for taker, count in enumerate(row) if giver != taker),
               default=0)


def fits(given: List[List[int]]) -> bool:
    """Whether blocks are at most PADDING_MAX times as much as the parts, at the rank that gives or receives most."""
    size = len(given)
    out = [sum(row) - row[rank] for rank, row in enumerate(given)]
    into = [sum(row[rank] for row in given) - given[rank][rank] for rank in range(size)]
    return (size - 1) * block_of(given) <= PADDING_MAX * max(out + into)


class Parts:
    """The second steps of one rank of a group. main: the group's job. open_job: makes the job for these steps, when the
    first one comes. gloo: a group of the same ranks."""

    def __init__(self, main: Job, open_job: Callable[[], Job], gloo: Any, rank: int, size: int):
        self._main, self._open, self._gloo, self._rank, self._size = main, open_job, gloo, rank, size
        self._job, self._count, self._were_all, self._lacks_since = None, 0, False, None

    def close(self, timeout: float = 1.0) -> None:
        job, self._job = self._job, None
        self._open = self._closed
        if job is not None:
            job.close(timeout)

    @staticmethod
    def _closed():
        raise Error(errno.ESHUTDOWN, "the process group is closed")

    def exchange(self, sizes: torch.Tensor, values: torch.Tensor, found: torch.Tensor, seconds: float) -> None:
        """sizes: what each rank gives and expects, in this order, as all ranks have gathered them. values: this rank's
        parts in the order of the ranks; found: as long as those that it receives. Error: the sizes do not match, the
        same at all ranks. TimedOut: not over within that many seconds."""
        self._count += 1
        self._are_all()
        table = sizes.view(self._size, 2, self._size)
        given, wanted = table[:, 0].tolist(), table[:, 1].tolist()
        wrong = disagreement(given, wanted)
        if wrong is not None:
            raise Error(errno.EINVAL, f"{HEAD}: {wrong}")
        parts, places = values.split(given[self._rank]), found.split(wanted[self._rank])
        places[self._rank].copy_(parts[self._rank])
        block = block_of(given)
        if block > 0:
            how = self._in_blocks if fits(given) else self._over_gloo
            how(parts, places, block, time.monotonic() + seconds)

    def _in_blocks(self, parts, places, block, ends):
        if self._job is None:
            self._job = self._open()
        rows = parts[0].new_zeros(self._size, block)
        out = torch.empty_like(rows)
        for rank, part in enumerate(parts):
            if rank != self._rank:
                rows[rank, :len(part)] = part
        # The number: a rank that has failed in the first step of an earlier call may be one step behind.
        ticket = self._job.alltoall_start(rows.view(-1), out.view(-1), exact=self._size, tag=f"{HEAD} {self._count}")
        self._wait(ticket, ends)
        for rank, place in enumerate(places):
            if rank != self._rank:
                place.copy_(out[rank, :len(place)])

    def _are_all(self):
        """Whether no rank is lost. All of them have been there, as the sizes are gathered; but one that joined is
        announced somewhat later, and one that died soon after it joined perhaps never."""
        if len(self._main.members().ranks) == self._size:
            self._were_all, self._lacks_since = True, None
            return True
        self._lacks_since = self._lacks_since or time.monotonic()
        return not self._were_all and time.monotonic() < self._lacks_since + ANNOUNCED_S

    def _wait(self, ticket, ends):
        """Error (EPIPE): a rank is lost, perhaps before it has joined this job."""
        while True:
            try:
                return outcome(ticket, min(ends, time.monotonic() + LOOK_S))
            except TimedOut:
                if self._are_all() and time.monotonic() < ends:
                    continue
                ticket.cancel()
                if self._are_all():
                    raise
                raise Error(errno.EPIPE, f"{HEAD}: not all of {self._size} members are left") from None

    def _over_gloo(self, parts, places, _, ends):
        """Only parts with values travel. Bytes: Gloo has fewer types; in host memory: it sends from there only."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        near = [place.cpu() for place in places]
        works = [self._gloo.recv([near[rank].view(torch.uint8)], rank, TAG) for rank in others if len(near[rank])]
        works += [self._gloo.send([parts[rank].cpu().view(torch.uint8)], rank, TAG) for rank in others
                  if len(parts[rank])]
        for work in works:
            left = max(0.001, ends - time.monotonic())
            try:
                work.wait(timedelta(seconds=left))
            except RuntimeError as error:
                raise Error(errno.EIO, f"{HEAD}, over Gloo: {error}") from error
        for place, found in zip(places, near):
            if found.data_ptr() != place.data_ptr():
                place.copy_(found)
