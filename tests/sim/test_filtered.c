/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers behind significance filters, in whole clusters. Each value that they compute is applied, held, in flight or
 * lost with a process, and the server's model is the sum of the applied ones. With losses, withdrawn and dropped
 * pushes, steps that end without a worker, deaths, a controller that restarts, sums of aggregators, a server that
 * restarts from its checkpoint or empty, and a replica that takes over.
 */
#include "cluster_run.h"
#include "hd_message.h"
#include "hd_random.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 4
#define RANDOM_SEEDS 12

static struct hd_dataset train, test;
static struct hd_cluster_training training;

static void draw(struct run *run, uint8_t sync, uint64_t seed) {
	struct hd_scenario *scenario = &run->scenario;

	prepare(run);
	training = (struct hd_cluster_training){.train = &train, .test = &test, .filter = 0.7f};
	run->config.training = &training;
	run->config.seed = seed;
	scenario->workers = 5;
	scenario->duration_s = 3;
	scenario->loss = 0.01;
	scenario->job.bytes_of_model = true;
	scenario->job.hidden_count = 1;
	scenario->job.hidden[0] = 32;
	scenario->job.learning_rate = 0.1;
	scenario->job.momentum = 0;
	scenario->job.weight_decay = 0;
	scenario->job.tau_max = sync == HD_SYNC_NONE ? 3 : 64;
	scenario->job.sync = sync;
	scenario->job.sync_count = sync == HD_SYNC_N || sync == HD_SYNC_N_BATCH ? 3 : 0;
	scenario->sim.cancel = 0.05;
	scenario->sim.depth = sync == HD_SYNC_NONE ? 3 : 1;
	scenario->event_count = 4;
	scenario->events[0]
		= (struct hd_scenario_event){.at_s = 0.8, .worker = 1, .what = HD_DO_KILL};
	scenario->events[1]
		= (struct hd_scenario_event){.at_s = 1.4, .worker = 1, .what = HD_DO_JOIN};
	scenario->events[2]
		= (struct hd_scenario_event){.at_s = 1.8, .worker = 2, .what = HD_DO_LEAVE};
	scenario->events[3] = (struct hd_scenario_event
	){.at_s = 2, .worker = 3, .what = HD_DO_PREEMPT, .notice_s = 0.2};
	scenario->crash_count = 1;
	scenario->crashes[0] = (struct hd_scenario_fault
	){.at_s = 1.2, .for_s = 0.3, .node = {.kind = HD_PLACE_CONTROLLER}};
	scenario->partition_count = 1;
	scenario->partitions[0] = (struct hd_scenario_fault
	){.at_s = 0.5, .for_s = 0.1, .node = {.kind = HD_PLACE_WORKER, .worker = 4}};
}

static void check_all(uint8_t sync, uint32_t aggregators) {
	uint64_t returned = 0, grouped = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct run run;

		draw(&run, sync, seed);
		if (aggregators > 0) {
			run.scenario.aggregators = aggregators;
			run.scenario.server_link_mbps = 50;
			run.scenario.aggregator_link_mbps = 1000;
			run.scenario.job.hidden[0] = 128;
			run.scenario.job.compute_ms = 10;
		}
		expect(&run, 60);
		assert_true(run.result.filtered > 20);
		assert_true(run.result.held_norm > 0);
		assert_true(run.result.crashes >= 1);
		returned += run.result.returned;
		grouped += run.result.aggregation.delivered;
	}
	print_message("%llu pushes were given back\n", (unsigned long long)returned);
	assert_true(returned > 0);
	assert_true(aggregators == 0 || grouped > 0);
}

static void test_asynchronous(void **state) {
	check_all(HD_SYNC_NONE, 0);
}

static void test_steps_of_all(void **state) {
	check_all(HD_SYNC_ALL, 0);
}

static void test_steps_of_n(void **state) {
	check_all(HD_SYNC_N, 0);
}

static void test_steps_of_n_updates(void **state) {
	check_all(HD_SYNC_N_BATCH, 0);
}

static void test_sums(void **state) {
	check_all(HD_SYNC_NONE, 1);
	check_all(HD_SYNC_ALL, 1);
}

/* --- servers that end ------------------------------------------------------------------------- */

static const struct hd_place server = {.kind = HD_PLACE_SERVER};

