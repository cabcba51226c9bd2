/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap of deadlines against a plain search. */
#include "hd_random.h"
#include "hd_timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT 500

static void test_against_a_search(void **state) {
	struct hd_timers timers = {0};
	struct hd_timer timer[COUNT] = {0};
	hd_ns want[COUNT];
	struct hd_random random;

	hd_random_init(&random, 3);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(hd_timers_reserve(&timers), 0);
		want[i] = HD_NEVER;
	}
	for (uint32_t step = 0; step < 20000; step++) {
		size_t i = hd_random_below(&random, COUNT);
		hd_ns least = HD_NEVER;
		struct hd_timer *first;

		want[i] = hd_random_chance(&random, 0.2) ? HD_NEVER :
							   hd_random_below(&random, 1000);
		hd_timer_set(&timers, &timer[i], want[i]);
		for (size_t k = 0; k < COUNT; k++)
			least = hd_ns_min(least, want[k]);
		assert_int_equal(hd_timers_next(&timers), least);
		if (step % 3 != 0 || least == HD_NEVER)
			continue;
		assert_null(least > 0 ? hd_timers_pop(&timers, least - 1) : NULL);
		first = hd_timers_pop(&timers, least);
		assert_non_null(first);
		assert_int_equal(want[first - timer], least);
		want[first - timer] = HD_NEVER;
	}
	for (size_t i = 0; i < COUNT; i++)
		hd_timers_release(&timers, &timer[i]);
	assert_int_equal(timers.room, 0);
	assert_int_equal(hd_timers_next(&timers), HD_NEVER);
	hd_timers_fini(&timers);
}

/* Timers that are due together run in the order in which they were set: none starves. */
static void test_equal_times_take_turns(void **state) {
	struct hd_timers timers = {0};
	struct hd_timer timer[5] = {0};

	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(hd_timers_reserve(&timers), 0);
		hd_timer_set(&timers, &timer[i], 7);
	}
	for (size_t i = 0; i < 50; i++) {
		struct hd_timer *first = hd_timers_pop(&timers, 7);

		assert_ptr_equal(first, &timer[i % 5]);
		hd_timer_set(&timers, first, 7);
	}
	for (size_t i = 0; i < 5; i++)
		hd_timers_release(&timers, &timer[i]);
	hd_timers_fini(&timers);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_search),
		cmocka_unit_test(test_equal_times_take_turns),
	};

	return cmocka_run_group_tests_name("server-timers", tests, NULL, NULL);
}
