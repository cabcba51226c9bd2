/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of synchronous training by all-reduce: its beginning, its stages in turn, its end. */
#include "train_sync_far.h"
#include "train_waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define DRAIN_MS 5000 /* for sums that others still need from this worker */
#define PROGRESS_NS (2 * HD_SECOND)

/* --- the beginning -------------------------------------------------------------------------- */

/* Not those that only this worker follows: data, batch, compute time, seconds. */
static int write_settings(struct train_sync *sync) {
	const struct train_options *options = &sync->train->options;
	const uint32_t base = !options->scaled ? 0 :
		options->scale_base > 0        ? options->scale_base :
						 (uint32_t)heddle_world_size(sync->fabric);
	const int length = snprintf(
		sync->settings,
		sizeof sync->settings,
		"model=%.256s values=%llu seed=%llu lr=%.9g momentum=%.9g weight-decay=%.9g "
		"scale-rate=%u steps=%llu check-every=%llu bucket-values=%llu wait-ms=%u",
		options->model,
		(unsigned long long)sync->train->values,
		(unsigned long long)options->seed,
		(double)options->rate,
		(double)options->momentum,
		(double)options->decay,
		base,
		(unsigned long long)options->steps,
		(unsigned long long)options->reduce.check_every,
		(unsigned long long)sync->buckets.each,
		options->reduce.wait_ms
	);

	return length < (int)sizeof sync->settings ? EX_OK :
						     train_fail(EX_SOFTWARE, "settings: too long");
}

static int take_memory(struct train_sync *sync) {
	const struct train_options *options = &sync->train->options;
	const uint64_t values = sync->train->values;
	uint64_t all;

	hd_buckets_init(&sync->buckets, values, (uint64_t)options->reduce.bucket_kib << 10);
	all = sync->buckets.count * hd_bucket_buffer(&sync->buckets);
	sync->summary.sync.buckets = sync->buckets.count;
	sync->summary.sync.bucket_bytes = sync->buckets.each * sizeof(float);
	sync->grad = calloc(values, sizeof(float));
	sync->momentum = calloc(values, sizeof(float));
	sync->give = calloc(all, sizeof(float));
	sync->sum = calloc(all, sizeof(float));
	return sync->grad && sync->momentum && sync->give && sync->sum ?
		train_sync_far_init(sync) :
		train_no_memory("gradients");
}

/* The job has no model at a server: its description has a name and no tensors. */
static int open_job(struct train_sync *sync) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	const char *controller = getenv("HEDDLE_CONTROLLER");
	struct heddle_spec *spec = NULL;
	int rc;

	if (!controller || !*controller)
		return train_fail(
			EX_USAGE,
			"sync: allreduce needs a controller (HEDDLE_CONTROLLER), and no server"
		);
	train_log_options(&options);
	rc = heddle_spec_create(NULL, getenv("HEDDLE_JOB"), &spec);
	if (rc == 0) {
		heddle_spec_set_integrity(spec, !sync->train->options.unsealed);
		rc = heddle_open(spec, &options, &sync->fabric);
	}
	heddle_spec_destroy(spec);
	if (rc == -EAGAIN)
		return train_no_memory("a thread");
	return rc < 0 ? train_heddle_error("fabric", rc) : EX_OK;
}

/* A worker beyond the number that began shares the rows of another, in another order. */
static int open_sampler(struct train_sync *sync) {
	struct train *train = sync->train;
	const struct train_options *options = &train->options;
	const uint32_t rank = (uint32_t)sync->summary.rank;
	const uint32_t world = (uint32_t)heddle_world_size(sync->fabric);
	const int rc = hd_sampler_init(
		&train->sampler,
		&train->train,
		rank,
		world,
		options->batch,
		options->seed + rank / world
	);

	if (rc < 0)
		return rc == -ENOMEM ? train_no_memory("minibatches") :
				       train_fail(EX_USAGE, "batch: no rows for this rank");
	for (uint64_t i = 0; i < options->first_step; i++)
		hd_sampler_next(&train->sampler);
	return EX_OK;
}

