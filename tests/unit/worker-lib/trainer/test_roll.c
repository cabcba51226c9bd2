/* SPDX-License-Identifier: BSD-3-Clause */
/* The roll call, from maxima over all workers: every mixture of answers, against a straight reading of the rule. */
#include "hd_roll.h"
#include "hd_sync_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 3
#define KINDS 7 /* answers of one worker */

static void take_greatest(int64_t *maxima, const int64_t *values, int count) {
	for (int i = 0; i < count; i++)
		maxima[i] = values[i] > maxima[i] ? values[i] : maxima[i];
}

static struct hd_roll_answer answer_of(int kind, uint32_t rank) {
	const struct hd_roll_answer answers[KINDS] = {
		{rank, false, false, 0},
		{rank, true, true, 0},
		{rank, true, false, 0},
		{rank, true, true, 41},
		{rank, true, false, 41},
		{rank, true, true, 42},
		{rank, true, false, 42},
	};

	return answers[kind];
}

static bool is_better(const struct hd_roll_answer *a, const struct hd_roll_answer *b) {
	if ((a->has_model && a->sure) != (b->has_model && b->sure))
		return a->has_model && a->sure;
	if (a->has_model != b->has_model)
		return a->has_model;
	if (a->has_model && a->step != b->step)
		return a->step > b->step;
	return a->rank < b->rank;
}

static void check_mixture(const struct hd_roll_answer *answers) {
	int64_t maxima[HD_ROLL_VALUES] = {INT64_MIN, INT64_MIN}, values[HD_ROLL_VALUES];
	const struct hd_roll_answer *best = answers;
	bool complete = true;
	struct hd_roll roll;

	for (int i = 0; i < WORKERS; i++) {
		hd_roll_pack(&answers[i], values);
		take_greatest(maxima, values, HD_ROLL_VALUES);
		best = is_better(&answers[i], best) ? &answers[i] : best;
	}
	for (int i = 0; i < WORKERS; i++)
		complete = complete && answers[i].has_model && answers[i].sure
			&& answers[i].step == best->step;
	roll = hd_roll_read(maxima);
	assert_int_equal(roll.source, best->rank);
	assert_int_equal(roll.any, best->has_model);
	assert_int_equal(roll.step, best->has_model ? best->step : 0);
	assert_int_equal(roll.complete, complete);
}

static void test_mixtures(void **state) {
	const uint32_t ranks[WORKERS] = {0, 7, HD_WORKERS_MAX - 1};
	int kinds[WORKERS];

	(void)state;
	for (int code = 0; code < KINDS * KINDS * KINDS; code++) {
		struct hd_roll_answer answers[WORKERS];

		kinds[0] = code % KINDS;
		kinds[1] = code / KINDS % KINDS;
		kinds[2] = code / KINDS / KINDS;
		for (int i = 0; i < WORKERS; i++)
			answers[i] = answer_of(kinds[i], ranks[i]);
		check_mixture(answers);
	}
}

static void test_last_step(void **state) {
	const struct hd_roll_answer answer = {4095, true, true, HD_ROLL_STEPS_MAX - 1};
	int64_t values[HD_ROLL_VALUES];
	struct hd_roll roll;

	(void)state;
	hd_roll_pack(&answer, values);
	roll = hd_roll_read(values);
	assert_int_equal(roll.step, HD_ROLL_STEPS_MAX - 1);
	assert_int_equal(roll.source, 4095);
	assert_true(roll.complete);
}

/* One bit of any byte that differs at any worker is seen. */
static void test_equal(void **state) {
	uint8_t hash[HD_HASH_BYTES];

	(void)state;
	for (int bit = -1; bit < 8 * HD_HASH_BYTES; bit++) {
		int64_t maxima[HD_EQUAL_VALUES], values[HD_EQUAL_VALUES];

		for (int i = 0; i < HD_HASH_BYTES; i++)
			hash[i] = (uint8_t)(i * 37 + 11);
		hd_equal_pack(hash, maxima);
		hd_equal_pack(hash, values);
		take_greatest(maxima, values, HD_EQUAL_VALUES);
		if (bit >= 0)
			hash[bit / 8] ^= (uint8_t)(1 << bit % 8);
		hd_equal_pack(hash, values);
		take_greatest(maxima, values, HD_EQUAL_VALUES);
		assert_int_equal(hd_equal_read(maxima), bit < 0);
	}
}

static void test_state(void **state) {
	const struct hd_state given = {1234567, true, false, "model=mlp:64 lr=0.1"};
	char text[HD_STATE_BYTES], longest[HD_STATE_BYTES];
	struct hd_state read;

	(void)state;
	assert_int_equal(hd_state_write(&given, text), 0);
	assert_int_equal(hd_state_read(text, &read), 0);
	assert_int_equal(read.step, given.step);
	assert_true(read.ended && !read.owned);
	assert_string_equal(read.settings, given.settings);
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	assert_int_equal(hd_state_write(&(struct hd_state){0, false, true, longest}, text), -E2BIG);
}

static void test_state_refuses(void **state) {
	const char *wrong[]
		= {"",
		   "x",
		   "-1 0 a",
		   "1",
		   "1 ",
		   "1 2 0 a",
		   "1 0 2 a",
		   "1 0",
		   "1 0 1",
		   "1 1a",
		   "1 0 1a",
		   " 1 0 0 a",
		   "281474976710656 0 0 a",
		   "99999999999999999999999 0 0 a"};
	char text[HD_STATE_BYTES];
	struct hd_state read = {.step = 5};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		memset(text, 0, sizeof text);
		memcpy(text, wrong[i], strlen(wrong[i]));
		assert_int_equal(hd_state_read(text, &read), -EINVAL);
	}
	memset(text, '1', sizeof text); /* no end */
	assert_int_equal(hd_state_read(text, &read), -EINVAL);
	assert_int_equal(read.step, 5);
}

static void test_settings(void **state) {
	char words[HD_SETTINGS_WORDS] = "untouched";

	(void)state;
	assert_false(hd_settings_differ("a=1 lr=0.1", "a=1 lr=0.1", words));
	assert_false(hd_settings_differ("", "", words));
	assert_string_equal(words, "untouched");
	assert_true(hd_settings_differ("a=1 lr=0.1 b=2", "a=1 lr=0.12 b=2", words));
	assert_string_equal(words, "lr=0.1, not lr=0.12");
	assert_true(hd_settings_differ("a=1 b=2", "a=1", words));
	assert_string_equal(words, "b=2, not ");
	assert_true(hd_settings_differ("", "a=1", words));
	assert_string_equal(words, ", not a=1");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mixtures),
		cmocka_unit_test(test_last_step),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_state_refuses),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
