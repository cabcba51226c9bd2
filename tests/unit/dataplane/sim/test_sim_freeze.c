/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that are stopped (SIGSTOP) in the simulator, and go on. */
#include "hd_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEN_MAX 1024
#define PAYLOAD 958 /* frames of 1,000 bytes */

/* Sends `burst` packets at its deadline, and again after each period; notes what comes. */
struct probe {
	hd_ns deadline, period;
	struct hd_addr peer;
	uint32_t burst, number, seen, ticks;
	uint32_t numbers[SEEN_MAX];
	hd_ns at[SEEN_MAX], ticked;
};

static void probe_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct probe *probe = core;

	for (size_t i = 0; i < count && probe->seen < SEEN_MAX; i++) {
		memcpy(&probe->numbers[probe->seen], packets[i].data, 4);
		probe->at[probe->seen++] = now;
	}
}

static void probe_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[PAYLOAD];
	struct probe *probe = core;

	probe->ticks++;
	probe->ticked = now;
	for (uint32_t i = 0; i < probe->burst; i++, probe->number++)
		sink->send(sink, probe->peer, &probe->number, 4, payload, PAYLOAD - 4);
	probe->deadline = probe->period ? now + probe->period : HD_NEVER;
}

static hd_ns probe_deadline(const void *core) {
	return ((const struct probe *)core)->deadline;
}

static const struct hd_core_ops probe_ops = {probe_receive, probe_tick, probe_deadline};

struct pair {
	struct hd_sim *sim;
	struct probe probe[2];
};

static struct pair *make_pair(hd_ns period, uint32_t burst) {
	static struct pair pair;
	struct hd_sim_link link = {.rate_bps = 1000000000};

	memset(&pair, 0, sizeof pair);
	assert_int_equal(hd_sim_create(1, &pair.sim), 0);
	for (int i = 0; i < 2; i++) {
		struct hd_sim_node_config config = {.host = hd_sim_host(pair.sim, &link)};

		assert_int_equal(hd_sim_node(pair.sim, &config), i);
	}
	pair.probe[0].peer = hd_sim_node_address(pair.sim, 1);
	pair.probe[0].period = period;
	pair.probe[0].burst = burst;
	pair.probe[1].deadline = 5 * HD_MS;
	for (int i = 0; i < 2; i++)
		hd_sim_node_start(pair.sim, i, (struct hd_node){&probe_ops, &pair.probe[i]});
	return &pair;
}

/* SIGSTOP: nothing runs, the socket holds what it can, and all of it is there at once afterwards. */
static void test_frozen(void **state) {
	struct pair *pair = make_pair(HD_MS, 1);

	hd_sim_run(pair->sim, 2500 * HD_US);
	assert_int_equal(pair->probe[1].seen, 3);
	hd_sim_node_freeze(pair->sim, 1, true);
	assert_true(hd_sim_node_frozen(pair->sim, 1));
	hd_sim_run(pair->sim, 9500 * HD_US);
	assert_int_equal(pair->probe[1].seen, 3);
	assert_int_equal(pair->probe[1].ticks, 0);
	hd_sim_node_freeze(pair->sim, 1, false);
	assert_int_equal(pair->probe[1].seen, 10);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(pair->probe[1].numbers[i], i);
	assert_int_equal(pair->probe[1].at[9], 9500 * HD_US);
	hd_sim_run(pair->sim, 9600 * HD_US);
	assert_int_equal(pair->probe[1].ticks, 1); /* late, by the clock that went on */
	assert_int_equal(pair->probe[1].ticked, 9500 * HD_US);
	hd_sim_destroy(pair->sim);
}

static void test_frozen_overflows_and_dies(void **state) {
	uint32_t held = HD_SIM_SOCKET_BYTES / 1000;
	struct pair *pair = make_pair(0, held + 50);

	hd_sim_node_freeze(pair->sim, 1, true);
	hd_sim_run(pair->sim, HD_SECOND);
	assert_int_equal(hd_sim_stats(pair->sim)->overflow, 50);
	hd_sim_node_freeze(pair->sim, 1, false);
	assert_int_equal(pair->probe[1].seen, held);
	/* Killed while it is stopped: what its socket held is gone with it. */
	hd_sim_node_freeze(pair->sim, 1, true);
	pair->probe[0].deadline = 0;
	pair->probe[0].burst = 3;
	hd_sim_node_poke(pair->sim, 0);
	hd_sim_run(pair->sim, 2 * HD_SECOND);
	hd_sim_node_stop(pair->sim, 1);
	hd_sim_node_freeze(pair->sim, 1, false);
	hd_sim_node_start(pair->sim, 1, (struct hd_node){&probe_ops, &pair->probe[1]});
	hd_sim_run(pair->sim, 3 * HD_SECOND);
	assert_int_equal(pair->probe[1].seen, held);
	hd_sim_destroy(pair->sim);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frozen),
		cmocka_unit_test(test_frozen_overflows_and_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
