/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers beyond 4 GiB, with no memory of that size: what is sent is only pointed at, and what is received
 * lands in one window that is mapped again and again behind itself:
 *
 *      | window | window | window | ...      4 GiB is no multiple of it: an offset that lost its upper bits
 *                                            lands elsewhere in the window
 */
#include "hd_recv.h"
#include "hd_send.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES ((UINT64_C(1) << 32) + 300000000 + 12)
#define CHUNK ((size_t)HD_CHUNK_BYTES_MAX)
#define WINDOW ((size_t)4096 * 12289)

/* --- sending ------------------------------------------------------------------------------- */

struct far {
	struct hd_sink sink; /* first */
	const uint8_t *data;
	uint64_t bytes; /* told so far, each once */
	uint32_t packets, resent;
};

/* Each packet points to where its chunk is, in 64 bits. Nothing reads what it points to. */
static void
hear(struct hd_sink *sink,
     struct hd_addr peer,
     const void *head,
     size_t head_bytes,
     const void *payload,
     size_t payload_bytes) {
	struct far *far = (struct far *)sink;
	static uint8_t packet[HD_PACKET_BYTES_MAX];
	struct hd_chunk_header header;
	const uint8_t *view;
	size_t bytes;

	memcpy(packet, head, head_bytes);
	assert_int_equal(
		hd_chunk_decode(packet, head_bytes + payload_bytes, &header, &view, &bytes), 0
	);
	assert_true((const uint8_t *)payload == far->data + (uint64_t)header.chunk * CHUNK);
	assert_true(header.packet == far->packets);
	if (header.flags & HD_CHUNK_RESEND)
		far->resent++;
	else
		far->bytes += payload_bytes;
	if (header.flags & HD_CHUNK_LAST)
		assert_true((uint64_t)header.chunk * CHUNK + payload_bytes == BYTES);
	far->packets++;
}

static void test_sender_points_beyond(void **state) {
	struct hd_path path;
	struct far far = {.sink.send = hear};
	void *data
		= mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct hd_send_config config = {
		.peer = {0x7f000001, HD_PORT},
		.header = {.job = 1, .worker = 2, .round = 3, .attempt = 1, .token = 42},
		.data = data,
		.bytes = BYTES,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = &path,
	};
	uint32_t chunks = (uint32_t)((BYTES - 1) / CHUNK + 1);
	struct hd_send *send;
	hd_ns now = HD_SECOND;

	assert_true(data != MAP_FAILED);
	far.data = data;
	hd_path_init(&path, CHUNK + HD_CHUNK_OVERHEAD_BYTES);
	assert_int_equal(hd_send_create(&config, now, &send), 0);
	while (hd_send_stats(send)->state != HD_SEND_DONE) {
		struct hd_msg_sack sack = {.token = 42, .window_bytes = 1 << 30};
		uint64_t reached;

		now += HD_MS;
		(void)hd_send_poll(send, now, 4096, &far.sink);
		reached = hd_send_reached(send);
		assert_true(reached == far.bytes);
		if (far.packets == 0)
			continue;
		sack.held = (uint32_t)((reached + CHUNK - 1) / CHUNK);
		sack.done = sack.held == chunks;
		sack.packets.count = 1;
		sack.packets.item[0] = (struct hd_range){0, far.packets - 1};
		hd_send_sack(send, now + 100 * HD_US, &sack);
		assert_true(now < 4000 * HD_SECOND);
	}
	assert_true(far.bytes == BYTES);
	assert_true(hd_send_stats(send)->bytes_total == BYTES);
	assert_true(hd_send_stats(send)->bytes_acked == BYTES);
	assert_int_equal(far.packets, chunks);
	hd_send_destroy(send);
	assert_int_equal(munmap(data, BYTES), 0);
}

/* --- receiving ----------------------------------------------------------------------------- */

static uint8_t *map_windows(int *file) {
	uint8_t *data
		= mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(data != MAP_FAILED);
	*file = memfd_create("window", MFD_CLOEXEC);
	assert_true(*file >= 0 && ftruncate(*file, WINDOW) == 0);
	for (uint64_t at = 0; at < BYTES; at += WINDOW) {
		size_t left = BYTES - at < WINDOW ? (size_t)(BYTES - at) : WINDOW;

		assert_true(
			mmap(data + at,
			     left,
			     PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED,
			     *file,
			     0)
			!= MAP_FAILED
		);
	}
	return data;
}

