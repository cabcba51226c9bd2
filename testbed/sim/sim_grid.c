/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The learning rates: one small grid for every mode, the demo's (testbed/lab/rates.py). A mode's best is the one with
 * the shortest mean time to the target accuracy; a run that does not reach it counts with twice the scenario's
 * duration. A rate is given up as soon as it can no longer be the best.
 */
#include "sim_options.h"

#include <math.h>
#include <sysexits.h>

#define DEFAULT_SEEDS 3

static const double rates[SIM_RATES] = {0.0025, 0.005, 0.01, 0.02};
/* In this order: an early good one saves time with the others. */
static const size_t order[SIM_RATES] = {2, 1, 3, 0};

/* Adds the time of one seed to *sum_s. Beyond `most_s` of virtual time it can no longer win. */
static int try_seed(
	struct sim_session *session,
	struct hd_results_run *run,
	double most_s,
	struct hd_results_rate *tried,
	double *sum_s
) {
	double duration_s = session->scenario.duration_s;
	bool cut = most_s < duration_s;
	int code;

	session->scenario.duration_s = cut ? most_s : duration_s;
	code = sim_run(session, run, true);
	session->scenario.duration_s = duration_s;
	hd_curve_fini(&run->curve);
	if (code != EX_OK)
		return code;
	if (run->result.time_to_accuracy_s >= 0) {
		tried->reached++;
		*sum_s += run->result.time_to_accuracy_s;
	} else {
		tried->lost = cut;
		*sum_s += cut ? most_s : 2 * duration_s;
	}
	return EX_OK;
}

/* best_s: the smallest sum over all seeds so far. */
static int try_rate(
	struct sim_session *session,
	enum hd_cluster_mode mode,
	double best_s,
	struct hd_results_rate *tried
) {
	const struct sim_options *options = session->options;
	uint64_t first = options->seed + options->seeds;
	double sum_s = 0;

	for (uint64_t i = 0; i < tried->seeds && !tried->lost; i++) {
		struct hd_results_run run = {
			.scenario = session->scenario.name,
			.mode = mode,
			.seed = first + i,
			.tau_max = session->scenario.job.tau_max,
			.learning_rate = tried->rate,
		};
		int code = try_seed(session, &run, best_s - sum_s, tried, &sum_s);

		if (code != EX_OK)
			return code;
		tried->lost |= i + 1 < tried->seeds && sum_s >= best_s;
	}
	tried->mean_s = sum_s / tried->seeds;
	return EX_OK;
}

static void show(const struct sim_session *session, enum hd_cluster_mode mode, size_t i) {
	const struct hd_results_rate *tried = &session->tried[mode][i];

	(void
	)printf("grid: %s, %s, learning rate %g: %s%.2f s to accuracy (%u of %u seeds)\n",
		session->scenario.name,
		hd_results_mode(mode, session->scenario.aggregators),
		tried->rate,
		tried->lost ? "more than " : "",
		tried->mean_s,
		tried->reached,
		tried->seeds);
	(void)fflush(stdout);
}

static int search(struct sim_session *session, enum hd_cluster_mode mode) {
	struct hd_results_rate *best = NULL, *tried = session->tried[mode];
	uint64_t seeds = session->options->grid_seeds;

	for (size_t i = 0; i < SIM_RATES; i++)
		tried[i] = (struct hd_results_rate
		){.rate = rates[i], .seeds = seeds ? (uint32_t)seeds : DEFAULT_SEEDS};
	for (size_t i = 0; i < SIM_RATES; i++) {
		struct hd_results_rate *next = &tried[order[i]];
		double best_s = best ? best->mean_s * best->seeds : INFINITY;
		int code = try_rate(session, mode, best_s, next);

		if (code != EX_OK)
			return code;
		if (!best || (!next->lost && next->mean_s < best->mean_s))
			best = next;
		show(session, mode, order[i]);
	}
	session->rate[mode] = best->rate;
	return EX_OK;
}

int sim_grid(struct sim_session *session) {
	enum hd_cluster_mode modes[SIM_MODES];
	size_t count = sim_modes(session, modes);
	int code = EX_OK;

	for (size_t i = 0; code == EX_OK && i < count; i++)
		code = search(session, modes[i]);
	return code;
}
