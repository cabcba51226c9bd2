/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: how long pushes and pulls took, as histograms. docs/operations.md has those of the other nodes. */
#ifndef HEDDLE_TIMES_H
#define HEDDLE_TIMES_H

#include "heddle_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_TIMES_BUCKETS_MAX 32

enum heddle_time {
	/* From the request until its grant is here, whichever node gives it; again with each request. Small ones that are
	 * granted in advance are in neither of the first two. */
	HEDDLE_TIME_PUSH_GRANT,
	/* From there until the first chunk leaves: what the schedule has it wait for. */
	HEDDLE_TIME_PUSH_FIRST_CHUNK,
	/* From the call until it is applied, of those that are. */
	HEDDLE_TIME_PUSH,
	/* From the request until the word that it comes. */
	HEDDLE_TIME_PULL_GRANT,
	/* From there until the first chunk is here. */
	HEDDLE_TIME_PULL_FIRST_CHUNK,
	/* From the call until all of it is delivered, of those that are. */
	HEDDLE_TIME_PULL
};
#define HEDDLE_TIME_COUNT 6

struct heddle_times {
	size_t size;
	uint32_t buckets; /* in use, <= HEDDLE_TIMES_BUCKETS_MAX */
	/* [i]: a bucket's greatest time, in seconds (of the last: infinite), and how many are in it, not in those before. */
	double upper_s[HEDDLE_TIMES_BUCKETS_MAX];
	uint64_t counts[HEDDLE_TIMES_BUCKETS_MAX];
	uint64_t count; /* of all */
	double sum_s, max_s;
};

#ifdef __cplusplus
#define HEDDLE_TIMES_INIT                                                                          \
	{ sizeof(struct heddle_times), 0, {0}, {0}, 0, 0, 0 }
#else
#define HEDDLE_TIMES_INIT                                                                          \
	{ .size = sizeof(struct heddle_times) }
#endif

/* Since the handle was opened. -EINVAL (which, size), -ECHILD. */
int heddle_get_times(struct heddle *fabric, enum heddle_time which, struct heddle_times *times);
/* "push_grant", "pull", ...; "unknown" of any other value. Never NULL. */
const char *heddle_time_name(enum heddle_time which);

#ifdef __cplusplus
}
#endif

#endif
