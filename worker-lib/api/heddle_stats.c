/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handle says of itself. */
#include "heddle_private.h"

#include <errno.h>

int heddle_rank(const struct heddle *fabric) {
	int rc = heddle_check(fabric);

	return rc < 0 ? rc : fabric->rank;
}

int heddle_world_size(const struct heddle *fabric) {
	int rc = heddle_check(fabric);

	return rc < 0 ? rc : fabric->world_size;
}

int heddle_get_stats(struct heddle *fabric, struct heddle_stats *stats) {
	const struct hd_worker_stats *now;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (!stats || stats->size != sizeof *stats)
		return heddle_fail(-EINVAL, "stats: NULL, or size");
	pthread_mutex_lock(&fabric->lock);
	now = &fabric->stats;
	*stats = (struct heddle_stats){
		.size = sizeof *stats,
		.pushed = now->pushed,
		.applied = now->applied,
		.dropped = now->dropped,
		.failed = now->failed,
		.pulled = now->pulled,
		.delivered = now->delivered,
		.granted_bytes = now->granted_bytes,
		.direct_bytes = now->direct_bytes,
		.asked_again = now->asked_again,
		.fallbacks = now->fallbacks,
		.joined = now->joined,
		.direct = now->direct,
		.push_round = now->push_round,
		.aggregated_bytes = now->aggregated_bytes,
	};
	pthread_mutex_unlock(&fabric->lock);
	return 0;
}
