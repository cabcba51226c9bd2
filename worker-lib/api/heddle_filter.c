/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter between a training loop and its pushes. */
#include "hd_filter.h"
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 1408 /* of a packet, unless the caller of heddle_open() says otherwise */

static_assert(HEDDLE_FILTER_BLOCK_MAX == HD_FILTER_BLOCK_MAX, "limits are the core's");

struct heddle_filter {
	struct hd_significance core;
	struct heddle_filter_stats stats;
};

static int check_filter_options(const struct heddle_filter_options *options, uint64_t values) {
	if (!options || options->size != sizeof *options)
		return heddle_fail(-EINVAL, "filter options: NULL, or size");
	if (values == 0)
		return heddle_fail(-EINVAL, "values: 0");
	if (!(options->v >= 0.0f) || options->v > HD_FILTER_V_MAX)
		return heddle_fail(-EINVAL, "v: %g is not in 0..1e6", (double)options->v);
	if (!isfinite(options->factor) || fpclassify(options->factor) == FP_ZERO)
		return heddle_fail(
			-EINVAL, "factor: %g is 0 or not finite", (double)options->factor
		);
	if (options->block > HD_FILTER_BLOCK_MAX)
		return heddle_fail(
			-EINVAL,
			"block: %u is above %d (HEDDLE_FILTER_BLOCK_MAX)",
			options->block,
			HD_FILTER_BLOCK_MAX
		);
	if ((unsigned)options->decay > HEDDLE_FILTER_DECAY_CONSTANT)
		return heddle_fail(-EINVAL, "decay: %d is unknown", (int)options->decay);
	return 0;
}

int heddle_filter_create(
	uint64_t values,
	const struct heddle_filter_options *options,
	struct heddle_filter **out
) {
	struct hd_filter_settings settings;
	struct heddle_filter *filter;
	int rc = check_filter_options(options, values);

	if (rc < 0)
		return rc;
	if (!out)
		return heddle_fail(-EINVAL, "filter: NULL");
	filter = calloc(1, sizeof *filter);
	if (!filter)
		return heddle_fail(-ENOMEM, "no memory");
	settings = (struct hd_filter_settings){
		.v = options->v,
		.factor = options->factor,
		.block = options->block > 0 ? options->block : 1,
		.bridge = options->bridge,
		.constant = options->decay == HEDDLE_FILTER_DECAY_CONSTANT,
		.always = options->always != 0,
	};
	rc = hd_filter_init(&filter->core, values, &settings);
	if (rc < 0) {
		free(filter);
		return heddle_fail(rc, rc == -ENOMEM ? "no memory" : "values: too many");
	}
	*out = filter;
	return 0;
}

void heddle_filter_destroy(struct heddle_filter *filter) {
	if (!filter)
		return;
	hd_filter_fini(&filter->core);
	free(filter);
}

static void point_at(const struct heddle_filter *filter, struct heddle_sparse *sparse) {
	sparse->ranges = (const struct heddle_range *)(const void *)filter->core.runs;
	sparse->range_count = filter->core.run_count;
	sparse->data = filter->core.data;
}

/* Runs that are longer than the dense update are none. */
static int shorter(const struct heddle_filter *filter, int result) {
	const struct hd_significance *core = &filter->core;

	if (result == HEDDLE_FILTER_RESULT_SPARSE
	    && hd_runs_bytes(core->runs, core->run_count, CHUNK_BYTES)
		    > core->values * sizeof(float))
		return HEDDLE_FILTER_RESULT_DENSE;
	return result;
}

static int
step_of(struct heddle_filter *filter, float *x, float *update, uint64_t step, bool everything) {
	int result = (int)hd_filter_step(
		&filter->core, x, update, step, everything || step == HEDDLE_FILTER_EVERYTHING
	);

	filter->stats.steps++;
	filter->stats.silent += result == HEDDLE_FILTER_RESULT_NOTHING;
	filter->stats.sent_values += filter->core.sent;
	filter->stats.sent_norm = sqrt(filter->core.sent2);
	return shorter(filter, result);
}

int heddle_filter_apply(
	struct heddle_filter *filter,
	float *x,
	float *update,
	uint64_t step,
	struct heddle_sparse *sparse
) {
	int rc;

	if (!filter || !x || !update || !sparse || step == 0)
		return heddle_fail(-EINVAL, "filter, x, update or sparse: NULL, or step: 0");
	rc = step_of(filter, x, update, step, false);
	point_at(filter, sparse);
	return rc;
}

/* Sparse where that is smaller and the payload allows it; else all of the step's update. */
static int send_values(
	struct heddle_filter *filter,
	struct heddle *fabric,
	int result,
	const struct heddle_filter_step *step,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_sparse sparse;
	int rc = -E2BIG;

	if (result == HEDDLE_FILTER_RESULT_SPARSE && filter->core.settings.v > 0.0f
	    && hd_worker_chunk_bytes(fabric->worker) >= HD_RUN_BYTES_MIN
	    && (!options || options->payload == HEDDLE_PAYLOAD_FP32)) {
		point_at(filter, &sparse);
		rc = heddle_push_sparse_start(fabric, &sparse, step->base, options, ticket);
	}
	return rc == -E2BIG ? heddle_push_start(fabric, step->update, step->base, options, ticket) :
			      rc;
}

