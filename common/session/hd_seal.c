/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_seal.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

static_assert(
	sizeof(((struct hd_seal *)0)->hash_key) == crypto_onetimeauth_KEYBYTES,
	"Poly1305 key"
);
static_assert(sizeof(((struct hd_seal *)0)->tag_key) == crypto_shorthash_KEYBYTES, "SipHash key");
static_assert(HD_SEAL_BYTES == crypto_shorthash_BYTES, "SipHash tag");

uint64_t hd_token_draw(struct hd_entropy *entropy, bool sealed) {
	uint64_t token;

	do {
		token = hd_entropy_u64(entropy) & ~HD_TOKEN_SEALED;
	} while (token == 0);
	return sealed ? token | HD_TOKEN_SEALED : token;
}

int hd_seal_derive(
	struct hd_seal *seal,
	const struct hd_keyring *keys,
	uint16_t key_id,
	uint32_t job,
	uint64_t token
) {
	static const char context[16] = "heddle chunk 1 ";
	const struct hd_key *key = hd_keyring_find(keys, key_id);
	uint8_t input[sizeof context + 12], out[64];

	if (!key)
		return -ENOKEY;
	memcpy(input, context, sizeof context);
	hd_put32(input + sizeof context, job);
	hd_put64(input + sizeof context + 4, token);
	crypto_generichash(out, sizeof out, input, sizeof input, key->secret, HD_KEY_BYTES);
	memcpy(seal->hash_key, out, sizeof seal->hash_key);
	memcpy(seal->tag_key, out + sizeof seal->hash_key, sizeof seal->tag_key);
	sodium_memzero(out, sizeof out);
	seal->key_id = key_id;
	seal->job = job;
	seal->token = token;
	seal->derived = true;
	return 0;
}

void hd_seal_sign(
	const struct hd_seal *seal,
	const uint8_t *header,
	const uint8_t *payload,
	size_t payload_bytes,
	uint8_t *tag
) {
	crypto_onetimeauth_state state;
	uint8_t hash[crypto_onetimeauth_BYTES];

	crypto_onetimeauth_init(&state, seal->hash_key);
	crypto_onetimeauth_update(&state, header, HD_CHUNK_HEADER_BYTES);
	crypto_onetimeauth_update(&state, payload, payload_bytes);
	crypto_onetimeauth_final(&state, hash);
	crypto_shorthash(tag, hash, sizeof hash, seal->tag_key);
}

bool hd_seal_check(
	struct hd_seal *seal,
	const struct hd_keyring *keys,
	const struct hd_chunk_header *header,
	const uint8_t *data,
	size_t bytes
) {
	const size_t head = HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES;
	uint8_t tag[HD_SEAL_BYTES];

	if (!hd_token_is_sealed(header->token))
		return true;
	if (!seal->derived || seal->key_id != header->slot || seal->job != header->job
	    || seal->token != header->token) {
		struct hd_seal other;

		if (hd_seal_derive(&other, keys, header->slot, header->job, header->token) < 0)
			return false;
		hd_seal_sign(&other, data, data + head, bytes - head, tag);
		if (sodium_memcmp(tag, data + HD_CHUNK_HEADER_BYTES, sizeof tag) != 0)
			return false;
		*seal = other; /* only an authentic chunk changes it */
		return true;
	}
	hd_seal_sign(seal, data, data + head, bytes - head, tag);
	return sodium_memcmp(tag, data + HD_CHUNK_HEADER_BYTES, sizeof tag) == 0;
}
