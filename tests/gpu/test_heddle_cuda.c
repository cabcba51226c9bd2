/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes, pulls and collectives from and into a GPU's memory. Exit 77 (skipped) where there is none. */
#include "far_check.h"
#include "far_check_collective.h"
#include "far_check_reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define SKIP 77

static struct far_scene *scene;

static void test_bits(void **state) {
	far_check_bits(scene);
}

static void test_copies(void **state) {
	far_check_copies(scene);
}

static void test_pull_order(void **state) {
	far_check_pull_order(scene);
}

static void test_many(void **state) {
	far_check_many(scene);
}

static void test_not_finite(void **state) {
	far_check_not_finite(scene);
}

static void test_refusals(void **state) {
	far_check_refusals(scene);
}

static void test_reduce(void **state) {
	far_check_reduce(far_device(scene));
}

static void test_collectives_over_the_network(void **state) {
	far_check_collectives(far_device(scene), false);
}

static void test_collectives_in_shared_memory(void **state) {
	far_check_collectives(far_device(scene), true);
}

static void test_collective_order(void **state) {
	far_check_collective_order(far_device(scene));
}

static void test_collective_refusals(void **state) {
	far_check_collective_refusals(far_device(scene));
}

static void test_collective_timeout(void **state) {
	far_check_collective_timeout(far_device(scene));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_pull_order),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_collectives_over_the_network),
		cmocka_unit_test(test_collectives_in_shared_memory),
		cmocka_unit_test(test_collective_order),
		cmocka_unit_test(test_collective_refusals),
		cmocka_unit_test(test_collective_timeout),
	};
	struct hd_device *device;
	int failed;

	if (hd_device_cuda(0, &device) < 0) {
		(void)printf("SKIP: %s\n", hd_device_words());
		return SKIP;
	}
	(void)printf("on %s\n", device->name);
	scene = far_scene_create(device);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	far_scene_destroy(scene);
	return failed;
}
