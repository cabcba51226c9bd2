/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side of a transfer: what it sends when, and what it makes of the answers. */
#include "hd_limits.h"
#include "hd_send.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define CHUNK ((size_t)1408)
#define PACKET (CHUNK + HD_CHUNK_OVERHEAD_BYTES)
#define T0 (100 * HD_SECOND)
#define CAUGHT_MAX 4096

/* A sink that remembers what was sent last. */
struct catcher {
	struct hd_sink sink;
	size_t count; /* all */
	uint64_t bytes;
	struct hd_chunk_header header[CAUGHT_MAX]; /* of packet number i mod CAUGHT_MAX */
	const uint8_t *payload[CAUGHT_MAX];
};

static void catch_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct catcher *catcher = (struct catcher *)sink;
	size_t at = catcher->count++ % CAUGHT_MAX;
	uint8_t packet[HD_PACKET_BYTES_MAX] = {0};
	const uint8_t *view;
	size_t bytes;

	assert_int_equal(peer.port, HD_PORT);
	assert_int_equal(head_bytes, HD_CHUNK_HEADER_BYTES);
	memcpy(packet, head, head_bytes);
	assert_int_equal(
		hd_chunk_decode(
			packet, head_bytes + payload_bytes, &catcher->header[at], &view, &bytes
		),
		0
	);
	assert_int_equal(bytes, payload_bytes);
	catcher->payload[at] = payload;
	catcher->bytes += payload_bytes;
}

static void catcher_init(struct catcher *catcher) {
	memset(catcher, 0, sizeof *catcher);
	catcher->sink.send = catch_send;
}

static uint8_t data[400 * CHUNK + 40];

static struct hd_send_config sending(struct hd_path *path, uint64_t bytes) {
	return (struct hd_send_config){
		.peer = {0x7f000001, HD_PORT},
		.header = {.job = 1, .worker = 2, .round = 3, .attempt = 1, .token = 42},
		.data = data,
		.bytes = bytes,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = path,
	};
}

static struct hd_send *make_send(const struct hd_send_config *config) {
	struct hd_send *send;

	assert_int_equal(hd_send_create(config, T0, &send), 0);
	return send;
}

/* Polls as an owner would until `until`. Returns the packets sent. */
static size_t run_send(struct hd_send *send, hd_ns *now, hd_ns until, struct catcher *catcher) {
	size_t sent = 0;

	for (;;) {
		hd_ns at = hd_send_deadline(send);
		size_t n;

		if (at > until)
			break;
		*now = hd_ns_max(*now, at);
		n = hd_send_poll(send, *now, 64, &catcher->sink);
		/* A due deadline must lead somewhere. */
		assert_true(n > 0 || hd_send_deadline(send) > *now);
		sent += n;
	}
	*now = hd_ns_max(*now, until);
	return sent;
}

static struct hd_msg_sack sack_of(uint32_t held, uint32_t first, uint32_t last) {
	return (struct hd_msg_sack){
		.token = 42,
		.held = held,
		.window_bytes = 1 << 20,
		.packets = {1, {{first, last}}},
	};
}

/* --- sender ----------------------------------------------------------------------------- */

static void test_send_refuses(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, 400), good = config;
	struct hd_send *send = (void *)&path;

	(void)state;
	hd_path_init(&path, PACKET);
#define REFUSED(change, code)                                                                      \
	do {                                                                                       \
		config = good;                                                                     \
		change;                                                                            \
		assert_int_equal(hd_send_create(&config, T0, &send), code);                        \
	} while (0)
	REFUSED(config.bytes = 0, -EINVAL);
	REFUSED(config.bytes = 401, -EINVAL);
	REFUSED(config.data = NULL, -EINVAL);
	REFUSED(config.path = NULL, -EINVAL);
	REFUSED(config.chunk_bytes = 0, -EINVAL);
	REFUSED(config.chunk_bytes = 1407, -EINVAL);
	REFUSED(config.chunk_bytes = HD_CHUNK_BYTES_MAX + 4, -EINVAL);
	REFUSED(config.stride_bytes = CHUNK - 4, -EINVAL);
	REFUSED(config.header.dtype = HD_DTYPE_COUNT, -EINVAL);
	REFUSED(config.segments.count = HD_SEGMENTS_MAX + 1, -EINVAL);
	REFUSED((config.bytes = UINT64_C(1) << 40, config.chunk_bytes = 4), -EFBIG);
