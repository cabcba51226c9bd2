/* SPDX-License-Identifier: BSD-3-Clause */
/* The values for a number of workers and for the next step: N, tau_max, and the factor on updates. */
#include "hd_elastic.h"
#include "hd_elastic_policy.h"

#include <math.h>
#include <string.h>

static const char *const scales[] = {
	[HD_ELASTIC_RATE_FIXED] = "none",
	[HD_ELASTIC_RATE_GROWING] = "growing",
	[HD_ELASTIC_RATE_TO] = "falling-to",
	[HD_ELASTIC_RATE_FALLING] = "falling",
	[HD_ELASTIC_RATE_LINEAR] = "linear",
};

const char *hd_elastic_scale_name(enum hd_elastic_rate_rule rule) {
	return scales[rule];
}

bool hd_elastic_scale_find(const char *name, enum hd_elastic_rate_rule *rule) {
	for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
		if (strcmp(scales[i], name) != 0)
			continue;
		*rule = (enum hd_elastic_rate_rule)i;
		return true;
	}
	return false;
}

static uint32_t share_of(double factor, uint32_t workers, uint32_t most) {
	double x = ceil(factor * workers - 1e-9);

	return x < 1 ? 1 : x > most ? most : (uint32_t)x;
}

/* The factor on updates of the step after the newest; 0: the job's. */
static double scale_of(const struct hd_elastic *e, uint32_t workers) {
	const struct hd_elastic_common *c = &e->common;
	const bool to = c->scale == HD_ELASTIC_RATE_TO;
	const uint64_t step = e->account.steps + 1;
	const struct hd_elastic_rate rate = {
		.rule = c->scale,
		.first = to ? 1 - c->scale_to : 1,
		.factor = c->scale_factor,
		.last = to ? c->scale_to : c->scale_max,
		.every = c->scale_every,
	};
	double scale;

	if (c->scale == HD_ELASTIC_RATE_FIXED
	    || (c->scale == HD_ELASTIC_RATE_LINEAR && !(c->base > 0)))
		return 0;
	scale = hd_elastic_rate_at(&rate, step < UINT32_MAX ? (uint32_t)step : UINT32_MAX, workers);
	if (c->scale == HD_ELASTIC_RATE_LINEAR)
		scale /= c->base;
	return fmin(scale, c->scale_max);
}

struct hd_elastic_shape
hd_elastic_shape(const struct hd_elastic *e, const struct hd_elastic_job *job, uint32_t workers) {
	struct hd_elastic_shape shape = {0};
	const struct hd_elastic_common *c = &e->common;

	if (!e->policy || e->target == 0)
		return shape;
	workers = workers > e->target ? e->target : workers;
	workers = workers < 1 ? 1 : workers;
	if (c->sync > 0 && job->counts)
		shape.sync_count = share_of(c->sync, workers, workers);
	if (c->tau > 0 && job->bounds && job->tau_max > 0)
		shape.tau_max = share_of(c->tau, workers, job->tau_max);
	shape.scale = (float)scale_of(e, workers);
	return shape;
}
