/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys. A cluster's key file has one line a key: `<id> <64 hex digits>`, id 0..65535, '#' starts a comment; the first
 * key is the default one. Parsing is pure (text in); the program reads the file. Session key = BLAKE2b-256(node key;
 * the handshake of both sides, the opener's first).
 */
#ifndef HD_KEYS_H
#define HD_KEYS_H

#include "hd_types.h"
#include "hd_wire.h"

#define HD_KEY_BYTES 32

struct hd_key {
	uint16_t id;
	uint8_t secret[HD_KEY_BYTES];
};

struct hd_keyring {
	size_t count;
	struct hd_key *keys;
};

/* Parses a key file's text. On error returns -EINVAL or -E2BIG and writes "line N: what" to error.
 * *ring is set only on success. */
int hd_keyring_parse(const char *text, struct hd_keyring *ring, char *error, size_t error_bytes);
void hd_keyring_fini(struct hd_keyring *ring);
const struct hd_key *hd_keyring_find(const struct hd_keyring *ring, uint16_t id);

/* One side of a handshake, as both sides know it. */
struct hd_hello_side {
	uint64_t boot;
	uint8_t nonce[16];
	uint8_t role;
	uint32_t session; /* its index */
	struct hd_addr addr; /* the opener's as the answerer saw it; the answerer's as asked */
	const char *name; /* at most HD_NAME_BYTES_MAX bytes */
};

/* The key of the session between these two: it depends on the whole handshake. */
void hd_session_key(
	const struct hd_key *node_key,
	const struct hd_hello_side *opener,
	const struct hd_hello_side *answerer,
	uint8_t key[HD_KEY_BYTES]
);

/* Writes HD_TAG_BYTES over data[0..bytes). */
void hd_auth_sign(const uint8_t key[HD_KEY_BYTES], const uint8_t *data, size_t bytes, uint8_t *tag);
/* True when the last HD_TAG_BYTES of data are the tag of what precedes them. Constant time. */
bool hd_auth_verify(const uint8_t key[HD_KEY_BYTES], const uint8_t *data, size_t bytes);

/* A deterministic stream of random bytes from 32 bytes of entropy (ChaCha20 in counter mode): the cores' source of boot
 * ids, nonces and tokens. */
struct hd_entropy {
	uint8_t seed[32];
	uint64_t counter;
};
void hd_entropy_init(struct hd_entropy *entropy, const uint8_t seed[32]);
void hd_entropy_bytes(struct hd_entropy *entropy, void *out, size_t bytes);
/* Never 0. */
uint64_t hd_entropy_u64(struct hd_entropy *entropy);

#endif