#undef REFUSED
	assert_ptr_equal(send, &path);
	assert_int_equal(path.transfers, 0);
}

static void test_send_initial_window(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0;
	uint32_t asked = 0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	send = make_send(&config);
	assert_int_equal(run_send(send, &now, T0 + 15 * HD_MS, &catcher), 10);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(catcher.header[i].chunk, i);
		assert_int_equal(catcher.header[i].packet, i);
		assert_int_equal(catcher.header[i].token, 42);
		assert_int_equal(catcher.header[i].count, CHUNK / 4);
		assert_ptr_equal(catcher.payload[i], data + (size_t)i * CHUNK);
		asked += (catcher.header[i].flags & HD_CHUNK_ASK) != 0;
	}
	/* It asks a few times a window, and where it has to stop. */
	assert_true(asked >= 3 && asked <= 8);
	assert_true(catcher.header[9].flags & HD_CHUNK_ASK);
	assert_int_equal(path.inflight_bytes, 10 * PACKET);
	hd_send_destroy(send);
	assert_int_equal(path.inflight_bytes, 0);
	assert_int_equal(path.transfers, 0);
}

static void test_send_probes_back_off(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0;
	size_t first, second;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	send = make_send(&config);
	first = run_send(send, &now, T0 + 10 * HD_SECOND, &catcher);
	second = run_send(send, &now, T0 + 20 * HD_SECOND, &catcher);
	/* Doubling from 20 ms to 1 s: about 15 timeouts, then one a second, few packets each. */
	assert_in_range(hd_send_stats(send)->timeouts, 20, 30);
	assert_true(first < 100 && second <= 80);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_ACTIVE);
	hd_send_destroy(send);
}

static void test_send_repairs(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, 10 * CHUNK);
	struct catcher catcher;
	struct hd_msg_sack sack = sack_of(2, 0, 1);
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	path.srtt = 1200 * HD_US;
	catcher_init(&catcher);
	send = make_send(&config);
	assert_int_equal(run_send(send, &now, T0 + HD_MS, &catcher), 10);
	assert_true(catcher.header[9].flags & HD_CHUNK_LAST);
	sack.packets = (struct hd_ranges){2, {{3, 4}, {0, 1}}};
	hd_send_sack(send, now, &sack); /* 2 is missing, but only 2 later ones came: not lost yet */
	assert_int_equal(hd_send_stats(send)->packets_lost, 0);
	assert_true(hd_send_deadline(send) != HD_NEVER);
	sack.packets = (struct hd_ranges){2, {{3, 5}, {0, 1}}};
	hd_send_sack(send, now, &sack);
	assert_int_equal(hd_send_stats(send)->packets_lost, 1);
	assert_int_equal(run_send(send, &now, now + HD_MS / 2, &catcher), 1);
	assert_int_equal(catcher.header[10].chunk, 2);
	assert_int_equal(catcher.header[10].packet, 10);
	assert_true(catcher.header[10].flags & HD_CHUNK_RESEND);
	/* It was late, not lost: the next time the sender waits for more. */
	sack.packets = (struct hd_ranges){1, {{0, 5}}};
	hd_send_sack(send, now, &sack);
	assert_int_equal(hd_send_stats(send)->packets_lost, 0);
	assert_int_equal(hd_send_stats(send)->bytes_acked, 6 * CHUNK);
	sack.held = 10;
	sack.done = 1;
	hd_send_sack(send, now, &sack);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	assert_int_equal(hd_send_stats(send)->bytes_acked, 10 * CHUNK);
	assert_int_equal(hd_send_deadline(send), HD_NEVER);
	assert_int_equal(path.inflight_bytes, 0);
	hd_send_destroy(send);
}

