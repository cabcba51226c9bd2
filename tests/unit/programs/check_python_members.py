#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's process group with members that change: one of three processes is killed, the others go on with the same
model; a newcomer joins them; one of them leaves. By torchft's configure(), and by PyTorch's reconfigure() where it has
one. In the end all have the model that one process computes from the same batches.

usage: check_python_members.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from datetime import timedelta

from processes import Program, check, run, until, write_keys

CONTROLLER, LIBRARY, PACKAGE = sys.argv[1:4]
SCRIPT = pathlib.Path(__file__).parent / "python_members.py"
EACH, NEW, PATIENCE_S = 6, 3, 300  # steps with each set of members; the newcomer; against a hang
TOLERANCE = 1e-5


class Story:
    """A coordinator, which says who the members are, and the processes."""

    def __init__(self, where, how, **env):
        import torch.distributed as dist
        self.how, self.plans, self.where, self.running, self.fails, self.is_in = how, 0, where, {}, False, False
        self.store = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=PATIENCE_S), wait_for_workers=False)
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "HEDDLE_LIBRARY": LIBRARY,
                    "PYTHONPATH": PACKAGE, "HEDDLE_CONTROLLER_PROGRAM": CONTROLLER, "HEDDLE_BIND": "127.0.0.1",
                    "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "RESULT": f"{where}/{how}-",
                    "COORDINATOR": f"127.0.0.1:{self.store.port}", **env}

    def start(self, *which):
        for who in which:
            self.running[who] = subprocess.Popen(
                [sys.executable, SCRIPT, self.how, str(who)], env={**self.env, "FIRST": str(self.plans)}, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def plan(self, members, dies=None):
        """Returns the steps before and after it, which are the same for all that are left."""
        number, self.plans = self.plans, self.plans + 1
        self.store.set(f"plan/{number}", json.dumps({"members": members, "until": EACH * self.plans, "dies": dies,
                                                     "again": self.fails or NEW in self.running and not self.is_in}))
        self.fails, self.is_in = dies is not None, NEW in members
        left = [who for who in members if who != dies]
        until(lambda: self.are_done(number, left), f"set {number} of members", PATIENCE_S)
        said = [json.loads(self.store.get(f"done/{number}/{who}")) for who in left]
        if dies is None:
            check(len({digest for _, _, digest in said}) <= 1, f"equal models: {said}")
        check(len({first for first, _, _ in said}) <= 1, f"equal steps: {said}")
        return (said[0][0], max(last for _, last, _ in said)) if said else None

    def are_done(self, number, left):
        """Whether these processes have said so; they must run."""
        if self.store.add(f"done/{number}", 0) == len(left):
            return True
        if any(self.running[who].poll() is not None for who in left):
            check(False, f"set {number} of members\n{self.end()}")
        return False

    def end(self):
        """The output of each that has ended well, or has failed; the rest is killed."""
        outputs = {}
        for who, process in self.running.items():
            try:
                outputs[who] = (process.communicate(timeout=5)[0], process.returncode)
            except subprocess.TimeoutExpired:
                process.kill()
                outputs[who] = (process.communicate()[0], "no end")
        return outputs


def tell(where, how, dies, **env):
    story, steps = Story(where, how, **env), []
    try:
        story.start(0, 1, 2)
        left = [who for who in range(3) if who != dies]
        for members, gone in (([0, 1, 2], dies), (left, None), ([left[1], NEW, left[0]], None), ([NEW, left[1]], None)):
            if NEW in members and NEW not in story.running:
                story.start(NEW)
            first, last = story.plan(members, gone)
            check(first == len(steps), f"{first} is not {len(steps)}")
            steps += [members] * (last - first)
        check(len(steps) == 4 * EACH, f"steps: {steps}")
        story.plan([])
    finally:
        outputs = story.end()
    for who, (output, code) in outputs.items():
        check(code == (-9 if who == dies else 0), f"{how}: process {who}: {code}\n{output}\n{outputs}")
    compare(story, steps, [left[1], NEW])


def compare(story, steps, which):
    import torch
    done = run(sys.executable, SCRIPT, "alone", json.dumps(steps), env=story.env, timeout=PATIENCE_S)
    check(done.returncode == 0, done.stderr)
    alone, *found = [torch.load(f"{story.env['RESULT']}{who}") for who in ("alone", *which)]
    check(all(torch.equal(one, found[0]) for one in found), "bit-equal models")
    worst = float((found[0] - alone).abs().max())
    check(worst <= TOLERANCE, f"{worst} from the model of one process")
    print(f"{story.how}: {len(steps)} steps, {worst:.1e} from the model of one process", flush=True)


def main():
    if importlib.util.find_spec("torch") is None:
        print("skip: PyTorch is not installed (python3-torch)")
        sys.exit(77)
    import torch.distributed as dist
    ways = ["configure"] + ["reconfigure"] * hasattr(dist.distributed_c10d, "_reconfigure")
    with tempfile.TemporaryDirectory() as where:
        keys = write_keys(where)
        for how in ways:
            for dies in (1, 0):  # 0: rank 0, and the controller that it has started
                tell(where, how, dies)
            controller = Program(CONTROLLER, "--listen", "127.0.0.1:0", "--key-file", keys, "--state-dir", where)
            tell(where, how, 0, HEDDLE_CONTROLLER=controller.address, HEDDLE_KEY_FILE=keys)
            controller.stop()


main()
