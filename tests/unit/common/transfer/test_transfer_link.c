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

/* The receiver's report on a transfer granted 100 Mbit/s: the share of it that the grant limited. */
static uint16_t limited_on(double rate_bps, double *goodput) {
	struct link_config config = {
		.seed = 4,
		.rate_bps = rate_bps,
		.delay = 50 * HD_US,
		.queue_bytes = 131072,
		.window_bytes = 1 << 24,
	};
	const size_t bytes = (size_t)4e6;
	struct buffer buffer = buffer_make(bytes, 4);
	struct options options = {.weight = 1};
	struct hd_path path;
	struct link link;
	uint16_t limited;

	link_init(&link, &config);
	hd_path_init(&path, PACKET);
	options.segments = (struct hd_segs){1, {{link.now, 100000000, bytes}}};
	start(&link, &path, &buffer, 99, &options);
	link_run(&link, link.now + 100 * HD_SECOND);
	assert_int_equal(hd_send_stats(link.flow[0].send)->state, HD_SEND_DONE);
	limited = hd_recv_limited_permille(link.flow[0].recv);
	*goodput = hd_recv_rate_bps(link.flow[0].recv);
	link_fini(&link);
	buffer_check(&buffer);
	return limited;
}

static void test_limited(void **state) {
	double goodput;

	(void)state;
	/* A path of ten times the grant: the grant alone limits, and the probe shows. */
	assert_true(limited_on(1e9, &goodput) > 900);
	assert_true(goodput > 115e6);
	/* A path of half the grant, and of nine tenths: the window limits. */
	assert_true(limited_on(50e6, &goodput) < 200);
	assert_true(limited_on(90e6, &goodput) < 300);
	/* A path between the grant and its probe is found as well. */
	assert_true(limited_on(115e6, &goodput) < 500);
	assert_true(goodput > 100e6);
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

/* Everything at once: loss both ways, reordering, duplication, small windows, odd sizes. */
static void test_intact(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct hd_random random;
		struct link_config config = gigabit;
		struct buffer buffer;
		struct hd_path path;
		struct link link;

		hd_random_init(&random, seed);
		config.seed = seed;
		config.rate_bps = 1e7 + 2e9 * hd_random_unit(&random);
		config.delay = hd_random_below(&random, HD_MS);
		config.queue_bytes = 8000 + hd_random_below(&random, 300000);
		config.loss = 0.3 * hd_random_unit(&random) * hd_random_unit(&random);
		config.ack_loss = 0.5 * hd_random_unit(&random);
		config.reorder = 0.2 * hd_random_unit(&random);
		config.reorder_by = hd_random_below(&random, HD_MS);
		config.duplicate = 0.1 * hd_random_unit(&random);
		config.window_bytes = (uint32_t)hd_random_below(&random, 1000000);
		config.wake_late = hd_random_below(&random, HD_MS);
		buffer = buffer_make(4 + 4 * hd_random_below(&random, 500000), seed);
		link_init(&link, &config);
		hd_path_init(&path, PACKET);
		start(&link, &path, &buffer, seed, NULL);
		link_run(&link, link.now + 1000 * HD_SECOND);
		if (hd_send_stats(link.flow[0].send)->state != HD_SEND_DONE)
			fail_msg("seed %lu: not done after 1,000 s", seed);
		assert_int_equal(path.inflight_bytes, 0);
		assert_int_equal(path.transfers, 0);
		assert_int_equal(hd_send_stats(link.flow[0].send)->bogus_acks, 0);
		assert_int_equal(hd_send_stats(link.flow[0].send)->bytes_acked, buffer.bytes);
		assert_int_equal(hd_recv_stats(link.flow[0].recv)->mismatches, 0);
		link_fini(&link);
		buffer_check(&buffer);
	}
}

/* Same seed, same packets. */
static void test_replays(void **state) {
	uint64_t packets[2], acks[2];
	hd_ns done[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct link_config config = gigabit;
		struct buffer buffer = buffer_make(3 << 20, 1);
		struct hd_path path;
		struct link link;

		config.loss = 0.02;
		config.reorder = 0.01;
		config.reorder_by = 100 * HD_US;
		link_init(&link, &config);
		hd_path_init(&path, PACKET);
		start(&link, &path, &buffer, 99, NULL);
		link_run(&link, link.now + 10 * HD_SECOND);
		packets[i] = link.flow[0].packets;
		acks[i] = link.flow[0].acks;
		done[i] = link.flow[0].done_at;
		link_fini(&link);
		buffer_check(&buffer);
	}
	assert_int_equal(packets[0], packets[1]);
	assert_int_equal(acks[0], acks[1]);
	assert_int_equal(done[0], done[1]);
}

