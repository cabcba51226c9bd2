/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side of a transfer: what it takes, refuses and acknowledges. */
#include "hd_limits.h"
#include "hd_random.h"
#include "hd_ranges.h"
#include "hd_recv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define CHUNK ((size_t)1408)
#define T0 (100 * HD_SECOND)

/* --- ranges ----------------------------------------------------------------------------- */

static void test_ranges_model(void **state) {
	struct hd_random random;

	(void)state;
	hd_random_init(&random, 5);
	for (int round = 0; round < 200; round++) {
		struct hd_ranges set = {0};
		bool model[64] = {false};

		/* 40 values make at most 20 ranges out of 40: below the limit nothing is forgotten. */
		for (int i = 0; i < 60; i++) {
			uint32_t value = (uint32_t)hd_random_below(&random, 40);
			bool gap, added = hd_ranges_add(&set, value, &gap);

			assert_int_equal(added, !model[value]);
			model[value] = true;
			assert_true(hd_ranges_valid(&set));
			for (uint32_t v = 0; v < 64; v++)
				assert_int_equal(hd_ranges_has(&set, v), model[v]);
			for (size_t r = 1; r < set.count; r++)
				assert_true(set.item[r - 1].first > set.item[r].last + 1);
		}
	}
}

static void test_ranges_limit(void **state) {
	struct hd_ranges set = {0};
	bool gap;

	(void)state;
	for (uint32_t value = 0; value < 200; value += 2) {
		assert_true(hd_ranges_add(&set, value, &gap));
		assert_int_equal(gap, value > 0);
	}
	assert_int_equal(set.count, HD_SACK_RANGES_MAX);
	assert_int_equal(set.item[0].first, 198);
	assert_false(hd_ranges_add(&set, 0, &gap));
	assert_true(hd_ranges_add(&set, UINT32_MAX, &gap));
	assert_true(hd_ranges_add(&set, UINT32_MAX - 1, &gap));
	assert_false(hd_ranges_add(&set, UINT32_MAX, &gap));
	assert_true(hd_ranges_valid(&set));
	set.item[1] = set.item[0];
	assert_false(hd_ranges_valid(&set));
}

struct seen {
	bool value[64];
};

static void note_seen(void *user, uint32_t first, uint32_t last) {
	struct seen *seen = user;

	assert_true(first <= last && last < 64);
	for (uint32_t v = first; v <= last; v++) {
		assert_false(seen->value[v]);
		seen->value[v] = true;
	}
}

static void test_ranges_difference(void **state) {
	struct hd_random random;

	(void)state;
	hd_random_init(&random, 6);
	for (int round = 0; round < 2000; round++) {
		struct hd_ranges set = {0}, known = {0};
		struct seen seen = {{false}};
		bool gap;

		for (uint64_t i = hd_random_below(&random, 40); i > 0; i--)
			hd_ranges_add(&set, (uint32_t)hd_random_below(&random, 46), &gap);
		for (uint64_t i = hd_random_below(&random, 40); i > 0; i--)
			hd_ranges_add(&known, (uint32_t)hd_random_below(&random, 46), &gap);
		hd_ranges_each_new(&set, &known, note_seen, &seen);
		for (uint32_t v = 0; v < 64; v++)
			assert_int_equal(
				seen.value[v], hd_ranges_has(&set, v) && !hd_ranges_has(&known, v)
			);
	}
}

/* --- receiver --------------------------------------------------------------------------- */

static uint8_t into[(HD_SACK_PACKETS + 100) * CHUNK];

static struct hd_recv_config receiving(uint64_t bytes, uint32_t chunk_bytes) {
	return (struct hd_recv_config){
		.token = 42,
		.job = 1,
		.round = 3,
		.worker = 2,
		.attempt = 1,
		.bytes = bytes,
		.chunk_bytes = chunk_bytes,
		.data = into,
	};
}

static struct hd_recv *make_recv(uint64_t bytes, uint32_t chunk_bytes) {
	struct hd_recv_config config = receiving(bytes, chunk_bytes);
	struct hd_recv *recv;

