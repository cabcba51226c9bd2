/* SPDX-License-Identifier: BSD-3-Clause */
/* Which types and operations of all-reduces the controller sends through a switch. */
#include "lease_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_sums_of_fp32(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	s.op = HD_REDUCE_OP_AVERAGE;
	ask_all(&s, 1, 1);
	grant(&s);
	check_agreement(&s, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->op, HD_REDUCE_OP_AVERAGE); /* the workers divide */
	net_close(&s.net);
}

static void expect_shards(uint8_t dtype, uint8_t op, const char *why) {
	struct scene s;

	open_scene(&s);
	s.dtype = dtype;
	s.op = op;
	ask_all(&s, 1, 1);
	assert_string_equal(job_of(&s)->why, why);
	assert_shards(&s);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 0);
	assert_int_equal(reduce_sent(&s, 0)->op, op);
	assert_int_equal(reduce_sent(&s, 0)->dtype, dtype);
	net_close(&s.net);
}

static void test_others(void **state) {
	(void)state;
	expect_shards(HD_DTYPE_INT32, HD_REDUCE_OP_SUM, "type");
	expect_shards(HD_DTYPE_FP64, HD_REDUCE_OP_AVERAGE, "type");
	expect_shards(HD_DTYPE_BF16, HD_REDUCE_OP_SUM, "type");
	expect_shards(HD_DTYPE_FP32, HD_REDUCE_OP_MIN, "operation");
	expect_shards(HD_DTYPE_FP32, HD_REDUCE_OP_MAX, "operation");
	expect_shards(HD_DTYPE_FP32, HD_REDUCE_OP_PRODUCT, "operation");
}

/* Types and operations that no switch has need an aggregator, and end without one. */
static void test_types_alone(void **state) {
	struct scene s;

	(void)state;
	open_with(&s, &net_plain);
	add_switch(&s, 4096);
	s.dtype = HD_DTYPE_FP64;
	ask_all(&s, 1, 1);
	net_run(&s.net, CTL_REDUCE_PATIENCE_NS + HD_SECOND);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(
			peer_last(s.workers[i], HD_MSG_DROP)->drop.reason, HD_REASON_NO_SERVER
		);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_of_fp32),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_types_alone),
	};

	return cmocka_run_group_tests_name("controller lease types", tests, NULL, NULL);
}
