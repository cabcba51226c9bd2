/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls of values on a device, whose part the host plays: late, and failing wherever it can. */
#include "device_check.h"
#include "far_check.h"
#include "far_patience.h"
#include "hd_device_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define BLOCKS ((uint64_t)5) /* of the model */

static struct far_scene *begin(struct hd_fake_config config) {
	struct hd_device *device;

	assert_int_equal(hd_fake_open(&config, &device), 0);
	hd_device_use(hd_fake_find);
	return far_scene_create(device);
}

static void end(struct far_scene *scene) {
	struct hd_device *device = far_device(scene);

	far_scene_destroy(scene);
	assert_int_equal(hd_fake_close(device), 0);
	hd_device_use(NULL);
}

static void check(void (*what)(struct far_scene *scene), struct hd_fake_config config) {
	struct far_scene *scene = begin(config);

	what(scene);
	end(scene);
}

static void test_bits(void **state) {
	check(far_check_bits, (struct hd_fake_config){.seed = 1});
}

static void test_copies(void **state) {
	check(far_check_copies, (struct hd_fake_config){.seed = 2, .delay = 10});
}

static void test_pull_order(void **state) {
	check(far_check_pull_order, (struct hd_fake_config){.seed = 6});
}

static void test_many(void **state) {
	check(far_check_many, (struct hd_fake_config){.seed = 3, .delay = 2});
}

static void test_not_finite(void **state) {
	check(far_check_not_finite, (struct hd_fake_config){.seed = 4});
}

static void test_refusals(void **state) {
	check(far_check_refusals, (struct hd_fake_config){.seed = 5});
}

static float *gradient_on(struct hd_device *device) {
	float *values = calloc(FAR_VALUES, sizeof *values), *far;

	values[7] = 1;
	far = device_filled(device, values, FAR_VALUES);
	free(values);
	return far;
}

static struct heddle_ticket *push(struct heddle *fabric, const float *gradient, int borrow) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_ticket *ticket = NULL;

	options.memory = HEDDLE_MEMORY_CUDA;
	options.borrow = borrow;
	assert_int_equal(
		heddle_push_start(fabric, gradient, far_base(fabric), &options, &ticket), 0
	);
	return ticket;
}

static struct heddle_status ended(struct heddle_ticket *ticket) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	heddle_ticket_free(ticket);
	return status;
}

/* In the look at the gradient, in the middle of packing it, while the model is unpacked: each ends as FAILED with
 * words, and the handle goes on with what is on the host. */
static void test_falls_off_the_bus(void **state) {
	for (uint64_t at = 1; at <= 3 * BLOCKS; at++) {
		struct far_scene *scene = begin((struct hd_fake_config
		){.seed = at, .delay = 2, .fails_at = BLOCKS + at}); /* BLOCKS: to fill it */
		struct heddle *fabric = far_open(scene, "bus", FAR_VALUES);
		struct hd_device *device = far_device(scene);
		struct heddle_pull_options pulled = HEDDLE_PULL_OPTIONS_INIT;
		float *gradient = gradient_on(device), *host = calloc(FAR_VALUES, sizeof *host);
		struct heddle_status status = ended(push(fabric, gradient, (int)(at % 2)));

		if (at > 2 * BLOCKS) {
			assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
			pulled.memory = HEDDLE_MEMORY_CUDA;
			assert_int_equal(
				heddle_pull(fabric, gradient, &pulled, PATIENCE_MS, NULL), -EIO
			);
			assert_string_equal(heddle_last_error(), "device");
		} else {
			assert_int_equal(status.state, HEDDLE_STATE_FAILED);
			assert_int_equal(status.reason, HEDDLE_REASON_DEVICE);
		}
		assert_string_equal(far_log(scene), "fake device: fell off the bus");
		assert_int_equal(
			heddle_push(fabric, host, far_base(fabric), NULL, PATIENCE_MS, NULL), 0
		);
		assert_int_equal(heddle_pull(fabric, host, NULL, PATIENCE_MS, &status), 0);
		assert_int_equal(HEDDLE_VERSION_COUNTER(status.version), at > 2 * BLOCKS ? 2 : 1);
		assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
		device->ops->release(device, gradient);
		free(host);
		end(scene);
	}
}

/* Whatever cannot be had: the call says so, and leaves nothing. */
static void test_no_memory(void **state) {
	for (uint64_t at = 1; at <= 4; at++) {
		/* 2: to fill it, 1: its event, 1: the default stream. */
		struct far_scene *scene
			= begin((struct hd_fake_config){.seed = at, .refuses = 4 + at});
		struct heddle *fabric = far_open(scene, "memory", FAR_VALUES);
		struct hd_device *device = far_device(scene);
		struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
		float *gradient = gradient_on(device);
		struct heddle_ticket *ticket = NULL;

		options.memory = HEDDLE_MEMORY_CUDA;
		assert_int_equal(
			heddle_push_start(fabric, gradient, far_base(fabric), &options, &ticket),
			-ENOMEM
		);
		assert_null(ticket);
		assert_non_null(strstr(heddle_last_error(), "fake device: no memory for"));
		assert_int_equal(ended(push(fabric, gradient, 0)).state, HEDDLE_STATE_APPLIED);
		assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
		device->ops->release(device, gradient);
		end(scene);
	}
}

/* The call returns at once, and nothing is sent before the caller's stream has come so far; withdrawn until then, the
 * gradient stays the library's until the device has released it. */