static void crash(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.crashes[run->scenario.crash_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

/* Commits since the checkpoint are undone; their workers have them applied again, or hold them again. */
static void check_restarts(uint8_t sync, uint32_t checkpoint_commits) {
	uint64_t undone = 0, flushed = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct run run;

		draw(&run, sync, seed);
		run.scenario.duplicate = run.scenario.reorder = 0.01;
		run.scenario.sim.checkpoint_commits = checkpoint_commits;
		run.scenario.sim.disk_ms = 20;
		crash(&run, server, 1.6, 0.2);
		crash(&run, server, 2.5, 0.2);
		expect(&run, 40);
		assert_int_equal(run.result.promotions, 0);
		assert_true(run.result.filtered > 0);
		undone += run.result.undone;
		flushed += run.result.flushed;
	}
	print_message("%" PRIu64 " commits were undone\n", undone);
	assert_true(undone > 0);
	assert_true(flushed > 0);
}

static void test_server_restarts(void **state) {
	check_restarts(HD_SYNC_NONE, 10);
	check_restarts(HD_SYNC_ALL, 10);
	check_restarts(HD_SYNC_N, 10);
}

static void test_server_begins_again(void **state) {
	check_restarts(HD_SYNC_NONE, 0);
}

static void check_replica(uint8_t sync) {
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct run run;

		draw(&run, sync, seed);
		run.scenario.replica = 1;
		run.scenario.crash_count = 0; /* the controller promotes */
		crash(&run, server, 1.5, 0.3);
		expect(&run, 40);
		assert_int_equal(run.result.promotions, 1);
		assert_true(run.result.followed > 0);
	}
}

static void test_replica(void **state) {
	check_replica(HD_SYNC_NONE);
	check_replica(HD_SYNC_ALL);
}

static void cut(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.partitions[run->scenario.partition_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static const struct hd_place the_controller = {.kind = HD_PLACE_CONTROLLER};
static const struct hd_place the_replica = {.kind = HD_PLACE_REPLICA};

/* A server, its replica and checkpoints; no faults yet. */
static void draw_two(struct run *run, uint8_t sync, uint64_t seed) {
	draw(run, sync, seed);
	run->scenario.event_count = run->scenario.crash_count = 0;
	run->scenario.partition_count = 0;
	run->scenario.replica = 1;
	run->scenario.sim.checkpoint_commits = 20;
	run->scenario.sim.disk_ms = 20;
	run->scenario.duration_s = 4;
}

/* No node is notified that the replica is to take over: the server comes back, starts alone from its checkpoint, and
 * runs until it can reach the controller again. Then the replica has updates that the checkpoint lacked. */
static void check_lost_history(uint8_t sync, bool alone) {
	uint64_t regained = 0, doubled = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct run run;

		draw_two(&run, sync, seed);
		run.scenario.duration_s = 3;
		crash(&run, server, 0.3, 0.8);
		cut(&run, the_controller, 0.85, 1.5);
		run.scenario.never_alone = !alone;
		expect(&run, 40);
		assert_int_equal(run.result.promotions, 1);
		regained += run.result.regained;
		doubled += run.result.doubled;
	}
	print_message("%" PRIu64 " came back, %" PRIu64 " doubled\n", regained, doubled);
	assert_true(regained > 0 || !alone);
	assert_true(doubled == 0 || alone);
}

static void test_lost_history_is_back(void **state) {
	(void)state;
	check_lost_history(HD_SYNC_NONE, true);
	check_lost_history(HD_SYNC_ALL, true);
}

static void test_never_alone(void **state) {
	(void)state;
	check_lost_history(HD_SYNC_NONE, false);
	check_lost_history(HD_SYNC_ALL, false);
}

struct sums {
	uint64_t undone, regained, doubled, revived;
};

static struct sums go_two(uint8_t sync, uint64_t seeds, void (*plan)(struct run *run)) {
	struct sums sums = {0};

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct run run;

		draw_two(&run, sync, seed);
		plan(&run);
		expect(&run, 40);
		sums.undone += run.result.undone;
		sums.regained += run.result.regained;
		sums.doubled += run.result.doubled;
		sums.revived += run.result.revived;
	}
	return sums;
}

/* The server, back as the replica of its replica, is to be the server again, and begins with its old checkpoint. */
static void plan_named_server(struct run *run) {
	crash(run, server, 0.3, 0.3);
	crash(run, server, 1.2, 1.3);
	crash(run, the_replica, 1.22, 0.05);
	cut(run, the_controller, 2.3, 1.2);
}

/* The replica is to be the server, and starts without a checkpoint. Workers reach it before the controller does. */
static void plan_named_replica(struct run *run) {
	run->scenario.workers = 2;
	crash(run, the_replica, 1.2, 0.9);
	crash(run, server, 1.22, 0.1);
	for (uint32_t i = 0; i < 2; i++)
		cut(run, (struct hd_place){.kind = HD_PLACE_WORKER, .worker = i}, 1.9, 1.1);
	cut(run, the_controller, 2.2, 1);
}

