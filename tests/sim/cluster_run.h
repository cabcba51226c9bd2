/* SPDX-License-Identifier: BSD-3-Clause */
/* A small cluster, run to its end and looked at. */
#ifndef CLUSTER_RUN_H
#define CLUSTER_RUN_H

#include "hd_cluster.h"

struct run {
	struct hd_scenario scenario;
	struct hd_cluster_config config;
	struct hd_cluster_result result;
	bool violated;
	char failure[512];
	uint64_t trace; /* sum over all events */
	uint64_t events;
	uint64_t kinds[HD_EVENT_COUNT];
	uint64_t sums, parts; /* committed steps of several updates, and these */
	bool in_sum;
	hd_ns committed, stall; /* the last one; the longest time between two */
	uint32_t skip; /* tamper: events to leave alone first */
};

/* Four workers with 64 KiB updates at 200 Mbit/s: about 150 commits a second. */
void prepare(struct run *run);
/* World i of the fault matrix: easy, hard and with groups in turns. config.seed says what it was drawn from. */
void prepare_drawn(struct run *run, uint64_t i);
/* How updates travel: directly, unplanned, planned, or over an aggregator, when they are large enough to be summed. */
enum run_mode {
	RUN_DIRECT,
	RUN_UNSCHEDULED,
	RUN_SCHEDULED,
	RUN_AGGREGATED,
	RUN_MODES
};
void choose_mode(struct run *run, enum run_mode mode);
void go(struct run *run);
/* Runs; expects no violation and at least `applied` applied updates. */
void expect(struct run *run, uint64_t applied);
/* Runs it twice: all that happens is the same, at the same moment. */
void expect_same(struct run *run);

/* Seeds to run: HEDDLE_SIM_SEEDS of them, or `otherwise` (a fifth of it under ASan), from HEDDLE_SIM_FIRST on, or 1.
 * run_only_seeds(): HEDDLE_SIM_SEEDS is set, so nothing but these seeds is to run. */
uint64_t run_seeds(uint64_t otherwise);
uint64_t run_first_seed(void);
bool run_only_seeds(void);

#endif
