#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Controller and server as Prometheus scrapes them: parsed by prometheus_client's OpenMetrics parser, which is strict
about TYPE, HELP, UNIT, suffixes, order and EOF. Also: wrong paths and methods, silent connections; JSON logs.

usage: check_metrics.py HEDDLE_CONTROLLER HEDDLE_SERVER HEDDLECTL"""
import atexit
import fnmatch
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from metric_rules import histograms
from processes import DEADLINE_S, check, run, until, write_keys

CONTROLLER, SERVER, SHELL = map(os.path.abspath, sys.argv[1:4])


class Node:
    """A program with --metrics on any port, its log as JSON lines."""

    def __init__(self, where, name, *command):
        self.log = os.path.join(where, name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*command, "--metrics", "0", "--log-json"],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        atexit.register(self.process.kill)  # also when a check fails
        self.token = None
        self.first = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)/", self.wait_for("metrics")["message"])[1])

    def lines(self):
        with open(self.log, encoding="utf-8") as log:
            return [json.loads(line) for line in log if line.endswith("\n")]

    def wait_for(self, event):
        return until(lambda: next((line for line in self.lines() if line["event"] == event), None),
                     lambda: f"no {event} in {self.log}: {open(self.log, encoding='utf-8').read()}")

    def get(self, path="/metrics", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        connection.request(method, path, headers={"Authorization": self.token} if self.token else {})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, body

    def families(self):
        status, headers, body = self.get()
        check(status == 200, f"GET /metrics: {status} {body}")
        kind = headers["Content-Type"]
        check(kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", kind)
        check(body.endswith("# EOF\n"), "EOF")
        families = list(text_string_to_metric_families(body))
        check(all(f.documentation and f.type in ("counter", "gauge", "histogram") for f in families), "HELP and TYPE")
        check(all(histograms(f) for f in families if f.type == "histogram"), "histograms")
        check(len({f.name for f in families}) == len(families), "each family once")
        return {f.name: f for f in families}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(DEADLINE_S) == 0, f"{self.log}: ends cleanly: {self.process.returncode}")


def value(families, name):
    return families[name].samples[0].value


def scrape(connection):
    """Over a connection that is open already, if it is: no new one is made for it."""
    if connection.sock:
        connection.auto_open = 0
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    check(answer.status == 200 and answer.read().endswith(b"# EOF\n"), "a scrape over a connection that was kept")


def check_http(node):
    check(node.get("/")[0] == 200, "/")
    check(node.get("/secrets")[0] == 404, "another path")
    status, headers, _ = node.get("/metrics", "POST")
    check(status == 405 and headers["Allow"] == "GET, HEAD", f"POST: {status}")
    check(node.get("/metrics", "HEAD")[2] == "", "HEAD has no body")
    # Clients that connect and send nothing hold up no other.
    idle = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(5)]
    begin = time.monotonic()
    node.families()
    check(time.monotonic() - begin < 1, "a scrape beside idle connections")
    for connection in idle:
        connection.close()
    # Nor do many who speak slowly; they do not cut off who keeps a connection and asks again and again over it.
    kept = http.client.HTTPConnection("127.0.0.1", node.port, timeout=DEADLINE_S)
    scrape(kept)
    slow = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(100)]
    for connection in slow:
        connection.sendall(b"GET /metr")
    begin = time.monotonic()
    node.families()
    check(time.monotonic() - begin < 3, "a scrape beside slow connections")
    scrape(kept)
    kept.close()
    for connection in slow:
        connection.close()
    with socket.create_connection(("127.0.0.1", node.port), DEADLINE_S) as raw:
        raw.sendall(b"\xff\x00nonsense\r\n\r\n" * 10)
        raw.recv(1000)
    check(value(node.families(), "heddle_process_gathers") >= 2, "still there")


def check_token(where, keys):
    """A client without the token gets only that error."""
    secret = "s3cret-" + "0123456789abcdef"
    path = os.path.join(where, "token")
    with open(path, "w", encoding="ascii") as file:
        file.write(secret + "\n")
    node = Node(where, "guarded", CONTROLLER, "--key-file", keys, "--listen", "127.0.0.1:0",
                "--metrics-token-file", path)
    for wrong in (None, "Bearer", "Bearer ", f"Basic {secret}", f"Bearer {secret[:-1]}", f"Bearer {secret}0", secret,
                  f"Bearer {'x' * len(secret)}"):
        node.token = wrong
        for where_to in ("/metrics", "/", "/secrets"):
            status, headers, body = node.get(where_to)
            check(status == 401 and headers["WWW-Authenticate"] == "Bearer" and "heddle_" not in body, (wrong, status))
    for right in (f"Bearer {secret}", f"bearer {secret}"):
        node.token = right
        check(value(node.families(), "heddle_process_gathers") >= 1, right)
    check("warning" not in {line["level"] for line in node.lines() if line["event"] == "metrics"}, "of loopback")
    node.stop()


def check_shell(address, keys):
    """A server answers a shell, too."""
    def ask(*words):
        return run(SHELL, "--server", address, "--key-file", keys, *words)

    ports = json.loads(ask("show", "ports", "json").stdout)["rows"]
    check(ports[0]["driver"] == "udp" and ports[0]["rx_packets"] > 0, ports)
    counters = {row["counter"]: row["value"] for row in json.loads(ask("show", "counters", "json").stdout)["rows"]}
    check(counters["committed"] == 0 and counters["endpoint_opened"] > 0 and "process_uptime_seconds" in counters,
          counters)
    check("user_seconds" in ask("show", "cores").stdout and "no models" in ask("show", "models").stdout, "tables")
    filtered = ask("show", "queues", "direction=in").stdout.splitlines()
    check(len(filtered) == 2, filtered)
    wrong = ask("show", "transfers")
    check(wrong.returncode == 64 and "of a server: models, rounds, ports" in wrong.stderr, wrong.stderr)
    wrong = ask("pause", "all")
    check(wrong.returncode == 64 and "a server takes no commands" in wrong.stderr, wrong.stderr)


def check_stopped(node):
    """A node that does not answer: 503 in time, and everything is well afterwards."""
    node.process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    node.process.send_signal(signal.SIGCONT)
    node.families()


def check_prometheus(where, nodes):
    """Prometheus itself, where it is installed (it is 96 MB: the parser above reads the same by the same rules)."""
    if not shutil.which("prometheus"):
        return
    config = os.path.join(where, "prometheus.yml")
    with open(config, "w", encoding="ascii") as file:
        json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "heddle", "static_configs": [
            {"targets": [f"127.0.0.1:{node.port}" for node in nodes]}]}]}, file)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={where}/tsdb",
                                f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)

    def query(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.5)
        try:
            targets = query("targets")["activeTargets"]
            opened = query("query?query=heddle_endpoint_opened_total")["result"]
        except OSError:
            continue
        if len(opened) == len(nodes):
            break
    check([t["health"] for t in targets] == ["up"] * len(nodes), [t["lastError"] for t in targets])
    check(all(float(sample["value"][1]) >= 1 for sample in opened), opened)
    meta = query("metadata?metric=heddle_endpoint_opened")  # of an OpenMetrics counter: without _total
    check("sessions" in str(meta) and "counter" in str(meta), meta)
    process.terminate()
    process.wait(DEADLINE_S)
    print("metrics: scraped by Prometheus")


def check_log(node, program):
    lines = node.lines()
    for line in lines:
        check({"time", "level", "priority", "program", "pid", "node", "event", "message"} <= set(line), line)
        check(line["program"] == program and line["pid"] == node.process.pid, line)
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"]), line["time"])
    return lines


def check_bad_options(where, keys):
    for code, word, options in (
            (69, "--metrics", ["--metrics", "127.0.0.1:1", "--listen", "127.0.0.1:0"]),
            (64, "[ADDR:]PORT", ["--metrics", "94770000", "--listen", "127.0.0.1:0"]),
            (64, "[ADDR:]PORT", ["--metrics", "http", "--listen", "127.0.0.1:0"]),
            (66, "--metrics-token-file: none: No such", ["--metrics-token-file", "none", "--listen", "127.0.0.1:0"]),
            (65, "--metrics-token-file: keys: not a token",
             ["--metrics-token-file", "keys", "--listen", "127.0.0.1:0"]),
            (64, "--log-level", ["--log-level", "loud"])):
        if options[1] == "127.0.0.1:1" and os.geteuid() == 0:
            continue
        for program in (CONTROLLER, SERVER):
            done = run(program, "--key-file", keys, *options, cwd=where)
            check(done.returncode == code and word in done.stderr, f"{options}: {done.returncode} {done.stderr}")


def address_of(server):
    return re.search(r"ready ([\d.:]+)", server.first)[1]


def check_names(addresses, keys):
    """Each counter has one name, and the documentation calls it so."""
    known = set()
    for address in addresses:
        done = run(SHELL, "--server", address, "--key-file", keys, "--json", "show", "counters")
        names = [row["counter"] for row in json.loads(done.stdout)["rows"]]
        twice = {name for name in names if names.count(name) > 1}
        check(not twice, f"{address}: {twice}: more than one counter is called so")
        known.update(names)
    document = pathlib.Path(__file__).parents[3] / "docs" / "operations.md"
    text = document.read_text(encoding="utf-8")
    begin = text.index("| counter | means |")
    said = {name for line in text[begin:text.index("\n#", begin)].splitlines() if line.startswith("| ")
            for name in re.findall(r"`([a-z_*]+)`", line.split("|")[1])}
    said |= {name for line in text.splitlines() if "`show counters` grow" in line
             for name in re.findall(r"`([a-z_]+_[a-z_]+)`", line)}
    lacking = {name for name in said if not name.startswith("driver_arp") and not fnmatch.filter(known, name)}
    check(len(said) > 12 and not lacking, f"{document}: {lacking}: no counter is called so")


def check_named(controller, server, keys):
    """--server takes the names that the controller knows."""
    def counters(name, at=controller):
        return run(SHELL, "--controller", at, "--key-file", keys, "--server", name, "show", "counters", "committed")

    for name in (server, "ps"):
        done = counters(name)
        check(done.returncode == 0 and "committed" in done.stdout, f"{name}: {done.stderr}")
    unknown = counters("not-here.invalid")
    check(unknown.returncode == 68 and "--server: 'not-here.invalid': no" in unknown.stderr
          and ", nor is it a node of the controller" in unknown.stderr, unknown.stderr)
    silent = counters("ps.invalid", "127.0.0.1:1")
    check(silent.returncode == 68 and "controller 127.0.0.1:1: no answer" in silent.stderr, silent.stderr)
    # A controller without an address does not disturb the others.
    lost = counters("ps.invalid", "ctl.invalid")
    check(lost.returncode == 68 and "--server: 'ps.invalid': no address" in lost.stderr
          and "controller ctl.invalid: no address" in lost.stderr, lost.stderr)
    resolved = counters("localhost", "ctl.invalid")
    check("ctl.invalid" not in resolved.stderr and resolved.returncode != 68, resolved.stderr)


def check_visits(nodes, addresses, keys):
    """heddlectl comes and goes with each command: that is no news."""
    def visits(node):
        return [line for line in node.lines() if ": shell (heddlectl, 127.0.0.1:" in line["message"]]

    for address in addresses:
        check(run(SHELL, "--server", address, "--key-file", keys, "show", "counters").returncode == 0, address)
    check(not any(visits(node) for node in nodes), f"{[visits(node) for node in nodes]}")
    done = run(SHELL, "--controller", addresses[0], "--key-file", keys, "set", "log-level", "debug")
    check(done.returncode == 0, done.stderr)
    check(run(SHELL, "--controller", addresses[0], "--key-file", keys, "show", "nodes").returncode == 0, "show nodes")
    until(lambda: {line["event"] for line in visits(nodes[0])} >= {"node-up", "node-down"}, "visits at debug")
    run(SHELL, "--controller", addresses[0], "--key-file", keys, "set", "log-level", "info")


def main():
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        check_bad_options(where, keys)
        check_token(where, keys)
        controller = Node(where, "controller", CONTROLLER, "--key-file", keys, "--listen", "127.0.0.1:0")
        address = re.search(r"listening on ([\d.:]+)", controller.first)[1]
        server = Node(where, "server", SERVER, "--key-file", keys, "--listen", "127.0.0.1:0",
                      "--controller", address, "--host", "ps")
        up = controller.wait_for("node-up")
        check(up["message"] == f"node-up: server on host ps (ps, {address_of(server)})", up)
        check(up["detail"]["event"] == "node-up", up)
        families = controller.families()
        check(value(families, "heddle_fabric_servers") == 1, "a server")
        check(value(families, "heddle_controller_registered") == 1, "registered")
        check(value(families, "heddle_port_rx_packets") > 0, "packets")
        check({s.labels["direction"] for s in families["heddle_queue_packets"].samples} == {"in", "out"}, "queues")
        links = {s.labels["link"] for s in families["heddle_link_estimate_bps"].samples}
        check(links >= {"local", "ps>star", "star>ps"}, links)
        check("reason" in families["heddle_updates_ended"].samples[0].labels, "reasons")
        check(value(families, "heddle_core_user_seconds") >= 0, "cores")
        waits = histograms(families["heddle_controller_grant_wait_seconds"])
        check({key[0][1] for key in waits} == {"push", "pull", "replicate"}, waits)
        check(all(count == total == 0 for _, count, total in waits.values()), f"nothing was asked for: {waits}")
        check(value(families, "heddle_core_polls") > value(families, "heddle_core_idle_polls"), "polls")
        again = controller.families()
        check(value(again, "heddle_process_gathers") > value(families, "heddle_process_gathers"), "counters grow")
        of_server = server.families()
        check(value(of_server, "heddle_endpoint_opened") >= 1 and "heddle_server_committed" in of_server, "server")
        timed = {name.removeprefix("heddle_server_") for name, f in of_server.items() if f.type == "histogram"}
        check(timed == {"first_chunk_seconds", "staleness", "pull_seconds"}, timed)
        check_shell(address_of(server), keys)
        check_names([address, address_of(server)], keys)
        check_named(address, address_of(server), keys)
        check_visits([controller, server], [address, address_of(server)], keys)
        check_prometheus(where, [controller, server])
        check_http(controller)
        check_stopped(server)
        server.stop()
        down = controller.wait_for("node-down")
        check(down["detail"]["reason"] in ("closed", "lease"), down)
        controller.stop()
        check_log(controller, "heddle-controller")
        check_log(server, "heddle-server")
        print(f"metrics: {len(families)} families of the controller, {len(of_server)} of the server")


main()