static void test_send_loss_by_time(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, 3 * CHUNK);
	struct catcher catcher;
	struct hd_msg_sack sack = sack_of(0, 1, 2);
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	path.srtt = 1200 * HD_US;
	catcher_init(&catcher);
	send = make_send(&config);
	assert_int_equal(run_send(send, &now, T0 + HD_MS, &catcher), 3);
	hd_send_sack(send, now, &sack);
	assert_int_equal(hd_send_stats(send)->packets_lost, 0);
	/* well before the probe timeout of 2 ms and more */
	assert_int_equal(run_send(send, &now, now + HD_MS, &catcher), 1);
	assert_int_equal(hd_send_stats(send)->packets_lost, 1);
	assert_int_equal(hd_send_stats(send)->timeouts, 0);
	assert_int_equal(catcher.header[3].chunk, 0);
	hd_send_destroy(send);
}

static void test_send_bogus(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_msg_sack sack;
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	send = make_send(&config);
	sack = sack_of(0, 0, 0);
	hd_send_sack(send, now, &sack); /* before anything was sent: not even looked at */
	run_send(send, &now, T0 + HD_MS, &catcher);
	sack = sack_of(0, 5, 10);
	hd_send_sack(send, now, &sack); /* packet 10 was not sent */
	sack = sack_of(11, 0, 1);
	hd_send_sack(send, now, &sack); /* chunk 10 was not sent */
	sack = sack_of(0, 3, 2);
	hd_send_sack(send, now, &sack); /* first > last */
	sack = sack_of(0, 0, 0);
	sack.packets = (struct hd_ranges){2, {{0, 3}, {2, 5}}};
	hd_send_sack(send, now, &sack); /* not descending */
	sack = sack_of(0, 0, 0);
	sack.packets.count = HD_SACK_RANGES_MAX + 1;
	hd_send_sack(send, now, &sack);
	sack = sack_of(10, 0, 9);
	sack.done = 1;
	hd_send_sack(send, now, &sack); /* done, but most was never sent */
	assert_int_equal(hd_send_stats(send)->bogus_acks, 6);
	assert_int_equal(hd_send_stats(send)->bytes_acked, 0);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_ACTIVE);
	assert_int_equal(path.inflight_bytes, 10 * PACKET);
	hd_send_destroy(send);
}

static void test_send_cancel(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_msg_sack sack;
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	send = make_send(&config);
	run_send(send, &now, T0 + HD_MS, &catcher);
	hd_send_cancel(send, HD_REASON_VOID);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_FAILED);
	assert_int_equal(hd_send_stats(send)->reason, HD_REASON_VOID);
	assert_int_equal(hd_send_deadline(send), HD_NEVER);
	assert_int_equal(hd_send_poll(send, now + HD_SECOND, 64, &catcher.sink), 0);
	sack = sack_of(10, 0, 9);
	hd_send_sack(send, now, &sack);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_FAILED);
	hd_send_cancel(send, HD_REASON_LEFT);
	assert_int_equal(hd_send_stats(send)->reason, HD_REASON_VOID);
	assert_int_equal(path.inflight_bytes, 0);
	assert_int_equal(path.transfers, 0);
	hd_send_destroy(send);
	/* while it waits */
	config.wait_go = true;
	config.go_slack = HD_NEVER;
	send = make_send(&config);
	assert_int_equal(hd_send_deadline(send), HD_NEVER);
	hd_send_cancel(send, HD_REASON_CANCELLED);
	hd_send_go(send, now);
	assert_int_equal(hd_send_poll(send, now, 64, &catcher.sink), 0);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_FAILED);
	hd_send_destroy(send);
}

