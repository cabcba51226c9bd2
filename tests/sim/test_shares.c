/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs whose all-reduces go through one switch, on the same links, which carry a tenth or ten times of what the
 * controller believes, and which nobody measures: what it learns from the rounds is near what they carry, and each
 * job has its share by weight of nearly all of it. Then the links change, and it learns that.
 */
#include "allreduce_world.h"
#include "hd_group.h"
#include "hd_topology.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS 3
#define JOBS 2
#define VALUES 65536
#define SLICE (HD_MS / 2)
#define CHUNK_BYTES 1408
#define FRAME_BYTES (CHUNK_BYTES + 56 + HD_SIM_FRAME_BYTES)
#define LEARN (12 * HD_SECOND) /* what was tried in vain is tried again within 8 s */
#define MEASURE (8 * HD_SECOND)
#define OFF 0.05 /* wanted of the switch */
#define OFF_AFTER                                                                                  \
	0.08 /* after links have changed: they may be taken to carry some per cent more than they do */

struct actor {
	struct world *world;
	uint32_t job;
	int node;
	struct hd_worker *core;
	bool busy;
	float in[VALUES], out[VALUES];
};

struct world {
	struct allreduce_world base; /* what the switch needs of one */
	struct hd_jobspec specs[JOBS];
	struct actor actors[JOBS][HOSTS];
	int hosts[HOSTS];
	uint64_t applied[JOBS], failed; /* calls that ended */
};

/* --- workers ---------------------------------------------------------------------------------- */

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct actor *actor = owner;

	actor->world->applied[actor->job] += ticket->state == HD_TICKET_APPLIED;
	actor->world->failed += ticket->state == HD_TICKET_FAILED;
	if (ticket->state != HD_TICKET_APPLIED)
		return;
	for (uint32_t i = 0; i < VALUES; i += 1000)
		assert_true(actor->out[i] == HOSTS * (float)(1 + i % 7));
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct actor *actor = owner;

	(void)round;
	(void)user;
	actor->busy = false;
}

static const struct hd_worker_ops ops = {.ticket = on_ticket, .released = on_released};

static void call(struct actor *actor) {
	struct hd_sim *sim = actor->world->base.sim;
	const struct hd_reduce_args args = {
		.in = actor->in,
		.out = actor->out,
		.values = VALUES,
		.dtype = HD_DTYPE_FP32,
		.order = HD_GROUP_ARRIVAL,
	};
	uint32_t round;

	if (actor->busy)
		return;
	actor->busy = hd_worker_reduce(
			      actor->core,
			      hd_sim_node_now(sim, actor->node),
			      &args,
			      hd_sim_node_sink(sim, actor->node),
			      &round
		      )
		== 0;
	hd_sim_node_poke(sim, actor->node);
}

static void add_worker(struct world *w, uint32_t job, uint32_t host, float weight) {
	struct allreduce_world *base = &w->base;
	struct actor *actor = &w->actors[job][host];
	const struct hd_sim_node_config node = {.host = w->hosts[host]};
	char name[16], where[16];
	struct hd_worker_config config = {
		.name = name,
		.host = where,
		.rank = (uint16_t)host,
		.keys = allreduce_keys,
		.key_id = 1,
		.controller = hd_sim_node_address(base->sim, base->controller_node),
		.spec = &w->specs[job],
		.world = HOSTS,
		.job_weight = weight,
		.ops = &ops,
		.owner = actor,
	};

	(void)snprintf(name, sizeof(name), "w%u", host);
	(void)snprintf(where, sizeof(where), "h%u", host + 1);
	actor->world = w;
	actor->job = job;
	actor->node = hd_sim_node(base->sim, &node);
	assert_true(actor->node >= 0);
	config.data = hd_sim_node_address(base->sim, actor->node);
	for (uint32_t i = 0; i < VALUES; i++)
		actor->in[i] = (float)(1 + i % 7);
	allreduce_seed(base, config.seed);
	assert_int_equal(hd_worker_create(&config, &actor->core), 0);
	hd_sim_node_start(base->sim, actor->node, (struct hd_node){&hd_worker_ops, actor->core});
}

/* --- the rest --------------------------------------------------------------------------------- */

static void start_controller(struct world *w, double initial_bps) {
	static const char text[]
		= "{\"hosts\":[\"ctl\",\"h1\",\"h2\",\"h3\"],\"switches\":[\"s1\"],"
		  "\"links\":[[\"ctl\",\"s1\"],[\"h1\",\"s1\"],[\"h2\",\"s1\"],[\"h3\",\"s1\"]]}";
	static const struct hd_controller_ops controller_ops;
	struct allreduce_world *base = &w->base;
	struct hd_controller_config config = {
		.name = "controller",
		.keys = allreduce_keys,
		.key_id = 1,
		.epoch = 1,
		.initial_bps = initial_bps,
		.ops = &controller_ops,
		.owner = w,
	};
	char error[128];

	assert_int_equal(hd_topology_parse(text, &config.topology, error, sizeof(error)), 0);
	allreduce_seed(base, config.seed);
	assert_int_equal(hd_controller_create(&config, &base->controller), 0);
	hd_sim_node_start(
		base->sim,
		base->controller_node,
		(struct hd_node){&hd_controller_ops, base->controller}
	);
}

static struct world *world_open(uint64_t rate_bps, double initial_bps, const float weights[JOBS]) {
	const struct hd_sim_link link
		= {.rate_bps = rate_bps, .queue_bytes = 1 << 17, .latency = 20000};
	struct world *w = calloc(1, sizeof(*w));
	struct hd_sim_node_config node = {0};

