/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of a run of the trainer: counters, and a summary as JSON. */
#ifndef TRAIN_SUMMARY_H
#define TRAIN_SUMMARY_H

#include "hd_options.h"

#define REASONS_MAX 32

/* Of synchronous training by all-reduce. */
struct train_sync_summary {
	bool any;
	uint32_t workers; /* in the last step */
	uint32_t buckets;
	uint64_t bucket_bytes;
	uint64_t joined_step; /* of the first model that it had */
	uint64_t received; /* models from other workers */
	uint64_t attended; /* buckets of others before that */
	uint64_t repeated; /* steps, of which an attempt failed */
	bool equal; /* to the models of all others, when it ended */
	hd_ns wait_ns; /* for sums, after the gradients */
};

struct train_summary {
	const char *role;
	int rank;
	uint64_t steps, pushed, applied, dropped, failed;
	uint64_t dropped_by[REASONS_MAX], failed_by[REASONS_MAX];
	uint64_t delivered, not_modified, pulls_failed;
	uint64_t granted_bytes, direct_bytes;
	uint64_t push_bytes; /* of these: of applied pushes */
	struct heddle_filter_stats filter;
	uint64_t asked_again, fallbacks;
	struct heddle_times times[HEDDLE_TIME_COUNT]; /* all zero without a fabric */
	bool preempted;
	uint64_t version; /* counter of the last model */
	/* Delays of applied pushes (Welford). */
	double delay_mean, delay_m2;
	uint32_t delay_max;
	double loss_sum;
	double gamma_sum, gamma_max; /* of a federated client's rounds: the work's inexactness */
	uint64_t gammas;
	uint64_t reported_steps; /* that were reported to the owner of the worker count */
	double reported_loss; /* sum of losses of these */
	struct train_sync_summary sync;
};

/* After a push: reports the steps since the last report to the owner of the worker count (heddle_elastic.h). */
void train_report_step(
	const struct train *train,
	struct heddle *fabric,
	struct train_summary *summary,
	double step_ms
);
void train_summary_push(struct train_summary *summary, const struct heddle_status *status);
/* At the end: takes the handle's counters. */
void train_summary_fabric(struct train_summary *summary, struct heddle *fabric);
/* Evaluates the present parameters, and writes the summary to the file of --json. Returns an exit status. */
int train_summary_write(struct train *train, struct train_summary *summary);

#endif