/* Every chunk, from the last to the first; each says where it belongs, and lies there. */
static void test_receiver_writes_beyond(void **state) {
	static uint8_t payload[CHUNK];
	uint32_t chunks = (uint32_t)((BYTES - 1) / CHUNK + 1);
	struct hd_chunk_header header
		= {.job = 1, .worker = 2, .round = 3, .attempt = 1, .token = 42};
	struct hd_recv_config config
		= {.token = 42, .job = 1, .worker = 2, .round = 3, .attempt = 1, .bytes = BYTES};
	struct hd_msg_sack sack;
	struct hd_recv *recv;
	int file;

	config.data = map_windows(&file);
	assert_int_equal(hd_recv_create(&config, &recv), 0);
	assert_true(hd_recv_missing(recv) == BYTES);
	for (uint32_t i = 0; i < chunks; i++) {
		uint32_t chunk = chunks - 1 - i;
		uint64_t at = (uint64_t)chunk * CHUNK;
		size_t bytes = BYTES - at < CHUNK ? (size_t)(BYTES - at) : CHUNK;
		uint64_t there;

		memcpy(payload, &at, sizeof at);
		header.chunk = chunk;
		header.packet = i;
		header.count = (uint16_t)(bytes / 4);
		header.flags = i == 0 ? HD_CHUNK_LAST : 0;
		assert_int_equal(
			hd_recv_chunk(recv, HD_SECOND + i * HD_US, &header, payload, bytes),
			chunk == 0 ? HD_RECV_DONE : HD_RECV_NEW
		);
		memcpy(&there, (uint8_t *)config.data + at, sizeof there);
		assert_true(there == at);
		assert_true(hd_recv_chunk_data(recv, chunk) == (uint8_t *)config.data + at);
		assert_true(hd_recv_missing(recv) == at);
	}
	assert_true(hd_recv_stats(recv)->bytes_held == BYTES);
	hd_recv_sack(recv, 2 * HD_SECOND, 1 << 20, &sack);
	assert_true(sack.done);
	assert_int_equal(sack.held, chunks);
	/* 4.6 GB in 0.52 s. */
	assert_true(hd_recv_rate_bps(recv) > 60e9 && hd_recv_rate_bps(recv) < 80e9);
	hd_recv_destroy(recv);
	assert_int_equal(munmap(config.data, BYTES), 0);
	close(file);
}

/* --- limits -------------------------------------------------------------------------------- */

/* The biggest model goes in packets of any size that the wire has; what chunk numbers cannot name does not. */
static void test_limits(void **state) {
	static uint8_t nothing[4];
	struct hd_path path;
	struct hd_send_config send_config = {
		.data = nothing,
		.bytes = HD_MODEL_BYTES_MAX,
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1,
		.path = &path,
	};
	struct hd_recv_config recv_config = {
		.bytes = HD_MODEL_BYTES_MAX,
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.data = nothing,
	};
	struct hd_send *send;
	struct hd_recv *recv;

	hd_path_init(&path, CHUNK + HD_CHUNK_OVERHEAD_BYTES);
	assert_int_equal(hd_send_create(&send_config, 0, &send), 0);
	assert_int_equal(hd_recv_create(&recv_config, &recv), 0);
	assert_true(hd_send_stats(send)->bytes_total == HD_MODEL_BYTES_MAX);
	assert_true(hd_recv_missing(recv) == HD_MODEL_BYTES_MAX);
	hd_send_destroy(send);
	hd_recv_destroy(recv);
	send_config.chunk_bytes = recv_config.chunk_bytes = 512; /* 2^31 chunks */
	assert_int_equal(hd_send_create(&send_config, 0, &send), -EFBIG);
	assert_int_equal(hd_recv_create(&recv_config, &recv), -EFBIG);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sender_points_beyond),
		cmocka_unit_test(test_receiver_writes_beyond),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests_name("transfer-long", tests, NULL, NULL);
}
