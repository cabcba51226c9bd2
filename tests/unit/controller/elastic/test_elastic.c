/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner of a job's worker count: words in and out, refusals that change nothing, and what each policy says. */
#include "hd_elastic.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static char error[512];

static int set(struct hd_elastic *e, double now, uint32_t workers, const char *words) {
	error[0] = '\0';
	return hd_elastic_set(e, words, now, workers, error, sizeof error);
}

static uint32_t decide(struct hd_elastic *e, double now) {
	bool changed;

	return hd_elastic_decide(e, now, &changed);
}

static void step(struct hd_elastic *e, double now, uint64_t number, uint32_t workers) {
	const struct hd_elastic_observation o = {
		.step = number,
		.loss = 1,
		.samples = 32,
		.workers = workers,
		.price = -1,
		.step_s = 0.1,
		.comm_share = -1,
	};

	assert_int_equal(hd_elastic_observe(e, now, &o), 0);
}

static void test_none(void **state) {
	struct hd_elastic e;
	const struct hd_elastic_job job = {.tau_max = 16, .bounds = true};
	struct hd_elastic_shape shape;
	bool changed = true;

	hd_elastic_init(&e);
	assert_int_equal(hd_elastic_decide(&e, 1, &changed), 0);
	assert_false(changed);
	shape = hd_elastic_shape(&e, &job, 7);
	assert_int_equal(shape.sync_count, 0);
	assert_int_equal(shape.tau_max, 0);
	assert_float_equal(shape.scale, 0, 0);
}

/* Each is refused, says so in words that name the field, and leaves the owner as it was. */
static void test_refusals(void **state) {
	static const struct {
		const char *words, *says;
	} wrong[] = {
		{"n=4", "policy: missing"},
		{"", "key=value is missing"},
		{"policy=best", "no such policy"},
		{"policy=manual", "n: policy manual needs it"},
		{"policy=manual n=0", "from 1 to 4096"},
		{"policy=manual n=-3", "from 1 to 4096"},
		{"policy=manual n=2.5", "whole number"},
		{"policy=manual n=4097", "from 1 to 4096"},
		{"policy=manual n=nan", "n: 'nan'"},
		{"policy=manual n=4 n=5", "n: said twice"},
		{"policy=manual policy=fixed n=4", "policy: said twice"},
		{"policy=manual n", "must be key=value"},
		{"policy=manual n=", "must be key=value"},
		{"policy=manual =4", "must be key=value"},
		{"policy=manual n=4 eta=1.1", "eta: policy manual has no such key"},
		{"policy=manual n=4 n_min=0", "n_min: '0'"},
		{"policy=manual n=4 n_min=9 n_max=8", "n_min: 9, above n_max, 8"},
		{"policy=manual n=4 scale=cubic", "none, linear, growing, falling or falling-to"},
		{"policy=manual n=4 sync=1.5", "from 0 to 1"},
		{"policy=manual n=4 notice=0", "from 0.2 to 3600"},
		{"policy=growth n=2", "eta: policy growth needs it"},
		{"policy=growth n=2 eta=1", "would not grow"},
		{"policy=budget n=4", "one of worker_s and money"},
		{"policy=budget n=4 worker_s=9 money=3", "one of worker_s and money"},
		{"policy=budget n=4 money=-3", "money: '-3'"},
		{"policy=fixed", "while the job has no workers"},
	};
	struct hd_elastic e, before;

	hd_elastic_init(&e);
	for (int round = 0; round < 2; round++) {
		for (size_t i = round; i < sizeof wrong / sizeof wrong[0]; i++) {
			memcpy(&before, &e, sizeof e);
			assert_int_equal(set(&e, 5, 0, wrong[i].words), -EINVAL);
			if (!strstr(error, wrong[i].says))
				fail_msg("'%s': says '%s'", wrong[i].words, error);
			assert_memory_equal(&before, &e, sizeof e);
		}
		assert_int_equal(set(&e, 5, 2, "policy=growth n=2 eta=1.5 n_max=6"), 0);
	}
}

