/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases worked by hand in docs/schedule.md, with their exact numbers. */
#include "hd_plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EXACT(a, b) assert_true(fabs((a) - (b)) < 1e-12)

enum {
	SERVER,
	A,
	B,
	C
};

struct scene {
	struct hd_plan *plan;
	struct hd_plan_tenant tenant;
	struct hd_plan_job job;
	struct hd_plan_item items[8];
	struct hd_plan_input in;
	const struct hd_plan_entry *entries;
	uint32_t count;
};

static void scene_init(struct scene *scene, const double *capacity, uint32_t links) {
	*scene = (struct scene){.tenant = {.weight = 1}, .job = {.theta = INFINITY}};
	assert_int_equal(hd_plan_create(&scene->plan), 0);
	scene->in = (struct hd_plan_input){
		.link_count = links,
		.capacity = capacity,
		.tenant_count = 1,
		.tenants = &scene->tenant,
		.job_count = 1,
		.jobs = &scene->job,
		.items = scene->items,
		.ageing_s = INFINITY,
	};
}

/* A push over the server's link and, unless it is the server's own, an uplink. Ids count from 1. */
static void add(struct scene *scene, uint32_t uplink, double amount, uint64_t version) {
	struct hd_plan_item *item = &scene->items[scene->in.item_count++];

	item->id = scene->in.item_count;
	item->amount = amount;
	item->version = version;
	if (uplink != SERVER)
		item->path[item->path_count++] = uplink;
	item->path[item->path_count++] = SERVER;
}

static void run(struct scene *scene) {
	const char *error = NULL;

	assert_int_equal(
		hd_plan_run(scene->plan, &scene->in, &scene->entries, &scene->count, &error), 0
	);
	assert_int_equal(scene->count, scene->in.item_count);
}

static const struct hd_plan_entry *of(const struct scene *scene, uint64_t id) {
	for (uint32_t e = 0; e < scene->count; e++)
		if (scene->items[scene->entries[e].item].id == id)
			return &scene->entries[e];
	fail();
	return NULL;
}

static void
expect(const struct scene *scene, uint64_t id, uint64_t position, double finish, double commit) {
	const struct hd_plan_entry *entry = of(scene, id);

	assert_false(entry->dropped);
	assert_int_equal(entry->position, position);
	EXACT(entry->finish, finish);
	EXACT(entry->commit, commit);
}

static double mean_commit(const struct scene *scene) {
	double sum = 0;
	uint32_t count = 0;

	for (uint32_t e = 0; e < scene->count; e++)
		if (!scene->entries[e].dropped) {
			sum += scene->entries[e].commit;
			count++;
		}
	return sum / count;
}

/* Case 1, asked for together: all finish at 1, the tie goes to the older version. The mean commit
 * is 5/2, j keeps its bound with one position to spare. */
static void case_1_together(void **state) {
	const double capacity[] = {1};
	struct scene s;

	(void)state;
	scene_init(&s, capacity, 1);
	s.job.v_init = 10;
	s.job.tau_max = 8;
	add(&s, SERVER, 1, 9);
	add(&s, SERVER, 1, 4); /* j */
	add(&s, SERVER, 1, 9);
	add(&s, SERVER, 1, 9);
	run(&s);
	expect(&s, 2, 11, 1, 1);
	expect(&s, 1, 12, 2, 2);
	expect(&s, 3, 13, 3, 3);
	expect(&s, 4, 14, 4, 4);
	EXACT(mean_commit(&s), 2.5);
	EXACT(of(&s, 2)->why.slack, 1);
	assert_int_equal(of(&s, 2)->why.deadline, 2);
	hd_plan_destroy(s.plan);
}

/* Case 1, the picture: a has begun; then j at 2 with delay 8 = tau_max, b 3, c 4. */
static void case_1_after_a(void **state) {
	const double capacity[] = {1};
	const struct hd_plan_busy a = {.link = 0, .start = 0, .end = 1, .rate = 1, .token = 77};
	struct scene s;

	(void)state;
	scene_init(&s, capacity, 1);
	s.in.busy = &a;
	s.in.busy_count = 1;
	s.job.v_init = 11;
	s.job.tau_max = 8;
	s.job.server_free = 1;
	add(&s, SERVER, 1, 9);
	add(&s, SERVER, 1, 4); /* j */
	add(&s, SERVER, 1, 9);
	run(&s);
	expect(&s, 2, 12, 2, 2);
	expect(&s, 1, 13, 3, 3);
	expect(&s, 3, 14, 4, 4);
	assert_int_equal(of(&s, 2)->position - 4, 8);
	assert_int_equal(of(&s, 2)->after_token, 77);
	assert_int_equal(of(&s, 1)->after, 0);
	hd_plan_destroy(s.plan);
}

