/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster_run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Under a sanitizer seeds take five times as long, and it looks at what the code does, not at where worlds end. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLOWER 5
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

static uint64_t mix(uint64_t hash, uint64_t word) {
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ (hash >> 31);
}

static void watch(void *owner, const char *node, const struct hd_event *event) {
	struct run *run = owner;
	uint64_t value;

	memcpy(&value, &event->value, sizeof value);
	for (; *node; node++)
		run->trace = mix(run->trace, (uint8_t)*node);
	run->trace = mix(run->trace, event->at);
	run->trace = mix(run->trace, (uint64_t)event->kind << 32 | event->reason);
	run->trace = mix(run->trace, (uint64_t)event->round << 32 | event->worker);
	run->trace = mix(run->trace, event->token);
	run->trace = mix(run->trace, event->position);
	run->trace = mix(run->trace, event->version);
	run->trace = mix(run->trace, event->base);
	run->trace = mix(run->trace, event->bytes);
	run->trace = mix(run->trace, event->aux);
	run->trace = mix(run->trace, value);
	run->trace = mix(run->trace, event->more);
	if (event->kind == HD_EVENT_COMMITTED) {
		run->parts += run->in_sum || event->more > 0;
		run->sums += run->in_sum && event->more == 0;
		run->in_sum = event->more > 0;
		if (run->committed)
			run->stall = hd_ns_max(run->stall, event->at - run->committed);
		run->committed = event->at;
	}
	run->events++;
	run->kinds[event->kind]++;
}

void prepare(struct run *run) {
	memset(run, 0, sizeof *run);
	hd_scenario_init(&run->scenario);
	run->scenario.workers = 4;
	run->scenario.link_mbps = run->scenario.server_link_mbps = 200;
	run->scenario.latency_us = 50;
	run->scenario.duration_s = 4;
	run->scenario.job.update_bytes = 65536;
	run->scenario.job.compute_ms = 20;
	run->scenario.job.tau_max = 8;
	run->config.seed = 1;
	run->config.event = watch;
	run->config.owner = run;
}

void prepare_drawn(struct run *run, uint64_t i) {
	static const uint64_t kinds[] = {0, HD_CLUSTER_HARD, HD_CLUSTER_GROUPS};

	prepare(run);
	run->config.seed = kinds[i % 3] + i;
	hd_cluster_draw(run->config.seed, &run->scenario, &run->config.mode);
}

void choose_mode(struct run *run, enum run_mode mode) {
	static const enum hd_cluster_mode modes[RUN_MODES] = {
		[RUN_DIRECT] = HD_CLUSTER_DIRECT,
		[RUN_UNSCHEDULED] = HD_CLUSTER_UNSCHEDULED,
		[RUN_SCHEDULED] = HD_CLUSTER_SCHEDULED,
		[RUN_AGGREGATED] = HD_CLUSTER_SCHEDULED,
	};

	run->config.mode = modes[mode];
	if (mode == RUN_AGGREGATED) {
		run->scenario.aggregators = 1;
		run->scenario.aggregator_link_mbps = 1000;
		run->scenario.job.update_bytes = 400000;
	}
}

void go(struct run *run) {
	struct hd_cluster *cluster;
	char error[256] = "";

	run->config.scenario = &run->scenario;
	assert_int_equal(hd_cluster_create(&run->config, &cluster, error, sizeof error), 0);
	run->violated = hd_cluster_run(cluster) == -EILSEQ;
	if (run->violated)
		(void
		)snprintf(run->failure, sizeof run->failure, "%s", hd_cluster_failure(cluster));
	hd_cluster_result(cluster, &run->result);
	hd_cluster_destroy(cluster);
}

void expect(struct run *run, uint64_t applied) {
	const struct hd_check_stats *s = &run->result.pushes;

	go(run);
	if (run->violated)
		fail_msg("%s", run->failure);
	assert_int_equal(s->pushed, s->applied + s->dropped + s->failed);
	if (s->applied < applied)
		fail_msg(
			"%llu applied of %llu, %llu expected",
			(unsigned long long)s->applied,
			(unsigned long long)s->pushed,
			(unsigned long long)applied
		);
}

void expect_same(struct run *run) {
	struct run other = *run;

	other.config.owner = &other;
	go(run);
	go(&other);
	assert_int_equal(run->events, other.events);
	assert_true(run->trace == other.trace);
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t run_seeds(uint64_t otherwise) {
	return number_of("HEDDLE_SIM_SEEDS", (otherwise + SLOWER - 1) / SLOWER);
}

uint64_t run_first_seed(void) {
	return number_of("HEDDLE_SIM_FIRST", 1);
}

bool run_only_seeds(void) {
	return getenv("HEDDLE_SIM_SEEDS") != NULL;
}
