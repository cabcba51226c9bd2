/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers whose requests have values. */
#ifndef INLINE_SCENE_H
#define INLINE_SCENE_H

#include "collective_scene.h"

#define COUNT 7
#define VALUE_BYTES sizeof(float)
#define CALL_BYTES (COUNT * VALUE_BYTES)

/* The values of each rank; bits that only a copy keeps are among them. */
extern const uint32_t given[WORKERS][COUNT];

struct offer {
	struct wish wish;
	uint8_t dtype, op, attempt, state;
	const void *values;
	uint32_t bytes; /* of values */
};

void give(struct scene *s, uint16_t rank, uint32_t round, const struct offer *offer);
/* This rank's part of a collective with CALL_BYTES of `given`, which `gives` them. */
struct offer offer_of(uint8_t collective, uint16_t root, uint16_t rank, bool gives);
/* REDUCE has these values, and no shards. */
void check_values(const struct scene *s, uint16_t rank, const void *want, size_t bytes);
/* The workers of this set receive: when they have it, the others end. */
void finish_all(struct scene *s, unsigned receivers);
void check_nothing_left(const struct scene *s);

#endif
