/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole clusters with a replica: it follows bit for bit within div_max, takes over from a server that dies, and the
 * loss of one of the two loses no durable update. Faults come one at a time, then at random.
 */
#include "cluster_run.h"
#include "hd_message.h"
#include "hd_random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 40
/* Worlds that failed once. A promoted replica that is killed: workers are back before the controller's message; or one
 * that was cut off falls back to the old, empty server. A server that dies before its replica has caught up starts
 * again, and its first version is the replica's before any other node has seen it. Steps that wait. A worker that is
 * restarted at a server that is cut off, and then joins the other one. A promoted replica that restarts. */
static const struct known {
	uint64_t seed;
	bool sums, steps, controller; /* drawn since there are any */
} known_seeds[]
	= {{20036, false, false, false},
	   {30540, false, false, false},
	   {61313, true, false, false},
	   {400023, true, true, false},
	   {200000037, true, true, true},
	   {770004195, true, true, true},
	   {820008219, true, true, true}};
#define KNOWN (sizeof(known_seeds) / sizeof(known_seeds[0]))

static const struct hd_place server = {.kind = HD_PLACE_SERVER};
static const struct hd_place replica = {.kind = HD_PLACE_REPLICA};
static const struct hd_place aggregator = {.kind = HD_PLACE_AGGREGATOR};
static const struct hd_place worker1 = {.kind = HD_PLACE_WORKER, .worker = 1};

static void prepare_replica(struct run *run) {
	prepare(run);
	run->scenario.replica = 1;
}

