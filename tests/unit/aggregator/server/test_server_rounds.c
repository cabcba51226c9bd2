/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of federated jobs at the server: who is drawn, when a round ends, what its mean is, and mu. */
#include "server_rounds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The weighted mean: w_t - w_k of clients at [1, 2], [3, -1], [0.5, 0] with 10, 30, 60 rows, from w_t = 0. */
static void test_mean(void **state) {
	static const float solution[3][2] = {{1, 2}, {3, -1}, {0.5F, 0}};
	static const float rows[] = {10, 30, 60};
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 3; i++) {
		const float delta[2] = {-solution[i][0], -solution[i][1]};

		assert_int_equal(rounds_drawn(&f, i), 1);
		rounds_work(&f, i, rows[i], 1, true);
		rounds_give(&f, i, rows[i], delta);
	}
	assert_int_equal(rounds_sent(&f, 3)->epochs, 20);
	rounds_moved(&f, 0, 0);
	rounds_weights(&f, 100, 0);
	rounds_work(&f, 3, 5, 1, false); /* its weight goes with it */
	net_run(&f.net, 30 * HD_MS);
	rounds_moved(&f, 1.3, -0.1);
	rounds_weights(&f, 100, 100);
	assert_int_equal(rounds_outcome(&f, 2), HD_OUTCOME_APPLIED);
	assert_int_equal(rounds_drawn(&f, 0), 2);
	rounds_close(&f);
}

/* One dies with a part of its update sent; the round ends without it and its weight. */
static void test_death(void **state) {
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	const float delta[2] = {-1, 1};
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	rounds_give(&f, 0, 100, delta);
	rounds_give(&f, 1, 300, (const float[2]){-5, 0});
	rounds_work(&f, 2, 1000, 1, true);
	rounds_lose(&f, 2);
	rounds_give(&f, 3, 100, delta);
	rounds_moved(&f, 0, 0);
	net_run(&f.net, 5 * HD_SECOND); /* until its session is given up */
	rounds_moved(&f, (100 + 1500 + 100) / 500.0, -200 / 500.0);
	rounds_close(&f);
}

static void test_deadline(void **state) {
	const struct hd_federated rounds = rounds_of(4, 2, 1000);
	const float delta[2] = {-1, 0};
	hd_version base;
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	base = rounds_sent(&f, 3)->version;
	assert_in_range(rounds_sent(&f, 0)->left_ms, 900, 1000);
	rounds_give(&f, 0, 3, delta);
	net_run(&f.net, 2 * HD_SECOND);
	rounds_moved(&f, 0, 0); /* one is not enough, late or not */
	rounds_give(&f, 1, 1, (const float[2]){-3, 0});
	rounds_moved(&f, 1.5, 0);
	/* A client that comes now is late, whatever it has. */
	rounds_give_at(&f, 3, 1000, delta, base);
	assert_int_equal(rounds_outcome(&f, 3), HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f.worker[3], 1)->reason, HD_REASON_LATE);
	rounds_moved(&f, 1.5, 0);
	rounds_close(&f);
}

/* Two of five are drawn each time, by seed and round only; the others' updates do not count. */
static void test_draws(void **state) {
	struct hd_federated rounds = rounds_of(2, 1, 0);
	uint32_t most[2] = {0, 0}, sets[2][8], ever = 0;
	const float delta[2] = {0, 0};
	struct rounds f;

	(void)state;
	rounds.seed = 3;
	rounds.available = 5;
	for (int process = 0; process < 2; process++) {
		rounds_open(&f, &rounds, ROUNDS_WORKERS);
		for (uint32_t round = 1; round <= 8; round++) {
			uint32_t set = 0, places = 0;

			for (uint16_t i = 0; i < ROUNDS_WORKERS; i++) {
				if (rounds_drawn(&f, i) != round)
					continue;
				set |= 1U << i;
				places |= 1U << rounds_sent(&f, i)->place;
			}
			assert_int_equal(__builtin_popcount(set), 2);
			assert_int_equal(places, 3);
			sets[process][round - 1] = set;
			ever |= set;
			most[process]++;
			for (uint16_t i = 0; i < ROUNDS_WORKERS; i++)
				if (set >> i & 1)
					rounds_give(&f, i, 1, delta);
		}
		rounds_close(&f);
	}
	assert_int_equal(most[0], most[1]);
	assert_memory_equal(sets[0], sets[1], sizeof sets[0]);
	assert_int_equal(ever, 31);
}

