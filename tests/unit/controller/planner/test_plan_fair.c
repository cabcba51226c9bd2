/* SPDX-License-Identifier: BSD-3-Clause */
/* The order among equals: the written rule for ties between jobs, and between tenants. */
#include "plan_reference.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define JOBS 2

struct scene {
	struct hd_plan *plan;
	struct hd_plan_tenant tenant;
	struct hd_plan_job jobs[JOBS];
	struct hd_plan_item items[4];
	struct hd_plan_input in;
};

static const double one_link[] = {1};

/* An old job, which counts a million versions, and a young one. Their transfers take equally long. */
static void scene_init(struct scene *s) {
	*s = (struct scene){
		.tenant = {.weight = 1},
		.jobs
		= {{.v_init = 1000000, .tau_max = 8, .theta = INFINITY},
		   {.v_init = 3, .tau_max = 8, .theta = INFINITY}},
	};
	assert_int_equal(hd_plan_create(&s->plan), 0);
	s->in = (struct hd_plan_input){
		.link_count = 1,
		.capacity = one_link,
		.tenant_count = 1,
		.tenants = &s->tenant,
		.job_count = JOBS,
		.jobs = s->jobs,
		.items = s->items,
		.ageing_s = INFINITY,
	};
}

/* On the newest model of its job but `behind` updates. */
static struct hd_plan_item *add(struct scene *s, uint32_t job, double waited, uint64_t behind) {
	struct hd_plan_item *item = &s->items[s->in.item_count++];

	*item = (struct hd_plan_item){
		.id = s->in.item_count,
		.job = job,
		.version = s->jobs[job].v_init - behind,
		.amount = 1,
		.waited = waited,
		.path_count = 1,
	};
	return item;
}

/* The ids in planned order are those of `wanted`, a digit each. */
static void goes(struct scene *s, const char *wanted) {
	const struct hd_plan_entry *entries;
	const char *error = NULL;
	char order[8] = "";
	uint32_t count;

	assert_int_equal(hd_plan_run(s->plan, &s->in, &entries, &count, &error), 0);
	for (uint32_t e = 0; e < count; e++)
		order[e] = (char)('0' + s->items[entries[e].item].id);
	assert_string_equal(order, wanted);
}

/* Whose counter is lower says nothing: who asked first goes first, be it the old job or the young one. */
static void test_jobs_by_wait(void **state) {
	struct scene s;

	(void)state;
	scene_init(&s);
	add(&s, 1, 1, 0);
	add(&s, 0, 2, 0);
	goes(&s, "21");
	s.items[0].waited = 3;
	goes(&s, "12");
	/* Both at once: by id, whichever job's that is. */
	s.items[0].waited = 2;
	goes(&s, "12");
	s.items[0].job = 0;
	s.items[0].version = s.jobs[0].v_init;
	s.items[1].job = 1;
	s.items[1].version = s.jobs[1].v_init;
	goes(&s, "12");
	/* Aged ones that waited equally long: the same. */
	s.in.ageing_s = 1;
	goes(&s, "12");
	hd_plan_destroy(s.plan);
}

/* Inside a job the older version stays first, however long the other waited; each job's first one competes. */
static void test_versions_inside_a_job(void **state) {
	struct scene s;

	(void)state;
	scene_init(&s);
	add(&s, 0, 9, 0);
	add(&s, 0, 1, 2);
	add(&s, 1, 2, 0);
	goes(&s, "321");
	s.items[1].waited = 3;
	goes(&s, "213");
	hd_plan_destroy(s.plan);
}

/* The runner-up that another job's item names follows the same order. */
static void test_runner_up(void **state) {
	const struct hd_plan_entry *entries;
	const char *error = NULL;
	uint32_t count;
	struct scene s;

	(void)state;
	scene_init(&s);
	add(&s, 0, 5, 0);
	add(&s, 0, 4, 0);
	add(&s, 1, 3, 0);
	assert_int_equal(hd_plan_run(s.plan, &s.in, &entries, &count, &error), 0);
	assert_int_equal(entries[0].item, 0);
	assert_int_equal(entries[0].why.runner_up, 2);
	hd_plan_destroy(s.plan);
}

#define TENANTS_MOST 12
#define ROUNDS 8

/* On paper all deficits are equal again after each round, in which each has one item; so in each the order decides.
 * With weights from 1 up a tenant's items are as large as its weight says. */
