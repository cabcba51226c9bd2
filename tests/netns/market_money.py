# SPDX-License-Identifier: BSD-3-Clause
"""The most that the owner of a run of testbed/market may have spent."""


def in_force(given, ended):
    """(from, until, price): a price may hold until a later one was confirmed; while one is told, either may hold."""
    return [(asked, next((answered for _, answered, _ in given[i + 1:] if answered), ended), price)
            for i, (asked, _, price) in enumerate(given)]


def most(run, hour_s):
    """All machines from their start to their end, at the highest price that may hold."""
    prices = in_force(run["given"], run["ended_s"])
    lives = [(machine["begun_s"], machine["ended_s"] or run["ended_s"]) for machine in run["machines"]]
    edges = sorted({t for begun, over, *_ in prices + lives for t in (begun, over)})
    money = 0.0
    for at, to in zip(edges, edges[1:]):
        machines = sum(begun <= at and to <= over for begun, over in lives)
        price = max((price for begun, over, price in prices if begun <= at and to <= over), default=0.0)
        money += (to - at) * machines * price / hour_s
    return money
