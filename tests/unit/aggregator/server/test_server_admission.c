/* SPDX-License-Identifier: BSD-3-Clause */
/* Many workers that join at one moment: each is told when its turn is, and is in then. */
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define VALUES 100
#define MANY 80
#define LATER (MANY - HD_JOINS_BURST)

static bool is_open(void *what) {
	return ((struct fake *)what)->open;
}

static size_t joined(struct fake **worker) {
	size_t count = 0;

	for (int i = 0; i < MANY; i++)
		count += fake_count(worker[i], HD_MSG_JOINED);
	return count;
}

static void test_all_at_once(void **state) {
	struct hd_server_config config = {0};
	struct hd_tensor tensors[2];
	struct fake *worker[MANY];
	struct hd_jobspec spec;
	struct net net;
	uint32_t last = 0;

	(void)state;
	net_open(&net);
	spec_make(&spec, tensors, VALUES);
	net_server(&net, &config);
	for (uint16_t i = 0; i < MANY; i++) {
		worker[i] = fake_worker(&net, i);
		net_run_until(&net, is_open, worker[i], HD_SECOND);
	}
	net_run(&net, HD_SECOND);
	for (int i = 0; i < MANY; i++)
		fake_join(worker[i], &spec);
	net_run(&net, 50 * HD_MS);
	assert_int_equal(joined(worker), HD_JOINS_BURST);
	assert_int_equal(hd_server_stats(net.server)->joins_delayed, LATER);
	for (int i = HD_JOINS_BURST; i < MANY; i++) {
		const struct hd_msg_wait *wait = &fake_wait(worker[i], HD_MSG_WAIT, 0)->wait;

		assert_int_equal(wait->worker, i);
		assert_int_equal(wait->job, worker[i]->job);
		assert_in_range(wait->wait_us, last + 1, LATER * HD_JOIN_US + 1);
		last = wait->wait_us;
		fake_join(worker[i], &spec);
	}
	net_run(&net, 50 * HD_MS);
	assert_int_equal(joined(worker), MANY);
	assert_int_equal(hd_server_stats(net.server)->joins_delayed, LATER);
	for (int i = 0; i < MANY; i++)
		fake_close(worker[i]);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_at_once)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
