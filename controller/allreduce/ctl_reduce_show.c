/* SPDX-License-Identifier: BSD-3-Clause */
/* For the shell: for which workers collectives wait, and which they have left out. */
#include "ctl_allreduce.h"
#include "ctl_reduces.h"

#include <stdio.h>

#define SHOWN 8 /* ranks, before their number */

/* The workers for which `is` holds. */
static void
list(const struct ctl_job *job,
     const struct ctl_reduce *r,
     bool (*is)(const struct ctl_job *, const struct ctl_reduce *, uint16_t),
     char text[CTL_RANKS_BYTES]) {
	uint32_t count = 0;
	int at = 0;

	text[0] = '\0';
	for (uint16_t i = 0; job->worker_count > 0 && i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && is(job, r, i) && count++ < SHOWN)
			at += snprintf(
				text + at,
				CTL_RANKS_BYTES - (size_t)at,
				count > 1 ? ", %u" : "%u",
				i
			);
	if (count > SHOWN)
		(void
		)snprintf(text + at, CTL_RANKS_BYTES - (size_t)at, " and %u more", count - SHOWN);
}

static bool is_missing(const struct ctl_job *job, const struct ctl_reduce *r, uint16_t worker) {
	(void)job;
	return r && ctl_reduce_is_idle(r, worker);
}

static bool is_silent(const struct ctl_job *job, const struct ctl_reduce *r, uint16_t worker) {
	(void)r;
	return job->workers[worker]->silent;
}

void ctl_reduce_waits(const struct ctl_job *job, struct ctl_reduce_ranks *ranks) {
	const struct ctl_reduce *oldest = NULL, *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		if (!r->begun && r->count[CTL_PART_ASKED] > 0
		    && (!oldest || r->round < oldest->round))
			oldest = r;
	list(job, oldest, is_missing, ranks->waits_for);
	list(job, NULL, is_silent, ranks->left_out);
}
