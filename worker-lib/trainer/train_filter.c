/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "train_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define BRIDGE 2 /* held values between two sent ones that cost no more than another run */

static uint32_t workers_of(struct heddle *fabric) {
	struct heddle_members members = HEDDLE_MEMBERS_INIT;

	if (!fabric)
		return 1;
	(void)heddle_get_members(fabric, &members, NULL, 0);
	return members.count > 0 ? members.count : (uint32_t)heddle_world_size(fabric);
}

/* The change of the server's model for 1 of this worker's updates: a step of several updates uses their mean. */
static float factor_of(const struct train *train, struct heddle *fabric) {
	const struct train_options *options = &train->options;
	uint32_t of = options->sync_count;

	if (options->sync == HD_SYNC_ALL)
		of = workers_of(fabric);
	return -options->rate * train->scale * train->step_scale
		/ (float)(of > 0 && fabric ? of : 1);
}

int train_filter_init(struct train_filter *filter, struct train *train, struct heddle *fabric) {
	const struct train_options *options = &train->options;
	struct heddle_filter_options how = HEDDLE_FILTER_OPTIONS_INIT;
	int rc;

	/* Sparse updates without a threshold are in train_sparse.c. */
	if (!options->filtered || (options->sparse && !(options->filter > 0.0f)))
		return EX_OK;
	how.v = options->filter;
	how.factor = factor_of(train, fabric);
	how.block = options->filter_block;
	how.bridge = options->filter_block > 1 ? 0 : BRIDGE;
	how.always = fabric && options->sync != HD_SYNC_NONE;
	rc = heddle_filter_create(train->values, &how, &filter->filter);
	if (rc < 0)
		return train_heddle_error("filter", rc);
	filter->update = malloc(train->values * sizeof(float));
	return filter->update ? EX_OK : train_no_memory("the filter");
}

void train_filter_fini(struct train_filter *filter) {
	heddle_filter_destroy(filter->filter);
	free(filter->update);
	*filter = (struct train_filter){0};
}

void train_filter_follow(struct train_filter *filter, struct train *train, struct heddle *fabric) {
	if (filter->filter)
		(void)heddle_filter_set_factor(filter->filter, factor_of(train, fabric));
}

/* A step's number for the filter: every --filter-flush steps all values are sent. */
static uint64_t step_number(const struct train *train, uint64_t step) {
	uint32_t every = train->options.filter_flush;

	return every > 0 && step % every == 0 ? HEDDLE_FILTER_EVERYTHING : step;
}

void train_filter_end(struct train_filter *filter, struct train *train, struct heddle *fabric) {
	uint32_t workers = workers_of(fabric);

	if (!filter->filter || filter->ended)
		return;
	train_filter_follow(filter, train, fabric);
	filter->ended = true;
	/* A worker whose machine is taken away sends all of its held values: the others continue with them. */
	if (!fabric || heddle_time_left_ms(fabric) < 0)
		(void)heddle_filter_keep(filter->filter, 1.0f / (float)(workers > 0 ? workers : 1));
}

int train_filter_push(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	struct heddle_ticket **ticket
) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_filter_step numbered = *step;

	options.payload = train->options.payload;
	options.scale = train->scale;
	numbered.step = filter->ended ? HEDDLE_FILTER_EVERYTHING : step_number(train, step->step);
	return heddle_filter_push_start(filter->filter, fabric, &numbered, &options, ticket);
}

bool train_filter_holds(const struct train_filter *filter, size_t values) {
	return hd_norm2_f32(heddle_filter_held(filter->filter), values) > 0;
}

struct heddle_ticket *train_filter_flush(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	float *update,
	uint64_t base
) {
	struct heddle_push_options scaled = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_ticket *ticket;

	/* This step may have fewer members than when it was computed. */
	train_filter_follow(filter, train, fabric);
	memcpy(update, heddle_filter_held(filter->filter), train->values * sizeof(float));
	scaled.scale = train->scale;
	return heddle_filter_flush_start(filter->filter, fabric, base, &scaled, &ticket) == 0 ?
		ticket :
		NULL;
}

void train_filter_summary(const struct train_filter *filter, struct train_summary *summary) {
	summary->filter = (struct heddle_filter_stats)HEDDLE_FILTER_STATS_INIT;
	if (filter->filter)
		(void)heddle_filter_get_stats(filter->filter, &summary->filter);
}

/* --- in one process ------------------------------------------------------------------------- */

/* Sparse when that is not longer, as heddle_push_sparse_start() has it. */
static void
apply(struct train_model *server, int result, const struct heddle_sparse *sparse, const float *all
) {
	const struct heddle_range *runs = sparse->ranges;
	const float *x = sparse->data;

	if (result == HEDDLE_FILTER_RESULT_DENSE) {
		(void
		)hd_sgd_apply(server->params, server->momentum, all, server->values, &server->sgd);
		return;
	}
	for (size_t i = 0; i < sparse->range_count; i++) {
		(void)hd_sgd_apply(
			server->params + runs[i].first,
			server->momentum + runs[i].first,
			x,
			runs[i].count,
			&server->sgd
		);
		x += runs[i].count;
	}
}

void train_filter_local(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server,
	float *grad,
	uint64_t step
) {
	struct heddle_sparse sparse = {0};
	int result;

	if (train_enough(train, step))
		train_filter_end(filter, train, NULL);
	result = heddle_filter_apply(
		filter->filter,
		train->params,
		grad,
		filter->ended ? HEDDLE_FILTER_EVERYTHING : step_number(train, step),
		&sparse
	);

	if (!(train->options.filter > 0.0f))
		result = HEDDLE_FILTER_RESULT_DENSE;
	if (result == HEDDLE_FILTER_RESULT_NOTHING)
		return; /* nor is there a newer model */
	apply(server, result, &sparse, grad);
	memcpy(train->params, server->params, train->values * sizeof(float));
	(void)heddle_filter_reapply(filter->filter, train->params);
}

void train_filter_local_flush(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server
) {
	struct heddle_sparse sparse = {0};
	int result;

	result = heddle_filter_take(filter->filter, filter->update, &sparse);
	if (result != HEDDLE_FILTER_RESULT_NOTHING)
		apply(server, result, &sparse, filter->update);
	memcpy(train->params, server->params, train->values * sizeof(float));
}
