/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: a scenario for each seed. Small on purpose: many seeds find more than long runs. */
#include "hd_cluster.h"
#include "hd_random.h"

#include <stdio.h>

#define WORKERS_MAX 8
#define OUTAGES_MAX 4

static double between(struct hd_random *random, double low, double high) {
	return low + (high - low) * hd_random_unit(random);
}

/* Each order of magnitude is equally likely. */
static uint64_t skewed(struct hd_random *random, uint64_t low, uint64_t high) {
	uint64_t span = low;

	while (span < high && hd_random_chance(random, 0.6))
		span *= 4;
	return low + hd_random_below(random, (span < high ? span : high) - low + 1);
}

static struct hd_place any_node(struct hd_random *random, uint32_t workers) {
	struct hd_place place = {.kind = HD_PLACE_WORKER};
	uint64_t pick = hd_random_below(random, 4);

	if (pick == 0)
		place.kind = HD_PLACE_SERVER;
	else if (pick == 1)
		place.kind = HD_PLACE_CONTROLLER;
	else
		place.worker = (uint32_t)hd_random_below(random, workers);
	return place;
}

static uint32_t draw_outages(
	struct hd_random *random,
	const struct hd_scenario *scenario,
	struct hd_scenario_fault *faults
) {
	uint32_t count = (uint32_t)hd_random_below(random, OUTAGES_MAX);

	for (uint32_t i = 0; i < count; i++)
		faults[i] = (struct hd_scenario_fault){
			.at_s = between(random, 0.05, scenario->duration_s),
			.for_s = between(random, 0.001, 2),
			.node = any_node(random, scenario->workers),
		};
	return count;
}

static void draw_changes(struct hd_random *random, struct hd_scenario *scenario) {
	uint32_t count = (uint32_t)hd_random_below(random, 4);

	for (uint32_t i = 0; i < count; i++)
		scenario->events[i] = (struct hd_scenario_event){
			.at_s = between(random, 0.05, scenario->duration_s),
			.worker = (uint32_t)hd_random_below(random, scenario->workers),
			.what = (uint8_t)hd_random_below(random, 3),
		};
	scenario->event_count = count;
}

static void draw_network(struct hd_random *random, struct hd_scenario *scenario) {
	static const double rates[] = {20, 100, 200, 1000};

	scenario->link_mbps = rates[hd_random_below(random, 4)];
	scenario->server_link_mbps = rates[hd_random_below(random, 4)];
	scenario->latency_us = between(random, 1, hd_random_chance(random, 0.2) ? 5000 : 200);
	scenario->queue_kb = between(random, 16, 256);
	if (hd_random_chance(random, 0.5))
		scenario->loss = between(random, 0, 0.05);
	if (hd_random_chance(random, 0.3))
		scenario->duplicate = between(random, 0, 0.05);
	if (hd_random_chance(random, 0.3))
		scenario->reorder = between(random, 0, 0.2);
	if (hd_random_chance(random, 0.3))
		scenario->skew_ppm = (uint32_t)hd_random_below(random, 300);
	if (hd_random_chance(random, 0.2))
		scenario->links = (struct hd_variation
		){.kind = HD_VARIATION_REDRAW, .low = 0.25, .high = 1, .every_s = 1};
	if (!hd_random_chance(random, 0.2))
		return;
	scenario->tenant_count = 1;
	scenario->tenants[0] = (struct hd_scenario_tenant){
		.flows = 1 + (uint32_t)hd_random_below(random, 3),
		.from = {.kind = HD_PLACE_EXTRA},
		.to = {.kind = hd_random_chance(random, 0.5) ? HD_PLACE_SERVER : HD_PLACE_WORKER},
		.start_s = between(random, 0, scenario->duration_s / 2),
		.stop_s = scenario->duration_s,
	};
}

static void draw_job(struct hd_random *random, struct hd_scenario *scenario) {
	struct hd_scenario_job *job = &scenario->job;
	struct hd_scenario_sim *sim = &scenario->sim;

	job->update_bytes = 4 * skewed(random, 1, 100000);
	job->compute_ms = between(random, 0, 30);
	job->tau_max = 1 + (uint32_t)hd_random_below(random, 3 * scenario->workers + 2);
	sim->depth = hd_random_chance(random, 0.7) ? 1 : 2 + (uint32_t)hd_random_below(random, 2);
	if (hd_random_chance(random, 0.3))
		sim->cancel = between(random, 0, 0.2);
	if (hd_random_chance(random, 0.5))
		sim->conditional = between(random, 0, 1);
	if (hd_random_chance(random, 0.6))
		sim->checkpoint_commits = 1 + (uint32_t)hd_random_below(random, 20);
	sim->disk_ms = between(random, 0, 100);
	if (hd_random_chance(random, 0.2))
		sim->disk_error = 0.2;
	/* After everything else, so that older seeds draw the rest as before. */
	if (hd_random_chance(random, 0.4))
		job->payload = hd_random_chance(random, 0.5) ? HD_DTYPE_FP16 : HD_DTYPE_BF16;
	if (hd_random_chance(random, 0.25))
		job->payload = HD_DTYPE_SPARSE32;
	if (hd_random_chance(random, 0.4))
		job->pull_payload = hd_random_chance(random, 0.5) ? HD_DTYPE_FP16 : HD_DTYPE_BF16;
	if (hd_random_chance(random, 0.2))
		job->payload = HD_DTYPE_FIXED32;
}

