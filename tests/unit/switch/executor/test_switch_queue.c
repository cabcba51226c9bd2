/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of the switch's ports in virtual time: rate, bursts, limits, marks, priority, and what a port leaves. */
#include "hd_bytes.h"
#include "hd_frame.h"
#include "hd_random.h"
#include "hd_switch_link.h"
#include "hd_switch_numbers.h"
#include "hd_switch_priority.h"
#include "hd_wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define FRAMES 100000

/* Frames are places in here: the queue only hands them back. */
static char frames[FRAMES + 1];

static struct hd_switch_queue *make(struct hd_switch_queue_config config) {
	struct hd_switch_queue *queue;

	if (config.limit_bytes == 0)
		config.limit_bytes = 1 << 20;
	if (config.limit_frames == 0)
		config.limit_frames = 1024;
	assert_int_equal(hd_switch_queue_create(&config, &queue), 0);
	return queue;
}

/* Has everything leave that may at `now`, in bursts of which the port takes at most `takes`. */
static uint32_t leave(struct hd_switch_queue *queue, hd_ns now, uint32_t takes, char **next) {
	void *ready[7];
	uint32_t total = 0, count;

	while ((count = hd_switch_queue_ready(queue, now, ready, 7)) > 0) {
		uint32_t taken = count < takes ? count : takes;

		for (uint32_t i = 0; i < taken; i++)
			assert_ptr_equal(ready[i], (*next)++);
		hd_switch_queue_sent(queue, taken);
		total += taken;
		if (taken == 0)
			break;
	}
	return total;
}

/* A second of a link that always has something to send, woken when the queue says: its rate, to a frame. */
static void check_rate(uint64_t rate_bps, uint32_t burst_bytes, uint32_t bytes) {
	struct hd_switch_queue *queue = make((struct hd_switch_queue_config
	){.rate_bps = rate_bps, .burst_bytes = burst_bytes});
	const hd_ns begin = 5 * HD_SECOND, end = begin + HD_SECOND;
	char *in = frames, *out = frames;
	uint64_t most = rate_bps / 8 + burst_bytes + bytes;

	for (hd_ns now = begin; now < end; now = hd_ns_max(now, hd_switch_queue_deadline(queue))) {
		do {
			while (in - out < 8)
				assert_int_equal(
					hd_switch_queue_put(
						queue, HD_SWITCH_CLASS_DATA, in++, bytes
					),
					HD_SWITCH_PUT_TAKEN
				);
		} while (leave(queue, now, 7, &out) > 0);
	}
	assert_true(out - frames < FRAMES);
	assert_in_range((uint64_t)(out - frames) * bytes, rate_bps / 8 - bytes, most);
	hd_switch_queue_destroy(queue);
}

static void test_rate(void **state) {
	(void)state;
	check_rate(200000000, 16384, 1514);
	check_rate(1000000000, 62500, 9014);
	check_rate(9999991, 16384, 60);
	check_rate(33333, 0, 60);
}

/*
 * A late poll still gets the rate, as long as the link would have had something to send: here 1.2 ms of it. After that
 * the link would have been idle.
 */
static void check_late(hd_ns late, uint64_t least, uint64_t most) {
	struct hd_switch_queue *queue = make((struct hd_switch_queue_config
	){.rate_bps = 1000000000, .burst_bytes = 16384});
	struct hd_random random;
	hd_ns now = HD_SECOND, begin = now;
	char *in = frames, *out = frames;

	hd_random_init(&random, 3);
	while (now < begin + HD_SECOND) {
		do {
			while (in - out < 100)
				(void)hd_switch_queue_put(queue, HD_SWITCH_CLASS_DATA, in++, 1514);
		} while (leave(queue, now, 7, &out) == 100);
		now = hd_ns_max(now, hd_switch_queue_deadline(queue))
			+ hd_random_below(&random, late);
	}
	assert_in_range((uint64_t)(out - frames) * 1514, least, most);
	while (hd_switch_queue_drain(queue)) {}
	hd_switch_queue_destroy(queue);
}

static void test_late(void **state) {
	(void)state;
	check_late(450 * HD_US, 124500000, 125200000);
	check_late(1000 * HD_US, 124000000, 125200000);
	check_late(10 * HD_MS, 10000000, 90000000);
}

