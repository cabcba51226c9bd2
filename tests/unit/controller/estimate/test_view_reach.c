/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of a link from transfers that shared it at the same time. */
#include "hd_view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MBIT 1e6
#define OWN 0
#define HUB 1
#define TOOK (100 * HD_MS)

struct world {
	struct hd_view *view;
	hd_ns now;
};

/* A transfer that ended `after` the last one: it had `mbps`, and what passed the hub meanwhile was `sum` at least. */
static void end(struct world *world, hd_ns after, double mbps, double sum) {
	const uint32_t path[2] = {OWN, HUB};
	/* So little that by itself it shows no more than is known. */
	const double beside[2] = {0, sum > mbps ? mbps / 4 : 0};
	const double carried[2] = {mbps * MBIT, sum * MBIT};
	double bps[2] = {beside[0] * MBIT, beside[1] * MBIT};

	world->now += after;
	hd_view_sample(
		world->view,
		&(struct hd_view_sample){
			.at = world->now,
			.started = world->now - TOOK,
			.bytes = 1000000,
			.rate_bps = mbps * MBIT,
			/* Nothing is to be blamed for what it had. */
			.limited = sum > mbps ? 0.6 : 0,
			.path_count = 2,
			.path = path,
			.beside_bps = bps,
			.ours_bps = bps,
			.carried_bps = carried,
		}
	);
}

static double hub(const struct world *world) {
	return hd_view_estimate(world->view, HUB).capacity_bps / MBIT;
}

static void open_world(struct world *world) {
	*world = (struct world){.now = HD_SECOND};
	assert_int_equal(hd_view_create(100 * MBIT, &world->view), 0);
	for (int i = 0; i < 4; i++)
		end(world, 2 * TOOK, 100, 100);
	assert_true(fabs(hub(world) - 100) < 1);
}

/* A report that is late moves two transfers over one another. */
static void one_sum_is_not_believed(void **state) {
	struct world world;

	(void)state;
	open_world(&world);
	end(&world, 2 * TOOK, 80, 127);
	end(&world, TOOK / 10, 80, 129); /* of the same time */
	end(&world, TOOK / 10, 80, 128);
	assert_true(hub(&world) < 101);
	hd_view_destroy(world.view);
}

static void the_lesser_of_two_is(void **state) {
	struct world world;

	(void)state;
	open_world(&world);
	end(&world, 2 * TOOK, 80, 129);
	end(&world, 2 * TOOK, 80, 127);
	assert_true(fabs(hub(&world) - 127) < 1);
	hd_view_destroy(world.view);
}

/* No report is as late as that. */
static void one_that_is_far_more_is(void **state) {
	struct world world;

	(void)state;
	open_world(&world);
	end(&world, 2 * TOOK, 80, 190);
	assert_true(fabs(hub(&world) - 190) < 1);
	hd_view_destroy(world.view);
}

/* Two that are wrong happen as well, if one waits for ever. */
static void the_second_must_be_soon(void **state) {
	struct world world;

	(void)state;
	open_world(&world);
	end(&world, 2 * TOOK, 80, 129);
	end(&world, 10 * HD_SECOND, 80, 127);
	assert_true(hub(&world) < 101);
	end(&world, HD_SECOND, 80, 129);
	assert_true(fabs(hub(&world) - 127) < 1);
	hd_view_destroy(world.view);
}

/* Planned with twice what is known, until transfers have less than their own links give. */
static void reach_ends_where_it_is_full(void **state) {
	struct world world;

	(void)state;
	open_world(&world);
	assert_true(hd_view_reach(world.view, HUB, world.now, 1) > 190 * MBIT);
	{
		const uint32_t path[2] = {OWN, HUB};
		const double beside[2] = {0, 50 * MBIT}, carried[2] = {50 * MBIT, 80 * MBIT};

		world.now += 2 * TOOK;
		hd_view_sample(
			world.view,
			&(struct hd_view_sample){
				.at = world.now,
				.started = world.now - TOOK,
				.bytes = 1000000,
				.rate_bps = 50 * MBIT,
				.path_count = 2,
				.path = path,
				.beside_bps = beside,
				.ours_bps = beside,
				.carried_bps = carried,
			}
		);
	}
	assert_true(hd_view_reach(world.view, HUB, world.now, 1) < 110 * MBIT);
	assert_true(hd_view_reach(world.view, HUB, world.now + 10 * HD_SECOND, 1) > 190 * MBIT);
	hd_view_destroy(world.view);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sum_is_not_believed),
		cmocka_unit_test(the_lesser_of_two_is),
		cmocka_unit_test(one_that_is_far_more_is),
		cmocka_unit_test(the_second_must_be_soon),
		cmocka_unit_test(reach_ends_where_it_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
