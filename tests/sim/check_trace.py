#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Traces of simulated runs: a reader of the trace-event format can read them, and their spans are the events'.

usage: check_trace.py SOURCE_DIR HEDDLE_SIM HEDDLE_TRACE"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT, SIM, TRACE = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, str(ROOT / "tests/unit/programs"))

import trace_format  # noqa: E402

WORKERS, RACKS = 6, 2
JOB = {"update_bytes": 200000, "compute_ms": 20, "tau_max": 12}
CALM = {"name": "calm", "workers": WORKERS, "racks": RACKS, "trunk_mbps": 100, "link_mbps": 200, "latency_us": 50,
        "job": JOB, "duration_s": 2, "sim": {"conditional": 0.3}}
SUMS = {**CALM, "name": "sums", "server_link_mbps": 50, "aggregators": 2}
FAULTS = {**CALM, "name": "faults", "duration_s": 4,
          "workers_events": [{"at_s": 1, "worker": 2, "do": "kill"}, {"at_s": 1.2, "worker": 2, "do": "join"},
                             {"at_s": 2, "worker": 1, "do": "leave"}],
          "faults": {"loss": 0.01, "crash": [{"at_s": 2.5, "node": "server", "down_s": 0.1},
                                             {"at_s": 3, "node": "controller", "down_s": 0.3}]},
          "sim": {"checkpoint_commits": 10, "cancel": 0.1, "depth": 2}}


def play(folder, setting, mode, *arguments):
    """(the events, the trace's text) of a run."""
    path, log, trace = (folder / f"{setting['name']}.{end}" for end in ("json", "jsonl", "trace"))
    path.write_text(json.dumps(setting))
    subprocess.run([SIM, path, "--mode", mode, "--quiet", "--trace", log, "--trace-perfetto", trace, *arguments],
                   check=True, stdin=subprocess.DEVNULL, timeout=120)
    return trace_format.read_log([log]), trace.read_text(), log


def topology(folder):
    hosts = [f"h{i + 1}" for i in range(WORKERS)]
    links = [[name, "s1"] for name in ("ps", "ctl", "x1")]
    links += [[name, f"s{i * RACKS // WORKERS + 1}"] for i, name in enumerate(hosts)] + [["s1", "s2"]]
    path = folder / "topology.json"
    path.write_text(json.dumps({"hosts": ["ps", "ctl", "x1", *hosts], "switches": ["s1", "s2"], "links": links}))
    return path


