/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_keys.h"
#include "hd_limits.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(HD_KEY_BYTES == crypto_generichash_KEYBYTES, "BLAKE2b key");
static_assert(HD_TAG_BYTES == crypto_generichash_BYTES_MIN, "BLAKE2b-128 tag");

struct line {
	const char *at, *end;
};

static void skip_blank(struct line *line) {
	while (line->at < line->end && (*line->at == ' ' || *line->at == '\t' || *line->at == '\r'))
		line->at++;
}

static int hex_digit(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static const char *parse_id(struct line *line, uint16_t *id) {
	uint32_t x = 0;
	const char *start = line->at;

	while (line->at < line->end && *line->at >= '0' && *line->at <= '9' && x <= UINT16_MAX)
		x = x * 10 + (uint32_t)(*line->at++ - '0');
	if (line->at == start)
		return "id: a number 0..65535 is expected";
	if (x > UINT16_MAX)
		return "id: beyond the limit (65535)";
	*id = (uint16_t)x;
	return NULL;
}

static const char *parse_secret(struct line *line, uint8_t secret[HD_KEY_BYTES]) {
	const size_t digits_max = (size_t)2 * HD_KEY_BYTES;
	size_t digits = 0;
	int digit;

	memset(secret, 0, HD_KEY_BYTES);
	while (line->at < line->end && (digit = hex_digit(*line->at)) >= 0) {
		if (digits == digits_max)
			return "key: more than 64 hex digits";
		secret[digits / 2] = (uint8_t)(secret[digits / 2] << 4 | digit);
		digits++;
		line->at++;
	}
	return digits == digits_max ? NULL : "key: 64 hex digits are expected";
}

/* Parses one line. Returns the error, or NULL; *present is false for a blank or comment line. */
static const char *parse_line(struct line line, struct hd_key *key, bool *present) {
	const char *comment = memchr(line.at, '#', (size_t)(line.end - line.at));
	const char *error;

	if (comment)
		line.end = comment;
	skip_blank(&line);
	*present = line.at < line.end;
	if (!*present)
		return NULL;
	error = parse_id(&line, &key->id);
	if (error)
		return error;
	if (line.at == line.end || (*line.at != ' ' && *line.at != '\t'))
		return "id and key must be separated by a space";
	skip_blank(&line);
	error = parse_secret(&line, key->secret);
	if (error)
		return error;
	skip_blank(&line);
	return line.at == line.end ? NULL : "something follows the key";
}

static int fail(char *error, size_t error_bytes, size_t line, const char *what) {
	if (line > 0)
		(void)snprintf(error, error_bytes, "line %zu: %s", line, what);
	else
		(void)snprintf(error, error_bytes, "%s", what);
	return -EINVAL;
}

static int parse_all(const char *text, struct hd_keyring *ring, char *error, size_t error_bytes) {
	struct line line = {text, text};

	for (size_t number = 1; *line.at; number++) {
		struct hd_key key;
		const char *wrong;
		bool present;

		line.end = line.at + strcspn(line.at, "\n");
		wrong = parse_line(line, &key, &present);
		if (wrong)
			return fail(error, error_bytes, number, wrong);
		if (present && hd_keyring_find(ring, key.id))
			return fail(error, error_bytes, number, "id: occurs twice");
		if (present && ring->count == HD_KEYS_MAX) {
			fail(error, error_bytes, number, "more than HD_KEYS_MAX (256) keys");
			return -E2BIG;
		}
		if (present)
			ring->keys[ring->count++] = key;
		sodium_memzero(&key, sizeof key);
		line.at = *line.end ? line.end + 1 : line.end;
	}
	if (ring->count == 0)
		return fail(error, error_bytes, 0, "no key in it");
	return 0;
}

int hd_keyring_parse(const char *text, struct hd_keyring *ring, char *error, size_t error_bytes) {
	struct hd_keyring parsed = {0, calloc(HD_KEYS_MAX, sizeof(struct hd_key))};
	int result;

	if (!parsed.keys) {
		(void)snprintf(error, error_bytes, "out of memory");
		return -ENOMEM;
	}
	result = parse_all(text, &parsed, error, error_bytes);
	if (result < 0) {
		hd_keyring_fini(&parsed);
		return result;
	}
	*ring = parsed;
	return 0;
}

void hd_keyring_fini(struct hd_keyring *ring) {
	if (ring->keys)
		sodium_memzero(ring->keys, ring->count * sizeof(struct hd_key));
	free(ring->keys);
	*ring = (struct hd_keyring){0, NULL};
}

const struct hd_key *hd_keyring_find(const struct hd_keyring *ring, uint16_t id) {
	for (size_t i = 0; i < ring->count; i++)
		if (ring->keys[i].id == id)
			return &ring->keys[i];
	return NULL;
}

#define SIDE_BYTES ((size_t)8 + 16 + 1 + 4 + 4 + 2 + 1 + HD_NAME_BYTES_MAX)

/* boot:64 nonce:128 role:8 index:32 ipv4:32 port:16, name with its length. Returns the end. */
static uint8_t *put_side(uint8_t *at, const struct hd_hello_side *side) {
	size_t name_bytes = strnlen(side->name, HD_NAME_BYTES_MAX);

	hd_put64(at, side->boot);
	memcpy(at + 8, side->nonce, 16);
	at[24] = side->role;
	hd_put32(at + 25, side->session);
	hd_put32(at + 29, side->addr.ipv4);
	hd_put16(at + 33, side->addr.port);
	at[35] = (uint8_t)name_bytes;
	memcpy(at + 36, side->name, name_bytes);
	return at + 36 + name_bytes;
}

void hd_session_key(
	const struct hd_key *node_key,
	const struct hd_hello_side *opener,
	const struct hd_hello_side *answerer,
	uint8_t key[HD_KEY_BYTES]
) {
	static const char context[16] = "heddle session 2";
	uint8_t input[sizeof context + 2 + 2 * SIDE_BYTES];
	uint8_t *at = input;

	memcpy(at, context, sizeof context);
	hd_put16(at + sizeof context, node_key->id);
	at = put_side(at + sizeof context + 2, opener);
	at = put_side(at, answerer);
	crypto_generichash(
		key, HD_KEY_BYTES, input, (size_t)(at - input), node_key->secret, HD_KEY_BYTES
	);
}

void hd_auth_sign(
	const uint8_t key[HD_KEY_BYTES],
	const uint8_t *data,
	size_t bytes,
	uint8_t *tag
) {
	crypto_generichash(tag, HD_TAG_BYTES, data, bytes, key, HD_KEY_BYTES);
}

bool hd_auth_verify(const uint8_t key[HD_KEY_BYTES], const uint8_t *data, size_t bytes) {
	uint8_t tag[HD_TAG_BYTES];

	if (bytes < HD_TAG_BYTES)
		return false;
	hd_auth_sign(key, data, bytes - HD_TAG_BYTES, tag);
	return sodium_memcmp(tag, data + bytes - HD_TAG_BYTES, HD_TAG_BYTES) == 0;
}

void hd_entropy_init(struct hd_entropy *entropy, const uint8_t seed[32]) {
	/* Lets libsodium choose its fastest code for this processor; repeated calls do nothing. Results do not depend
	 * on it. */
	if (sodium_init() < 0)
		abort();
	memcpy(entropy->seed, seed, sizeof entropy->seed);
	entropy->counter = 0;
}

/* Each call uses a stream of its own: the counter is the stream's nonce. */
void hd_entropy_bytes(struct hd_entropy *entropy, void *out, size_t bytes) {
	uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];

	static_assert(crypto_stream_chacha20_NONCEBYTES == 8, "the counter is the nonce");
	hd_put64(nonce, entropy->counter++);
	crypto_stream_chacha20(out, bytes, nonce, entropy->seed);
}

uint64_t hd_entropy_u64(struct hd_entropy *entropy) {
	uint8_t bytes[8];

	for (;;) {
		uint64_t x;

		hd_entropy_bytes(entropy, bytes, sizeof bytes);
		x = hd_get64(bytes);
		if (x != 0)
			return x;
	}
}
