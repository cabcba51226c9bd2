# SPDX-License-Identifier: BSD-3-Clause
"""The trace-event format (Google, "Trace Event Format"), as far as heddle-trace writes it: what a reader of it may rely
on, checked; and spans found again in event logs without the converter."""
import collections
import json

NUMBER = (int, float)
# phase: the fields besides ph, pid, tid and name
FIELDS = {
    "X": {"ts": NUMBER, "dur": NUMBER, "args": dict},
    "C": {"ts": NUMBER, "args": dict},
    "i": {"ts": NUMBER, "s": str, "args": dict},
    "s": {"ts": NUMBER, "cat": str, "id": int},
    "f": {"ts": NUMBER, "cat": str, "id": int, "bp": str},
    "M": {"args": dict},
}
META = {"process_name": str, "thread_name": str, "process_sort_index": int, "thread_sort_index": int}


def check_fields(event):
    wanted = {"ph": str, "pid": int, "tid": int, "name": str, **FIELDS[event["ph"]]}
    assert set(event) == set(wanted), event
    for field, types in wanted.items():
        assert isinstance(event[field], types) and not isinstance(event[field], bool), (field, event)
    assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event
    if event["ph"] == "C":
        assert all(isinstance(value, NUMBER) for value in event["args"].values()) and event["args"], event
    if event["ph"] == "M":
        (value,) = event["args"].values()
        assert isinstance(value, META[event["name"]]), event


def ns(us):
    return round(us * 1000)


def check_nesting(spans):
    """On one track a span lies within another or beside it: that is what a reader draws."""
    open_ends = []
    for start, negative_end in sorted((ns(e["ts"]), -ns(e["ts"]) - ns(e["dur"])) for e in spans):
        end = -negative_end
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], f"spans overlap at {start} ns"
        open_ends.append(end)


def check(trace):
    """The whole file. Returns {phase: events}."""
    assert set(trace) == {"displayTimeUnit", "traceEvents", "otherData"}
    by_phase = collections.defaultdict(list)
    tracks = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        check_fields(event)
        by_phase[event["ph"]].append(event)
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    processes = {e["pid"] for e in by_phase["M"] if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]) for e in by_phase["M"] if e["name"] == "thread_name"}
    assert len(threads) == len({tid for _, tid in threads}), "a tid is of two processes"
    for track, spans in tracks.items():
        assert track[0] in processes and track in threads, f"{track} has no name"
        check_nesting(spans)
    check_flows(by_phase, tracks)
    return by_phase


def check_flows(by_phase, tracks):
    """Each arrow has one beginning and one end, in spans, and does not lead back in time."""
    begins = {e["id"]: e for e in by_phase["s"]}
    ends = {e["id"]: e for e in by_phase["f"]}
    assert begins.keys() == ends.keys() and len(begins) == len(by_phase["s"]) == len(by_phase["f"])
    outermost = {track: sorted(spans, key=lambda e: (e["dur"], e["name"] in ("push", "commit")))
                 for track, spans in tracks.items()}
    starts = {track: {ns(e["ts"]): e for e in spans} for track, spans in outermost.items()}
    for number, begin in begins.items():
        end = ends[number]
        push = starts[begin["pid"], begin["tid"]][ns(begin["ts"])]
        commit = starts[end["pid"], end["tid"]][ns(end["ts"])]
        assert (push["name"], commit["name"], end["bp"]) == ("push", "commit", "e"), (push, commit)
        for field in ("worker", "round"):
            assert push["args"][field] == commit["args"][field], (push, commit)
        assert begin["ts"] <= end["ts"], (begin, end)


# --- the same from the logs ---------------------------------------------------------------------


def read_log(paths):
    events = []
    for path in paths:
        with open(path) as file:
            events += [json.loads(line) for line in file if line.endswith("\n")]
    return sorted(events, key=lambda e: e["at_ns"])


def key(event):
    return event.get("worker", 0), event.get("round", 0)


def expected_spans(events):
    """{name: sorted [(worker, round, start, end)]} of a run without faults, in ns since its first event. Where an end
    is missing the last event is it."""
    first, last = events[0]["at_ns"], events[-1]["at_ns"]
    found = collections.defaultdict(list)
    opened, held, free, sent = {}, {}, {}, {}
    for event in events:
        at, kind, direction = event["at_ns"] - first, event["event"], event.get("direction", "push")
        mine = (direction, *key(event))
        if kind in ("pushed", "pulled"):
            opened[mine] = at
        if kind == "pushed" and event["worker"] in free:
            found["compute"].append((*key(event), free[event["worker"]], at))
        if kind == "pushed" or (kind == "outcome" and direction == "pull"):
            free[event["worker"]] = at
        if kind == "outcome":
            found[direction].append((*key(event), opened.pop(mine), at))
        if kind in ("recv-start", "send-start"):
            sent[kind[:4], *mine] = at
        if kind in ("recv-end", "send-end"):
            found[{"recv": "receive", "send": "send"}[kind[:4]]].append((*key(event), sent.pop((kind[:4], *mine)), at))
        if kind == "recv-end":
            held[mine] = at
        if kind == "committed":
            found["commit"].append((*key(event), held[mine], max(at, held[mine] + 1)))
    for (name, direction, worker, rounds), at in sent.items():
        found[{"recv": "receive", "send": "send"}[name]].append((worker, rounds, at, last - first))
    for (direction, worker, rounds), at in opened.items():
        found[direction].append((worker, rounds, at, last - first))
    return {name: sorted(spans) for name, spans in found.items()}


def shown_spans(by_phase, names):
    found = collections.defaultdict(list)
    for event in by_phase["X"]:
        if event["name"] in names:
            start = ns(event["ts"])
            found[event["name"]].append((event["args"]["worker"], event["args"]["round"], start,
                                         start + ns(event["dur"])))
    return {name: sorted(spans) for name, spans in found.items()}


def counts(events):
    return collections.Counter(event["event"] for event in events)
