/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of a switch over rings in memory: what a port does not take at once leaves later and once, copies have
 * headers of their own and share what is long, floods leave by all other ports, and every buffer comes back.
 */
#include "hd_bytes.h"
#include "hd_dpdk_port.h"
#include "hd_ports.h"
#include "hd_random.h"

#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PORTS 4
#define ROOM 1024 /* of the rings, but for port 1's */
#define LITTLE_ROOM 8
#define AT_VERDICT 14 /* of a frame: what the executor is to say, */
#define AT_PORT 15 /* for which port, */
#define AT_NUMBER 100 /* and which frame it is */
#define HEADERS 98

static struct rte_ring *in[PORTS], *out[PORTS];
static struct rte_mempool *pool;
static struct hd_ports *ports;

/* --- an executor that does what the frame says --- */

static const struct hd_switch_copy copies[] = {
	{.port = 2,
	 .mac = {2, 0, 0, 0, 0, 1},
	 .ipv4 = 0x0a000001,
	 .udp_port = 1001,
	 .token = 0x1111},
	{.port = 9,
	 .mac = {2, 0, 0, 0, 0, 9},
	 .ipv4 = 0x0a000009,
	 .udp_port = 1009,
	 .token = 0x9999},
	{.port = 0,
	 .mac = {2, 0, 0, 0, 0, 2},
	 .ipv4 = 0x0a000002,
	 .udp_port = 1002,
	 .token = 0x2222},
	{.port = 3,
	 .mac = {2, 0, 0, 0, 0, 3},
	 .ipv4 = 0x0a000003,
	 .udp_port = 1003,
	 .token = 0x3333},
};

static void on_burst(void *self, struct hd_switch_packet *packets, size_t count) {
	(void)self;
	for (size_t i = 0; i < count; i++) {
		packets[i].verdict = packets[i].data[AT_VERDICT];
		packets[i].port = packets[i].data[AT_PORT];
	}
}

static size_t on_copies(
	const void *self,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **all
) {
	(void)self;
	(void)packet;
	*all = copies;
	return sizeof copies / sizeof copies[0];
}

static const struct hd_switch_executor_ops ops
	= {.name = "test", .burst = on_burst, .copies = on_copies};

/* --- frames --- */

static void give(uint32_t port, uint8_t verdict, uint8_t to, uint32_t number, uint16_t bytes) {
	struct rte_mbuf *frame = rte_pktmbuf_alloc(pool);
	uint8_t *data;

	assert_non_null(frame);
	data = (uint8_t *)rte_pktmbuf_append(frame, bytes);
	memset(data, (int)number, bytes);
	data[AT_VERDICT] = verdict;
	data[AT_PORT] = to;
	hd_put32(data + AT_NUMBER, number);
	assert_int_equal(rte_ring_enqueue(in[port], frame), 0);
}

static struct rte_mbuf *take(uint32_t port) {
	void *frame = NULL;

	return rte_ring_dequeue(out[port], &frame) == 0 ? frame : NULL;
}

static uint32_t number_of(struct rte_mbuf *frame) {
	uint8_t bytes[4];

	return hd_get32(rte_pktmbuf_read(frame, AT_NUMBER, 4, bytes));
}

static void settle(void) {
	for (int i = 0; i < 5; i++)
		assert_int_equal(hd_ports_poll(ports, 0), 0);
}

/* All that was lent is back. */
static void check_buffers(void) {
	static const char *const names[] = {"heddle-frames", "heddle-pieces"};

	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rte_mempool_in_use_count(rte_mempool_lookup(names[i])), 0);
}

/* --- tests --- */

/*
 * Port 1 has room for seven frames, and its reader takes a few now and then: all come, each once, in order. A retry of
 * a burst from its first frame would send some twice.
 */
static void test_partial(void **state) {
	struct hd_ports_counts counts;
	struct hd_random random;
	uint32_t given = 0, taken = 0;

	(void)state;
	hd_random_init(&random, 1);
	while (given < 20000 || taken < given) {
		uint32_t more = given < 20000 && given - taken < 100 ?
			(uint32_t)hd_random_below(&random, 50) :
			0;
		struct rte_mbuf *frame;

		while (more-- > 0)
			give(0, HD_SWITCH_FORWARD, 1, given++, 200);
		assert_int_equal(hd_ports_poll(ports, 0), 0);
		for (uint64_t n = hd_random_below(&random, 10); n > 0 && (frame = take(1)); n--) {
			assert_int_equal(number_of(frame), taken++);
			rte_pktmbuf_free(frame);
		}
	}
	assert_int_equal(given, taken);
	settle();
	assert_null(take(1));
	hd_ports_counts(ports, 1, &counts);
	assert_true(counts.stalls > 100);
	check_buffers();
}

static void check_copy(const struct hd_switch_copy *copy, uint32_t number, uint16_t bytes) {
	struct rte_mbuf *frame = take(copy->port);
	uint8_t all[2000];
	const uint8_t *data;

	assert_non_null(frame);
	assert_int_equal(frame->pkt_len, bytes);
	data = rte_pktmbuf_read(frame, 0, bytes, all);
	assert_memory_equal(data, copy->mac, 6);
	assert_memory_equal(data + 6, hd_ports_self(ports)->mac, 6);
	assert_int_equal(hd_get32(data + 30), copy->ipv4);
	assert_int_equal(hd_get16(data + 36), copy->udp_port);
	assert_int_equal(hd_get64(data + 90), copy->token);
	assert_int_equal(hd_get32(data + AT_NUMBER), number);
	for (uint32_t i = AT_NUMBER + 4; i < bytes; i++)
		assert_int_equal(data[i], (uint8_t)number);
	rte_pktmbuf_free(frame);
}

