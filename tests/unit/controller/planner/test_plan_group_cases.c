/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of grouping worked by hand in docs/schedule.md, with their exact numbers. */
#include "group_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define EXACT(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void pushes(struct group_scene *scene, uint32_t count, uint32_t aggregators) {
	group_scene_init(scene);
	scene->group.aggregator_count = aggregators;
	for (uint32_t i = 0; i < count; i++)
		group_scene_add(scene, HD_PLAN_PUSH);
}

/* Sizes of what goes to the server together, in order. */
static void expect_sizes(const struct group_scene *scene, const uint32_t *sizes, uint32_t count) {
	uint32_t e = 0;

	for (uint32_t k = 0; k < count; k++) {
		const uint32_t group = !scene->out.group_of ? HD_PLAN_NONE : scene->out.group_of[e];

		if (sizes[k] == 1)
			assert_int_equal(group, HD_PLAN_NONE);
		else
			assert_int_equal(scene->out.groups[group].count, sizes[k]);
		e += sizes[k];
	}
	assert_int_equal(e, scene->group.entry_count);
}

#define EXPECT_SIZES(scene, ...)                                                                   \
	expect_sizes(                                                                              \
		scene,                                                                             \
		(const uint32_t[]){__VA_ARGS__},                                                   \
		sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)                         \
	)

static void test_four_and_one_aggregator(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 4, 1);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2);
	EXACT(group_scene_last(&scene, scene.group.entries), 4);
	EXACT(group_scene_last(&scene, scene.out.entries), 3);
	EXACT(scene.out.groups[0].collected, 2);
	EXACT(scene.out.groups[0].limit, 2);
	EXACT(scene.out.groups[0].direct, 4);
	EXACT(scene.out.groups[0].sum.start, 2);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

static void test_five_and_one_aggregator(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 5, 1);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2, 1);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	EXACT(group_scene_mean(&scene, scene.out.entries), 13.0 / 5);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

static void test_seven_and_two_aggregators(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 7, 2);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2, 3);
	EXACT(group_scene_last(&scene, scene.group.entries), 7);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	assert_true(scene.out.groups[0].aggregator != scene.out.groups[1].aggregator);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

static void test_seven_and_a_slow_aggregator(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 7, 1);
	scene.capacity[GROUP_INTO(0)] = 0.5;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 1, 1, 2, 1);
	EXACT(group_scene_last(&scene, scene.out.entries), 6);
	EXACT(scene.out.groups[0].collected, 4);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* Asked to spare the server's link, it adds up what it can without being a tenth later than all direct. */
static void test_the_servers_link_is_spared(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 4, 1);
	scene.group.streaming = scene.group.spare = true;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 4);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	EXACT(scene.out.groups[0].sum.start, 3);
	group_scene_check(&scene);
	group_scene_fini(&scene);
	/* Half as fast, one sum of all would take twice as long. */
	pushes(&scene, 4, 1);
	scene.group.streaming = scene.group.spare = true;
	scene.capacity[GROUP_INTO(0)] = 0.5;
	group_scene_run(&scene);
	assert_true(group_scene_last(&scene, scene.out.entries) <= 4.4);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* The second of two is free at once: it is taken although it stands last. */
static void test_the_aggregator_with_more_left(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 4, 2);
	scene.busy[0] = (struct hd_plan_busy){GROUP_INTO(0), 0, 1.5, 1, 7};
	scene.in.busy_count = 1;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2);
	assert_int_equal(scene.out.groups[0].aggregator, 1);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* The server's link is busy with what was granted before: a group can be the first. */
static void test_a_busy_server(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 3, 1);
	scene.jobs[0].server_free = 3;
	scene.busy[0] = (struct hd_plan_busy){GROUP_SERVER_IN, 0, 3, 1, 7};
	scene.in.busy_count = 1;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 3);
	EXACT(scene.out.groups[0].limit, 3);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	assert_int_equal(scene.out.groups[0].sum.after_token, 7);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* Inputs on the aggregator's host are collected at once; the sum leaves over that host's uplink. */
static void test_a_colocated_aggregator(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 4, 1);
	scene.host[0] = 1;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 2, 1);
	EXACT(group_scene_last(&scene, scene.out.entries), 3);
	EXACT(group_scene_mean(&scene, scene.out.entries), 2);
	group_scene_check(&scene);
	/* Another transfer takes that host's link until then: the group has no gain. */
	scene.busy[0] = (struct hd_plan_busy){GROUP_DOWN(1), 0, 10, 1, 7};
	scene.in.busy_count = 1;
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 0);
	group_scene_fini(&scene);
}

/* Slow uplinks, not the server's link, are the limit: nothing is gained. */
static void test_no_gain(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 6, 1);
	for (uint32_t i = 0; i < 6; i++)
		scene.capacity[GROUP_UP(i)] = 0.125;
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 0);
	assert_ptr_equal(scene.out.entries, scene.group.entries);
	group_scene_fini(&scene);
}