static void test_waits_for_the_stream(void **state) {
	struct far_scene *scene
		= begin((struct hd_fake_config){.seed = 1, .delay = 1U << 30, .refuses = 0});
	struct heddle *fabric = far_open(scene, "stream", FAR_VALUES);
	struct hd_device *device = far_device(scene);
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *first, *second;
	void *memory;

	/* No worker's gradient: the values do not matter. */
	assert_int_equal(device->ops->allocate(device, FAR_VALUES * sizeof(float), &memory), 0);
	memset(memory, 0, FAR_VALUES * sizeof(float));
	first = push(fabric, memory, 1);
	second = push(fabric, memory, 1);
	assert_int_equal(heddle_ticket_wait(first, HEDDLE_WAIT_OUTCOME, 100, &status), -ETIMEDOUT);
	assert_int_equal(status.state, HEDDLE_STATE_QUEUED);
	assert_int_equal(heddle_ticket_cancel(first), 0);
	assert_int_equal(heddle_ticket_wait(first, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	assert_int_equal(status.reason, HEDDLE_REASON_CANCELLED);
	assert_int_equal(status.released, 0);
	hd_fake_settle(device);
	assert_int_equal(heddle_ticket_wait(first, HEDDLE_WAIT_RELEASED, PATIENCE_MS, &status), 0);
	heddle_ticket_free(first);
	/* Its packing is queued later, when only this loop moves the device. */
	while (heddle_ticket_wait(second, HEDDLE_WAIT_OUTCOME, 10, &status) == -ETIMEDOUT)
		hd_fake_settle(device);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	heddle_ticket_free(second);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	device->ops->release(device, memory);
	end(scene);
}

/* Withdrawn when it was granted and is packed: its memory is not given back before the device is done with it. */
static void test_cancelled_while_packed(void **state) {
	struct far_scene *scene = begin((struct hd_fake_config){.seed = 1, .delay = 1U << 30});
	struct heddle *fabric = far_open(scene, "packed", FAR_VALUES);
	struct hd_device *device = far_device(scene);
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket;
	void *memory;

	assert_int_equal(device->ops->allocate(device, FAR_VALUES * sizeof(float), &memory), 0);
	memset(memory, 0, FAR_VALUES * sizeof(float));
	ticket = push(fabric, memory, 1);
	hd_fake_settle(device); /* it has looked; what it is to pack is queued later */
	do
		assert_int_equal(
			heddle_ticket_wait(ticket, HEDDLE_WAIT_HELD, 10, &status), -ETIMEDOUT
		);
	while (status.state < HEDDLE_STATE_GRANTED);
	assert_int_equal(heddle_ticket_cancel(ticket), 0);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	assert_int_equal(status.reason, HEDDLE_REASON_CANCELLED);
	assert_int_equal(
		heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 100, &status), -ETIMEDOUT
	);
	hd_fake_settle(device);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, PATIENCE_MS, &status), 0);
	heddle_ticket_free(ticket);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	device->ops->release(device, memory);
	end(scene);
}

/* Closed while the device has not come to it: nothing of the caller's is used after that. */
static void test_closes_meanwhile(void **state) {
	far_patience = true;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct far_scene *scene = begin((struct hd_fake_config){.seed = seed, .delay = 4});
		struct heddle *fabric = far_open(scene, "close", FAR_VALUES);
		struct hd_device *device = far_device(scene);
		struct heddle_pull_options pulled = HEDDLE_PULL_OPTIONS_INIT;
		float *gradient = gradient_on(device), *model = gradient_on(device);
		struct heddle_ticket *pushed = push(fabric, gradient, (int)(seed % 2)), *pull;

		pulled.memory = HEDDLE_MEMORY_CUDA;
		assert_int_equal(heddle_pull_start(fabric, model, &pulled, &pull), 0);
		(void)heddle_close(fabric, seed % 3 == 0 ? PATIENCE_MS : (int)seed - 1);
		device->ops->release(device, gradient);
		device->ops->release(device, model);
		assert_int_equal(heddle_ticket_test(pushed, NULL), 1);
		assert_int_equal(heddle_ticket_test(pull, NULL), 1);
		heddle_ticket_free(pushed);
		heddle_ticket_free(pull);
		end(scene);
	}
	far_patience = false;
}

/* A stream that stalls holds the end up for a second, however many pushes wait for it; what the device may still
 * use is left to it. */
static void test_closes_beside_a_stream_that_stands_still(void **state) {
	struct far_scene *scene = begin((struct hd_fake_config){.seed = 1, .delay = 1U << 30});
	struct heddle *fabric = far_open(scene, "still", FAR_VALUES);
	struct hd_device *device = far_device(scene);
	struct heddle_ticket *ticket[4];
	struct timespec before, after;
	void *memory;

	assert_int_equal(device->ops->allocate(device, FAR_VALUES * sizeof(float), &memory), 0);
	for (size_t i = 0; i < 4; i++)
		ticket[i] = push(fabric, memory, 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(heddle_close(fabric, 1), -ETIMEDOUT);
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	assert_in_range(after.tv_sec - before.tv_sec, 1, 3);
	for (size_t i = 0; i < 4; i++) {
		struct heddle_status status = HEDDLE_STATUS_INIT;

		assert_int_equal(heddle_ticket_test(ticket[i], &status), 1);
		assert_int_equal(status.reason, HEDDLE_REASON_CLOSED);
		heddle_ticket_free(ticket[i]);
	}
	far_scene_destroy(scene);
	/* Four each of stream, event, registered memory and copy; and the caller's. */
	assert_int_equal(hd_fake_close(device), 4 * 4 + 1);
	hd_device_use(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_pull_order),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_falls_off_the_bus),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_waits_for_the_stream),
		cmocka_unit_test(test_cancelled_while_packed),
		cmocka_unit_test(test_closes_meanwhile),
		cmocka_unit_test(test_closes_beside_a_stream_that_stands_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
