# SPDX-License-Identifier: BSD-3-Clause
"""The money of a run of testbed/market, counted again from its record."""


def most_money(run, hour_s):
    """The cost of the run's machines at the prices that the owner was told. While it is told one, either may hold."""
    given, ended = run["given"], run["ended_s"]
    holds = [(asked, next((answered for _, answered, _ in given[i + 1:] if answered), ended), worth)
             for i, (asked, _, worth) in enumerate(given)]
    lives = [(machine["begun_s"], machine["ended_s"] or ended) for machine in run["machines"]]
    edges = sorted({t for begun, over, *_ in holds + lives for t in (begun, over)})
    money = 0.0
    for at, to in zip(edges, edges[1:]):
        there = sum(begun <= at and to <= over for begun, over in lives)
        worth = max((worth for begun, over, worth in holds if begun <= at and to <= over), default=0.0)
        money += (to - at) * there * worth / hour_s
    return money
