/* SPDX-License-Identifier: BSD-3-Clause */
/* The deficits of tenants, and which may wait for which: by hand, in bytes. */
#include "ctl_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define TENANTS 3 /* each with a job of its own, and the last with two */
#define JOBS (TENANTS + 1)

struct scene {
	struct hd_controller c; /* only what the question needs */
	struct ctl_tenant tenant[TENANTS];
	struct ctl_job job[JOBS];
	struct ctl_transfer due; /* a push of the first one's, of 100 bytes */
};

/* The first has a push pending; the others have some in flight. */
static struct scene *scene_new(void) {
	struct scene *s = calloc(1, sizeof *s);

	s->c.tenant_count = TENANTS;
	s->c.job_count = JOBS;
	for (uint32_t i = 0; i < TENANTS; i++) {
		s->c.tenants[i] = &s->tenant[i];
		s->tenant[i].weight = 1;
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		s->c.jobs[i] = &s->job[i];
		s->job[i].tenant = &s->tenant[i < TENANTS ? i : TENANTS - 1];
		if (i > 0)
			s->job[i].open = s->job[i].open_pushes = 1;
	}
	s->job[0].pending = 1;
	s->due = (struct ctl_transfer){.job = &s->job[0], .direction = HD_PUSH, .bytes = 100};
	return s;
}

static bool waits(struct scene *s) {
	ctl_tenants_mark(&s->c);
	return ctl_tenant_may_wait(&s->c, &s->due);
}

/* Another tenant has a greater deficit, and asks next when its transfers in flight are through. */
static void test_larger_deficit(void **state) {
	struct scene *s = scene_new();

	(void)state;
	assert_false(waits(s)); /* all alike */
	s->tenant[0].deficit = -1;
	assert_true(waits(s));
	s->tenant[0].deficit = 1;
	assert_false(waits(s));
	s->tenant[2].deficit = 2; /* any other will do */
	assert_true(waits(s));
	free(s);
}

/* By weight, and as if both had been granted what is due: a small debt of who has a greater share is not passed by. */
static void test_by_weight(void **state) {
	struct scene *s = scene_new();

	(void)state;
	s->tenant[1].weight = s->tenant[2].weight = 4;
	assert_true(waits(s)); /* 100 bytes are less for them */
	s->tenant[0].deficit = 74;
	assert_true(waits(s)); /* -26 beside -25 */
	s->tenant[0].deficit = 76;
	assert_false(waits(s)); /* -24 */
	s->tenant[2].deficit = 8;
	assert_true(waits(s)); /* -23 */
	s->tenant[0].weight = 8;
	assert_false(waits(s)); /* -3 */
	s->tenant[0].weight = 0; /* none said: as 1 */
	assert_true(waits(s));
	s->tenant[0].deficit = 78;
	assert_false(waits(s)); /* -22 */
	free(s);
}

/* A tenant with a pending request takes part in the plan itself; one without a push in flight is not waited for. */
static void test_turns(void **state) {
	struct scene *s = scene_new();

	(void)state;
	s->tenant[1].deficit = s->tenant[2].deficit = 50;
	s->job[1].open_pushes = 0; /* a pull */
	assert_true(waits(s)); /* for the last one */
	for (int i = 2; i < 4; i++) { /* of any of its jobs */
		s->job[i].pending = 1;
		assert_false(waits(s));
		s->job[i].pending = 0;
	}
	s->job[3].pending = 1;
	s->job[1].open_pushes = 1;
	assert_true(waits(s));
	s->job[1].open = s->job[1].open_pushes = 0; /* idle: it has no deficit any more */
	assert_false(waits(s));
	assert_true(s->tenant[1].deficit == 0);
	free(s);
}

/* Pulls do not, nor jobs that no worker has come for yet. */
static void test_who_does_not_wait(void **state) {
	struct scene *s = scene_new();

	(void)state;
	s->tenant[0].deficit = -1;
	s->due.direction = HD_PULL;
	assert_false(waits(s));
	s->due.direction = HD_PUSH;
	assert_true(waits(s));
	s->due.job = &s->job[3]; /* nor who has more to get than all others */
	s->tenant[2].deficit = 1;
	assert_false(waits(s));
	s->job[3].tenant = NULL;
	assert_false(waits(s));
	free(s);
}

/* A grant to one tenant adds to the deficits of the others, by weight. */
static void test_charge(void **state) {
	struct scene *s = scene_new();

	(void)state;
	s->tenant[1].weight = 3;
	ctl_tenants_mark(&s->c);
	ctl_tenant_charge(&s->c, &s->due);
	assert_true(s->tenant[0].deficit == -80);
	assert_true(s->tenant[1].deficit == 60);
	assert_true(s->tenant[2].deficit == 20);
	assert_int_equal(s->tenant[0].granted_bytes, 100);
	assert_true(waits(s));
	free(s);
}

/* Shares of a grant are rounded: on paper all deficits are 0 again when all had as much. No transfer waits for the last
 * bit of a sum. */
static void test_rounding(void **state) {
	struct scene *s = scene_new();

	(void)state;
	for (uint32_t bytes = 1; bytes <= 300; bytes++) {
		for (uint32_t i = TENANTS; i-- > 0;) {
			const struct ctl_transfer t = {.job = &s->job[i], .bytes = bytes};

			ctl_tenants_mark(&s->c);
			ctl_tenant_charge(&s->c, &t);
		}
		assert_false(waits(s));
	}
	s->tenant[0].deficit -= 0.001; /* a difference beyond rounding */
	assert_true(waits(s));
	free(s);
}

/* Thirds of 60 GB are off by more than a push of 4 kB would be: it does not wait for their last bits. */
static void test_rounding_of_before(void **state) {
	struct scene *s = scene_new();

	(void)state;
	s->due.bytes = 4096;
	for (uint64_t bytes = 60000000000; bytes < 60000000300; bytes++) {
		for (uint32_t i = 0; i < TENANTS; i++) {
			const struct ctl_transfer t = {.job = &s->job[i], .bytes = bytes};

			ctl_tenants_mark(&s->c);
			ctl_tenant_charge(&s->c, &t);
		}
		assert_false(waits(s));
	}
	assert_true(s->tenant[0].deficit_most > 4e10);
	s->tenant[0].deficit -= 10; /* a difference beyond rounding */
	assert_true(waits(s));
	/* An idle tenant loses its deficit: earlier grants have no effect any more. */
	for (uint32_t i = 0; i < JOBS; i++)
		s->job[i].pending = s->job[i].open = s->job[i].open_pushes = 0;
	ctl_tenants_mark(&s->c);
	for (uint32_t i = 0; i < TENANTS; i++)
		assert_true(s->tenant[i].deficit_most == 0);
	free(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_larger_deficit),
		cmocka_unit_test(test_by_weight),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_who_does_not_wait),
		cmocka_unit_test(test_charge),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_rounding_of_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
