/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of an asynchronous worker.
 *
 *   pull (if there is something newer) -> gradient, padded -> push: in flight while the next one computes
 *
 * At most --inflight pushes are in flight, each with a gradient buffer of its own that is lent to the library. A
 * dropped push needs no action but the next pull.
 */
#include "train_far.h"
#include "train_filter.h"
#include "train_loss.h"
#include "train_sparse.h"
#include "train_steps.h"
#include "train_summary.h"
#include "train_waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define DRAIN_MS 5000 /* for transfers in flight at the end */
#define FLUSHES_MAX 4
#define PROGRESS_NS (2 * HD_SECOND)

struct worker {
	struct train *train;
	struct train_summary summary;
	struct heddle *fabric;
	uint64_t version; /* of params; 0: none yet */
	float *grad[PUSHES_MAX];
	struct train_sparse sparse[PUSHES_MAX]; /* lent with it */
	struct train_filter filter;
	struct train_loss loss;
	struct train_steps own; /* for each update */
	struct heddle_ticket *ticket[PUSHES_MAX];
	hd_ns printed;
	double step_ms; /* the last one took */
	uint64_t change; /* the change of members for the present rows and scale */
};

static void pause_ms(unsigned ms) {
	struct timespec span = {.tv_nsec = (long)ms * 1000000};

	(void)nanosleep(&span, NULL);
}

/* Waits in slices. True when the ticket is in the state; false: a signal, or the run or this worker's time is over. */
static bool wait_for(
	struct worker *worker,
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	struct heddle_status *status
) {
	for (;;) {
		int rc = heddle_ticket_wait(ticket, until, SLICE_MS, status);

		if (rc != -ETIMEDOUT)
			return rc == 0;
		if (train_enough(worker->train, worker->summary.steps)
		    || train_no_time(worker->fabric, 0))
			return false;
	}
}

static void take_result(struct worker *worker, uint32_t slot) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	(void)heddle_ticket_test(worker->ticket[slot], &status);
	train_summary_push(&worker->summary, &status);
	/* Whether one that failed because its machine goes is in the model is unknown. */
	if (worker->filter.filter && status.state != HEDDLE_STATE_APPLIED
	    && status.reason != HEDDLE_REASON_PREEMPTED)
		(void)heddle_filter_return(worker->filter.filter, worker->grad[slot]);
	train_steps_end(&worker->own, &status);
	heddle_ticket_free(worker->ticket[slot]);
	worker->ticket[slot] = NULL;
}

/* A gradient buffer that is not in use, after a wait if needed; NULL at the end of the run. */
static float *free_slot(struct worker *worker, uint32_t *out) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < worker->train->options.inflight; i++) {
		if (!worker->ticket[i]) {
			*out = i;
			return worker->grad[i];
		}
		(void)heddle_ticket_test(worker->ticket[i], &status);
		if (status.released) {
			take_result(worker, i);
			*out = i;
			return worker->grad[i];
		}
	}
	/* They come back in any order; the one with the smallest round has waited longest. */
	for (uint32_t i = 1; i < worker->train->options.inflight; i++) {
		struct heddle_status other = HEDDLE_STATUS_INIT;

		(void)heddle_ticket_test(worker->ticket[oldest], &status);
		(void)heddle_ticket_test(worker->ticket[i], &other);
		oldest = other.started_ns < status.started_ns ? i : oldest;
	}
	if (!wait_for(worker, worker->ticket[oldest], HEDDLE_WAIT_RELEASED, &status))
		return NULL;
	take_result(worker, oldest);
	*out = oldest;
	return worker->grad[oldest];
}

/* Pulls a newer version than the present one. 0: there is a model to compute with, 1: the end of the run, < 0: the
 * fabric is lost. */
