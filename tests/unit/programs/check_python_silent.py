#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Four workers, one of which is registered and does not call: it costs the others the detection time once; what the
shell and the log say; its late call, and that it takes part again. The first n, a deadline, and exactly n in time.

usage: check_python_silent.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE HEDDLECTL"""
import array
import math
import os
import sys
import tempfile
import time

from processes import Program, Shell, check, until, write_keys

CONTROLLER, LIBRARY, PACKAGE, HEDDLECTL = sys.argv[1:5]
WORKERS, LEASE_S, PATIENCE_S = 4, 1.0, 30
os.environ["HEDDLE_LIBRARY"] = LIBRARY
sys.path.insert(0, PACKAGE)
import heddle  # noqa: E402  pylint: disable=wrong-import-position

NAME = "silent"


def start(jobs, **how):
    values = [array.array("f", [1.0 + job.rank] * 100) for job in jobs]
    return values, [job.allreduce_start(x, **how) for job, x in zip(jobs, values)]


def sums(jobs, **how):
    """All-reduces of these workers; the seconds that they took."""
    begun = time.monotonic()
    values, tickets = start(jobs, **how)
    for ticket in tickets:
        status = ticket.wait(PATIENCE_S)
        check(status.workers == len(jobs), f"{status.workers} workers, not {len(jobs)}")
    wanted = float(sum(1 + job.rank for job in jobs))
    check(all(x == array.array("f", [wanted] * 100) for x in values), f"the sums are {wanted}")
    return time.monotonic() - begun


def fails(ticket, reason, words):
    try:
        ticket.wait(PATIENCE_S)
    except heddle.OperationFailed as error:
        check(error.status.reason == reason and words in str(error), f"{reason}, {words!r}: {error}")
        return
    check(False, f"{reason} is an error")


def check_silent(jobs, shell):
    others, silent = jobs[:3], jobs[3]
    check(sums(jobs) < PATIENCE_S, "a round of all")
    values, tickets = start(others)
    row = until(lambda: [row for row in shell.rows("jobs") if row["waits_for"]], "it is waited for")[0]
    check((row["waits_for"], row["left_out"]) == ("3", ""), row)
    for ticket in tickets:
        check(ticket.wait(PATIENCE_S).workers == 3, "the others' sum")
    del values
    row = shell.rows("jobs")[0]
    check((row["waits_for"], row["left_out"]) == ("", "3"), row)
    counters = {row["counter"]: row["value"] for row in shell.rows("counters")}
    check(counters["left_out"] == 1, counters)
    took = [sums(others) for _ in range(20)]
    check(sum(took) < 10 * LEASE_S, f"later rounds do not wait for it: {took}")
    fails(start([silent])[1][0], "late", "late: call 2 began without rank 3, which had not called it in time")
    check(sums(jobs) < PATIENCE_S, "it takes part again")
    check(shell.rows("jobs")[0]["left_out"] == "", "it is not silent any more")


def check_first(jobs):
    """least, wait and exact."""
    _, tickets = start(jobs[:2], least=3)
    time.sleep(LEASE_S + 0.5)
    check(not any(ticket.done() for ticket in tickets), "not before three have called")
    tickets += start(jobs[2:3], least=3)[1]
    check([ticket.wait(PATIENCE_S).workers for ticket in tickets] == [3, 3, 3], "the first three")
    fails(start(jobs[3:], least=3)[1][0], "late", "late: ")
    took = sums(jobs[:3], least=3, wait=0.3)
    check(0.3 <= took, f"it waits for 0.3 s: {took}")
    fails(start(jobs[3:], least=3, wait=0.3)[1][0], "late", "late: ")
    _, tickets = start(jobs[:3], exact=WORKERS, wait=0.3)
    for ticket in tickets:
        fails(ticket, "members", "3 of 4 members have called it within 300 ms")
    fails(start(jobs[3:], exact=WORKERS, wait=0.3)[1][0], "late", "late: ")


def check_forever(jobs):
    _, tickets = start(jobs[:3], wait=math.inf)
    barrier = [job.barrier_start() for job in jobs[:3]]
    time.sleep(2 * LEASE_S)
    check(not any(ticket.done() for ticket in tickets + barrier), "they wait for all")
    tickets += start(jobs[3:], wait=math.inf)[1]
    barrier.append(jobs[3].barrier_start())
    check(all(ticket.wait(PATIENCE_S).workers == WORKERS for ticket in tickets + barrier), "all of them")
    for wait in (0, -1.0, 1e9):
        try:
            jobs[0].barrier_start(wait=wait)
        except ValueError:
            continue
        check(False, f"wait={wait} is an error")


def main():
    with tempfile.TemporaryDirectory() as where, open(os.path.join(where, "log"), "w+", encoding="utf-8") as log:
        keys = write_keys(where)
        controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where,
                             stderr=log)
        shell = Shell(HEDDLECTL, controller.address, keys)
        jobs = [heddle.Job(NAME, controller=controller.address, key_file=keys, host="h1", bind="127.0.0.1", rank=rank,
                           world_size=WORKERS) for rank in range(WORKERS)]
        for job in jobs:
            job.wait_joined(PATIENCE_S)
        check_silent(jobs, shell)
        check_first(jobs)
        check_forever(jobs)
        for job in jobs:
            job.close()
        controller.process.terminate()
        controller.process.wait(PATIENCE_S)
        log.seek(0)
        check("collective 2 began without it" in log.read(), "the log says so")


main()
