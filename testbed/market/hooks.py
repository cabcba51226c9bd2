# SPDX-License-Identifier: BSD-3-Clause
"""The protocol between the launcher, which decides about machines, and the cloud that has them; and an adapter that
runs commands.

    start(rank)             a worker of this rank is to run; returns at once
    notice(rank, seconds)   its machine is taken away in this time: SIGTERM for heddle-train --grace
    stop(rank)              its machine is gone now, whether or not the worker has left
    running()               the ranks that have a machine

A cloud's adapter has these four functions. Commands runs a command for each of the first three, with {rank} and
{seconds} in its words replaced, and for the fourth one whose output has one rank on each line."""
import shlex
import subprocess

COMMAND_S = 60.0  # then a command has failed


class HookError(Exception):
    """did: [(what, rank)] that succeeded in the same round."""

    def __init__(self, what, did=()):
        super().__init__(what)
        self.did = list(did)


class Commands:
    """Words like `kubectl delete pod heddle-{rank} --grace-period={seconds} --wait=false`; no shell is run.

    start and stop are required. Without notice a worker is only stopped; without list, ranks that were started and not
    stopped count as running."""

    def __init__(self, start, stop, notice=None, listing=None, timeout_s=COMMAND_S):
        self.words = {"start": start, "stop": stop, "notice": notice, "list": listing}
        self.timeout_s = timeout_s
        self.known = set()
        for name, command in self.words.items():
            if command is None and name in ("start", "stop"):
                raise HookError(f"{name}: is missing")
            if command is not None and name != "list" and "{rank}" not in command:
                raise HookError(f"{name}: has no {{rank}}")

    def run(self, name, rank=None, seconds=0.0):
        """The command's output; {rank} and {seconds} are replaced after splitting into words."""
        whole = max(1, round(seconds)) if seconds else 0
        words = [word.replace("{rank}", str(rank)).replace("{seconds}", str(whole))
                 for word in shlex.split(self.words[name])]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=self.timeout_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HookError(f"{name} {rank}: {error}") from None
        if done.returncode != 0:
            raise HookError(f"{name} {rank}: status {done.returncode}: {done.stderr.strip()[-200:]}")
        return done.stdout

    def start(self, rank):
        self.run("start", rank)
        self.known.add(rank)

    def notice(self, rank, seconds):
        if self.words["notice"] is not None:
            self.run("notice", rank, seconds)

    def stop(self, rank):
        self.run("stop", rank)
        self.known.discard(rank)

    def running(self):
        if self.words["list"] is None:
            return set(self.known)
        lines = self.run("list").split()
        try:
            return {int(line) for line in lines}
        except ValueError:
            raise HookError(f"list: not a rank a line: {lines[:3]}") from None


class Launcher:
    """Keeps the wanted workers running: starts missing ones, gives surplus ones their notice, and stops each when its
    time is over. A worker that ended by itself is started again while it is wanted.

    For a number of workers, the lowest free ranks are started, and the highest get their notice after a surplus of
    patience_s: usually a job's owner sends workers away itself. Those that it has told (`leaving`) may stay until they
    leave, and are not replaced. A rank that could not be started is not tried again for retry_s, but another one is."""

    def __init__(self, hooks, notice_s, ranks_max, patience_s=0.0, retry_s=0.0):
        self.hooks = hooks
        self.notice_s = notice_s
        self.ranks_max = ranks_max
        self.patience_s = patience_s
        self.retry_s = retry_s
        self.surplus_since = None
        self.leaving = {}  # rank -> when its machine is taken away
        self.failed = {}  # rank -> time of the next try

    def chosen(self, count, leaving, running, now):
        """The wanted ranks for a number of workers: the running ones, if there is no surplus."""
        if not 0 <= count <= self.ranks_max:
            raise HookError(f"target: {count} is outside 0..{self.ranks_max}")
        stay = sorted(running - set(self.leaving))
        if len(stay) <= count + leaving:
            self.surplus_since = None
            free = (rank for rank in range(self.ranks_max)
                    if rank not in running and self.failed.get(rank, now) <= now)
            return {*stay, *(rank for _, rank in zip(range(count - len(stay)), free))}
        if self.surplus_since is None:
            self.surplus_since = now
        return set(stay[:count + leaving] if now - self.surplus_since >= self.patience_s else stay)

    def attempt(self, what, rank, did, errors, *more):
        """One hook's call; a failure does not prevent the calls for other ranks."""
        try:
            getattr(self.hooks, what)(rank, *more)
        except HookError as error:
            errors.append(str(error))
            return False
        did.append((what, rank))
        return True

    def take(self, running, now, did, errors):
        """Stops machines whose time is over."""
        for rank, at in list(self.leaving.items()):
            if rank in running and (now < at or not self.attempt("stop", rank, did, errors)):
                continue
            del self.leaving[rank]

    def keep(self, wanted, now, leaving=0):
        """One round, for a number of workers (beside those that are `leaving`) or a set of ranks. Returns [(what,
        rank)] of its calls; raises HookError, after everything else was done, when some of them failed."""
        did, errors = [], []
        self.take(self.hooks.running(), now, did, errors)
        running = self.hooks.running()
        if isinstance(wanted, int):
            wanted = self.chosen(wanted, leaving, running, now)
        for rank in sorted(running - wanted - set(self.leaving), reverse=True):
            if self.attempt("notice", rank, did, errors, self.notice_s):
                self.leaving[rank] = now + self.notice_s
        for rank in sorted(wanted - running):
            if self.failed.get(rank, now) <= now and not self.attempt("start", rank, did, errors):
                self.failed[rank] = now + self.retry_s
        if errors:
            raise HookError("; ".join(errors), did)
        return did