/* Both die, and the one to take over is not notified: the controller waits for its next incarnation, which starts
 * without its message. Until another is named it is the server all the same; no other has the updates that it lacks. */
static void test_named_unheard(void **state) {
	static void (*const plans[])(struct run * run) = {plan_named_server, plan_named_replica};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct sums sums
			= go_two(i % 2 ? HD_SYNC_ALL : HD_SYNC_NONE, SEEDS, plans[i / 2]);

		assert_true(sums.undone > 0 && sums.doubled == 0);
	}
}

static void plan_dropped_apart(struct run *run) {
	crash(run, server, 0.3, 1);
	cut(run, (struct hd_place){.kind = HD_PLACE_WORKER, .worker = 4}, 0.298, 1);
	cut(run, the_controller, 1.2, 1.5);
}

/* The replica has taken over; a worker that was cut off meanwhile finds the former server, which begins alone from an
 * old checkpoint, and drops what the replica has. */
static void test_dropped_apart(void **state) {
	(void)state;
	assert_true(go_two(HD_SYNC_NONE, UINT64_C(8) * SEEDS, plan_dropped_apart).doubled > 0);
}

static void plan_goes_on(struct run *run) {
	run->scenario.never_alone = true;
	cut(run, server, 0.3, 0.8);
	cut(run, the_controller, 0.85, 1.5);
	cut(run, the_replica, 1.05, 1.25);
}

static void plan_revived(struct run *run) {
	plan_goes_on(run);
	crash(run, server, 2.9, 0.5);
	crash(run, the_replica, 2.95, 0.05);
}

static void plan_revived_apart(struct run *run) {
	plan_goes_on(run);
	run->scenario.duration_s = 8;
	cut(run, the_replica, 2.9, 5.4); /* so soon after a promotion it is waited for, for 4 s */
	crash(run, server, 7.4, 0.4);
}

/* The server goes on, not notified of the promotion. The promoted replica, cut off from it, drops its later updates and
 * has it as its replica, then dies or is cut off; the server is to take over, is dead, and returns with old state. */
static void test_revived(void **state) {
	static void (*const plans[])(struct run * run) = {plan_revived, plan_revived_apart};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct sums sums = go_two(HD_SYNC_NONE, SEEDS, plans[i]);

		assert_true(sums.revived > 0 && sums.revived == sums.doubled);
	}
}

static void plan_copy_of_former(struct run *run) {
	cut(run, server, 1, 1.4);
	cut(run, the_controller, 2.05, 1);
	crash(run, the_replica, 2.1, 0.2);
}

/* The replica that took over dies, and comes back to the former server, which was cut off: as its copy. */
static void test_copy_of_former(void **state) {
	(void)state;
	(void)go_two(HD_SYNC_NONE, SEEDS, plan_copy_of_former);
}

static void plan_rounds_again(struct run *run) {
	struct hd_scenario_event *events = run->scenario.events;

	run->scenario.event_count = 2;
	run->scenario.sim.checkpoint_commits = 0;
	crash(run, server, 0.3, 0.8);
	cut(run, the_controller, 0.85, 1.5);
	events[0] = (struct hd_scenario_event){.at_s = 0.9, .worker = 2, .what = HD_DO_KILL};
	events[1] = (struct hd_scenario_event){.at_s = 1.2, .worker = 2, .what = HD_DO_JOIN};
}

/* A worker that is restarted counts its rounds from the start where the server does so, too. Then the replica takes
 * over, and has updates of these rounds by the worker's former incarnation. */
static void test_rounds_again(void **state) {
	(void)state;
	assert_true(go_two(HD_SYNC_NONE, SEEDS, plan_rounds_again).regained > 0);
}

/* A replica sends its request to a restarting controller before the server has registered that replica: it must repeat
 * the request, or commits that the bound holds wait for ever. */
static void test_controller_restarts_beside_replica(void **state) {
	static const double at_s[] = {1.1, 1.3};

	for (uint64_t seed = 1; seed <= 3; seed++)
		for (size_t i = 0; i < sizeof at_s / sizeof at_s[0]; i++) {
			struct run run;

			draw(&run, HD_SYNC_NONE, seed);
			run.scenario.loss = run.scenario.sim.cancel = 0;
			run.scenario.sim.depth = 1;
			run.scenario.sim.checkpoint_commits = 7;
			run.scenario.event_count = run.scenario.crash_count = 0;
			run.scenario.partition_count = 0;
			run.scenario.workers = 4;
			run.scenario.job.tau_max = 16;
			run.scenario.replica = 1;
			run.scenario.div_max = 0.3;
			crash(&run, (struct hd_place){.kind = HD_PLACE_CONTROLLER}, at_s[i], 0.5);
			expect(&run, 150);
			assert_int_equal(run.result.promotions, 0);
		}
}

