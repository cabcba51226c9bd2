/* SPDX-License-Identifier: BSD-3-Clause */
/* The factor on updates that follows the steps of a job. */
#include "hd_elastic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void set(struct hd_elastic *e, const char *words) {
	char error[256];
	bool changed;

	if (hd_elastic_set(e, words, 0, 8, error, sizeof error) < 0)
		fail_msg("'%s': %s", words, error);
	assert_int_equal(hd_elastic_decide(e, 0, &changed), 8);
}

/* Eight workers at this scale. */
static void begin(struct hd_elastic *e, const char *scale) {
	char words[HD_ELASTIC_WORDS_BYTES + 1];

	hd_elastic_init(e);
	(void)snprintf(words, sizeof words, "policy=manual n=8 %s", scale);
	set(e, words);
}

static double scale_of(const struct hd_elastic *e) {
	const struct hd_elastic_job sync = {.counts = true};

	return (double)hd_elastic_shape(e, &sync, 8).scale;
}

/* The scale of the step that comes after this one of the workers'. */
static double scale_after(struct hd_elastic *e, uint64_t step) {
	const struct hd_elastic_observation o = {.step = step, .samples = 1, .workers = 8};

	assert_int_equal(hd_elastic_observe(e, 1, &o), 0);
	return scale_of(e);
}

/* The paper's step sizes, as factors on a rate: of 0.03 that grows to 0.18, of 0.18 that falls, to 0.03 or on. */
static void test_scale_by_steps(void **state) {
	static const struct {
		const char *words;
		double rate, first, at_1000, at_5000;
	} rules[] = {
		{"scale=growing scale_max=6", 0.03, 0.03, 0.036, 0.0746496},
		{"scale=falling", 0.18, 0.18, 0.09, 0.03},
		{"scale=falling-to scale_to=0.16666666667", 0.18, 0.18, 0.105, 0.055},
		{"scale=falling scale_every=500", 0.18, 0.18, 0.06, 0.18 / 11},
		{"scale=growing scale_factor=2 scale_max=6", 0.03, 0.03, 0.06, 0.18},
	};
	char again[HD_ELASTIC_WORDS_BYTES + 1];
	struct hd_elastic e, next;

	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
		begin(&e, rules[i].words);
		assert_float_equal(scale_after(&e, 1) * rules[i].rate, rules[i].first, 1e-7);
		assert_float_equal(
			scale_after(&e, 998) * rules[i].rate, i == 3 ? 0.09 : rules[i].first, 1e-7
		);
		assert_float_equal(scale_after(&e, 999) * rules[i].rate, rules[i].at_1000, 1e-7);
		assert_float_equal(scale_after(&e, 4999) * rules[i].rate, rules[i].at_5000, 1e-7);
		/* Never 0, which would be the job's own. */
		assert_true(scale_after(&e, UINT64_MAX - 1) > 0);
		/* A later incarnation goes on from the state of this one. */
		assert_true(hd_elastic_words(&e, again, sizeof again) > 0);
		hd_elastic_init(&next);
		set(&next, again);
		hd_elastic_resume(&next, e.target, e.reason, &e.account, -1);
		assert_float_equal(scale_of(&next), scale_of(&e), 0);
	}
	set(&e, "scale=none");
	assert_float_equal(scale_after(&e, 5), 0, 0);
	/* None is above scale_max. */
	begin(&e, "scale=falling scale_max=0.5");
	assert_float_equal(scale_of(&e), 0.5, 0);
	begin(&e, "scale=falling-to scale_max=0.5");
	assert_float_equal(scale_of(&e), 0.5, 0);
}

/* Steps are a worker's, but the factor goes by the job's: all go, and others begin with their first. */
static void test_scale_goes_on(void **state) {
	struct hd_elastic e;

	begin(&e, "scale=falling scale_every=10");
	assert_float_equal(scale_after(&e, 29), 1 / 4.0, 1e-7);
	hd_elastic_count(&e, 2, 0);
	hd_elastic_count(&e, 3, 0);
	assert_float_equal(scale_of(&e), 1 / 4.0, 1e-7);
	hd_elastic_count(&e, 4, 8);
	assert_float_equal(scale_after(&e, 1), 1 / 4.0, 1e-7);
	assert_float_equal(scale_after(&e, 10), 1 / 5.0, 1e-7);
	assert_int_equal(e.account.step, 10);
	assert_int_equal(e.account.steps, 39);
	/* They are cut off and come back, twice: they count on. */
	for (uint64_t i = 0; i < 2; i++) {
		hd_elastic_count(&e, 5, 0);
		hd_elastic_back(&e);
		hd_elastic_count(&e, 6, 8);
		(void)scale_after(&e, 19 + i);
		assert_int_equal(e.account.steps, 48 + i);
	}
	assert_float_equal(scale_of(&e), 1 / 6.0, 1e-7);
	/* The worker that came later may be the only one to report. */
	assert_float_equal(scale_after(&e, 1), 1 / 6.0, 1e-7);
	hd_elastic_count(&e, 7, 0);
	hd_elastic_count(&e, 8, 8);
	assert_true(scale_after(&e, UINT64_MAX) > 0);
	assert_true(e.account.steps == HD_ELASTIC_STEPS_MAX);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale_by_steps),
		cmocka_unit_test(test_scale_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
