/* SPDX-License-Identifier: BSD-3-Clause */
/* Control of sessions does not wait for chunks: what one call of a core sends leaves with control first. */
#include "hd_limits.h"
#include "hd_udp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LOOPBACK 0x7f000001u
#define PACKETS 300
#define CONTROL(i) ((i) % 10 == 9)

/* Sends PACKETS at its first tick, a tenth of them without a payload, and notes what it receives. */
struct node {
	struct hd_addr peer; /* none: it sends nothing */
	uint32_t seen[PACKETS], count;
	bool done;
};

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct node *node = core;

	for (size_t i = 0; i < count && node->count < PACKETS; i++)
		memcpy(&node->seen[node->count++], packets[i].data, sizeof node->seen[0]);
}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[1000];
	struct node *node = core;

	node->done = true;
	for (uint32_t i = 0; i < PACKETS; i++)
		sink->send(
			sink,
			node->peer,
			&i,
			sizeof i,
			CONTROL(i) ? NULL : payload,
			CONTROL(i) ? 0 : sizeof payload
		);
}

static hd_ns deadline(const void *core) {
	const struct node *node = core;

	return node->done || hd_addr_is_none(node->peer) ? HD_NEVER : 0;
}

static const struct hd_core_ops ops = {on_receive, on_tick, deadline};

static void test_control_is_first(void **state) {
	struct hd_udp_config config = {.bind = {.ipv4 = LOOPBACK}};
	struct node from = {0}, to = {0};
	uint32_t newest[2] = {0}, controls = 0;
	hd_ns limit = hd_udp_now() + 5 * HD_SECOND;
	struct hd_udp *udp[2];
	char error[128];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(hd_udp_open(&config, &udp[i], error, sizeof error), 0);
	from.peer = hd_udp_bound(udp[1]);
	assert_int_equal(hd_udp_poll(udp[0], (struct hd_node){&ops, &from}, 0), 0);
	while (to.count < PACKETS && hd_udp_now() < limit)
		assert_int_equal(
			hd_udp_poll(udp[1], (struct hd_node){&ops, &to}, hd_udp_now() + HD_MS), 0
		);
	assert_int_equal(to.count, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t *last = &newest[CONTROL(to.seen[i])];

		controls += CONTROL(to.seen[i]);
		assert_int_equal(CONTROL(to.seen[i]), i < PACKETS / 10);
		assert_true(to.seen[i] == 0 || to.seen[i] > *last); /* each kind in order */
		*last = to.seen[i];
	}
	assert_int_equal(controls, PACKETS / 10);
	for (int i = 0; i < 2; i++)
		hd_udp_close(udp[i]);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_control_is_first)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
