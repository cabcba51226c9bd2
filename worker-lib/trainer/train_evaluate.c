/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The observer: joins like a worker, never pushes, pulls new versions, and writes a JSON line for each evaluation. The
 * target counts as reached when the mean of three evaluations, each at least --target-commits after the one before, is
 * at or above it: one lucky evaluation is not enough.
 */
#include "train_waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define OBSERVER_RANK (HD_WORKERS_MAX - 1) /* unless HEDDLE_RANK says otherwise */

struct observer {
	struct train *train;
	struct heddle *fabric;
	FILE *out;
	uint64_t version;
	double sample[TARGET_EVALUATIONS];
	uint64_t samples, sampled_at;
	bool reached;
};

/* Whether this evaluation reaches the target, as the end of the JSON line. */
static const char *count_sample(void *arg, double accuracy) {
	struct observer *observer = arg;
	const struct train_options *options = &observer->train->options;
	uint64_t counter = HEDDLE_VERSION_COUNTER(observer->version);
	double sum = 0.0;

	if (observer->samples > 0 && counter < observer->sampled_at + options->target_commits)
		return "";
	observer->sample[observer->samples++ % TARGET_EVALUATIONS] = accuracy;
	observer->sampled_at = counter;
	for (int i = 0; i < TARGET_EVALUATIONS; i++)
		sum += observer->sample[i];
	observer->reached = options->target > 0.0 && observer->samples >= TARGET_EVALUATIONS
		&& sum / TARGET_EVALUATIONS >= options->target;
	return observer->reached ? ", \"reached\": true" : "";
}

static int evaluate(struct observer *observer) {
	return train_print_evaluation(
		observer->train,
		HEDDLE_VERSION_COUNTER(observer->version),
		observer->out,
		count_sample,
		observer
	);
}

/* Sleeps until the next evaluation is due, a signal, or the end of the run. */
static void sleep_until(const struct train *train, hd_ns when) {
	while (hd_compute_now() < when && !train_enough(train, 0)) {
		hd_ns slice = hd_ns_min(when, hd_compute_now() + SLICE_MS * HD_MS);
		struct timespec at = {
			.tv_sec = (time_t)(slice / HD_SECOND),
			.tv_nsec = (long)(slice % HD_SECOND),
		};

		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
}

static int watch(struct observer *observer) {
	struct train *train = observer->train;
	hd_ns every = train->options.every_ms * HD_MS, next = hd_compute_now();

	while (!observer->reached && !train_enough(train, 0)) {
		struct heddle_pull_options newer = HEDDLE_PULL_OPTIONS_INIT;
		int rc;

		newer.conditional = observer->version != 0;
		newer.have = observer->version;
		rc = train_pull(observer->fabric, train->params, &newer, 1000, &observer->version);
		if (rc == 0)
			rc = evaluate(observer);
		else if (rc == -EIO || rc == -ETIMEDOUT)
			observer->version = 0; /* params may hold a mixture of versions */
		else if (rc < 0)
			return train_heddle_error("pull", rc);
		if (rc > 0 && rc != 1)
			return rc;
		next = hd_ns_max(next + every, hd_compute_now());
		if (!observer->reached)
			sleep_until(train, next);
	}
	return EX_OK;
}

static int open_out(struct observer *observer) {
	const char *path = observer->train->options.json;

	observer->out = !path || strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	return observer->out ? EX_OK :
			       train_fail(EX_CANTCREAT, "json: %s: %s", path, strerror(errno));
}

int train_evaluate(struct train *train) {
	struct observer observer = {.train = train};
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	int status = open_out(&observer), rc;

	if (status != EX_OK)
		return status;
	if (!getenv("HEDDLE_RANK"))
		options.rank = OBSERVER_RANK;
	train_log_options(&options);
	options.observe = 1;
	rc = heddle_open(train->spec, &options, &observer.fabric);
	if (rc < 0)
		status = train_heddle_error("fabric", rc);
	if (status == EX_OK)
		status = train_join(train, observer.fabric);
	if (status == EX_OK)
		status = watch(&observer);
	(void)train_close(observer.fabric, STOP_MS);
	if (observer.out != stdout && fclose(observer.out) != 0 && status == EX_OK)
		status = train_fail(EX_IOERR, "json: %s", strerror(errno));
	if (status == EX_OK && train->options.target > 0.0 && !observer.reached)
		status = train_fail(EX_TEMPFAIL, "target: not reached");
	return status;
}