	assert_int_equal(hd_recv_create(&config, &recv), 0);
	return recv;
}

static struct hd_chunk_header chunk_header(uint32_t chunk, uint32_t packet, size_t bytes) {
	return (struct hd_chunk_header){
		.job = 1,
		.round = 3,
		.worker = 2,
		.attempt = 1,
		.token = 42,
		.chunk = chunk,
		.packet = packet,
		.count = (uint16_t)(bytes / 4),
	};
}

static enum hd_recv_result
give(struct hd_recv *recv, uint32_t chunk, uint32_t packet, size_t bytes, uint8_t flags) {
	struct hd_chunk_header header = chunk_header(chunk, packet, bytes);
	uint8_t payload[CHUNK * 2];

	header.flags = flags;
	memset(payload, (int)chunk + 1, sizeof payload);
	return hd_recv_chunk(recv, T0, &header, payload, bytes);
}

static void test_recv_refuses(void **state) {
	struct hd_recv_config config = receiving(100, 40);
	struct hd_recv *recv = (void *)&config;

	(void)state;
	config.bytes = 0;
	assert_int_equal(hd_recv_create(&config, &recv), -EINVAL);
	config.bytes = 101;
	assert_int_equal(hd_recv_create(&config, &recv), -EINVAL);
	config.bytes = 100;
	config.chunk_bytes = 41;
	assert_int_equal(hd_recv_create(&config, &recv), -EINVAL);
	config.chunk_bytes = 40;
	config.data = NULL;
	assert_int_equal(hd_recv_create(&config, &recv), -EINVAL);
	config.data = into;
	config.consumed = true;
	assert_int_equal(hd_recv_create(&config, &recv), -EINVAL);
	config.consumed = false;
	config.bytes = UINT64_C(1) << 40;
	config.chunk_bytes = 4;
	assert_int_equal(hd_recv_create(&config, &recv), -EFBIG);
	assert_ptr_equal(recv, &config); /* outputs only on success */
}

static void test_recv_mismatch(void **state) {
	struct hd_recv *recv = make_recv(2 * CHUNK + 40, CHUNK);
	struct hd_chunk_header header, good = chunk_header(0, 0, CHUNK);
	uint8_t payload[2 * CHUNK];
	uint64_t mismatches = 0;

	(void)state;
	memset(into, 0xee, sizeof into);
	memset(payload, 1, sizeof payload);
#define REFUSED(change, bytes)                                                                     \
	do {                                                                                       \
		header = good;                                                                     \
		change;                                                                            \
		assert_int_equal(                                                                  \
			hd_recv_chunk(recv, T0, &header, payload, bytes), HD_RECV_MISMATCH         \
		);                                                                                 \
		assert_int_equal(hd_recv_stats(recv)->mismatches, ++mismatches);                   \
	} while (0)
	REFUSED(header.job = 9, CHUNK);
	REFUSED(header.worker = 9, CHUNK);
	REFUSED(header.round = 9, CHUNK);
	REFUSED(header.attempt = 2, CHUNK);
	REFUSED(header.dtype = HD_DTYPE_FP16, CHUNK);
	REFUSED(header.count = 0, 0);
	REFUSED(header.count = 10, CHUNK);
	REFUSED(header.count = 10, 40); /* a full chunk must be full */
	REFUSED(header.count = CHUNK / 2, 2 * CHUNK);
	REFUSED(header.chunk = 3, CHUNK); /* beyond the end */
	REFUSED(header.chunk = UINT32_MAX, CHUNK);
	REFUSED(header.chunk = 2, CHUNK); /* the last one is 40 bytes */
	REFUSED((header.chunk = 2, header.count = 10), 40); /* not flagged LAST */
	REFUSED(header.flags = HD_CHUNK_LAST, CHUNK);
#undef REFUSED
	for (size_t i = 0; i < sizeof into; i++)
		assert_int_equal(into[i], 0xee);
	assert_int_equal(hd_recv_stats(recv)->packets, 0);
	assert_int_equal(hd_recv_deadline(recv), HD_NEVER);
	hd_recv_destroy(recv);
}