def convert(*arguments):
    return subprocess.run([TRACE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def check_same(some, others):
    """Event for event; numbers that went through the log have 12 digits of theirs left."""
    assert len(some) == len(others)
    for one, other in zip(some, others):
        args, other_args = one.pop("args", {}), other.pop("args", {})
        assert one == other and args.keys() == other_args.keys(), (one, other)
        for name, value in args.items():
            real = isinstance(value, float) or name.endswith("_bps")  # 9 digits may be a whole number
            alike = math.isclose(value, other_args[name], rel_tol=1e-8) if real else value == other_args[name]
            assert alike, (one, name, value, other_args[name])


def check_sums(folder):
    """Transfers through an aggregator are drawn on the links that carry them, and on no others."""
    events, text, _ = play(folder, SUMS, "aggregated")
    by_phase = trace_format.check(json.loads(text))
    tracks = {e["tid"]: e["args"]["name"] for e in by_phase["M"] if e["name"] == "thread_name"}
    carried = {}
    for event in by_phase["X"]:
        name = event["name"].rsplit(" ", 1)[0]
        if name in ("sum", "model for several"):
            carried.setdefault((name, event["args"]["group"]), []).append(tracks[event["tid"]].split(" ")[0])
    starts = {e["token"]: e for e in events if e["event"] == "send-start" and e.get("worker") == 65535}
    ended = {e["token"] for e in events if e["event"] == "recv-end"}
    whole = [e for token, e in starts.items() if token in ended]
    assert len(whole) > 10, len(whole)
    for event in whole:
        name = "sum" if event["direction"] == "push" else "model for several"
        links = carried[name, event["round"]]
        if name == "sum":
            assert links == [f"{event['node']}>s1", "s1>ps"], (event, links)
        else:
            assert len(links) == 2 and links[0] == "ps>s1" and links[1] in ("s1>a1", "s1>a2"), (event, links)


def check_calm(folder, mode):
    events, text, log = play(folder, CALM, mode)
    by_phase = trace_format.check(json.loads(text))
    expected = trace_format.expected_spans(events)
    assert min(map(len, expected.values())) > 50, {name: len(spans) for name, spans in expected.items()}
    shown = trace_format.shown_spans(by_phase, expected)
    for name in expected:
        assert shown[name] == expected[name], (name, set(shown[name]) ^ set(expected[name]))
    counts = trace_format.counts(events)
    assert len(by_phase["s"]) == counts["committed"]
    counters = [e["name"] for e in by_phase["C"]]
    assert counters.count("staleness") == counts["committed"] and counters.count("pending") == counts["plan"]
    assert sum(name.startswith("estimate") for name in counters) == counts["estimate"]
    delays = [e.get("aux", 0) for e in events if e["event"] == "committed"]
    assert [e["args"]["versions"] for e in by_phase["C"] if e["name"] == "staleness"] == delays
    waits = [e for e in by_phase["X"] if e["name"] == "wait"]
    assert len(waits) == counts["requested"]
    check_links(by_phase, events)
    again = convert("--topology", str(topology(folder)), str(log))
    assert again.returncode == 0 and not again.stderr, again
    check_same(json.loads(again.stdout)["traceEvents"], json.loads(text)["traceEvents"])
    print(f"{mode}: {len(events)} events, {len(by_phase['X'])} spans, {len(by_phase['s'])} arrows")


def check_links(by_phase, events):
    """Each transfer is on each link of its path, as long as its receiver took it."""
    names = {e["tid"]: e["args"]["name"] for e in by_phase["M"] if e["name"] == "thread_name"}
    crossed = {}
    for event in by_phase["X"]:
        link = names[event["tid"]].split(" ")[0]
        if ">" in link:
            crossed.setdefault((event["args"]["worker"], event["name"].split(" ")[1], event["args"]["round"]),
                               set()).add(link)
    received = {(*trace_format.key(e)[:1], e.get("direction", "push"), e["round"])
                for e in events if e["event"] == "recv-start"}
    assert crossed.keys() == received, crossed.keys() ^ received
    for (worker, direction, _), links in crossed.items():
        rack = worker * RACKS // WORKERS + 1
        path = [f"h{worker + 1}", f"s{rack}", *(["s1"] if rack == 2 else []), "ps"]
        path = path if direction == "push" else path[::-1]
        assert links == {f"{a}>{b}" for a, b in zip(path, path[1:])}, (worker, direction, links)


def asked(events):
    """Pushes, and those that are requested again because a restart of the server lost their outcome."""
    ended, count = set(), 0
    for event in events:
        if event.get("direction", "push") != "push":
            continue
        key = trace_format.key(event)
        count += event["event"] == "pushed" or (event["event"] == "requested" and key in ended)
        if event["event"] == "outcome":
            ended.add(key)
        elif event["event"] in ("pushed", "requested"):
            ended.discard(key)
    return count


def check_faults(folder, seed):
    events, text, log = play(folder, FAULTS, "scheduled", "--seed", str(seed))
    by_phase = trace_format.check(json.loads(text))
    counts = trace_format.counts(events)
    names = [e["name"] for e in by_phase["X"]]
    moments = [e["name"] for e in by_phase["i"]]
    for kind in ("node-up", "node-down", "voided"):
        assert moments.count(kind) == counts[kind] > 0, kind
    assert names.count("push") == asked(events) >= counts["pushed"]
    assert names.count("commit") == counts["committed"]
    assert names.count("wait") == counts["requested"] and names.count("checkpoint") > 0
    lines = log.read_text().splitlines(keepends=True)
    cut = folder / "cut.jsonl"
    cut.write_text("".join(lines)[:-5])
    done = convert(str(cut))
    assert done.returncode == 0 and "cut short" in done.stderr, done.stderr
    trace_format.check(json.loads(done.stdout))
    halves = [folder / "one.jsonl", folder / "two.jsonl"]  # as two nodes' logs, read in the wrong order
    for path, part in zip(halves, (lines[1::2], lines[::2])):
        path.write_text("".join(part))
    apart = trace_format.check(json.loads(convert(*map(str, halves)).stdout))
    assert [e["ts"] for e in apart["C"]] == [e["ts"] for e in by_phase["C"]]
    assert len(apart["s"]) == len(by_phase["s"]) and len(apart["X"]) > 0
    moved = convert("--offset", "server=0.5", str(log))
    assert moved.returncode == 0, moved.stderr
    trace_format.check(json.loads(moved.stdout))


def check_refusals(folder):
    good = '{"at_ns":5,"node":"w0","event":"pushed","job":1,"worker":0,"direction":"push","round":1}\n'
    for line, words in (("[]\n", "line 2: is not a JSON object"), ("{\n", "line 2: is not a JSON object"),
                        (good.replace("5", "-5"), "line 2: at_ns: must be a whole number"),
                        (good.replace('"at_ns":5,', ""), "line 2: at_ns: is missing"),
                        (good.replace('"w0"', "7"), "line 2: node: must be a text"),
                        (good.replace("w0", "w" * 65), "line 2: node: is missing or too long"),
                        (good.replace('"round":1', '"token":"xyz"'), "line 2: token: must be 16 hex digits"),
                        (good.replace('"round":1', '"reason":"no"'), "line 2: reason: 'no' is not known"),
                        (good.replace('"worker":0', '"worker":70000'), "line 2: worker: must be a whole number")):
        path = folder / "bad.jsonl"
        path.write_text(good + line)
        done = convert(str(path))
        assert done.returncode == 65 and f"bad.jsonl: {words}" in done.stderr, (line, done.returncode, done.stderr)
    path.write_text(good + good.replace("pushed", "danced"))
    done = convert(str(path))
    assert done.returncode == 0 and "1 events of kinds that are not known" in done.stderr, done.stderr
    path.write_text("")
    trace_format.check(json.loads(convert(str(path)).stdout))
    assert convert(str(folder / "absent")).returncode == 66
    assert convert("--output", "/dev/full", str(path)).returncode == 74


def check_words(folder):
    """The command line: --help names every option, what is wrong is said with its limits."""
    path = folder / "words.jsonl"
    path.write_text("".join(json.dumps({"at_ns": 5 * 10**9, "node": f"w{worker}", "event": "pushed", "job": 1,
                                        "worker": worker, "direction": "push", "round": 1}) + "\n"
                            for worker in range(2)))
    done = convert("--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: heddle-trace ") and not done.stderr, done
    for row in ("--output FILE", "--topology FILE", "--offset NODE=S", "--help"):
        assert f"\n  {row}  " in done.stdout, (row, done.stdout)
    for words, said in (([], "LOG: is missing"), (["--nonsense", path], "--nonsense"), (["--offset"], "--offset"),
                        (["--offset", "server", path], "--offset: 'server' (NODE=SECONDS, from -1e+09 to 1e+09)"),
                        (["--offset", "=1", path], "--offset: '=1'"), (["--offset", "w0=", path], "--offset: 'w0='"),
                        (["--offset", "w0=2e9", path], "--offset: 'w0=2e9'"),
                        (["--offset", "w0=nan", path], "--offset: 'w0=nan'"),
                        (["--offset", "w0=1x", path], "--offset: 'w0=1x'"),
                        ([f"--offset=w{i}=1" for i in range(1025)], "--offset: too many (limit 1024)")):
        done = convert(*words)
        assert done.returncode == 64 and said in done.stderr and not done.stdout, (words, done)
        assert done.stderr.endswith("Try 'heddle-trace --help'.\n"), done.stderr
    for words, ahead_us in (([], 0), (["--offset", "w0=1.5"], 1.5e6), (["--offset", "w=1", "--offset", "w00=1"], 0),
                            (["--offset", "w=0=1", "--offset", "w0=-2", "--offset", "w1=1"], -3e6)):
        done = convert(*words, path)
        assert done.returncode == 0, done.stderr
        at = {e["args"]["worker"]: e["ts"] for e in json.loads(done.stdout)["traceEvents"] if e["ph"] == "X"}
        assert at[0] - at[1] == ahead_us, (words, at)


def main():
    with tempfile.TemporaryDirectory(prefix="heddle-trace-") as name:
        folder = pathlib.Path(name)
        check_sums(folder)
        check_calm(folder, "scheduled")
        check_calm(folder, "unscheduled")
        for seed in range(1, 6):
            check_faults(folder, seed)
        check_refusals(folder)
        check_words(folder)


if __name__ == "__main__":
    main()
