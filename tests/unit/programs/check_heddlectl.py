#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""heddle-controller and heddlectl as an operator uses them: options, exit codes, tables, a restart."""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

from processes import KEY, Program, check, run, until, write_keys

CONTROLLER, SHELL = sys.argv[1:3]


def start(*options):
    program = Program(CONTROLLER, "--listen", "127.0.0.1:0", *options, stderr=subprocess.PIPE)
    return program, program.address, int(re.search(r", epoch (\d+)", program.first)[1])


def bad_options(where, keys):
    """Each mistake: exit code and the field's name in the message."""
    bad_key = os.path.join(where, "bad-keys")
    bad_map = os.path.join(where, "bad.json")
    bad_state = os.path.join(where, "state")
    os.mkdir(bad_state)
    for path, text in ((bad_key, "1 4242\n"), (bad_map, "{\"hosts\": 3}"), (bad_state + "/epoch", "x\n")):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    for code, word, options in (
            (64, "--key-file", []),
            (66, "--key-file", ["--key-file", where + "/none"]),
            (65, "line 1", ["--key-file", bad_key]),
            (66, "--topology", ["--key-file", keys, "--topology", where + "/none"]),
            (65, "line 1", ["--key-file", keys, "--topology", bad_map]),
            (65, "not an epoch", ["--key-file", keys, "--state-dir", bad_state]),
            (73, "--state-dir", ["--key-file", keys, "--state-dir", where + "/none/deep"]),
            (73, "--journal", ["--key-file", keys, "--journal", where + "/none/x"]),
            (64, "--journal-mb", ["--key-file", keys, "--journal-mb", "0"]),
            (73, "--events", ["--key-file", keys, "--listen", "127.0.0.1:0", "--events", where + "/none/x"]),
            (64, "--listen", ["--key-file", keys, "--listen", "nowhere:x"]),
            (64, "--theta", ["--key-file", keys, "--theta", "-1"]),
            (64, "--interval-us", ["--key-file", keys, "--interval-us", "1.5"]),
            (64, "--lease-ms", ["--key-file", keys, "--lease-ms", "9999999999"]),
            (64, "no arguments", ["--key-file", keys, "what"])):
        result = run(CONTROLLER, *options)
        check(result.returncode == code, f"{options}: exit {result.returncode}, wanted {code}")
        check(word in result.stderr, f"{options}: '{result.stderr}' names {word}")
    check("usage:" in run(CONTROLLER, "--help").stdout, "--help")
    check("usage:" in run(SHELL, "--help").stdout, "heddlectl --help")
    check(run(SHELL, "--key-file", keys, "shwo", "nodes").returncode == 64, "heddlectl: unknown command")
    check(run(SHELL, "show", "nodes", env={}).returncode == 64, "heddlectl: no key file")
    for wrong, options, env in (
            ("--server: 'x:y': not an", ["--server", "x:y", "--key-file", keys], {"HEDDLE_CONTROLLER": "z"}),
            ("--controller: 'x:y': not an", ["--controller", "x:y", "--key-file", keys], {"HEDDLE_CONTROLLER": "z"}),
            ("HEDDLE_CONTROLLER: 'x:y': not an IPv4", ["--key-file", keys], {"HEDDLE_CONTROLLER": "x:y"}),
            ("--key-file: /none: No such", ["--key-file", "/none"], {"HEDDLE_KEY_FILE": keys}),
            ("HEDDLE_KEY_FILE: /none: No such", [], {"HEDDLE_KEY_FILE": "/none"})):
        said = run(SHELL, *options, "show", "nodes", env=env).stderr
        check(said.startswith("heddlectl: " + wrong), f"{options} {env}: {said}")