static void crash(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.crashes[run->scenario.crash_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void cut(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.partitions[run->scenario.partition_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void test_follows(void **state) {
	static const uint8_t payloads[]
		= {HD_DTYPE_FP32, HD_DTYPE_BF16, HD_DTYPE_SPARSE32, HD_DTYPE_FIXED32};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof payloads; i++) {
		prepare_replica(&run);
		run.scenario.job.payload = payloads[i];
		expect(&run, 400);
		assert_int_equal(run.result.promotions, 0);
		assert_true(run.result.followed > 200);
		/* Every update came by itself, but for those before the replica had a state. */
		assert_true(run.kinds[HD_EVENT_REPLICATED] > 300);
		assert_int_equal(run.kinds[HD_EVENT_SEEDED], 1);
		assert_true(run.kinds[HD_EVENT_DURABLE] > 100);
	}
}

/* A replica that was cut off comes back and is sent a state; the server dies before that is there. */
static void prepare_out_of_step(struct run *run, uint32_t checkpoint_commits) {
	prepare_replica(run);
	run->scenario.duration_s = 6;
	run->scenario.job.update_bytes = 1204264;
	run->scenario.sim.checkpoint_commits = checkpoint_commits;
	cut(run, replica, 1.5, 1.2);
	crash(run, server, 2.9, 0.2);
}

/* The server comes back with nothing: what its replica holds, of before it was cut off, is gone on from. */
static void test_comes_back_with_nothing(void **state) {
	struct run run;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		prepare_out_of_step(&run, 0);
		run.config.seed = seed;
		expect(&run, 20);
		assert_int_equal(run.result.promotions, 1);
		assert_true(run.kinds[HD_EVENT_ROLLED_BACK] > 0);
		/* All of the first 1.5 s is there. */
		assert_true(2 * run.result.pushes.rolled_back < run.result.pushes.commits);
	}
}

/* Its checkpoint is newer than that: no replica takes over. */
static void test_comes_back_with_more(void **state) {
	struct run run;

	(void)state;
	prepare_out_of_step(&run, 2);
	expect(&run, 20);
	assert_int_equal(run.result.promotions, 0);
	assert_true(run.result.pushes.rolled_back < 8);
}

/* A server that was killed, and that one worker still takes for the server: it begins from its checkpoint when it has
 * not heard the controller for a while, but what it does is lost when that is back, and nothing of it was durable. */
static void test_begins_alone(void **state) {
	static const struct hd_place controller = {.kind = HD_PLACE_CONTROLLER};
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.duration_s = 8;
	run.scenario.sim.checkpoint_commits = 4;
	crash(&run, server, 1.5, 0.02);
	cut(&run, worker1, 1.49, 0.2);
	cut(&run, controller, 1.55, 3);
	expect(&run, 200);
	assert_int_equal(run.result.promotions, 1);
	assert_true(run.result.pushes.rolled_back > 20);
}

/* Steps are whole numbers of a known size here; the bound lets a few of them wait. */
static void test_bound(void **state) {
	struct run near, far;

	(void)state;
	prepare_replica(&far);
	far.scenario.div_max = 1e9;
	expect(&far, 300);
	assert_true(far.result.farthest > 0);
	prepare_replica(&near);
	near.scenario.div_max = far.result.farthest * 0.8;
	expect(&near, 100);
	assert_true(near.result.farthest > 0);
	assert_true(near.result.farthest <= near.scenario.div_max * 1.0001);
}

static void test_server_dies(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	crash(&run, server, 1.5, 0.3);
	expect(&run, 200);
	assert_int_equal(run.result.promotions, 1);
	/* Few were lost with it: those that the replica had not got yet. */
	assert_true(run.result.pushes.rolled_back < 12);
}

/* The one that was killed comes back as the other's replica, and takes over in its turn. */
static void test_there_and_back(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.duration_s = 12;
	crash(&run, server, 1.5, 0.3);
	crash(&run, replica, 6, 0.3);
	crash(&run, server, 10.5, 0.3);
	expect(&run, 600);
	assert_int_equal(run.result.promotions, 3);
}

/* No worker keeps updates that are in a checkpoint, not even for a replica that joins later and has begun to copy: it
 * must be told so at once, as commits that div_max holds wait for it. */
static void test_comes_back_beside_checkpoints(void **state) {
	const struct hd_scenario_node_event kill = {3, server, HD_DO_KILL},
					    start = {5, server, HD_DO_JOIN};
	struct run run;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		prepare_replica(&run);
		run.config.seed = seed;
		run.scenario.workers = 8;
		run.scenario.duration_s = 12;
		run.scenario.job.update_bytes = 1204264;
		run.scenario.job.tau_max = 16;
		run.scenario.job.compute_ms = 150;
		run.scenario.div_max = 3000;
		run.scenario.sim.checkpoint_commits = 4;
		run.scenario.node_events[run.scenario.node_event_count++] = kill;
		run.scenario.node_events[run.scenario.node_event_count++] = start;
		expect(&run, 100);
		assert_int_equal(run.result.promotions, 1);
		assert_true(run.kinds[HD_EVENT_SEEDED] >= 2);
		/* HD_SILENCE_US until the server counts as dead; 5 s until a copy counts as stuck. */
		assert_true(run.stall < 2 * HD_SECOND);
	}
}

static void test_replica_dies(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.div_max = 1;
	crash(&run, replica, 1.5, 0.5);
	expect(&run, 100);
	assert_int_equal(run.result.promotions, 0);
	assert_true(run.kinds[HD_EVENT_SEEDED] >= 2);
}

/* The worker that holds the bytes dies before they are copied: a state replaces them. */
static void test_worker_dies(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	crash(&run, worker1, 1, 0.5);
	crash(&run, worker1, 2, 0.5);
	expect(&run, 250);
	assert_int_equal(run.result.promotions, 0);
}

static void test_cut_off(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.duration_s = 8;
	cut(&run, replica, 1, 2);
	cut(&run, server, 5, 1.5);
	expect(&run, 200);
}

static void test_loss(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.loss = 0.02;
	run.scenario.reorder = 0.02;
	run.scenario.duplicate = 0.02;
	crash(&run, server, 2, 0.3);
	expect(&run, 50);
	assert_int_equal(run.result.promotions, 1);
}

/* Most updates come in sums. */
static void prepare_sums(struct run *run) {
	prepare_replica(run);
	run->scenario.workers = 8;
	run->scenario.link_mbps = 400;
	run->scenario.server_link_mbps = 100;
	run->scenario.aggregators = 1;
	run->scenario.aggregator_link_mbps = 1600;
	run->scenario.job.update_bytes = 131072;
	run->scenario.job.tau_max = 64;
	run->scenario.sim.credit_kb = 0;
	run->scenario.sim.depth = 2;
}

/* No worker holds a sum to copy: aggregators send sums to the replica as well. */
static void test_beside_aggregators(void **state) {
	static const uint8_t payloads[]
		= {HD_DTYPE_FP32, HD_DTYPE_BF16, HD_DTYPE_FIXED32, HD_DTYPE_SPARSE32};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof payloads; i++) {
		prepare_sums(&run);
		run.scenario.job.payload = payloads[i];
		expect(&run, 200);
		assert_true(run.result.aggregation.delivered > 20);
		/* One for each sum before; now one for the sums that come while too many are in flight. */
		assert_in_range(
			run.kinds[HD_EVENT_SEEDED], 1, run.result.aggregation.delivered / 20
		);
		assert_true(run.kinds[HD_EVENT_REPLICATED] > 10 * run.kinds[HD_EVENT_SEEDED]);
		prepare_sums(&run);
		crash(&run, server, 2.5, 0.3);
		expect(&run, 100);
		assert_int_equal(run.result.promotions, 1);
	}
}

