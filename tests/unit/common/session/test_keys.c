/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_keys.h"
#include "hd_limits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEX64 "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

static void test_parse(void **state) {
	static const char text[] = "# cluster\n\n  7\t" HEX64 "  # first\r\n65535 " HEX64;
	struct hd_keyring ring;
	char error[100] = "";

	(void)state;
	assert_int_equal(hd_keyring_parse(text, &ring, error, sizeof error), 0);
	assert_int_equal(ring.count, 2);
	assert_int_equal(ring.keys[0].id, 7);
	for (int i = 0; i < HD_KEY_BYTES; i++)
		assert_int_equal(ring.keys[0].secret[i], i);
	assert_ptr_equal(hd_keyring_find(&ring, 65535), &ring.keys[1]);
	assert_null(hd_keyring_find(&ring, 8));
	hd_keyring_fini(&ring);
	assert_int_equal(ring.count, 0);
}

static void test_parse_errors(void **state) {
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"", "no key in it"},
		{"# only words\n", "no key in it"},
		{"x " HEX64, "line 1: id: a number 0..65535 is expected"},
		{"\n-1 " HEX64, "line 2: id: a number 0..65535 is expected"},
		{"65536 " HEX64, "line 1: id: beyond the limit (65535)"},
		{"99999999999999999999 " HEX64, "line 1: id: beyond the limit (65535)"},
		{"1" HEX64, "line 1: id: beyond the limit (65535)"},
		{"1x" HEX64, "line 1: id and key must be separated by a space"},
		{"1", "line 1: id and key must be separated by a space"},
		{"1 ", "line 1: key: 64 hex digits are expected"},
		{"1 abc", "line 1: key: 64 hex digits are expected"},
		{"1 " HEX64 "0", "line 1: key: more than 64 hex digits"},
		{"1 " HEX64 " z", "line 1: something follows the key"},
		{"1 " HEX64 "\n1 " HEX64, "line 2: id: occurs twice"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct hd_keyring ring = {77, NULL};
		char error[100] = "";

		assert_int_equal(
			hd_keyring_parse(rows[i].text, &ring, error, sizeof error), -EINVAL
		);
		assert_string_equal(error, rows[i].error);
		assert_int_equal(ring.count, 77); /* set only on success */
	}
}

static void test_too_many_keys(void **state) {
	size_t room = ((size_t)HD_KEYS_MAX + 1) * 80;
	char *text = malloc(room), error[100];
	struct hd_keyring ring;
	size_t used = 0;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < HD_KEYS_MAX; i++)
		used += (size_t)snprintf(text + used, room - used, "%d " HEX64 "\n", i);
	assert_int_equal(hd_keyring_parse(text, &ring, error, sizeof error), 0);
	assert_int_equal(ring.count, HD_KEYS_MAX);
	hd_keyring_fini(&ring);
	(void)snprintf(text + used, room - used, "%d " HEX64 "\n", HD_KEYS_MAX);
	assert_int_equal(hd_keyring_parse(text, &ring, error, sizeof error), -E2BIG);
	assert_string_equal(error, "line 257: more than HD_KEYS_MAX (256) keys");
	free(text);
}

static void test_tags(void **state) {
	uint8_t key[HD_KEY_BYTES] = {1, 2, 3}, other[HD_KEY_BYTES] = {1, 2, 4};
	uint8_t data[100 + HD_TAG_BYTES];

	(void)state;
	memset(data, 7, sizeof data);
	for (size_t bytes = 0; bytes <= 100; bytes++) {
		hd_auth_sign(key, data, bytes, data + bytes);
		assert_true(hd_auth_verify(key, data, bytes + HD_TAG_BYTES));
		assert_false(hd_auth_verify(other, data, bytes + HD_TAG_BYTES));
		assert_false(hd_auth_verify(key, data, bytes + HD_TAG_BYTES - 1));
		data[bytes / 2] ^= 0x40;
		assert_false(hd_auth_verify(key, data, bytes + HD_TAG_BYTES));
		memset(data, 7, sizeof data);
	}
	for (size_t bytes = 0; bytes < HD_TAG_BYTES; bytes++)
		assert_false(hd_auth_verify(key, data, bytes));
}