static int pull(struct worker *worker) {
	struct heddle_pull_options newer = HEDDLE_PULL_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket;
	int rc;

	newer.conditional = worker->version != 0;
	newer.have = worker->version;
	newer.payload = worker->train->options.pull_payload;
	newer.memory = train_memory_kind(worker->train);
	newer.stream = train_far_stream(worker->train);
	rc = heddle_pull_start(worker->fabric, train_params(worker->train), &newer, &ticket);
	if (rc < 0)
		return rc;
	if (!wait_for(worker, ticket, HEDDLE_WAIT_OUTCOME, &status)) {
		/* The buffer must be released before leaving. */
		(void)heddle_ticket_cancel(ticket);
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, DRAIN_MS, &status);
		worker->version = status.state == HEDDLE_STATE_APPLIED ? status.version : 0;
		rc = 1;
	} else if (status.state == HEDDLE_STATE_APPLIED) {
		worker->version = status.version;
		worker->summary.delivered++;
		if (worker->filter.filter)
			(void)heddle_filter_reapply(worker->filter.filter, worker->train->params);
		if (status.granted)
			worker->summary.granted_bytes += status.bytes;
		else
			worker->summary.direct_bytes += status.bytes;
	} else if (status.reason == HEDDLE_REASON_NOT_MODIFIED) {
		worker->summary.not_modified++;
	} else {
		/* params may hold a mixture of versions. */
		worker->version = 0;
		worker->summary.pulls_failed++;
		rc = status.reason == HEDDLE_REASON_NO_MEMORY && worker->train->options.memory_mb ?
			-ENOMEM :
			-EAGAIN;
	}
	heddle_ticket_free(ticket);
	return rc;
}

static void progress(struct worker *worker) {
	const struct train_summary *summary = &worker->summary;
	hd_ns now = hd_compute_now();

	if (worker->train->options.quiet || now < worker->printed + PROGRESS_NS)
		return;
	worker->printed = now;
	train_log_progress(&(struct train_progress){
		.steps = summary->steps,
		.version = HEDDLE_VERSION_COUNTER(worker->version),
		.loss = summary->steps ? summary->loss_sum / (double)summary->steps : 0.0,
		.applied = summary->applied,
		.dropped = summary->dropped,
		.delay_mean = summary->delay_mean,
	});
}

/* The filter's steps are updates, whatever the number of gradients in each. */
static uint64_t updates_made(const struct worker *worker) {
	uint64_t each = worker->train->options.local_steps;

	return (worker->summary.steps + each - 1) / each;
}

static int
begin_push(struct worker *worker, uint32_t slot, const struct heddle_push_options *options) {
	struct train_sparse *sparse = &worker->sparse[slot];
	const float *grad = worker->grad[slot];
	struct heddle_sparse update = {.ranges = sparse->runs, .data = sparse->data};
	int rc = -E2BIG;

	if (worker->filter.filter)
		return train_filter_push(
			&worker->filter,
			worker->train,
			worker->fabric,
			&(struct heddle_filter_step){
				.x = worker->train->params,
				.update = worker->grad[slot],
				.step = updates_made(worker),
				.base = worker->version,
			},
			&worker->ticket[slot]
		);
	if (worker->train->options.sparse
	    && train_sparse_pack(sparse, grad, worker->train->values)) {
		update.range_count = sparse->run_count;
		rc = heddle_push_sparse_start(
			worker->fabric, &update, worker->version, options, &worker->ticket[slot]
		);
	}
	if (rc == -E2BIG)
		rc = heddle_push_start(
			worker->fabric, grad, worker->version, options, &worker->ticket[slot]
		);
	return rc;
}

static int push(struct worker *worker, uint32_t slot) {
	struct heddle_push_options lend = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	int rc;

	lend.borrow = 1;
	lend.payload = worker->train->options.payload;
	lend.scale = train_steps_scale(&worker->own, worker->train);
	lend.memory = train_memory_kind(worker->train);
	lend.stream = train_far_stream(worker->train);
	rc = begin_push(worker, slot, &lend);
	if (rc != 0)
		return rc < 0 ? rc : 0; /* no value is significant */
	worker->summary.pushed++;
	if (worker->train->options.synchronous
	    && wait_for(worker, worker->ticket[slot], HEDDLE_WAIT_RELEASED, &status))
		take_result(worker, slot);
	return 0;
}

/* After every Nth pull, whether or not it brought a newer version. */
static int evaluate(struct worker *worker) {
	const struct train_summary *summary = &worker->summary;
	uint32_t every = worker->train->options.eval_every;
	uint64_t pulls = summary->delivered + summary->not_modified;

	if (every == 0 || (pulls - 1) % every != 0)
		return EX_OK;
	return train_print_evaluation(
		worker->train, HEDDLE_VERSION_COUNTER(worker->version), stdout, NULL, NULL
	);
}