static void test_not_drawn(void **state) {
	struct hd_federated rounds = rounds_of(2, 1, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++) {
		if (rounds_drawn(&f, i) != 0)
			continue;
		rounds_give_at(
			&f,
			i,
			5,
			(const float[2]){1, 1},
			hd_server_version(f.net.server, f.worker[0]->job)
		);
		assert_int_equal(rounds_outcome(&f, i), HD_OUTCOME_DROPPED);
		rounds_moved(&f, 0, 0);
	}
	rounds_close(&f);
}

/* No client gives an update: others are drawn. */
static void test_empty_rounds(void **state) {
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++)
		rounds_work(&f, i, 1, 1, false);
	net_run(&f.net, 30 * HD_MS);
	for (uint16_t i = 0; i < 4; i++)
		assert_int_equal(rounds_drawn(&f, i), 2);
	rounds_moved(&f, 0, 0);
	rounds_close(&f);
}

/* With those that are left a round would never have its least: more are drawn. */
static void test_replacements(void **state) {
	struct hd_federated rounds = rounds_of(2, 2, 0);
	uint32_t drawn = 0, before = 0;
	struct rounds f;
	uint16_t first = ROUNDS_WORKERS;

	(void)state;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++) {
		before += rounds_drawn(&f, i) == 1;
		first = first == ROUNDS_WORKERS && rounds_drawn(&f, i) == 1 ? i : first;
	}
	assert_int_equal(before, 2);
	rounds_work(&f, first, 1, 1, false);
	net_run(&f.net, 30 * HD_MS);
	for (uint16_t i = 0; i < 4; i++)
		drawn += rounds_drawn(&f, i) == 1;
	assert_int_equal(drawn, 3);
	rounds_close(&f);
}

static void test_weights_refused(void **state) {
	static const float wrong[] = {-1, NAN, INFINITY};
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	for (int i = 0; i < 3; i++) {
		rounds_give(&f, 0, wrong[i], (const float[2]){1, 1});
		assert_int_equal(rounds_outcome(&f, 0), HD_OUTCOME_FAILED);
	}
	/* A loss that is none is not counted either: mu would be none. */
	rounds_work(&f, 0, 1, NAN, true);
	net_run(&f.net, 30 * HD_MS);
	assert_true(hd_server_stats(f.net.server)->refused_messages >= 4);
	rounds_moved(&f, 0, 0);
	rounds_close(&f);
}

/* Up by 0.1 when the loss rose, down after five falls in a row, never below 0. */
static void test_adaptive_mu(void **state) {
	static const double losses[] = {
		2, 3, 4, 3.9, 3.8, 3.7, 3.6, 3.5, 3.4, 3.3, 3.2, 3.1, 3, 2.9, 2.8, 2.7, 2.6, 2.5};
	static const int after[] = {0, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
	struct hd_federated rounds = rounds_of(4, 4, 0);
	struct rounds f;

	(void)state;
	rounds.mu_adapts = true;
	rounds_open(&f, &rounds, 4);
	for (size_t k = 0; k < sizeof losses / sizeof losses[0]; k++) {
		for (uint16_t i = 0; i < 4; i++) {
			rounds_work(&f, i, (float)(1 + i), losses[k], true);
			rounds_give(&f, i, (float)(1 + i), (const float[2]){0, 0});
		}
		assert_float_equal((double)rounds_sent(&f, 0)->mu, after[k] * 0.1, 1e-6);
	}
	rounds_close(&f);
}

/* Four are drawn; two give their work, one a partial one; one gives nothing; who comes after the deadline is late. */
static void test_shown(void **state) {
	const struct hd_federated rounds = rounds_of(4, 2, 1000);
	struct hd_message message = {.kind = HD_MSG_WORK};
	hd_version base;
	struct rounds f;
	json_t *row;

	(void)state;
	rounds_open(&f, &rounds, 4);
	base = rounds_sent(&f, 3)->version;
	for (uint16_t i = 0; i < 2; i++) {
		message.work = (struct hd_msg_work){
			.job = f.worker[i]->job,
			.worker = i,
			.round = 1,
			.epochs = i == 0 ? 20 : 7,
			.gives = true,
			.weight = i == 0 ? 30 : 10,
			.gamma = i == 0 ? 0.25F : 0.75F,
			.loss = i == 0 ? 1 : 3,
		};
		fake_send(f.worker[i], &message);
	}
	rounds_work(&f, 2, 1, 1, false);
	rounds_give(&f, 0, 30, (const float[2]){1, 0});
	row = rounds_row(&f, "round=1");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "open");
	assert_true(rounds_number(row, "came") == 1 && rounds_number(row, "drawn") == 4);
	json_decref(row);
	rounds_give(&f, 1, 10, (const float[2]){1, 0});
	net_run(&f.net, 2 * HD_SECOND);
	rounds_give_at(&f, 3, 5, (const float[2]){1, 0}, base);
	row = rounds_row(&f, "round=1");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "step");
	assert_true(rounds_number(row, "came") == 2 && rounds_number(row, "partial") == 2);
	assert_true(rounds_number(row, "gave_up") == 1 && rounds_number(row, "dropped") == 0);
	assert_true(rounds_number(row, "weight") == 40 && rounds_number(row, "gamma") == 0.5);
	assert_true(rounds_number(row, "gamma_max") == 0.75);
	assert_float_equal(rounds_number(row, "loss"), (30 * 1 + 10 * 3 + 1) / 41.0, 1e-4);
	assert_in_range((long)(1000 * rounds_number(row, "seconds")), 900, 1200);
	json_decref(row);
	row = rounds_row(&f, "round=2");
	assert_true(
		rounds_number(row, "dropped") == 1 && json_is_null(json_object_get(row, "gamma"))
	);
	json_decref(row);
	rounds_close(&f);
}

