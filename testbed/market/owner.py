# SPDX-License-Identifier: BSD-3-Clause
"""What heddlectl says: plans before anything runs, and the target of a job's owner while it does. There is no formula
of Python's own."""
import json
import shlex
import subprocess

from lab.command import EX_UNAVAILABLE

ASK_S = 10.0
MISSES_MAX = 5  # questions one after another that the controller does not answer: then a run is given up
PLANNED = ("one-bid", "two-bid", "preemptible")


class OwnerError(Exception):
    pass


class NoAnswer(OwnerError):
    """In time: the controller may answer the next question."""


def ask(words, ends_with=(0,)):
    """(status, output) of heddlectl; raises OwnerError with what it said when the status is another."""
    try:
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=ASK_S)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"heddlectl: no answer within {ASK_S:g} s") from None
    if done.returncode not in ends_with:
        kind = NoAnswer if done.returncode == EX_UNAVAILABLE else OwnerError
        raise kind((done.stderr or done.stdout).strip()[-300:])
    return done.returncode, done.stdout


def price_words(price):
    """A scenario's price as heddlectl has it."""
    if price["kind"] == "constant":
        return f"{price['price']:.10g}"
    if price["kind"] == "uniform":
        return f"uniform:{price['low']:.10g}:{price['high']:.10g}"
    if price["kind"] == "gaussian":
        return "gauss:" + ":".join(f"{price[name]:.10g}" for name in ("mean", "sd", "low", "high"))
    return f"trace:{price['path']}"


def plan(program, setting, strategy):
    """The strategy with the numbers of `heddlectl elastic plan`: workers, bids, steps. Raises OwnerError, with why
    nothing meets error and deadline."""
    kind = strategy["kind"]
    words = [*shlex.split(strategy["plan"]), f"price={price_words(setting['price'])}", f"price_s={setting['hour_s']}"]
    if kind == "preemptible":
        words += [f"availability={strategy['available']}", f"preempt_price={strategy['price']}"]
    _, said = ask([program, "elastic", "plan", *words, "--json"], (0, 65))
    try:
        row = next(row for row in json.loads(said)["rows"] if row["policy"] == kind)
    except (ValueError, KeyError, StopIteration):
        raise OwnerError(f"plan of {kind}: not understood: {said[:200]}") from None
    if not row["feasible"]:
        raise OwnerError(f"plan of {kind}: {row['why']}")
    found = {**strategy, "n": row["workers"], "iterations": row["iterations"],
             "expected": {name: row[name] for name in ("expected_s", "cost", "error", "iterations")}}
    if kind == "one-bid":
        found["bid"] = row["bid"]
    elif kind == "two-bid":
        found.update(n_high=row["workers_high"], high=row["bid"], low=row["bid_low"])
    return found


class Owner:
    """The policy of a job in the controller.

    A question without an answer is asked again with the next look, and what was known holds until then: the machine
    may be busy. What the controller was told may have been done all the same; saying it twice changes nothing."""

    def __init__(self, command, job, words):
        self.command = command  # heddlectl, its controller and keys
        self.job = job
        self.words = words
        self.is_set = False
        self.row = None
        self.misses = self.missed = 0  # questions without an answer: one after another, and all

    def ask(self, *words):
        """What heddlectl says; None: nothing in time. Raises OwnerError when that is too often one after another."""
        try:
            _, said = ask([*self.command, "elastic", *words])
        except NoAnswer as error:
            self.missed += 1
            self.misses += 1
            if self.misses == MISSES_MAX:
                raise OwnerError(f"{error} (elastic {words[0]}; {MISSES_MAX} times one after another)") from None
            return None
        self.misses = 0
        return said

    def look(self):
        """The newest row that was answered; the policy is set once the job is there. None: there is no job yet."""
        said = self.ask("show", "--json")
        if said is None:
            return self.row
        rows = [row for row in json.loads(said)["rows"] if row["job"] == self.job]
        if not rows:
            return None
        if not self.is_set and rows[0]["workers"] > 0:
            self.is_set = self.ask("set", self.job, *shlex.split(self.words)) is not None
            return self.look() if self.is_set else None
        self.row = rows[0] if self.is_set else None
        return self.row

    def price(self, price):
        """Of a worker for an hour, from now on. False: it is to be said again."""
        return self.ask("price", self.job, f"{price:.10g}") is not None