/* In a step of the first N updates a worker continues at the same version until the step has ended. */
static bool computes_on(const struct worker *worker) {
	return worker->train->options.sync == HD_SYNC_N_BATCH && worker->summary.delivered > 0
		&& !heddle_is_superseded(worker->fabric, worker->version);
}

/* The step whose gradient was computed, from 1. Versions count updates: a step of all has one update for each worker,
 * and each worker computes once for it. */
static uint64_t step_of(const struct worker *worker) {
	const struct train_options *options = &worker->train->options;
	const uint64_t updates = HEDDLE_VERSION_COUNTER(worker->version);

	if (options->sync == HD_SYNC_ALL)
		return updates_made(worker);
	return updates / (options->sync == HD_SYNC_NONE ? 1 : options->sync_count) + 1;
}

/* Returns an exit status. */
static int loop(struct worker *worker) {
	struct train *train = worker->train;

	while (!train_enough(train, worker->summary.steps)) {
		hd_ns begun = hd_compute_now();
		uint32_t slot;
		int rc;

		if (train_no_time(worker->fabric, worker->step_ms))
			break;
		rc = computes_on(worker) ? 0 : pull(worker);
		if (rc == -ESHUTDOWN)
			break;
		if (rc == -EAGAIN) {
			pause_ms(50);
			continue;
		}
		if (rc < 0)
			return train_heddle_error("pull", rc);
		if (rc > 0)
			break;
		rc = evaluate(worker);
		if (rc != EX_OK)
			return rc;
		/* The notice may have come while the worker waited for the model. */
		if (!free_slot(worker, &slot) || train_no_time(worker->fabric, worker->step_ms))
			break;
		rc = train_follow(train, worker->fabric, &worker->change);
		if (rc != EX_OK)
			return rc;
		train_filter_follow(&worker->filter, train, worker->fabric);
		rc = train_steps_compute(&worker->own, train, worker->grad[slot], &worker->summary);
		if (rc != EX_OK)
			return rc;
		train_loss_row(
			&worker->loss, train, worker->fabric, step_of(worker), &worker->summary
		);
		if (train_stop)
			break;
		if (heddle_is_superseded(worker->fabric, worker->version))
			continue; /* its step has ended */
		if (train_last_step(train, worker->summary.steps, worker->step_ms))
			train_filter_end(&worker->filter, train, worker->fabric);
		rc = push(worker, slot);
		worker->step_ms = (double)(hd_compute_now() - begun) * 1e-6;
		if (rc == -ESHUTDOWN)
			break;
		if (rc < 0)
			return train_heddle_error("push", rc);
		train_report_step(train, worker->fabric, &worker->summary, worker->step_ms);
		progress(worker);
	}
	return EX_OK;
}

/* Ends pushes in flight, until the time. */
static void end_pushes(struct worker *worker, hd_ns *until) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	for (uint32_t i = 0; i < PUSHES_MAX; i++) {
		if (worker->ticket[i])
			(void)train_wait(worker->ticket[i], HEDDLE_WAIT_RELEASED, until, &status);
		if (worker->ticket[i] && heddle_ticket_test(worker->ticket[i], &status) == 1
		    && status.released)
			take_result(worker, i);
	}
}

/* Sends the filter's held values as the last update. A synchronous step needs one from the newest version, which may
 * change during the pull: then it is tried again. */
static void flush(struct worker *worker, hd_ns *until) {
	struct train_filter *filter = &worker->filter;

	train_filter_end(filter, worker->train, worker->fabric);
	for (int i = 0; filter->filter && i < FLUSHES_MAX && hd_compute_now() < *until; i++) {
		bool stepped = worker->train->options.sync != HD_SYNC_NONE;
		int left = (int)((*until - hd_compute_now()) / HD_MS);

		if (!train_filter_holds(filter, worker->train->values))
			return;
		if ((stepped || i > 0 || worker->version == 0)
		    && train_pull(
			       worker->fabric, worker->train->params, NULL, left, &worker->version
		       ) != 0)
			return;
		*worker->ticket = train_filter_flush(
			filter, worker->train, worker->fabric, worker->grad[0], worker->version
		);
		if (!*worker->ticket)
			return;
		worker->summary.pushed++;
		end_pushes(worker, until);
	}
}

