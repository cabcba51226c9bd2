/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim's output: a table, and records with the fields of the demo's. */
#ifndef HD_RESULTS_H
#define HD_RESULTS_H

#include "hd_cluster.h"

#include <stdio.h>

/* A tried learning rate: the mean time to the target over the seeds. A run that does not reach it counts with twice the
 * scenario's duration. */
struct hd_results_rate {
	double rate, mean_s;
	uint32_t reached, seeds;
	bool lost; /* given up when it could no longer win: mean_s is a lower bound */
};

struct hd_results_run {
	const char *scenario;
	enum hd_cluster_mode mode;
	uint32_t aggregators; /* of the scenario */
	uint64_t seed;
	uint32_t tau_max;
	double wall_s;
	struct hd_cluster_result result;
	/* Of training. */
	bool trains;
	double learning_rate, target_accuracy;
	double filter; /* 0: none */
	struct hd_curve curve;
	const struct hd_results_rate *tried; /* how the rate was found, or NULL */
	size_t tried_count;
};

/* The demo's name of a mode; with aggregators scheduled is called aggregated. */
const char *hd_results_mode(enum hd_cluster_mode mode, uint32_t aggregators);
double hd_results_mean(const struct hd_check_stats *s);
double hd_results_variance(const struct hd_check_stats *s);
/* Applied a second. */
double hd_results_applied_s(const struct hd_results_run *run);
void hd_results_head(FILE *out, bool trains);
void hd_results_row(FILE *out, const struct hd_results_run *run);
/* A JSON list. 0 or -errno. */
int hd_results_json(const char *path, const struct hd_results_run *runs, size_t count);
/* Compares each pair of `modes` modes over paired seeds; runs come seed by seed, in the same order of modes. */
void hd_results_pairs(FILE *out, const struct hd_results_run *runs, size_t count, size_t modes);

#endif
