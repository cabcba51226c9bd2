/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a planner's input. */
#include "hd_plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static int
fail(struct hd_plan *plan, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(plan->error, sizeof plan->error, format, args);
	va_end(args);
	return -EINVAL;
}

/* Finite and not negative. */
static bool amount_valid(double value) {
	return isfinite(value) && value >= 0;
}

static int check_counts(struct hd_plan *plan, const struct hd_plan_input *in) {
	if (in->link_count > HD_LINKS_MAX)
		return fail(plan, "links: more than %d (HD_LINKS_MAX)", HD_LINKS_MAX);
	if (in->busy_count > HD_PLAN_BUSY_MAX)
		return fail(plan, "busy: more than %d (HD_PLAN_BUSY_MAX)", HD_PLAN_BUSY_MAX);
	if (in->tenant_count > HD_JOBS_MAX)
		return fail(plan, "tenants: more than %d (HD_JOBS_MAX)", HD_JOBS_MAX);
	if (in->job_count > HD_JOBS_MAX)
		return fail(plan, "jobs: more than %d (HD_JOBS_MAX)", HD_JOBS_MAX);
	if (in->item_count > HD_PENDING_MAX)
		return fail(plan, "items: more than %d (HD_PENDING_MAX)", HD_PENDING_MAX);
	if (!(in->ageing_s >= 0))
		return fail(plan, "ageing_s: must not be negative");
	if (!(in->share_min >= 0 && in->share_min <= 1))
		return fail(plan, "share_min: must be within 0..1");
	return 0;
}

static int check_busy(struct hd_plan *plan, const struct hd_plan_input *in) {
	for (uint32_t b = 0; b < in->busy_count; b++) {
		const struct hd_plan_busy *busy = &in->busy[b];

		if (busy->link >= in->link_count)
			return fail(plan, "busy[%u].link: no such link", b);
		if (!isfinite(busy->start) || !isfinite(busy->end) || busy->end < busy->start)
			return fail(plan, "busy[%u].end: must be finite, not before start", b);
		if (!amount_valid(busy->rate))
			return fail(plan, "busy[%u].rate: must be finite, not negative", b);
	}
	return 0;
}

static int check_owners(struct hd_plan *plan, const struct hd_plan_input *in) {
	for (uint32_t t = 0; t < in->tenant_count; t++) {
		if (!(in->tenants[t].weight > 0) || !isfinite(in->tenants[t].weight))
			return fail(plan, "tenants[%u].weight: must be positive", t);
		if (!isfinite(in->tenants[t].deficit))
			return fail(plan, "tenants[%u].deficit: must be finite", t);
		if (!(in->tenants[t].deficit_most >= 0) || !isfinite(in->tenants[t].deficit_most))
			return fail(plan, "tenants[%u].deficit_most: must be 0 or more", t);
	}
	for (uint32_t j = 0; j < in->job_count; j++) {
		const struct hd_plan_job *job = &in->jobs[j];

		if (job->tenant >= in->tenant_count)
			return fail(plan, "jobs[%u].tenant: no such tenant", j);
		if (job->tau_max > HD_TAU_MAX_LIMIT)
			return fail(
				plan,
				"jobs[%u].tau_max: more than %d (HD_TAU_MAX_LIMIT)",
				j,
				HD_TAU_MAX_LIMIT
			);
		if (job->v_init > HD_VERSION_COUNTER_MAX)
			return fail(plan, "jobs[%u].v_init: more than 48 bits", j);
		if (!(job->theta >= 0))
			return fail(plan, "jobs[%u].theta: must not be negative", j);
		if (!isfinite(job->server_free))
			return fail(plan, "jobs[%u].server_free: must be finite", j);
	}
	return 0;
}

static int check_path(struct hd_plan *plan, const struct hd_plan_input *in, uint32_t i) {
	const struct hd_plan_item *item = &in->items[i];

	if (item->path_count > HD_PLAN_PATH_MAX)
		return fail(plan, "items[%u].path: more than %d links", i, HD_PLAN_PATH_MAX);
	for (uint8_t k = 0; k < item->path_count; k++) {
		if (item->path[k] >= in->link_count)
			return fail(plan, "items[%u].path[%u]: no such link", i, k);
		for (uint8_t o = 0; o < k; o++)
			if (item->path[o] == item->path[k])
				return fail(plan, "items[%u].path[%u]: a link twice", i, k);
	}
	return 0;
}

static int check_item(struct hd_plan *plan, const struct hd_plan_input *in, uint32_t i) {
	const struct hd_plan_item *item = &in->items[i];

	if (item->id == 0)
		return fail(plan, "items[%u].id: must not be 0", i);
	if (item->job >= in->job_count)
		return fail(plan, "items[%u].job: no such job", i);
	if (item->direction > HD_PLAN_PULL)
		return fail(plan, "items[%u].direction: unknown", i);
	if (item->version > HD_VERSION_COUNTER_MAX)
		return fail(plan, "items[%u].version: more than 48 bits", i);
	if (!(item->amount > 0) || !isfinite(item->amount))
		return fail(plan, "items[%u].amount: must be positive", i);
	if (!amount_valid(item->waited))
		return fail(plan, "items[%u].waited: must be finite, not negative", i);
	return check_path(plan, in, i);
}

int hd_plan_check(struct hd_plan *plan, const struct hd_plan_input *in) {
	int rc = check_counts(plan, in);

	for (uint32_t l = 0; rc == 0 && l < in->link_count; l++)
		if (!(in->capacity[l] > 0) || !isfinite(in->capacity[l]))
			rc = fail(plan, "capacity[%u]: must be positive", l);
	if (rc == 0)
		rc = check_busy(plan, in);
	if (rc == 0)
		rc = check_owners(plan, in);
	for (uint32_t i = 0; rc == 0 && i < in->item_count; i++)
		rc = check_item(plan, in, i);
	return rc;
}