static void test_observations(void **state) {
	struct hd_elastic e, before;
	struct hd_elastic_observation good
		= {.step = 3, .loss = 0.5, .samples = 8, .workers = 2, .price = -1, .step_s = 1};
	struct hd_elastic_observation o;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 2, "policy=manual n=2"), 0);
	memcpy(&before, &e, sizeof e);
	o = good, o.loss = NAN;
	assert_int_equal(hd_elastic_observe(&e, 1, &o), -EINVAL);
	o = good, o.loss = INFINITY;
	assert_int_equal(hd_elastic_observe(&e, 1, &o), -EINVAL);
	o = good, o.samples = 0;
	assert_int_equal(hd_elastic_observe(&e, 1, &o), -EINVAL);
	o = good, o.step = 0;
	assert_int_equal(hd_elastic_observe(&e, 1, &o), -EINVAL);
	o = good, o.workers = HD_WORKERS_MAX + 1;
	assert_int_equal(hd_elastic_observe(&e, 1, &o), -EINVAL);
	assert_int_equal(hd_elastic_price(&e, 1, NAN), -EINVAL);
	assert_int_equal(hd_elastic_price(&e, 1, -1), -EINVAL);
	assert_memory_equal(&before, &e, sizeof e);
	assert_int_equal(hd_elastic_observe(&e, 1, &good), 0);
	assert_int_equal(e.account.step, 3);
}

/* set() takes the output of words(), and words() gives the same again. */
static void test_words(void **state) {
	static const char *const words[] = {
		"policy=fixed n=3",
		("policy=manual n=6 n_min=2 n_max=12 base=4 scale=linear scale_max=2 sync=0.75 tau=3 "
		 "notice=2.5 interval=30"),
		"policy=growth n=2 eta=1.002 n_max=8",
		"policy=budget n=8 worker_s=3600 deadline=900",
	};
	char text[HD_ELASTIC_WORDS_BYTES + 1];
	struct hd_elastic e;

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		hd_elastic_init(&e);
		assert_int_equal(set(&e, 0, 3, words[i]), 0);
		assert_int_equal(hd_elastic_words(&e, text, sizeof text), strlen(words[i]));
		assert_string_equal(text, words[i]);
	}
	/* Settings that are not named stay; another policy has its own. */
	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 3, "policy=manual n=6 notice=9"), 0);
	assert_int_equal(set(&e, 0, 3, "n=4"), 0);
	hd_elastic_words(&e, text, sizeof text);
	assert_string_equal(text, "policy=manual n=4 notice=9");
	assert_int_equal(set(&e, 0, 3, "policy=fixed"), 0);
	hd_elastic_words(&e, text, sizeof text);
	assert_string_equal(text, "policy=fixed n=3 notice=9");
}

/* A later incarnation takes all settings, and base with them: settings without room are refused, and nothing
 * changes. */
static void test_words_have_room(void **state) {
	static const char more[]
		= "scale=growing scale_max=6.123456789 scale_every=123456 scale_factor=1.123456789 "
		  "scale_to=0.123456789 sync=0.123456789 tau=1.123456789 notice=1.123456789 "
		  "interval=1.123456789";
	char words[HD_ELASTIC_WORDS_BYTES + 1];
	struct hd_elastic e, before;
	int taken = 0;

	for (int zeros = 1; zeros <= 54; zeros++) {
		hd_elastic_init(&e);
		(void)snprintf(
			words,
			sizeof words,
			"policy=dynamic a=2.3 b=0.02 beta=0.995 epsilon=0.8 deadline=2000 "
			"step_s=1:0.9%056d,2:0.8%056d price=uniform:0.2%0*d:0.9%058d n_max=64",
			0,
			0,
			zeros,
			0,
			0
		);
		assert_int_equal(set(&e, 0, 3, words), 0);
		memcpy(&before, &e, sizeof e);
		if (strlen(words) + strlen(more) + strlen("  base=4096") > HD_ELASTIC_WORDS_BYTES) {
			assert_int_equal(set(&e, 0, 3, more), -EINVAL);
			assert_non_null(strstr(error, "more than 512 (HD_ELASTIC_WORDS_BYTES)"));
			assert_memory_equal(&before, &e, sizeof e);
			continue;
		}
		taken++;
		assert_int_equal(set(&e, 0, 3, more), 0);
		(void)decide(&e, 0);
		assert_true(hd_elastic_words(&e, words, sizeof words) == strlen(words));
		hd_elastic_init(&before);
		assert_int_equal(set(&before, 0, 3, words), 0);
		assert_memory_equal(&before.common, &e.common, sizeof e.common);
	}
	assert_true(taken > 0 && taken < 54);
}

