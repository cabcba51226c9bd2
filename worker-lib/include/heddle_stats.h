/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: statistics of a handle. Include heddle.h. */
#ifndef HEDDLE_STATS_H
#define HEDDLE_STATS_H

#include "heddle_base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct heddle_stats {
	size_t size;
	uint64_t pushed, applied, dropped, failed; /* pushed = the other three + pushes in flight */
	uint64_t pulled, delivered;
	uint64_t granted_bytes, direct_bytes; /* of applied pushes and delivered pulls */
	uint64_t asked_again, fallbacks; /* requests that were repeated; switches to direct */
	int joined;
	int direct; /* 1: no controller at present */
	uint32_t push_round; /* newest that was started, also by earlier processes; 0: none */
	uint64_t aggregated_bytes; /* part of granted_bytes: added or relayed by an aggregator */
};
#ifdef __cplusplus
#define HEDDLE_STATS_INIT                                                                          \
	{ sizeof(struct heddle_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_STATS_INIT                                                                          \
	{ .size = sizeof(struct heddle_stats) }
#endif
/* Copies the handle's counters. 0, -EINVAL (size), -ECHILD. */
int heddle_get_stats(struct heddle *fabric, struct heddle_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
