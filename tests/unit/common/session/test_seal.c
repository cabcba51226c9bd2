/* SPDX-License-Identifier: BSD-3-Clause */
/* Seals of chunks: known bytes, and that no bit of a chunk can change. */
#include "hd_seal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 10
#define CHUNK_BYTES (HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES + 4 * COUNT)

static struct hd_key key_items[2] = {{.id = 7}, {.id = 9, .secret = {1}}};
static const struct hd_keyring keys = {2, key_items};

static int set_up(void **state) {
	(void)state;
	for (int i = 0; i < HD_KEY_BYTES; i++)
		key_items[0].secret[i] = (uint8_t)i;
	return 0;
}

/* The tag was computed by another implementation: hashlib.blake2b of Python and the algorithms of RFC 8439, section
 * 2.5.1, and of Aumasson and Bernstein, checked with the vectors that these give. Header bytes are 100, 101, ... and
 * the payload's 0, 1, ... */
static void test_known_bytes(void **state) {
	static const uint8_t expected[HD_SEAL_BYTES]
		= {0x7e, 0x61, 0xb0, 0xb5, 0x4c, 0x6b, 0xc0, 0x62};
	uint8_t header[HD_CHUNK_HEADER_BYTES], payload[40], tag[HD_SEAL_BYTES];
	struct hd_seal seal = {0};

	(void)state;
	for (size_t i = 0; i < sizeof header; i++)
		header[i] = (uint8_t)(100 + i);
	for (size_t i = 0; i < sizeof payload; i++)
		payload[i] = (uint8_t)i;
	assert_int_equal(hd_seal_derive(&seal, &keys, 8, 1, 1), -ENOKEY);
	assert_false(seal.derived);
	assert_int_equal(
		hd_seal_derive(&seal, &keys, 7, 0x01020304, UINT64_C(0x8899aabbccddeeff)), 0
	);
	hd_seal_sign(&seal, header, payload, sizeof payload, tag);
	assert_memory_equal(tag, expected, sizeof tag);
}

static void make(uint8_t data[CHUNK_BYTES], uint64_t token, uint16_t key_id) {
	struct hd_chunk_header header = {.job = 5, .slot = key_id, .count = COUNT, .token = token};
	struct hd_seal seal = {0};

	memset(data, 0x11, CHUNK_BYTES);
	hd_chunk_encode(&header, data);
	assert_int_equal(hd_seal_derive(&seal, &keys, key_id, 5, token), 0);
	hd_seal_sign(
		&seal,
		data,
		data + HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES,
		(size_t)4 * COUNT,
		data + HD_CHUNK_HEADER_BYTES
	);
}

static bool is_taken(struct hd_seal *seal, const uint8_t data[CHUNK_BYTES]) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t bytes;

	return hd_chunk_decode(data, CHUNK_BYTES, &header, &payload, &bytes) == 0
		&& hd_seal_check(seal, &keys, &header, data, CHUNK_BYTES);
}

static void test_every_bit(void **state) {
	const uint64_t token = HD_TOKEN_SEALED | 77;
	uint8_t data[CHUNK_BYTES];
	struct hd_seal seal = {0};

	(void)state;
	make(data, token, 7);
	for (int known = 0; known < 2; known++) {
		for (size_t bit = 0; bit < (size_t)8 * CHUNK_BYTES; bit++) {
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(is_taken(&seal, data));
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_int_equal(seal.derived, known); /* a forged one teaches nothing */
		assert_true(is_taken(&seal, data));
	}
	assert_true(seal.derived);
	make(data, token, 9); /* another key of the ring, later */
	assert_true(is_taken(&seal, data));
	make(data, token + 1, 9); /* the next transfer */
	assert_true(is_taken(&seal, data));
}

static void test_draw(void **state) {
	static const uint8_t seed[32] = {3};
	struct hd_entropy entropy;

	(void)state;
	hd_entropy_init(&entropy, seed);
	for (int i = 0; i < 100; i++) {
		assert_true(hd_token_is_sealed(hd_token_draw(&entropy, true)));
		assert_false(hd_token_is_sealed(hd_token_draw(&entropy, false)));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_bytes),
		cmocka_unit_test(test_every_bit),
		cmocka_unit_test(test_draw),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
