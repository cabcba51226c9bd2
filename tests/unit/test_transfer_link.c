/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer machinery over a modelled link: every byte arrives, and how fast. */
#include "hd_limits.h"
#include "transfer_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK HD_CHUNK_BYTES_DEFAULT
#define PACKET (CHUNK + HD_CHUNK_OVERHEAD_BYTES)
#define GIGABIT 1e9
#define PAYLOAD_LIMIT (GIGABIT * CHUNK / PACKET)

static const struct link_config gigabit = {
	.seed = 1,
	.rate_bps = GIGABIT,
	.delay = 50 * HD_US,
	.queue_bytes = 131072,
	.window_bytes = 4 << 20,
	.wake_late = 20 * HD_US,
};

struct buffer {
	uint8_t *from, *to;
	size_t bytes;
};

static struct buffer buffer_make(size_t bytes, uint64_t seed) {
	struct buffer buffer = {malloc(bytes), calloc(1, bytes), bytes};
	struct hd_random random;

	assert_non_null(buffer.from);
	assert_non_null(buffer.to);
	hd_random_init(&random, seed);
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t value = hd_random_u64(&random);
		memcpy(buffer.from + i, &value, 8);
	}
	return buffer;
}

static void buffer_check(struct buffer *buffer) {
	assert_memory_equal(buffer->from, buffer->to, buffer->bytes);
	free(buffer->from);
	free(buffer->to);
}

struct options {
	float weight;
	struct hd_segs segments;
	bool wait_go;
	hd_ns go_slack;
};

static size_t
start(struct link *link,
      struct hd_path *path,
      struct buffer *buffer,
      uint64_t token,
      const struct options *options) {
	struct hd_send_config sending = {
		.header = {.job = 7, .worker = 2, .round = 5, .attempt = 1, .token = token},
		.data = buffer->from,
		.bytes = buffer->bytes,
		.chunk_bytes = CHUNK,
		.cc_weight = options ? options->weight : 1,
		.path = path,
	};
	struct hd_recv_config receiving = {
		.token = token,
		.job = 7,
		.worker = 2,
		.round = 5,
		.attempt = 1,
		.bytes = buffer->bytes,
		.data = buffer->to,
	};
	struct hd_send *send;
	struct hd_recv *recv;

	if (options) {
		sending.segments = options->segments;
		sending.wait_go = options->wait_go;
		sending.go_slack = options->go_slack;
	}
	assert_int_equal(hd_send_create(&sending, link->now, &send), 0);
	assert_int_equal(hd_recv_create(&receiving, &recv), 0);
	return link_add(link, send, recv);
}

/* Runs one transfer; returns its goodput against the payload limit of the link. */
static double efficiency(const struct link_config *config, size_t bytes, const char *name) {
	struct buffer buffer = buffer_make(bytes, config->seed);
	struct hd_path path;
	struct link link;
	const struct hd_send_stats *sent;
	double took, share;

	link_init(&link, config);
	hd_path_init(&path, PACKET);
	start(&link, &path, &buffer, 99, NULL);
	link_run(&link, link.now + 100 * HD_SECOND);
	sent = hd_send_stats(link.flow[0].send);
	assert_int_equal(sent->state, HD_SEND_DONE);
	assert_int_equal(path.inflight_bytes, 0);
	took = (double)(link.flow[0].done_at - HD_SECOND) / 1e9;
	share = (double)bytes * 8 / took / (config->rate_bps * CHUNK / PACKET);
	printf("%s: %.1f %% of the payload limit, %.1f ms; %lu packets, %lu resent, %lu timeouts, "
	       "%lu acks, window %.0f rtt %lu us\n",
	       name,
	       share * 100,
	       took * 1e3,
	       sent->packets_sent,
	       sent->packets_resent,
	       sent->timeouts,
	       link.flow[0].acks,
	       path.window_bytes,
	       path.srtt / HD_US);
	link_fini(&link);
	buffer_check(&buffer);
	return share;
}

static void test_no_loss(void **state) {
	(void)state;
	assert_true(efficiency(&gigabit, 20 << 20, "no loss") >= 0.93);
}

static void test_loss(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct link_config config = gigabit;

		config.loss = 0.01;
		config.seed = seed;
		assert_true(efficiency(&config, 20 << 20, "1 % loss") >= 0.85);
	}
}

static void test_long_path(void **state) {
	struct link_config config = gigabit;

	(void)state;
	config.delay = HD_MS;
	config.queue_bytes = 300000;
	assert_true(efficiency(&config, 20 << 20, "2 ms path") >= 0.80);
	config.loss = 0.01;
	assert_true(efficiency(&config, 20 << 20, "2 ms path, 1 % loss") >= 0.70);
}

static void share_test(float weight, size_t tcp_flows, double rate, uint64_t queue) {
	struct link_config config = gigabit;
	struct buffer buffer;
	struct hd_path path;
	struct options options = {.weight = weight};
	struct link link;
	double ours, theirs = 0, fair, share;

	config.rate_bps = rate;
	config.queue_bytes = queue;
	config.seed = (uint64_t)weight;
	buffer = buffer_make((size_t)(rate / 8 * 4), 3);
	link_init(&link, &config);
	hd_path_init(&path, PACKET);
	for (size_t i = 0; i < tcp_flows; i++)
		link_add_tcp(&link);
	start(&link, &path, &buffer, 99, &options);
	link_run(&link, link.now + HD_SECOND / 2);
	link_mark(&link);
	link_run(&link, link.now + 4 * HD_SECOND);
	ours = (double
	       )(hd_recv_stats(link.flow[0].recv)->bytes_held - link.flow[0].received_at_mark)
		/ CHUNK;
	for (size_t i = 0; i < tcp_flows; i++)
		theirs += (double)(link.tcp[i].delivered - link.tcp[i].delivered_at_mark);
	share = ours / (ours + theirs);
	fair = (double)weight / ((double)weight + (double)tcp_flows);
	printf("weight %.0f against %zu model TCP flows at %.0f Mbit/s, queue %lu kB: share %.3f, "
	       "fair %.3f, ratio %.2f; window %.0f rtt %lu us loss %.4f\n",
	       (double)weight,
	       tcp_flows,
	       rate / 1e6,
	       queue / 1000,
	       share,
	       fair,
	       share / fair,
	       path.window_bytes,
	       path.srtt / HD_US,
	       path.loss_average);
	link_fini(&link);
	free(buffer.from);
	free(buffer.to);
}

static void test_shares(void **state) {
	(void)state;
	for (float weight = 1; weight <= 4; weight *= 2) {
		share_test(weight, 4, GIGABIT, 131072);
		share_test(weight, 4, GIGABIT / 5, 131072);
		share_test(weight, 4, GIGABIT, 500000);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_loss),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