static void test_copies(void **state) {
	static const uint16_t sizes[] = {104, 256, 511, 512, 1400, 1514};
	struct hd_ports_counts before, after;

	(void)state;
	hd_ports_counts(ports, 1, &before);
	for (uint32_t i = 0; i < 6; i++)
		give(1, HD_SWITCH_COPY, 0, i + 1, sizes[i]);
	settle();
	for (uint32_t i = 0; i < 6; i++)
		for (int k = 0; k < 4; k++)
			if (copies[k].port < PORTS)
				check_copy(&copies[k], i + 1, sizes[i]);
	hd_ports_counts(ports, 1, &after);
	assert_int_equal(after.no_port - before.no_port, 6);
	for (uint32_t i = 0; i < PORTS; i++)
		assert_null(take(i));
	check_buffers();
}

static void test_flood(void **state) {
	(void)state;
	for (uint32_t from = 0; from < PORTS; from++) {
		give(from, HD_SWITCH_FLOOD, 0, from, 1000);
		give(from, HD_SWITCH_DROP, 0, 77, 1000);
		give(from, HD_SWITCH_FORWARD, PORTS, 78, 1000);
	}
	settle();
	for (uint32_t to = 0; to < PORTS; to++) {
		struct rte_mbuf *frame;
		uint32_t seen = 0;

		while ((frame = take(to))) {
			seen |= 1u << number_of(frame);
			rte_pktmbuf_free(frame);
		}
		assert_int_equal(seen, 15u & ~(1u << to));
	}
	check_buffers();
}

/* Frames that a full queue refuses are counted and freed. */
static void test_full(void **state) {
	struct hd_switch_queue *queue = hd_ports_queue(ports, 1);
	uint64_t before = hd_switch_queue_counts(queue, HD_SWITCH_CLASS_DATA)->drops, drops;
	struct rte_mbuf *frame;
	uint32_t taken = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		give(0, HD_SWITCH_FORWARD, 1, i, 1500);
	settle();
	drops = hd_switch_queue_counts(queue, HD_SWITCH_CLASS_DATA)->drops - before;
	assert_int_equal(
		hd_switch_queue_waiting(queue, HD_SWITCH_CLASS_DATA) / 1500 + LITTLE_ROOM - 1
			+ drops,
		1000
	);
	assert_true(drops > 0);
	while (taken < 1000 - drops) {
		assert_int_equal(hd_ports_poll(ports, 0), 0);
		while ((frame = take(1))) {
			assert_int_equal(number_of(frame), taken++);
			rte_pktmbuf_free(frame);
		}
	}
	check_buffers();
}

/* --- the loop's thread, and others --- */

static void *run(void *unused) {
	assert_int_equal(hd_ports_run(ports), 0);
	return unused;
}

static pthread_t called_on;

static void on_call(void *argument) {
	called_on = pthread_self();
	(*(int *)argument)++;
}

static void test_calls(void **state) {
	pthread_t loop;
	int calls = 0;

	(void)state;
	assert_int_equal(hd_ports_call(ports, on_call, &calls), 0);
	assert_true(calls == 1 && pthread_equal(called_on, pthread_self()));
	assert_int_equal(pthread_create(&loop, NULL, run, NULL), 0);
	/* Before the loop runs the call is made here. */
	while (pthread_equal(called_on, pthread_self()))
		assert_int_equal(hd_ports_call(ports, on_call, &calls), 0);
	assert_true(pthread_equal(called_on, loop));
	for (int i = 0; i < 100; i++)
		assert_int_equal(hd_ports_call(ports, on_call, &calls), 0);
	assert_true(calls >= 102);
	hd_ports_stop(ports);
	assert_int_equal(pthread_join(loop, NULL), 0);
}

/* --- setting up --- */

static int make_rings(void) {
	for (int i = 0; i < PORTS; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "in%d", i);
		in[i] = rte_ring_create(name, 2 * ROOM, 0, 0);
		(void)snprintf(name, sizeof name, "out%d", i);
		out[i] = rte_ring_create(name, i == 1 ? LITTLE_ROOM : ROOM, 0, 0);
		(void)snprintf(name, sizeof name, "t%d", i);
		if (!in[i] || !out[i] || rte_eth_from_rings(name, &in[i], 1, &out[i], 1, 0) < 0)
			return -1;
	}
	pool = rte_pktmbuf_pool_create("test", 4095, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, -1);
	return pool ? 0 : -1;
}

static int start(void **state) {
	const struct dpdk_eal eal = {.prefix = "heddle-test-ports", .memory_bytes = 256 << 20};
	const struct hd_switch_executor executor = {&ops, NULL};
	struct hd_switch_link links[PORTS];
	struct hd_ports_config config
		= {.links = links, .count = PORTS, .self = {.ipv4 = 1, .udp_port = 4773}};
	char error[200] = "", text[64];

	(void)state;
	if (dpdk_start_eal(&eal, error, sizeof error) < 0 || make_rings() < 0)
		return -1;
	for (int i = 0; i < PORTS; i++) {
		(void)snprintf(text, sizeof text, "net_ring_t%d,queue=256", i);
		if (hd_switch_link_read(text, &links[i], error, sizeof error) < 0)
			return -1;
	}
	if (hd_ports_open(&config, &ports, error, sizeof error) < 0) {
		print_error("%s\n", error);
		return -1;
	}
	hd_ports_set_executor(ports, &executor);
	return 0;
}

static int stop(void **state) {
	(void)state;
	hd_ports_close(ports);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
