# SPDX-License-Identifier: BSD-3-Clause
"""The parts of manual pages that --help does not print: a line about each program, its environment, exit codes, files
and related programs."""

EXIT = {
    0: "success",
    64: "a word or an option of the command line is wrong (EX_USAGE)",
    65: "a file has wrong contents, or the other end refuses (EX_DATAERR)",
    66: "a file is missing or cannot be read (EX_NOINPUT)",
    68: "a host name cannot be resolved (EX_NOHOST)",
    69: "what is needed does not answer or is not there (EX_UNAVAILABLE)",
    70: "an internal error, or an invariant was violated (EX_SOFTWARE)",
    71: "the system refuses memory, a thread or a socket (EX_OSERR)",
    73: "a file cannot be created (EX_CANTCREAT)",
    74: "a file cannot be written (EX_IOERR)",
    75: "ended before the target was reached (EX_TEMPFAIL)",
    76: "the other end answers with something unexpected (EX_PROTOCOL)",
    77: "permission denied, or the keys differ (EX_NOPERM)",
    78: "the configuration is wrong (EX_CONFIG)",
}

ENVIRONMENT = {
    "HEDDLE_ADDRESS": "dpdk: ADDR/BITS of this process on its port",
    "HEDDLE_BIND": "local ADDR[:PORT] to send from and receive at (any)",
    "HEDDLE_BUSY_POLL": "dpdk: if set, never sleep",
    "HEDDLE_CHUNK_BYTES": "bytes of values in one packet, a multiple of 4 (1408)",
    "HEDDLE_CONTROLLER": "ADDR[:PORT] of the controller",
    "HEDDLE_DRIVER": "udp, or dpdk: a port of DPDK instead of a kernel socket (udp)",
    "HEDDLE_EAL": "dpdk: further arguments for EAL",
    "HEDDLE_EVENTS": "file for a log of events, one JSON object per line",
    "HEDDLE_GATEWAY": "dpdk: gateway for addresses beyond the network of HEDDLE_ADDRESS",
    "HEDDLE_GRACE": "seconds between SIGTERM, a notice of preemption, and the end of the machine",
    "HEDDLE_HOST": "name of this machine in the topology (the host name)",
    "HEDDLE_JOB": "name of the job",
    "HEDDLE_KEEP_MB": "MiB of applied updates to keep until they are durable (0)",
    "HEDDLE_KEY_FILE": "key file of the cluster",
    "HEDDLE_OBSERVER": "1: only pull models, and be no member of the job",
    "HEDDLE_PORT": "dpdk: the port, as EAL writes it: net_af_packet0,iface=eth0",
    "HEDDLE_RANK": "rank of this worker (0)",
    "HEDDLE_SERVER": "ADDR[:PORT] of the parameter server; with a controller: only while that does not answer",
    "HEDDLE_SIMD": "avx2 or scalar: use slower kernels than the processor has",
    "HEDDLE_TENANT": "name of the tenant (default)",
    "HEDDLE_WORLD_SIZE": "number of workers of the job (1)",
    "HOME": "folder of .heddlectl_history, the history of the shell",
    "OPENBLAS_NUM_THREADS": "threads of the linear algebra (1, if it is not set)",
}
COMMON = ["HEDDLE_SIMD"]  # of every program
WORKER = ["HEDDLE_CONTROLLER", "HEDDLE_SERVER", "HEDDLE_KEY_FILE", "HEDDLE_TENANT", "HEDDLE_JOB", "HEDDLE_RANK",
          "HEDDLE_WORLD_SIZE", "HEDDLE_HOST", "HEDDLE_BIND", "HEDDLE_KEEP_MB", "HEDDLE_CHUNK_BYTES", "HEDDLE_OBSERVER",
          "HEDDLE_EVENTS", "HEDDLE_GRACE", "HEDDLE_DRIVER", "HEDDLE_PORT", "HEDDLE_ADDRESS", "HEDDLE_GATEWAY",
          "HEDDLE_EAL", "HEDDLE_BUSY_POLL"]
