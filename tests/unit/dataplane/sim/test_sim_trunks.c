/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated network with several switches: times to the nanosecond, and who crosses which trunk. */
#include "hd_limits.h"
#include "hd_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 3
#define SEEN_MAX 8
/* 958 bytes make frames of 1,000: 8 us at 1 Gbit/s. */
#define PAYLOAD 958
#define FRAME_NS ((hd_ns)8000)

/* Sends `burst` packets at 0, and notes when packets come. */
struct probe {
	struct hd_addr peer;
	uint32_t burst, seen;
	hd_ns at[SEEN_MAX];
};

static void probe_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct probe *probe = core;

	for (size_t i = 0; i < count; i++) {
		assert_true(probe->seen < SEEN_MAX);
		probe->at[probe->seen++] = now;
	}
}

static void probe_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[PAYLOAD];
	struct probe *probe = core;

	for (; probe->burst > 0; probe->burst--)
		sink->send(sink, probe->peer, payload, 4, payload, PAYLOAD - 4);
}

static hd_ns probe_deadline(const void *core) {
	return ((const struct probe *)core)->burst > 0 ? 0 : HD_NEVER;
}

static const struct hd_core_ops probe_ops = {probe_receive, probe_tick, probe_deadline};

/*
 *   host 0 --- s0 --- s1 --- s2 --- host 1        s0 - s1 is a quarter as fast as the rest
 *   host 2 ---/
 */
struct chain {
	struct hd_sim *sim;
	struct probe probe[NODES];
	int node[NODES];
};

static void make_chain(struct chain *chain, bool joined) {
	struct hd_sim_link link = {.rate_bps = 1000000000}, slow = {.rate_bps = 250000000};
	const int at[NODES] = {0, 2, 0};

	memset(chain, 0, sizeof *chain);
	assert_int_equal(hd_sim_create(1, &chain->sim), 0);
	assert_int_equal(hd_sim_switch(chain->sim), 1);
	assert_int_equal(hd_sim_switch(chain->sim), 2);
	if (joined) {
		assert_int_equal(hd_sim_trunk(chain->sim, 0, 1, &slow), 0);
		assert_int_equal(hd_sim_trunk(chain->sim, 2, 1, &link), 1);
	}
	for (int i = 0; i < NODES; i++) {
		struct hd_sim_node_config config = {
			.host = hd_sim_host_at(chain->sim, at[i], &link),
		};

		chain->node[i] = hd_sim_node(chain->sim, &config);
		assert_int_equal(chain->node[i], i);
	}
}

static void run(struct chain *chain) {
	for (int i = 0; i < NODES; i++)
		hd_sim_node_start(
			chain->sim, chain->node[i], (struct hd_node){&probe_ops, &chain->probe[i]}
		);
	hd_sim_run(chain->sim, HD_SECOND);
	assert_null(hd_sim_failure(chain->sim));
}

static void send_burst(struct chain *chain, int from, int to, uint32_t burst) {
	chain->probe[from].peer = hd_sim_node_address(chain->sim, to);
	chain->probe[from].burst = burst;
}

static void test_a_trunk_is_shared(void **state) {
	struct chain chain;

	make_chain(&chain, true);
	send_burst(&chain, 0, 1, 2);
	send_burst(&chain, 2, 1, 2);
	run(&chain);
	assert_int_equal(chain.probe[1].seen, 4);
	/* Up, then one behind the other through the slow trunk, the fast one, and down. */
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(chain.probe[1].at[i], FRAME_NS * (1 + 4 * (i + 1) + 2));
	assert_int_equal(hd_sim_trunk_stats(chain.sim, 0, true)->packets, 4);
	assert_int_equal(hd_sim_trunk_stats(chain.sim, 0, false)->packets, 0);
	assert_int_equal(hd_sim_trunk_stats(chain.sim, 1, false)->bytes, 4000);
	assert_int_equal(hd_sim_trunk_stats(chain.sim, 1, true)->packets, 0);
	hd_sim_destroy(chain.sim);
}

static void test_both_directions_at_once(void **state) {
	struct chain chain;

	make_chain(&chain, true);
	send_burst(&chain, 0, 1, 1);
	send_burst(&chain, 1, 0, 1);
	run(&chain);
	assert_int_equal(chain.probe[0].at[0], 7 * FRAME_NS);
	assert_int_equal(chain.probe[1].at[0], 7 * FRAME_NS);
	hd_sim_destroy(chain.sim);
}

static void test_neighbours_cross_no_trunk(void **state) {
	struct chain chain;

	make_chain(&chain, true);
	send_burst(&chain, 0, 2, 1);
	run(&chain);
	assert_int_equal(chain.probe[2].at[0], 2 * FRAME_NS);
	assert_int_equal(hd_sim_trunk_stats(chain.sim, 0, true)->packets, 0);
	hd_sim_destroy(chain.sim);
}

static void test_no_path(void **state) {
	struct chain chain;

	make_chain(&chain, false);
	send_burst(&chain, 0, 1, 3);
	run(&chain);
	assert_int_equal(hd_sim_stats(chain.sim)->no_path, 3);
	assert_int_equal(hd_sim_stats(chain.sim)->delivered, 0);
	hd_sim_destroy(chain.sim);
}

/* A ring of five: the shorter way round, whichever trunk came first. */
static void test_fewest_trunks(void **state) {
	struct hd_sim_link link = {.rate_bps = 1000000000};
	struct probe probe[2] = {0};
	struct hd_sim *sim;
	int trunk[5];

	assert_int_equal(hd_sim_create(1, &sim), 0);
	for (int i = 1; i < 5; i++)
		assert_int_equal(hd_sim_switch(sim), i);
	for (int i = 0; i < 5; i++)
		trunk[i] = hd_sim_trunk(sim, i, (i + 1) % 5, &link);
	for (int i = 0; i < 2; i++) {
		struct hd_sim_node_config config = {.host = hd_sim_host_at(sim, 3 * i, &link)};

		assert_int_equal(hd_sim_node(sim, &config), i);
	}
	probe[0].peer = hd_sim_node_address(sim, 1);
	probe[0].burst = 1;
	for (int i = 0; i < 2; i++)
		hd_sim_node_start(sim, i, (struct hd_node){&probe_ops, &probe[i]});
	hd_sim_run(sim, HD_SECOND);
	assert_int_equal(probe[1].at[0], 4 * FRAME_NS);
	assert_int_equal(hd_sim_trunk_stats(sim, trunk[4], false)->packets, 1);
	assert_int_equal(hd_sim_trunk_stats(sim, trunk[3], false)->packets, 1);
	assert_int_equal(hd_sim_trunk_stats(sim, trunk[0], true)->packets, 0);
	hd_sim_destroy(sim);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_trunk_is_shared),
		cmocka_unit_test(test_both_directions_at_once),
		cmocka_unit_test(test_neighbours_cross_no_trunk),
		cmocka_unit_test(test_no_path),
		cmocka_unit_test(test_fewest_trunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