/* n_j = n_1 eta^(j-1): V8's schedule, n_1 = 2, eta = 1.002, up to 8. */
static void test_growth(void **state) {
	struct hd_elastic e;
	double sum = 0;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 2, "policy=growth n=2 eta=1.002 n_max=8"), 0);
	for (uint64_t j = 1; j <= 1000; j++) {
		uint32_t n = decide(&e, (double)j);
		double exact = 2 * pow(1.002, (double)(j - 1));

		assert_int_equal(n, (uint32_t)fmin(ceil(exact - 1e-9), 8));
		sum += n;
		step(&e, (double)j, j, n);
	}
	assert_int_equal(decide(&e, 1001), 8);
	assert_non_null(strstr(e.reason, "capped by n_max"));
	assert_true(sum > 4000 && sum < 8000);
	/* A number that no double has is capped too. */
	step(&e, 1002, UINT64_MAX, 8);
	assert_int_equal(decide(&e, 1002), 8);
}

static void test_budget(void **state) {
	struct hd_elastic e;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 100, 4, "policy=budget n=4 worker_s=400"), 0);
	assert_int_equal(decide(&e, 100), 4);
	hd_elastic_count(&e, 150, 2); /* 4 x 50 */
	assert_float_equal(e.account.worker_s, 200, 1e-9);
	assert_int_equal(decide(&e, 150), 4);
	hd_elastic_count(&e, 251, 2); /* 2 x 101 */
	assert_float_equal(e.account.worker_s, 402, 1e-9);
	assert_int_equal(decide(&e, 251), 1);
	assert_non_null(strstr(e.reason, "spent"));
	/* It has to last: as many as that pays. */
	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 8, "policy=budget n=8 worker_s=1000 deadline=200"), 0);
	assert_int_equal(decide(&e, 0), 5);
	hd_elastic_count(&e, 100, 8); /* 8 x 100: 200 for 100 s */
	assert_int_equal(decide(&e, 100), 2);
	hd_elastic_count(&e, 190, 1);
	/* Money at the price of the hour: 0.36 an hour, 2 workers, 100 s cost 0.02. */
	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 2, "policy=budget n=2 money=0.03"), 0);
	assert_int_equal(hd_elastic_price(&e, 0, 0.36), 0);
	assert_int_equal(decide(&e, 0), 2);
	hd_elastic_count(&e, 100, 2);
	assert_float_equal(e.account.money, 0.02, 1e-12);
	assert_int_equal(decide(&e, 100), 2);
	hd_elastic_count(&e, 151, 2);
	assert_int_equal(decide(&e, 151), 1);
}

/* No policy gets below n_min or above n_max; a change waits for the interval, an operator's word does not. */
static void test_limits(void **state) {
	struct hd_elastic e;
	bool changed;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 4, "policy=budget n=9 worker_s=10 n_min=3 n_max=6"), 0);
	assert_int_equal(decide(&e, 0), 6);
	hd_elastic_count(&e, 10, 4);
	assert_int_equal(decide(&e, 10), 3);
	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 2, "policy=growth n=2 eta=2 interval=10"), 0);
	assert_int_equal(hd_elastic_decide(&e, 0, &changed), 2);
	assert_true(changed);
	step(&e, 1, 1, 2);
	assert_int_equal(hd_elastic_decide(&e, 1, &changed), 2);
	assert_false(changed);
	assert_int_equal(hd_elastic_decide(&e, 10, &changed), 4);
	assert_true(changed);
	assert_int_equal(set(&e, 11, 4, "policy=manual n=3"), 0);
	assert_int_equal(hd_elastic_decide(&e, 11, &changed), 3);
	assert_true(changed);
}

