/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Federated rounds in whole clusters. The checker looks at each step: all members have its base, none is in it twice,
 * none was applied with another weight than it was pushed with, and the model moves by the weighted mean, bit for bit;
 * over every way that updates take, and whatever dies.
 */
#include "cluster_run.h"
#include "hd_random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 40

/* Had a fault once: a step of those that were drawn, and of one in whose place another had been. */
static const uint64_t known_seeds[] = {1325};
#define KNOWN (sizeof(known_seeds) / sizeof(known_seeds[0]))

static const struct hd_place server = {.kind = HD_PLACE_SERVER};

static void prepare_rounds(struct run *run, uint32_t clients, uint32_t least) {
	prepare(run);
	run->scenario.workers = 6;
	run->scenario.job.sync = HD_SYNC_FEDERATED;
	run->scenario.job.federated = (struct hd_federated){
		.clients = clients,
		.clients_least = least,
		.available = 6,
		.epochs = 1,
		.seed = 7,
	};
}

static void test_all_modes(void **state) {
	struct run run;

	(void)state;
	for (enum run_mode mode = 0; mode < RUN_MODES; mode++) {
		const struct hd_check_stats *s = &run.result.pushes;

		prepare_rounds(&run, 4, 1);
		choose_mode(&run, mode);
		expect(&run, mode == RUN_AGGREGATED ? 60 : 150);
		/* All that were drawn, but who gave nothing. */
		if ((double)s->commits < 3.2 * (double)s->steps)
			fail_msg(
				"way %d: %" PRIu64 " in %" PRIu64, (int)mode, s->commits, s->steps
			);
		assert_true(s->weight > (double)s->commits);
		if (mode == RUN_AGGREGATED)
			assert_true(run.result.aggregation.delivered > 10);
	}
}

static void test_payloads(void **state) {
	static const uint8_t payloads[]
		= {HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32, HD_DTYPE_SPARSE32};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof payloads; i++) {
		prepare_rounds(&run, 3, 1);
		run.scenario.job.payload = payloads[i];
		expect(&run, 100);
	}
}

/* A slow worker misses the deadline, and its update has an old base. */
static void prepare_deadline(struct run *run) {
	prepare_rounds(run, 6, 2);
	run->scenario.job.federated.deadline_ms = 60;
	run->scenario.compute = (struct hd_variation
	){.kind = HD_VARIATION_REDRAW, .low = 1, .high = 6, .every_s = 0.2};
}

static void test_deadline(void **state) {
	struct run run;

	(void)state;
	prepare_deadline(&run);
	expect(&run, 100);
	assert_true(run.result.pushes.steps_short > 10);
}

/* The same, and what is late counts: less, in the step of another round. */
static void test_late(void **state) {
	struct run run;

	(void)state;
	for (enum run_mode mode = 0; mode < RUN_MODES; mode++) {
		prepare_deadline(&run);
		choose_mode(&run, mode);
		run.scenario.sim.depth = 4;
		run.scenario.job.tau_max = 5;
		run.scenario.job.federated.late = HD_LATE_WEIGHT;
		expect(&run, 60);
		assert_true(run.result.pushes.late > 20);
		/* Clients weigh 43.5 on the average. */
		assert_true(run.result.pushes.weight < 40 * (double)run.result.pushes.commits);
	}
}

static void crash(struct run *run, uint8_t kind, uint32_t which, double at_s) {
	run->scenario.crashes[run->scenario.crash_count++] = (struct hd_scenario_fault
	){.at_s = at_s, .for_s = 0.3, .node = {.kind = kind, .worker = which}};
}

/* Members of weighted sums die while their updates are in flight to an aggregator, each of them once, and the
 * aggregator itself. A weight goes with its update, in every type that sums are added in, and whether late updates
 * count or not. */
static void test_group_deaths(void **state) {
	static const uint8_t payloads[] = {HD_DTYPE_FP32, HD_DTYPE_FIXED32, HD_DTYPE_BF16};
	uint64_t undelivered = 0;
	struct run run;

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		prepare_rounds(&run, 6, 1);
		run.scenario.duration_s = 6;
		choose_mode(&run, RUN_AGGREGATED);
		run.scenario.job.payload = payloads[i / 2];
		run.scenario.job.federated.late = i % 2 ? HD_LATE_WEIGHT : HD_LATE_DROP;
		run.scenario.job.federated.deadline_ms = i % 2 ? 300 : 0;
		run.scenario.sim.depth = i % 2 ? 4 : 1;
		for (uint32_t worker = 0; worker < 6; worker++)
			crash(&run, HD_PLACE_WORKER, worker, 0.6 + 0.53 * worker);
		crash(&run, HD_PLACE_AGGREGATOR, 0, 4.2);
		expect(&run, 60);
		assert_true(run.result.crashes >= 7);
		assert_true(run.result.aggregation.delivered > 5);
		undelivered += run.result.aggregation.groups - run.result.aggregation.delivered;
		/* No worker that dies takes more than one sum along, */
		assert_true(
			run.result.aggregation.groups - run.result.aggregation.delivered
			<= run.result.crashes
		);
	}
	assert_true(undelivered >= 3); /* and some die in the network. */
}

