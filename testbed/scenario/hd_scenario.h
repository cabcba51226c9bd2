/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenario files (docs/scenarios.md): one cluster, its job, and its faults and events. Read by heddle-sim here and by
 * the demo in Python; both refuse unknown fields, with file and field in the error.
 */
#ifndef HD_SCENARIO_H
#define HD_SCENARIO_H

#include "hd_jobspec.h"
#include "hd_types.h"

#define HD_SCENARIO_BYTES_MAX (1u << 20)
#define HD_SCENARIO_TENANTS_MAX 64
#define HD_SCENARIO_EVENTS_MAX 1000
#define HD_SCENARIO_NOTICE_S 2 /* the default notice of a preemption */
#define HD_SCENARIO_LAYERS_MAX 16
#define HD_SCENARIO_WORKERS_MAX 4096
#define HD_SCENARIO_TEXT_BYTES 201
#define HD_SCENARIO_RACKS_MAX 8
#define HD_SCENARIO_AGGREGATORS_MAX 16

enum hd_place_kind {
	HD_PLACE_WORKER,
	HD_PLACE_SERVER,
	HD_PLACE_CONTROLLER,
	HD_PLACE_EXTRA,
	HD_PLACE_AGGREGATOR,
	HD_PLACE_REPLICA
};

struct hd_place {
	uint8_t kind; /* enum hd_place_kind */
	uint32_t worker; /* rank, or index of the aggregator */
};

/* How compute times or link rates are redrawn or scaled. */
enum hd_variation_kind {
	HD_VARIATION_NONE,
	HD_VARIATION_FRACTION, /* `fraction` of the workers times `factor` */
	HD_VARIATION_EXPONENTIAL, /* each step times Exp(1) */
	HD_VARIATION_REDRAW /* each worker times U[low, high], drawn again every `every_s` */
};

struct hd_variation {
	uint8_t kind;
	double fraction, factor;
	double low, high, every_s;
};

struct hd_scenario_job {
	char model[16];
	uint32_t hidden_count;
	uint32_t hidden[HD_SCENARIO_LAYERS_MAX];
	uint32_t batch;
	double compute_ms;
	uint32_t tau_max;
	double learning_rate, momentum, weight_decay;
	uint8_t staleness_rule; /* enum hd_staleness_rule */
	double staleness_c;
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count;
	struct hd_federated federated;
	double target_accuracy;
	uint8_t payload, pull_payload; /* enum hd_dtype: types of updates and models on the wire */
	uint64_t
		update_bytes; /* as fp32, a multiple of 4; from the model on the digits when the file has none: */
	bool bytes_of_model;
};

struct hd_scenario_tenant {
	uint32_t flows;
	struct hd_place from, to;
	double start_s, stop_s;
};

struct hd_scenario_event {
	double at_s;
	uint32_t worker;
	uint8_t what; /* enum hd_scenario_do */
	double notice_s; /* of a preemption: remaining time of the machine */
};

/* An event of a process other than a worker: killed, and started again (a server as the replica of its successor). */
struct hd_scenario_node_event {
	double at_s;
	struct hd_place node;
	uint8_t what; /* HD_DO_KILL, HD_DO_JOIN */
};

enum hd_scenario_do {
	HD_DO_KILL,
	HD_DO_JOIN,
	HD_DO_LEAVE, /* gracefully */
	HD_DO_PREEMPT /* its machine is taken away after a notice */
};

/* A crash (down for this time), a partition (unreachable) or a stop (SIGSTOP until then). */
struct hd_scenario_fault {
	double at_s, for_s;
	struct hd_place node;
};

/* Simulator only: the behaviour of the job's workers and the server's disk. */
struct hd_scenario_sim {
	uint32_t depth; /* pushes of one worker in flight at once */
	double cancel; /* probability that a push is withdrawn soon after */
	double conditional; /* probability that a pull asks for something newer only */
	uint32_t checkpoint_commits; /* 0: no checkpoints */
	double disk_ms, disk_error; /* time of a checkpoint, probability that it fails */
	uint64_t updates; /* stop after this many pushes; 0: by time only */
	double settle_s; /* limit for everything pending after faults and pushes stop */
	uint32_t hold_ms; /* 0: HD_HOLD_US */
	uint32_t credit_kb; /* pushes and pulls up to this many KiB need no request; 0: all do */
};

struct hd_scenario {
	char name[65];
	char about[HD_SCENARIO_TEXT_BYTES];
	uint64_t seed;
	uint32_t workers;
	uint32_t racks; /* switches in a row; 1: a star */
	char switches[16]; /* their kind in the demo: bridge, bmv2 */
	double link_mbps, server_link_mbps;
	uint32_t aggregators; /* each on a host of its own in rack 0 */
	double aggregator_link_mbps;
	double trunk_mbps; /* between neighbouring racks */
	double latency_us; /* one way, host to host */
	double queue_kb;
	double duration_s;
	uint32_t monitors; /* 1: a link monitor on each host */
	uint32_t
		replica; /* 1: a replica of the server, on the host "rp", whose link is as the server's */
	uint32_t never_alone; /* 1: no server begins the job without an assignment */
	double div_max; /* bound of the replica's distance; 0: none */
	/* A state after this many commits, instead of updates; 0: each update. */
	uint32_t replicate_every;
	struct hd_scenario_job job;
	struct hd_variation compute, links;
	uint32_t tenant_count;
	struct hd_scenario_tenant tenants[HD_SCENARIO_TENANTS_MAX];
	uint32_t event_count;
	struct hd_scenario_event events[HD_SCENARIO_EVENTS_MAX];
	uint32_t node_event_count;
	struct hd_scenario_node_event node_events[HD_SCENARIO_EVENTS_MAX];
	double loss, duplicate, reorder;
	uint32_t skew_ppm;
	uint32_t crash_count, partition_count, stop_count;
	struct hd_scenario_fault crashes[HD_SCENARIO_EVENTS_MAX];
	struct hd_scenario_fault partitions[HD_SCENARIO_EVENTS_MAX];
	struct hd_scenario_fault stops[HD_SCENARIO_EVENTS_MAX];
	struct hd_scenario_sim sim;
};

/* The rack of a worker, from 0: the ranks in equal ranges. All other nodes are in rack 0. */
static inline uint32_t hd_scenario_rack(const struct hd_scenario *scenario, uint32_t worker) {
	return worker * scenario->racks / scenario->workers;
}

/* Every field at its default. */
void hd_scenario_init(struct hd_scenario *scenario);

/* Reads a file. 0; -errno of opening; -EINVAL with "FILE: line N: what" or "FILE: field: what
 * (limit)" in error. *scenario is set only on success. */
int hd_scenario_read(
	const char *path,
	struct hd_scenario *scenario,
	char *error,
	size_t error_bytes
);
/* The same from text; `name` stands for FILE. */
int hd_scenario_parse(
	const char *text,
	const char *name,
	struct hd_scenario *scenario,
	char *error,
	size_t error_bytes
);

#endif
