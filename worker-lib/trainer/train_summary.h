/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run of the trainer leaves behind: counts, and a summary as JSON. */
#ifndef TRAIN_SUMMARY_H
#define TRAIN_SUMMARY_H

#include "hd_options.h"
#include "heddle_filter.h"
#include "heddle_times.h"

#define REASONS_MAX 32

struct train_summary {
	const char *role;
	int rank;
	uint64_t steps, pushed, applied, dropped, failed;
	uint64_t dropped_by[REASONS_MAX], failed_by[REASONS_MAX];
	uint64_t delivered, not_modified, pulls_failed;
	uint64_t granted_bytes, direct_bytes;
	uint64_t push_bytes; /* of them: of applied pushes */
	struct heddle_filter_stats filter;
	uint64_t asked_again, fallbacks;
	struct heddle_times times[HEDDLE_TIME_COUNT]; /* all zero without a fabric */
	bool preempted;
	uint64_t version; /* counter of the last model held */
	/* Delays of applied pushes (Welford). */
	double delay_mean, delay_m2;
	uint32_t delay_max;
	double loss_sum;
	double gamma_sum, gamma_max; /* of a federated client's rounds: how inexact its work was */
	uint64_t gammas;
	uint64_t told_steps; /* that the owner of the worker count has heard of */
	double told_loss; /* sum of losses until then */
};

/* After a push: tells the owner of the worker count (heddle_elastic.h) of the steps since it was told last. */
void train_report_step(
	const struct train *train,
	struct heddle *fabric,
	struct train_summary *summary,
	double step_ms
);
void train_summary_push(struct train_summary *summary, const struct heddle_status *status);
/* At the end: what the handle has counted. */
void train_summary_fabric(struct train_summary *summary, struct heddle *fabric);
/* Evaluates the parameters held, and writes the summary where --json says. Returns an exit status. */
int train_summary_write(struct train *train, struct train_summary *summary);

#endif