/* Every process fails at one time; each comes back by itself. */
static void draw_power_cut(struct hd_random *random, struct hd_scenario *scenario) {
	double at_s = between(random, 0.2, scenario->duration_s);

	for (uint32_t i = 0; i < scenario->workers + 2; i++)
		scenario->crashes[scenario->crash_count++] = (struct hd_scenario_fault){
			.at_s = at_s,
			.for_s = between(random, 0.001, 2),
			.node = {
				.kind = i == 0 ? HD_PLACE_SERVER :
					i == 1 ? HD_PLACE_CONTROLLER :
						 HD_PLACE_WORKER,
				.worker = i < 2 ? 0 : i - 2,
			},
		};
}

static void draw_hard(struct hd_random *random, struct hd_scenario *scenario) {
	scenario->stop_count = draw_outages(random, scenario, scenario->stops);
	if (hd_random_chance(random, 0.3))
		draw_power_cut(random, scenario);
}

/* Racks were added later: seeds without them keep their meaning. */
static void draw_racks(uint64_t seed, struct hd_scenario *scenario) {
	static const double rates[] = {20, 50, 200, 1000};
	struct hd_random random;

	hd_random_init(&random, seed ^ UINT64_C(0x7261636b73));
	scenario->racks = 2 + (uint32_t)hd_random_below(&random, 3);
	if (scenario->racks > scenario->workers)
		scenario->racks = scenario->workers;
	if (scenario->racks > 1)
		scenario->trunk_mbps = rates[hd_random_below(&random, 4)];
}

/* The same for preemptions. */
static void draw_preemptions(uint64_t seed, struct hd_scenario *scenario) {
	struct hd_random random;
	uint64_t count;

	hd_random_init(&random, seed ^ UINT64_C(0x70726565));
	count = 1 + hd_random_below(&random, 3);
	for (uint64_t i = 0; i < count; i++) {
		struct hd_scenario_event event = {
			.at_s = between(&random, 0.05, scenario->duration_s),
			.worker = (uint32_t)hd_random_below(&random, scenario->workers),
			.what = HD_DO_PREEMPT,
			.notice_s
			= between(&random, 0.01, hd_random_chance(&random, 0.5) ? 0.3 : 2),
		};

		scenario->events[scenario->event_count++] = event;
		if (hd_random_chance(&random, 0.5))
			continue;
		event.at_s += event.notice_s + between(&random, -0.1, 1);
		event.what = HD_DO_JOIN;
		scenario->events[scenario->event_count++] = event;
	}
}

static void draw_aggregators(uint64_t seed, struct hd_scenario *scenario) {
	struct hd_random random;
	uint32_t outages;

	hd_random_init(&random, seed ^ UINT64_C(0x61676772));
	scenario->aggregators = 1 + (uint32_t)hd_random_below(&random, 2);
	scenario->aggregator_link_mbps
		= scenario->link_mbps * (hd_random_chance(&random, 0.7) ? 8 : 1);
	/* More updates that wait at the same time, with larger bounds: so that some are added up. */
	scenario->workers += 2;
	scenario->job.tau_max += 2 * scenario->workers;
	if (hd_random_chance(&random, 0.5))
		scenario->job.compute_ms = between(&random, 0, 2);
	outages = (uint32_t)hd_random_below(&random, OUTAGES_MAX);
	for (uint32_t i = 0; i < outages; i++) {
		struct hd_scenario_fault fault = {
			.at_s = between(&random, 0.05, scenario->duration_s),
			.for_s = between(&random, 0.001, 2),
			.node
			= {HD_PLACE_AGGREGATOR,
			   (uint32_t)hd_random_below(&random, scenario->aggregators)},
		};

		if (hd_random_chance(&random, 0.6))
			scenario->crashes[scenario->crash_count++] = fault;
		else
			scenario->partitions[scenario->partition_count++] = fault;
	}
}

void hd_cluster_draw(uint64_t seed, struct hd_scenario *scenario, enum hd_cluster_mode *mode) {
	struct hd_random random;
	uint64_t pick;

	hd_random_init(&random, seed ^ UINT64_C(0x6d6174726978));
	hd_scenario_init(scenario);
	(void
	)snprintf(scenario->name, sizeof scenario->name, "random-%llu", (unsigned long long)seed);
	scenario->seed = seed;
	scenario->workers = 1 + (uint32_t)hd_random_below(&random, WORKERS_MAX);
	scenario->duration_s = between(&random, 1, 4);
	pick = hd_random_below(&random, 6);
	*mode = pick == 0 ? HD_CLUSTER_DIRECT :
		pick == 1 ? HD_CLUSTER_UNSCHEDULED :
			    HD_CLUSTER_SCHEDULED;
	draw_job(&random, scenario);
	draw_network(&random, scenario);
	scenario->crash_count = draw_outages(&random, scenario, scenario->crashes);
	scenario->partition_count = draw_outages(&random, scenario, scenario->partitions);
	draw_changes(&random, scenario);
	if (seed % 5 == 4)
		draw_racks(seed, scenario);
	if (seed % 4 == 2)
		draw_preemptions(seed, scenario);
	if (seed >= HD_CLUSTER_GROUPS) {
		*mode = HD_CLUSTER_SCHEDULED;
		draw_aggregators(seed, scenario);
	}
	if (seed >= HD_CLUSTER_GROUPS ? seed % 2 == 1 : seed >= HD_CLUSTER_HARD)
		draw_hard(&random, scenario);
}
