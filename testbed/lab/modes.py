# SPDX-License-Identifier: BSD-3-Clause
"""The four modes: the programs on each host, with their arguments.

    unscheduled   heddle-controller --unscheduled: every worker sends at any time, same congestion control
    tcp-ps        the plain TCP parameter server
    scheduled     the controller orders every transfer
    aggregated    and heddle-aggregator, on the scenario's hosts for it, adds updates and relays models; or the
                  switches do (bmv2), each with an agent
"""
import json
import os
import pathlib
import secrets
import shlex
import subprocess
import sys

MODES = ("unscheduled", "tcp-ps", "scheduled", "aggregated")
SCHEDULED = ("scheduled", "aggregated")
HEDDLE = ("unscheduled", *SCHEDULED)
BRIDGE = pathlib.Path(__file__).resolve().parent / "bmv2_bridge.py"
AGGREGATOR_MEMORY = "256M"
KEEP_MB = "64"  # of a worker's applied updates, for the replica
CHECKPOINT_COMMITS = "4"  # between checkpoints: fewer than workers have in flight
OBSERVE_MS = 250  # between two evaluations
STALENESS = {"constant": "constant", "inverse-sqrt": "inv-sqrt", "adadelay": "adadelay"}


class Programs:
    """Finds the built programs."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.paths = {p.name: str(p) for p in sorted(self.build.glob("**/heddle*"))
                      if p.is_file() and os.access(p, os.X_OK) and p.suffix == "" and self.is_ours(p)}

    def is_ours(self, path):
        """Not those of another build within this one."""
        return not any((folder / "build.ninja").exists() for folder in path.parents
                       if folder.is_relative_to(self.build) and folder != self.build)

    def __getitem__(self, name):
        if name not in self.paths:
            raise FileNotFoundError(f"{name} is not built in {self.build}")
        return self.paths[name]


def drivers(programs):
    """The drivers of this build, the demo's choice first. Without a port the program refuses with a reason."""
    done = subprocess.run([programs["heddle-controller"], "--driver", "dpdk", "--key-file", "/dev/stdin"],
                          input=f"1 {secrets.token_hex(32)}\n", capture_output=True, text=True)
    return ["dpdk", "udp"] if "port: missing" in done.stderr else ["udp"]


def model_of(job):
    return job["model"] if job["model"] == "softmax" else "mlp:" + ",".join(map(str, job["hidden"]))