static void test_send_waits_for_go(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	config.wait_go = true;
	config.go_slack = 3 * HD_MS;
	config.segments = (struct hd_segs){1, {{T0 + 10 * HD_MS, 100000000, sizeof data}}};
	/* go comes */
	send = make_send(&config);
	assert_int_equal(run_send(send, &now, T0 + 5 * HD_MS, &catcher), 0);
	hd_send_go(send, now);
	assert_true(run_send(send, &now, T0 + 6 * HD_MS, &catcher) > 0);
	assert_int_equal(hd_send_stats(send)->started, T0 + 5 * HD_MS);
	hd_send_destroy(send);
	/* go is lost */
	now = T0;
	hd_path_init(&path, PACKET);
	send = make_send(&config);
	assert_int_equal(hd_send_deadline(send), T0 + 13 * HD_MS);
	assert_int_equal(run_send(send, &now, T0 + 13 * HD_MS - 1, &catcher), 0);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_WAITING);
	assert_true(run_send(send, &now, T0 + 14 * HD_MS, &catcher) > 0);
	hd_send_destroy(send);
	/* no GO to wait for: it starts at the planned time */
	now = T0;
	hd_path_init(&path, PACKET);
	config.wait_go = false;
	send = make_send(&config);
	assert_int_equal(run_send(send, &now, T0 + 10 * HD_MS - 1, &catcher), 0);
	assert_true(run_send(send, &now, T0 + 11 * HD_MS, &catcher) > 0);
	hd_send_destroy(send);
}

/* Runs a transfer over a perfect path of 200 us; returns the payload bytes sent until `until`. */
static uint64_t perfect(struct hd_send *send, hd_ns *now, hd_ns until, struct catcher *catcher) {
	uint64_t before = catcher->bytes;

	while (*now < until && hd_send_stats(send)->state < HD_SEND_DONE) {
		uint32_t from = (uint32_t)catcher->count;
		struct hd_msg_sack sack;

		while (hd_send_deadline(send) <= *now)
			hd_send_poll(send, *now, 64, &catcher->sink);
		*now += 200 * HD_US;
		if (catcher->count == from)
			continue;
		sack = sack_of((uint32_t)catcher->count, 0, (uint32_t)catcher->count - 1);
		sack.window_bytes = 1 << 24;
		hd_send_sack(send, *now, &sack);
	}
	return catcher->bytes - before;
}

static void test_send_segments(void **state) {
	/* 100 Mbit/s for 10 ms, then 400 at once, then after a hole of 5 ms 200. */
	const uint64_t first = 125000, second = 200000;
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0;
	double sent;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	config.segments = (struct hd_segs
	){3,
	  {{T0, 100000000, first},
	   {T0 + 10 * HD_MS, 400000000, second},
	   {T0 + 19 * HD_MS, 200000000, sizeof data - first - second}}};
	send = make_send(&config);
	/* It probes up to 1.25 of the grant, and is not slower. */
	sent = (double)perfect(send, &now, T0 + 8 * HD_MS, &catcher);
	assert_true(sent >= 100e6 / 8e3 * 8 && sent <= 100e6 / 8e3 * 8 * 1.25 + 10 * PACKET);
	perfect(send, &now, T0 + 10 * HD_MS, &catcher);
	sent = (double)perfect(send, &now, T0 + 12 * HD_MS, &catcher);
	/* what came late may be made up for: 1 ms */
	assert_true(sent >= 400e6 / 8e3 * 2 * 0.9 && sent <= 400e6 / 8e3 * 3 * 1.25);
	/* The hole belongs to others. */
	perfect(send, &now, T0 + 18 * HD_MS, &catcher);
	assert_in_range(catcher.bytes, first + second, first + second + 2 * CHUNK);
	assert_int_equal(hd_send_deadline(send), T0 + 19 * HD_MS);
	perfect(send, &now, T0 + 40 * HD_MS, &catcher);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	assert_true(hd_send_stats(send)->limited > 15 * HD_MS);
	hd_send_destroy(send);
}

/* Planned to fill a gap at 10 Mbit/s before 400, but started after the gap: at 400 from the first byte. */
static void test_send_catches_up(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0 + 30 * HD_MS;
	double sent;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	config.wait_go = true;
	config.go_slack = HD_NEVER;
	config.segments = (struct hd_segs
	){2, {{T0, 10000000, 25000}, {T0 + 20 * HD_MS, 400000000, sizeof data - 25000}}};
	send = make_send(&config);
	hd_send_go(send, now);
	sent = (double)perfect(send, &now, now + 5 * HD_MS, &catcher);
	assert_true(sent >= 400e6 / 8e3 * 5 * 0.9);
	perfect(send, &now, now + 20 * HD_MS, &catcher);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	hd_send_destroy(send);
	/* On time it keeps to the gap. */
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	now = T0;
	config.wait_go = false;
	send = make_send(&config);
	sent = (double)perfect(send, &now, T0 + 15 * HD_MS, &catcher);
	assert_true(sent <= 10e6 / 8e3 * 15 * 1.25 + 10 * PACKET);
	hd_send_destroy(send);
}