SERVICE = [64, 65, 66, 68, 69, 71, 73, 74]
KEYS = ("the file of --key-file", "keys of the cluster, one per line: a number and 64 hexadecimal "
        "digits. The first is used to send; all are accepted. Readable by the owner only")

PAGES = {
    "heddle-controller": {
        "section": 8, "brief": "controller of a Heddle fabric: plans all transfers", "exit": SERVICE,
        "files": [KEYS, ("DIR/state.json", "state of --state-dir: the epoch, and which server has which job")],
        "see": ["heddlectl", "heddle-server", "heddle-aggregator", "heddle-plan", "heddle-run"]},
    "heddle-server": {
        "section": 8, "brief": "parameter server of a Heddle fabric, or its replica", "exit": SERVICE,
        "files": [KEYS, ("the folder of --checkpoint-dir", "checkpoints of each job, written under another name first"),
                  ("DIR/JOB.report.json", "summary of a job, in the folder of --report-dir")],
        "see": ["heddlectl", "heddle-controller", "heddle-aggregator", "heddle-run"]},
    "heddle-aggregator": {
        "section": 8, "brief": "adds updates in the network of a Heddle fabric", "exit": SERVICE, "files": [KEYS],
        "see": ["heddlectl", "heddle-controller", "heddle-server", "heddle-switch"]},
    "heddle-switch": {
        "section": 8, "brief": "software switch that adds updates in the path", "exit": SERVICE, "files": [KEYS],
        "see": ["heddlectl", "heddle-controller", "heddle-switch-agent", "heddle-aggregator"]},
    "heddle-switch-agent": {
        "section": 8, "brief": "agent of a P4 switch that adds updates in the path", "exit": SERVICE, "files": [KEYS],
        "see": ["heddlectl", "heddle-controller", "heddle-switch"]},
    "heddle-monitor": {
        "section": 8, "brief": "reports the traffic of a host to the controller", "exit": [*SERVICE, 77],
        "files": [KEYS], "see": ["heddlectl", "heddle-controller"]},
    "heddlectl": {
        "section": 1, "brief": "shell of a Heddle fabric for operators",
        "environment": ["HEDDLE_CONTROLLER", "HEDDLE_KEY_FILE", "HOME"],
        "exit": [64, 65, 66, 68, 69, 71, 74, 76, 77, 78], "files": [KEYS],
        "see": ["heddle-controller", "heddle-server", "heddle-aggregator", "heddle-switch", "heddle-monitor"]},
    "heddle-run": {
        "section": 1, "brief": "starts the workers of a job on this machine",
        "more": ["", "Each process finds the fabric by its environment: see heddle\N{HYPHEN-MINUS}train(1)."],
        "environment": ["OPENBLAS_NUM_THREADS"], "exit": [64, 71], "files": [KEYS],
        "see": ["heddle-train", "heddle-controller", "heddle-server"]},
    "heddle-train": {
        "section": 1, "brief": "trains a model over a Heddle fabric", "environment": [*WORKER, "OPENBLAS_NUM_THREADS"],
        "exit": [64, 65, 66, 68, 69, 70, 71, 73, 74, 75, 77, 78], "files": [KEYS],
        "see": ["heddle-run", "heddle-server", "heddle-controller"]},
    "heddle-plan": {
        "section": 1, "brief": "plans one planning problem as the controller would", "exit": [64, 65, 66, 71, 74],
        "see": ["heddle-controller", "heddle-sim"]},
    "heddle-sim": {
        "section": 1, "brief": "runs a Heddle fabric in virtual time", "exit": [64, 65, 66, 70, 71, 73, 74],
        "see": ["heddle-plan", "heddle-trace", "heddle-train"]},
    "heddle-trace": {
        "section": 1, "brief": "shows event logs of a Heddle fabric in Perfetto", "exit": [64, 65, 66, 71, 73, 74],
        "see": ["heddle-run", "heddle-sim", "heddle-controller"]},
    "heddle-tcp-ps": {
        "section": 1, "brief": "plain TCP parameter server, for comparison", "exit": [64, 66, 69, 71, 73, 74, 76, 78],
        "see": ["heddle-train", "heddle-server"]},
}
