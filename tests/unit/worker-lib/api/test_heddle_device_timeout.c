/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives into memory of a device, whose part the host plays, by calls whose time ends. */
#include "far_round.h"
#include "hd_device_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 30000
#define LONG 40001 /* values: three blocks of a copy, of fp32 */
#define STILL (UINT32_C(1) << 30) /* a delay: the device moves only when it is settled */
#define TO 0 /* the worker that receives */
#define FROM (FAR_WORKERS - 1)

static const char *const APART[FAR_WORKERS] = {"h0", "h1", "h2"};
static const struct far_how HOW = {.kind = FAR_SEND, .count = LONG, .root = FROM};

struct pair {
	struct far_group group;
	struct far_part from, to;
};

/* Their buffers are there; from then on the device is so late. */
static void pair_open(struct pair *pair, uint64_t seed, uint32_t delay) {
	const struct hd_fake_config begins = {.seed = seed}, goes = {.delay = delay};
	struct hd_device *device;

	memset(pair, 0, sizeof *pair);
	assert_int_equal(hd_fake_open(&begins, &device), 0);
	hd_device_use(hd_fake_find);
	pair->group.is_far[TO] = true;
	far_group_open(&pair->group, device, "timeout", APART);
	far_part_init(&pair->from, &pair->group, &HOW, FROM);
	far_part_init(&pair->to, &pair->group, &HOW, TO);
	hd_fake_change(device, &goes);
}

/* The sender's buffer is lent until its handle is closed. */
static void pair_close(struct pair *pair) {
	far_group_close(&pair->group, PATIENCE_MS);
	far_part_fini(&pair->from, &pair->group);
	far_part_fini(&pair->to, &pair->group);
	assert_int_equal(hd_fake_close(pair->group.device), 0);
	hd_device_use(NULL);
}

/* The result of the receiver's call; then all that the device has is done. */
static int receive(struct pair *pair, int timeout_ms) {
	const struct hd_fake_config goes = {0};
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	int rc;

	assert_int_equal(far_part_start(&pair->from, &pair->group, &HOW, FROM), 0);
	options.memory = HEDDLE_MEMORY_CUDA;
	rc = heddle_recv(
		pair->group.worker[TO],
		pair->to.far_out,
		LONG,
		far_rank(FROM),
		&options,
		timeout_ms,
		NULL
	);
	hd_fake_change(pair->group.device, &goes);
	hd_fake_settle(pair->group.device);
	return rc;
}

/* It has come to the host, but the stream has not come to the call: it ends in time, and nothing is written then. */
static void test_before_the_stream(void **state) {
	struct pair pair;

	pair_open(&pair, 1, STILL);
	assert_int_equal(receive(&pair, 2000), -ETIMEDOUT);
	assert_int_equal(far_part_end(&pair.from).state, HEDDLE_STATE_APPLIED);
	far_part_untouched(&pair.to, &pair.group, &HOW, TO);
	far_round(&pair.group, &HOW);
	pair_close(&pair);
}

static bool receives(uint64_t seed, int timeout_ms) {
	struct pair pair;
	int rc;

	pair_open(&pair, seed, 30);
	rc = receive(&pair, timeout_ms);
	assert_true(rc == 0 || rc == -ETIMEDOUT);
	if (rc == 0)
		far_part_found(&pair.to, &pair.group, &HOW, TO);
	else
		far_part_untouched(&pair.to, &pair.group, &HOW, TO);
	pair_close(&pair);
	return rc == 0;
}

/* Whenever the time ends: a call that fails has written nothing, and what was written is a success. */
static void test_at_any_time(void **state) {
	unsigned successes = 0;

	for (int seed = 0; seed < 60; seed++)
		successes += receives((uint64_t)seed, 1 + seed / 2);
	print_message("%u of 60 calls had the result\n", successes);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_the_stream),
		cmocka_unit_test(test_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