/* A burst that comes to an idle link does not pass at once, however much of it waits. */
static void test_idle(void **state) {
	struct hd_switch_queue *queue
		= make((struct hd_switch_queue_config){.rate_bps = 8000000, .burst_bytes = 2000});
	char *out = frames;

	(void)state;
	for (hd_ns now = HD_SECOND; now < 20 * HD_SECOND; now += HD_SECOND) {
		for (int i = 0; i < 100; i++)
			(void)hd_switch_queue_put(queue, HD_SWITCH_CLASS_DATA, out + i, 1000);
		assert_int_equal(leave(queue, now, 7, &out), 3);
		/* 97 ms later all are gone, and not before. */
		assert_int_equal(leave(queue, now + 96 * HD_MS, 7, &out), 96);
		assert_int_equal(leave(queue, now + 97 * HD_MS, 7, &out), 1);
	}
	hd_switch_queue_destroy(queue);
}

/* After a pause a burst leaves at once, and no more. */
static void test_burst(void **state) {
	struct hd_switch_queue *queue
		= make((struct hd_switch_queue_config){.rate_bps = 8000000, .burst_bytes = 10000});
	char *out = frames;

	(void)state;
	for (int i = 0; i < 20; i++)
		(void)hd_switch_queue_put(queue, HD_SWITCH_CLASS_DATA, frames + i, 1000);
	/* Ten, and one that overdraws. */
	assert_int_equal(leave(queue, HD_SECOND, 7, &out), 11);
	assert_int_equal(hd_switch_queue_deadline(queue), HD_SECOND + HD_MS);
	assert_int_equal(leave(queue, HD_SECOND + HD_MS - 1, 7, &out), 0);
	assert_int_equal(leave(queue, HD_SECOND + HD_MS, 7, &out), 1);
	assert_int_equal(hd_switch_queue_set_rate(queue, 0), 0);
	assert_int_equal(leave(queue, HD_SECOND + HD_MS, 7, &out), 8);
	assert_int_equal(hd_switch_queue_deadline(queue), HD_NEVER);
	assert_int_equal(hd_switch_queue_set_rate(queue, HD_SWITCH_RATE_BPS_MAX + 1), -EINVAL);
	hd_switch_queue_destroy(queue);
}

/*
 * A port that takes only a part of a burst gets the rest later, each frame once: a retry from the first frame would
 * send some twice.
 */
static void test_partial(void **state) {
	struct hd_switch_queue *queue = make((struct hd_switch_queue_config){.limit_frames = 4096});
	struct hd_random random;
	char *in = frames, *out = frames;

	(void)state;
	hd_random_init(&random, 9);
	while (in < frames + 20000) {
		for (uint64_t i = hd_random_below(&random, 20); i > 0; i--)
			assert_int_not_equal(
				hd_switch_queue_put(queue, HD_SWITCH_CLASS_DATA, in++, 100),
				HD_SWITCH_PUT_FULL
			);
		(void)leave(queue, 0, (uint32_t)hd_random_below(&random, 7), &out);
	}
	(void)leave(queue, 0, 7, &out);
	assert_ptr_equal(in, out);
	assert_int_equal(hd_switch_queue_counts(queue, HD_SWITCH_CLASS_DATA)->packets, in - frames);
	assert_int_equal(hd_switch_queue_waiting(queue, HD_SWITCH_CLASS_DATA), 0);
	hd_switch_queue_destroy(queue);
}

