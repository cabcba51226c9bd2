#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Link monitors on a real network: other tenants' TCP flows come and go, and what the controller believes of
the links follows the max-min share within 2 s.

usage: test_monitor.py BUILD_DIR"""
import json
import pathlib
import subprocess
import sys
import tempfile

import pen

WORKERS, MBPS, FLOWS = 3, 100, 2
BUSY_FROM_S, BUSY_UNTIL_S, END_S = 8.0, 18.0, 26.0
SETTLE_S = 2.5  # 2 s, and samples are taken once a second
TOLERANCE = 0.10
GOOD_MIN = 0.75  # of the judgements beside the tenant
ALONE_OFF_MAX = 0.3  # a receiver that wakes late on a busy machine sees transfers faster than they were

SETTING = {
    "name": "monitor", "about": "monitored links, another tenant for a while", "seed": 1,
    "workers": WORKERS, "link_mbps": MBPS, "server_link_mbps": MBPS,
    "latency_us": 50, "queue_kb": 128, "duration_s": END_S, "monitors": 1,
    "job": {"model": "mlp", "hidden": [256], "batch": 32, "compute_ms": 60, "tau_max": 16, "learning_rate": 0.01,
            "momentum": 0.9, "weight_decay": 1e-4, "target_accuracy": 1.0, "staleness": {"rule": "constant", "c": 1.0}},
    "tenants": [{"flows": FLOWS, "from": "extra", "to": "server", "start_s": BUSY_FROM_S, "stop_s": BUSY_UNTIL_S}],
}


def truth(link, t, alone):
    """The max-min share of weight 1: only the server's link towards it has others on it."""
    return alone / (FLOWS + 1) if link == "s1>ps" and BUSY_FROM_S <= t < BUSY_UNTIL_S else alone


def judged(samples):
    """[(t, link, estimate / truth)] of measured links, two seconds and more after each change."""
    for t, rows, alone in samples:
        if any(change <= t < change + SETTLE_S for change in (0, BUSY_FROM_S, BUSY_UNTIL_S)):
            continue
        for row in rows:
            if row["link"] in ("s1>ps", "ps>s1") and row["samples"]:
                yield t, row["link"], row["estimate_mbps"] * 1e6 / truth(row["link"], t, alone[row["link"]])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not (build / "dataplane/monitor/heddle-monitor").exists():
        pen.skip("the build has no heddle-monitor (libbpf, clang, bpftool)")
    pen.enter()
    from lab import inside, modes, network, run, scenario  # Mininet is there only where it is installed
    with tempfile.TemporaryDirectory(prefix="heddle-monitor-test-") as folder:
        inside.prepare(pathlib.Path(folder))
        path = pathlib.Path(folder) / "monitor.json"
        path.write_text(json.dumps(SETTING))
        setting = scenario.load(str(path))
        net = network.Network(setting)
        try:
            runner = run.Run(modes.Programs(build), net, setting, {
                "mode": "scheduled", "seed": 1, "learning_rate": 0.01, "full": True,
                "directory": pathlib.Path(folder) / "run", "say": print})
            record = runner.execute()
        finally:
            net.close()
        print({k: record[k] for k in ("applied", "dropped", "failed", "cpu")})
        words = [(pathlib.Path(folder) / "run" / f"monitor-{h}.out").read_text() for h in ("ps", "h1")]
        subprocess.run(["umount", folder], check=True)
    found = list(judged(runner.samples))
    for t, link, ratio in found:
        print(f"{t:5.1f} s  {link}  estimate / truth {ratio:.2f}")
    for text in words:
        assert "counting on" in text and ", 0 failed" in text and " 0 messages" not in text, text
    shared = [ratio for t, link, ratio in found if link == "s1>ps" and BUSY_FROM_S < t < BUSY_UNTIL_S]
    alone = sorted(ratio for t, link, ratio in found if not (link == "s1>ps" and BUSY_FROM_S < t < BUSY_UNTIL_S))
    good = sum(abs(ratio - 1) <= TOLERANCE for ratio in shared) / len(shared)
    print(f"beside the tenant: {len(shared)} judgements, {good:.0%} within {TOLERANCE:.0%}; "
          f"alone: median {alone[len(alone) // 2]:.2f}")
    assert len(shared) >= 4, "too few samples while the tenant was there"
    assert good >= GOOD_MIN, good
    assert abs(alone[len(alone) // 2] - 1) < ALONE_OFF_MAX, alone
    return 0


if __name__ == "__main__":
    sys.exit(main())