/* Sums whose aggregator dies, or that are lost in the network: states replace them. */
static void test_sums_that_do_not_come(void **state) {
	struct run run;

	(void)state;
	prepare_sums(&run);
	crash(&run, aggregator, 1, 0.3);
	crash(&run, aggregator, 2, 0.3);
	expect(&run, 100);
	prepare_sums(&run);
	run.scenario.loss = 0.02;
	cut(&run, replica, 1, 0.6);
	crash(&run, server, 2.5, 0.3);
	expect(&run, 50);
	assert_int_equal(run.result.promotions, 1);
}

/* A step of several is added up again at the replica: single updates are copied, sums come beside the server's. One
 * state, the first, is all that it takes. */
static void test_steps(void **state) {
	static const struct {
		uint8_t sync, payload, aggregators;
	} rows[] = {
		{HD_SYNC_ALL, HD_DTYPE_FP32, 0},
		{HD_SYNC_N, HD_DTYPE_SPARSE32, 0},
		{HD_SYNC_N_BATCH, HD_DTYPE_FP16, 0},
		{HD_SYNC_ALL, HD_DTYPE_BF16, 1},
		{HD_SYNC_N, HD_DTYPE_FP32, 1},
		{HD_SYNC_N_BATCH, HD_DTYPE_FIXED32, 1},
	};
	uint64_t delivered = 0;
	struct run run;

	(void)state;
	for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
		prepare_replica(&run);
		run.scenario.job.sync = rows[i / 2].sync;
		run.scenario.job.sync_count = rows[i / 2].sync == HD_SYNC_ALL ? 0 : 3;
		run.scenario.job.payload = rows[i / 2].payload;
		run.scenario.aggregators = rows[i / 2].aggregators;
		run.scenario.aggregator_link_mbps = 1000;
		if (rows[i / 2].aggregators > 0)
			run.scenario.job.update_bytes = 400000;
		if (i % 2 == 1)
			crash(&run, server, 2.5, 0.3);
		expect(&run, 60);
		assert_int_equal(run.result.promotions, i % 2);
		assert_true(run.result.followed > run.result.pushes.steps);
		assert_in_range(run.kinds[HD_EVENT_SEEDED], 1 + i % 2, 3 + i % 2);
		delivered += run.result.aggregation.delivered;
		if (rows[i / 2].aggregators > 0)
			assert_true(run.result.aggregation.delivered > 0);
		else /* but for the steps before its first state */
			assert_true(
				run.kinds[HD_EVENT_REPLICATED] + 30 > run.result.pushes.applied
			);
	}
	assert_true(delivered > 180); /* 30 in each; by the seed 5 to 60, 40 in the mean */
}

static void test_states_only(void **state) {
	struct run run;

	(void)state;
	prepare_replica(&run);
	run.scenario.replicate_every = 20;
	crash(&run, server, 2.5, 0.3);
	expect(&run, 150);
	assert_int_equal(run.kinds[HD_EVENT_REPLICATED], 0);
	assert_true(run.kinds[HD_EVENT_SEEDED] >= 4);
	assert_int_equal(run.result.promotions, 1);
}

static struct hd_place draw_place(struct hd_random *random, uint32_t workers) {
	switch (hd_random_below(random, 3)) {
	case 0:
		return server;
	case 1:
		return replica;
	default:
		return (struct hd_place){
			.kind = HD_PLACE_WORKER,
			.worker = (uint32_t)hd_random_below(random, workers),
		};
	}
}

/* NULL: a seed like any other. */
static const struct known *find_known(uint64_t seed) {
	for (size_t i = 0; i < KNOWN; i++)
		if (known_seeds[i].seed == seed)
			return &known_seeds[i];
	return NULL;
}

/* Sums, in two of three; by draws of their own. */
static void draw_aggregators(uint64_t seed, struct run *run) {
	struct hd_scenario *s = &run->scenario;
	const struct known *known = find_known(seed);
	struct hd_random random;

	hd_random_init(&random, seed ^ UINT64_C(0x73756d73));
	if ((known && !known->sums) || hd_random_chance(&random, 1.0 / 3))
		return;
	s->workers += 4;
	s->link_mbps = 400;
	s->server_link_mbps = 100;
	s->aggregators = 1 + (uint32_t)hd_random_below(&random, 2);
	s->aggregator_link_mbps = 100 + 1500 * hd_random_unit(&random);
	s->job.tau_max += 16;
	s->sim.credit_kb = 0;
	if (hd_random_chance(&random, 0.3))
		s->job.payload = HD_DTYPE_FIXED32;
	if (hd_random_chance(&random, 0.3))
		crash(run, aggregator, s->duration_s * hd_random_unit(&random), 0.3);
	if (hd_random_chance(&random, 0.3))
		cut(run, aggregator, s->duration_s * hd_random_unit(&random), 0.5);
}

