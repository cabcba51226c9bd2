/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives at the controller: values that come with requests, results in REDUCE. */
#include "inline_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const float one_third[WORKERS] = {1.0F / 3, 1e8F, -1e8F};

/* In whatever order they come, the sum is that of the ranks' order. */
static void test_sum(void **state) {
	static const uint16_t orders[][WORKERS] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
	const float want = (one_third[0] + one_third[1]) + one_third[2];
	struct scene s;

	(void)state;
	assert_true(want != one_third[0] + (one_third[1] + one_third[2]));
	open_scene(&s);
	for (uint32_t k = 0; k < 3; k++) {
		for (uint16_t i = 0; i < WORKERS; i++) {
			const uint16_t rank = orders[k][i];
			const struct offer offer = {
				.wish = {.bytes = VALUE_BYTES},
				.values = &one_third[rank],
				.bytes = VALUE_BYTES,
			};

			assert_int_equal(peer_count(s.workers[rank], HD_MSG_REDUCE), k);
			give(&s, rank, k + 1, &offer);
		}
		for (uint16_t i = 0; i < WORKERS; i++) {
			check_values(&s, i, &want, VALUE_BYTES);
			finish(&s, i);
		}
		assert_int_equal(counters(&s.net)->reduces_inlined, k + 1);
	}
	check_nothing_left(&s);
	net_close(&s.net);
}

/* 256 + 1 + 1 is 256 if it is rounded to bf16 after each step. */
static void test_types(void **state) {
	static const uint16_t half[WORKERS] = {0x4380, 0x3f80, 0x3f80}, half_sum = 0x4381;
	static const int8_t small[WORKERS] = {100, 100, -2}, wrapped = (int8_t)(198 - 256) / 3;
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = {
			.wish = {.bytes = sizeof half[i]},
			.dtype = HD_DTYPE_BF16,
			.values = &half[i],
			.bytes = sizeof half[i],
		};

		give(&s, i, 1, &offer);
	}
	for (uint16_t i = 0; i < WORKERS; i++) {
		check_values(&s, i, &half_sum, sizeof half_sum);
		finish(&s, i);
	}
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = {
			.wish = {.bytes = 1},
			.dtype = HD_DTYPE_INT8,
			.op = HD_REDUCE_OP_AVERAGE,
			.values = &small[i],
			.bytes = 1,
		};

		give(&s, i, 2, &offer);
	}
	for (uint16_t i = 0; i < WORKERS; i++) {
		check_values(&s, i, &wrapped, 1);
		finish(&s, i);
	}
	check_nothing_left(&s);
	net_close(&s.net);
}

static void test_copies(void **state) {
	uint32_t column[WORKERS][WORKERS];
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_BROADCAST, 1, i, i == 1);

		give(&s, i, 1, &offer);
	}
	check_values(&s, 0, given[1], CALL_BYTES);
	check_values(&s, 1, NULL, 0);
	check_values(&s, 2, given[1], CALL_BYTES);
	finish_all(&s, 5);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, i, true);

		give(&s, i, 2, &offer);
	}
	for (uint16_t i = 0; i < WORKERS; i++)
		check_values(&s, i, given, sizeof given);
	finish_all(&s, 7);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_GATHER, 2, i, true);

		give(&s, i, 3, &offer);
	}
	check_values(&s, 0, NULL, 0);
	check_values(&s, 2, given, sizeof given);
	finish_all(&s, 4);
	/* Blocks of 2, 2 and 3 values. */
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_SCATTER, 0, i, i == 0);

		give(&s, i, 4, &offer);
	}
	check_values(&s, 0, NULL, 0);
	check_values(&s, 1, given[0] + 2, 2 * VALUE_BYTES);
	check_values(&s, 2, given[0] + 4, 3 * VALUE_BYTES);
	finish_all(&s, 6);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLTOALL, 0, i, true);

		give(&s, i, 5, &offer);
	}
	for (uint16_t k = 0; k < WORKERS; k++)
		memcpy(&column[0][0] + (size_t)2 * k, given[k] + 2, 2 * VALUE_BYTES);
	check_values(&s, 1, column, (size_t)2 * WORKERS * VALUE_BYTES);
	for (uint16_t k = 0; k < WORKERS; k++)
		memcpy(column[k], given[k] + 4, 3 * VALUE_BYTES);
	check_values(&s, 2, column, sizeof column);
	finish_all(&s, 7);
	check_nothing_left(&s);
	net_close(&s.net);
}

