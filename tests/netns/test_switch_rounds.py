# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_switch_rounds.py BUILD
Federated rounds through heddle-switch: clients with different numbers of rows, whose updates the switch adds, each
multiplied by its rows; losing one of a hundred frames, and one client by SIGKILL. The server divides by the rows of
those that are in each sum, and by nothing else.

Then with `late=weight` and a deadline that most clients miss: whatever way an update took, it weighs half for each step
that it is late, or that the oldest in its sum is."""
import collections
import itertools
import json
import math
import pathlib
import random
import signal
import sys
import tempfile

import pen
import test_switch_pushes as pushes

ROWS = (90, 110, 80, 120, 100)  # of each client
ROUNDS, FEATURES, LABELS = 45, 64, 10
ACCURACY = 0.8  # 0.1 at the start
SUMS = 4  # more than a fluke: who comes by himself goes to the server
LOST = 0.5  # of a hundred frames
PATIENCE_S = 60


def write_data(path, seed):
    """LEAF's JSON: a cluster for each label."""
    draw = random.Random(7)
    centres = [[draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(LABELS)]
    draw.seed(seed)
    data = {}
    for client, rows in enumerate(ROWS):
        labels = [draw.randrange(LABELS) for _ in range(rows)]
        data[f"c{client}"] = {"x": [[round(m + draw.gauss(0, 1), 3) for m in centres[y]] for y in labels], "y": labels}
    path.write_text(json.dumps({"users": list(data), "num_samples": list(ROWS), "user_data": data}))


def prepare(folder):
    (folder / "server").mkdir()
    for seed, name in enumerate(("train.json", "test.json")):
        write_data(folder / name, seed)


class Rounds(pushes.Run):
    more = ""  # of --federated

    def start_client(self, rank):
        return self.start_worker(
            "rounds", rank, len(ROWS), "--data", f"leaf:{self.folder}/train.json,{self.folder}/test.json", "--model",
            "mlp:512", "--federated",
            f"clients={len(ROWS)},min=2,available={len(ROWS)},epochs=1,mu=0.01{self.more}", "--batch", 128,
            # The server's link sends them the model one after the other, 6 ms each: those who wait compute less.
            "--compute-ms", 46 - 6 * rank, "--lr", 0.2, "--steps", ROUNDS)

    def commits(self):
        return pen.events(self.folder / "server.events", "committed")

    def committed(self):
        """Rows that each committed update counted for, by client."""
        rows = collections.defaultdict(list)
        for event in self.commits():
            rows[event["worker"]].append(event["value"])
        return rows

    def after_rounds(self):
        """Rows committed so far, after each round and before the first."""
        rounds = itertools.groupby(self.commits(), lambda event: event.get("base", 0))
        return {0, *itertools.accumulate(sum(event["value"] for event in events) for _, events in rounds)}

    def model(self):
        return self.path.rows("models", f"{self.path.hosts[len(ROWS)].address}:4773")


def follow(run):
    """One client dies during the job; the others end by themselves. Returns the last state of the job at the server,
    and reports."""
    clients = [run.start_client(rank) for rank in range(len(ROWS))]
    pen.until(lambda: len(run.committed()[1]) >= ROUNDS // 3, "a third of the rounds", PATIENCE_S)
    clients[1].send_signal(signal.SIGKILL)
    model = []

    def look():
        model.extend(run.model())
        return all(client.poll() is not None for client in clients)

    pen.until(look, "the others", PATIENCE_S)
    for rank, client in enumerate(clients):
        assert client.returncode == (-signal.SIGKILL if rank == 1 else 0), run.path.said(f"w{rank}")
    return model, [run.report(rank) for rank in range(len(ROWS)) if rank != 1]


def check(run, model, reports, counted, switch):
    rows = run.committed()
    assert sorted(rows) == list(range(len(ROWS))), rows
    for client, weights in rows.items():
        assert set(weights) == {ROWS[client]}, (client, weights)
    for rank, report in zip((0, 2, 3, 4), reports):
        assert report["applied"] == len(rows[rank]) and report["failed"] == 0, report
    assert len(rows[1]) < ROUNDS and counted["switched"] >= SUMS, counted
    assert counted["sums_saturated"] == 0 and counted["slots_leased"] == 0, counted
    assert switch["drop_simulated"] > 0 and switch["repeated"] > 0 and switch["not_finite"] == 0, switch
    # The model has exactly the rounds that were committed by then; received are those, and one round in progress.
    most = sum(sum(weights) for weights in rows.values())
    assert model and set(row["weight_applied"] for row in model) <= run.after_rounds(), model
    assert all(0 <= row["weight_received"] - row["weight_applied"] <= sum(ROWS) for row in model), model
    best = max(report["accuracy"] for report in reports)
    assert best >= ACCURACY, reports
    print(f"{counted['grouped']} updates in {counted['switched']} sums by the switch, {most:.0f} rows in all, of the "
          f"client that died {sum(rows[1]):.0f}; accuracy {best:.3f}", flush=True)


class LateRounds(Rounds):
    more = ",late=weight,deadline-ms=20,wait-ms=2000"


def follow_late(run):
    """All end by themselves. The table of rounds as the server saw it last, the job, and reports."""
    clients = [run.start_client(rank) for rank in range(len(ROWS))]
    seen = {}

    def look():
        for row in run.path.rows("rounds", f"{run.path.hosts[len(ROWS)].address}:4773"):
            seen[row["round"]] = row
        return all(client.poll() is not None for client in clients)

    pen.until(look, "the clients", PATIENCE_S)
    for rank, client in enumerate(clients):
        assert client.returncode == 0, run.path.said(f"w{rank}")
    return seen, [run.report(rank) for rank in range(len(ROWS))]


def check_late(run, seen, reports, counted):
    """Each weight in the model is the rows, or a half, a quarter ... of them: no less than the update's own delay says,
    and less only where an older one was in its sum. The table's weights are the sums of these."""
    steps, late, with_older = collections.defaultdict(float), 0, 0
    for event in run.commits():
        rows, delay = ROWS[event["worker"]], event.get("aux", 0)
        halves = math.log2(rows / event["value"])
        assert halves == int(halves) and delay <= halves <= 16, (event, halves)
        late, with_older = late + (delay > 0), with_older + (halves > delay)
        steps[event["version"]] = event["value"]
    assert late > ROUNDS and counted["switched"] > 0 and counted["sums_saturated"] == 0, (late, counted)
    weights = [steps[version] for version in sorted(steps)]
    ends = [row for row in seen.values() if row["state"] == "step"]
    assert len(ends) > ROUNDS / 3, seen
    for row in ends:
        found = weights[row["version"]:row["version"] + row["came"]]  # a version an update
        assert row["weight"] == sum(found), (row, found, len(weights))
    for rank, report in enumerate(reports):
        assert report["pushed"] == report["applied"] + report["dropped"] and report["failed"] == 0, report
    assert sum(report["applied"] for report in reports) == len(weights), (reports, len(weights))
    best = max(report["accuracy"] for report in reports)
    assert best >= ACCURACY, reports
    print(f"late: {late} of {len(weights)} updates, {with_older} in a sum with an older one; {counted['switched']} "
          f"sums by the switch; accuracy {best:.3f}", flush=True)


def main_late(build, folder):
    run = LateRounds(build, folder, LOST, workers=len(ROWS))
    try:
        seen, reports = follow_late(run)
        counted = run.counters()
    finally:
        run.close()
    check_late(run, seen, reports, counted)


def main():
    pen.enter()
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="heddle-rounds-") as folder:
        folder = pathlib.Path(folder)
        prepare(folder)
        run = Rounds(build, folder, LOST, workers=len(ROWS))
        try:
            model, reports = follow(run)
            pen.until(lambda: run.path.rows("counters") and run.counters()["slots_leased"] == 0, "slots are given back")
            counted = run.counters()
        finally:
            switch = run.close()
        check(run, model, reports, counted, switch)
    with tempfile.TemporaryDirectory(prefix="heddle-rounds-") as folder:
        prepare(pathlib.Path(folder))
        main_late(build, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