static void three_uplinks(struct scene *s) {
	static const double capacity[] = {10, 10, 5, 2.5};

	scene_init(s, capacity, 4);
	s->job.tau_max = 100;
	add(s, A, 10, 0);
	add(s, B, 10, 0);
	add(s, C, 10, 0);
}

static void case_2_order(void **state) {
	struct scene s;

	(void)state;
	three_uplinks(&s);
	run(&s);
	expect(&s, 1, 1, 1, 1);
	expect(&s, 2, 2, 3, 3);
	expect(&s, 3, 3, 5, 5);
	EXACT(mean_commit(&s), 3);
	assert_int_equal(of(&s, 1)->why.rule, HD_PLAN_SHORTEST);
	assert_int_equal(of(&s, 1)->why.runner_up, 2);
	EXACT(of(&s, 1)->why.runner_up_finish, 2);
	assert_int_equal(of(&s, 2)->after, 0);
	hd_plan_destroy(s.plan);
}

/* C alone is due at 1: the others have later versions. */
static void due_at_once(struct scene *s) {
	three_uplinks(s);
	s->job.v_init = 100;
	s->items[0].version = s->items[1].version = 50;
	s->items[2].version = 1;
}

static void case_3_kept(void **state) {
	struct scene s;

	(void)state;
	due_at_once(&s);
	run(&s);
	expect(&s, 3, 101, 4, 4);
	expect(&s, 1, 102, 4.0 / 3, 4);
	expect(&s, 2, 103, 10.0 / 3, 4);
	assert_int_equal(of(&s, 3)->why.rule, HD_PLAN_DEADLINE);
	assert_int_equal(of(&s, 3)->why.runner_up, 1);
	EXACT(of(&s, 3)->why.runner_up_finish, 1);
	EXACT(of(&s, 3)->why.slack, 0);
	hd_plan_destroy(s.plan);
}

static void case_3_dropped(void **state) {
	struct scene s;

	(void)state;
	due_at_once(&s);
	s.job.theta = 1;
	run(&s);
	expect(&s, 1, 101, 1, 1);
	expect(&s, 2, 102, 3, 3);
	assert_true(of(&s, 3)->dropped);
	assert_int_equal(of(&s, 3)->why.rule, HD_PLAN_DROP_IDLES);
	assert_int_equal(of(&s, 3)->why.runner_up, 1);
	EXACT(of(&s, 3)->why.finish, 4);
	hd_plan_destroy(s.plan);
}

/* 4 - 1 = 3 (1 - 0): at theta = 3 it stays; a guard keeps it at any theta. */
static void case_3_guarded(void **state) {
	struct scene s;

	(void)state;
	due_at_once(&s);
	s.job.theta = 3;
	run(&s);
	assert_false(of(&s, 3)->dropped);
	s.job.theta = 1;
	s.items[2].keep = true;
	run(&s);
	assert_false(of(&s, 3)->dropped);
	s.items[2].keep = false;
	run(&s);
	assert_true(of(&s, 3)->dropped);
	hd_plan_destroy(s.plan);
}

static void case_4_two_due(void **state) {
	const double capacity[] = {1};
	struct scene s;

	(void)state;
	scene_init(&s, capacity, 1);
	s.job.v_init = 10;
	s.job.tau_max = 5;
	add(&s, SERVER, 1, 6); /* x */
	add(&s, SERVER, 2, 6); /* y */
	add(&s, SERVER, 1, 9); /* z */
	run(&s);
	expect(&s, 1, 11, 1, 1);
	expect(&s, 3, 12, 2, 2);
	assert_true(of(&s, 2)->dropped);
	assert_int_equal(of(&s, 2)->why.rule, HD_PLAN_DROP_BOUND);
	assert_int_equal(of(&s, 2)->why.deadline, 1);
	EXACT(of(&s, 2)->why.slack, -1);
	hd_plan_destroy(s.plan);
}

static void case_5_look_ahead(void **state) {
	const double capacity[] = {1};
	struct scene s;

	(void)state;
	scene_init(&s, capacity, 1);
	s.job.v_init = 10;
	s.job.tau_max = 5;
	add(&s, SERVER, 2, 7); /* x */
	add(&s, SERVER, 3, 7); /* y */
	add(&s, SERVER, 1, 9); /* z */
	run(&s);
	expect(&s, 1, 11, 2, 2);
	expect(&s, 2, 12, 5, 5);
	expect(&s, 3, 13, 6, 6);
	assert_int_equal(of(&s, 1)->why.rule, HD_PLAN_DEADLINE);
	assert_int_equal(of(&s, 1)->why.runner_up, 3);
	hd_plan_destroy(s.plan);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_1_together),
		cmocka_unit_test(case_1_after_a),
		cmocka_unit_test(case_2_order),
		cmocka_unit_test(case_3_kept),
		cmocka_unit_test(case_3_dropped),
		cmocka_unit_test(case_3_guarded),
		cmocka_unit_test(case_4_two_due),
		cmocka_unit_test(case_5_look_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
