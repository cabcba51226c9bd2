/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the pushes and pulls of a handle took. */
#include "hd_message.h"
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

static_assert(HD_HISTOGRAM_BUCKETS_MAX <= HEDDLE_TIMES_BUCKETS_MAX, "heddle_times");

static const struct hd_histogram *
histogram_of(const struct hd_worker_times times[2], enum heddle_time which) {
	switch (which) {
	case HEDDLE_TIME_PUSH_GRANT:
		return &times[HD_PUSH].grant_wait;
	case HEDDLE_TIME_PUSH_FIRST_CHUNK:
		return &times[HD_PUSH].first_chunk;
	case HEDDLE_TIME_PUSH:
		return &times[HD_PUSH].whole;
	case HEDDLE_TIME_PULL_GRANT:
		return &times[HD_PULL].grant_wait;
	case HEDDLE_TIME_PULL_FIRST_CHUNK:
		return &times[HD_PULL].first_chunk;
	case HEDDLE_TIME_PULL:
		return &times[HD_PULL].whole;
	}
	return NULL;
}

int heddle_get_times(struct heddle *fabric, enum heddle_time which, struct heddle_times *times) {
	const struct hd_scale *scale = &hd_scale_time;
	const struct hd_histogram *of;
	struct hd_histogram now;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	of = histogram_of(fabric->times, which);
	if (!of)
		return heddle_fail(-EINVAL, "which: %d is no time", (int)which);
	if (!times || times->size != sizeof *times)
		return heddle_fail(-EINVAL, "times: NULL, or size");
	pthread_mutex_lock(&fabric->lock);
	now = *of;
	pthread_mutex_unlock(&fabric->lock);
	*times = (struct heddle_times){
		.size = sizeof *times,
		.buckets = scale->count + 1U,
		.count = now.count,
		.sum_s = (double)now.sum * scale->metric_size,
		.max_s = (double)now.max * scale->metric_size,
	};
	for (uint32_t i = 0; i < times->buckets; i++) {
		times->upper_s[i] = i < scale->count ?
			(double)scale->bounds[i].most * scale->metric_size :
			(double)INFINITY;
		times->counts[i] = now.bucket[i];
	}
	return 0;
}

const char *heddle_time_name(enum heddle_time which) {
	static const char *const names[HEDDLE_TIME_COUNT] = {
		"push_grant",
		"push_first_chunk",
		"push",
		"pull_grant",
		"pull_first_chunk",
		"pull",
	};

	return (unsigned)which < HEDDLE_TIME_COUNT ? names[which] : "unknown";
}
