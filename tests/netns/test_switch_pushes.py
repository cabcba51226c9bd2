# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch_pushes.py BUILD
Workers train through heddle-switch, which adds their fixed-point updates and sends the sums to the server: without
loss, and losing one of a hundred frames that come to it; then to a replica as well. Each update is applied once, sums
of the switch among them, and the model learns."""
import json
import pathlib
import sys
import tempfile
import types

import bench_inpath
import pen

WORKERS, STEPS, MBPS, LOSS = 4, 250, 100, 1.0
ACCURACY = 0.88  # 0.11 at the start; 0.91 after all steps
SUMS = 20  # more than a fluke
PATIENCE_S = 60


class Run:
    def __init__(self, build, folder, loss, replica=False, workers=WORKERS):
        options = types.SimpleNamespace(build=build, mbps=MBPS, mtu=1500, executor="native", chunk=1408)
        self.build, self.folder = build, folder
        self.path = bench_inpath.Path(workers + 1 + replica, options, folder, 0, loss)
        for name, index, more in [("server", workers, []), ("replica", workers + 1, ["--replica"])][:1 + replica]:
            self.path.start_node("server", self.path.hosts[index], name, "--report-dir", folder / name, "--events",
                                 folder / f"{name}.events", *more)
        pen.until(lambda: sum(row["role"] in ("server", "replica") for row in self.path.rows("nodes")) == 1 + replica,
                  "servers")

    def start_worker(self, job, rank, size, *words):
        """heddle-train with updates that a switch can add."""
        host = self.path.hosts[rank]
        return self.path.start(
            f"w{rank}", host, self.build / "worker-lib/heddle-train", "--payload", "fixed32", "--pull-payload", "bf16",
            "--json", "-", "--quiet", *words, env=self.path.member(job, rank, size, host))

    def report(self, rank):
        return json.loads(self.path.said(f"w{rank}").splitlines()[-1])

    def train(self):
        workers = [self.start_worker("digits", rank, WORKERS, "--model", "mlp:256", "--compute-ms", 5, "--steps", STEPS,
                                     "--tau-max", 64) for rank in range(WORKERS)]
        self.leases, self.slots = [], 0

        def look():
            self.leases.extend(self.path.rows("leases"))
            self.slots = max(self.slots, self.counters()["slots_leased"])
            return all(worker.poll() is not None for worker in workers)

        pen.until(look, "workers", PATIENCE_S)
        for rank, worker in enumerate(workers):
            assert worker.returncode == 0, self.path.said(f"w{rank}")
        return [self.report(rank) for rank in range(WORKERS)]

    def counters(self, of=None):
        return self.path.counters(of)

    def close(self):
        return self.path.close()


def check(loss, report, counted, agent, switch, workers):
    """All was applied, sums of the switch among it, by leases that it did not refuse; what was lost was repaired."""
    rounds = WORKERS * STEPS
    dropped = sum(counted[f"drops_{why}"] for why in ("bound", "idles", "preempted"))  # the controller's own
    assert report["applied"] == report["version"]["count"] == rounds - dropped and dropped <= rounds / 20, report
    assert not report["failed"] and report["direct"] == 0 and report["elsewhere"] == dropped, report
    assert counted["switched"] >= SUMS and counted["sums"] >= SUMS, counted
    assert counted["leases"] >= counted["sums"] and counted["slots_leased"] == 0, counted
    assert counted["grouped"] >= 2 * counted["switched"] and counted["sums_saturated"] == 0, counted
    # A chunk of a sum comes once of each member, the last of these completes it, and the server answers each.
    chunks = -(-report["model_bytes"] // 1408)
    assert switch["completed"] >= counted["sums"] * chunks and switch["absorbed"] >= switch["completed"], switch
    assert switch["answered"] >= counted["sums"] * chunks and switch["not_finite"] == 0, switch
    assert not any(switch[f"drop_{why}"] for why in ("malformed", "lease", "member", "slot", "exponent")), switch
    assert (switch["drop_simulated"] > 0) == (loss > 0) and (loss == 0 or switch["repeated"] > 0), switch
    assert agent["switch_agent_leases"] >= counted["sums"] and agent["switch_agent_leases_refused"] == 0, agent
    assert sum(worker["applied"] for worker in workers) == report["applied"], workers
    assert all(worker["applied"] + worker["dropped"] == STEPS for worker in workers), workers
    best = max(worker["accuracy"] for worker in workers)
    assert best >= ACCURACY, workers
    print(f"{loss} % lost: {counted['grouped']} updates in {counted['switched']} sums by the switch; "
          f"{switch['repeated']} chunks repeated, accuracy {best:.3f}", flush=True)


def check_leases(leases):
    """Groups of pushes are among them while they have slots."""
    groups = [row for row in leases if row["group"] > 0]
    assert groups and all(row["switch"] == "s1" and row["type"] == "fixed32" for row in groups), leases
    assert all(row["state"] in ("asked", "busy") and row["slots"] > 0 and row["until_s"] >= 0 for row in groups), groups
    assert all(row["waits"] <= row["members"] and row["members"] >= 2 for row in groups), groups


def check_replica(counted, path):
    """Sums came to it from the switch, whole; how many, of those that were meant to, is only said."""
    ends = [event for event in map(json.loads, path.read_text().splitlines()) if event["event"] == "recv-end"]
    whole = sum(event.get("reason", "none") == "none" for event in ends)
    print(f"a replica: {whole} of {counted['sums_copied']} sums reached it whole", flush=True)
    assert counted["sums_copied"] >= SUMS and whole >= SUMS, (counted["sums_copied"], whole)


def main():
    pen.enter()
    build = pathlib.Path(sys.argv[1]).resolve()
    for loss, replica in ((0.0, False), (LOSS, False), (LOSS, True)):
        with tempfile.TemporaryDirectory(prefix="heddle-pushes-") as folder:
            folder = pathlib.Path(folder)
            (folder / "server").mkdir()
            (folder / "replica").mkdir()
            run = Run(build, folder, loss, replica)
            try:
                workers = run.train()
                pen.until(lambda: run.counters()["slots_leased"] == 0, "slots are given back")
                counted, agent = run.counters(), run.counters(bench_inpath.SERVICE)
            finally:
                switch = run.close()
            report = json.loads(next((folder / "server").glob("*.report.json")).read_text())
            check(loss, report, counted, agent, switch, workers)
            check_leases(run.leases)
            assert run.slots > 0, "slots of groups are counted while they are leased"
            if replica:
                check_replica(counted, folder / "replica.events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