static int begin(struct train_sync *sync) {
	int status = take_memory(sync);

	if (status == EX_OK)
		status = open_job(sync);
	if (status != EX_OK)
		return status;
	train_notice_to(sync->fabric, sync->train->options.grace);
	sync->summary.rank = heddle_rank(sync->fabric);
	status = open_sampler(sync);
	if (status == EX_OK)
		status = write_settings(sync);
	if (status == EX_OK)
		status = train_loss_open(&sync->loss, sync->train, sync->summary.rank);
	return status == EX_OK ? train_sync_log_open(sync) : status;
}

/* --- the stages ----------------------------------------------------------------------------- */

static bool is_finished(const struct train_sync *sync) {
	const struct train_options *options = &sync->train->options;

	return sync->ended || (options->steps > 0 && sync->step >= options->steps);
}

static bool must_compare(const struct train_sync *sync) {
	const uint64_t every = sync->train->options.reduce.check_every;
	const bool due = every > 0 && sync->step > 0 && sync->step % every == 0;

	return (due || is_finished(sync)) && !(sync->compared && sync->checked == sync->step);
}

static void progress(struct train_sync *sync) {
	const struct train_summary *summary = &sync->summary;
	const hd_ns now = hd_compute_now();

	if (sync->train->options.quiet || now < sync->printed + PROGRESS_NS)
		return;
	sync->printed = now;
	train_log_progress(&(struct train_progress){
		.steps = summary->steps,
		.version = sync->step,
		.loss = summary->steps ? summary->loss_sum / (double)summary->steps : 0.0,
		.applied = sync->step - summary->sync.joined_step,
	});
}

static enum train_end train_on(struct train_sync *sync) {
	if (must_compare(sync))
		return train_sync_check(sync);
	progress(sync);
	return train_sync_step(sync);
}

/* Until the run is over, for all or for this worker. An exit status. */
static int run(struct train_sync *sync) {
	enum train_end end = TRAIN_END_DONE;

	while (end <= TRAIN_END_STAGE) {
		if (train_stop || train_no_time(sync->fabric, sync->step_ms))
			return EX_OK;
		if (sync->stage == TRAIN_STAGE_ATTENDING)
			end = train_sync_attend(sync);
		else if (sync->stage == TRAIN_STAGE_ROLL)
			end = train_sync_roll(sync);
		else if (is_finished(sync) && !must_compare(sync))
			return train_sync_evaluate(sync, true);
		else
			end = train_on(sync);
	}
	return end == TRAIN_END_FAILED ? sync->status : EX_OK;
}

/* --- the end -------------------------------------------------------------------------------- */

static void give_memory_back(struct train_sync *sync) {
	for (uint32_t i = 0; i < HD_BUCKETS_MAX; i++)
		heddle_ticket_free(sync->ticket[i]);
	hd_sampler_fini(&sync->train->sampler);
	train_sync_far_fini(sync);
	free(sync->grad);
	free(sync->momentum);
	free(sync->give);
	free(sync->sum);
}

static void sum_up(struct train_sync *sync) {
	struct train_summary *summary = &sync->summary;

	train_summary_fabric(summary, sync->fabric);
	summary->preempted = heddle_time_left_ms(sync->fabric) >= 0;
	summary->version = sync->step;
	summary->sync.any = true;
	summary->sync.equal = sync->compared && sync->checked == sync->step;
}

int train_sync(struct train *train) {
	struct train_sync *sync = calloc(1, sizeof *sync);
	int status, rc;

	if (!sync)
		return train_no_memory("the worker");
	sync->train = train;
	sync->summary.role = "worker";
	memset(train->params, 0, train->values * sizeof(float));
	status = begin(sync);
	if (status == EX_OK) {
		status = run(sync);
		sum_up(sync);
	}
	train_notice_to(NULL, 0);
	rc = train_close(sync->fabric, DRAIN_MS);
	if (rc < 0 && rc != -ETIMEDOUT && status == EX_OK)
		status = train_heddle_error("leaving", rc);
	if (train_loss_close(&sync->loss, train) != EX_OK && status == EX_OK)
		status = EX_IOERR;
	if (train_sync_log_close(sync) != EX_OK && status == EX_OK)
		status = EX_IOERR;
	if (status == EX_OK)
		status = train_summary_write(train, &sync->summary);
	give_memory_back(sync);
	free(sync);
	return status;
}
