/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker makes of who takes part: its rows, its updates' scale, and the time that it has left; what it tells of
 * its steps. */
#include "train_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

bool train_no_time(struct heddle *fabric, double step_ms) {
	int left = heddle_time_left_ms(fabric);

	return left == 0 || (left > 0 && left < step_ms);
}

/* The rows of the ranges, for the sampler; a worker that gets none keeps what it has. */
static int deal(struct train *train, const struct heddle_range *ranges, long count) {
	uint32_t *rows = malloc(sizeof *rows * train->train.rows);
	uint32_t found = 0;
	int rc = -ENOMEM;

	for (long i = 0; rows && i < count; i++)
		for (uint64_t k = 0; k < ranges[i].count; k++)
			rows[found++] = (uint32_t)(ranges[i].first + k);
	if (rows)
		rc = found ? hd_sampler_deal(&train->sampler, rows, found) : 0;
	free(rows);
	return rc;
}

static int
deal_share(struct train *train, struct heddle *fabric, const int *members, size_t member_count) {
	/* At most a range a row. */
	struct heddle_range *ranges = malloc(sizeof *ranges * train->train.rows);
	long count;
	int rc;

	if (!ranges)
		return train_no_memory("the rows");
	count = heddle_shard(
		members,
		member_count,
		train->train.rows,
		heddle_rank(fabric),
		ranges,
		train->train.rows
	);
	/* Not a member (yet, or any more): it keeps its rows. */
	rc = count < 0 ? (int)count : deal(train, ranges, count);
	free(ranges);
	return rc == -ENOMEM ? train_no_memory("the rows") : EX_OK;
}

static bool is_scaled(float scale) {
	return scale > 1.0f || scale < 1.0f;
}

/* An owner that scales sends 1, too, when there are as many members as the rate was chosen for: once it has sent
 * another value, its value is always used. The server itself scales synchronous steps, by the owner's or the job's
 * value (step_scale). */
static void
follow_scale(struct train *train, struct heddle *fabric, const struct heddle_members *members) {
	const struct train_options *options = &train->options;
	const float before = train->scale * train->step_scale;
	uint32_t base = options->scale_base;
	float scale;

	if (base == 0)
		base = (uint32_t)heddle_world_size(fabric);
	train->step_scale = members->step_scale;
	train->owned = train->owned || is_scaled(members->scale);
	if (train->owned || options->sync != HD_SYNC_NONE)
		train->scale = members->scale;
	else if (options->scaled)
		train->scale = heddle_members_scale(members, base, HEDDLE_SCALE_MAX);
	scale = train->scale * train->step_scale;
	if (!options->quiet && (options->scaled || scale > before || scale < before))
		train_log_scale(members, scale);
}

int train_follow(struct train *train, struct heddle *fabric, uint64_t *change) {
	const struct train_options *options = &train->options;
	struct heddle_members members = HEDDLE_MEMBERS_INIT;
	int ranks[HEDDLE_WORKERS_MAX];

	if (heddle_members_change(fabric) == *change
	    || heddle_get_members(fabric, &members, ranks, HEDDLE_WORKERS_MAX) < 0)
		return EX_OK;
	*change = members.change;
	if (options->admm > 0.0f && is_scaled(members.step_scale))
		return train_fail(
			EX_CONFIG,
			"admm: its updates are no gradients, and the job's owner scales them"
		);
	if (!options->allreduce) /* its sums say how many are in them */
		follow_scale(train, fabric, &members);
	return options->live ? deal_share(train, fabric, ranks, members.count) : EX_OK;
}

void train_report_step(
	const struct train *train,
	struct heddle *fabric,
	struct train_summary *summary,
	double step_ms
) {
	const uint64_t each = train->options.local_steps;
	/* A batch's loss is the mean of its rows. Discarded gradients count, too. */
	const uint64_t samples = (summary->steps - summary->reported_steps) * train->sampler.batch;
	const double loss = (summary->loss_sum - summary->reported_loss) * train->sampler.batch;

	/* Refused: a loss that is NaN, which --target and the summary show, too. */
	(void)heddle_report_step(
		fabric, (summary->steps + each - 1) / each, loss, samples, step_ms * 1e-3
	);
	summary->reported_steps = summary->steps;
	summary->reported_loss = summary->loss_sum;
}