static void test_recv_learns(void **state) {
	struct hd_recv *recv;

	(void)state;
	/* from a full chunk */
	recv = make_recv(3 * CHUNK + 40, 0);
	assert_int_equal(give(recv, 1, 0, CHUNK, 0), HD_RECV_NEW);
	assert_int_equal(give(recv, 2, 1, CHUNK - 4, 0), HD_RECV_MISMATCH);
	assert_int_equal(hd_recv_missing(recv), 2 * CHUNK + 40);
	hd_recv_destroy(recv);
	/* from the last one */
	recv = make_recv(3 * CHUNK + 40, 0);
	assert_int_equal(give(recv, 5, 0, 40, HD_CHUNK_LAST), HD_RECV_MISMATCH);
	assert_int_equal(give(recv, 3, 0, 44, HD_CHUNK_LAST), HD_RECV_MISMATCH);
	assert_int_equal(give(recv, 3, 0, 40, HD_CHUNK_LAST), HD_RECV_NEW);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(give(recv, i, 1 + i, CHUNK, 0), HD_RECV_NEW);
	assert_int_equal(give(recv, 2, 3, CHUNK, 0), HD_RECV_DONE);
	for (size_t i = 0; i < 3 * CHUNK + 40; i++)
		assert_int_equal(into[i], i / CHUNK + 1);
	hd_recv_destroy(recv);
	/* from an only one */
	recv = make_recv(80, 0);
	assert_int_equal(give(recv, 0, 0, 40, HD_CHUNK_LAST), HD_RECV_MISMATCH);
	assert_int_equal(give(recv, 0, 0, 80, 0), HD_RECV_MISMATCH);
	assert_int_equal(give(recv, 0, 0, 80, HD_CHUNK_LAST), HD_RECV_DONE);
	hd_recv_destroy(recv);
}

static void test_recv_acknowledges(void **state) {
	struct hd_recv *recv = make_recv((HD_SACK_PACKETS + 8) * CHUNK, CHUNK);
	struct hd_msg_sack sack;

	(void)state;
	assert_false(hd_recv_sack_due(recv, T0));
	give(recv, 0, 0, CHUNK, 0);
	assert_false(hd_recv_sack_due(recv, T0));
	assert_int_equal(hd_recv_deadline(recv), T0 + HD_SACK_DELAY_US * HD_US);
	assert_true(hd_recv_sack_due(recv, T0 + HD_SACK_DELAY_US * HD_US));
	hd_recv_sack(recv, T0 + 70 * HD_US, 1234, &sack);
	assert_int_equal(sack.held, 1);
	assert_int_equal(sack.done, 0);
	assert_int_equal(sack.delay_us, 70);
	assert_int_equal(sack.window_bytes, 1234);
	assert_int_equal(hd_recv_deadline(recv), HD_NEVER);
	give(recv, 1, 1, CHUNK, HD_CHUNK_ASK);
	assert_true(hd_recv_sack_due(recv, T0));
	hd_recv_sack(recv, T0, 0, &sack);
	give(recv, 3, 3, CHUNK, 0); /* a gap */
	assert_true(hd_recv_sack_due(recv, T0));
	hd_recv_sack(recv, T0, 0, &sack);
	assert_int_equal(sack.held, 2);
	assert_int_equal(sack.packets.count, 2);
	assert_int_equal(sack.packets.item[0].first, 3);
	assert_int_equal(sack.packets.item[1].last, 1);
	give(recv, 2, 4, CHUNK, HD_CHUNK_RESEND);
	for (uint32_t i = 0; i < HD_SACK_PACKETS - 2; i++) {
		give(recv, 4 + i, 5 + i, CHUNK, 0);
		assert_false(hd_recv_sack_due(recv, T0));
	}
	give(recv, 4 + HD_SACK_PACKETS - 2, 5 + HD_SACK_PACKETS - 2, CHUNK, 0);
	assert_true(hd_recv_sack_due(recv, T0));
	hd_recv_destroy(recv);
}