static void rounds(struct hd_plan *plan, uint32_t tenants, double amount, bool weighted) {
	struct hd_plan_tenant tenant[TENANTS_MOST];
	struct hd_plan_job jobs[TENANTS_MOST];
	struct hd_plan_item items[TENANTS_MOST * ROUNDS];
	const struct hd_plan_entry *entries;
	const char *error = NULL;
	uint32_t count;

	for (uint32_t t = 0; t < tenants; t++) {
		/* The last one's are the first in order. */
		const double weight = weighted ? tenants - t : 1;

		tenant[t] = (struct hd_plan_tenant){.weight = weight};
		jobs[t] = (struct hd_plan_job){.tenant = t, .tau_max = 99, .theta = INFINITY};
		for (uint32_t r = 0; r < ROUNDS; r++)
			items[r * tenants + t] = (struct hd_plan_item){
				.id = (r + 1) * tenants - t,
				.job = t,
				.amount = amount * weight,
				.path_count = 1,
			};
	}
	const struct hd_plan_input in = {
		.link_count = 1,
		.capacity = one_link,
		.tenant_count = tenants,
		.tenants = tenant,
		.job_count = tenants,
		.jobs = jobs,
		.item_count = tenants * ROUNDS,
		.items = items,
		.ageing_s = INFINITY,
	};
	assert_int_equal(hd_plan_run(plan, &in, &entries, &count, &error), 0);
	assert_int_equal(count, in.item_count);
	for (uint32_t e = 0; e < count; e++)
		if (items[entries[e].item].id != e + 1)
			fail_msg(
				"%u tenants, amount %g: %lu goes as number %u",
				tenants,
				amount,
				(unsigned long)items[entries[e].item].id,
				e + 1
			);
}

static void test_equal_scores(void **state) {
	static const double amounts[] = {1, 0.1, 1e-6, 1e7 / 3, 123456789, 6e10};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t tenants = 2; tenants <= TENANTS_MOST; tenants++)
		for (size_t a = 0; a < sizeof amounts / sizeof amounts[0]; a++) {
			rounds(plan, tenants, amounts[a], false);
			rounds(plan, tenants, amounts[a], true);
		}
	hd_plan_destroy(plan);
}

/* A greater difference is no tie: a few bytes of 60 GB decide against the order. */
static void test_a_byte_more(void **state) {
	struct hd_plan_tenant tenant[2] = {{.weight = 1}, {.weight = 1, .deficit = 4}};
	struct hd_plan_job jobs[2] = {
		{.tau_max = 8, .theta = INFINITY}, {.tenant = 1, .tau_max = 8, .theta = INFINITY}};
	struct hd_plan_item items[2]
		= {{.id = 1, .amount = 6e10, .path_count = 1},
		   {.id = 2, .job = 1, .amount = 6e10, .path_count = 1}};
	const struct hd_plan_input in = {
		.link_count = 1,
		.capacity = one_link,
		.tenant_count = 2,
		.tenants = tenant,
		.job_count = 2,
		.jobs = jobs,
		.item_count = 2,
		.items = items,
		.ageing_s = INFINITY,
	};
	const struct hd_plan_entry *entries;
	const char *error = NULL;
	struct hd_plan *plan;
	uint32_t count;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	assert_int_equal(hd_plan_run(plan, &in, &entries, &count, &error), 0);
	assert_int_equal(entries[0].item, 1);
	tenant[1].deficit = 0;
	assert_int_equal(hd_plan_run(plan, &in, &entries, &count, &error), 0);
	assert_int_equal(entries[0].item, 0);
	hd_plan_destroy(plan);
}

/* The rests of large deficits have the rounding errors of the large ones, also beside small pushes. */
static void test_kept_deficit(void **state) {
	struct hd_plan_tenant tenant[2] = {{.weight = 1}, {.weight = 1, .deficit = 8e-6}};
	struct hd_plan_job jobs[2] = {
		{.tau_max = 8, .theta = INFINITY}, {.tenant = 1, .tau_max = 8, .theta = INFINITY}};
	struct hd_plan_item items[2]
		= {{.id = 1, .amount = 4096, .path_count = 1},
		   {.id = 2, .job = 1, .amount = 4096, .path_count = 1}};
	const struct hd_plan_input in = {
		.link_count = 1,
		.capacity = one_link,
		.tenant_count = 2,
		.tenants = tenant,
		.job_count = 2,
		.jobs = jobs,
		.item_count = 2,
		.items = items,
		.ageing_s = INFINITY,
	};
	const double wrong[] = {-1, INFINITY, NAN};
	struct hd_plan_entry reference[2];
	const struct hd_plan_entry *entries;
	const char *error = NULL;
	struct hd_plan *plan;
	uint32_t count;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t t = 0; t < 3; t++) { /* whose it was makes no difference */
		tenant[0].deficit_most = t == 0 ? 6e10 : 0;
		tenant[1].deficit_most = t == 1 ? 6e10 : 0;
		assert_int_equal(hd_plan_run(plan, &in, &entries, &count, &error), 0);
		assert_int_equal(entries[0].item, t == 2); /* exact ones do decide */
		assert_int_equal(plan_reference(&in, reference), 0);
		assert_int_equal(reference[0].item, t == 2);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		tenant[1].deficit_most = wrong[i];
		assert_int_equal(hd_plan_run(plan, &in, &entries, &count, &error), -EINVAL);
		assert_string_equal(error, "tenants[1].deficit_most: must be 0 or more");
	}
	hd_plan_destroy(plan);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_by_wait),
		cmocka_unit_test(test_versions_inside_a_job),
		cmocka_unit_test(test_runner_up),
		cmocka_unit_test(test_equal_scores),
		cmocka_unit_test(test_a_byte_more),
		cmocka_unit_test(test_kept_deficit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
