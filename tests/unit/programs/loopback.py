#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real processes on the loopback interface: controller, server, heddle-run and the trainer.

usage: loopback.py BUILD_DIR [TEST]...   needs no privileges. Keeps everything under one temporary folder and
ends only what it started.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from processes import until

BUILD = Path(sys.argv.pop(1)).resolve()
CONTROLLER = BUILD / "controller/heddle-controller"
SERVER = BUILD / "aggregator/heddle-server"
RUN = BUILD / "worker-lib/heddle-run"
TRAIN = BUILD / "worker-lib/heddle-train"
DIGITS = Path("/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz")
DEADLINE_S = 60


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Loopback(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="heddle-loopback-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.key = self.path / "key"
        self.key.write_text("7 " + "5a" * 32 + "\n")
        self.key.chmod(0o600)
        self.controller = f"127.0.0.1:{free_port()}"
        self.server = f"127.0.0.1:{free_port()}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}

    def start(self, program, *arguments):
        process = subprocess.Popen(
            [str(a) for a in (program, *arguments)], env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        while line and "ready" not in line and "listening" not in line:
            line = process.stdout.readline()
        self.assertTrue(line, f"{program} ended before it was ready")
        return process

    def end(self, process, number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def start_controller(self, *more):
        return self.start(CONTROLLER, "--listen", self.controller, "--key-file", self.key,
                          "--state-dir", self.path, *more)

    def start_server(self, *more):
        return self.start(SERVER, "--listen", self.server, "--host", "ps", "--key-file", self.key,
                          "--events", self.path / "ps.jsonl", *more)

    def start_fabric(self):
        controller = self.start_controller()
        return controller, self.start_server("--controller", self.controller)

    def run_command(self, count, train, run=(), scheduled=True):
        where = ["--controller", self.controller] if scheduled else ["--server", self.server]
        return [str(a) for a in (
            RUN, "-n", count, *where, "--key-file", self.key, "--job", "digits", "--host-prefix", "h",
            "--bind", "127.0.0.1", *run, "--", TRAIN, *train)]

    def run_job(self, count, train, run=(), scheduled=True):
        """Returns (exit status, {rank: summary}, {rank: other lines})."""
        done = subprocess.run(self.run_command(count, train, run, scheduled), env=self.env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE_S)
        return done.returncode, *self.sort_lines(done.stdout)

    def sort_lines(self, text):
        summaries, lines = {}, {}
        for line in text.splitlines():
            head, _, rest = line.partition("] ")
            rank = int(head[1:]) if head.startswith("[") and head[1:].isdigit() else -1
            if rest.startswith("{") and "role" in json.loads(rest):
                summaries[rank] = json.loads(rest)
            else:
                lines.setdefault(rank, []).append(rest if rank >= 0 else line)
        return summaries, lines

    def events(self, name, kind):
        with open(self.path / f"{name}.jsonl", encoding="utf-8") as log:
            lines = log.read().splitlines()
        if lines and not lines[-1].endswith("}"):
            lines.pop()  # its writer was killed
        return [e for e in map(json.loads, lines) if e["event"] == kind]

    def check_sums(self, summary):
        self.assertEqual(summary["pushed"], summary["applied"] + summary["dropped"] + summary["failed"])
        self.assertEqual(summary["dropped"], sum(summary["dropped_by_reason"].values()))
        self.assertEqual(summary["failed"], sum(summary["failed_by_reason"].values()))
        self.assertLessEqual(summary["staleness"]["max"], summary["staleness"]["bound"])

    # --- one worker is the reference, bit for bit -------------------------------------------------
    def check_same(self, scheduled, *more):
        train = ["--model", "mlp:32", "--steps", 60, "--lr", 0.1, "--momentum", 0.9, "--weight-decay", 1e-3,
                 "--seed", 5, "--json", "-", "--quiet", *more]
        local = subprocess.run([str(a) for a in (TRAIN, "--local", *train)], env=self.env, text=True,
                               stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        status, summaries, _ = self.run_job(1, ["--synchronous", *train], scheduled=scheduled)
        self.assertEqual(status, 0)
        self.assertEqual(summaries[0]["applied"], 60)
        self.assertEqual(summaries[0]["model_crc32"], json.loads(local.stdout)["model_crc32"])
        self.assertGreater(summaries[0]["granted_bytes" if scheduled else "direct_bytes"], 0)
        self.assertEqual(summaries[0]["direct_bytes" if scheduled else "granted_bytes"], 0)

    def test_same_as_local_direct(self):
        self.start_server()
        self.check_same(scheduled=False)

    def test_same_as_local_scheduled(self):
        self.start_fabric()
        self.check_same(scheduled=True)

    def check_same_in_16_bits(self, payload):
        _, server = self.start_fabric()
        self.check_same(True, "--payload", payload)
        self.end(server)
        sizes = {event["bytes"] for event in self.events("ps", "committed")}
        self.assertEqual(sizes, {2 * (64 * 32 + 32 + 32 * 10 + 10)})

    def test_same_as_local_in_fp16(self):
        self.check_same_in_16_bits("fp16")

    def test_same_as_local_in_bf16(self):
        self.check_same_in_16_bits("bf16")

    # --- several workers --------------------------------------------------------------------------
    def test_same_as_local_sparse(self):
        _, server = self.start_fabric()
        self.check_same(True, "--payload", "sparse", "--batch", 1)
        self.end(server)
        sizes = {event["bytes"] for event in self.events("ps", "committed")}
        self.assertLess(max(sizes), 4 * (64 * 32 + 32 + 32 * 10 + 10))  # dark pixels, dead units

    def test_svmlight_sparse(self):
        """Softmax regression on sparse rows: bit for bit the reference, in a small part of the bytes, and it learns."""
        rows = []
        for i in range(400):  # 2000 features; the class is which third of them a row's come from
            features = sorted({(7919 * i + 613 * k) % 660 + 660 * (i % 3) + 1 for k in range(12)})
            rows.append(f"{i % 3 - 1} " + " ".join(f"{f}:{0.5 + (f * i) % 7 / 7:.3f}" for f in features))
        (self.path / "rows.svm").write_text("# 400 rows\n" + "\n".join(rows) + "\n")
        _, server = self.start_fabric()
        train = ["--data", f"svmlight:{self.path}/rows.svm", "--model", "softmax", "--steps", 150, "--lr", 0.5,
                 "--batch", 8, "--payload", "sparse", "--synchronous", "--seed", 5, "--json", "-", "--quiet"]
        local = subprocess.run([str(a) for a in (TRAIN, "--local", *train)], env=self.env, text=True,
                               stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        status, summaries, _ = self.run_job(1, train)
        self.assertEqual(status, 0)
        self.assertEqual(summaries[0]["applied"], 150)
        self.assertEqual(summaries[0]["model_crc32"], json.loads(local.stdout)["model_crc32"])
        self.assertGreater(summaries[0]["accuracy"], 0.9)
        self.end(server)
        sizes = [event["bytes"] for event in self.events("ps", "committed")]
        self.assertLess(max(sizes), 4 * (1980 + 1) * 3 / 5)

    def test_files_are_not_for_everybody(self):
        """Models, state, history and events are for the owner and its group, whatever the umask is."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.key.chmod(0o644)
        controller = self.start_controller("--journal", self.path / "journal", "--events", self.path / "ctl.jsonl")
        server = self.start_server("--controller", self.controller, "--checkpoint-dir", self.path / "models")
        status, _, lines = self.run_job(1, ["--model", "mlp:16", "--steps", 3, "--quiet"])
        self.assertEqual(status, 0, lines)
        self.assertIn("any user can read the node keys (mode 0644)", str(lines))  # the worker warns, too
        self.end(server)
        self.end(controller)
        self.assertEqual((self.path / "models").stat().st_mode & 0o7777, 0o750)
        files = {path.name: path.stat().st_mode & 0o7777 for path in self.path.rglob("*") if path.is_file()}
        files.pop("key")
        self.assertGreaterEqual({name.split(".")[-1] for name in files},
                                {"journal", "jsonl", "safetensors", "json"}, files)
        self.assertEqual({name: f"{mode:o}" for name, mode in files.items() if mode & 0o137}, {})

    def test_step_that_is_never_complete(self):
        """Nine workers are wanted and one is there: it ends when its time is up, and soon after a signal."""
        self.start_server()
        where = {**self.env, "HEDDLE_SERVER": self.server, "HEDDLE_KEY_FILE": str(self.key), "HEDDLE_RANK": "0",
                 "HEDDLE_HOST": "h1", "HEDDLE_BIND": "127.0.0.1"}
        train = [str(TRAIN), "--sync", "nsync:9", "--model", "mlp:16", "--quiet"]
        for number, words in ((None, ["--seconds", "1"]), (signal.SIGTERM, []), (signal.SIGINT, [])):
            worker = subprocess.Popen([*train, *words], env={**where, "HEDDLE_JOB": f"job{number or 0}"}, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(self.end, worker)
            time.sleep(1)
            begun = time.monotonic()
            if number:
                worker.send_signal(number)
            worker.communicate(timeout=20)
            # Transfers in flight have 5 s to end when the time is up, 0.5 s after a signal.
            self.assertLess(time.monotonic() - begun, 3 if number else 8)
            self.assertEqual(worker.returncode, 0)

    def test_svmlight_errors(self):
        (self.path / "bad.svm").write_text("1 1:1\n0 2:1 1:1\n")
        done = subprocess.run([str(TRAIN), "--local", "--steps", "1", "--data", f"svmlight:{self.path}/bad.svm"],
                              env=self.env, text=True, stderr=subprocess.PIPE, timeout=DEADLINE_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("bad.svm: line 2: field 3: the index is not above the one before", done.stderr)

    def test_reaches_target_in_16_bits(self):
        """Updates in bf16, models in fp16: half the bytes, and it still learns."""
        _, server = self.start_fabric()
        status, _, lines = self.run_job(
            2, ["--lr", 0.2, "--compute-ms", 2, "--seconds", 40, "--every-ms", 100, "--target", 0.9,
                "--target-commits", 20, "--quiet", "--model", "mlp:64", "--payload", "bf16",
                "--pull-payload", "fp16"], run=["--observer"])
        self.assertEqual(status, 0, lines)
        self.end(server)
        half = 2 * (64 * 64 + 64 + 64 * 10 + 10)
        self.assertEqual({event["bytes"] for event in self.events("ps", "committed")}, {half})
        workers = [e for e in self.events("ps", "send-end") if e["worker"] < 2]
        self.assertEqual({event["bytes"] for event in workers}, {half})

    def test_reaches_target(self):
        _, server = self.start_fabric()
        status, _, lines = self.run_job(
            2, ["--lr", 0.2, "--compute-ms", 2, "--seconds", 40, "--every-ms", 100, "--target", 0.9,
                "--target-commits", 20, "--quiet", "--model", "mlp:64"], run=["--observer"])
        self.assertEqual(status, 0, lines)
        evaluations = [json.loads(line) for line in lines[2]]
        self.assertTrue(evaluations[-1]["reached"])
        self.assertEqual(sorted(e["version"] for e in evaluations), [e["version"] for e in evaluations])
        self.end(server)

    def check_steps(self, mode, size, distinct):
        """Every step is of updates of one base, of as many as the mode says; the observer is not waited for."""
        _, server = self.start_fabric()
        status, _, lines = self.run_job(
            3, ["--lr", 0.2, "--compute-ms", 2, "--seconds", 40, "--every-ms", 100, "--target", 0.85,
                "--target-commits", 40, "--quiet", "--model", "mlp:64", "--sync", mode], run=["--observer"])
        self.assertEqual(status, 0, lines)
        self.end(server)
        steps = {}
        for event in self.events("ps", "committed"):
            self.assertEqual(event.get("aux", 0), 0)
            steps.setdefault(event.get("base", 0), []).append(event.get("worker", 0))
        sizes = [len(workers) for workers in steps.values()]
        self.assertLessEqual(max(sizes), size)
        self.assertGreater(sizes.count(size), 10)
        # Fewer join first, and leave last; how long that takes is the machine's.
        whole = sizes[sizes.index(size):len(sizes) - sizes[::-1].index(size)]
        self.assertEqual(whole, [size] * len(whole))
        if distinct:
            self.assertTrue(all(len(set(workers)) == len(workers) for workers in steps.values()))
        at = 0
        for base, workers in steps.items():
            self.assertEqual(base & ((1 << 48) - 1), at)
            at += len(workers)

    def test_steps_of_all(self):
        self.check_steps("full", 3, True)

    def test_steps_of_two_workers(self):
        self.check_steps("nsync:2", 2, True)

    def test_steps_of_three_updates(self):
        self.check_steps("nbatch:3", 3, False)

    def test_counts(self):
        _, server = self.start_fabric()
        status, summaries, lines = self.run_job(
            3, ["--model", "mlp:256", "--steps", 50, "--compute-ms", 5, "--tau-max", 4, "--json", "-",
                "--quiet"], run=["--events-dir", self.path])
        self.assertEqual(status, 0, lines)
        self.end(server)
        commits = self.events("ps", "committed")
        self.assertEqual([c["version"] for c in commits], list(range(1, len(commits) + 1)))
        self.assertEqual(sum(s["applied"] for s in summaries.values()), len(commits))
        for rank in range(3):
            self.check_sums(summaries[rank])
            self.assertEqual(summaries[rank]["pushed"], 50)
            outcomes = [e for e in self.events(f"w{rank}", "outcome") if e.get("direction") == "push"]
            self.assertEqual(len(outcomes), 50)
            self.assertEqual(len({e["round"] for e in outcomes}), 50)

    def check_line(self, line, rank):
        """A line of --log-json, as the services write them."""
        self.assertRegex(line.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        self.assertEqual({"error": 3, "warning": 4, "info": 6}[line.pop("level")], line.pop("priority"))
        self.assertEqual((line.pop("program"), line.pop("node")), ("heddle-train", f"w{rank}"))
        self.assertGreater(line.pop("pid"), 0)
        self.assertLessEqual(line.keys(), {"event", "message", "detail"})

    def test_log_json(self):
        self.start_fabric()
        status, _, lines = self.run_job(
            2, ["--steps", 40, "--compute-ms", 5, "--log-json", "--scale-rate", "linear:3"])
        self.assertEqual(status, 0, lines)
        for rank in range(2):
            said = [json.loads(line) for line in lines[rank]]
            for line in said:
                self.check_line(line, rank)
            progress = [line["detail"] for line in said if line["event"] == "progress"]
            self.assertTrue(progress and progress[0]["steps"] >= 1, said)
            self.assertTrue([line for line in said if line["event"] == "fabric"], said)  # connected, joined
            scales = [line["detail"] for line in said if line["event"] == "scale"]
            self.assertTrue(scales and scales[0]["change"] > 0, said)
            for scale in scales:
                self.assertAlmostEqual(scale["scale"], scale["workers"] / 3, delta=1e-6)
        for wrong in ("linear:0", "linear:4097", "linear:", "linear:2x", "linea", "none:2"):
            self.assertEqual(self.run_job(1, ["--scale-rate", wrong, "--steps", 1])[0], 64, wrong)
        status, _, lines = self.run_job(1, ["--log-json", "--steps", 1, "--data", self.path / "none\u00e9"])
        self.assertEqual(status, 66)
        (line,) = [json.loads(line) for line in lines[0]]
        self.check_line(line, 0)
        self.assertEqual(line["event"], "failed")
        self.assertIn("none\u00e9", line["message"])

    def test_worker_evaluates(self):
        self.start_server()
        train = ["--steps", 20, "--eval-every", 5, "--synchronous", "--quiet"]
        status, _, lines = self.run_job(1, train, scheduled=False)
        self.assertEqual(status, 0, lines)
        seen = [json.loads(line) for line in lines[0] if line.startswith("{")]
        self.assertEqual([e["version"] for e in seen], [0, 5, 10, 15])
        self.assertGreater(seen[-1]["accuracy"], seen[0]["accuracy"])

    def test_example(self):
        self.start_server()
        done = subprocess.run(
            [str(a) for a in (RUN, "-n", 2, "--server", self.server, "--key-file", self.key,
                              BUILD / "worker-lib/minimal")],
            env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
            timeout=DEADLINE_S)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual([line[:11] for line in lines], ["[0] w[9] = ", "[1] w[9] = "])
        for line in lines:  # 0.99^500 of the way is left at most
            self.assertAlmostEqual(float(line[11:]), 9.0, delta=0.07)

    def test_example_refused(self):
        self.start_server()
        self.assertEqual(self.run_job(1, ["--steps", 1, "--quiet"], scheduled=False)[0], 0)
        done = subprocess.run(
            [str(a) for a in (RUN, "-n", 1, "--server", self.server, "--key-file", self.key, "--job", "digits",
                              BUILD / "worker-lib/minimal")],
            env=self.env, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("[0] ", done.stderr)
        self.assertNotIn("w[9]", done.stdout)

    # --- what goes wrong --------------------------------------------------------------------------
    def test_controller_dies(self):
        controller, server = self.start_fabric()
        run = subprocess.Popen(
            self.run_command(2, ["--model", "mlp:64", "--seconds", 6, "--compute-ms", 5, "--json", "-",
                                 "--quiet"], run=["--server", self.server]),
            env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.addCleanup(self.end, run)
        until(lambda: len(self.events("ps", "committed")) > 20, "commits", DEADLINE_S)
        self.end(controller, signal.SIGKILL)
        out, _ = run.communicate(timeout=DEADLINE_S)
        self.assertEqual(run.returncode, 0, out)
        summaries, _ = self.sort_lines(out)
        for rank in range(2):
            self.check_sums(summaries[rank])
            self.assertGreater(summaries[rank]["granted_bytes"], 0)
            self.assertGreater(summaries[rank]["direct_bytes"], 0)
        self.end(server)

    def test_server_restarts(self):
        """Checkpoints on: what was applied before the last one stays, the rest is done again or dropped."""
        self.start_controller()
        keep = ["--controller", self.controller, "--checkpoint-dir", self.path, "--checkpoint-commits", 40]
        server = self.start_server(*keep)
        run = subprocess.Popen(
            self.run_command(2, ["--model", "mlp:64", "--seconds", 7, "--compute-ms", 5, "--json", "-",
                                 "--quiet"]),
            env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.addCleanup(self.end, run)
        until(lambda: len(self.events("ps", "committed")) > 60, "commits and a checkpoint", DEADLINE_S)
        self.end(server, signal.SIGKILL)
        os.rename(self.path / "ps.jsonl", self.path / "before.jsonl")
        server = self.start_server(*keep)
        out, _ = run.communicate(timeout=DEADLINE_S)
        self.assertEqual(run.returncode, 0, out)
        summaries, _ = self.sort_lines(out)
        for rank in range(2):
            self.check_sums(summaries[rank])
            self.assertLess(summaries[rank]["dropped"] + summaries[rank]["failed"], 20)
        self.end(server)
        after = self.events("ps", "committed")
        self.assertGreater(len(after), 100)
        before = {c["incarnation"] for c in self.events("before", "committed")}
        self.assertEqual({c["incarnation"] for c in after}, {max(before) + 1})
        seen = [(c.get("worker", 0), c["round"]) for c in after]
        self.assertEqual(len(seen), len(set(seen)))

    def test_worker_comes_back(self):
        """Another incarnation of a rank: its rounds go on from those that the server has seen."""
        _, server = self.start_fabric()
        train = ["--model", "mlp:64", "--compute-ms", 5, "--json", "-", "--quiet"]
        self.env.update(HEDDLE_RANK="0", HEDDLE_CONTROLLER=self.controller, HEDDLE_KEY_FILE=str(self.key),
                        HEDDLE_JOB="digits", HEDDLE_HOST="h1", HEDDLE_BIND="127.0.0.1")
        first = subprocess.Popen([str(a) for a in (TRAIN, *train)], env=self.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, first)
        until(lambda: len(self.events("ps", "committed")) > 20, "commits", DEADLINE_S)
        self.end(first, signal.SIGKILL)
        second = subprocess.run([str(a) for a in (TRAIN, *train, "--steps", 50)], env=self.env, text=True,
                                stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        summary = json.loads(second.stdout)
        self.check_sums(summary)
        self.assertEqual(summary["applied"], 50)
        self.end(server)
        rounds = [c["round"] for c in self.events("ps", "committed")]
        self.assertGreater(len(rounds), 60)
        self.assertEqual(len(rounds), len(set(rounds)))
        self.assertLess(max(rounds[:-50]), min(rounds[-50:]))
        # One that had to ask may be overtaken by the next, on a credit.
        self.assertLessEqual(max(abs(a - b) for a, b in zip(rounds, sorted(rounds))), 1)

    def test_worker_killed(self):
        self.start_fabric()
        run = subprocess.Popen(
            self.run_command(3, ["--seconds", 50, "--compute-ms", 20, "--quiet"], run=["--grace-ms", 2000]),
            env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.addCleanup(self.end, run)
        listed = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        until(lambda: len(listed.read_text().split()) == 3, "three processes")
        children = [int(pid) for pid in listed.read_text().split()]
        self.assertEqual(len(children), 3)
        time.sleep(0.5)
        os.kill(children[1], signal.SIGKILL)
        out, _ = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 128 + signal.SIGKILL)
        self.assertIn("heddle-run: rank 1: killed by signal 9", out)
        self.assertFalse(any(alive(pid) for pid in children))

    def test_other_description(self):
        self.start_server()
        train = ["--steps", 3, "--quiet", "--lr"]
        self.assertEqual(self.run_job(1, [*train, 0.1], scheduled=False)[0], 0)
        status, _, lines = self.run_job(1, [*train, 0.2], scheduled=False)
        self.assertEqual(status, 78)
        self.assertIn("learning_rate", " ".join(lines[0]))

    def test_who_does_not_answer(self):
        wait = ["--steps", 1, "--join-ms", 300]
        for scheduled, words in ((False, "the server does not answer"), (True, "the controller does not answer")):
            status, _, lines = self.run_job(1, wait, scheduled=scheduled)
            self.assertEqual(status, 69)
            self.assertIn(words, " ".join(lines[0]))
        self.start_controller()
        status, _, lines = self.run_job(1, wait)
        self.assertEqual(status, 69)
        self.assertIn("knows no server", " ".join(lines[0]))

    def test_other_key(self):
        self.start_server()
        self.key.write_text("7 " + "5b" * 32 + "\n")
        status, _, lines = self.run_job(1, ["--steps", 3, "--join-ms", 700], scheduled=False)
        self.assertEqual(status, 69)
        self.assertIn("key", " ".join(lines[0]))


class Run(unittest.TestCase):
    def run_shell(self, script, *options):
        return subprocess.run([str(RUN), "-n", "2", *options, "--", "sh", "-c", script], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=20)

    def test_environment(self):
        done = self.run_shell("echo $HEDDLE_RANK/$HEDDLE_WORLD_SIZE $HEDDLE_HOST $HEDDLE_JOB $HEDDLE_TENANT",
                              "--host-prefix", "n", "--job", "j", "--tenant", "t")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 0/2 n1 j t", "[1] 1/2 n2 j t"])

    def test_first_failure(self):
        done = self.run_shell("[ $HEDDLE_RANK = 1 ] && exit 7; exec sleep 30")
        self.assertEqual(done.returncode, 7)

    def test_stubborn_children_are_killed(self):
        begun = time.monotonic()
        done = self.run_shell("[ $HEDDLE_RANK = 1 ] && exit 7; trap '' TERM; sleep 30 & sleep 30", "--grace-ms", "200")
        self.assertEqual(done.returncode, 7)
        self.assertLess(time.monotonic() - begun, 10)

    def test_long_lines_and_missing_program(self):
        done = self.run_shell("head -c 10000 /dev/zero | tr '\\0' x; echo; echo end >&2")
        self.assertEqual(sum(line.count("x") for line in done.stdout.splitlines()), 20000)
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] end", "[1] end"])
        missing = subprocess.run([str(RUN), "-n", "1", "/nonexistent/program"], capture_output=True, timeout=20)
        self.assertEqual(missing.returncode, 127)
        for wrong in (["-n", "0", "true"], ["-n", "1"], ["-n", "1", "--host", "a", "--host-prefix", "b", "true"]):
            done = subprocess.run([str(RUN), *wrong], capture_output=True, timeout=20)
            self.assertEqual(done.returncode, 64)


class Trainer(unittest.TestCase):
    def train(self, *words, **env):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, **env}
        return subprocess.run([str(TRAIN), *words], env=env, text=True, capture_output=True, timeout=20)

    def test_bad_input(self):
        for wrong, status, words in (
                (["--batch", "0"], 64, "--batch: '0' (a whole number from 1 to 65536)"),
                (["--batch", "65537"], 64, "--batch"), (["--batch", "3.5"], 64, "--batch"),
                (["--tau-max", "-1"], 64, "--tau-max: '-1' (a whole number from 1 to 1000000)"),
                (["--lr", "x"], 64, "--lr: 'x' (a number from 0 to 1e+06)"), (["--lr", "nan"], 64, "--lr"),
                (["--seed", "9007199254740993"], 64, "from 0 to 9007199254740992)"),
                (["--filter", "-1"], 64, "--filter: '-1' (a number from 0 to 1e+06)"),
                (["--nonsense"], 64, "nonsense"), (["--batch"], 64, "batch"),
                (["more"], 64, "'more': takes no arguments"),
                (["--sync", "nsync:0"], 64, "--sync: 'nsync:0' (async, full, nsync:N or nbatch:N"),
                (["--payload", "fp8"], 64, "--payload: 'fp8' (fp32, fp16, bf16, fixed32 or sparse)"),
                (["--pull-payload", "sparse"], 64, "--pull-payload: 'sparse' (fp32, fp16 or bf16)"),
                (["--shards", "dead"], 64, "--shards: 'dead' (rank or live)"),
                (["--admm", "0"], 64, "--admm: '0' (RHO[,LOCAL_STEPS]"), (["--admm", "1,0"], 64, "--admm: '1,0'"),
                (["--admm", "1;2"], 64, "--admm: '1;2'"), (["--admm", "1,1000001"], 64, "steps: 1..1000000"),
                (["--federated", "clients=x"], 64, "--federated: clients: 'x' (a whole number from 0 to 4096)"),
                (["--federated", "min=2,wait-ms=1e3"], 64, "wait-ms: '1e3' (a whole number from 0 to 86400000)"),
                (["--federated", "wait-ms=86400001"], 64, "wait-ms: '86400001' (a whole number from 0 to 86400000)"),
                (["--federated", "deadline-ms=0x10"], 64, "deadline-ms: '0x10' (a whole number from 0 to 86400000)"),
                (["--federated", "epochs=65536"], 64, "epochs: '65536' (a whole number from 0 to 65535)"),
                (["--federated", "min= 1"], 64, "min: ' 1' (a whole number from 0 to 4096)"),
                (["--federated", "available=-1"], 64, "available: '-1' (a whole number from 0 to 4096)"),
                (["--federated", "seed=1."], 64, "seed: '1.' (a whole number from 0 to 4294967295)"),
                (["--federated", "mu=-1"], 64, "--federated: 'mu=-1' is not"),
                (["--federated", "wait=1"], 64, "--federated: 'wait=1' is not"),
                (["--federated", "clients"], 64, "--federated: 'clients' is not"),
                (["--federated", "x" * 200], 64, "--federated: longer than 199 bytes"),
                (["--filter-block", "2"], 64, "filter-block, filter-flush: without --filter"),
                (["--local"], 64, "steps"), (["--local", "--steps", "1", "--data", "/nonexistent"], 66, "data"),
                (["--local", "--steps", "1", "--model", "mlp:0"], 64, "model"),
                (["--local", "--steps", "1", "--staleness", "adadelay:-1"], 64, "--staleness: 'adadelay:-1' (const"),
                (["--local", "--steps", "1", "--compute-schedule", "/nonexistent"], 66, "schedule")):
            done = self.train(*wrong)
            self.assertEqual(done.returncode, status, (wrong, done.stderr))
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
        done = self.train("--local", HEDDLE_GRACE="3601")
        self.assertEqual(done.returncode, 64)
        self.assertIn("HEDDLE_GRACE: '3601' (a number from 0 to 3600)", done.stderr)

    def test_bad_input_as_json(self):
        """Errors in options behind --log-json are printed as JSON already."""
        done = self.train("--log-json", "--batch", "0")
        self.assertEqual(done.returncode, 64)
        line = json.loads(done.stderr)
        self.assertEqual((line["event"], line["level"]), ("failed", "error"))
        self.assertEqual(line["message"], "--batch: '0' (a whole number from 1 to 65536)")

    def test_help_and_version(self):
        done = self.train("--version", "--nonsense")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^heddle-train \d+\.\d+\.\d+\S*\n$")
        done = self.train("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("usage: heddle-train "))
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 120], [])
        names = re.findall(r"^  --([a-z-]+)(?: \S+)?  +\S", done.stdout, re.MULTILINE)
        self.assertEqual(sorted(names), sorted(
            "data write-data federated straggling client-labels model batch lr momentum weight-decay tau-max div-max "
            "sync bucket-kib check-every wait-ms step-log integrity staleness payload pull-payload filter filter-block "
            "filter-flush local-steps admm seed first-step memory-mb compute-ms compute-schedule inflight synchronous "
            "steps seconds device eval-every join-ms grace shards scale-rate json loss-log log-json local evaluate "
            "quiet every-ms target target-commits help version".split()))


if __name__ == "__main__":
    if not DIGITS.exists():
        print(f"skipped: {DIGITS} is missing (Debian's python3-sklearn)")
        sys.exit(77)
    unittest.main(verbosity=2)
