/* SPDX-License-Identifier: BSD-3-Clause */
/* Small updates that need not ask: what that is worth, under faults, and that the checkers see what is wrong. */
#include "cluster_run.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 20

static void small(struct run *run) {
	prepare(run);
	run->scenario.workers = WORKERS;
	run->scenario.link_mbps = 1000;
	run->scenario.server_link_mbps = 10000;
	run->scenario.queue_kb = 1024;
	run->scenario.duration_s = 2;
	run->scenario.job.compute_ms = 10;
	run->scenario.job.tau_max = 4 * WORKERS;
}

static double delay_variance(const struct hd_check_stats *s) {
	double mean = s->delay_sum / (double)s->commits;

	return s->delay_squares / (double)s->commits - mean * mean;
}

/* As fast as without a schedule, and faster than with questions; delays no more spread than without. */
static void test_pays(void **state) {
	struct run with, without, unscheduled;

	(void)state;
	small(&with);
	expect(&with, 1000);
	small(&without);
	without.scenario.sim.credit_kb = 0;
	expect(&without, 1000);
	small(&unscheduled);
	unscheduled.config.mode = HD_CLUSTER_UNSCHEDULED;
	expect(&unscheduled, 1000);
	assert_int_equal(with.result.direct_bytes, 0);
	assert_true(with.result.credited_bytes > with.result.granted_bytes / 20 * 19);
	assert_true(with.result.pushes.credits_spent > with.result.pushes.applied / 20 * 19);
	assert_int_equal(without.result.credited_bytes, 0);
	assert_int_equal(without.kinds[HD_EVENT_CREDITED], 0);
	assert_int_equal(unscheduled.result.credited_bytes, 0);
	if (with.result.pushes.applied * 100 < unscheduled.result.pushes.applied * 99
	    || with.result.pushes.applied * 20 < without.result.pushes.applied * 21)
		fail_msg(
			"%llu applied with credits, %llu without, %llu unscheduled",
			(unsigned long long)with.result.pushes.applied,
			(unsigned long long)without.result.pushes.applied,
			(unsigned long long)unscheduled.result.pushes.applied
		);
	assert_true(
		delay_variance(&with.result.pushes)
		< 1.1 * delay_variance(&unscheduled.result.pushes)
	);
}

static void spends(struct run *run, uint64_t applied) {
	expect(run, applied);
	if (run->result.pushes.credits_spent < applied / 2)
		fail_msg(
			"%llu of %llu credits spent",
			(unsigned long long)run->result.pushes.credits_spent,
			(unsigned long long)run->result.pushes.credits
		);
}

static void test_faults(void **state) {
	static const struct hd_place nodes[]
		= {{.kind = HD_PLACE_SERVER},
		   {.kind = HD_PLACE_CONTROLLER},
		   {.kind = HD_PLACE_WORKER, .worker = 3}};
	struct run run;

	(void)state;
	small(&run);
	run.scenario.loss = 0.02;
	run.scenario.duplicate = 0.02;
	run.scenario.reorder = 0.1;
	spends(&run, 500);
	for (int i = 0; i < 3; i++) {
		small(&run);
		run.scenario.duration_s = 4;
		run.scenario.sim.checkpoint_commits = 50;
		run.scenario.crashes[run.scenario.crash_count++]
			= (struct hd_scenario_fault){.at_s = 1, .for_s = 0.2, .node = nodes[i]};
		run.scenario.partitions[run.scenario.partition_count++]
			= (struct hd_scenario_fault){.at_s = 2, .for_s = 1.5, .node = nodes[i]};
		spends(&run, 1000);
		/* Without a controller all workers spend their credits. */
		assert_true(run.result.pushes.credits_ended > 0 || i == 1);
	}
}

/* Pushes of every type, several of a worker in flight, some withdrawn. */
static void test_payloads(void **state) {
	static const uint8_t types[]
		= {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_SPARSE32};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof types; i++) {
		small(&run);
		run.scenario.duration_s = 1;
		run.scenario.job.payload = types[i];
		run.scenario.sim.depth = 1 + (uint32_t)i % 2;
		run.scenario.sim.cancel = 0.05;
		spends(&run, 300);
	}
}

/* At twice the workers the bound leaves just room for them: workers that ask for grants as well see no more drops than
 * without. */
static void test_tight_bound(void **state) {
	struct run with, without;

	(void)state;
	small(&with);
	with.scenario.job.tau_max = 2 * WORKERS;
	with.scenario.compute = (struct hd_variation
	){.kind = HD_VARIATION_FRACTION, .fraction = 0.2, .factor = 2.5};
	without = with;
	without.config.owner = &without;
	without.scenario.sim.credit_kb = 0;
	expect(&with, 500);
	expect(&without, 500);
	assert_true(with.result.pushes.credits_spent > 0);
	assert_true(
		with.result.pushes.dropped * without.result.pushes.pushed
		<= without.result.pushes.dropped * with.result.pushes.pushed
			+ with.result.pushes.pushed * without.result.pushes.pushed / 50
	);
}

/* --- lies --- */

static void
feed(struct hd_check *check,
     enum hd_event_kind kind,
     uint32_t round,
     uint64_t position,
     uint64_t bytes) {
	struct hd_event event = {
		.kind = kind,
		.token = 9,
		.worker = 2,
		.round = round,
		.position = position,
		.bytes = bytes,
	};

	hd_check_credits(check, &event, kind != HD_EVENT_CREDITED);
}

static void judge(struct hd_check *check, const char *violation) {
	const char *failure = hd_check_failure(check);

	if (!violation) {
		assert_null(failure);
	} else {
		assert_non_null(failure);
		assert_non_null(strstr(failure, violation));
	}
	hd_check_destroy(check);
}

static struct hd_check *credited(void) {
	struct hd_check *check;

	assert_int_equal(hd_check_create(100, 4, &check), 0);
	feed(check, HD_EVENT_CREDITED, 5, 11, 400);
	return check;
}

static void test_lies_are_seen(void **state) {
	struct hd_check *check = credited();

	(void)state;
	feed(check, HD_EVENT_COMMITTED, 5, 11, 400);
	judge(check, NULL);
	check = credited();
	feed(check, HD_EVENT_COMMITTED, 6, 11, 400);
	judge(check, "on a credit for round 5");
	check = credited();
	feed(check, HD_EVENT_COMMITTED, 5, 12, 400);
	judge(check, "committed at 12");
	check = credited();
	feed(check, HD_EVENT_COMMITTED, 5, 11, 404);
	judge(check, "404 bytes on a credit of 400");
	check = credited();
	feed(check, HD_EVENT_VOIDED, 5, 11, 0);
	feed(check, HD_EVENT_COMMITTED, 5, 11, 400);
	judge(check, "had ended");
	check = credited();
	feed(check, HD_EVENT_COMMITTED, 5, 11, 400);
	feed(check, HD_EVENT_COMMITTED, 5, 11, 400);
	judge(check, "had ended");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pays),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test(test_tight_bound),
		cmocka_unit_test(test_lies_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
