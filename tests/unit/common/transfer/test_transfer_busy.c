/* SPDX-License-Identifier: BSD-3-Clause */
/* A transfer where the processors are the limit: late wake-ups, and copies past the caches. */
#include "hd_limits.h"
#include "hd_memcpy.h"
#include "hd_send.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK ((size_t)1408)
#define PACKET (CHUNK + HD_CHUNK_OVERHEAD_BYTES)
#define T0 (100 * HD_SECOND)
#define AREA 1100
#define GUARD 0x5a

struct catcher {
	struct hd_sink sink;
	size_t count;
	uint64_t bytes;
};

static uint8_t data[400 * CHUNK + 40];

static void catch_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct catcher *catcher = (struct catcher *)sink;

	catcher->count++;
	catcher->bytes += payload_bytes;
}

static struct hd_send_config sending(struct hd_path *path, hd_ns start, uint64_t rate_bps) {
	return (struct hd_send_config){
		.peer = {0x7f000001, HD_PORT},
		.header = {.job = 1, .worker = 2, .round = 3, .attempt = 1, .token = 42},
		.data = data,
		.bytes = sizeof data,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = path,
		.segments = {1, {{start, rate_bps, sizeof data}}},
	};
}

static struct hd_msg_sack sack_of(uint32_t held, uint32_t first, uint32_t last) {
	return (struct hd_msg_sack){
		.token = 42,
		.held = held,
		.window_bytes = 1 << 20,
		.packets = {1, {{first, last}}},
	};
}

/* A node whose processors are busy wakes up every 4 ms only. One transfer over the path; returns how long it
 * took, acknowledgements come with the next wake-up. */
static hd_ns send_with_late_wakeups(struct hd_path *path, hd_ns *now, uint64_t rate_bps) {
	struct hd_send_config config = sending(path, *now, rate_bps);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns began = *now;

	catcher = (struct catcher){.sink.send = catch_send};
	assert_int_equal(hd_send_create(&config, *now, &send), 0);
	while (hd_send_stats(send)->state != HD_SEND_DONE) {
		if (catcher.count > 0) {
			struct hd_msg_sack sack
				= sack_of((uint32_t)catcher.count, 0, (uint32_t)catcher.count - 1);

			sack.done = catcher.bytes == sizeof data;
			hd_send_sack(send, *now, &sack);
		}
		while (hd_send_deadline(send) <= *now)
			assert_true(hd_send_poll(send, *now, 64, &catcher.sink) > 0);
		*now += 4 * HD_MS;
		assert_true(*now - began < HD_SECOND);
	}
	hd_send_destroy(send);
	return *now - began;
}

/* A rate below the grant for lack of processors must not be taken for the network's limit. */
static void test_late_wakeups(void **state) {
	const uint64_t rate = 200000000;
	const hd_ns planned = sizeof data * 8 * HD_SECOND / rate;
	struct hd_path path;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	send_with_late_wakeups(&path, &now, rate);
	now += HD_MS;
	assert_true(send_with_late_wakeups(&path, &now, rate) < planned + 9 * HD_MS);
}

static void test_copy_stream(void **state) {
	static uint8_t from[AREA], to[AREA];

	(void)state;
	for (size_t i = 0; i < AREA; i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t bytes = 0; bytes < 300; bytes += bytes < 140 ? 1 : 31) {
		for (size_t offset = 0; offset < 70; offset++) {
			memset(to, GUARD, sizeof to);
			hd_memcpy_stream(to + offset + 1, from + offset / 3, bytes);
			hd_memcpy_stream_end();
			assert_int_equal(to[offset], GUARD);
			assert_memory_equal(to + offset + 1, from + offset / 3, bytes);
			assert_int_equal(to[offset + 1 + bytes], GUARD);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_wakeups),
		cmocka_unit_test(test_copy_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
