/* SPDX-License-Identifier: BSD-3-Clause */
/* The requirements on any device, checked on a GPU: bits, flags, order, errors as text. Exit 77 (skipped) without
 * one. */
#include "device_check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIP 77
#define ROUNDS 50

static struct hd_device *device;

static void test_stages(void **state) {
	device_check_stages(device);
}

static void test_layers(void **state) {
	device_check_layers(device);
}

static void test_copies(void **state) {
	device_check_copies(device);
}

static void test_a_flag_follows_its_bytes(void **state) {
	uint64_t early = 0;

	for (uint32_t round = 1; round <= ROUNDS; round++)
		early += device_check_flags(device, round);
	assert_true(early > 0); /* seen before the stage had ended */
}

static void test_streams_keep_their_order(void **state) {
	for (uint64_t seed = 1; seed <= 5; seed++)
		device_check_order(device, seed);
}

static void test_memory(void **state) {
	device_check_memory(device);
}

static void test_too_much_memory(void **state) {
	void *none = &none;

	assert_int_equal(device->ops->allocate(device, (size_t)1 << 50, &none), -ENOMEM);
	assert_ptr_equal(none, &none);
	assert_non_null(strstr(hd_device_words(), "out of memory"));
}

static void test_default_stream_is_taken(void **state) {
	void *stream;

	assert_int_equal(device->ops->check_stream(device, NULL), 0);
	assert_int_equal(device->ops->stream_create(device, &stream), 0);
	assert_int_equal(device->ops->check_stream(device, stream), 0);
	device->ops->stream_destroy(device, stream);
}

/* The last test: the device is of no use to this process any more, which says so, and lives. */
static void test_a_bad_address_fails_the_device(void **state) {
	struct hd_stage_job job = {.kind = HD_STAGE_TAKE};
	void *memory, *event;

	assert_int_equal(device->ops->event_create(device, &event), 0);
	assert_int_equal(device->ops->allocate(device, 1 << 20, &memory), 0);
	job.take.from = memory;
	job.take.copy = NULL;
	job.take.values = (uint64_t)1 << 36; /* far beyond it */
	job.take.sums = memory;
	job.take.scale = 1;
	assert_int_equal(device->ops->launch(device, NULL, &job), 0);
	assert_int_equal(device->ops->record(device, event, NULL), 0);
	assert_int_equal(hd_device_wait(device, event, 60 * HD_SECOND), -EIO);
	(void)printf("%s\n", hd_device_words());
	assert_non_null(strstr(hd_device_words(), device->name));
	assert_int_equal(device->ops->launch(device, NULL, &job), -EIO);
	assert_int_equal(device->ops->allocate(device, 1, &memory), -EIO);
	assert_int_equal(device->ops->done(device, event), -EIO);
	assert_non_null(strstr(hd_device_words(), "it has failed"));
	device->ops->event_destroy(device, event);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_a_flag_follows_its_bytes),
		cmocka_unit_test(test_streams_keep_their_order),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_default_stream_is_taken),
	};
	const struct CMUnitTest last[] = {
		cmocka_unit_test(test_too_much_memory),
		cmocka_unit_test(test_a_bad_address_fails_the_device),
	};
	int failed;

	if (hd_device_cuda(0, &device) < 0) {
		(void)printf("SKIP: %s\n", hd_device_words());
		return SKIP;
	}
	(void)printf("on %s\n", device->name);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	/* A memory checker would rightly report these. */
	if (argc < 2 || strcmp(argv[1], "--clean") != 0)
		failed += cmocka_run_group_tests(last, NULL, NULL);
	return failed;
}
