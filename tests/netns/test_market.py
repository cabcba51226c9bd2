#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The market: prices, bids, what is paid, the hooks and the launcher; what a wrong scenario is told; and a short run in
which machines come and go with the price.

usage: test_market.py BUILD_DIR"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import market_money
import pen

from lab.scenario import ScenarioError
from market import hooks, owner, price, report, setting, strategy

MARKET = pen.ROOT / "testbed/market"
DETECTION_S = 1.0
SLACK_S = 1.0  # of a busy machine
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
QUICK = json.loads((MARKET / "scenarios/quick.json").read_text())
UNIFORM = {"kind": "uniform", "low": 0.2, "high": 1.0}


def loaded(folder=MARKET, **changes):
    return setting.parse(json.dumps({**copy.deepcopy(QUICK), "price": UNIFORM, **changes}), "test.json", folder)


class Scenarios(unittest.TestCase):
    def wrong(self, *words, folder=MARKET, **changes):
        with self.assertRaises(ScenarioError) as caught:
            loaded(folder, **changes)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_shipped(self):
        for path in sorted((MARKET / "scenarios").glob("*.json")):
            self.assertEqual(setting.load(path.stem)["name"], path.stem)

    def test_wrong(self):
        one = {"kind": "one-bid", "n": 2, "bid": 0.19}
        two = {"kind": "two-bid", "n": 2, "n_high": 2, "high": 0.9, "low": 0.5}
        self.wrong("strategies[0].bid", "0.19 is below the market's minimum 0.2", strategies=[one])
        self.wrong("strategies[0].n_high", "2 is not below n", strategies=[two])
        self.wrong("strategies[0].low", "0.95 is above high", strategies=[{**two, "n": 3, "low": 0.95}])
        self.wrong("strategies", "there is none", strategies=[])
        self.wrong("strategies[1].name", "twice", strategies=[{**one, "bid": 0.5}] * 2)
        self.wrong("price", "low: 1.0 is not below high", price={"kind": "uniform", "low": 1.0, "high": 0.5})
        self.wrong("price.kind", "uniform, gaussian, constant, trace", price={"kind": "auction"})
        self.wrong("notice_s", "0 (none) or at least 0.3", notice_s=0.1)
        self.wrong("bribe", "unknown field", bribe=3)

    def test_wrong_numbers(self):
        """Fewer than one worker, numbers that are missing, or there twice; prices that cannot be."""
        one = {"kind": "one-bid", "n": 2, "bid": 0.5}
        self.wrong("strategies[0].n", "0 is outside 1..64", strategies=[{**one, "n": 0}])
        self.wrong("strategies[0].n", "must be a whole number", strategies=[{**one, "n": 1.5}])
        self.wrong("strategies[0].n", "65 is outside 1..64", strategies=[{**one, "n": 65}])
        self.wrong("strategies[0].bid", "is missing (or plan)", strategies=[{"kind": "one-bid", "n": 2}])
        self.wrong("strategies[0].n", "is what plan finds", strategies=[{**one, "plan": "epsilon=0.8"}])
        self.wrong("strategies[0].plan", "KEY=VALUE", strategies=[{"kind": "one-bid", "plan": "cheap"}])
        self.wrong("strategies[0].available", "0 is outside 0.01..1",
                   strategies=[{"kind": "preemptible", "n": 2, "available": 0, "price": 0.3}])
        self.wrong("strategies[1].low", "0.1 is below the market's minimum 0.2", strategies=[
            one, {"kind": "two-bid", "n": 3, "n_high": 1, "high": 0.5, "low": 0.1}])
        self.wrong("price", "mean: 0.9 is outside low..high",
                   price={"kind": "gaussian", "mean": 0.9, "sd": 0.1, "low": 0.2, "high": 0.8})
        self.wrong("price.price", "is outside", price={"kind": "constant", "price": 0})
        self.wrong("job.link_mbps", "0 is outside", job={"link_mbps": 0})

    def test_wrong_owner(self):
        owner = {"kind": "owner", "n": 2, "n_max": 3, "set": "policy=manual n=2"}
        self.wrong("strategies[0].set", "has no policy=NAME", strategies=[{**owner, "set": "n=2"}])
        self.wrong("strategies[0].set", "is missing", strategies=[{"kind": "owner", "n": 2, "n_max": 3}])
        self.wrong("strategies[0].n", "4 is above n_max (3)", strategies=[{**owner, "n": 4}])
        self.wrong("strategies[0].n", "0 is outside 1..64", strategies=[{**owner, "n": 0}])
        self.wrong("strategies[0].available", "and price: both", strategies=[{**owner, "price": 0.3}])
        self.assertEqual(loaded(strategies=[owner])["strategies"][0]["name"], "owner")

    def test_plan(self):
        """Bids and counts are heddlectl's; a plan that meets nothing says which bound fails."""
        if BUILD is None:
            self.skipTest("no build")
        words = "a=2.3 b=0.02 beta=0.995 step_s=0.5 epsilon=0.8 deadline="
        bids = loaded(strategies=[
            {"kind": "one-bid", "plan": words + "1000"}, {"kind": "two-bid", "plan": words + "1000"},
            {"kind": "preemptible", "plan": words + "1000", "available": 0.8, "price": 0.1}])
        program = str(BUILD / "controller/heddlectl")
        one, two, there = (owner.plan(program, bids, chosen) for chosen in bids["strategies"])
        said = subprocess.run([program, "elastic", "plan", *words.split()[:-1], "deadline=1000", "price=uniform:0.2:1",
                               "price_s=36", "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        rows = {row["policy"]: row for row in json.loads(said.stdout)["rows"]}
        self.assertEqual((one["n"], one["bid"]), (rows["one-bid"]["workers"], rows["one-bid"]["bid"]))
        self.assertEqual((two["n"], two["n_high"], two["high"], two["low"]),
                         tuple(rows["two-bid"][key] for key in ("workers", "workers_high", "bid", "bid_low")))
        self.assertTrue(0.2 < two["low"] < two["high"] < 1)
        self.assertGreaterEqual(there["n"], 1)
        with self.assertRaisesRegex(owner.OwnerError, "plan of one-bid: deadline: .* too many"):
            owner.plan(program, bids, {"kind": "one-bid", "plan": words + "10"})
        with self.assertRaisesRegex(owner.OwnerError, "beta"):
            owner.plan(program, bids, {"kind": "one-bid", "plan": "a=1 b=1 beta=2 step_s=1 epsilon=0.5 deadline=9"})

    def test_traces(self):
        with tempfile.TemporaryDirectory(prefix="heddle-market-") as folder:
            path = pathlib.Path(folder) / "t.csv"
            trace = {"kind": "trace", "file": "t.csv"}
            self.wrong("price", "t.csv: No such file", folder=folder, price=trace)
            for text, *words in (
                    ("", "t.csv: has no prices"), ("seconds,price\n", "has no prices"),
                    ("0,1\n5,2\n5,3\n", "line 3", "5 s is not after"), ("0,1\n9,2\n8,3\n", "line 3", "not after"),
                    ("0,0\n", "line 1", "above 0"), ("0,nan\n", "line 1", "above 0"), ("0,1\n1\n", "line 2")):
                path.write_text(text)
                self.wrong("price", *words, folder=folder, price=trace)
            path.write_text("time,price\n100,0.4\n103,0.9\n")
            good = loaded(folder, price={**trace, "speed": 2}, strategies=[{"kind": "one-bid", "n": 1, "bid": 0.5}])
            self.assertEqual(price.slots(good["price"], 1, 1.0, 3.0), [0.4, 0.4, 0.9, 0.9])
            self.wrong("strategies[0].bid", "minimum 0.4", folder=folder, price=trace,
                       strategies=[{"kind": "one-bid", "n": 1, "bid": 0.3}])

    def test_draws(self):
        """The same for every strategy of a seed; a truncated Gaussian stays within its bounds, and has its mean."""
        gauss = loaded(price={"kind": "gaussian", "mean": 0.6, "sd": 0.175, "low": 0.2, "high": 1.0})["price"]
        drawn = price.slots(gauss, 3, 1, 20000)
        self.assertEqual(drawn[:9], price.slots(gauss, 3, 1, 8))
        self.assertTrue(all(0.2 <= p <= 1 for p in drawn))
        below = [p for p in drawn if p <= 0.5]
        self.assertAlmostEqual(len(below) / len(drawn), 0.2789311637, delta=0.02)  # F(.5)
        uniform = price.slots(loaded()["price"], 3, 1, 20000)
        below = [p for p in uniform if p <= 0.6]
        self.assertAlmostEqual(sum(below) / len(below), 0.4, delta=0.01)  # E[p | p <= .6]


class Accounts(unittest.TestCase):
    def account(self, prices, **fields):
        chosen = strategy.Strategy({"name": "x", "n": 3, **fields}, 1)
        return strategy.Account(chosen, prices, 2.0, 36.0)

    def test_cost(self):
        """A machine pays each slot's price for the time it has it, never more than its bid, until it is gone."""
        account = self.account([0.2, 0.8, 0.4], kind="one-bid", bid=0.5)
        account.begin(0, 1.0)
        account.end(0, 2.5)  # half a second of notice in a slot that is too dear
        account.begin(0, 4.0)
        self.assertAlmostEqual(account.cost(2.5), (1.0 * 0.2 + 0.5 * 0.5) / 36)
        self.assertAlmostEqual(account.cost(5.0), (1.0 * 0.2 + 0.5 * 0.5 + 1.0 * 0.4) / 36)
        self.assertAlmostEqual(account.cost(100), (1.0 * 0.2 + 0.5 * 0.5 + 96.0 * 0.4) / 36)  # the last price holds
        self.assertAlmostEqual(account.worker_s(5.0), 2.5)
        self.assertEqual([account.workers_at(t) for t in (0.5, 2, 3, 4.5)], [0, 1, 0, 1])
        always = self.account([0.2, 0.8], kind="uninterrupted")
        always.begin(2, 0.0)
        self.assertAlmostEqual(always.cost(4.0), (2 * 0.2 + 2 * 0.8) / 36)

    def test_ranks(self):
        two = strategy.Strategy({"kind": "two-bid", "n": 4, "n_high": 1, "high": 0.9, "low": 0.5}, 1)
        self.assertEqual([two.ranks(0, p) for p in (0.5, 0.51, 0.9, 0.91)], [{0, 1, 2, 3}, {0}, {0}, set()])
        owned = strategy.Strategy({"kind": "owner", "n": 2, "n_max": 5, "available": 1.0, "price": 0.3}, 1)
        self.assertEqual([len(owned.ranks(0, 1, target)) for target in (2, 5, 9)], [2, 5, 5])
        some = strategy.Strategy({"kind": "preemptible", "n": 50, "available": 0.8, "price": 0.3}, 7)
        there = [len(some.ranks(slot, 1)) for slot in range(200)]
        self.assertAlmostEqual(sum(there) / 200 / 50, 0.8, delta=0.02)
        self.assertEqual(some.ranks(3, 1), some.ranks(3, 0.2))

    def test_table(self):
        """Ratios are of runs of the same seed that have their accuracy."""
        def run(name, seed, cost, reached=True):
            return {"strategy": name, "kind": name, "seed": seed, "cost": cost, "reached": reached}
        records = [run("uninterrupted", 1, 2.0), run("uninterrupted", 2, 4.0), run("one-bid", 1, 1.0),
                   run("one-bid", 2, 3.0), run("one-bid", 3, 9.0), run("uninterrupted", 3, 1.0, False)]
        self.assertEqual(report.ratios(records, "one-bid", "cost"), [0.5, 0.75])


class Owners(unittest.TestCase):
    """A controller that does not answer now and then, or never: heddlectl as a script that counts its calls."""
    ANSWER = json.dumps({"rows": [{"job": "j", "workers": 2, "target": 2}]})

    def owner_of(self, busy):
        """`busy`: what it does instead of an answer, by the number of the call."""
        folder = tempfile.TemporaryDirectory(prefix="heddle-owner-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        ctl = self.path / "heddlectl"
        ctl.write_text(f"#!/bin/sh\ncd {folder.name}\necho \"$*\" >>calls\ncase $(wc -l <calls) in\n"
                       + "".join(f"{calls}) {what};;\n" for calls, what in busy.items())
                       + f"esac\n[ $2 != show ] || echo '{self.ANSWER}'\n")
        ctl.chmod(0o755)
        return owner.Owner([str(ctl)], "j", "policy=manual n=2")

    def calls(self):
        return [line.split()[1] for line in (self.path / "calls").read_text().splitlines()]

    def test_asks_again(self):
        late = "echo 'heddlectl: no answer within 2 s' >&2; exit 69"
        one = self.owner_of({"1|3|7|9": late})
        self.assertIsNone(one.look())  # no answer
        self.assertIsNone(one.look())  # the policy may not be set
        self.assertEqual((one.is_set, one.missed), (False, 2))
        row = one.look()
        self.assertEqual((row["target"], one.is_set, one.misses), (2, True, 0))
        self.assertFalse(one.price(0.5))
        self.assertTrue(one.price(0.5))
        self.assertIs(one.look(), row)  # what was known holds
        self.assertEqual((one.missed, one.misses), (4, 1))
        self.assertEqual(self.calls(), ["show", "show", "set", "show", "set", "show", "price", "price", "show"])

    def test_hangs(self):
        one = self.owner_of({"1": "exec sleep 30"})
        with unittest.mock.patch.object(owner, "ASK_S", 0.3):
            self.assertIsNone(one.look())
        self.assertEqual(one.missed, 1)
        self.assertEqual(one.look()["target"], 2)

    def test_gives_up(self):
        """A run ends with a message after MISSES_MAX misses, not after one, and at once after another error."""
        one = self.owner_of({"*": "echo 'heddlectl: no answer within 2 s' >&2; exit 69"})
        for _ in range(owner.MISSES_MAX - 1):
            self.assertIsNone(one.look())
        with self.assertRaisesRegex(owner.OwnerError, "no answer within 2 s .elastic show; 5 times one after another"):
            one.look()
        wrong = self.owner_of({"*": "echo 'policy: unknown' >&2; exit 64"})
        with self.assertRaisesRegex(owner.OwnerError, "policy: unknown"):
            wrong.look()
        self.assertEqual(self.calls(), ["show"])


class Fake:
    def __init__(self):
        self.there, self.did = set(), []

    def start(self, rank):
        self.there.add(rank)

    def notice(self, rank, seconds):
        self.did.append((rank, seconds))

    def stop(self, rank):
        self.there.remove(rank)

    def running(self):
        return set(self.there)


class Hooks(unittest.TestCase):
    def test_launcher(self):
        fake = Fake()
        launcher = hooks.Launcher(fake, 2.0, 8)
        self.assertEqual(launcher.keep(3, 0.0), [("start", 0), ("start", 1), ("start", 2)])
        self.assertEqual(launcher.keep(3, 1.0), [])
        self.assertEqual(launcher.keep(1, 2.0), [("notice", 2), ("notice", 1)])
        self.assertEqual(launcher.keep(1, 3.9), [])
        fake.there.remove(2)  # left in time
        self.assertEqual(launcher.keep(1, 4.0), [("stop", 1)])
        self.assertEqual(launcher.keep(1, 5.0), [])
        self.assertEqual(launcher.keep({0, 5}, 5.5), [("start", 5)])
        self.assertEqual(launcher.keep(2, 5.5), [], "present workers stay, whatever their ranks")
        fake.there.clear()  # ended by itself
        self.assertEqual(launcher.keep(1, 6.0), [("start", 0)])
        with self.assertRaisesRegex(hooks.HookError, "target: 9 is outside 0..8"):
            launcher.keep(9, 7.0)

    def test_failed(self):
        """A rank whose machine does not come does not keep other ranks from theirs; another machine is requested."""
        class Broken(Fake):
            def start(self, rank):
                if rank in self.broken:
                    raise hooks.HookError(f"start {rank}: status 1")
                super().start(rank)

            def stop(self, rank):
                if rank in self.broken:
                    raise hooks.HookError(f"stop {rank}: status 1")
                super().stop(rank)

        fake = Broken()
        fake.broken = {0}
        launcher = hooks.Launcher(fake, 1.0, 4, 0.0, 10.0)
        with self.assertRaisesRegex(hooks.HookError, "start 0: status 1") as caught:
            launcher.keep(2, 0.0)
        self.assertEqual((caught.exception.did, fake.there), ([("start", 1)], {1}))
        self.assertEqual(launcher.keep(2, 1.0), [("start", 2)])
        self.assertEqual(launcher.keep(2, 9.0), [])
        fake.broken = {2}
        self.assertEqual(launcher.keep(0, 11.0), [("notice", 2), ("notice", 1)])
        with self.assertRaisesRegex(hooks.HookError, "stop 2: status 1"):
            launcher.keep(0, 12.0)
        self.assertEqual(fake.there, {2})
        fake.broken = set()
        self.assertEqual(launcher.keep(0, 12.1), [("stop", 2)])
        self.assertEqual(launcher.keep(1, 12.2), [("start", 0)], "it is tried again")

    def test_leaving(self):
        """A worker that the owner gave notice may leave in its own time, and none is started in its place."""
        fake = Fake()
        launcher = hooks.Launcher(fake, 2.0, 8)
        launcher.keep(3, 0.0)
        self.assertEqual(launcher.keep(2, 1.0, 1), [])
        fake.there.remove(2)  # it left; the controller does not know yet
        self.assertEqual(launcher.keep(2, 1.1, 1), [])
        fake.there.remove(1)
        self.assertEqual(launcher.keep(2, 1.2, 1), [("start", 1)])

    def test_patience(self):
        """Surplus workers are first left to the owner."""
        fake = Fake()
        launcher = hooks.Launcher(fake, 2.0, 8, 5.0)
        launcher.keep(3, 0.0)
        self.assertEqual(launcher.keep(2, 1.0), [])
        self.assertEqual(launcher.keep(2, 5.9), [])
        fake.there.remove(0)  # it went
        self.assertEqual(launcher.keep(2, 6.5), [])
        self.assertEqual(launcher.keep(1, 7.0), [])
        self.assertEqual(launcher.keep(1, 12.0), [("notice", 2)])

    def test_launch(self):
        """testbed/launch against a heddlectl that says 2, then nothing."""
        with tempfile.TemporaryDirectory(prefix="heddle-launch-") as folder:
            ctl = pathlib.Path(folder) / "heddlectl"
            ctl.write_text("#!/bin/sh\nprintf '{\"rows\": [{\"tenant\": \"t\", \"job\": \"j\", \"target\": %d, "
                           "\"leaving\": 0}]}' \"$(cat " + folder + "/n)\"\n")
            ctl.chmod(0o755)
            (ctl.parent / "n").write_text("2")
            process = subprocess.Popen(
                [str(pen.ROOT / "testbed/launch"), "--job", "j", "--key-file", "none", "--heddlectl", str(ctl),
                 "--start", f"mkdir {folder}/w{{rank}}", "--stop", f"rmdir {folder}/w{{rank}}",
                 "--notice-s", "0.1", "--patience-s", "0", "--every-s", "0.05"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, text=True)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)
            there = lambda: sorted(path.name for path in pathlib.Path(folder).glob("w*"))  # noqa: E731
            pen.until(lambda: there() == ["w0", "w1"], "two workers")
            (ctl.parent / "n").write_text("0")  # no target is reported: all stay
            time.sleep(0.3)
            self.assertEqual(there(), ["w0", "w1"])
            (ctl.parent / "n").write_text("1")
            pen.until(lambda: there() == ["w0"], "one worker")

    def test_commands(self):
        with tempfile.TemporaryDirectory(prefix="heddle-hooks-") as folder:
            made = hooks.Commands(f"mkdir {folder}/w{{rank}}", f"rmdir {folder}/w{{rank}}",
                                  notice=f"touch {folder}/told-{{rank}}-{{seconds}}")
            made.start(3)
            made.notice(3, 29.7)
            self.assertEqual(made.running(), {3})
            self.assertEqual(sorted(os.listdir(folder)), ["told-3-30", "w3"])
            made.stop(3)
            self.assertEqual((made.running(), os.listdir(folder)), (set(), ["told-3-30"]))
            with self.assertRaisesRegex(hooks.HookError, "stop 3: status 1"):
                made.stop(3)
        with self.assertRaisesRegex(hooks.HookError, "start: has no"):
            hooks.Commands("true", "false {rank}")
        listed = hooks.Commands("true {rank}", "true {rank}", listing="printf '4\\n7\\n'")
        self.assertEqual(listed.running(), {4, 7})
        slow = hooks.Commands("sleep 9{rank}", "true {rank}", timeout_s=0.2)
        with self.assertRaisesRegex(hooks.HookError, "start 1: .*timed out"):
            slow.start(1)


class Market(unittest.TestCase):
    """Real workers: prices are such that two of three machines go and come."""

    def test_run(self):
        why = pen.sandbox.possible()
        if why or BUILD is None:
            self.skipTest(why or "no build")
        with tempfile.TemporaryDirectory(prefix="heddle-market-") as folder:
            json_path = pathlib.Path(folder) / "runs.json"
            done = subprocess.run(
                [str(MARKET / "run"), "quick", "--json", str(json_path), "--out", folder],
                stdin=subprocess.DEVNULL, env={**os.environ, "HEDDLE_BUILD": str(BUILD)}, timeout=100)
            self.assertEqual(done.returncode, 0)
            always, two, owned = json.loads(json_path.read_text())
            self.check(always)
            self.check(two)
            self.check_owned(owned)
            self.assertEqual((always["noticed"], always["started"]), (0, 3))
            self.assertGreater(two["noticed"], 0)
            self.assertGreater(two["started"], 3, "no machine came again")
            self.assertEqual(two["noticed"] >= two["left"] + two["killed"], True, two)
            self.in_time(two)
            self.assertLess(two["next_step_mean_s"], DETECTION_S, "with a notice no worker waits for detection")
            pictures = {path.name for path in pathlib.Path(folder).glob("*.png")}
            self.assertEqual(pictures, {
                "quick.png", *(f"quick-{name}.png" for name in ("accuracy-cost", "accuracy-time", "workers"))})
            self.check_shown_again(json_path)

    def test_without_notice(self):
        """Machines that stop without notice: the others' next step comes the detection time and a step later."""
        why = pen.sandbox.possible()
        if why or BUILD is None:
            self.skipTest(why or "no build")
        with tempfile.TemporaryDirectory(prefix="heddle-market-") as folder:
            path = pathlib.Path(folder) / "quick.json"
            path.write_text(json.dumps({**QUICK, "notice_s": 0, "strategies": QUICK["strategies"][1:2]}))
            (path.parent / "quick.csv").write_text((MARKET / "scenarios/quick.csv").read_text())
            done = subprocess.run(
                [str(MARKET / "run"), str(path), "--json", f"{folder}/runs.json", "--out", folder, "--no-pictures"],
                stdin=subprocess.DEVNULL, env={**os.environ, "HEDDLE_BUILD": str(BUILD)}, timeout=100)
            self.assertEqual(done.returncode, 0)
            run = json.loads((path.parent / "runs.json").read_text())[0]
            self.check(run)
            self.assertGreater(run["killed"], 0)
            self.assertEqual((run["noticed"], run["left"]), (0, 0))
            self.in_time(run)

    def check_shown_again(self, path):
        words = [str(MARKET / "run"), "quick", "--no-pictures", "--runs"]
        done = subprocess.run([*words, str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("owned", done.stdout)
        path.write_text('[{"strategy": "x"}]')
        done = subprocess.run([*words, str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (65, ""))
        self.assertIn("runs.json: is not a list of runs", done.stderr)

    def check_owned(self, run):
        """The controller's owner has its bid: 3 workers while the price is below, else the fewest."""
        self.check(run)
        self.assertEqual({target for _, target, _ in run["targets"]}, {1, 3})
        self.assertGreater(run["sent_away"], 0)
        self.assertGreater(run["started"], 3, "no machine came again")
        self.assertEqual((run["killed"], run["leaving_s"] > 0), (0, True))
        self.assertLess(run["leaving_mean_s"], 1, "a surplus worker ends its step and goes, whatever its notice of 3 s")
        self.assertGreater(run["money"], 0)
        self.assertLess(run["money"], market_money.most(run, QUICK["hour_s"]),
                        "it counts workers that take part, not machines that start")

    def in_time(self, run):
        """From a notice or a kill to the next step of those that are left: the detection time and a step at most."""
        step_s = max(QUICK["job"]["compute_ms"] / 1e3, run["time_s"] / run["steps"])
        self.assertGreater(run["next_step_s"], 0)
        self.assertLess(run["next_step_s"], DETECTION_S + step_s + SLACK_S)

    def check(self, run):
        """The cost, added up again from machines and prices."""
        self.assertTrue(run["reached"], run["accuracy"])
        chosen = next(s for s in loaded()["strategies"] if s["name"] == run["strategy"])
        bid = {0: 0.9, 1: 0.5, 2: 0.5} if chosen["kind"] == "two-bid" else dict.fromkeys(range(3), 1.0)
        cost = 0.0
        for machine in run["machines"]:
            ends = min(machine["ended_s"] or run["time_s"], run["time_s"])
            for slot, price_of in enumerate(run["prices"]):
                begun, over = max(machine["begun_s"], slot * 1.5), min(ends, (slot + 1) * 1.5)
                cost += max(0.0, over - begun) / 36 * min(price_of, bid[machine["rank"]])
        self.assertAlmostEqual(cost, run["cost"], places=6)
        costs = [e["cost"] for e in run["curve"]]
        self.assertEqual(costs, sorted(costs))
        self.assertGreater(run["steps"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