static void give_at(struct hd_recv *recv, hd_ns at, uint32_t chunk, uint8_t flags) {
	struct hd_chunk_header header = chunk_header(chunk, chunk, CHUNK);
	uint8_t payload[CHUNK] = {0};

	header.flags = flags;
	hd_recv_chunk(recv, at, &header, payload, CHUNK);
}

/* One chunk a millisecond; the last of them come after a repair, which says nothing about the path. */
static void test_recv_rate(void **state) {
	const double rate = CHUNK * 8e3;
	struct hd_recv *recv = make_recv(64 * CHUNK, CHUNK);
	double seen;

	(void)state;
	assert_true(hd_recv_rate_bps(recv) == 0);
	give_at(recv, T0, 0, 0);
	assert_true(hd_recv_rate_bps(recv) == 0);
	for (uint32_t i = 1; i < 61; i++) {
		give_at(recv, T0 + i * HD_MS, i, 0);
		seen = hd_recv_rate_bps(recv);
		assert_true(seen > 0.999 * rate && seen < 1.001 * rate);
	}
	for (uint32_t i = 61; i < 64; i++)
		give_at(recv, T0 + (i + 50) * HD_MS, i, i == 63 ? HD_CHUNK_LAST : 0);
	seen = hd_recv_rate_bps(recv);
	assert_true(seen > 0.999 * rate && seen < 1.001 * rate);
	assert_int_equal(hd_recv_stats(recv)->last - hd_recv_stats(recv)->first, 113 * HD_MS);
	hd_recv_destroy(recv);
	/* Of two chunks there is no more than the whole. */
	recv = make_recv(2 * CHUNK, CHUNK);
	give_at(recv, T0, 0, 0);
	give_at(recv, T0 + HD_MS, 1, HD_CHUNK_LAST);
	seen = hd_recv_rate_bps(recv);
	assert_true(seen > 0.999 * rate && seen < 1.001 * rate);
	hd_recv_destroy(recv);
}

/* The share of the chunks that left at the grant's limit; copies of a chunk count once. */
/* Without a buffer it knows as much, and writes nowhere. */
static void test_recv_consumed(void **state) {
	struct hd_recv_config config = receiving(2 * CHUNK + 40, 0);
	struct hd_msg_sack sack;
	struct hd_recv *recv;

	(void)state;
	config.data = NULL;
	config.consumed = true;
	assert_int_equal(hd_recv_create(&config, &recv), 0);
	assert_false(hd_recv_has(recv, 0));
	assert_int_equal(give(recv, 1, 0, CHUNK, 0), HD_RECV_NEW);
	assert_true(hd_recv_has(recv, 1));
	assert_false(hd_recv_has(recv, 0));
	assert_int_equal(give(recv, 1, 1, CHUNK, 0), HD_RECV_DUPLICATE);
	assert_int_equal(give(recv, 0, 2, CHUNK, 0), HD_RECV_NEW);
	assert_int_equal(give(recv, 2, 3, 40, HD_CHUNK_LAST), HD_RECV_DONE);
	assert_true(hd_recv_has(recv, 2));
	assert_false(hd_recv_has(recv, 3));
	assert_false(hd_recv_has(recv, UINT32_MAX));
	hd_recv_sack(recv, T0, 0, &sack);
	assert_int_equal(sack.done, 1);
	assert_int_equal(sack.held, 3);
	hd_recv_destroy(recv);
}

