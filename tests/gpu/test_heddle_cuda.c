/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes, pulls and all-reduces from and into a GPU's memory. Exit 77 (skipped) where there is none. */
#include "far_check.h"
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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_pull_order),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_reduce),
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
