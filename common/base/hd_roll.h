/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A roll call without a server: which worker gives its model to the others. It is one maximum over all workers of
 * 64-bit integers; so every worker reads the same from it.
 *
 * A worker's model is `sure` unless it may have missed a step that the others made (a round that ended as late). The
 * source is the lowest rank among those with the newest step, of sure models if there are any.
 */
#ifndef HD_ROLL_H
#define HD_ROLL_H

#include "hd_limits.h"
#include "hd_types.h"

#define HD_ROLL_VALUES 2
#define HD_ROLL_STEPS_MAX (UINT64_C(1) << 48)
#define HD_HASH_BYTES 32
#define HD_EQUAL_VALUES (2 * HD_HASH_BYTES / 8)

/* One worker's answer. */
struct hd_roll_answer {
	uint32_t rank;
	bool has_model, sure;
	uint64_t step; /* that its model has; below HD_ROLL_STEPS_MAX */
};

struct hd_roll {
	uint32_t source; /* the rank that gives its model */
	bool complete; /* all have the same model, and know it: there is nothing to give */
	bool any; /* a worker has a model; if not, the source makes the initial one */
	uint64_t step; /* of the source's model */
};

void hd_roll_pack(const struct hd_roll_answer *answer, int64_t values[HD_ROLL_VALUES]);
/* From the maxima. */
struct hd_roll hd_roll_read(const int64_t maxima[HD_ROLL_VALUES]);

/* Whether all have the same hash: the maxima of it and of its complement say it. */
void hd_equal_pack(const uint8_t hash[HD_HASH_BYTES], int64_t values[HD_EQUAL_VALUES]);
bool hd_equal_read(const int64_t maxima[HD_EQUAL_VALUES]);

#endif
