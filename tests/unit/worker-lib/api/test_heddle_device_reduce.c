/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of values on a device, whose part the host plays. */
#include "far_check_reduce.h"
#include "hd_device_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_reduce(void **state) {
	for (uint64_t seed = 1; seed <= 2; seed++) {
		const struct hd_fake_config config = {.seed = seed, .delay = (uint32_t)seed};
		struct hd_device *device;

		assert_int_equal(hd_fake_open(&config, &device), 0);
		hd_device_use(hd_fake_find);
		far_check_reduce(device);
		assert_int_equal(hd_fake_close(device), 0);
		hd_device_use(NULL);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_reduce)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