	assert_non_null(w);
	hd_random_init(&w->base.random, 7);
	assert_int_equal(hd_sim_create(7, &w->base.sim), 0);
	node.host = hd_sim_host(w->base.sim, &(struct hd_sim_link){.latency = 50000});
	w->base.controller_node = hd_sim_node(w->base.sim, &node);
	for (uint32_t i = 0; i < HOSTS; i++)
		w->hosts[i] = hd_sim_host(w->base.sim, &link);
	allreduce_switch_build(&w->base);
	w->base.way.narrow = false;
	w->base.way.slots = HD_SWITCH_SLOTS;
	start_controller(w, initial_bps);
	allreduce_switch_start(&w->base.way);
	for (uint32_t job = 0; job < JOBS; job++) {
		struct hd_jobspec *spec = &w->specs[job];

		(void)snprintf(spec->tenant, sizeof(spec->tenant), "t%u", job);
		(void)snprintf(spec->name, sizeof(spec->name), "j%u", job);
		spec->tau_max = 1;
		spec->learning_rate = 0.1F;
		for (uint32_t host = 0; host < HOSTS; host++)
			add_worker(w, job, host, weights[job]);
	}
	return w;
}

static void world_close(struct world *w) {
	assert_string_equal(w->base.failure, "");
	assert_null(hd_sim_failure(w->base.sim));
	for (uint32_t job = 0; job < JOBS; job++)
		for (uint32_t host = 0; host < HOSTS; host++) {
			hd_sim_node_stop(w->base.sim, w->actors[job][host].node);
			hd_worker_destroy(w->actors[job][host].core);
		}
	allreduce_switch_stop(&w->base.way);
	hd_sim_node_stop(w->base.sim, w->base.controller_node);
	hd_controller_destroy(w->base.controller);
	hd_sim_destroy(w->base.sim);
	free(w);
}

/* All call again as soon as they can; */
static void run(struct world *w, hd_ns span) {
	const hd_ns until = hd_sim_now(w->base.sim) + span;

	while (hd_sim_now(w->base.sim) < until) {
		for (uint32_t job = 0; job < JOBS; job++)
			for (uint32_t host = 0; host < HOSTS; host++)
				call(&w->actors[job][host]);
		hd_sim_run(w->base.sim, hd_sim_now(w->base.sim) + SLICE);
	}
}

/* Shares off from the weights' by so much at most, and at least nine tenths of what links carry. */
static void
expect_shares(struct world *w, uint64_t rate_bps, const float weights[JOBS], double most_off) {
	const double line = (double)rate_bps / 8 * CHUNK_BYTES / FRAME_BYTES;
	double bytes[JOBS], sum = 0, weight = 0;
	uint64_t before[JOBS], failed;

	run(w, LEARN);
	memcpy(before, w->applied, sizeof(before));
	failed = w->failed;
	run(w, MEASURE);
	for (uint32_t job = 0; job < JOBS; job++) {
		bytes[job]
			= (double)(w->applied[job] - before[job]) / HOSTS * VALUES * sizeof(float);
		sum += bytes[job];
		weight += (double)weights[job];
	}
	(void
	)printf("%llu Mbit/s, weights %g:%g: shares %.1f:%.1f %%, both %.3f of the links\n",
		(unsigned long long)(rate_bps / 1000000),
		(double)weights[0],
		(double)weights[1],
		100 * bytes[0] / sum,
		100 * bytes[1] / sum,
		sum / (line * (double)MEASURE / 1e9));
	assert_int_equal(w->failed, failed);
	assert_true(sum >= 0.9 * line * (double)MEASURE / 1e9);
	for (uint32_t job = 0; job < JOBS; job++)
		assert_true(
			fabs(bytes[job] / sum / ((double)weights[job] / weight) - 1) <= most_off
		);
}

static void shares(uint64_t rate_bps, double initial_bps, float first) {
	const float weights[JOBS] = {first, 1};
	struct world *w = world_open(rate_bps, initial_bps, weights);

	expect_shares(w, rate_bps, weights, OFF);
	world_close(w);
}

static void test_slower_than_believed(void **state) {
	(void)state;
	shares(100000000, 1e9, 1);
	shares(100000000, 1e9, 2);
}

static void test_faster_than_believed(void **state) {
	(void)state;
	shares(100000000, 1e7, 1);
	shares(100000000, 1e7, 2);
}

/* One that is right stays so. */
static void test_known(void **state) {
	(void)state;
	shares(100000000, 100e6 * CHUNK_BYTES / FRAME_BYTES, 1);
	shares(100000000, 100e6 * CHUNK_BYTES / FRAME_BYTES, 3);
}

static void test_links_change(void **state) {
	static const uint64_t rates[] = {50000000, 200000000};
	const float weights[JOBS] = {2, 1};
	struct world *w = world_open(100000000, 1e9, weights);

	(void)state;
	expect_shares(w, 100000000, weights, OFF);
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		for (uint32_t host = 0; host < HOSTS; host++) {
			hd_sim_set_rate(w->base.sim, w->hosts[host], HD_SIM_UP, rates[i]);
			hd_sim_set_rate(w->base.sim, w->hosts[host], HD_SIM_DOWN, rates[i]);
		}
		expect_shares(w, rates[i], weights, OFF_AFTER);
	}
	world_close(w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slower_than_believed),
		cmocka_unit_test(test_faster_than_believed),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_links_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
