/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim's command line, and functions that its files share. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "hd_results.h"

#define SIM_MODES 4 /* enum hd_cluster_mode */
#define SIM_RATES 4 /* of the grid */

enum sim_choice {
	SIM_MODE_DEFAULT,
	SIM_MODE_ONE,
	SIM_MODE_BOTH, /* scheduled, unscheduled */
	SIM_MODE_ALL /* and aggregated before them, if there are aggregators */
};

struct sim_options {
	const char *path;
	bool random; /* scenarios drawn from the seed instead of a file */
	bool seeded;
	uint64_t seed, seeds;
	enum sim_choice choice;
	enum hd_cluster_mode mode;
	const char *json, *trace, *perfetto;
	bool unchecked, quiet;
	/* Of training. */
	bool trains, until_target, grid;
	const char *data;
	double learning_rate, target_accuracy; /* 0: the scenario's */
	double filter; /* v of the workers'; 0: none */
	uint64_t grid_seeds; /* 0: not given */
};

struct sim_trace;

struct sim_session {
	const struct sim_options *options;
	struct hd_scenario scenario;
	struct hd_dataset train, test;
	struct sim_trace *trace;
	struct hd_results_run *runs;
	size_t count;
	/* Results of the grid, by mode; rate 0: not searched. */
	double rate[SIM_MODES];
	struct hd_results_rate tried[SIM_MODES][SIM_RATES];
};

/* Parses; prints help or an error by itself. Returns -1 to continue, else the exit status. */
int sim_parse(int argc, char **argv, struct sim_options *options);

/* The modes to measure, of each seed in this order. */
size_t sim_modes(const struct sim_session *session, enum hd_cluster_mode modes[SIM_MODES]);

/* Runs one cluster with run->seed, mode and learning rate, and fills in the rest. Returns an exit code. */
int sim_run(const struct sim_session *session, struct hd_results_run *run, bool until_target);

/* The output files of the options, for one run. Each returns an exit code, and reports errors. */
int sim_trace_open(const struct sim_options *options, struct sim_trace **trace);
int sim_trace_begin(struct sim_trace *trace, const struct hd_scenario *scenario);
void sim_trace_event(void *owner, const char *node, const struct hd_event *event);
/* 0 or -errno of writing; NULL: 0. */
int sim_trace_close(struct sim_trace *trace);

/* Searches the learning rate with the shortest mean time to the target accuracy for the modes that will be measured,
 * over seeds that follow the measured ones. Returns an exit code. */
int sim_grid(struct sim_session *session);

#endif