/* All that a push refuses as nonsense: once the step is made, x has moved. */
static int check_push(
	const struct heddle_filter *filter,
	struct heddle *fabric,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (!filter || !ticket)
		return heddle_fail(-EINVAL, "filter or ticket: NULL");
	rc = heddle_check_push_options(options);
	if (rc == 0 && options)
		rc = heddle_check_host(options->memory, options->stream);
	if (rc < 0)
		return rc;
	if (filter->core.values != fabric->values)
		return heddle_fail(
			-EINVAL,
			"filter: of %llu values, the model has %llu",
			(unsigned long long)filter->core.values,
			(unsigned long long)fabric->values
		);
	rc = heddle_check_not_federated(fabric);
	if (rc < 0)
		return rc;
	if (options && options->borrow && filter->core.settings.v > 0.0f)
		return heddle_fail(-EINVAL, "borrow: the filter's runs are used again");
	return 0;
}

int heddle_filter_push_start(
	struct heddle_filter *filter,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
) {
	int rc = check_push(filter, fabric, options, ticket), result;
	bool everything;

	if (rc < 0)
		return rc;
	if (!step || !step->x || !step->update || step->step == 0)
		return heddle_fail(-EINVAL, "step, x or update: NULL, or its number: 0");
	/* A machine that is taken away keeps nothing back. */
	everything = heddle_time_left_ms(fabric) >= 0;
	result = step_of(filter, step->x, step->update, step->step, everything);
	heddle_report_norms(fabric, filter->stats.sent_norm, sqrt(filter->core.held2));
	/* Without a threshold an update of zeros is one, too. */
	if (result == HEDDLE_FILTER_RESULT_NOTHING && filter->core.settings.v > 0.0f)
		return 1;
	rc = send_values(filter, fabric, result, step, options, ticket);
	if (rc < 0)
		hd_filter_put_back(&filter->core, step->update);
	return rc;
}

int heddle_filter_flush_start(
	struct heddle_filter *filter,
	struct heddle *fabric,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_filter_step step = {.base = base};
	int rc = check_push(filter, fabric, options, ticket), result;

	if (rc < 0)
		return rc;
	step.update = filter->core.held;
	result = shorter(filter, (int)hd_filter_flush(&filter->core));
	if (result == HEDDLE_FILTER_RESULT_NOTHING)
		return 1;
	rc = send_values(filter, fabric, result, &step, options, ticket);
	if (rc < 0)
		return rc;
	filter->stats.flushes++;
	filter->stats.sent_norm = sqrt(filter->core.held2);
	hd_filter_clear(&filter->core);
	return 0;
}

int heddle_filter_take(struct heddle_filter *filter, float *update, struct heddle_sparse *sparse) {
	int result;

	if (!filter || !update || !sparse)
		return heddle_fail(-EINVAL, "filter, update or sparse: NULL");
	result = shorter(filter, (int)hd_filter_flush(&filter->core));
	point_at(filter, sparse);
	memcpy(update, filter->core.held, filter->core.values * sizeof(float));
	filter->stats.flushes += result != HEDDLE_FILTER_RESULT_NOTHING;
	filter->stats.sent_norm = sqrt(filter->core.held2);
	hd_filter_clear(&filter->core);
	return result;
}

int heddle_filter_return(struct heddle_filter *filter, const float *update) {
	if (!filter || !update)
		return heddle_fail(-EINVAL, "filter or update: NULL");
	hd_filter_put_back(&filter->core, update);
	filter->stats.returned++;
	return 0;
}

int heddle_filter_reapply(const struct heddle_filter *filter, float *x) {
	if (!filter || !x)
		return heddle_fail(-EINVAL, "filter or x: NULL");
	if (filter->core.held2 > 0.0)
		hd_filter_reapply(&filter->core, x);
	return 0;
}

int heddle_filter_set_factor(struct heddle_filter *filter, float factor) {
	if (!filter)
		return heddle_fail(-EINVAL, "filter: NULL");
	if (!isfinite(factor) || fpclassify(factor) == FP_ZERO)
		return heddle_fail(-EINVAL, "factor: %g is 0 or not finite", (double)factor);
	if (!hd_filter_refactor(&filter->core, factor))
		return heddle_fail(
			-EINVAL, "factor: %g: what is held would not be finite", (double)factor
		);
	return 0;
}

int heddle_filter_keep(struct heddle_filter *filter, float part) {
	double before;

	if (!filter)
		return heddle_fail(-EINVAL, "filter: NULL");
	if (!(part >= 0.0f) || part > 1.0f)
		return heddle_fail(-EINVAL, "part: %g is not in 0..1", (double)part);
	before = sqrt(filter->core.held2);
	hd_filter_keep(&filter->core, part);
	filter->stats.given_up_norm = (1.0 - (double)part) * before;
	return 0;
}

const float *heddle_filter_held(const struct heddle_filter *filter) {
	return filter ? filter->core.held : NULL;
}

int heddle_filter_get_stats(const struct heddle_filter *filter, struct heddle_filter_stats *stats) {
	if (!filter || !stats || stats->size != sizeof *stats)
		return heddle_fail(-EINVAL, "filter or stats: NULL, or size");
	*stats = filter->stats;
	stats->size = sizeof *stats;
	stats->threshold = filter->core.threshold;
	stats->held_norm = sqrt(filter->core.held2);
	return 0;
}