/* The server comes back from a checkpoint; new rounds get numbers that no former incarnation used. */
static void test_server_restarts(void **state) {
	struct run run;

	(void)state;
	for (int replica = 0; replica < 2; replica++) {
		prepare_rounds(&run, 4, 2);
		run.scenario.sim.checkpoint_commits = 8;
		run.scenario.replica = replica;
		run.scenario.crashes[run.scenario.crash_count++]
			= (struct hd_scenario_fault){.at_s = 2, .for_s = 0.3, .node = server};
		expect(&run, 80);
		assert_int_equal(run.result.promotions, replica);
	}
}

/* Half of the clients are gone for longer than a round waits for them: the others are notified, their updates are kept,
 * and rounds go on when the lost clients come back. Without a limit no client is notified. */
static void test_lacks(void **state) {
	struct run run;

	(void)state;
	for (uint32_t limited = 0; limited < 2; limited++) {
		prepare_rounds(&run, 5, 4);
		run.scenario.duration_s = 16;
		run.scenario.job.federated.wait_ms = limited ? 400 : 0;
		for (uint32_t worker = 0; worker < 3; worker++) {
			crash(&run, HD_PLACE_WORKER, worker, 1);
			run.scenario.crashes[worker].for_s = 8;
		}
		expect(&run, 60);
		assert_int_equal(run.result.crashes, 3);
		assert_true(run.stall > 5 * HD_SECOND);
		/* A session is given up after some seconds; then three are told, every 400 ms. */
		assert_int_equal(run.result.lacked > 0, limited);
		assert_int_equal(run.result.lacked % 3, 0);
		assert_true(run.committed > 12 * HD_SECOND);
	}
}

/* The fault matrix of asynchronous jobs, with rounds; HEDDLE_SIM_SEEDS of them from HEDDLE_SIM_FIRST on. */
static void test_seeds(void **state) {
	uint64_t seeds = run_seeds(SEEDS), first = run_first_seed();
	struct hd_random random;
	struct run run;

	(void)state;
	for (uint64_t k = run_only_seeds() ? KNOWN : 0; k < seeds + KNOWN; k++) {
		uint64_t i = k < KNOWN ? known_seeds[k] : first + k - KNOWN;
		struct hd_scenario_job *job = &run.scenario.job;
		struct hd_federated *f = &job->federated;

		prepare_drawn(&run, i);
		hd_random_init(&random, run.config.seed ^ UINT64_C(0x726f756e6473));
		job->sync = HD_SYNC_FEDERATED;
		*f = (struct hd_federated){.epochs = 1, .seed = run.config.seed};
		f->clients = 1 + (uint32_t)hd_random_below(&random, run.scenario.workers);
		f->clients_least = 1 + (uint32_t)hd_random_below(&random, f->clients);
		f->deadline_ms = hd_random_chance(&random, 0.5) ?
			20 + (uint32_t)hd_random_below(&random, 400) :
			0;
		f->drops = hd_random_chance(&random, 0.5);
		f->wait_ms = (uint32_t)hd_random_below(&random, 2000);
		f->late = hd_random_chance(&random, 0.5) ? HD_LATE_WEIGHT : HD_LATE_DROP;
		go(&run);
		if (run.violated)
			fail_msg(
				"seed %" PRIu64 ": drawn from %" PRIu64
				", mode %d, clients %u of at least %u, deadline %u ms, late %u: %s",
				i,
				run.config.seed,
				(int)run.config.mode,
				f->clients,
				f->clients_least,
				f->deadline_ms,
				f->late,
				run.failure
			);
	}
}

static void test_deterministic(void **state) {
	struct run run;

	(void)state;
	prepare_rounds(&run, 4, 1);
	run.scenario.loss = 0.02;
	expect_same(&run);
	assert_false(run.violated);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_modes),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_group_deaths),
		cmocka_unit_test(test_server_restarts),
		cmocka_unit_test(test_lacks),
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_deterministic),
	};

	if (argc > 1 || run_only_seeds())
		cmocka_set_test_filter(argc > 1 ? argv[1] : "test_seeds");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
