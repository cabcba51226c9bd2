/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of a job by rank, and the version of that set. One node sends it (the controller; without one the
 * server), all others follow it.
 *
 *      ranks 0, 1, 3, 9        byte 0     byte 1
 *                              00001011   00000010      bit r % 8 of byte r / 8; no zero byte at the end
 *
 * Decoders accept any bytes: the result is a set of ranks within the limits, or an error.
 */
#ifndef HD_ROSTER_H
#define HD_ROSTER_H

#include "hd_limits.h"
#include "hd_types.h"

#include <stdbool.h>
#include <stddef.h>

#define HD_ROSTER_BYTES (HD_WORKERS_MAX / 8)
#define HD_SCALE_MAX 16 /* limit of the derived scale of a step */

struct hd_roster {
	uint64_t change; /* its version: epoch:16 of its sender, changes:48; 0: none yet */
	/* Values that depend on the number of workers. They belong to the same change, so that no node has one without
	 * the other. */
	uint16_t target; /* workers that the job should have; 0: not set */
	uint32_t sync_count, tau_max; /* N of N-sync and the bound on delays, now; 0: the job's */
	float scale; /* factor on updates; 0: the job's */
	uint16_t count;
	uint8_t ranks[HD_ROSTER_BYTES];
};

/* rank < HD_WORKERS_MAX. True when that was a change. */
bool hd_roster_set(struct hd_roster *roster, uint16_t rank, bool present);
/* False also for ranks beyond the limit. */
bool hd_roster_has(const struct hd_roster *roster, uint16_t rank);
/* The bytes of `ranks` that a message carries. */
size_t hd_roster_bytes(const struct hd_roster *roster);
/* Reads them and count; the other fields stay. 0; -EBADMSG (too many, a zero byte at the end, not `count` ranks) with
 * *roster undefined. */
int hd_roster_read(struct hd_roster *roster, uint16_t count, const uint8_t *data, size_t bytes);
/* Whether the values besides the ranks are within the limits. */
bool hd_roster_valid(const struct hd_roster *roster);
/* The factor on the mean of a synchronous step of this change: the one set, or else by the job's description: its
 * workers over `base` (0: 1), at most HD_SCALE_MAX. 1 before the first change. */
float hd_roster_scale(const struct hd_roster *roster, uint32_t base);
/* Whether they agree in all but the ranks and the number of the change. */
bool hd_roster_alike(const struct hd_roster *a, const struct hd_roster *b);
/* The ranks, ascending, at most `capacity` of them. Returns how many there are. */
size_t hd_roster_list(const struct hd_roster *roster, uint16_t *ranks, size_t capacity);

#endif
