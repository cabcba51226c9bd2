/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether all workers have the same bytes, by one all-reduce: each worker adds the bits of its hash, as values 0 and 1.
 * The hashes are equal when each sum is 0 or the number of workers in it. Such sums are exact in every payload and
 * order, and need no other operation than the sum. The tag keeps it apart from a caller's own all-reduce of that size.
 */
#include "heddle_private.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#define HASH_BYTES 32 /* BLAKE2b-256 */
#define HASH_BITS 256

_Static_assert(HASH_BITS == 8 * HASH_BYTES, "a value for each bit");
_Static_assert(HASH_BYTES == crypto_generichash_BYTES, "the hash that libsodium recommends");

int heddle_agree(
	struct heddle *fabric,
	const void *data,
	size_t bytes,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	struct heddle_status own = HEDDLE_STATUS_INIT;
	uint8_t hash[HASH_BYTES];
	float bit[HASH_BITS];
	int rc = heddle_check(fabric);

	if (rc == 0)
		rc = heddle_check_status(status);
	if (rc < 0)
		return rc;
	if (!data && bytes > 0)
		return heddle_fail(-EINVAL, "data: NULL");
	crypto_generichash(hash, sizeof hash, data, bytes, NULL, 0);
	for (unsigned i = 0; i < HASH_BITS; i++)
		bit[i] = hash[i / 8] >> i % 8 & 1 ? 1.0f : 0.0f;
	options.tag = "heddle_agree()";
	options.wait_ms = HEDDLE_WAIT_FOREVER; /* all of them say so, or none */
	rc = heddle_allreduce(fabric, bit, bit, HASH_BITS, &options, timeout_ms, &own);
	if (status) {
		const size_t size = status->size;

		memcpy(status, &own, size < sizeof own ? size : sizeof own);
		status->size = size;
	}
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < HASH_BITS; i++)
		if (bit[i] > 0 && bit[i] < (float)own.workers)
			return 0;
	return 1;
}
