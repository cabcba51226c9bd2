#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A worker is killed in a scheduled run and comes back, another joins late and is taken away after a notice, a third
leaves: the others go on, and the counts agree.

usage: test_members.py BUILD_DIR"""
import pathlib
import sys
import tempfile

import demo_run
import pen

SCENARIO = pathlib.Path(__file__).resolve().parent / "members.json"
KILL_S, BACK_S, LATE_S, LEAVE_S, NOTICE_S, GONE_S = 5, 9, 3, 12, 12.5, 14.5  # as the scenario has it
SURVIVORS = (0, 2, 3)


def main():
    pen.need_namespaces()
    with tempfile.TemporaryDirectory(prefix="heddle-members-") as folder:
        _, records, kept = demo_run.run(sys.argv[1], folder, "--scenario", SCENARIO, "--modes", "scheduled", "--full",
                                        "--driver", "udp")
        record, directory = records[0], kept[0]
        demo_run.check_counts(record, directory, killed={1})
        demo_run.check_granted(record)
        # One push of the killed worker, one each of the three that the end cuts off.
        assert record["failed"] <= 5, record
        others = [p for p in demo_run.problems(record) if "was not reached" not in p and "updates" not in p]
        assert others == [], others

        pushed = demo_run.events(directory, "events-w*.jsonl", "pushed")
        start = pushed[0]["at_ns"]
        commits = [(e.get("worker", 0), (e["at_ns"] - start) / 1e9)
                   for e in demo_run.events(directory, "events-ps.jsonl", "committed")]
        firsts = {rank: min(t for worker, t in commits if worker == rank) for rank in range(4)}
        print("first commits:", firsts, "applied:", record["applied"], "failed:", record["failed"])
        assert firsts[2] > LATE_S - 2 > firsts[0], "worker 2 was to come late"
        # Two lives: the second goes on after the first, whose last commit lies near the kill.
        assert {p.name for p in directory.glob("events-w1-*")} == {"events-w1-1.jsonl", "events-w1-2.jsonl"}
        second = demo_run.events(directory, "events-w1-2.jsonl", "pushed")
        assert second, "worker 1 pushed nothing in its second life"
        again = [t for worker, t in commits if worker == 1 and t > (second[0]["at_ns"] - start) / 1e9]
        assert again, "nothing of worker 1's second life was applied"
        for rank in SURVIVORS:  # each goes on while worker 1 is away, and after
            away = [t for worker, t in commits if worker == rank and KILL_S + 1 < t < BACK_S]
            after = [t for worker, t in commits if worker == rank and t > BACK_S + 1]
            assert away and after, (rank, len(away), len(after))
        last = max(t for worker, t in commits if worker == 3)
        assert LEAVE_S - 2 < last < LEAVE_S + 1.5 < commits[-1][1], (last, commits[-1])
        left = [(e["at_ns"] - start) / 1e9 for e in demo_run.events(directory, "events-ctl.jsonl", "node-down")
                if e.get("reason") == "left" and e.get("worker", 0) == 3]
        assert left and LEAVE_S - 2 < left[0] < LEAVE_S + 1.5, left

        # Worker 2 was told, worked on, left before its machine was taken away, and nothing of it was lost.
        noticed = demo_run.events(directory, "events-ctl.jsonl", "notice")
        assert [e.get("worker", 0) for e in noticed] == [2], noticed
        gone = [(e["at_ns"] - start) / 1e9 for e in demo_run.events(directory, "events-ctl.jsonl", "node-down")
                if e.get("worker", 0) == 2]
        last = max(t for worker, t in commits if worker == 2)
        print("worker 2: last commit", last, "left", gone)
        assert NOTICE_S + 1 < last < GONE_S and NOTICE_S < gone[0] < GONE_S, (last, gone)
        pushed = demo_run.events(directory, "events-w2-*.jsonl", "pushed")
        outcomes = [e for e in demo_run.events(directory, "events-w2-*.jsonl", "outcome")
                    if e.get("direction", "push") == "push"]
        assert len(pushed) == len(outcomes) and all(e["aux"] in (1, 2) for e in outcomes), (len(pushed), outcomes)
        rosters = [((e["at_ns"] - start) / 1e9, e.get("aux", 0))
                   for e in demo_run.events(directory, "events-ctl.jsonl", "roster")]
        now = [count for t, count in rosters if t < GONE_S + 0.5][-1]
        assert max(count for _, count in rosters) == 4 and now == 2, rosters  # the observer is none of them
    return 0


if __name__ == "__main__":
    sys.exit(main())