def ask(address, keys, *words):
    return run(SHELL, "show", *words, env={"HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys})


def tables(address, keys):
    for table in ("nodes jobs links transfers drops estimates staleness plan settings ports queues cores "
                  "counters").split():
        text = ask(address, keys, table)
        check(text.returncode == 0 and text.stdout, f"show {table}: {text.stderr}")
        document = json.loads(ask(address, keys, table, "--json").stdout)
        check(document["table"] == table and document["total"] == len(document["rows"]), f"{table} --json")
    rows = json.loads(ask(address, keys, "counters", "--json").stdout)["rows"]
    check(len(rows) > 40 and all({"counter", "value", "unit", "help"} <= set(row) for row in rows), "counters")
    lines = ask(address, keys, "counters", "counter=shows").stdout.splitlines()
    check(len(lines) == 2 and lines[1].split()[0] == "shows" and int(lines[1].split()[1]) > 10, "a filter")
    bad = ask(address, keys, "secrets")
    check(bad.returncode == 64 and "'secrets': not expected" in bad.stderr, f"an unknown table: {bad.stderr}")


def steer(address, keys):
    """Commands as an operator types them: done, wrong, abbreviated, as JSON."""
    def command(*words):
        return run(SHELL, *words, env={"HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys})

    for words, code, text in (
            ("set theta 2", 0, "theta is 2"),
            ("set theta x", 65, "theta: 'x' (a number from 1e-06 to 1000000000, or off)"),
            ("set tau no-job 3", 65, "job: 'no-job': no such job"),
            ("set warp 9", 64, "'warp': not expected here"),
            ("set log-level debug", 0, "log-level is debug"),
            ("set log-level loud", 65, "log-level: 'loud'"),
            ("pa all", 64, "'pa': write 'pause' in full"),
            ("pause al", 64, "'al': write 'all' in full"),
            ("ev job x", 64, "'ev': write 'evict' in full"),
            ("drain h h1", 64, "'h': write 'host' in full"),
            ("pause all", 0, "nothing is granted any more"),
            ("evict worker x +1", 65, "job: 'x': no such job"),
            ("sh nod nowhere", 0, "no nodes that fit 'nowhere'"),
            ("show jobs tenant=x job=y", 0, "no jobs that fit 'tenant=x job=y'"),
            ("show jobs", 0, "no jobs\n"),
            ("?", 0, "  pause                stops granting, to all jobs or to one"),
            ("show plan ?", 0, "  why                  the latest plan, with the reason of each decision"),
            ("show bugs ?", 64, "'bugs': not expected here"),
            ("res all", 0, "grants go on"),
            ("drain host h1", 65, "host: 'h1': no node is registered there"),
            ("evict worker x 99999", 65, "job: 'x': no such job"),
            ("show p", 64, "'p': ambiguous: plan, ports"),
            ("show", 64, "incomplete"),
            ("show nodes from=3", 64, "filter: 'from=3': the table has no such field"),
            ("show counters bogus=1", 64, "filter: field=value: the table has no such field"),
            ("watch nodes --count 2 --interval-s 0.05", 0, "heddlectl"),
            ("watch nodes --interval-s 0", 64, "--interval-s: '0' (a number from 0.05 to 86400)")):
        done = command(*words.split())
        check(done.returncode == code and text in done.stdout + done.stderr,
              f"{words}: {done.returncode} {done.stdout} {done.stderr}")
    explained = [line.split(maxsplit=1) for line in command("?").stdout.splitlines()]
    check(len(explained) == 14 and all(len(line) == 2 and line[1] != "..." for line in explained), explained)
    nothing = command("show", "jobs", "--json", "X")
    check(json.loads(nothing.stdout)["rows"] == [] and nothing.returncode == 0, nothing.stdout)
    check(nothing.stderr == "heddlectl: no jobs that fit 'X'\n", nothing.stderr)
    check(json.loads(command("resume", "all", "json").stdout)["done"] is True, "a command as JSON")
    settings = json.loads(command("show", "settings", "json").stdout)["rows"]
    check({r["setting"]: r["value"] for r in settings}["theta"] == "2", "a setting that was set")


def piped(address, keys):
    """Commands from a file: the shell reads lines where there is no terminal."""
    done = run(SHELL, input="show nodes\n\n# a remark\nset theta 'off'\nshow bugs\n"
               "show counters counter=commands json\nexit\nshow nodes\n",
               env={"HEDDLE_CONTROLLER": address, "HEDDLE_KEY_FILE": keys})
    check(done.stdout.count("heddlectl  shell") == 1 and "theta is off" in done.stdout, done.stdout)
    check("'bugs': not expected here" in done.stderr and '"table": "counters"' in done.stdout, done.stderr)


def history(path):
    """The journal's rows of all this, after the controller ended."""
    with sqlite3.connect(path) as database:
        commands = dict(database.execute("SELECT words, result FROM commands"))
        check(all(row[0].startswith("127.0.0.1:") for row in database.execute("SELECT who FROM commands")), "who")
        lives = list(database.execute("SELECT epoch FROM lives"))
        # The queries that the documentation offers.
        document = pathlib.Path(__file__).parents[3] / "docs" / "operations.md"
        queries = re.findall(r'sqlite3 journal.db "([^"]+)"', document.read_text(encoding="utf-8"))
        check(len(queries) >= 4, queries)
        for query in queries:
            database.execute(query).fetchall()
    check(commands["set theta 2"] == "none" and commands["set theta x"] == "refused", commands)
    check(lives == [(1,)], lives)


def twice(address, keys, events):
    """A second controller started by mistake does not touch the first one's log."""
    def written():
        with open(events, encoding="utf-8") as file:
            return file.read()

    before = until(written, "the controller writes events")
    second = run(CONTROLLER, "--key-file", keys, "--listen", address, "--events", events)
    check(second.returncode == 69 and "in use" in second.stderr, f"exit {second.returncode}: {second.stderr}")
    check(written().startswith(before), "the first one's events are kept")


def main():
    with tempfile.TemporaryDirectory() as where:
        keys, other = write_keys(where), write_keys(where, "other", KEY.replace("4", "5"))
        bad_options(where, keys)
        events = os.path.join(where, "events")
        state = os.path.join(where, "made")  # made when it is missing
        journal = os.path.join(where, "journal.db")
        process, address, epoch = start("--key-file", keys, "--state-dir", state, "--events", events,
                                        "--journal", journal)
        check(epoch == 1, "the first epoch is 1")
        tables(address, keys)
        steer(address, keys)
        piped(address, keys)
        wrong = ask(address, other, "nodes")
        check(wrong.returncode == 77 and "key" in wrong.stderr, f"a wrong key: {wrong.stderr}")
        twice(address, keys, events)
        process.stop()
        history(journal)
        begin = time.monotonic()
        silent = run(SHELL, "--controller", address, "--key-file", keys, "show", "nodes")
        took = time.monotonic() - begin
        check(silent.returncode == 69 and "no answer" in silent.stderr, f"no controller: {silent.stderr}")
        check(1.9 < took < 4, f"which takes 2 s, not {took}")
        process, _, epoch = start("--key-file", keys, "--state-dir", state)
        check(epoch == 2, "a restart has the next epoch")
        process.stop()


main()