/* --- at random -------------------------------------------------------------------------------- */

static double within(struct hd_random *random, const struct run *run) {
	return run->scenario.duration_s * hd_random_unit(random);
}

static struct hd_place draw_place(struct hd_random *random, const struct run *run) {
	static const uint8_t kinds[]
		= {HD_PLACE_SERVER, HD_PLACE_WORKER, HD_PLACE_CONTROLLER, HD_PLACE_REPLICA};
	uint8_t kind = kinds[hd_random_below(random, run->scenario.replica ? 4 : 3)];

	return (struct hd_place){
		.kind = kind,
		.worker = kind == HD_PLACE_WORKER ?
			(uint32_t)hd_random_below(random, run->scenario.workers) :
			0,
	};
}

/* Statement by statement: no compiler draws in another order. */
static struct hd_scenario_fault
draw_fault(struct hd_random *random, const struct run *run, double longest_s) {
	struct hd_scenario_fault fault = {.node = draw_place(random, run)};

	fault.at_s = within(random, run);
	fault.for_s = 0.01 + longest_s * hd_random_unit(random);
	return fault;
}

static void draw_faults(struct hd_random *random, struct run *run) {
	struct hd_scenario *s = &run->scenario;

	for (uint64_t i = hd_random_below(random, 3); i > 0; i--)
		s->crashes[s->crash_count++] = draw_fault(random, run, 1);
	for (uint64_t i = hd_random_below(random, 3); i > 0; i--)
		s->partitions[s->partition_count++] = draw_fault(random, run, 1.5);
	/* One event a worker: none leaves twice. */
	for (uint32_t w = 0; w + 1 < s->workers; w++) {
		static const uint8_t does[] = {HD_DO_KILL, HD_DO_LEAVE, HD_DO_PREEMPT, HD_DO_JOIN};
		struct hd_scenario_event *event;

		if (hd_random_chance(random, 0.5))
			continue;
		event = &s->events[s->event_count++];
		event->worker = w;
		event->at_s = within(random, run);
		event->what = does[hd_random_below(random, 4)];
		event->notice_s = 0.02 + hd_random_unit(random);
	}
}

/* replica: the server has one; else it comes back from its disk, or from nothing. */
static void draw_random(struct run *run, bool replica, uint64_t seed) {
	struct hd_scenario *s = &run->scenario;
	struct hd_random random;
	uint8_t sync;

	hd_random_init(&random, seed ^ UINT64_C(0x66696c746572) ^ (uint64_t)replica << 32);
	sync = (uint8_t)hd_random_below(&random, HD_SYNC_N_BATCH + 1);
	draw(run, sync, seed);
	s->event_count = s->crash_count = s->partition_count = 0;
	s->replica = replica;
	s->workers = 2 + (uint32_t)hd_random_below(&random, 5);
	if (s->job.sync_count > s->workers)
		s->job.sync_count = s->workers;
	s->duration_s = 2 + 2 * hd_random_unit(&random);
	s->job.compute_ms = 5 + 25 * hd_random_unit(&random);
	s->loss = 0.03 * hd_random_unit(&random);
	s->duplicate = 0.03 * hd_random_unit(&random);
	s->reorder = 0.03 * hd_random_unit(&random);
	s->sim.cancel = 0.1 * hd_random_unit(&random);
	s->sim.disk_ms = 30 * hd_random_unit(&random);
	if (hd_random_chance(&random, 0.7))
		s->sim.checkpoint_commits = 3 + (uint32_t)hd_random_below(&random, 30);
	if (replica && hd_random_chance(&random, 0.5))
		s->div_max = 0.01 + hd_random_unit(&random);
	training.filter = (float)(0.1 + 2 * hd_random_unit(&random));
	s->crashes[s->crash_count] = draw_fault(&random, run, 1);
	s->crashes[s->crash_count++].node = server;
	draw_faults(&random, run);
	s->never_alone = hd_random_chance(&random, 0.5);
}