/* Reordering without loss is learnt, not repaired for ever. */
static void test_reordering(void **state) {
	struct link_config config = gigabit;

	(void)state;
	config.reorder = 0.05;
	config.reorder_by = 100 * HD_US;
	assert_true(efficiency(&config, 10 << 20, "5 % reordered by up to 100 us") >= 0.85);
}

/* The ring grows with the window; nothing else is allocated once the receiver knows the chunk size. */
static void test_allocations(void **state) {
	struct link_config config = gigabit;
	uint64_t before = link_allocations;

	(void)state;
	config.delay = 5 * HD_MS;
	config.queue_bytes = 4 << 20;
	config.loss = 0.001;
	efficiency(&config, 40 << 20, "10 ms path, deep queue");
	/* two for each doubling from 256 to 16,384 packets, one for the receiver's bitmap */
	assert_in_range(link_allocations - before, 1, 2 * 6 + 1);
}

/* Transfers one after another on one path, the next told to go when one window is left. */
static void test_back_to_back(void **state) {
	enum {
		count = LINK_FLOWS_MAX
	};
	struct buffer buffer[count];
	struct hd_path path;
	struct link link;
	double took, share;

	(void)state;
	link_init(&link, &gigabit);
	hd_path_init(&path, PACKET);
	for (size_t i = 0; i < count; i++) {
		struct options options
			= {.weight = 1, .wait_go = i > 0, .go_slack = HD_NEVER, .segments = {0}};

		options.segments = (struct hd_segs){1, {{link.now, 934000000, 4 << 20}}};
		buffer[i] = buffer_make(4 << 20, i);
		start(&link, &path, &buffer[i], 99 + i, &options);
	}
	for (size_t i = 0; i < count; i++) {
		while (hd_recv_missing(link.flow[i].recv) > 131072)
			link_run(&link, link.now + 50 * HD_US);
		if (i + 1 < count)
			hd_send_go(link.flow[i + 1].send, link.now);
	}
	link_run(&link, link.now + HD_SECOND);
	took = (double)(link.flow[count - 1].done_at - HD_SECOND) / 1e9;
	share = (double)count * (4 << 20) * 8 / took / PAYLOAD_LIMIT;
	printf("%d transfers of 4 MiB back to back: %.1f %% of the payload limit\n",
	       count,
	       share * 100);
	assert_true(share > 0.98);
	link_fini(&link);
	for (size_t i = 0; i < count; i++)
		buffer_check(&buffer[i]);
}

static void test_cancel(void **state) {
	struct buffer buffer = buffer_make(20 << 20, 4);
	struct hd_path path;
	struct link link;
	uint64_t packets;

	(void)state;
	link_init(&link, &gigabit);
	hd_path_init(&path, PACKET);
	start(&link, &path, &buffer, 99, NULL);
	link_run(&link, link.now + 20 * HD_MS);
	hd_send_cancel(link.flow[0].send, HD_REASON_VOID);
	packets = link.flow[0].packets;
	link_run(&link, link.now + HD_SECOND);
	assert_int_equal(link.flow[0].packets, packets);
	assert_int_equal(path.inflight_bytes, 0);
	assert_true(hd_recv_missing(link.flow[0].recv) > 0);
	/* what arrived is in its place */
	assert_memory_equal(buffer.from, buffer.to, 1 << 20);
	link_fini(&link);
	free(buffer.from);
	free(buffer.to);
}

