/* SPDX-License-Identifier: BSD-3-Clause */
/* The first switch looks into packets: it takes some, and makes others, which have faults as any packet. */
#include "hd_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS 3
#define PACKETS 1000

/* Sends PACKETS packets to the next host, a millisecond apart. */
struct talker {
	struct hd_addr peer;
	uint32_t sent, seen, made;
	hd_ns deadline;
};

struct scene {
	struct hd_sim *sim;
	struct talker talker[HOSTS];
	int node[HOSTS];
	uint32_t looked, taken, copies;
};

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct talker *talker = core;

	(void)now;
	(void)sink;
	for (size_t i = 0; i < count; i++) {
		talker->seen++;
		talker->made += packets[i].bytes == 3;
	}
}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct talker *talker = core;

	sink->send(sink, talker->peer, "chunk", 5, NULL, 0);
	talker->deadline = ++talker->sent < PACKETS ? now + HD_MS : HD_NEVER;
}

static hd_ns on_deadline(const void *core) {
	return ((const struct talker *)core)->deadline;
}

static const struct hd_core_ops ops = {on_receive, on_tick, on_deadline};

/* Takes what goes to host 1, and answers all three hosts for it. */
static bool
look(void *owner, struct hd_addr from, struct hd_addr to, const uint8_t *data, size_t bytes) {
	struct scene *s = owner;

	s->looked++;
	assert_int_equal(bytes, 5);
	assert_memory_equal(data, "chunk", 5);
	assert_true(from.ipv4 != to.ipv4);
	if (to.ipv4 != hd_sim_address(1, 0).ipv4)
		return false;
	s->taken++;
	for (int i = 0; i < HOSTS; i++)
		hd_sim_path_send(
			s->sim, to, hd_sim_node_address(s->sim, s->node[i]), (uint8_t *)"sum", 3
		);
	return true;
}

static void open_scene(struct scene *s, const struct hd_sim_faults *faults) {
	struct hd_sim_link link = {.rate_bps = 1000000000, .latency = 50000};

	memset(s, 0, sizeof *s);
	assert_int_equal(hd_sim_create(3, &s->sim), 0);
	for (int i = 0; i < HOSTS; i++) {
		struct hd_sim_node_config config = {.host = hd_sim_host(s->sim, &link)};

		s->node[i] = hd_sim_node(s->sim, &config);
		s->talker[i].deadline = i == 1 ? HD_NEVER : 0;
	}
	s->talker[0].peer = hd_sim_node_address(s->sim, s->node[1]);
	s->talker[2].peer = hd_sim_node_address(s->sim, s->node[0]);
	if (faults)
		hd_sim_set_faults(s->sim, faults);
	hd_sim_set_path(s->sim, &(struct hd_sim_path){.packet = look, .owner = s});
	for (int i = 0; i < HOSTS; i++)
		hd_sim_node_start(s->sim, s->node[i], (struct hd_node){&ops, &s->talker[i]});
	hd_sim_run(s->sim, 3 * HD_SECOND);
}

static void test_takes(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s, NULL);
	assert_int_equal(s.looked, 2 * PACKETS);
	assert_int_equal(s.taken, PACKETS);
	for (int i = 0; i < HOSTS; i++)
		assert_int_equal(s.talker[i].made, PACKETS);
	assert_int_equal(s.talker[0].seen, 2 * PACKETS); /* what is not taken goes on */
	assert_int_equal(s.talker[1].seen, PACKETS);
	hd_sim_destroy(s.sim);
}

static void test_faults(void **state) {
	struct hd_sim_faults faults = {.loss = 0.2, .duplicate = 0.1, .reorder = 0.5};
	struct scene s;

	(void)state;
	open_scene(&s, &faults);
	assert_in_range(s.taken, 800, 960); /* 0.8 times 1.1 */
	for (int i = 0; i < HOSTS; i++)
		assert_in_range(s.talker[i].made, s.taken * 8 / 10, s.taken);
	hd_sim_set_path(s.sim, NULL);
	hd_sim_destroy(s.sim);
}

/* A host that is cut off gets nothing of what the switch makes. */
static void test_cut(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s, NULL);
	hd_sim_set_cut(s.sim, 2, true);
	s.talker[0].sent = 0;
	s.talker[0].deadline = 0;
	hd_sim_node_poke(s.sim, s.node[0]);
	hd_sim_run(s.sim, 6 * HD_SECOND);
	assert_int_equal(s.talker[0].made, 2 * PACKETS);
	assert_int_equal(s.talker[2].made, PACKETS);
	hd_sim_destroy(s.sim);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