/* HEDDLE_SIM_SEEDS: how many; HEDDLE_SIM_FIRST: the first. */
static void check_random(bool replica) {
	uint64_t seeds = run_seeds(RANDOM_SEEDS), first = run_first_seed();
	uint64_t undone = 0, promotions = 0, flushed = 0, returned = 0, doubled = 0;
	struct run run;

	for (uint64_t seed = first; seed < first + seeds; seed++) {
		draw_random(&run, replica, seed);
		run.config.explain = seeds == 1;
		go(&run);
		if (run.violated)
			fail_msg("seed %" PRIu64 ": %s", seed, run.failure);
		/* Only who begins alone has its workers take back what a replica may hold; or both have died, and one
		 * revives what the other had dropped. */
		assert_true(
			run.result.doubled == run.result.revived
			|| (replica && !run.scenario.never_alone)
		);
		undone += run.result.undone;
		promotions += run.result.promotions;
		flushed += run.result.flushed;
		returned += run.result.returned;
		doubled += run.result.doubled;
	}
	print_message(
		"%" PRIu64 " undone, %" PRIu64 " returned, %" PRIu64 " flushed, %" PRIu64
		" promotions, %" PRIu64 " doubled\n",
		undone,
		returned,
		flushed,
		promotions,
		doubled
	);
	if (seeds < RANDOM_SEEDS || run_only_seeds()) /* these worlds' contents are unknown */
		return;
	assert_true(undone > 0);
	assert_true(returned > 0);
	assert_true(flushed > 0);
	assert_true(promotions > 0 || !replica);
}

static void test_random_restarts(void **state) {
	check_random(false);
}

static void test_random_replicas(void **state) {
	check_random(true);
}

static struct hd_cluster_result go_known(uint64_t seed) {
	struct run run;

	draw_random(&run, true, seed);
	go(&run);
	if (run.violated)
		fail_msg("%s", run.failure);
	return run.result;
}

/* The server runs alone, is notified that its replica has taken over, and follows it. Both die, and the server comes
 * back from a checkpoint of the time that it ran alone. */
static void test_known_replica(void **state) {
	(void)state;
	assert_true(go_known(10002705).regained > 0);
}

/* The controller's choice was lost before it started: the empty replica; the server; it with what the replica undid. */
static void test_known_named(void **state) {
	static const uint64_t seeds[] = {710000189, 710002198, 710006445};

	(void)state;
	for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
		const struct hd_cluster_result result = go_known(seeds[i]);

		assert_true(result.undone > 0 && result.doubled == result.revived);
		assert_true((result.revived > 0) == (i == 2));
	}
}

static void test_refusals(void **state) {
	struct hd_cluster *cluster;
	struct run run;
	char error[256] = "";

	draw(&run, HD_SYNC_NONE, 1);
	run.scenario.job.momentum = 0.9;
	run.config.scenario = &run.scenario;
	assert_int_equal(hd_cluster_create(&run.config, &cluster, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, "job.momentum"));
	run.scenario.job.momentum = 0;
	run.scenario.job.payload = HD_DTYPE_BF16;
	assert_int_equal(hd_cluster_create(&run.config, &cluster, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, "job.payload"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asynchronous),
		cmocka_unit_test(test_steps_of_all),
		cmocka_unit_test(test_steps_of_n),
		cmocka_unit_test(test_steps_of_n_updates),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_server_restarts),
		cmocka_unit_test(test_server_begins_again),
		cmocka_unit_test(test_replica),
		cmocka_unit_test(test_lost_history_is_back),
		cmocka_unit_test(test_never_alone),
		cmocka_unit_test(test_named_unheard),
		cmocka_unit_test(test_dropped_apart),
		cmocka_unit_test(test_revived),
		cmocka_unit_test(test_copy_of_former),
		cmocka_unit_test(test_rounds_again),
		cmocka_unit_test(test_controller_restarts_beside_replica),
		cmocka_unit_test(test_random_restarts),
		cmocka_unit_test(test_random_replicas),
		cmocka_unit_test(test_known_replica),
		cmocka_unit_test(test_known_named),
		cmocka_unit_test(test_refusals),
	};
	const struct CMUnitTest random[] = {
		cmocka_unit_test(test_random_restarts),
		cmocka_unit_test(test_random_replicas),
	};
	char error[256];
	int failed;

	if (hd_dataset_open("digits", &train, &test, error, sizeof error) < 0) {
		(void)fprintf(stderr, "data: %s\n", error);
		return 1;
	}
	failed = run_only_seeds() ? cmocka_run_group_tests(random, NULL, NULL) :
				    cmocka_run_group_tests(tests, NULL, NULL);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	return failed;
}