/* Two transfers on their own paths, weights 1 and 3, share a link by weight. */
static void test_weights(void **state) {
	struct link_config config = gigabit;
	struct buffer buffer[2] = {buffer_make(300 << 20, 1), buffer_make(300 << 20, 2)};
	struct hd_path path[2];
	struct link link;
	double got[2];

	(void)state;
	link_init(&link, &config);
	for (size_t i = 0; i < 2; i++) {
		struct options options = {.weight = i == 0 ? 1 : 3};

		hd_path_init(&path[i], PACKET);
		start(&link, &path[i], &buffer[i], 1 + i, &options);
	}
	link_run(&link, link.now + HD_SECOND / 2);
	link_mark(&link);
	link_run(&link, link.now + 2 * HD_SECOND);
	for (size_t i = 0; i < 2; i++) {
		got[i] = (double
		)(hd_recv_stats(link.flow[i].recv)->bytes_held - link.flow[i].received_at_mark);
		free(buffer[i].from);
		free(buffer[i].to);
	}
	printf("weights 1 and 3: shares %.3f and %.3f\n",
	       got[0] / (got[0] + got[1]),
	       got[1] / (got[0] + got[1]));
	assert_true(got[1] / (got[0] + got[1]) > 0.75 * 0.8);
	assert_true(got[0] / (got[0] + got[1]) > 0.25 * 0.7);
	link_fini(&link);
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
	assert_true(share > 0.75 * fair && share < 1.25 * fair);
	link_fini(&link);
	free(buffer.from);
	free(buffer.to);
}

static void test_shares(void **state) {
	(void)state;
	for (int weight = 1; weight <= 4; weight *= 2) {
		share_test((float)weight, 4, GIGABIT, 131072);
		share_test((float)weight, 4, GIGABIT / 5, 131072);
	}
	/* Deeper queues: only weight 1 is asserted. The model's flows are smooth, ours come in bursts,
	 * of which one counts as one loss: right against Linux's segment trains, too bold here. */
	share_test(1, 4, GIGABIT, 500000);
}

/* Transfers of 1.2 MB one after another on one path, with pauses, beside four TCP flows that were there before:
 * their goodput over the weighted fair share of the link. */
static double short_share(uint64_t seed, float weight, uint64_t granted, hd_ns pause) {
	struct link_config config = gigabit;
	const size_t bytes = 1204264;
	double fair = GIGABIT / 5 * CHUNK / PACKET * (double)weight / ((double)weight + 4);
	struct buffer buffer = buffer_make(bytes, seed);
	hd_ns took = 0;
	struct hd_path path;
	struct link link;

	config.rate_bps = GIGABIT / 5;
	config.seed = seed;
	link_init(&link, &config);
	hd_path_init(&path, PACKET);
	for (size_t i = 0; i < 4; i++)
		link_add_tcp(&link);
	for (size_t i = 0; i < LINK_FLOWS_MAX; i++) {
		struct options options = {.weight = weight};
		hd_ns began = link.now + (i > 0 ? pause : HD_SECOND + seed * 7 * HD_MS);

		options.segments = (struct hd_segs){1, {{began, granted, bytes}}};
		start(&link, &path, &buffer, 1 + i, &options);
		link_run(&link, began + 30 * HD_SECOND);
		assert_int_equal(hd_send_stats(link.flow[i].send)->state, HD_SEND_DONE);
		took += link.flow[i].done_at - began;
	}
	link_fini(&link);
	buffer_check(&buffer);
	return (double)(LINK_FLOWS_MAX * bytes) * 8e9 / (double)took / fair;
}

/* Start-up and what the path remembers matter here: a transfer lasts some 50 round trips. One that is granted the
 * whole link for itself and comes after a pause starts with the window for that, which costs the others
 * their queue: a third more than its share at weight 1, the most of these. */
static void test_short_shares(void **state) {
	static const uint64_t granted[] = {0, 150000000, 200000000};
	double all = 0;

	(void)state;
	for (int weight = 1; weight <= 2; weight++)
		for (size_t i = 0; i < 3; i++)
			for (hd_ns pause = 5 * HD_MS; pause <= 200 * HD_MS; pause *= 40) {
				double mean = 0;

				for (uint64_t seed = 1; seed <= 10; seed++)
					mean += short_share(seed, (float)weight, granted[i], pause)
						/ 10;
				printf("weight %d, 1.2 MB granted %.0f Mbit/s, %lu ms apart: %.2f of "
				       "fair\n",
				       weight,
				       (double)granted[i] / 1e6,
				       pause / HD_MS,
				       mean);
				assert_true(mean > 0.75 && mean < 1.35);
				all += mean / 12;
			}
	printf("all of these: %.2f of fair\n", all);
	assert_true(all > 0.9 && all < 1.1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_no_loss),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_intact),
		cmocka_unit_test(test_replays),
		cmocka_unit_test(test_reordering),
		cmocka_unit_test(test_allocations),
		cmocka_unit_test(test_back_to_back),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_short_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
