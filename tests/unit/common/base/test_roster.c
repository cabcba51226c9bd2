/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks: against a plain array, and what no set is. */
#include "hd_random.h"
#include "hd_roster.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_like_an_array(void **state) {
	static bool present[HD_WORKERS_MAX];
	static uint16_t ranks[HD_WORKERS_MAX];
	struct hd_roster roster = {0}, read;
	struct hd_random r;

	(void)state;
	hd_random_init(&r, 5);
	for (int i = 0; i < 20000; i++) {
		uint16_t limit = i < 10000 ? HD_WORKERS_MAX : 20;
		uint16_t rank = (uint16_t)hd_random_below(&r, limit), count = 0;
		bool now = hd_random_below(&r, 2) == 0;

		assert_int_equal(hd_roster_set(&roster, rank, now), present[rank] != now);
		present[rank] = now;
		if (i % 100)
			continue;
		for (uint16_t k = 0; k < HD_WORKERS_MAX; k++) {
			assert_int_equal(hd_roster_has(&roster, k), present[k]);
			count = (uint16_t)(count + present[k]);
		}
		assert_int_equal(roster.count, count);
		assert_int_equal(hd_roster_list(&roster, ranks, HD_WORKERS_MAX), count);
		for (uint16_t k = 0; k < count; k++)
			assert_true(present[ranks[k]] && (k == 0 || ranks[k - 1] < ranks[k]));
		assert_int_equal(hd_roster_list(&roster, ranks, 1), count);
		assert_int_equal(
			hd_roster_read(&read, count, roster.ranks, hd_roster_bytes(&roster)), 0
		);
		assert_memory_equal(read.ranks, roster.ranks, sizeof read.ranks);
	}
	assert_false(hd_roster_has(&roster, HD_WORKERS_MAX));
	assert_false(hd_roster_has(&roster, UINT16_MAX));
}

static void test_what_is_none(void **state) {
	static uint8_t full[HD_ROSTER_BYTES + 1];
	struct hd_roster roster;

	(void)state;
	memset(full, 255, sizeof full);
	assert_int_equal(hd_roster_read(&roster, HD_WORKERS_MAX, full, HD_ROSTER_BYTES), 0);
	assert_int_equal(hd_roster_read(&roster, HD_WORKERS_MAX + 8, full, sizeof full), -EBADMSG);
	assert_int_equal(hd_roster_read(&roster, 0, NULL, 0), 0);
	assert_int_equal(hd_roster_bytes(&roster), 0);
	assert_int_equal(hd_roster_read(&roster, 1, NULL, 0), -EBADMSG);
	assert_int_equal(hd_roster_read(&roster, 2, (uint8_t[]){1}, 1), -EBADMSG);
	assert_int_equal(hd_roster_read(&roster, 1, (uint8_t[]){1, 0}, 2), -EBADMSG);
}

/* A scale in the roster holds; otherwise the job's ratio of present to configured workers. */
static void test_scale(void **state) {
	struct hd_roster roster = {0};

	(void)state;
	assert_float_equal(hd_roster_scale(&roster, 4), 1, 0);
	roster.change = 1;
	assert_true(hd_roster_valid(&roster));
	roster.count = 3;
	assert_float_equal(hd_roster_scale(&roster, 0), 1, 0);
	assert_float_equal(hd_roster_scale(&roster, 4), 0.75, 0);
	roster.count = 100;
	assert_float_equal(hd_roster_scale(&roster, 4), HD_SCALE_MAX, 0);
	roster.scale = 0.5F;
	assert_float_equal(hd_roster_scale(&roster, 4), 0.5, 0);
	assert_float_equal(hd_roster_scale(&roster, 0), 0.5, 0);
	roster.scale = -1;
	assert_false(hd_roster_valid(&roster));
	roster.scale = NAN;
	assert_false(hd_roster_valid(&roster));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_an_array),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_scale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
