# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a run: functions by seconds and memory, services by the hour (MLLess, arXiv 2206.05786, 6.1)."""


def cost(prices, worker_s, seconds):
    """The cost of functions for worker_s seconds in all, and of services for the run's time."""
    services = sum(service["hour"] for service in prices["services"])
    return worker_s * prices["memory_gb"] * prices["gb_second"] + seconds / 3600 * services


class Account:
    """Processes of workers: [begun s, ended s or None]. A function is paid from its start to its end."""

    def __init__(self):
        self.lives = []

    def begin(self, now):
        self.lives.append([now, None])
        return self.lives[-1]

    def worker_s(self, until):
        return sum(max(0.0, min(until if e is None else e, until) - b) for b, e in self.lives)