static void test_memory_is_a_limit(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 7, 2);
	scene.memory[0] = scene.memory[1] = 0.5;
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 0);
	scene.memory[1] = 1;
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 1);
	assert_int_equal(scene.out.groups[0].aggregator, 1);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* Updates of another kind or size, and other jobs', are never in one sum. */
static void test_one_kind(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 8, 1);
	for (uint32_t i = 0; i < 8; i++)
		scene.items[i].kind = i % 2 == 0;
	group_scene_run(&scene);
	group_scene_check(&scene);
	assert_int_equal(scene.out.group_count, 0);
	for (uint32_t i = 0; i < 8; i++) {
		scene.items[i].kind = 0;
		scene.items[i].job = i % 2;
	}
	group_scene_run(&scene);
	group_scene_check(&scene);
	assert_true(scene.out.group_count > 0);
	assert_true(
		group_scene_last(&scene, scene.out.entries)
		< group_scene_last(&scene, scene.group.entries)
	);
	group_scene_fini(&scene);
}

/* While it streams the sum ends with its last member at the earliest, and the group may be one longer. */
static void test_streaming(void **state) {
	struct group_scene scene;

	(void)state;
	pushes(&scene, 4, 1);
	scene.group.streaming = true;
	group_scene_run(&scene);
	/* g1 until 1; the aggregator has g2 at 1, g3 at 2, g4 at 3: the sum of g2 and g3 goes from 1 to 2. */
	EXPECT_SIZES(&scene, 1, 2, 1);
	EXACT(group_scene_last(&scene, scene.out.entries), 3);
	EXACT(group_scene_mean(&scene, scene.out.entries), 2);
	EXACT(scene.out.groups[0].sum.start, 1);
	EXACT(scene.out.groups[0].collected, 2);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* The reverse: 1 copy, relayed to two while the server serves the other two. */
static void test_pulls(void **state) {
	struct group_scene scene;

	(void)state;
	group_scene_init(&scene);
	scene.group.aggregator_count = 1;
	for (uint32_t i = 0; i < 4; i++)
		group_scene_add(&scene, HD_PLAN_PULL);
	group_scene_run(&scene);
	EXACT(group_scene_last(&scene, scene.group.entries), 4);
	EXACT(group_scene_last(&scene, scene.out.entries), 3);
	assert_int_equal(scene.out.group_count, 1);
	assert_int_equal(scene.out.groups[0].count, 2);
	EXACT(scene.out.groups[0].collected, 1);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* A server with a quarter of the others' speed: it sends one copy, and all workers have the model soon after. */
static void test_pulls_of_a_slow_server(void **state) {
	struct group_scene scene;

	(void)state;
	group_scene_init(&scene);
	scene.group.aggregator_count = 1;
	scene.capacity[GROUP_SERVER_OUT] = 0.25;
	for (uint32_t i = 0; i < 4; i++)
		group_scene_add(&scene, HD_PLAN_PULL);
	group_scene_run(&scene);
	EXACT(group_scene_last(&scene, scene.group.entries), 16);
	EXACT(group_scene_last(&scene, scene.out.entries), 8);
	assert_int_equal(scene.out.groups[0].count, 4);
	group_scene_check(&scene);
	/* Streaming, the first relay runs with the copy. */
	scene.group.streaming = true;
	group_scene_run(&scene);
	assert_true(group_scene_last(&scene, scene.out.entries) < 8);
	group_scene_check(&scene);
	group_scene_fini(&scene);
}

/* --- sparse updates ------------------------------------------------------------------------------ */

static void sparse(struct group_scene *scene, uint32_t count, double apart, double room) {
	pushes(scene, count, 1);
	for (uint32_t i = 0; i < count; i++) {
		scene->items[i].kind = 4;
		scene->items[i].apart = apart;
		scene->items[i].room = room;
	}
}

/* All name the same: as if they were dense. None does: nothing is gained. In between: a sum of 1 + 1/2. */
static void test_sparse_unions(void **state) {
	struct group_scene scene;

	(void)state;
	sparse(&scene, 4, 0, 100);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2);
	EXACT(group_scene_last(&scene, scene.out.entries), 3);
	EXACT(scene.out.groups[0].amount, 1);
	group_scene_fini(&scene);
	sparse(&scene, 4, 1, 100);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 1, 1);
	group_scene_fini(&scene);
	sparse(&scene, 4, 0.5, 100);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2);
	EXACT(scene.out.groups[0].amount, 1.5);
	EXACT(group_scene_last(&scene, scene.out.entries), 3.5);
	group_scene_fini(&scene);
}

