/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths that lose packets at random, acknowledgements too: updates one after another, each granted what the one before
 * got, as the controller does it.
 */
#include "hd_limits.h"
#include "transfer_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK 1408
#define PACKET ((size_t)(CHUNK + HD_CHUNK_OVERHEAD_BYTES))
#define BYTES ((size_t)1 << 20)
#define PAUSE (2 * HD_MS) /* between two */

static const struct link_config slow = {
	.seed = 1,
	.rate_bps = 50e6,
	.delay = 250 * HD_US,
	.queue_bytes = 131072,
	.wake_late = 50 * HD_US,
	.window_bytes = 4 << 20,
};

/* Measures one path over some time. */
struct lossy {
	struct link link;
	struct hd_path path;
	uint8_t *from, *to;
	uint64_t granted_bps; /* 0: as fast as the path allows */
	double goodput_bps, link_bps, tcp_bps; /* of the last while */
};

static void lossy_open(struct lossy *l, const struct link_config *config, uint64_t granted_bps) {
	memset(l, 0, sizeof *l);
	link_init(&l->link, config);
	hd_path_init(&l->path, PACKET);
	l->granted_bps = granted_bps;
	l->from = calloc(1, BYTES);
	l->to = calloc(1, BYTES);
	assert_non_null(l->from);
	assert_non_null(l->to);
}

static void lossy_close(struct lossy *l) {
	link_fini(&l->link);
	free(l->from);
	free(l->to);
}

/* One update, from its start until its sender knows that it is there. */
static void update(struct lossy *l, uint64_t token) {
	const struct hd_send_config sending = {
		.header = {.job = 7, .worker = 2, .round = 5, .attempt = 1, .token = token},
		.data = l->from,
		.bytes = BYTES,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = &l->path,
		.segments = {l->granted_bps > 0, {{l->link.now, l->granted_bps, BYTES}}},
	};
	const struct hd_recv_config receiving = {
		.token = token,
		.job = 7,
		.worker = 2,
		.round = 5,
		.attempt = 1,
		.bytes = BYTES,
		.data = l->to,
	};
	struct hd_send *send;
	struct hd_recv *recv;
	double rate;

	assert_int_equal(hd_send_create(&sending, l->link.now, &send), 0);
	assert_int_equal(hd_recv_create(&receiving, &recv), 0);
	l->link.flow_count = 0;
	link_add(&l->link, send, recv);
	link_run(&l->link, l->link.now + 100 * HD_SECOND);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	l->link_bps += (double)(hd_send_stats(send)->packets_sent * PACKET * 8);
	rate = hd_recv_rate_bps(recv);
	if (l->granted_bps > 0)
		l->granted_bps = (uint64_t)(0.75 * (double)l->granted_bps + 0.25 * rate);
	hd_send_destroy(send);
	hd_recv_destroy(recv);
	link_drain(&l->link, l->link.now + PAUSE);
}

/* Rates from now on. */
static void run(struct lossy *l, hd_ns span) {
	const hd_ns began = l->link.now;
	uint64_t count = 0;
	double seconds;

	l->link_bps = 0;
	link_mark(&l->link);
	for (; l->link.now < began + span; count++)
		update(l, 1 + count);
	seconds = (double)(l->link.now - began) / 1e9;
	l->goodput_bps = (double)(count * BYTES * 8) / seconds;
	l->link_bps /= seconds;
	l->tcp_bps = 0;
	for (size_t i = 0; i < l->link.tcp_count; i++)
		l->tcp_bps += (double)(l->link.tcp[i].delivered - l->link.tcp[i].delivered_at_mark)
			* 1514 * 8 / seconds;
}

static double alone(double loss, uint64_t granted_bps) {
	struct link_config config = slow;
	struct lossy l;
	double goodput;

	config.loss_behind = config.ack_loss = loss;
	lossy_open(&l, &config, granted_bps);
	run(&l, 3 * HD_SECOND);
	run(&l, 12 * HD_SECOND);
	goodput = l.goodput_bps;
	printf("alone, %2.0f %% lost, %s: %.1f Mbit/s, %.1f on the link; known %.3f of %.3f, window %.0f packets, "
	       "rtt %lu us\n",
	       loss * 100,
	       granted_bps ? "granted" : "direct",
	       goodput / 1e6,
	       l.link_bps / 1e6,
	       l.path.loss_random,
	       l.path.loss_average,
	       l.path.window_bytes / (double)PACKET,
	       l.path.srtt / HD_US);
	lossy_close(&l);
	return goodput;
}

static void test_alone(void **state) {
	static const double loss[] = {0.01, 0.1, 0.3}, least[] = {0.95, 0.80, 0.45};

	(void)state;
	for (uint64_t granted = 0; granted <= 40000000; granted += 40000000) {
		const double without = alone(0, granted);

		assert_true(without > 0.9 * 50e6 * CHUNK / PACKET);
		for (size_t i = 0; i < 3; i++)
			assert_true(alone(loss[i], granted) >= least[i] * without);
	}
}

/* Beside a TCP flow that loses nothing but in the queue: never more than twice what that has. */
static void beside(double loss, uint64_t granted_bps, uint64_t queue_bytes) {
	struct link_config config = slow;
	struct lossy l;

	config.loss_behind = config.ack_loss = loss;
	config.queue_bytes = queue_bytes;
	lossy_open(&l, &config, granted_bps);
	link_add_tcp(&l.link);
	run(&l, 3 * HD_SECOND);
	run(&l, 20 * HD_SECOND);
	printf("beside one TCP flow, %2.0f %% lost, %s, queue %lu kB: %.1f on the link, TCP %.1f Mbit/s; loss known "
	       "%.3f, rtt %lu us\n",
	       loss * 100,
	       granted_bps ? "granted" : "direct",
	       queue_bytes / 1000,
	       l.link_bps / 1e6,
	       l.tcp_bps / 1e6,
	       l.path.loss_random,
	       l.path.srtt / HD_US);
	assert_true(l.link_bps <= 2 * l.tcp_bps);
	lossy_close(&l);
}

static void test_beside_tcp(void **state) {
	static const double loss[] = {0, 0.01, 0.1, 0.3};

	(void)state;
	for (uint64_t granted = 0; granted <= 40000000; granted += 40000000)
		for (size_t i = 0; i < 4; i++) {
			beside(loss[i], granted, 131072);
			beside(loss[i], granted, 32768);
		}
}

/* A policer: what is beyond its rate is dropped, and no delay shows it. That is no loss at random. */
static void test_policer(void **state) {
	struct link_config config = slow;
	struct lossy l;

	(void)state;
	config.queue_bytes = 4 * PACKET;
	lossy_open(&l, &config, 80000000);
	run(&l, 3 * HD_SECOND);
	run(&l, 10 * HD_SECOND);
	printf("policed: %.1f Mbit/s, %.1f on the link; loss known %.3f of %.3f\n",
	       l.goodput_bps / 1e6,
	       l.link_bps / 1e6,
	       l.path.loss_random,
	       l.path.loss_average);
	assert_true(l.link_bps < 1.2 * config.rate_bps);
	lossy_close(&l);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_beside_tcp),
		cmocka_unit_test(test_policer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
