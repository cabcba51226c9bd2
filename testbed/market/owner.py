# SPDX-License-Identifier: BSD-3-Clause
"""What heddlectl says: plans before anything runs, and the target of a job's owner while it does. There is no formula
of Python's own."""
import json
import shlex
import subprocess

ASK_S = 10.0
PLANNED = ("one-bid", "two-bid", "preemptible")


class OwnerError(Exception):
    pass


def ask(words, ends_with=(0,)):
    """(status, output) of heddlectl; raises OwnerError with what it said when the status is another."""
    try:
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=ASK_S)
    except subprocess.TimeoutExpired:
        raise OwnerError(f"heddlectl: no answer within {ASK_S:.0f} s") from None
    if done.returncode not in ends_with:
        raise OwnerError((done.stderr or done.stdout).strip()[-300:])
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
    """The policy of a job in the controller."""

    def __init__(self, command, job, words):
        self.command = command  # heddlectl, its controller and keys
        self.job = job
        self.words = words
        self.is_set = False
        self.row = None

    def look(self):
        """The newest row; the policy is set once the job is there. None: there is no job yet."""
        _, said = ask([*self.command, "elastic", "show", "--json"])
        rows = [row for row in json.loads(said)["rows"] if row["job"] == self.job]
        if not rows:
            return None
        if not self.is_set and rows[0]["workers"] > 0:
            ask([*self.command, "elastic", "set", self.job, *shlex.split(self.words)])
            self.is_set = True
            return self.look()
        self.row = rows[0] if self.is_set else None
        return self.row

    def price(self, price):
        """Of a worker for an hour, from now on."""
        ask([*self.command, "elastic", "price", self.job, f"{price:.10g}"])
