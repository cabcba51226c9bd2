/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle without a fabric: limits of descriptions, and names of codes. */
#include "heddle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_spec_limits(void **state) {
	uint64_t dimensions[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, zero = 0;
	char name[80];
	struct heddle_spec *spec;

	memset(name, 'n', sizeof name);
	name[79] = '\0';
	assert_int_equal(heddle_spec_create(name, "j", &spec), -EINVAL);
	assert_int_equal(heddle_spec_create("t", "a\nb", &spec), -EINVAL);
	assert_int_equal(unsetenv("HEDDLE_JOB"), 0);
	assert_int_equal(heddle_spec_create("t", NULL, &spec), -EINVAL);
	assert_string_equal(heddle_last_error(), "no job name: set HEDDLE_JOB, or pass one");
	/* A variable that is empty is not set. */
	assert_int_equal(setenv("HEDDLE_TENANT", "", 1), 0);
	assert_int_equal(setenv("HEDDLE_JOB", "", 1), 0);
	assert_int_equal(heddle_spec_create(NULL, NULL, &spec), -EINVAL);
	assert_string_equal(heddle_last_error(), "no job name: set HEDDLE_JOB, or pass one");
	assert_int_equal(heddle_spec_create(NULL, "j", &spec), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_spec_create("t", "j", &spec), 0);
	assert_int_equal(heddle_spec_add_tensor(spec, "w", &zero, 1, HEDDLE_INIT_ZERO, 0), -EINVAL);
	assert_int_equal(
		heddle_spec_add_tensor(spec, "w", dimensions, 9, HEDDLE_INIT_ZERO, 0), -E2BIG
	);
	assert_int_equal(
		heddle_spec_add_tensor(spec, "w", dimensions, 0, HEDDLE_INIT_ZERO, 0), -EINVAL
	);
	for (int i = 0; i < 1024; i++)
		assert_int_equal(
			heddle_spec_add_tensor(spec, "w", dimensions, 8, HEDDLE_INIT_ZERO, 0), 0
		);
	assert_int_equal(
		heddle_spec_add_tensor(spec, "w", dimensions, 1, HEDDLE_INIT_ZERO, 0), -E2BIG
	);
	heddle_spec_destroy(spec);
}

static void test_words(void **state) {
	assert_string_equal(heddle_state_name(HEDDLE_STATE_HELD), "held");
	assert_string_equal(heddle_state_name((enum heddle_state)99), "unknown");
	assert_string_equal(heddle_reason_name(HEDDLE_REASON_LOST_BASE), "lost-base");
	assert_string_equal(heddle_reason_name((enum heddle_reason)99), "unknown");
	assert_non_null(strstr(heddle_strerror(-EDOM), "NaN"));
	assert_string_equal(heddle_strerror(123456), "unknown error");
	assert_string_equal(heddle_version_text(), "0.2.0");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spec_limits),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