static void draw(uint64_t seed, struct run *run) {
	static const uint8_t payloads[] = {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_SPARSE32};
	struct hd_scenario *s = &run->scenario;
	struct hd_random random;

	prepare_replica(run);
	hd_random_init(&random, seed ^ UINT64_C(0x7265706c696361));
	run->config.seed = seed;
	s->workers = 1 + (uint32_t)hd_random_below(&random, 6);
	s->duration_s = 3 + 3 * hd_random_unit(&random);
	s->job.update_bytes = 4 * (1 + hd_random_below(&random, 20000));
	s->job.payload = payloads[hd_random_below(&random, 3)];
	s->job.tau_max = s->workers + 1 + (uint32_t)hd_random_below(&random, 8);
	s->job.compute_ms = 30 * hd_random_unit(&random);
	s->sim.depth = 1 + (uint32_t)hd_random_below(&random, 2);
	if (hd_random_chance(&random, 0.5))
		s->sim.checkpoint_commits = 5 + (uint32_t)hd_random_below(&random, 30);
	if (hd_random_chance(&random, 0.5))
		s->div_max = 1 + 5000 * hd_random_unit(&random);
	if (hd_random_chance(&random, 0.2))
		s->replicate_every = 1 + (uint32_t)hd_random_below(&random, 30);
	if (hd_random_chance(&random, 0.5))
		s->loss = 0.03 * hd_random_unit(&random);
	for (uint64_t i = hd_random_below(&random, 3); i > 0; i--)
		crash(run,
		      draw_place(&random, s->workers),
		      s->duration_s * hd_random_unit(&random),
		      0.01 + 1.5 * hd_random_unit(&random));
	for (uint64_t i = hd_random_below(&random, 3); i > 0; i--)
		cut(run,
		    draw_place(&random, s->workers),
		    s->duration_s * hd_random_unit(&random),
		    0.01 + 2 * hd_random_unit(&random));
}

/* A synchronous job, in one of three. */
static void draw_steps(uint64_t seed, struct run *run) {
	struct hd_scenario_job *job = &run->scenario.job;
	const struct known *known = find_known(seed);
	struct hd_random random;

	hd_random_init(&random, seed ^ UINT64_C(0x7374657073));
	if ((known && !known->steps) || !hd_random_chance(&random, 1.0 / 3))
		return;
	job->sync = (uint8_t)(1 + hd_random_below(&random, HD_SYNC_N_BATCH));
	if (job->sync != HD_SYNC_ALL)
		job->sync_count = 1 + (uint32_t)hd_random_below(&random, run->scenario.workers);
}

/* The controller, too, in one of three. */
static void draw_controller(uint64_t seed, struct run *run) {
	static const struct hd_place controller = {.kind = HD_PLACE_CONTROLLER};
	double duration_s = run->scenario.duration_s;
	const struct known *known = find_known(seed);
	struct hd_random random;

	hd_random_init(&random, seed ^ UINT64_C(0x636f6e74726f6c));
	if ((known && !known->controller) || !hd_random_chance(&random, 1.0 / 3))
		return;
	if (hd_random_chance(&random, 0.6))
		crash(run,
		      controller,
		      duration_s * hd_random_unit(&random),
		      0.01 + 1.5 * hd_random_unit(&random));
	if (hd_random_chance(&random, 0.6))
		cut(run,
		    controller,
		    duration_s * hd_random_unit(&random),
		    0.01 + 2 * hd_random_unit(&random));
}

/* HEDDLE_SIM_SEEDS: how many; HEDDLE_SIM_FIRST: the first. */
static void test_random(void **state) {
	uint64_t seeds = run_seeds(SEEDS), first = run_first_seed(), promotions = 0;
	struct run run;

	(void)state;
	for (uint64_t i = run_only_seeds() ? KNOWN : 0; i < seeds + KNOWN; i++) {
		uint64_t seed = i < KNOWN ? known_seeds[i].seed : first + i - KNOWN;

		draw(seed, &run);
		draw_aggregators(seed, &run);
		draw_steps(seed, &run);
		draw_controller(seed, &run);
		run.config.explain = seeds == 1;
		go(&run);
		promotions += run.result.promotions;
		if (run.violated)
			fail_msg("seed %" PRIu64 ": %s", seed, run.failure);
	}
	if (seeds >= SEEDS)
		assert_true(promotions > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows),
		cmocka_unit_test(test_comes_back_with_nothing),
		cmocka_unit_test(test_comes_back_with_more),
		cmocka_unit_test(test_begins_alone),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_server_dies),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_comes_back_beside_checkpoints),
		cmocka_unit_test(test_replica_dies),
		cmocka_unit_test(test_worker_dies),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_beside_aggregators),
		cmocka_unit_test(test_sums_that_do_not_come),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_states_only),
		cmocka_unit_test(test_random),
	};
	const struct CMUnitTest random[] = {cmocka_unit_test(test_random)};

	return run_only_seeds() ? cmocka_run_group_tests(random, NULL, NULL) :
				  cmocka_run_group_tests(tests, NULL, NULL);
}