/* Integers: a sum whose blocks go to one member each, and whose last has all. */
static void test_sums_of_some(void **state) {
	int32_t sum[COUNT];
	struct scene s;

	(void)state;
	open_scene(&s);
	for (int k = 0; k < COUNT; k++)
		sum[k] = (int32_t)(given[0][k] + given[1][k] + given[2][k]);
	for (uint32_t round = 1; round <= 2; round++)
		for (uint16_t i = 0; i < WORKERS; i++) {
			struct offer offer = offer_of(
				round == 1 ? HD_COLLECTIVE_REDUCE_SCATTER : HD_COLLECTIVE_REDUCE,
				round == 1 ? 0 : 1,
				i,
				true
			);

			offer.dtype = HD_DTYPE_INT32;
			give(&s, i, round, &offer);
			if (i + 1 < WORKERS)
				continue;
			check_values(&s, 0, sum, round == 1 ? 2 * VALUE_BYTES : 0);
			if (round == 1)
				check_values(&s, 1, sum + 2, 2 * VALUE_BYTES);
			else
				check_values(&s, 1, sum, CALL_BYTES);
			check_values(&s, 2, sum + 4, round == 1 ? 3 * VALUE_BYTES : 0);
			finish_all(&s, round == 1 ? 7 : 2);
		}
	check_nothing_left(&s);
	net_close(&s.net);
}

/* Whether three workers' round of these bytes has its values in its messages. `short_of`: this rank gives none. */
static bool goes_inline(struct scene *s, uint32_t round, uint64_t bytes, uint16_t short_of) {
	uint8_t *values = calloc(1, bytes);
	bool inlined;

	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = {
			.wish = {.bytes = bytes},
			.dtype = HD_DTYPE_UINT8,
			.values = values,
			.bytes = i == short_of ? 0 : (uint32_t)bytes,
		};

		give(s, i, round, &offer);
	}
	inlined = reduce_sent(s, 0)->inlined;
	assert_int_equal(reduce_sent(s, 0)->round, round);
	assert_int_equal(reduce_sent(s, 0)->shards.bytes > 0, !inlined);
	for (uint16_t i = 0; i < WORKERS; i++)
		finish(s, i);
	assert_int_equal(open_rounds(s), 0);
	assert_int_equal(s->net.controller->inline_held, 0);
	free(values);
	return inlined;
}

static uint8_t set_by(struct scene *s, struct peer *shell, const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.verb = HD_VERB_SET;
	(void)snprintf(m.command.object, sizeof m.command.object, "inline-bytes");
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(shell, m);
	net_run(&s->net, HD_MS);
	return peer_last(shell, HD_MSG_DONE)->done.reason;
}

static void test_setting(void **state) {
	struct peer *shell;
	struct scene s;

	(void)state;
	open_scene(&s);
	shell = net_peer(&s.net, HD_ROLE_SHELL, "ctl");
	assert_int_equal(set_by(&s, shell, "off"), HD_REASON_NONE);
	assert_false(goes_inline(&s, 1, 100, WORKERS));
	assert_int_equal(reduce_sent(&s, 0)->inline_bytes, 0);
	assert_int_equal(set_by(&s, shell, "100"), HD_REASON_NONE);
	assert_true(goes_inline(&s, 2, 100, WORKERS));
	assert_int_equal(reduce_sent(&s, 0)->inline_bytes, 100);
	assert_int_equal(set_by(&s, shell, "16385"), HD_REASON_REFUSED);
	assert_int_equal(s.net.controller->inline_bytes, 100);
	net_close(&s.net);
}

/* Others go through aggregators. */
static void test_limits(void **state) {
	static const uint8_t hundred[100];
	struct scene s;

	(void)state;
	open_scene(&s);
	assert_true(goes_inline(&s, 1, HD_INLINE_BYTES, WORKERS));
	assert_int_equal(reduce_sent(&s, 2)->inline_bytes, HD_INLINE_BYTES);
	assert_false(goes_inline(&s, 2, HD_INLINE_BYTES + 1, WORKERS));
	assert_false(goes_inline(&s, 3, 100, 1));
	s.net.controller->inline_bytes = 0;
	assert_false(goes_inline(&s, 4, 100, WORKERS));
	assert_int_equal(reduce_sent(&s, 2)->inline_bytes, 0);
	s.net.controller->inline_bytes = 99;
	assert_false(goes_inline(&s, 5, 100, WORKERS));
	assert_true(goes_inline(&s, 6, 99, WORKERS));
	/* All members together. */
	s.net.controller->inline_bytes = CTL_INLINE_ROUND_BYTES;
	assert_true(goes_inline(&s, 7, CTL_INLINE_ROUND_BYTES / WORKERS / 3, WORKERS));
	assert_false(goes_inline(&s, 8, 48000, WORKERS));
	/* All rounds together. */
	s.net.controller->inline_held = CTL_INLINE_HELD_BYTES - 250;
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = {
			.wish = {.bytes = 100},
			.dtype = HD_DTYPE_UINT8,
			.values = hundred,
			.bytes = sizeof hundred,
		};

		give(&s, i, 9, &offer);
	}
	assert_false(reduce_sent(&s, 0)->inlined);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_sums_of_some),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
