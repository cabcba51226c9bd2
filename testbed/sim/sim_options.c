/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim's command line. */
#include "hd_option.h"
#include "sim_options.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define SEEDS_MAX 100000

#define LEARNING_RATE_MIN 1e-9
#define LEARNING_RATE_MAX 1e3
#define ACCURACY_MIN 1e-6
#define FILTER_MIN 1e-6
#define FILTER_MAX 1e6
#define UNSEEDED UINT64_MAX

static int bad(const char *field, const char *what) {
	(void)fprintf(stderr, "heddle-sim: %s: %s\n", field, what);
	return EX_USAGE;
}

static int take_mode(void *values, const char *text) {
	struct sim_options *options = values;

	options->choice = SIM_MODE_ONE;
	if (strcmp(text, "aggregated") == 0)
		options->mode = HD_CLUSTER_SCHEDULED;
	else if (strcmp(text, "scheduled") == 0)
		options->mode = HD_CLUSTER_ALONE;
	else if (strcmp(text, "unscheduled") == 0)
		options->mode = HD_CLUSTER_UNSCHEDULED;
	else if (strcmp(text, "direct") == 0)
		options->mode = HD_CLUSTER_DIRECT;
	else if (strcmp(text, "both") == 0)
		options->choice = SIM_MODE_BOTH;
	else if (strcmp(text, "all") == 0)
		options->choice = SIM_MODE_ALL;
	else
		return bad(
			"--mode",
			"must be one of aggregated, scheduled, unscheduled, direct, both, all"
		);
	return 0;
}

static const struct hd_option option_table[] = {
	HD_OPTION_U64("seed", "N", struct sim_options, seed, 0, INT64_MAX, "seed (the scenario's)"),
	HD_OPTION_U64(
		"seeds",
		"N",
		struct sim_options,
		seeds,
		0,
		SEEDS_MAX,
		"run this many seeds, counting up"
	),
	HD_OPTION_TAKE(
		"mode",
		"MODE",
		take_mode,
		"aggregated (scheduled, with the scenario's aggregators; default), scheduled,\n"
		"unscheduled, direct, both (scheduled and unscheduled, paired) or all (and\n"
		"aggregated)"
	),
	HD_OPTION_FLAG(
		"random",
		struct sim_options,
		random,
		"draw the scenario, its faults and mode from the seed"
	),
	HD_OPTION_FLAG(
		"train",
		struct sim_options,
		trains,
		"workers train the scenario's model on real data (docs/scenarios.md)"
	),
	HD_OPTION_TEXT(
		"data",
		"NAME",
		struct sim_options,
		data,
		"train: digits, digits:FILE or a directory of IDX files (digits)"
	),
	HD_OPTION_REAL(
		"learning-rate",
		"X",
		struct sim_options,
		learning_rate,
		LEARNING_RATE_MIN,
		LEARNING_RATE_MAX,
		"train: instead of the scenario's"
	),
	HD_OPTION_REAL(
		"target-accuracy",
		"X",
		struct sim_options,
		target_accuracy,
		ACCURACY_MIN,
		1,
		"train: instead of the scenario's"
	),
	HD_OPTION_REAL(
		"filter",
		"V",
		struct sim_options,
		filter,
		FILTER_MIN,
		FILTER_MAX,
		"train: workers push only what moves its weight by more than V / sqrt(step)\n"
		"of it, and hold the rest back (docs/filter.md)"
	),
	HD_OPTION_FLAG(
		"until-target",
		struct sim_options,
		until_target,
		"train: end a run as soon as it has the target accuracy"
	),
	HD_OPTION_FLAG(
		"grid",
		struct sim_options,
		grid,
		"train: search each mode's best learning rate first: 0.0025, 0.005, 0.01, 0.02"
	),
	HD_OPTION_U64(
		"grid-seeds",
		"N",
		struct sim_options,
		grid_seeds,
		1,
		SEEDS_MAX,
		"train: over this many seeds, which follow the measured ones (3)"
	),
	HD_OPTION_TEXT(
		"json",
		"FILE",
		struct sim_options,
		json,
		"write the runs as a list of records"
	),
	HD_OPTION_TEXT(
		"trace",
		"FILE",
		struct sim_options,
		trace,
		"write every event as a JSON line (one run only)"
	),
	HD_OPTION_TEXT(
		"trace-perfetto",
		"FILE",
		struct sim_options,
		perfetto,
		"write spans for Perfetto and chrome://tracing (one run only)"
	),
	HD_OPTION_FLAG(
		"unchecked",
		struct sim_options,
		unchecked,
		"leave out the comparisons of contents, for speed alone"
	),
	HD_OPTION_FLAG(
		"quiet",
		struct sim_options,
		quiet,
		"print the table only when something is wrong"
	),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-sim",
	.usage
	= "usage: heddle-sim [OPTIONS] SCENARIO.json\n"
	  "       heddle-sim [OPTIONS] --random\n"
	  "Runs a scenario with the shipped cores in virtual time and checks the invariants at each step.\n",
	.table = option_table,
	.after = "Exit: 0; 64 usage; 65 scenario; 70 an invariant was violated.\n",
	.arguments = true,
};

/* Checks options that exclude each other. */
static int check(const struct sim_options *options) {
	if ((options->trace || options->perfetto)
	    && (options->seeds > 1 || options->choice >= SIM_MODE_BOTH || options->grid))
		return bad(options->trace ? "--trace" : "--trace-perfetto", "needs a single run");
	if (options->choice == SIM_MODE_ALL && options->random)
		return bad("--mode", "all needs a scenario");
	if (options->trains && options->random)
		return bad("--train", "needs a scenario");
	if (!options->trains
	    && (options->data || options->learning_rate > 0 || options->target_accuracy > 0
		|| options->filter > 0 || options->until_target || options->grid))
		return bad(
			"--train",
			"is missing, which --data, --learning-rate, --target-accuracy, "
			"--filter, --until-target and --grid are for"
		);
	if (options->grid && options->learning_rate > 0)
		return bad("--grid", "finds the learning rate: leave --learning-rate out");
	if (options->grid_seeds > 0 && !options->grid)
		return bad("--grid-seeds", "needs --grid");
	return -1;
}

int sim_parse(int argc, char **argv, struct sim_options *options) {
	int code;

	options->seed = UNSEEDED;
	code = hd_options_read(&command_line, argc, argv, options, NULL);
	if (code < 0)
		exit(EX_OK);
	if (code > 0) {
		(void)fputs("Try 'heddle-sim --help'.\n", stderr);
		return code;
	}
	options->seeded = options->seed != UNSEEDED;
	if (options->random != (optind == argc) || optind + 1 < argc)
		return bad(
			"arguments",
			options->random ? "--random takes no scenario" :
					  "one scenario is needed (--help)"
		);
	options->path = options->random ? NULL : argv[optind];
	return check(options);
}