static void test_limits(void **state) {
	struct hd_switch_queue *queue = make((struct hd_switch_queue_config
	){.limit_bytes = 5000, .limit_frames = 8, .ecn_bytes = 2000});
	static const int data = HD_SWITCH_CLASS_DATA, control = HD_SWITCH_CLASS_CONTROL;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(
			hd_switch_queue_put(queue, data, frames + i, 1000),
			i < 3 ? HD_SWITCH_PUT_TAKEN : HD_SWITCH_PUT_MARK
		);
	assert_int_equal(hd_switch_queue_put(queue, data, frames, 1), HD_SWITCH_PUT_FULL);
	assert_int_equal(hd_switch_queue_counts(queue, data)->drops, 1);
	assert_int_equal(hd_switch_queue_counts(queue, data)->marked, 2);
	/* The other class has room of its own. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(
			hd_switch_queue_put(queue, control, frames, 60), HD_SWITCH_PUT_TAKEN
		);
	assert_int_equal(hd_switch_queue_put(queue, control, frames, 60), HD_SWITCH_PUT_FULL);
	for (int i = 0; i < 13; i++)
		assert_non_null(hd_switch_queue_drain(queue));
	assert_null(hd_switch_queue_drain(queue));
	assert_int_equal(hd_switch_queue_waiting(queue, data), 0);
	hd_switch_queue_destroy(queue);
}

/* Control that comes later goes first, and takes its part of the link. */
static void test_priority(void **state) {
	struct hd_switch_queue *queue = make((struct hd_switch_queue_config){.rate_bps = 8000000});
	void *ready[8];

	(void)state;
	for (int i = 0; i < 4; i++)
		(void)hd_switch_queue_put(queue, HD_SWITCH_CLASS_DATA, frames + i, 1000);
	(void)hd_switch_queue_put(queue, HD_SWITCH_CLASS_CONTROL, frames + 9, 500);
	assert_int_equal(hd_switch_queue_ready(queue, HD_SECOND, ready, 8), 1);
	assert_ptr_equal(ready[0], frames + 9);
	hd_switch_queue_sent(queue, 1);
	assert_int_equal(hd_switch_queue_deadline(queue), HD_SECOND + HD_MS / 2);
	assert_int_equal(hd_switch_queue_ready(queue, HD_SECOND + HD_MS / 2, ready, 8), 1);
	assert_ptr_equal(ready[0], frames);
	while (hd_switch_queue_drain(queue)) {}
	hd_switch_queue_destroy(queue);
}

static void test_refused(void **state) {
	static const struct hd_switch_queue_config bad[] = {
		{.limit_bytes = 0, .limit_frames = 8},
		{.limit_bytes = 1, .limit_frames = 0},
		{.limit_bytes = 1, .limit_frames = 9},
		{.limit_bytes = 1, .limit_frames = 2 * HD_SWITCH_QUEUE_FRAMES_MAX},
		{.limit_bytes = HD_SWITCH_QUEUE_BYTES_MAX + 1, .limit_frames = 8},
		{.limit_bytes = 1, .limit_frames = 8, .rate_bps = HD_SWITCH_RATE_BPS_MAX + 1},
	};
	struct hd_switch_queue *queue = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(hd_switch_queue_create(&bad[i], &queue), -EINVAL);
	assert_null(queue);
}

/* --- which class a frame has, and its mark --- */

static size_t make_frame(uint8_t *frame, uint16_t from, uint16_t to, uint8_t type) {
	const struct hd_frame_self self
		= {.mac = {{2, 0, 0, 0, 0, 1}}, .ipv4 = 0x0a000001, .port = from};
	const struct hd_frame_to peer
		= {.mac = {{2, 0, 0, 0, 0, 2}}, .ipv4 = 0x0a000002, .port = to};

	memset(frame, 0, 200);
	hd_put16(frame + HD_FRAME_UDP_BYTES, HD_MAGIC);
	frame[HD_FRAME_UDP_BYTES + 2] = (uint8_t)(HD_WIRE_VERSION << 4 | type);
	hd_frame_put_udp(&self, &peer, frame, 100, 0);
	return HD_FRAME_UDP_BYTES + 100;
}

static void test_class(void **state) {
	uint8_t frame[200];
	size_t bytes = make_frame(frame, 5000, HD_SWITCH_UDP_PORT, HD_PACKET_CONTROL);

	(void)state;
	for (size_t cut = 0; cut < HD_FRAME_UDP_BYTES + 8; cut++)
		assert_int_equal(hd_switch_class_of(frame, cut), HD_SWITCH_CLASS_DATA);
	assert_int_equal(hd_switch_class_of(frame, bytes), HD_SWITCH_CLASS_CONTROL);
	(void)make_frame(frame, HD_SWITCH_UDP_PORT, 5000, HD_PACKET_HELLO);
	assert_int_equal(hd_switch_class_of(frame, bytes), HD_SWITCH_CLASS_CONTROL);
	(void)make_frame(frame, 5001, 5000, HD_PACKET_HELLO);
	assert_int_equal(hd_switch_class_of(frame, bytes), HD_SWITCH_CLASS_DATA);
	(void)make_frame(frame, 5000, HD_SWITCH_UDP_PORT, HD_PACKET_CHUNK);
	assert_int_equal(hd_switch_class_of(frame, bytes), HD_SWITCH_CLASS_DATA);
	(void)make_frame(frame, 5000, HD_SWITCH_UDP_PORT, HD_PACKET_CONTROL);
	hd_put16(frame + 20, 100); /* a later fragment */
	assert_int_equal(hd_switch_class_of(frame, bytes), HD_SWITCH_CLASS_DATA);
	hd_put16(frame + 12, 0x0806);
	assert_int_equal(hd_switch_class_of(frame, 42), HD_SWITCH_CLASS_CONTROL);
}

static void test_mark(void **state) {
	uint8_t frame[200], before[200];
	size_t bytes = make_frame(frame, 1, 2, HD_PACKET_CHUNK);

	(void)state;
	memcpy(before, frame, sizeof frame);
	assert_false(hd_switch_mark_congestion(frame, bytes)); /* its sender does not know of it */
	assert_memory_equal(frame, before, sizeof frame);
	for (unsigned ecn = 1; ecn <= 3; ecn++)
		for (unsigned id = 0; id < 65536; id += 1 + id / 7) {
			uint16_t sum;

			frame[15] = (uint8_t)(0xb8 | ecn);
			hd_put16(frame + 18, (uint16_t)id);
			hd_put16(frame + 24, 0);
			sum = hd_frame_fold(hd_frame_sum(frame + 14, 20));
			memcpy(frame + 24, &sum, 2);
			assert_true(hd_switch_mark_congestion(frame, bytes));
			assert_int_equal(frame[15], 0xbb);
			assert_int_equal(hd_frame_fold(hd_frame_sum(frame + 14, 20)), 0);
		}
	assert_false(hd_switch_mark_congestion(frame, 33));
	memset(frame, 0, sizeof frame);
	hd_put16(frame + 12, 0x86dd);
	frame[14] = 0x60;
	assert_false(hd_switch_mark_congestion(frame, 54));
	frame[15] = 0x20;
	assert_true(hd_switch_mark_congestion(frame, 54));
	assert_int_equal(frame[15], 0x30);
	assert_false(hd_switch_mark_congestion(frame, 53));
}

/* --- how a port is written --- */

static void test_written(void **state) {
	struct hd_switch_link link;
	char error[200];

	(void)state;
	assert_int_equal(
		hd_switch_link_read(
			"net_af_packet0,rate=200,iface=v1,queue=128,ecn=64,qpairs=1",
			&link,
			error,
			200
		),
		0
	);
	assert_string_equal(link.devargs, "net_af_packet0,iface=v1,qpairs=1");
	assert_int_equal(link.queue.rate_bps, 200000000);
	assert_int_equal(link.queue.limit_bytes, 131072);
	assert_int_equal(link.queue.ecn_bytes, 65536);
	assert_int_equal(link.queue.burst_bytes, 16384);
	assert_int_equal(link.queue.limit_frames, 256);
	assert_int_equal(hd_switch_link_read("net_null0", &link, error, 200), 0);
	assert_string_equal(link.devargs, "net_null0");
	assert_int_equal(link.queue.rate_bps, 0);
	assert_int_equal(link.queue.ecn_bytes, 0);
	assert_int_equal(hd_switch_link_read("a,rate=1000,burst=20", &link, error, 200), 0);
	assert_int_equal(link.queue.burst_bytes, 20480);
	assert_int_equal(hd_switch_link_read("a,rate=1000", &link, error, 200), 0);
	assert_int_equal(link.queue.burst_bytes, 62500);
	assert_int_equal(hd_switch_link_read("a,rate=0.000000001", &link, error, 200), 0);
	assert_int_equal(link.queue.rate_bps, 1);
}

static void test_written_wrong(void **state) {
	static const char *const wrong[] = {
		"",
		"rate=3",
		"a,rate=",
		"a,rate=x",
		"a,rate=-1",
		"a,rate=0",
		"a,rate=1e3",
		"a,rate=1.2.3",
		"a,rate=1000001",
		"a,queue=0",
		"a,queue=1048577",
		"a,ecn=nan",
		"a,burst=99999999999999999999999999",
	};
	struct hd_switch_link link = {.devargs = "as it was"};
	char error[200], longest[1000];

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		error[0] = '\0';
		assert_int_equal(
			hd_switch_link_read(wrong[i], &link, error, sizeof error), -EINVAL
		);
		assert_memory_equal(error, "port: ", 6);
	}
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	assert_int_equal(hd_switch_link_read(longest, &link, error, sizeof error), -EINVAL);
	assert_string_equal(link.devargs, "as it was");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_burst),
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_class),
		cmocka_unit_test(test_mark),
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_written_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
