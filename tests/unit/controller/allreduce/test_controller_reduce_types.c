/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and operations of all-reduces at the controller, by messages: which it accepts, and to whom it passes them. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ask_for(struct scene *s, uint16_t rank, uint8_t attempt, uint8_t dtype, uint8_t op) {
	struct hd_message m = net_push(s->workers[rank], 1, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.dtype = dtype;
	m.request.op = op;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* Types that no all-reduce has, and unknown operations. */
static void test_types(void **state) {
	static const uint8_t wrong[][2] = {
		{HD_DTYPE_FIXED32, HD_REDUCE_OP_SUM},
		{HD_DTYPE_SPARSE32, HD_REDUCE_OP_SUM},
		{HD_DTYPE_COUNT, HD_REDUCE_OP_SUM},
		{UINT8_MAX, HD_REDUCE_OP_SUM},
		{HD_DTYPE_INT64, HD_REDUCE_OP_COUNT},
		{HD_DTYPE_INT64, UINT8_MAX},
	};
	const struct hd_msg_group *group;
	struct scene s;

	open_scene(&s);
	ask_for(&s, 0, 1, HD_DTYPE_INT64, HD_REDUCE_OP_MAX);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		ask_for(&s, 1, (uint8_t)(i + 1), wrong[i][0], wrong[i][1]);
		assert_int_equal(drops(&s, 1, HD_REASON_REFUSED), i + 1);
	}
	ask_for(&s, 1, 100, HD_DTYPE_INT64, HD_REDUCE_OP_MAX);
	ask_for(&s, 2, 1, HD_DTYPE_INT64, HD_REDUCE_OP_MAX);
	assert_int_equal(reduce_sent(&s, 0)->dtype, HD_DTYPE_INT64);
	assert_int_equal(reduce_sent(&s, 0)->op, HD_REDUCE_OP_MAX);
	group = &peer_last(s.aggregators[0], HD_MSG_GROUP)->group;
	assert_int_equal(group->dtype, HD_DTYPE_INT64);
	assert_int_equal(group->op, HD_REDUCE_OP_MAX);
	assert_int_equal(group->bytes % sizeof(int64_t), 0);
	net_close(&s.net);
}

/* Updates do not have the types that are of all-reduces only. */
static void test_types_of_updates(void **state) {
	struct peer *worker;
	struct hd_message m;
	struct net net;

	net_open(&net, &net_plain);
	net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, HD_SECOND);
	m = net_push(worker, 1, MB, 0);
	m.request.dtype = HD_DTYPE_INT32;
	post(worker, m);
	net_run(&net, HD_MS);
	assert_int_equal(peer_last(worker, HD_MSG_DROP)->drop.reason, HD_REASON_REFUSED);
	m = net_push(worker, 2, MB, 0);
	post(worker, m);
	net_run(&net, HD_SECOND);
	assert_non_null(peer_last(worker, HD_MSG_GRANT));
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_types_of_updates),
	};

	return cmocka_run_group_tests_name("controller reduce types", tests, NULL, NULL);
}
