/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of federated jobs at the server: who is drawn, when a round ends, what its mean is, and mu. */
#include "server_net.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 10
#define BYTES (VALUES * sizeof(float))
#define WORKERS 5

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *worker[WORKERS];
	uint32_t pushes[WORKERS]; /* rounds of the worker: its pushes */
	float initial[VALUES];
};

static void open_fixture(struct fixture *f, const struct hd_federated *rounds, uint16_t workers) {
	memset(f, 0, sizeof(*f));
	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.sync = HD_SYNC_FEDERATED;
	f->spec.staleness_rule = HD_STALENESS_CONSTANT;
	f->spec.federated = *rounds;
	f->spec.learning_rate = 1;
	f->spec.momentum = f->spec.weight_decay = 0;
	net_server(&f->net, &f->config);
	hd_jobspec_initialize(&f->spec, f->initial);
	for (uint16_t i = 0; i < workers; i++) {
		f->worker[i] = fake_worker(&f->net, i);
		(void)fake_joined(f->worker[i], &f->spec);
	}
	net_run(&f->net, 30 * HD_MS);
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < WORKERS; i++)
		if (f->worker[i])
			fake_close(f->worker[i]);
	net_close(&f->net);
}

static struct hd_federated rounds_of(uint32_t clients, uint32_t least, uint32_t deadline_ms) {
	return (struct hd_federated){
		.clients = clients,
		.clients_least = least,
		.available = 4,
		.deadline_ms = deadline_ms,
		.epochs = 20,
	};
}

/* The newest round that it was told; NULL: none. */
static const struct hd_msg_round *told(struct fixture *f, uint16_t rank) {
	size_t count = fake_count(f->worker[rank], HD_MSG_ROUND);

	return count > 0 ? &fake_wait(f->worker[rank], HD_MSG_ROUND, count - 1)->round : NULL;
}

static uint32_t drawn_for(struct fixture *f, uint16_t rank) {
	const struct hd_msg_round *round = told(f, rank);

	return round ? round->round : 0;
}

static void say_work(struct fixture *f, uint16_t rank, float weight, double loss, bool gives) {
	struct hd_message message = {.kind = HD_MSG_WORK};

	message.work = (struct hd_msg_work){
		.job = f->worker[rank]->job,
		.worker = rank,
		.round = drawn_for(f, rank),
		.epochs = gives ? 20 : 0,
		.gives = gives,
		.weight = weight,
		.gamma = -1,
		.loss = loss,
	};
	fake_send(f->worker[rank], &message);
}

/* A whole push directly, of these two values' deltas; the grant's weight has been multiplied. */
static void
give_at(struct fixture *f, uint16_t rank, float weight, const float *delta, hd_version base) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct fake *worker = f->worker[rank];
	size_t grants = fake_count(worker, HD_MSG_GRANT);
	const struct hd_msg_grant *grant;
	float data[VALUES] = {0};
	uint32_t round = ++f->pushes[rank];

	message.request = (struct hd_msg_request){
		.job = worker->job,
		.worker = rank,
		.round = round,
		.attempt = 1,
		.direction = HD_PUSH,
		.base = base,
		.bytes = BYTES,
		.weight = weight,
	};
	fake_send(worker, &message);
	net_run(&f->net, 30 * HD_MS);
	if (fake_count(worker, HD_MSG_GRANT) == grants)
		return; /* refused: its outcome says so */
	grant = &fake_wait(worker, HD_MSG_GRANT, grants)->grant;
	assert_true(grant->weight == weight);
	for (int i = 0; i < 2; i++)
		data[i] = weight * delta[i];
	(void)fake_push(worker, grant->token, round, 1, data, VALUES);
	net_run(&f->net, 30 * HD_MS);
}

static void give(struct fixture *f, uint16_t rank, float weight, const float *delta) {
	give_at(f, rank, weight, delta, told(f, rank)->version);
}

static void assert_moved(const struct fixture *f, double first, double second) {
	const float *model = hd_server_model(f->net.server, f->worker[0]->job, &(uint64_t){0});

	assert_float_equal((double)(model[0] - f->initial[0]), first, 1e-5);
	assert_float_equal((double)(model[1] - f->initial[1]), second, 1e-5);
	assert_true(model[2] == f->initial[2]);
}

