#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM and SIGINT end programs whose pipes stall; check_signals.py has the other waits.

usage: check_signals_pipes.py BUILD_DIR [PART_OF_A_NAME]
"""
import fcntl
import os
import time

import check_signals


def events_are_not_read(case, number):
    """Its events go to a pipe that is not read."""
    pipe = case.folder / "events"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    case.closing.callback(os.close, reader)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    process, address = case.controller("--events", pipe)
    case.server("--controller", address)
    worker = case.train("async", controller=address)
    case.joined(worker)
    time.sleep(check_signals.SETTLED_S)
    return case.ends(process, number, [0, 74])


def bridge_stays(case, number):
    """The agent's bridge is ready, then neither answers nor ends when its input does."""
    address = case.nobody()
    process = case.begin("agent", "--bridge", "echo '{}'; sleep 1000", "--listen", address, "--key-file", case.key,
                         "--controller", case.silent())
    case.until(lambda: "ready" in case.said("agent"), "it is ready")
    case.begin("shell", "--controller", address, "--key-file", case.key, "show", "counters")
    case.settled(process)
    return case.ends(process, number, [0])


def cases():
    yield "controller, its events are not read", events_are_not_read
    yield "switch agent, bridge that stays", bridge_stays


if __name__ == "__main__":
    check_signals.main(cases)