static void test_send_obeys_peer_window(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher;
	struct hd_msg_sack sack;
	struct hd_send *send;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	send = make_send(&config);
	run_send(send, &now, T0 + HD_MS, &catcher);
	sack = sack_of(10, 0, 9);
	sack.window_bytes = 3 * PACKET;
	hd_send_sack(send, now, &sack);
	run_send(send, &now, now + HD_MS, &catcher);
	assert_int_equal(path.inflight_bytes, 3 * PACKET);
	/* A closed window still lets one packet through: it could be opened by no one else. */
	sack = sack_of(13, 0, 12);
	sack.window_bytes = 1;
	hd_send_sack(send, now, &sack);
	run_send(send, &now, now + HD_MS, &catcher);
	assert_int_equal(path.inflight_bytes, PACKET);
	hd_send_destroy(send);
}

/* One transfer that no peer answers must not hold the window that it shares with another. */
static void test_send_shares_path(void **state) {
	struct hd_path path;
	struct hd_send_config config = sending(&path, sizeof data);
	struct catcher catcher, other;
	struct hd_send *dead, *live;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	catcher_init(&catcher);
	catcher_init(&other);
	dead = make_send(&config);
	run_send(dead, &now, T0 + HD_MS, &catcher);
	live = make_send(&config);
	while (hd_send_stats(live)->state < HD_SEND_DONE && now < T0 + 5 * HD_SECOND) {
		hd_send_poll(dead, now, 64, &catcher.sink);
		perfect(live, &now, now + HD_MS, &other);
	}
	assert_int_equal(hd_send_stats(live)->state, HD_SEND_DONE);
	assert_true(now < T0 + HD_SECOND);
	hd_send_destroy(live);
	hd_send_destroy(dead);
	assert_int_equal(path.inflight_bytes, 0);
}

static void *reserve(size_t bytes) {
	void *at
		= mmap(NULL,
		       bytes,
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1,
		       0);

	if (at == MAP_FAILED) {
		print_message(
			"SKIP: cannot reserve %zu bytes of addresses: %s\n", bytes, strerror(errno)
		);
		skip();
	}
	return at;
}

static void test_send_long(void **state) {
	const uint64_t bytes = (UINT64_C(4) << 30) + UINT64_C(8896) * 5 + 100;
	struct hd_path path;
	struct hd_send_config config = sending(&path, bytes);
	struct catcher catcher;
	struct hd_send *send;
	hd_ns now = T0;
	uint8_t *from = reserve(bytes);

	(void)state;
	hd_path_init(&path, 8896 + HD_CHUNK_OVERHEAD_BYTES);
	catcher_init(&catcher);
	config.data = from;
	config.chunk_bytes = 8896;
	send = make_send(&config);
	assert_int_equal(perfect(send, &now, HD_NEVER, &catcher), bytes);
	assert_int_equal(hd_send_stats(send)->state, HD_SEND_DONE);
	assert_ptr_equal(
		catcher.payload[(catcher.count - 1) % CAUGHT_MAX],
		from + (catcher.count - 1) * (uint64_t)8896
	);
	assert_int_equal(catcher.count, (bytes + 8895) / 8896);
	hd_send_destroy(send);
	munmap(from, bytes);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send_refuses),
		cmocka_unit_test(test_send_initial_window),
		cmocka_unit_test(test_send_probes_back_off),
		cmocka_unit_test(test_send_repairs),
		cmocka_unit_test(test_send_loss_by_time),
		cmocka_unit_test(test_send_bogus),
		cmocka_unit_test(test_send_cancel),
		cmocka_unit_test(test_send_waits_for_go),
		cmocka_unit_test(test_send_segments),
		cmocka_unit_test(test_send_catches_up),
		cmocka_unit_test(test_send_obeys_peer_window),
		cmocka_unit_test(test_send_shares_path),
		cmocka_unit_test(test_send_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