static bool all_ended(const struct worker *worker) {
	for (uint32_t i = 0; i < PUSHES_MAX; i++)
		if (worker->ticket[i])
			return false;
	return true;
}

/* Ends transfers in flight, within a limit, and sends held values; then pulls the final model, for the summary. */
static void drain(struct worker *worker) {
	hd_ns until = hd_compute_now() + (train_stop ? STOP_MS : DRAIN_MS) * HD_MS;
	struct heddle_pull_options last = HEDDLE_PULL_OPTIONS_INIT;
	const struct train *train = worker->train;
	uint64_t version;

	last.memory = train_memory_kind(train);
	last.stream = train_far_stream(train);
	end_pushes(worker, &until);
	if (!worker->ticket[0])
		flush(worker, &until);
	/* When pushes did not end, the server does not answer: then the present model is the final one. */
	if (!train_stop && all_ended(worker) && heddle_time_left_ms(worker->fabric) < 0
	    && train_pull(worker->fabric, train_params(train), &last, 2000, &version) == 0)
		worker->version = version;
	train_filter_summary(&worker->filter, &worker->summary);
	train_summary_fabric(&worker->summary, worker->fabric);
	worker->summary.preempted = heddle_time_left_ms(worker->fabric) >= 0;
}

static int begin(struct worker *worker) {
	struct train *train = worker->train;
	const struct train_options *options = &train->options;
	struct heddle_options fabric = HEDDLE_OPTIONS_INIT;
	int rc;

	train_log_options(&fabric);
	rc = heddle_open(train->spec, &fabric, &worker->fabric);

	if (rc == -EAGAIN)
		return train_no_memory("a thread");
	if (rc < 0)
		return train_heddle_error("fabric", rc);
	train_notice_to(worker->fabric, options->grace);
	worker->summary.rank = heddle_rank(worker->fabric);
	rc = train_join(train, worker->fabric);
	if (rc != EX_OK)
		return rc;
	rc = hd_sampler_init(
		&train->sampler,
		&train->train,
		(uint32_t)worker->summary.rank,
		(uint32_t)heddle_world_size(worker->fabric),
		options->batch,
		options->seed
	);
	if (rc < 0)
		return rc == -ENOMEM ? train_no_memory("minibatches") :
				       train_fail(EX_USAGE, "batch: no rows for this rank");
	for (uint64_t i = 0; i < options->first_step; i++)
		hd_sampler_next(&train->sampler);
	for (uint32_t i = 0; i < options->inflight; i++) {
		worker->grad[i] = train_array(train, train->values);
		if (!worker->grad[i])
			return train_no_memory("gradients");
		if (options->sparse && train_sparse_init(&worker->sparse[i], train->values) < 0)
			return train_no_memory("gradients");
	}
	rc = train_steps_init(&worker->own, train);
	if (rc != EX_OK)
		return rc;
	return train_filter_init(&worker->filter, train, worker->fabric);
}

int train_worker(struct train *train) {
	struct worker worker = {.train = train, .summary = {.role = "worker"}};
	int status, rc;

	memset(train->params, 0, train->values * sizeof(float));
	status = begin(&worker);
	if (status == EX_OK) {
		status = train_loss_open(&worker.loss, train, (int)worker.summary.rank);
		if (status == EX_OK)
			status = loop(&worker);
		drain(&worker);
		if (train_loss_close(&worker.loss, train) != EX_OK && status == EX_OK)
			status = EX_IOERR;
	}
	train_notice_to(NULL, 0);
	rc = train_close(worker.fabric, DRAIN_MS);
	if (rc < 0 && rc != -ETIMEDOUT && status == EX_OK)
		status = train_heddle_error("leaving", rc);
	for (uint32_t i = 0; i < PUSHES_MAX; i++) {
		if (worker.ticket[i])
			take_result(&worker, i);
		train_sparse_fini(&worker.sparse[i]);
		train_array_free(train, worker.grad[i]);
	}
	train_filter_fini(&worker.filter);
	train_steps_fini(&worker.own, train);
	worker.summary.version = HEDDLE_VERSION_COUNTER(worker.version);
	if (status == EX_OK)
		status = train_summary_write(train, &worker.summary);
	hd_sampler_fini(&train->sampler);
	return status;
}
