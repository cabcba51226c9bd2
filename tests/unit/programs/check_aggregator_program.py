#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-aggregator as a process: its words and exit codes, that it registers, what a shell and Prometheus get, how
little it does when there is nothing to do, its end.

usage: check_aggregator_program.py HEDDLE_AGGREGATOR HEDDLE_CONTROLLER HEDDLECTL SANITIZE"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from processes import Program, check, run, until, write_keys

AGGREGATOR, CONTROLLER, SHELL, SANITIZE = sys.argv[1:5]
EX_USAGE, EX_NOINPUT, EX_NOHOST, EX_UNAVAILABLE, EX_CANTCREAT = 64, 66, 68, 69, 73


def fails_with(code, words, *arguments):
    done = run(AGGREGATOR, *arguments)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}, not {code}: {done.stderr}")
    check(words in done.stderr, f"{arguments}: '{words}' is not in: {done.stderr}")
    check(not done.stdout, f"{arguments}: {done.stdout}")


def check_words(where, keys):
    done = run(AGGREGATOR, "--help")
    check(done.returncode == 0 and "--early" in done.stdout and not done.stderr, "--help")
    both = ["--key-file", keys, "--controller", "127.0.0.1:1"]
    fails_with(EX_USAGE, "--key-file: missing", "--controller", "127.0.0.1")
    fails_with(EX_USAGE, "--controller: missing", "--key-file", keys)
    fails_with(EX_USAGE, "no-such", *both, "--no-such")
    fails_with(EX_USAGE, "takes no arguments", *both, "more")
    fails_with(EX_USAGE, "memory", *both, "--memory", "-1")
    fails_with(EX_USAGE, "early", *both, "--early", "much")
    fails_with(EX_USAGE, "hold-us", *both, "--hold-us", "0")
    fails_with(EX_USAGE, "--host", *both, "--host", "h" * 65)
    fails_with(EX_NOINPUT, "none", "--key-file", f"{where}/none", "--controller", "127.0.0.1:1")
    fails_with(EX_NOHOST, "--controller", "--key-file", keys, "--controller", "no such host", "--listen", "127.0.0.1:0")
    fails_with(EX_UNAVAILABLE, "198.51.100.1", *both, "--listen", "198.51.100.1:4773")
    fails_with(EX_CANTCREAT, "events", *both, "--listen", "127.0.0.1:0", "--events", f"{where}/none/events")


def check_idle(process):
    def ticks():
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(1)
    check(ticks() - before <= 2, "an idle aggregator takes at most 2 % of a core")


def table(keys, where, *words):
    done = run(SHELL, *where, "--key-file", keys, "show", *words, "--json")
    return json.loads(done.stdout)["rows"] if done.returncode == 0 else []


def check_life(where, keys):
    controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys)
    aggregator = Program(AGGREGATOR, "--listen", "127.0.0.1:0", "--key-file", keys, "--controller", controller.address,
                         "--host", "a1", "--memory", "64M", "--metrics", "127.0.0.1:0", "--events", f"{where}/events",
                         stderr=subprocess.PIPE)
    check(aggregator.first.startswith("ready 127.0.0.1:"), aggregator.first)
    line = aggregator.process.stderr.readline()
    page = re.search(r"http://[\d.:]+/metrics", line)
    check(page, f"it says where its metrics are: {line}")
    asked = ["--controller", controller.address]
    until(lambda: [n for n in table(keys, asked, "nodes") if n["role"] == "aggregator" and n["host"] == "a1"],
          "the controller lists it")
    own = ["--server", aggregator.address]
    check(table(keys, own, "sums") == [], "no sums")
    counters = {row["counter"]: row["value"] for row in table(keys, own, "counters")}
    check(counters.get("groups_delivered") == 0 and "drop_token" in counters, f"counters: {counters}")
    done = run(SHELL, *own, "--key-file", keys, "show", "jobs")
    check(done.returncode != 0 and "of an aggregator: sums" in done.stderr, f"show jobs: {done.stderr}")
    with urllib.request.urlopen(page[0], timeout=10) as answer:
        families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    check("heddle_aggregator_groups_failed" in families, f"{sorted(families)}")
    check(families["heddle_aggregator_memory_bytes"].type == "gauge", "memory is a gauge")
    if SANITIZE == "none":
        check_idle(aggregator.process)
    aggregator.stop()
    until(lambda: not [n for n in table(keys, asked, "nodes") if n["role"] == "aggregator"], "it has left")
    controller.stop()
    events = [json.loads(text)["event"] for text in pathlib.Path(f"{where}/events").read_text().splitlines()]
    check("node-up" in events, f"{events}")


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-aggregator-") as where:
        keys = write_keys(where)
        check_words(where, keys)
        check_life(where, keys)
    print("heddle-aggregator: words, life, numbers and end are as they should be")


main()