static void test_recv_limited(void **state) {
	struct hd_recv *recv = make_recv(8 * CHUNK, CHUNK);

	(void)state;
	assert_int_equal(hd_recv_limited_permille(recv), 0);
	give(recv, 0, 0, CHUNK, HD_CHUNK_PACED);
	assert_int_equal(hd_recv_limited_permille(recv), 1000);
	give(recv, 0, 1, CHUNK, HD_CHUNK_PACED | HD_CHUNK_RESEND);
	give(recv, 1, 2, CHUNK, HD_CHUNK_PACED);
	give(recv, 2, 3, CHUNK, HD_CHUNK_PACED | HD_CHUNK_ASK);
	give(recv, 3, 4, CHUNK, HD_CHUNK_ASK);
	give(recv, 3, 5, CHUNK, HD_CHUNK_PACED);
	assert_int_equal(hd_recv_limited_permille(recv), 750);
	for (uint32_t i = 4; i < 8; i++)
		give(recv, i, 2 + i, CHUNK, i == 7 ? HD_CHUNK_LAST : 0);
	assert_int_equal(hd_recv_limited_permille(recv), 375);
	hd_recv_destroy(recv);
}

static void test_recv_after_done(void **state) {
	struct hd_recv *recv = make_recv(CHUNK + 40, CHUNK);
	struct hd_chunk_header header = chunk_header(0, 17, CHUNK);
	struct hd_msg_sack sack;

	(void)state;
	give(recv, 0, 0, CHUNK, 0);
	assert_int_equal(give(recv, 1, 1, 40, HD_CHUNK_LAST), HD_RECV_DONE);
	assert_true(hd_recv_sack_due(recv, T0));
	hd_recv_sack(recv, T0, 0, &sack);
	assert_int_equal(sack.done, 1);
	assert_int_equal(give(recv, 0, 2, CHUNK, HD_CHUNK_RESEND), HD_RECV_DUPLICATE);
	assert_true(hd_recv_sack_due(recv, T0));
	hd_recv_sack(recv, T0, 0, &sack);
	assert_int_equal(sack.done, 1);
	assert_int_equal(sack.held, 2);
	assert_int_equal(sack.packets.item[0].last, 2);
	assert_int_equal(hd_recv_stats(recv)->duplicates, 1);
	hd_recv_destroy(recv);
	hd_recv_sack_done(42, &header, 99, &sack);
	assert_int_equal(sack.token, 42);
	assert_int_equal(sack.done, 1);
	assert_int_equal(sack.packets.item[0].first, 17);
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

static void test_recv_long(void **state) {
	const uint64_t bytes = (UINT64_C(5) << 30) + 40;
	const uint32_t last = (uint32_t)(bytes / CHUNK);
	struct hd_recv_config config = receiving(bytes, CHUNK);
	struct hd_chunk_header header = chunk_header(last, 0, bytes % CHUNK);
	uint8_t payload[CHUNK], *to = reserve(bytes);
	struct hd_recv *recv;

	(void)state;
	memset(payload, 0x5a, sizeof payload);
	config.data = to;
	assert_int_equal(hd_recv_create(&config, &recv), 0);
	header.flags = HD_CHUNK_LAST;
	assert_int_equal(hd_recv_chunk(recv, T0, &header, payload, bytes % CHUNK), HD_RECV_NEW);
	assert_int_equal(to[bytes - 1], 0x5a);
	assert_int_equal(to[(uint64_t)last * CHUNK], 0x5a);
	assert_int_equal(to[(uint64_t)last * CHUNK - 1], 0);
	assert_int_equal(hd_recv_missing(recv), bytes - bytes % CHUNK);
	hd_recv_destroy(recv);
	munmap(to, bytes);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_model),
		cmocka_unit_test(test_ranges_limit),
		cmocka_unit_test(test_ranges_difference),
		cmocka_unit_test(test_recv_refuses),
		cmocka_unit_test(test_recv_mismatch),
		cmocka_unit_test(test_recv_learns),
		cmocka_unit_test(test_recv_acknowledges),
		cmocka_unit_test(test_recv_rate),
		cmocka_unit_test(test_recv_limited),
		cmocka_unit_test(test_recv_consumed),
		cmocka_unit_test(test_recv_after_done),
		cmocka_unit_test(test_recv_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
