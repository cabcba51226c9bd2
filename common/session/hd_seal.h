/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seals the chunks of one transfer: a MAC over header and payload with keys that only a holder of the node key can
 * derive. docs/wire.md explains the construction.
 *
 *   64 bytes = BLAKE2b-512(node key; "heddle chunk 1 ", job, token)
 *   tag = SipHash-2-4(bytes 32..47; Poly1305(bytes 0..31; header, payload))
 */
#ifndef HD_SEAL_H
#define HD_SEAL_H

#include "hd_keys.h"
#include "hd_wire.h"

struct hd_seal {
	bool derived; /* else all other fields are 0 */
	uint16_t key_id;
	uint32_t job;
	uint64_t token; /* of this transfer */
	uint8_t hash_key[32], tag_key[16];
};

/* Draws a transfer's token. Sealed: each of its chunks carries a MAC. Never 0. */
uint64_t hd_token_draw(struct hd_entropy *entropy, bool sealed);

/* Derives the keys of a transfer. Costs about a microsecond. Returns 0, -ENOKEY (no such key in the ring). */
int hd_seal_derive(
	struct hd_seal *seal,
	const struct hd_keyring *keys,
	uint16_t key_id,
	uint32_t job,
	uint64_t token
);

/* Writes HD_SEAL_BYTES over the chunk's header of HD_CHUNK_HEADER_BYTES and its payload. */
void hd_seal_sign(
	const struct hd_seal *seal,
	const uint8_t *header,
	const uint8_t *payload,
	size_t payload_bytes,
	uint8_t *tag
);

/* Whether a chunk that hd_chunk_decode() accepted is authentic: without a seal it always is. Derives the keys of the
 * header's key id if `seal`, the transfer's, has others. Constant time. */
bool hd_seal_check(
	struct hd_seal *seal,
	const struct hd_keyring *keys,
	const struct hd_chunk_header *header,
	const uint8_t *data,
	size_t bytes
);

#endif