static uint8_t outcome_of(struct fixture *f, uint16_t rank) {
	return fake_outcome(f->worker[rank], f->pushes[rank])->outcome;
}

/* The weighted mean: w_t - w_k of clients at [1, 2], [3, -1], [0.5, 0] with 10, 30, 60 rows, from w_t = 0. */
static void test_mean(void **state) {
	static const float solution[3][2] = {{1, 2}, {3, -1}, {0.5F, 0}};
	static const float rows[] = {10, 30, 60};
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	for (uint16_t i = 0; i < 3; i++) {
		const float delta[2] = {-solution[i][0], -solution[i][1]};

		assert_int_equal(drawn_for(&f, i), 1);
		say_work(&f, i, rows[i], 1, true);
		give(&f, i, rows[i], delta);
	}
	assert_int_equal(told(&f, 3)->epochs, 20);
	assert_moved(&f, 0, 0);
	say_work(&f, 3, 5, 1, false); /* its weight goes with it */
	net_run(&f.net, 30 * HD_MS);
	assert_moved(&f, 1.3, -0.1);
	assert_int_equal(outcome_of(&f, 2), HD_OUTCOME_APPLIED);
	assert_int_equal(drawn_for(&f, 0), 2);
	close_fixture(&f);
}

/* One dies with a part of its update sent; the round ends without it and its weight. */
static void test_death(void **state) {
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	const float delta[2] = {-1, 1};
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	give(&f, 0, 100, delta);
	give(&f, 1, 300, (const float[2]){-5, 0});
	say_work(&f, 2, 1000, 1, true);
	fake_kill(f.worker[2]);
	f.worker[2] = NULL;
	give(&f, 3, 100, delta);
	assert_moved(&f, 0, 0);
	net_run(&f.net, 5 * HD_SECOND); /* until its session is given up */
	assert_moved(&f, (100 + 1500 + 100) / 500.0, -200 / 500.0);
	close_fixture(&f);
}

static void test_deadline(void **state) {
	const struct hd_federated rounds = rounds_of(4, 2, 1000);
	const float delta[2] = {-1, 0};
	hd_version base;
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	base = told(&f, 3)->version;
	assert_in_range(told(&f, 0)->left_ms, 900, 1000);
	give(&f, 0, 3, delta);
	net_run(&f.net, 2 * HD_SECOND);
	assert_moved(&f, 0, 0); /* one is not enough, late or not */
	give(&f, 1, 1, (const float[2]){-3, 0});
	assert_moved(&f, 1.5, 0);
	/* Who comes now is late, whatever it has. */
	give_at(&f, 3, 1000, delta, base);
	assert_int_equal(outcome_of(&f, 3), HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f.worker[3], 1)->reason, HD_REASON_LATE);
	assert_moved(&f, 1.5, 0);
	close_fixture(&f);
}

/* Two of five are drawn each time, by seed and round only; the others' updates do not count. */
static void test_draws(void **state) {
	struct hd_federated rounds = rounds_of(2, 1, 0);
	uint32_t most[2] = {0, 0}, sets[2][8], ever = 0;
	const float delta[2] = {0, 0};
	struct fixture f;

	(void)state;
	rounds.seed = 3;
	rounds.available = 5;
	for (int life = 0; life < 2; life++) {
		open_fixture(&f, &rounds, WORKERS);
		for (uint32_t round = 1; round <= 8; round++) {
			uint32_t set = 0, places = 0;

			for (uint16_t i = 0; i < WORKERS; i++) {
				if (drawn_for(&f, i) != round)
					continue;
				set |= 1U << i;
				places |= 1U << told(&f, i)->place;
			}
			assert_int_equal(__builtin_popcount(set), 2);
			assert_int_equal(places, 3);
			sets[life][round - 1] = set;
			ever |= set;
			most[life]++;
			for (uint16_t i = 0; i < WORKERS; i++)
				if (set >> i & 1)
					give(&f, i, 1, delta);
		}
		close_fixture(&f);
	}
	assert_int_equal(most[0], most[1]);
	assert_memory_equal(sets[0], sets[1], sizeof(sets[0]));
	assert_int_equal(ever, 31);
}

