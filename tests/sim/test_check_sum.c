/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkers know sums: several updates that are committed as one. */
#include "check_story.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Workers 0 to `count` - 1 in one sum. */
static void sum_of(struct story *story, uint32_t count) {
	hd_version base = version_of(story);

	for (uint32_t i = 0; i < count; i++)
		apply(story, push(story, i));
	for (uint32_t i = 0; i < count; i++) {
		struct hd_event event = commit_event(story, i, story->round[i], base);

		event.more = (uint16_t)(count - 1 - i);
		feed(story, event);
	}
	look(story);
}

static void test_sum_passes(void **state) {
	struct story story;

	begin(&story);
	sum_of(&story, 3);
	sum_of(&story, 2);
	for (uint32_t i = 0; i < 2; i++)
		outcome(&story, i, HD_OUTCOME_APPLIED, hd_version_make(1, 4 + i));
	hd_check_pull(story.check, 1, story.model, version_of(&story));
	assert_int_equal(hd_check_stats(story.check)->commits, 5);
	expect(&story, NULL);
}

static void test_sum_torn(void **state) {
	struct story story;
	struct hd_event event;

	begin(&story);
	for (uint32_t i = 0; i < 2; i++)
		apply(&story, push(&story, i));
	event = commit_event(&story, 0, 1, hd_version_make(1, 0));
	event.more = 2;
	feed(&story, event);
	event = commit_event(&story, 1, 1, hd_version_make(1, 0));
	event.more = 1;
	feed(&story, event);
	look(&story);
	expect(&story, "without its last 1 parts");
}

static void test_sum_counts_wrong(void **state) {
	struct story story;
	struct hd_event event;

	begin(&story);
	apply(&story, push(&story, 0));
	apply(&story, push(&story, 1));
	event = commit_event(&story, 0, 1, hd_version_make(1, 0));
	event.more = 2;
	feed(&story, event);
	event = commit_event(&story, 1, 1, hd_version_make(1, 0));
	event.more = 0;
	feed(&story, event);
	expect(&story, "0 more parts of its sum, where 1 were to come");
}

/* A member that is in the sum twice, or was in the model before. */
static void test_sum_holds_one_twice(void **state) {
	struct story story;
	hd_version base;
	struct hd_event event;
	uint64_t salt;

	begin(&story);
	base = version_of(&story);
	salt = push(&story, 0);
	for (uint16_t i = 0; i < 2; i++) {
		event = commit_event(&story, 0, 1, base);
		event.more = (uint16_t)(1 - i);
		apply(&story, salt);
		feed(&story, event);
	}
	expect(&story, "applied twice");
}

/* A part that the sum does not hold. */
static void test_sum_lacks_one(void **state) {
	struct story story;
	hd_version base;

	begin(&story);
	base = version_of(&story);
	apply(&story, push(&story, 0));
	push(&story, 1);
	for (uint32_t i = 0; i < 2; i++) {
		struct hd_event event = commit_event(&story, i, 1, base);

		event.more = (uint16_t)(1 - i);
		feed(&story, event);
	}
	look(&story);
	expect(&story, "is not the sum of its updates");
}

/* The version of a part of a sum is neither a base nor the version of a pull. */
static void test_version_within_a_sum(void **state) {
	struct story story;

	begin(&story);
	sum_of(&story, 3);
	hd_check_pull(story.check, 1, story.model, hd_version_make(1, 2));
	expect(&story, "which never was");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_passes),
		cmocka_unit_test(test_sum_torn),
		cmocka_unit_test(test_sum_counts_wrong),
		cmocka_unit_test(test_sum_holds_one_twice),
		cmocka_unit_test(test_sum_lacks_one),
		cmocka_unit_test(test_version_within_a_sum),
	};

	return cmocka_run_group_tests_name("check-sum", tests, NULL, NULL);
}