/* The deadline passes without worker 3; its update comes in the next round, and weighs half: model by weights 3, 1 and
 * then by 2 and 6 / 2. A second update for that round is late, and so is one of a client that was not drawn. */
static void test_late_counts(void **state) {
	struct hd_federated rounds = rounds_of(4, 2, 1000);
	hd_version base;
	struct rounds f;
	json_t *row;

	(void)state;
	rounds.late = HD_LATE_WEIGHT;
	rounds_open(&f, &rounds, 4);
	base = rounds_sent(&f, 3)->version;
	rounds_give(&f, 0, 3, (const float[2]){-1, 0});
	rounds_give(&f, 1, 1, (const float[2]){-5, 0});
	net_run(&f.net, HD_SECOND);
	rounds_moved(&f, 2, 0);
	assert_int_equal(rounds_drawn(&f, 3), 2);
	rounds_give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	rounds_moved(&f, 2, 0); /* alone it is no step: that takes two of this round */
	rounds_weights(&f, 4 + 3, 4);
	rounds_give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	assert_int_equal(fake_outcome(f.worker[3], 2)->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f.worker[3], 2)->reason, HD_REASON_LATE);
	for (uint16_t i = 0; i < 3; i++)
		rounds_give(&f, i, 2, (const float[2]){-1, 0});
	rounds_moved(&f, 2, 0);
	rounds_give(&f, 3, 2, (const float[2]){-1, 0}); /* its own of this round is another one */
	rounds_moved(&f, 2 + 8 / 11.0, 30 / 11.0);
	rounds_weights(&f, 4 + 11, 4 + 11);
	assert_int_equal(fake_outcome(f.worker[3], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_outcome(f.worker[3], 1)->delay, 1);
	assert_int_equal(fake_outcome(f.worker[3], 3)->delay, 0);
	row = rounds_row(&f, "round=2");
	assert_true(rounds_number(row, "came") == 5 && rounds_number(row, "late") == 1);
	assert_true(rounds_number(row, "weight") == 11 && rounds_number(row, "dropped") == 1);
	json_decref(row);
	rounds_close(&f);
}

/* Later than tau_max steps it counts no more. */
static void test_too_late(void **state) {
	struct hd_federated rounds = rounds_of(4, 3, 500);
	hd_version base;
	struct rounds f;

	(void)state;
	rounds.late = HD_LATE_WEIGHT;
	rounds_open(&f, &rounds, 4);
	base = rounds_sent(&f, 3)->version;
	for (uint32_t step = 0; step <= f.spec.tau_max && step <= HD_LATE_STEPS_MAX; step++) {
		for (uint16_t i = 0; i < 3; i++)
			rounds_give(&f, i, 1, (const float[2]){0, 0});
		net_run(&f.net, HD_SECOND);
	}
	rounds_give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	assert_int_equal(rounds_outcome(&f, 3), HD_OUTCOME_DROPPED);
	rounds_close(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean),
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_draws),
		cmocka_unit_test(test_not_drawn),
		cmocka_unit_test(test_empty_rounds),
		cmocka_unit_test(test_replacements),
		cmocka_unit_test(test_weights_refused),
		cmocka_unit_test(test_adaptive_mu),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_late_counts),
		cmocka_unit_test(test_too_late),
	};

	return cmocka_run_group_tests_name("server rounds", tests, NULL, NULL);
}
