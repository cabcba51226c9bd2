# SPDX-License-Identifier: BSD-3-Clause
"""One run of one mode: starts the programs, changes the network by the scenario, watches, ends."""
import json
import os
import pathlib
import signal
import subprocess
import time

from . import measure, modes, network, scenario as scenarios

CPU_MAX = 0.70  # of the run itself: above, the processors were the limit and not the network: the run is invalid
GRANTED_MIN = 0.80  # of a scheduled run's bytes
UPDATES_MIN = 200  # a target that is reached earlier allows no comparison
SETTLE_S = 5.0  # earlier estimates are not judged: nothing has been measured yet
AFTER_TARGET_S = 5.0  # how long a run continues after it has its accuracy
SHORTEST_S = 20.0
STOP_PATIENCE_S = 5.0
GATE_PATIENCE_S = 120.0
NO_SUM = "no update came in a sum"  # four workers of a --quick run may never wait for each other


class RunError(Exception):
    pass


class Run:
    def __init__(self, programs, net, scenario, options):
        """options: mode, seed, learning_rate, directory, say (function of a line), full (no early end); plan: makes the
        commands (modes.Plan, or a similar class for programs of the comparison)."""
        self.network = net
        self.scenario = scenario
        self.options = options
        self.directory = pathlib.Path(options["directory"])
        self.directory.mkdir(parents=True)
        self.plan = options.get("plan", modes.Plan)(programs, net, scenario, options["mode"], options["seed"],
                                                    options["learning_rate"], self.directory)
        self.links = scenarios.draws(scenario, "links", options["seed"])
        self.compute = scenarios.draws(scenario, "compute", options["seed"])
        self.processes = {}  # name -> (Popen, expected to be running)
        self.leaving = {}  # name -> Popen that was told to leave
        self.preempted = []  # (end of its machine, name, Popen)
        self.overdue = set()  # ranks that were still running then
        self.lives = {}  # rank -> processes so far
        self.evaluations = []
        self.observed = None  # the observer's output, open for reading
        self.samples = []  # (t, [links as heddlectl shows them], {link: truth in payload bit/s})
        self.truth = []  # (t, link, Mbit/s): for the pictures
        self.busy_links = []  # (t, {links that carry a tenant's flows})
        self.problems = []
        self.switches = {}  # adding switch -> its counters
        self.happened = []  # (t, event of a node in the scenario, host)

    def now(self):
        return time.monotonic() - self.t0

    # --- processes ---------------------------------------------------------------------------

    def start(self, name, host, command, environment=None):
        out = open(self.directory / f"{name}.out", "ab")
        process = self.processes[name] = subprocess.Popen(
            [*self.network.enter(host), *command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            cwd=self.directory, env={
                **os.environ, "OPENBLAS_NUM_THREADS": "1", "RUNTIME_DIRECTORY": str(self.directory),
                **(environment or {})})
        out.close()
        return process

    def start_worker(self, rank):
        if f"w{rank}" in self.processes:
            return
        self.reap([f"w{rank}"])
        life = self.lives[rank] = self.lives.get(rank, 0) + 1
        schedule = self.directory / f"compute-w{rank}-{life}"
        now = self.now()  # its schedule counts from its own start
        lines = [(at - now, factors[rank]) for at, factors in self.compute]
        past = [factor for at, factor in lines if at <= 0][-1:]
        lines = [(0.0, factor) for factor in past] + [line for line in lines if line[0] > 0]
        schedule.write_text("".join(f"{at:.3f} {factor:.4f}\n" for at, factor in lines))
        host, command, environment = self.plan.worker(rank, schedule, life)
        notice = self.next_notice(rank, now)
        if notice:
            environment = {**environment, "HEDDLE_GRACE": str(notice)}
        self.start(f"w{rank}", host, command, environment)

    def next_notice(self, rank, after):
        """The seconds of notice that this worker will get; 0: it is not preempted."""
        if self.options["mode"] not in modes.HEDDLE:
            return 0
        events = sorted((e for e in self.scenario["workers_events"] if e["worker"] == rank and e["do"] == "preempt"),
                        key=lambda e: e["at_s"])
        return next((e["notice_s"] for e in events if e["at_s"] >= after), 0)

    def ending(self, name):
        """The signal that ends a process: SIGINT where SIGTERM is a notice of preemption."""
        warned = {f"w{e['worker']}" for e in self.scenario["workers_events"] if e["do"] == "preempt"}
        return signal.SIGINT if name in warned and self.options["mode"] in modes.HEDDLE else signal.SIGTERM

    def kill_worker(self, rank):
        process = self.processes.pop(f"w{rank}", None)
        if process:
            process.kill()
            process.wait()

    def kill_node(self, place):
        """The observer continues with the server's successor, if any."""
        name = network.host_of(place)
        process = self.processes.pop(name, None)
        if process:
            process.kill()
            process.wait()
            self.happened.append((self.now(), "killed", name))
        others = [other for other in self.network.servers if other != name]
        if name not in self.network.servers or not others or self.watched_on != name:
            return
        self.watched_on = others[0]
        observer = self.processes.pop("observer")
        observer.kill()
        observer.wait()
        self.start("observer", *self.plan.observer(self.watched_on))

    def start_node(self, place):
        name = network.host_of(place)
        if name not in self.processes:
            self.start(*self.plan.node(name))
            self.happened.append((self.now(), "started", name))

    def leave_worker(self, rank):
        """The worker ends its transfers in flight and leaves the job; the run continues meanwhile."""
        process = self.processes.pop(f"w{rank}", None)
        if process:
            process.send_signal(self.ending(f"w{rank}"))
            self.leaving[f"w{rank}"] = process

    def preempt_worker(self, rank, notice_s):
        """Its machine is taken away in notice_s: SIGTERM now, as clouds send it, and SIGKILL then."""
        process = self.processes.pop(f"w{rank}", None)
        if process:
            process.send_signal(signal.SIGTERM)
            self.leaving[f"w{rank}"] = process
            self.preempted.append((self.now() + notice_s, f"w{rank}", process))

    def take_away(self):
        """Ends machines whose time is over."""
        for at, name, process in self.preempted:
            if at <= self.now() and process.poll() is None:
                process.kill()
                self.overdue.add(int(name[1:]))
        self.preempted = [entry for entry in self.preempted if entry[0] > self.now()]

    def stop(self, names, sig=None):
        for name in [name for name in names if name in self.processes]:
            process = self.leaving[name] = self.processes.pop(name)
            if process.poll() is None:
                process.send_signal(sig or self.ending(name))
        self.reap(names)

    def reap(self, names):
        """Waits for processes that were told to end."""
        ends = time.monotonic() + STOP_PATIENCE_S
        for name in [name for name in names if name in self.leaving]:
            process = self.leaving.pop(name)
            try:
                process.wait(max(0.1, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.problems.append(f"{name} did not end within {STOP_PATIENCE_S:.0f} s of SIGTERM")

    def check_alive(self):
        for name, process in self.processes.items():
            if process.poll() is not None and not name.startswith("tenant"):
                text = (self.directory / f"{name}.out").read_text(errors="replace").strip()
                raise RunError(f"{name} ended by itself (status {process.returncode}): {text[-400:]}")
        self.plan.watch_switches()

    # --- the scenario's events --------------------------------------------------------------

    def shape(self, factors):
        for rank, factor in factors.items():
            self.network.shape(f"h{rank + 1}", round(self.scenario["link_mbps"] * factor, 3))
        now = self.now()
        self.truth += [(now, link, rate) for link, rate in self.network.rates.items()]

    def start_tenant(self, index, tenant):
        source, sink = network.host_of(tenant["from"]), network.host_of(tenant["to"])
        port = str(5300 + index)
        self.start(f"tenant{index}-sink", sink, ["iperf3", "-s", "-1", "-p", port])
        self.wait_for_port(sink, int(port))
        seconds = max(1, int(min(tenant["stop_s"], self.scenario["duration_s"]) - tenant["start_s"]))
        self.start(f"tenant{index}-source", source, [
            "iperf3", "-c", self.network.ip(sink), "-C", "cubic", "-p", port,  # Debian's default
            "-P", str(tenant["flows"]), "-t", str(seconds)])
        self.tenants_now[index] = set(self.network.path(source, sink))
        self.note_tenants()

    def stop_tenant(self, index):
        self.stop([f"tenant{index}-source", f"tenant{index}-sink"], signal.SIGKILL)
        self.tenants_now.pop(index, None)
        self.note_tenants()

    def note_tenants(self):
        self.busy_links.append((self.now(), set().union(*self.tenants_now.values())))

    def wait_for_port(self, host, port):
        """Waits until a process listens, with a deadline."""
        entry = f":{port:04X} "
        ends = time.monotonic() + 2
        while time.monotonic() < ends:
            with open(f"/proc/{self.network.net[host].pid}/net/tcp6") as v6, \
                    open(f"/proc/{self.network.net[host].pid}/net/tcp") as v4:
                if any(entry in line and " 0A " in line for line in [*v6, *v4]):
                    return
            time.sleep(0.01)
        raise RunError(f"no process listens at {host}:{port}")

    def agenda(self):
        todo = [(at, self.shape, (factors,)) for at, factors in self.links]
        for index, tenant in enumerate(self.scenario["tenants"]):
            todo.append((tenant["start_s"], self.start_tenant, (index, tenant)))
            todo.append((tenant["stop_s"], self.stop_tenant, (index,)))
        for event in self.scenario["workers_events"]:
            if event["do"] == "preempt":
                todo.append((event["at_s"], self.preempt_worker, (event["worker"], event["notice_s"])))
                continue
            action = {"kill": self.kill_worker, "leave": self.leave_worker, "join": self.start_worker}[event["do"]]
            todo.append((event["at_s"], action, (event["worker"],)))
        for event in self.scenario["nodes_events"]:
            action = {"kill": self.kill_node, "start": self.start_node}[event["do"]]
            todo.append((event["at_s"], action, (event["node"],)))
        return sorted(todo, key=lambda item: item[0])

    def absent_at_start(self):
        """Workers whose first event is a join start late."""
        first = {}
        for event in sorted(self.scenario["workers_events"], key=lambda e: e["at_s"]):
            first.setdefault(event["worker"], event["do"])
        return {worker for worker, do in first.items() if do == "join"}

    # --- watching ----------------------------------------------------------------------------

    def read_evaluations(self):
        while True:
            at = self.observed.tell()
            line = self.observed.readline()
            if not line.endswith("\n"):
                self.observed.seek(at)
                return
            if not line.startswith("{") or '"accuracy"' not in line:
                continue
            entry = json.loads(line)
            self.evaluations.append({
                "t": (entry["at_ns"] - self.t0_ns) / 1e9, "version": entry["version"],
                "accuracy": entry["accuracy"], "loss": entry.get("loss")})

    def rows(self, table, of=None):
        """As in Plan.heddlectl(); None: no answer."""
        command = self.plan.heddlectl(table, of)
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2)
            return json.loads(done.stdout)["rows"]
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None

    def sample_links(self):
        rows = self.rows("links")
        if rows is not None:
            truth = {link: self.network.payload_bps(link) for link in self.network.rates}
            self.samples.append((self.now(), rows, truth))

    def read_switches(self):
        """{switch: the row of its agent}, for adding switches."""
        shown = {agent: self.rows("switch", agent) for agent in self.plan.agents()}
        return {rows[0]["switch"]: rows[0] for rows in shown.values() if rows}

    def progress(self):
        last = self.evaluations[-1] if self.evaluations else {"version": 0, "accuracy": 0.0}
        self.options["say"](f"{self.options['mode']:12} {self.now():4.0f} s   {last['version']:5} updates   "
                            f"accuracy {last['accuracy']:.3f}   cpu {self.cpu.shares()['machine'] * 100:3.0f} %")

    def watch(self):
        todo = self.agenda()
        next_sample, next_progress, ends = 1.0, 5.0, self.scenario["duration_s"]
        while self.now() < ends:
            while todo and todo[0][0] <= self.now():
                _, action, arguments = todo.pop(0)
                action(*arguments)
            self.take_away()
            self.read_evaluations()
            hit = measure.reached(self.evaluations, self.scenario["job"]["target_accuracy"])
            if hit and not self.options.get("full"):
                ends = min(ends, max(SHORTEST_S, hit["t"] + AFTER_TARGET_S))
            if self.now() >= next_sample:
                next_sample += 1.0
                self.check_alive()
                if self.options["mode"] in modes.SCHEDULED:
                    self.sample_links()
            if self.now() >= next_progress:
                next_progress += 5.0
                self.progress()
            time.sleep(0.05)

    # --- the whole run -----------------------------------------------------------------------

    def begin(self):
        """Starts the run's clock."""
        self.t0_ns = time.monotonic_ns()
        self.t0 = self.t0_ns / 1e9

    def start_members(self):
        absent = self.absent_at_start()
        for rank in range(self.scenario["workers"]):
            if rank not in absent:
                self.start_worker(rank)
        observer = self.plan.observer()
        if observer:
            self.start("observer", *observer)

    def pass_gate(self):
        """Programs that take seconds to load start together when the last of them is ready."""
        ends = time.monotonic() + GATE_PATIENCE_S
        names = [name for name in self.processes if name == "observer" or name.startswith("w")]
        while not all((self.directory / f"ready-{name}").exists() for name in names):
            self.check_alive()
            if time.monotonic() > ends:
                raise RunError(f"not all workers were ready within {GATE_PATIENCE_S:.0f} s")
            time.sleep(0.05)
        self.begin()
        (self.directory / "go").touch()

    def execute(self):
        """Returns the record of the run."""
        self.tenants_now = {}
        self.watched_on = "ps"
        for rank, factor in self.links[0][1].items():
            self.network.shape(f"h{rank + 1}", round(self.scenario["link_mbps"] * factor, 3))
        try:
            for name, host, command in [*self.plan.infrastructure(), *self.plan.monitors()]:
                self.start(name, host, command)
            time.sleep(0.3)  # nothing depends on it: workers retry until the server answers
            self.begin()
            self.start_members()
            if self.plan.gate:
                self.pass_gate()
            self.observed = open(self.directory / f"{self.plan.watcher}.out")
            self.cpu = measure.Cpu(lambda: [*self.processes.values(), *self.leaving.values()])
            port = self.network.port_bytes("ps")
            self.watch()
            self.seconds = self.now()
            self.cpu_shares = self.cpu.shares()
            self.processor_s = {name: measure.processor_s(process.pid) for name, process in self.processes.items()}
            self.server_bytes = sum(self.network.port_bytes("ps")) - sum(port)
            self.read_evaluations()
        finally:
            workers = [n for n in {**self.processes, **self.leaving} if n.startswith("w")]
            self.stop([*workers, "observer"])
            self.switches = self.read_switches()
            self.stop([n for n in self.processes if n.startswith("tenant")], signal.SIGKILL)
            self.stop([*self.network.aggregators, *self.network.agents.values()])
            self.stop([*self.network.servers, *(n for n in self.processes if n.startswith("monitor"))])
            self.stop(["ctl"])
            if self.observed:
                self.observed.close()
        return self.record()

    def estimate_error(self):
        """Median over samples of |estimate - truth| / truth, on links that we have measured and that carry no
        tenant's flows (there the available share is not the shaped rate). And the number of samples."""
        errors = []
        for t, rows, truth in self.samples:
            busy = next((links for at, links in reversed(self.busy_links) if at <= t), set())
            for row in rows:
                link = row["link"]
                if t >= SETTLE_S and link in truth and link not in busy and row["samples"]:
                    errors.append(abs(row["estimate_mbps"] * 1e6 - truth[link]) / truth[link])
        errors.sort()
        return (errors[len(errors) // 2] if errors else None), len(errors)

    def shares(self, log):
        """Bytes that arrived under a grant of the controller, of these in advance, and without a grant."""
        by_controller, ahead = {}, set()
        granted = credited = direct = 0
        for event in log.events:
            key = (event.get("worker", 0), event.get("direction", "push"), event.get("round", 0))
            if event["event"] == "granted":
                by_controller[key] = event["node"] not in self.network.servers
                ahead.discard(key)
            elif event["event"] == "credited":
                by_controller[key] = True
                ahead.add(key)
            elif event["event"] == "recv-end":
                if by_controller.get(key) or key[0] == measure.SUM:  # sums exist only with the controller
                    granted += event.get("bytes", 0)
                    credited += event.get("bytes", 0) if key in ahead else 0
                else:
                    direct += event.get("bytes", 0)
        return granted, credited, direct

    def record(self):
        mode, job = self.options["mode"], self.scenario["job"]
        self.log = log = measure.Log(sorted(self.directory.glob("events-*.jsonl")), self.t0_ns)
        self.failovers = measure.failovers(log, self.happened)
        hit = measure.reached(self.evaluations, job["target_accuracy"])
        killed = {e["worker"] for e in self.scenario["workers_events"] if e["do"] == "kill"}
        counts = measure.outcomes(log, killed | self.overdue)
        bound = job["tau_max"] if mode in modes.HEDDLE else None
        delays, histogram = measure.staleness(log, bound)
        error, error_samples = self.estimate_error()
        granted, credited, direct = self.shares(log)
        record = {
            "mode": mode, "scenario": self.scenario["name"], "seed": self.options["seed"],
            "driver": self.network.driver if mode in modes.HEDDLE else "tcp",
            "learning_rate": self.options["learning_rate"],
            "gradients_per_update": self.plan.gradients,
            "target_accuracy": job["target_accuracy"], "final_accuracy": measure.final_accuracy(self.evaluations),
            "time_to_accuracy_s": hit["t"] if hit else None, "updates_to_accuracy": hit["version"] if hit else None,
            "seconds": self.seconds, **counts, "applied_per_s": counts["applied"] / self.seconds,
            "granted_bytes": granted, "credited_bytes": credited, "direct_bytes": direct,
            **measure.groups(log), "server_link_bytes": self.server_bytes,
            "staleness": delays, "staleness_histogram": histogram,
            "estimate_error": error, "estimate_samples": error_samples, **self.cpu_shares,
            "processor_s": self.processor_s,
            "switches": self.switches, "failovers": self.failovers, "div_max": self.scenario["div_max"],
            "evaluations": self.evaluations}
        if self.overdue and mode in modes.HEDDLE:
            self.problems.append(f"workers {sorted(self.overdue)} had not left when their machines were taken away")
        record["problems"] = self.problems + judge(record)
        record["valid"] = not record["problems"]
        return record


def judge_failover(failover, most):
    """Problems with a failover."""
    if failover["promoted_s"] is None:
        return [f"{failover['killed']} was killed and nothing took its place"]
    # One step starts where both are equal, whatever its size.
    if most and failover["rolled_back"] > 1 and not 0 <= failover["divergence"] <= most:
        return [f"{failover['heir']} was {failover['divergence']:.3g} away at its promotion (bound {most:g})"]
    return []


def judge(record):
    """The problems of a run, as texts."""
    problems = []
    if record["cpu"] > CPU_MAX:
        problems.append(f"invalid: the run took {record['cpu'] * 100:.0f} % of the processors (limit "
                        f"{CPU_MAX * 100:.0f} %): the network was not the limit")
    if record["pushed"] != record["applied"] + record["dropped"] + record["failed"]:
        problems.append("pushed is not applied + dropped + failed")
    if not record["applied"]:
        problems.append("nothing was applied")
    if record["mode"] == "aggregated" and not record["grouped"]:
        problems.append(NO_SUM)
    bound = record["staleness"]["bound"]
    if bound and (record["staleness"]["max"] or 0) > bound:
        problems.append(f"an applied update's delay is {record['staleness']['max']} (bound {bound})")
    for failover in record["failovers"]:
        problems += judge_failover(failover, record["div_max"])
    total = record["granted_bytes"] + record["direct_bytes"]
    if record["mode"] in modes.SCHEDULED and record["granted_bytes"] < GRANTED_MIN * total:
        problems.append(f"only {100 * record['granted_bytes'] / max(1, total):.0f} % of the bytes were granted "
                        f"(at least {GRANTED_MIN * 100:.0f} %)")
    if record["time_to_accuracy_s"] is None:
        problems.append(f"accuracy {record['target_accuracy']} was not reached in {record['seconds']:.0f} s")
    elif record["updates_to_accuracy"] * record["gradients_per_update"] < UPDATES_MIN:
        problems.append(f"accuracy {record['target_accuracy']} took {record['updates_to_accuracy']} updates (at least "
                        f"{UPDATES_MIN}): the target is too near to compare anything")
    return problems