/* Members of any size; all of them together within the model, and within the memory of the aggregator. */
static void test_sparse_limits(void **state) {
	struct group_scene scene;

	(void)state;
	sparse(&scene, 4, 0, 100);
	scene.capacity[GROUP_INTO(0)] = 2;
	scene.items[0].amount = 2;
	scene.items[1].amount = 0.75;
	scene.items[2].amount = 1.5;
	scene.items[3].amount = 1.25;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1, 2); /* 3/4, 5/4, then 3/2 and 2 in parallel: 2 more */
	EXACT(scene.out.groups[0].amount, 2);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	group_scene_fini(&scene);
	sparse(&scene, 7, 0, 2);
	group_scene_run(&scene);
	for (uint32_t g = 0; g < scene.out.group_count; g++)
		assert_int_equal(scene.out.groups[g].count, 2);
	group_scene_fini(&scene);
	sparse(&scene, 4, 0, 1.9);
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 0);
	group_scene_fini(&scene);
	sparse(&scene, 4, 0, 100);
	scene.memory[0] = 3.9; /* what is kept of each beside them */
	group_scene_run(&scene);
	assert_int_equal(scene.out.group_count, 0);
	group_scene_fini(&scene);
}

/* Streaming: a sum that is half as much again leaves in proportion to what of its members came. */
static void test_sparse_streaming(void **state) {
	struct group_scene scene;

	(void)state;
	sparse(&scene, 4, 0.5, 100);
	scene.group.streaming = true;
	group_scene_run(&scene);
	assert_true(scene.out.group_count >= 1);
	assert_true(group_scene_last(&scene, scene.out.entries) < 4);
	for (uint32_t g = 0; g < scene.out.group_count; g++) {
		const struct hd_plan_group *group = &scene.out.groups[g];
		/* No unit of the sum before its members' share has come. */
		for (uint32_t m = 0; m < group->count; m++)
			assert_true(
				group->sum.finish
				>= scene.out.entries[scene.out.members[group->first + m]].finish
					- 1e-9
			);
	}
	group_scene_fini(&scene);
}

/* A switch: its links are none of the bottlenecks, and what comes leaves at once. */
static void through_a_switch(struct group_scene *scene, uint32_t count) {
	static const bool at_once[] = {true};

	pushes(scene, count, 1);
	scene->capacity[GROUP_INTO(0)] = scene->capacity[GROUP_OUT_OF(0)] = 1000;
	scene->in.share_min = 0.5;
	scene->group.streaming = true;
	scene->group.at_once = at_once;
}

/* All links of a sum are taken from its first to its last moment, at the pace of the slowest. */
static void test_at_once(void **state) {
	struct group_scene scene;

	(void)state;
	through_a_switch(&scene, 4);
	scene.busy[0] = (struct hd_plan_busy){.link = GROUP_UP(2), .end = 3, .rate = 1};
	scene.in.busy_count = 1;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 3, 1);
	EXACT(scene.out.groups[0].sum.finish, 1);
	EXACT(group_scene_last(&scene, scene.out.entries), 4);
	group_scene_fini(&scene);
	through_a_switch(&scene, 4);
	scene.capacity[GROUP_UP(3)] = 0.5;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 4);
	EXACT(scene.out.groups[0].sum.start, 0);
	EXACT(scene.out.groups[0].sum.finish, 2);
	for (uint32_t m = 0; m < 4; m++) {
		EXACT(scene.out.entries[m].start, 0);
		EXACT(scene.out.entries[m].finish, 2);
		EXACT(scene.out.entries[m].commit, 2);
	}
	group_scene_fini(&scene);
}

/* One that would make all others much slower goes by itself; so does a worker's second update, which cannot begin
 * before its first has left. */
static void test_at_once_without(void **state) {
	struct group_scene scene;

	(void)state;
	through_a_switch(&scene, 4);
	scene.capacity[GROUP_UP(3)] = 0.25;
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 3, 1);
	EXACT(scene.out.groups[0].sum.finish, 1);
	group_scene_fini(&scene);
	through_a_switch(&scene, 2);
	scene.items[1].path[0] = GROUP_UP(0);
	group_scene_run(&scene);
	EXPECT_SIZES(&scene, 1, 1);
	group_scene_fini(&scene);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sparse_unions),
		cmocka_unit_test(test_sparse_limits),
		cmocka_unit_test(test_sparse_streaming),
		cmocka_unit_test(test_four_and_one_aggregator),
		cmocka_unit_test(test_five_and_one_aggregator),
		cmocka_unit_test(test_seven_and_two_aggregators),
		cmocka_unit_test(test_seven_and_a_slow_aggregator),
		cmocka_unit_test(test_the_servers_link_is_spared),
		cmocka_unit_test(test_the_aggregator_with_more_left),
		cmocka_unit_test(test_a_busy_server),
		cmocka_unit_test(test_a_colocated_aggregator),
		cmocka_unit_test(test_no_gain),
		cmocka_unit_test(test_memory_is_a_limit),
		cmocka_unit_test(test_one_kind),
		cmocka_unit_test(test_streaming),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_at_once_without),
		cmocka_unit_test(test_pulls),
		cmocka_unit_test(test_pulls_of_a_slow_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
