/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One step: buckets leave while backward computes the next, and the model moves when all sums are there. So a step
 * whose sums do not all arrive is no step, at any worker, and is made again from the same minibatch.
 */
#include "hd_kernels.h"
#include "train_steps.h"
#include "train_sync_far.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <sysexits.h>

/* Share of a step's padded time that is not backward: its two products of matrices take twice as long as forward's. */
#define FORWARD (1.0 / 3)

static void start_buckets(struct train_sync *sync, uint32_t ready) {
	const struct train_options *options = &sync->train->options;
	const struct hd_buckets *buckets = &sync->buckets;
	const uint64_t values = hd_bucket_buffer(buckets);
	const double seconds = (double)(hd_compute_now() - sync->train->begun) * 1e-9;
	const struct hd_share share = {
		.samples = sync->train->sampler.batch,
		.loss = sync->last_loss,
		.ends
		= options->seconds > 0.0 && seconds + sync->step_ms * 1e-3 >= options->seconds,
	};
	struct heddle_collective_options how = train_sync_bucket(sync);

	how.memory = train_memory_kind(sync->train);
	how.stream = train_far_stream(sync->train);
	for (; sync->started < ready && sync->start_error == 0; sync->started++) {
		const uint32_t i = sync->started;
		float *give = sync->at.give + i * values, *sum = sync->at.sum + i * values;

		if (!sync->train->far)
			hd_bucket_pack(buckets, i, sync->grad, &share, give);
		else if (train_sync_far_pack(sync, i, &share) != EX_OK)
			sync->start_error = -EIO;
		if (sync->start_error == 0)
			sync->start_error = heddle_allreduce_start(
				sync->fabric, give, sum, values, &how, &sync->ticket[i]
			);
		if (sync->start_error != 0)
			return;
	}
}

/* Backward has computed down to `first`. The last of it leaves when the step's time is over. */
static void on_ready(void *arg, uint64_t first, double loss) {
	struct train_sync *sync = arg;
	struct train *train = sync->train;
	const double share = (double)(train->values - first) / (double)train->values;

	sync->last_loss = loss;
	if (first == 0)
		return;
	if (train->options.compute_ms > 0.0)
		hd_compute_hold(&train->compute, sync->begun, FORWARD + (1 - FORWARD) * share);
	start_buckets(sync, hd_buckets_ready(&sync->buckets, first));
}

static int compute(struct train_sync *sync) {
	struct train *train = sync->train;
	const struct hd_model_watch watch = {on_ready, sync};
	int status;

	train_watch(train, &watch);
	status = train_gradient_of(
		train, sync->at.grad, !sync->has_batch, sync->begun, &sync->summary
	);
	train_watch(train, &(struct hd_model_watch){0});
	sync->has_batch = true;
	if (status == EX_OK)
		start_buckets(sync, sync->buckets.count);
	return status;
}

static enum train_end total_of(struct train_sync *sync, uint32_t i, struct hd_total *total) {
	if (!sync->train->far) {
		*total = hd_bucket_total(
			&sync->buckets, sync->sum + i * hd_bucket_buffer(&sync->buckets)
		);
		return TRAIN_END_DONE;
	}
	sync->status = train_sync_far_total(sync, i, total);
	return sync->status == EX_OK ? TRAIN_END_DONE : TRAIN_END_FAILED;
}

/* All of them, as the others have started them, too. */
static enum train_end
wait_for_buckets(struct train_sync *sync, struct hd_total *totals, struct heddle_status *status) {
	const hd_ns begun = hd_compute_now();
	enum train_end all = TRAIN_END_DONE;

	for (uint32_t i = 0; i < sync->started && all <= TRAIN_END_STAGE; i++) {
		enum train_end end = train_sync_wait(sync, sync->ticket[i], status);

		if (end == TRAIN_END_DONE)
			end = total_of(sync, i, &totals[i]);
		all = end > all ? end : all;
	}
	sync->summary.sync.wait_ns += hd_compute_now() - begun;
	if (all <= TRAIN_END_STAGE && sync->start_error != 0)
		return train_sync_refused(sync, sync->start_error);
	assert(all > TRAIN_END_STAGE || sync->started == sync->buckets.count);
	return all;
}

/* The owner of the worker count sets it, else --scale-rate does. 1 is also what a sum has without an owner: it is used
 * once there was another value. The same at all workers: both are in the sum, and `owned` is given with the model. */
static float
scale_of(const struct train_sync *sync, const struct heddle_status *status, uint32_t members) {
	const struct train_options *options = &sync->train->options;
	uint32_t base = options->scale_base;

	if (sync->train->owned && status->scale > 0.0f)
		return status->scale;
	if (!options->scaled)
		return 1;
	if (base == 0)
		base = (uint32_t)heddle_world_size(sync->fabric);
	return fminf((float)members / (float)base, HEDDLE_SCALE_MAX);
}

