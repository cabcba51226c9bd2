# SPDX-License-Identifier: BSD-3-Clause
"""The ranks that have a machine in a slot, the bid for it, and its price.

A bid is the most that is paid for a machine: it runs in the slots whose price is not above the bid, at the slot's
price. Preemptible machines have a price of their own, no bid, and are available in a slot with a given probability."""
import random


class Strategy:
    def __init__(self, setting, seed):
        self.setting = setting
        self.kind = setting["kind"]
        self.seed = seed

    def most(self):
        """The largest number of workers at once."""
        return self.setting["n_max"] if self.kind == "owner" else self.setting["n"]

    def bid(self, rank):
        """None: there is no bid."""
        if self.kind == "one-bid":
            return self.setting["bid"]
        if self.kind == "two-bid":
            return self.setting["high"] if rank < self.setting["n_high"] else self.setting["low"]
        return None

    def available(self, rank, slot):
        """Whether a preemptible machine is available: drawn for each rank and slot, whatever the order of calls."""
        dice = random.Random(f"machine:{self.seed}:{rank}:{slot}")
        return dice.random() < self.setting["available"]

    def ranks(self, slot, price, target=None):
        """The ranks that have a machine in this slot, of the first `target` (all)."""
        wanted = range(self.setting["n"] if target is None else min(target, self.most()))
        if self.setting.get("available") is not None:
            return {rank for rank in wanted if self.available(rank, slot)}
        return {rank for rank in wanted if self.bid(rank) is None or price <= self.bid(rank)}

    def pays(self, rank, price):
        """The price of this machine for an hour at the market's present price: never more than its bid."""
        if self.setting.get("price") is not None:
            return self.setting["price"]
        return price if self.bid(rank) is None else min(price, self.bid(rank))


class Account:
    """The cost of machines, from their start until they are gone."""

    def __init__(self, strategy, prices, slot_s, hour_s, always=0.0):
        self.strategy = strategy
        self.prices = prices
        self.slot_s = slot_s
        self.hour_s = hour_s
        self.always = always  # for an hour of the programs that run all the time
        self.lives = []  # [rank, begun s, ended s or None]

    def begin(self, rank, t):
        self.lives.append([rank, t, None])

    def end(self, rank, t):
        for life in self.lives:
            if life[0] == rank and life[2] is None:
                life[2] = t

    def life_cost(self, life, until):
        """Slot by slot, at the price of each."""
        rank, at, ended = life
        ends = until if ended is None else min(ended, until)
        cost = 0.0
        while at < ends:
            slot = min(int(at / self.slot_s + 1e-9), len(self.prices) - 1)
            edge = (slot + 1) * self.slot_s if slot + 1 < len(self.prices) else ends
            stop = min(edge, ends)
            cost += (stop - at) / self.hour_s * self.strategy.pays(rank, self.prices[slot])
            at = stop
        return cost

    def cost(self, until):
        """The cost of the run up to this time, in the price's currency."""
        return sum(self.life_cost(life, until) for life in self.lives) + until / self.hour_s * self.always

    def worker_s(self, until):
        return sum(max(0.0, min(until if e is None else e, until) - b) for _, b, e in self.lives)

    def workers_at(self, t):
        return sum(b <= t and (e is None or t < e) for _, b, e in self.lives)