static void test_not_drawn(void **state) {
	struct hd_federated rounds = rounds_of(2, 1, 0);
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++) {
		if (drawn_for(&f, i) != 0)
			continue;
		give_at(&f,
			i,
			5,
			(const float[2]){1, 1},
			hd_server_version(f.net.server, f.worker[0]->job));
		assert_int_equal(outcome_of(&f, i), HD_OUTCOME_DROPPED);
		assert_moved(&f, 0, 0);
	}
	close_fixture(&f);
}

/* Nobody gives anything: others are drawn. */
static void test_empty_rounds(void **state) {
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++)
		say_work(&f, i, 1, 1, false);
	net_run(&f.net, 30 * HD_MS);
	for (uint16_t i = 0; i < 4; i++)
		assert_int_equal(drawn_for(&f, i), 2);
	assert_moved(&f, 0, 0);
	close_fixture(&f);
}

/* With those that are left a round would never have its least: more are drawn. */
static void test_replacements(void **state) {
	struct hd_federated rounds = rounds_of(2, 2, 0);
	uint32_t drawn = 0, before = 0;
	struct fixture f;
	uint16_t first = WORKERS;

	(void)state;
	open_fixture(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++) {
		before += drawn_for(&f, i) == 1;
		first = first == WORKERS && drawn_for(&f, i) == 1 ? i : first;
	}
	assert_int_equal(before, 2);
	say_work(&f, first, 1, 1, false);
	net_run(&f.net, 30 * HD_MS);
	for (uint16_t i = 0; i < 4; i++)
		drawn += drawn_for(&f, i) == 1;
	assert_int_equal(drawn, 3);
	close_fixture(&f);
}

static void test_weights_refused(void **state) {
	static const float wrong[] = {-1, NAN, INFINITY};
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct fixture f;

	(void)state;
	open_fixture(&f, &rounds, 4);
	for (int i = 0; i < 3; i++) {
		give(&f, 0, wrong[i], (const float[2]){1, 1});
		assert_int_equal(outcome_of(&f, 0), HD_OUTCOME_FAILED);
	}
	/* A loss that is none is not counted either: mu would be none. */
	say_work(&f, 0, 1, NAN, true);
	net_run(&f.net, 30 * HD_MS);
	assert_true(hd_server_stats(f.net.server)->refused_messages >= 4);
	assert_moved(&f, 0, 0);
	close_fixture(&f);
}

/* Up by 0.1 when the loss rose, down after five falls in a row, never below 0. */
static void test_adaptive_mu(void **state) {
	static const double losses[] = {
		2, 3, 4, 3.9, 3.8, 3.7, 3.6, 3.5, 3.4, 3.3, 3.2, 3.1, 3, 2.9, 2.8, 2.7, 2.6, 2.5};
	static const int after[] = {0, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
	struct hd_federated rounds = rounds_of(4, 4, 0);
	struct fixture f;

	(void)state;
	rounds.mu_adapts = true;
	open_fixture(&f, &rounds, 4);
	for (size_t k = 0; k < sizeof(losses) / sizeof(losses[0]); k++) {
		for (uint16_t i = 0; i < 4; i++) {
			say_work(&f, i, (float)(1 + i), losses[k], true);
			give(&f, i, (float)(1 + i), (const float[2]){0, 0});
		}
		assert_float_equal((double)told(&f, 0)->mu, after[k] * 0.1, 1e-6);
	}
	close_fixture(&f);
}

/* The row of a round, which is the only one with that number. */
static json_t *shown(struct fixture *f, const char *filter) {
	const char *error = NULL;
	char *text = hd_server_table(f->net.server, f->net.now, "rounds", filter, &error);
	json_t *table = json_loads(text ? text : "", 0, NULL), *row;

	free(text);
	assert_non_null(table);
	assert_int_equal(json_array_size(json_object_get(table, "rows")), 1);
	row = json_incref(json_array_get(json_object_get(table, "rows"), 0));
	json_decref(table);
	return row;
}

static double number(const json_t *row, const char *key) {
	return json_number_value(json_object_get(row, key));
}

/* Four are drawn; two give their work, one a partial one; one gives nothing; who comes after the deadline is late. */
static void test_shown(void **state) {
	const struct hd_federated rounds = rounds_of(4, 2, 1000);
	struct hd_message message = {.kind = HD_MSG_WORK};
	hd_version base;
	struct fixture f;
	json_t *row;

	(void)state;
	open_fixture(&f, &rounds, 4);
	base = told(&f, 3)->version;
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
	say_work(&f, 2, 1, 1, false);
	give(&f, 0, 30, (const float[2]){1, 0});
	row = shown(&f, "round=1");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "open");
	assert_true(number(row, "came") == 1 && number(row, "drawn") == 4);
	json_decref(row);
	give(&f, 1, 10, (const float[2]){1, 0});
	net_run(&f.net, 2 * HD_SECOND);
	give_at(&f, 3, 5, (const float[2]){1, 0}, base);
	row = shown(&f, "round=1");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "step");
	assert_true(number(row, "came") == 2 && number(row, "partial") == 2);
	assert_true(number(row, "gave_up") == 1 && number(row, "dropped") == 0);
	assert_true(number(row, "weight") == 40 && number(row, "gamma") == 0.5);
	assert_true(number(row, "gamma_max") == 0.75);
	assert_float_equal(number(row, "loss"), (30 * 1 + 10 * 3 + 1) / 41.0, 1e-4);
	assert_in_range((long)(1000 * number(row, "seconds")), 900, 1200);
	json_decref(row);
	row = shown(&f, "round=2");
	assert_true(number(row, "dropped") == 1 && json_is_null(json_object_get(row, "gamma")));
	json_decref(row);
	close_fixture(&f);
}