/* The same at all workers, as it follows from the sums. */
static enum train_end diverged(struct train_sync *sync, const char *what) {
	sync->status = train_fail(
		EX_SOFTWARE,
		"step %llu: %s not finite: the run has diverged, at all workers",
		(unsigned long long)sync->step + 1,
		what
	);
	return TRAIN_END_FAILED;
}

/* Makes one step of a bucket's values with their mean. An exit status. */
static int move_bucket(struct train_sync *sync, uint32_t i, const struct hd_total *total) {
	struct train *train = sync->train;
	const struct train_options *options = &train->options;
	const struct hd_buckets *buckets = &sync->buckets;
	const struct hd_sgd sgd = {options->rate, options->momentum, options->decay};
	const uint64_t first = hd_bucket_first(buckets, i);
	float *sum = sync->sum + i * hd_bucket_buffer(buckets);

	if (train->far)
		return train_sync_far_move(sync, i, total);
	hd_bucket_mean(buckets, i, total, train->scale, sum);
	(void)hd_sgd_apply(
		train->params + first,
		sync->momentum + first,
		sum,
		hd_bucket_values(buckets, i),
		&sgd
	);
	return EX_OK;
}

/* An exit status. */
static int find_if_finite(const struct train *train, bool *finite) {
	if (train->far)
		return train_far_is_finite(train, finite);
	*finite = hd_find_not_finite_f32(train->params, train->values) == train->values;
	return EX_OK;
}

static enum train_end move_model(
	struct train_sync *sync,
	const struct hd_total *totals,
	const struct heddle_status *status
) {
	struct train *train = sync->train;
	const struct hd_buckets *buckets = &sync->buckets;
	bool finite = false;

	for (uint32_t i = 0; i < buckets->count; i++)
		if (!hd_total_has_mean(&totals[i]))
			return diverged(sync, "the loss is");
	train->owned = train->owned
		|| (status->scale > 0.0f && (status->scale > 1.0f || status->scale < 1.0f));
	for (uint32_t i = 0; i < buckets->count; i++) {
		train->scale = scale_of(sync, status, totals[i].members);
		sync->status = move_bucket(sync, i, &totals[i]);
		if (sync->status != EX_OK)
			return TRAIN_END_FAILED;
		train->averaged = totals[i].members;
		if (totals[i].joining)
			sync->stage = TRAIN_STAGE_ROLL;
		sync->ended = sync->ended || totals[i].ends;
	}
	sync->status = find_if_finite(train, &finite);
	if (sync->status != EX_OK)
		return TRAIN_END_FAILED;
	if (!finite)
		return diverged(sync, "the model is");
	sync->step++;
	sync->has_batch = false;
	sync->recoveries = 0;
	sync->summary.sync.workers = train->averaged;
	return TRAIN_END_DONE;
}

int train_sync_evaluate(struct train_sync *sync, bool at_end) {
	const uint32_t every = sync->train->options.eval_every;

	if (every == 0 || sync->evaluated == sync->step + 1 || (!at_end && sync->step % every != 0))
		return EX_OK;
	sync->evaluated = sync->step + 1;
	return train_print_evaluation(sync->train, sync->step, stdout, NULL, NULL);
}

static void free_tickets(struct train_sync *sync) {
	for (uint32_t i = 0; i < HD_BUCKETS_MAX; i++) {
		heddle_ticket_free(sync->ticket[i]);
		sync->ticket[i] = NULL;
	}
}

static void report(struct train_sync *sync, const struct hd_total *totals) {
	sync->step_ms = (double)(hd_compute_now() - sync->begun) * 1e-6;
	train_loss_row(&sync->loss, sync->train, sync->fabric, sync->step, &sync->summary);
	train_sync_log_step(sync, totals[0].loss);
	train_report_step(sync->train, sync->fabric, &sync->summary, sync->step_ms);
}

enum train_end train_sync_step(struct train_sync *sync) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct hd_total totals[HD_BUCKETS_MAX] = {0};
	enum train_end end;

	sync->begun = hd_compute_now();
	sync->started = 0;
	sync->start_error = 0;
	sync->status = train_sync_evaluate(sync, false);
	if (sync->status == EX_OK)
		sync->status = train_follow(sync->train, sync->fabric, &sync->change);
	if (sync->status == EX_OK)
		sync->status = compute(sync);
	if (sync->status != EX_OK)
		return TRAIN_END_FAILED;
	end = wait_for_buckets(sync, totals, &status);
	if (end == TRAIN_END_STAGE)
		sync->summary.sync.repeated++;
	if (end == TRAIN_END_DONE)
		end = move_model(sync, totals, &status);
	if (end == TRAIN_END_DONE)
		report(sync, totals);
	free_tickets(sync);
	return end;
}
