/* SPDX-License-Identifier: BSD-3-Clause */
/* Senders that wait: for their data, which grows while they send, and for room at the receiver. */
#include "hd_limits.h"
#include "transfer_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK ((size_t)HD_CHUNK_BYTES_DEFAULT)
#define PACKET (CHUNK + HD_CHUNK_OVERHEAD_BYTES)

static const struct link_config gigabit = {
	.seed = 1,
	.rate_bps = 1e9,
	.delay = 50 * HD_US,
	.queue_bytes = 131072,
	.window_bytes = 4 << 20,
	.wake_late = 20 * HD_US,
};

/* A transfer whose data comes at a rate of its own, in pieces that are no whole chunks, with a gap between two
 * chunks in memory. Returns how long it took against what link and data allow. */
static double growing(const struct link_config *config, double feed_bps, uint16_t *limited) {
	const size_t chunks = 4000, bytes = (chunks - 1) * CHUNK + 40, stride = CHUNK + 64;
	uint8_t *spread = calloc(chunks, stride), *truth = malloc(bytes), *to = calloc(1, bytes);
	struct hd_send_config sending = {
		.header = {.job = 7, .worker = 2, .round = 5, .attempt = 1, .token = 9},
		.data = spread,
		.bytes = bytes,
		.chunk_bytes = CHUNK,
		.stride_bytes = (uint32_t)stride,
		.cc_weight = 1,
		.grows = true,
	};
	struct hd_recv_config receiving = {
		.token = 9,
		.job = 7,
		.worker = 2,
		.round = 5,
		.attempt = 1,
		.bytes = bytes,
		.data = to,
	};
	double least = (double)bytes * 8
		/ (feed_bps < config->rate_bps ? feed_bps : config->rate_bps * CHUNK / PACKET);
	struct hd_path path;
	struct hd_send *send;
	struct hd_recv *recv;
	struct link link;
	size_t fed = 0;
	double took;

	for (size_t i = 0; i < bytes; i++)
		truth[i] = (uint8_t)(i * 2654435761U >> 13);
	link_init(&link, config);
	hd_path_init(&path, PACKET);
	sending.path = &path;
	assert_int_equal(hd_send_create(&sending, link.now, &send), 0);
	assert_int_equal(hd_recv_create(&receiving, &recv), 0);
	link_add(&link, send, recv);
	link_run(&link, link.now + HD_MS);
	assert_int_equal(hd_send_stats(send)->packets_sent, 0);
	while (!link_all_ended(&link) && link.now < 100 * HD_SECOND) {
		size_t next = fed + (size_t)(feed_bps / 8 * 100e-6);

		for (next = next < bytes ? next : bytes; fed < next; fed++)
			spread[fed / CHUNK * stride + fed % CHUNK] = truth[fed];
		hd_send_available(send, link.now, fed);
		link_run(&link, link.now + 100 * HD_US);
		assert_true(hd_send_reached(send) <= fed);
	}
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	assert_int_equal(path.inflight_bytes, 0);
	*limited = hd_recv_limited_permille(recv);
	took = (double)(link.flow[0].done_at - HD_SECOND - HD_MS) / 1e9;
	printf("fed %.0f of %.0f Mbit/s: %.2f of the least time, %u permille limited, "
	       "%lu packets, %lu acks\n",
	       feed_bps / 1e6,
	       config->rate_bps / 1e6,
	       took / least,
	       *limited,
	       hd_send_stats(send)->packets_sent,
	       link.flow[0].acks);
	link_fini(&link);
	free(spread);
	assert_memory_equal(truth, to, bytes);
	free(truth);
	free(to);
	return took / least;
}

static void test_growing(void **state) {
	struct link_config config = gigabit;
	uint16_t limited;

	(void)state;
	/* Data is the limit: the sender keeps up, and says that it was not the path. */
	assert_true(growing(&config, 300e6, &limited) < 1.02);
	assert_true(limited > 950);
	/* The path is. */
	assert_true(growing(&config, 10e9, &limited) < 1.08);
	assert_true(limited < 50);
	config.loss = config.ack_loss = 0.01;
	config.reorder = 0.02;
	config.reorder_by = 300 * HD_US;
	config.duplicate = 0.01;
	for (config.seed = 1; config.seed <= 5; config.seed++)
		assert_true(growing(&config, 300e6, &limited) < 1.1);
}

struct counter {
	struct hd_sink sink;
	size_t packets;
};

static void
count(struct hd_sink *sink,
      struct hd_addr peer,
      const void *head,
      size_t head_bytes,
      const void *payload,
      size_t payload_bytes) {
	((struct counter *)sink)->packets++;
}

static void run_send(struct hd_send *send, hd_ns *now, hd_ns until, struct counter *counter) {
	while (hd_send_deadline(send) <= until) {
		*now = hd_ns_max(*now, hd_send_deadline(send));
		hd_send_poll(send, *now, 64, &counter->sink);
	}
	*now = until;
}

/* A receiver without room answers nothing for seconds; when it says that there is some, the sender does not wait for
 * the probe that backed off meanwhile. An older message is ignored. */
static void test_send_hears_of_room(void **state) {
	struct counter counter = {{.send = count}, 0};
	static uint8_t data[400 * CHUNK];
	struct hd_path path;
	struct hd_send_config config = {
		.header = {.job = 1, .worker = 2, .round = 3, .attempt = 1, .token = 42},
		.data = data,
		.bytes = sizeof data,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = &path,
	};
	struct hd_send *send;
	struct hd_msg_sack sack = {.token = 42, .window_bytes = PACKET, .packets = {.count = 1}};
	uint32_t seen;
	hd_ns now = HD_SECOND;

	(void)state;
	hd_path_init(&path, PACKET);
	assert_int_equal(hd_send_create(&config, now, &send), 0);
	run_send(send, &now, now + HD_MS, &counter);
	seen = (uint32_t)counter.packets - 1;
	sack.held = seen + 1;
	sack.packets.item[0].last = seen;
	hd_send_sack(send, now, &sack);
	run_send(send, &now, now + 5 * HD_SECOND, &counter);
	assert_true(hd_send_deadline(send) > now + 100 * HD_MS);
	sack.window_bytes = 1 << 20;
	sack.packets.item[0].last = seen - 1;
	hd_send_sack(send, now, &sack);
	assert_true(hd_send_deadline(send) > now + 100 * HD_MS);
	sack.packets.item[0].last = seen;
	hd_send_sack(send, now, &sack);
	assert_true(hd_send_deadline(send) <= now + 20 * HD_MS);
	hd_send_destroy(send);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_send_hears_of_room),
	};

	return cmocka_run_group_tests_name("transfer-grow", tests, NULL, NULL);
}
