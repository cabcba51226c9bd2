# SPDX-License-Identifier: BSD-3-Clause
"""A user's program around a bmv2 switch: testbed/bmv2's command line, and the programs in the namespaces.

    h1 --+                 ctl    the controller
    h2 --+-- s1 (bmv2) ----+
    ..   |    \\            ps     a server, for programs that push and pull
    hN --+     sa1: the switch's agent

On each of h1 .. hN the program runs as one rank of a job, with the environment that heddle-run would give it.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from . import bmv2, command, inside, modes, network, sandbox, scenario

HELP = """Runs PROGRAM on each of several emulated hosts (Mininet) around a bmv2 switch, as the ranks of one job: a
controller leases the switch's slots to it, and the switch adds up what it all-reduces. Needs root and bmv2
(docs/switch.md says how to get it)."""
READY_S, END_S = 30.0, 5.0
SWITCH_AGENT = "sa1"


class AroundError(Exception):
    pass


def parse(words):
    mine, program = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    parser = command.Parser("bmv2", prog="testbed/bmv2", description=HELP,
                            usage="testbed/bmv2 [OPTIONS] -- PROGRAM [ARGUMENT]...")
    parser.add_argument("--hosts", type=command.within(1, 64), default=4, metavar="N", help="how many ranks (4)")
    parser.add_argument("--mbps", type=command.within(1, 1000), default=20, metavar="N",
                        help="each host's link; bmv2 takes some 30,000 packets a second of all (20)")
    parser.add_argument("--job", default="own", metavar="NAME", help="of the job (own)")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and events of the nodes")
    parser.add_argument("--build", default="build/gcc", help=argparse.SUPPRESS)
    options = vars(parser.parse_args(mine))
    if not program:
        parser.error("-- PROGRAM: missing")
    found = shutil.which(program[0])
    if not found:
        parser.error(f"{program[0]}: not found, or not executable")
    options["program"] = [os.path.abspath(found), *program[1:]]
    return options


# --- inside ---------------------------------------------------------------------------------------


def setting_of(options, folder):
    path = folder / "setting.json"
    path.write_text(json.dumps({
        "name": options["job"], "about": "a program around bmv2", "seed": 1, "workers": options["hosts"],
        "link_mbps": options["mbps"], "duration_s": 1, "switches": "bmv2", "job": {"model": "softmax"}}))
    return scenario.load(str(path))


class Around:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        setting = setting_of(options, folder)
        self.net = network.Network(setting)
        self.plan = modes.Plan(modes.Programs(options["build"]), self.net, setting, "aggregated", 1, 0, folder)
        self.nodes = []
        self.ranks = []
        self.failed = 0  # the status of the first rank that failed
        self.lock = threading.Lock()

    def start_node(self, name):
        _, host, words = self.plan.node(name)
        path = self.folder / f"{name}.log"
        with open(path, "wb") as log:
            process = subprocess.Popen([*self.net.enter(host), *words], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT,
                                       env={**os.environ, "RUNTIME_DIRECTORY": str(self.folder)})
        self.nodes.append(process)
        ends = time.monotonic() + READY_S
        while not any(word in path.read_text() for word in ("ready", "listening")):
            if process.poll() is not None or time.monotonic() > ends:
                raise AroundError(f"{name}: {path.read_text().strip()[-400:] or 'not ready'}")
            time.sleep(0.02)

    def rows(self, table, of=None):
        done = subprocess.run(self.plan.heddlectl(table, of), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        return json.loads(done.stdout)["rows"] if done.returncode == 0 else []

    def start_nodes(self):
        for name in ("ctl", "ps", SWITCH_AGENT):
            self.start_node(name)
        ends = time.monotonic() + READY_S
        while not self.rows("switches"):
            if time.monotonic() > ends:
                raise AroundError("the controller has no switch")
            time.sleep(0.05)

    def relay(self, rank, process):
        """Prints a rank's lines, each with its rank before it."""
        for line in process.stdout:
            with self.lock:
                sys.stdout.write(f"[{rank}] {line if line.endswith(chr(10)) else line + chr(10)}")
                sys.stdout.flush()
        status = process.wait()
        with self.lock:
            failed = status != 0 and self.failed == 0
            if failed:
                self.failed = status if status > 0 else 128 - status
        if failed:
            for other in self.ranks:
                other.terminate()

    def environment(self, rank):
        host = f"h{rank + 1}"
        return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                "HEDDLE_CONTROLLER": self.net.node_ip("ctl"), "HEDDLE_KEY_FILE": str(self.plan.keys),
                "HEDDLE_JOB": self.options["job"], "HEDDLE_RANK": str(rank),
                "HEDDLE_WORLD_SIZE": str(self.options["hosts"]), "HEDDLE_HOST": host, "HEDDLE_BIND": self.net.ip(host)}

    def run(self):
        """Runs the ranks. Returns the first failed rank's status, or 0."""
        for rank in range(self.options["hosts"]):
            self.ranks.append(subprocess.Popen(
                [*self.net.enter(f"h{rank + 1}"), *self.options["program"]], stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", env=self.environment(rank)))
        readers = [threading.Thread(target=self.relay, args=pair) for pair in enumerate(self.ranks)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return self.failed

    def tell(self):
        """Prints the switch's counters, and the number of rounds that went through it."""
        switch = next(iter(self.rows("switch", SWITCH_AGENT)), {})
        rounds = {row["counter"]: row["value"] for row in self.rows("counters")}
        counted = ", ".join(f"{name} {switch[name]}" for name in bmv2.counter_names() if switch.get(name))
        print(f"bmv2: {rounds.get('reduces_switched', 0)} rounds through the switch, of {rounds.get('reduces', 0)}; "
              f"{counted or 'it counted nothing'}", flush=True)

    def end(self):
        for process in reversed(self.nodes):
            process.terminate()
        for process in self.nodes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.net.close()


def inner(options, base):
    inside.prepare(base)
    around = None
    try:
        around = Around(options, base)
        around.start_nodes()
        status = around.run()
        around.tell()
        return status
    except (AroundError, FileNotFoundError, bmv2.CommandFailed, subprocess.CalledProcessError) as error:
        print(f"bmv2: {error}", file=sys.stderr)
        return command.EX_SOFTWARE
    finally:
        if around:
            around.end()
        if options["keep"]:
            shutil.copytree(base, options["keep"], dirs_exist_ok=True)


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inner(json.loads(sys.argv[2]), pathlib.Path(sys.argv[3]))
    options = parse(sys.argv[1:])
    why = sandbox.possible() or bmv2.missing()
    if why:
        print(f"bmv2: {why}", file=sys.stderr)
        return command.EX_UNAVAILABLE
    for field in ("keep", "build"):
        options[field] = os.path.abspath(options[field]) if options[field] else None
    used = [os.getcwd(), options["program"][0], options["build"], options["keep"] or __file__, __file__]
    return sandbox.run([sys.executable, "-m", "lab.around", "--inside", json.dumps(options)], used)


if __name__ == "__main__":
    sys.exit(main())
