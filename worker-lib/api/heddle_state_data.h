/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: the items of a state as one range of bytes, with their hash behind (heddle_state.c). */
#ifndef HEDDLE_STATE_DATA_H
#define HEDDLE_STATE_DATA_H

#include "hd_roll.h"
#include "heddle_private.h"

#include <sodium.h>

/* It is read, or written, from its beginning to its end. */
struct heddle_state_data {
	crypto_generichash_state hash; /* of the items so far */
	const struct heddle_state_item *items;
	size_t count;
	uint64_t bytes; /* of the items */
	size_t item; /* the present one, */
	uint64_t at; /* and the place in it */
	uint8_t own[HD_HASH_BYTES], theirs[HD_HASH_BYTES];
	uint32_t hashed; /* bytes of the hash that were read or written */
};

/* 0, or -EINVAL: an item. */
int heddle_state_data_init(
	struct heddle_state_data *data,
	const struct heddle_state_item *items,
	size_t count
);
/* With the hash behind the items. */
uint64_t heddle_state_data_bytes(const struct heddle_state_data *data);
/* Names and sizes, and how they are cut. */
void heddle_state_data_layout(
	const struct heddle_state_data *data,
	uint64_t part_bytes,
	uint8_t hash[HD_HASH_BYTES]
);
void heddle_state_data_rewind(struct heddle_state_data *data);
/* The next bytes: into the part, or out of it into the items. */
void heddle_state_data_read(struct heddle_state_data *data, uint8_t *part, uint64_t bytes);
void heddle_state_data_write(struct heddle_state_data *data, const uint8_t *part, uint64_t bytes);
/* Whether the source's hash that was written is that of the items. */
bool heddle_state_data_is_right(const struct heddle_state_data *data);
/* All workers call this, as their items differ: which of them it is, in words. most: items of any worker. */
void heddle_state_data_differ(
	struct heddle *fabric,
	const struct heddle_state_data *data,
	uint32_t most,
	const struct heddle_collective_options *options,
	int timeout_ms
);

#endif
