/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping against everything that could have been done, and what must hold of each result. */
#include "group_reference.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t below(struct hd_random *random, uint32_t bound) {
	return (uint32_t)hd_random_below(random, bound);
}

/* Links of 1/2, 1 or 2, promises on some of them. */
static void fill_links(struct group_scene *scene, struct hd_random *random) {
	static const double capacities[] = {0.5, 1, 1, 2};

	for (uint32_t l = 0; l < GROUP_LINKS; l++)
		scene->capacity[l] = capacities[below(random, 4)];
	scene->in.busy_count = below(random, GROUP_BUSY);
	for (uint32_t b = 0; b < scene->in.busy_count; b++) {
		/* One link each, so that no promises exceed it together. */
		const uint32_t link = b * 3 % GROUP_LINKS;
		const double start = below(random, 3);

		scene->busy[b] = (struct hd_plan_busy){
			.link = link,
			.start = start,
			.end = start + 1 + below(random, 3),
			.rate = scene->capacity[link] * (hd_random_chance(random, 0.5) ? 1 : 0.5),
			.token = b + 1,
		};
	}
}

static void
fill_items(struct group_scene *scene, uint32_t count, double pulls, struct hd_random *random) {
	for (uint32_t i = 0; i < count; i++) {
		struct hd_plan_item *item = group_scene_add(
			scene, hd_random_chance(random, pulls) ? HD_PLAN_PULL : HD_PLAN_PUSH
		);

		item->amount = hd_random_chance(random, 0.1) ? 2 : 1;
		item->kind = hd_random_chance(random, 0.05);
	}
}

/* All links alike: as good as anything can be. */
static void test_equal_stars_are_best(void **state) {
	(void)state;
	for (uint32_t n = 2; n <= 7; n++)
		for (uint32_t aggregators = 0; aggregators <= 2; aggregators++) {
			struct group_scene scene;

			group_scene_init(&scene);
			scene.group.aggregator_count = aggregators;
			for (uint32_t i = 0; i < n; i++)
				group_scene_add(&scene, HD_PLAN_PUSH);
			group_scene_run(&scene);
			const struct group_reference best = group_reference(&scene);
			const double last = group_scene_last(&scene, scene.out.entries);

			assert_true(fabs(best.direct_last - n) < 1e-9);
			assert_true(fabs(last - best.last) < 1e-9);
			group_scene_check(&scene);
			group_scene_fini(&scene);
		}
}

/* Uneven ones: never better than the best (the reference knows everything that is allowed), never worse than
 * all direct, and near the best. */
static void test_uneven_stars(void **state) {
	struct hd_random random;
	double excess = 0, direct = 0;
	uint32_t compared = 0, grouped = 0;

	(void)state;
	hd_random_init(&random, 20);
	for (int round = 0; round < 400; round++) {
		struct group_scene scene;

		group_scene_init(&scene);
		scene.group.aggregator_count = 1 + below(&random, 2);
		fill_links(&scene, &random);
		fill_items(&scene, 3 + below(&random, 3), 0, &random);
		group_scene_run(&scene);
		const struct group_reference best = group_reference(&scene);
		const double last = group_scene_last(&scene, scene.out.entries);

		group_scene_check(&scene);
		if (!best.pieces) {
			const double was = group_scene_last(&scene, scene.group.entries);

			assert_true(fabs(was - best.direct_last) < 1e-9);
			assert_true(last >= best.last - 1e-9);
			assert_true(last <= best.direct_last + 1e-9);
			excess += last / best.last - 1;
			direct += best.direct_last / best.last - 1;
			compared++;
			grouped += scene.out.group_count > 0;
		}
		group_scene_fini(&scene);
	}
	print_message(
		"%u scenes, %u with groups: %.2f %% later than the best, all direct %.2f %%\n",
		compared,
		grouped,
		100 * excess / compared,
		100 * direct / compared
	);
	assert_true(compared > 200);
	assert_true(grouped > 50);
	assert_true(excess < 0.2 * direct);
}

/* Larger ones, pushes and pulls, two jobs, colocated aggregators, streaming: what must hold. */
static void test_what_must_hold(void **state) {
	struct hd_random random;
	uint32_t grouped = 0;

	(void)state;
	hd_random_init(&random, 21);
	for (int round = 0; round < 3000; round++) {
		struct group_scene scene;

		group_scene_init(&scene);
		scene.group.aggregator_count = 1 + below(&random, GROUP_SCENE_AGGREGATORS);
		scene.group.streaming = hd_random_chance(&random, 0.5);
		scene.in.share_min = hd_random_chance(&random, 0.5) ? 0.5 : 0;
		fill_links(&scene, &random);
		fill_items(&scene, 2 + below(&random, 20), 0.3 * below(&random, 4), &random);
		for (uint32_t a = 0; a < GROUP_SCENE_AGGREGATORS; a++) {
			if (hd_random_chance(&random, 0.3))
				scene.host[a] = (int)below(&random, scene.in.item_count);
			scene.memory[a] = hd_random_chance(&random, 0.2) ? 1.5 : INFINITY;
		}
		for (uint32_t i = 0; i < scene.in.item_count; i++)
			scene.items[i].job = hd_random_chance(&random, 0.2);
		scene.jobs[0].tau_max = 4 + below(&random, 20);
		group_scene_run(&scene);
		group_scene_check(&scene);
		grouped += scene.out.group_count > 0;
		group_scene_fini(&scene);
	}
	assert_true(grouped > 500);
}

/* No aggregator: nothing is touched. No work left: nothing either. */
static void test_nothing_without(void **state) {
	struct group_scene scene;

	(void)state;
	group_scene_init(&scene);
	for (uint32_t i = 0; i < 12; i++)
		group_scene_add(&scene, HD_PLAN_PUSH);
	group_scene_run(&scene);
	assert_ptr_equal(scene.out.entries, scene.group.entries);
	assert_int_equal(scene.out.group_count, 0);
	scene.group.aggregator_count = 1;
	scene.group.work = 10;
	group_scene_run(&scene);
	assert_ptr_equal(scene.out.entries, scene.group.entries);
	assert_true(scene.out.work <= 40);
	scene.group.aggregator_count = HD_PLAN_AGGREGATORS_MAX + 1;
	assert_int_equal(hd_plan_group_run(scene.grouper, &scene.group, &scene.out), -22);
	group_scene_fini(&scene);
}

/* A window smaller than what waits: the rest goes direct, and nothing is placed twice. */
static void test_a_window(void **state) {
	struct group_scene scene;

	(void)state;
	group_scene_init(&scene);
	scene.group.aggregator_count = 2;
	scene.group.window = 7;
	for (uint32_t i = 0; i < 20; i++)
		group_scene_add(&scene, HD_PLAN_PUSH);
	group_scene_run(&scene);
	group_scene_check(&scene);
	assert_true(scene.out.group_count > 0);
	for (uint32_t e = 7; e < 20; e++)
		assert_int_equal(scene.out.group_of[e], HD_PLAN_NONE);
	assert_true(fabs(group_scene_last(&scene, scene.out.entries) - 17) < 1e-9);
	group_scene_fini(&scene);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_stars_are_best),
		cmocka_unit_test(test_uneven_stars),
		cmocka_unit_test(test_what_must_hold),
		cmocka_unit_test(test_nothing_without),
		cmocka_unit_test(test_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