static void test_shape(void **state) {
	const struct hd_elastic_job sync = {.tau_max = 16, .counts = true};
	const struct hd_elastic_job async = {.tau_max = 16, .bounds = true};
	struct hd_elastic_shape shape;
	struct hd_elastic e;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 8, "policy=manual n=8 sync=0.75 tau=3 scale=linear"), 0);
	decide(&e, 0);
	shape = hd_elastic_shape(&e, &sync, 8);
	assert_int_equal(shape.sync_count, 6);
	assert_int_equal(shape.tau_max, 0);
	assert_float_equal(shape.scale, 1, 0);
	/* With fewer than the target the present number counts. With more, the surplus is leaving. */
	shape = hd_elastic_shape(&e, &sync, 4);
	assert_int_equal(shape.sync_count, 3);
	assert_float_equal(shape.scale, 0.5, 0);
	shape = hd_elastic_shape(&e, &sync, 12);
	assert_int_equal(shape.sync_count, 6);
	assert_float_equal(shape.scale, 1, 0);
	shape = hd_elastic_shape(&e, &sync, 0);
	assert_int_equal(shape.sync_count, 1);
	/* No looser than the job's. */
	shape = hd_elastic_shape(&e, &async, 4);
	assert_int_equal(shape.tau_max, 12);
	assert_int_equal(shape.sync_count, 0);
	shape = hd_elastic_shape(&e, &async, 8);
	assert_int_equal(shape.tau_max, 16);
	/* The rate goes by the first target, and not beyond scale_max. */
	assert_int_equal(set(&e, 1, 8, "n=80 scale_max=4"), 0);
	decide(&e, 1);
	assert_float_equal(e.common.base, 8, 0);
	assert_float_equal(hd_elastic_shape(&e, &sync, 80).scale, 4, 0);
	assert_float_equal(hd_elastic_shape(&e, &sync, 16).scale, 2, 0);
}

/* A flat loss: one worker less each time, as the loss stays what it would have been. */
static void test_scalein(void **state) {
	struct hd_elastic e;
	uint64_t j = 1;

	hd_elastic_init(&e);
	assert_int_equal(set(&e, 0, 4, "policy=scale-in every=2 horizon=1 n_min=2 knee=-1e-3"), 0);
	for (uint32_t y = 4; j <= 400; j++) {
		const struct hd_elastic_observation o = {
			.step = j,
			.loss = 1 / (0.05 * (double)j + 0.5) + 0.6,
			.samples = 32,
			.workers = y,
			.price = -1,
			.step_s = 0.1,
			.comm_share = -1,
		};

		assert_int_equal(hd_elastic_observe(&e, (double)j / 10, &o), 0);
		uint32_t target = decide(&e, (double)j / 10);

		assert_true(target >= 2 && target <= y && y - target <= 1);
		if (j < 100)
			assert_int_equal(target, 4);
		y = target;
	}
	assert_int_equal(decide(&e, 41), 2);
	assert_non_null(strstr(e.reason, "as few as it may have"));
	assert_int_equal(set(&e, 0, 0, "policy=scale-in knee=0"), -EINVAL);
	assert_non_null(strstr(error, "knee"));
}

/* Every row of the table has what the owner goes by. */
static void test_table(void **state) {
	const struct hd_elastic_policy *policy;
	size_t i = 0;

	for (; (policy = hd_elastic_policy(i)); i++) {
		size_t keys = 0;

		assert_non_null(policy->name);
		assert_non_null(policy->help);
		assert_non_null(policy->decide);
		assert_true(policy->state_bytes <= HD_ELASTIC_STATE_BYTES);
		for (; policy->keys[keys].name; keys++) {
			const struct hd_elastic_key *key = &policy->keys[keys];

			assert_non_null(key->help);
			assert_true(key->text || key->most > key->least);
			for (size_t k = 0; hd_elastic_common_key(k); k++)
				assert_string_not_equal(key->name, hd_elastic_common_key(k)->name);
		}
		assert_true(keys <= HD_ELASTIC_KEYS_MAX);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(policy->name, hd_elastic_policy(k)->name);
	}
	assert_true(i >= 4);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_observations),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_words_have_room),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_scalein),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