/* hashlib.blake2b(b"heddle", digest_size=16, key=bytes(range(32))) in Python. */
static void test_tag_is_blake2b(void **state) {
	static const uint8_t expected[HD_TAG_BYTES] = {
		0xec,
		0xc4,
		0x1c,
		0x6c,
		0x9b,
		0x11,
		0xd4,
		0x8f,
		0xd9,
		0x38,
		0x02,
		0xc3,
		0xba,
		0xca,
		0xc9,
		0x03,
	};
	uint8_t key[HD_KEY_BYTES], tag[HD_TAG_BYTES];

	(void)state;
	for (uint8_t i = 0; i < HD_KEY_BYTES; i++)
		key[i] = i;
	hd_auth_sign(key, (const uint8_t *)"heddle", 6, tag);
	assert_memory_equal(tag, expected, sizeof tag);
}

static const struct hd_hello_side side_of_client = {
	.boot = 1,
	.nonce = {1},
	.role = 3,
	.session = 7,
	.addr = {0x0a000001, 4000},
	.name = "w1",
};
static const struct hd_hello_side side_of_server = {
	.boot = 2,
	.nonce = {2},
	.role = 2,
	.session = 9,
	.addr = {0x0a000002, 4773},
	.name = "ps",
};

struct handshake {
	struct hd_key node;
	struct hd_hello_side client, server;
};

#define CHANGED(change)                                                                            \
	do {                                                                                       \
		struct handshake h = begin;                                                        \
		h.change;                                                                          \
		hd_session_key(&h.node, &h.client, &h.server, key);                                \
		assert_memory_not_equal(base, key, sizeof(key));                                   \
	} while (0)

static void test_session_keys_depend_on_all(void **state) {
	const struct handshake begin = {{.id = 1, .secret = {9}}, side_of_client, side_of_server};
	uint8_t base[HD_KEY_BYTES], key[HD_KEY_BYTES];

	(void)state;
	hd_session_key(&begin.node, &begin.client, &begin.server, base);
	hd_session_key(&begin.node, &begin.client, &begin.server, key);
	assert_memory_equal(base, key, sizeof key);
	hd_session_key(&begin.node, &begin.server, &begin.client, key);
	assert_memory_not_equal(base, key, sizeof key);
	CHANGED(node.id = 2);
	CHANGED(node.secret[31] = 1);
	CHANGED(client.boot = 3);
	CHANGED(client.nonce[15] = 1);
	CHANGED(client.role = 2);
	CHANGED(client.session = 8);
	CHANGED(client.addr.ipv4++);
	CHANGED(client.addr.port++);
	CHANGED(client.name = "w2");
	CHANGED(server.boot = 3);
	CHANGED(server.nonce[15] = 1);
	CHANGED(server.role = 3);
	CHANGED(server.session = 8);
	CHANGED(server.addr.ipv4++);
	CHANGED(server.addr.port++);
	CHANGED(server.name = "");
}

static void test_entropy_is_a_stream_of_its_seed(void **state) {
	struct hd_entropy a, b;
	uint8_t seed[32] = {5}, other[32] = {6};
	uint64_t first, bits = 0;

	(void)state;
	hd_entropy_init(&a, seed);
	hd_entropy_init(&b, seed);
	first = hd_entropy_u64(&a);
	assert_int_equal(first, hd_entropy_u64(&b));
	assert_int_not_equal(first, hd_entropy_u64(&a));
	hd_entropy_init(&b, other);
	assert_int_not_equal(first, hd_entropy_u64(&b));
	for (int i = 0; i < 10000; i++)
		bits += (uint64_t)__builtin_popcountll(hd_entropy_u64(&a));
	assert_in_range(bits, 318000, 322000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_too_many_keys),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_tag_is_blake2b),
		cmocka_unit_test(test_session_keys_depend_on_all),
		cmocka_unit_test(test_entropy_is_a_stream_of_its_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
