# SPDX-License-Identifier: BSD-3-Clause
"""Plans and targets of heddlectl: plans before a run, and the target of a job's owner during it. Python computes no
formula of its own."""
import json
import shlex
import subprocess

from lab.command import EX_UNAVAILABLE

ASK_S = 10.0
MISSES_MAX = 5  # questions in a row that the controller does not answer: then a run is given up
PLANNED = ("one-bid", "two-bid", "preemptible")


class OwnerError(Exception):
    pass


class NoAnswer(OwnerError):
    """No answer in time: the controller may answer the next question."""


def ask(words, ends_with=(0,)):
    """(status, output) of heddlectl; raises OwnerError with its output when the status is another."""
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
    """A scenario's price as text for heddlectl."""
    if price["kind"] == "constant":
        return f"{price['price']:.10g}"
    if price["kind"] == "uniform":
        return f"uniform:{price['low']:.10g}:{price['high']:.10g}"
    if price["kind"] == "gaussian":
        return "gauss:" + ":".join(f"{price[name]:.10g}" for name in ("mean", "sd", "low", "high"))
    return f"trace:{price['path']}"


def plan(program, setting, strategy):
    """The strategy with the numbers of `heddlectl elastic plan`: workers, bids, steps. Raises OwnerError, with the
    reason when no plan meets error and deadline."""
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

    A question without an answer is repeated at the next look, and the last answer is used until then: the machine may
    be busy. A command without an answer may have been carried out; repeating it changes nothing."""

    def __init__(self, command, job, words):
        self.command = command  # heddlectl, its controller and keys
        self.job = job
        self.words = words
        self.is_set = False
        self.row = None
        self.misses = self.missed = 0  # questions without an answer: in a row, and all

    def ask(self, *words):
        """The answer of heddlectl; None: none in time. Raises OwnerError after too many in a row."""
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
        """The newest answer; sets the policy once the job exists. None: there is no job yet."""
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
        """Sets the price of a worker for an hour from now on. False: it has to be repeated."""
        return self.ask("price", self.job, f"{price:.10g}") is not None