/* The deadline passes without worker 3; its update comes in the next round, and weighs half: model by weights 3, 1 and
 * then by 2 and 6 / 2. What it gives again for that round, or who was not drawn for it, is late. */
static void test_late_counts(void **state) {
	struct hd_federated rounds = rounds_of(4, 2, 1000);
	hd_version base;
	struct fixture f;
	json_t *row;

	(void)state;
	rounds.late = HD_LATE_WEIGHT;
	open_fixture(&f, &rounds, 4);
	base = told(&f, 3)->version;
	give(&f, 0, 3, (const float[2]){-1, 0});
	give(&f, 1, 1, (const float[2]){-5, 0});
	net_run(&f.net, HD_SECOND);
	assert_moved(&f, 2, 0);
	assert_int_equal(drawn_for(&f, 3), 2);
	give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	assert_moved(&f, 2, 0); /* alone it is no step: that takes two of this round */
	give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	assert_int_equal(fake_outcome(f.worker[3], 2)->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f.worker[3], 2)->reason, HD_REASON_LATE);
	for (uint16_t i = 0; i < 3; i++)
		give(&f, i, 2, (const float[2]){-1, 0});
	assert_moved(&f, 2, 0);
	give(&f, 3, 2, (const float[2]){-1, 0}); /* its own of this round is another one */
	assert_moved(&f, 2 + 8 / 11.0, 30 / 11.0);
	assert_int_equal(fake_outcome(f.worker[3], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_outcome(f.worker[3], 1)->delay, 1);
	assert_int_equal(fake_outcome(f.worker[3], 3)->delay, 0);
	row = shown(&f, "round=2");
	assert_true(number(row, "came") == 5 && number(row, "late") == 1);
	assert_true(number(row, "weight") == 11 && number(row, "dropped") == 1);
	json_decref(row);
	close_fixture(&f);
}

/* Later than tau_max steps it counts no more. */
static void test_too_late(void **state) {
	struct hd_federated rounds = rounds_of(4, 3, 500);
	hd_version base;
	struct fixture f;

	(void)state;
	rounds.late = HD_LATE_WEIGHT;
	open_fixture(&f, &rounds, 4);
	base = told(&f, 3)->version;
	for (uint32_t step = 0; step <= f.spec.tau_max && step <= HD_LATE_STEPS_MAX; step++) {
		for (uint16_t i = 0; i < 3; i++)
			give(&f, i, 1, (const float[2]){0, 0});
		net_run(&f.net, HD_SECOND);
	}
	give_at(&f, 3, 6, (const float[2]){0, -10}, base);
	assert_int_equal(outcome_of(&f, 3), HD_OUTCOME_DROPPED);
	close_fixture(&f);
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