class Plan:
    """The programs of one run: `infrastructure` first, then one worker for each rank."""

    gate = False  # whether workers wait for each other before their first step
    watcher = "observer"  # its output has the evaluations
    gradients = 1  # for each update

    def __init__(self, programs, net, scenario, mode, seed, learning_rate, directory):
        self.programs = programs
        self.network = net
        self.scenario = scenario
        self.mode = mode
        self.seed = seed
        self.learning_rate = learning_rate
        self.directory = pathlib.Path(directory)
        self.keys = self.directory / "keys"
        self.keys.write_text(f"1 {secrets.token_hex(32)}\n")
        self.keys.chmod(0o600)
        self.topology = self.directory / "topology.json"
        self.topology.write_text(json.dumps(net.topology()))
        self.lives = {}  # processes of each node so far, each with a log of its own

    def events(self, node):
        return self.directory / f"events-{node}.jsonl"

    def events_of_life(self, node):
        life = self.lives[node] = self.lives.get(node, 0) + 1
        return self.events(node if life == 1 else f"{node}-{life}")

    def driver(self, name):
        """The arguments that select a node's driver."""
        if self.network.driver != "dpdk":
            return ["--listen", self.network.ip(name)]
        return ["--driver", "dpdk", "--port", "net_af_packet0,iface=fab1",
                "--address", f"{self.network.node_ip(name)}/16"]

    def infrastructure(self):
        """[(name, host, command)] in the order to start them."""
        if self.mode == "tcp-ps":
            job = self.scenario["job"]
            return [("ps", "ps", [
                self.programs["heddle-tcp-ps"], "--serve", "--address", self.network.ip("ps"), *self.job_words(),
                "--lr", str(self.learning_rate), "--momentum", str(job["momentum"]),
                "--weight-decay", str(job["weight_decay"]),
                "--name", "ps", "--events", str(self.events("ps"))])]
        return [self.node(name) for name in ("ctl", *self.network.servers, *self.aggregators(), *self.agents())]

    def node(self, name):
        """(name, host, command) of a node's next process."""
        if name == "ctl":
            command = [self.programs["heddle-controller"], *self.driver(name), "--topology", str(self.topology)]
            command += ["--unscheduled"] if self.mode == "unscheduled" else []
            every = self.scenario["replicate_every"]
            command += ["--replicate-every", str(every)] if every else []
            # The next process must know that it is one.
            command += ["--state-dir", str(self.directory)] if self.scenario["nodes_events"] else []
        elif name in self.agents():
            return name, name, self.agent(name)
        else:
            program = "heddle-server" if name in self.network.servers else "heddle-aggregator"
            command = [self.programs[program], *self.driver(name), "--controller", self.network.node_ip("ctl"),
                       "--host", name]
            command += ["--replica"] if name == "rp" else []
            command += ["--never-alone"] if program == "heddle-server" and self.scenario["never_alone"] else []
            if program == "heddle-server" and self.scenario["replica"]:
                command += ["--checkpoint-dir", str(self.disk(name)), "--checkpoint-commits", CHECKPOINT_COMMITS]
            command += ["--memory", AGGREGATOR_MEMORY] if program == "heddle-aggregator" else []
        return name, name, [*command, "--key-file", str(self.keys), "--events", str(self.events_of_life(name))]

    def agents(self):
        """The hosts of agents of adding switches; like aggregators, only in mode aggregated."""
        return list(self.network.agents.values()) if self.mode == "aggregated" else []

    def watch_switches(self):
        """Starts a bmv2 that has ended, where no agent does."""
        if not self.agents():
            self.network.watch_switches()

    def agent(self, name):
        """The command of a switch's agent: on a kernel socket, whatever the driver."""
        switch = next(switch for switch, agent in self.network.agents.items() if agent == name)
        setting = self.directory / f"bmv2-{switch}.json"
        setting.write_text(json.dumps(self.network.bridge_setting(switch)))
        bridge = shlex.join([sys.executable, str(BRIDGE), str(setting)])
        return [self.programs["heddle-switch-agent"], "--bridge", bridge, "--listen", self.network.ip(name),
                "--controller", self.network.node_ip("ctl"), "--host", switch, "--key-file", str(self.keys),
                "--events", str(self.events_of_life(name))]

    def disk(self, name):
        """The directory of a server's checkpoints, kept over restarts."""
        path = self.directory / f"{name}-disk"
        path.mkdir(exist_ok=True)
        return path

    def aggregators(self):
        """Other modes have no aggregators."""
        return self.network.aggregators if self.mode == "aggregated" else []

    def monitors(self):
        """[(name, host, command)] of the link monitors, if the scenario wants them and the build has them."""
        if self.mode not in SCHEDULED or not self.scenario["monitors"]:
            return []
        hosts = ["ps", *(f"h{rank + 1}" for rank in range(self.scenario["workers"]))]
        return [(f"monitor-{host}", host, [
            self.programs["heddle-monitor"], "--host", host, "--interface", f"{host}-eth0",
            "--controller", self.network.node_ip("ctl"), "--key-file", str(self.keys)]) for host in hosts]

    def job_words(self):
        job = self.scenario["job"]
        return ["--model", model_of(job), "--batch", str(job["batch"]), "--seed", str(self.seed)]

    def member(self, name, host, rank, words, events):
        """(host, command, environment) of a process of the job."""
        job = self.scenario["job"]
        if self.mode == "tcp-ps":
            return host, [
                self.programs["heddle-tcp-ps"], "--address", self.network.ip("ps"), *self.job_words(), *words,
                "--rank", str(rank), "--world", str(self.scenario["workers"]),
                "--name", name, "--events", str(events)], {}
        environment = {
            "HEDDLE_CONTROLLER": self.network.node_ip("ctl"), "HEDDLE_KEY_FILE": str(self.keys),
            "HEDDLE_JOB": self.scenario["name"], "HEDDLE_TENANT": "demo", "HEDDLE_RANK": str(rank),
            "HEDDLE_WORLD_SIZE": str(self.scenario["workers"]), "HEDDLE_HOST": host,
            "HEDDLE_BIND": self.network.ip(host), "HEDDLE_EVENTS": str(events)}
        if self.scenario["replica"]:
            environment["HEDDLE_KEEP_MB"] = KEEP_MB
        return host, [
            self.programs["heddle-train"], *self.job_words(), *words,
            "--lr", str(self.learning_rate), "--momentum", str(job["momentum"]),
            "--weight-decay", str(job["weight_decay"]), "--tau-max", str(job["tau_max"]),
            "--sync", job["sync"],
            "--div-max", str(self.scenario["div_max"]),
            "--payload", job["payload"], "--pull-payload", job["pull_payload"],
            "--staleness", f"{STALENESS[job['staleness']['rule']]}:{job['staleness']['c']}"], environment

    def worker(self, rank, schedule, life):
        """(host, command, environment) of a worker's nth process."""
        words = ["--compute-ms", str(self.scenario["job"]["compute_ms"]), "--compute-schedule", str(schedule)]
        if self.mode != "tcp-ps":
            words += ["--synchronous", "--quiet"]  # as the TCP worker: pull, compute, push, wait
        return self.member(f"w{rank}", f"h{rank + 1}", rank, words, self.events(f"w{rank}-{life}"))

    def observer(self, host="ps"):
        """The same for the observer: it is on the server's host, so that its pulls cross no link."""
        words = ["--observe-ms" if self.mode == "tcp-ps" else "--every-ms", str(OBSERVE_MS)]
        if self.mode != "tcp-ps":
            words.append("--evaluate")
        host, command, environment = self.member("observer", host, self.scenario["workers"], words,
                                                 self.directory / "observer.jsonl")
        environment = {key: value for key, value in environment.items() if key != "HEDDLE_EVENTS"}
        return host, command, environment

    def heddlectl(self, table, of=None):
        """The command that shows a table of the controller, or of a switch's agent on host `of`."""
        return [*self.network.enter("ctl"), self.programs["heddlectl"], "--controller",
                self.network.ip(of) if of else self.network.node_ip("ctl"), "--key-file", str(self.keys), "show", table,
                "--json"]
