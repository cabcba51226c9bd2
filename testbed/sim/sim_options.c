/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim's command line. */
#include "hd_number.h"
#include "sim_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SEEDS_MAX 100000

static const char usage[]
	= "usage: heddle-sim [OPTIONS] SCENARIO.json\n"
	  "       heddle-sim [OPTIONS] --random\n"
	  "Runs a scenario with the shipped cores in virtual time and checks the invariants at each step.\n"
	  "  --seed N       seed (default: the scenario's)\n"
	  "  --seeds N      run this many seeds, counting up\n"
	  "  --mode MODE    aggregated (scheduled, with the scenario's aggregators; default), scheduled, unscheduled,\n"
	  "                 direct, both (scheduled and unscheduled, paired) or all (and aggregated)\n"
	  "  --random       draw the scenario, its faults and mode from the seed\n"
	  "  --train        workers train the scenario's model on real data (see docs/scenarios.md)\n"
	  "    --data NAME             digits, digits:FILE or a directory of IDX files (digits)\n"
	  "    --learning-rate X       instead of the scenario's\n"
	  "    --target-accuracy X     instead of the scenario's\n"
	  "    --until-target          end a run as soon as it has the target accuracy\n"
	  "    --grid                  search each mode's best learning rate first: 0.0025, 0.005, 0.01, 0.02\n"
	  "    --grid-seeds N          over this many seeds, which follow the measured ones (3)\n"
	  "  --json FILE    write the runs as a list of records\n"
	  "  --trace FILE   write every event as a JSON line (one run only)\n"
	  "  --trace-perfetto FILE   write spans for Perfetto and chrome://tracing (one run only)\n"
	  "  --unchecked    leave out the comparisons of contents, for speed alone\n"
	  "  --quiet        print the table only when something is wrong\n"
	  "  --help\n"
	  "Exit: 0; 64 usage; 65 scenario; 70 an invariant was violated.\n";

static int bad(const char *field, const char *what) {
	(void)fprintf(stderr, "heddle-sim: %s: %s\n", field, what);
	return EX_USAGE;
}

static int parse_number(const char *field, const char *text, uint64_t limit, uint64_t *value) {
	if (hd_number_whole(text, 0, limit, value)) {
		(void)fprintf(
			stderr,
			"heddle-sim: %s: '%s' is not a whole number (limit %llu)\n",
			field,
			text,
			(unsigned long long)limit
		);
		return EX_USAGE;
	}
	return 0;
}

static int parse_real(const char *field, const char *text, double low, double high, double *value) {
	if (hd_number_real(text, low, high, value) == 0)
		return 0;
	(void)fprintf(
		stderr, "heddle-sim: %s: '%s' is not a number in %g..%g\n", field, text, low, high
	);
	return EX_USAGE;
}

static int parse_mode(const char *text, struct sim_options *options) {
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

static const struct option long_options[] = {
	{"seed", required_argument, NULL, 's'},
	{"seeds", required_argument, NULL, 'n'},
	{"mode", required_argument, NULL, 'm'},
	{"random", no_argument, NULL, 'r'},
	{"json", required_argument, NULL, 'j'},
	{"trace", required_argument, NULL, 't'},
	{"trace-perfetto", required_argument, NULL, 'p'},
	{"unchecked", no_argument, NULL, 'u'},
	{"quiet", no_argument, NULL, 'q'},
	{"train", no_argument, NULL, 'T'},
	{"data", required_argument, NULL, 'd'},
	{"learning-rate", required_argument, NULL, 'l'},
	{"target-accuracy", required_argument, NULL, 'a'},
	{"until-target", no_argument, NULL, 'U'},
	{"grid", no_argument, NULL, 'g'},
	{"grid-seeds", required_argument, NULL, 'G'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int parse_training(int option, struct sim_options *options) {
	switch (option) {
	case 'T':
		options->trains = true;
		return 0;
	case 'd':
		options->data = optarg;
		return 0;
	case 'l':
		return parse_real("--learning-rate", optarg, 1e-9, 1e3, &options->learning_rate);
	case 'a':
		return parse_real("--target-accuracy", optarg, 1e-6, 1, &options->target_accuracy);
	case 'U':
		options->until_target = true;
		return 0;
	case 'g':
		options->grid = true;
		return 0;
	case 'G':
		if (parse_number("--grid-seeds", optarg, SEEDS_MAX, &options->grid_seeds))
			return EX_USAGE;
		return options->grid_seeds > 0 ? 0 : bad("--grid-seeds", "must be at least 1");
	default:
		return EX_USAGE;
	}
}

/* Returns -1 to go on, else the exit code. */
static int parse_option(int option, struct sim_options *options) {
	int code = 0;

	switch (option) {
	case 's':
		options->seeded = true;
		code = parse_number("--seed", optarg, INT64_MAX, &options->seed);
		break;
	case 'n':
		code = parse_number("--seeds", optarg, SEEDS_MAX, &options->seeds);
		break;
	case 'm':
		code = parse_mode(optarg, options);
		break;
	case 'r':
		options->random = true;
		break;
	case 'j':
		options->json = optarg;
		break;
	case 't':
		options->trace = optarg;
		break;
	case 'p':
		options->perfetto = optarg;
		break;
	case 'u':
		options->unchecked = true;
		break;
	case 'q':
		options->quiet = true;
		break;
	case 'h':
		(void)fputs(usage, stdout);
		exit(EX_OK);
	default:
		code = parse_training(option, options);
	}
	return code ? code : -1;
}

/* What does not go together. */
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
		|| options->until_target || options->grid))
		return bad(
			"--train",
			"is missing, which --data, --learning-rate, --target-accuracy, "
			"--until-target and --grid are for"
		);
	if (options->grid && options->learning_rate > 0)
		return bad("--grid", "finds the learning rate: leave --learning-rate out");
	if (options->grid_seeds > 0 && !options->grid)
		return bad("--grid-seeds", "needs --grid");
	return -1;
}

int sim_parse(int argc, char **argv, struct sim_options *options) {
	int option, code = -1;

	while (code < 0 && (option = getopt_long(argc, argv, "", long_options, NULL)) >= 0)
		code = parse_option(option, options);
	if (code >= 0) {
		(void)fputs("Try 'heddle-sim --help'.\n", stderr);
		return code;
	}
	if (options->random != (optind == argc) || optind + 1 < argc) {
		(void)fputs(usage, stderr);
		return EX_USAGE;
	}
	options->path = options->random ? NULL : argv[optind];
	return check(options);
}
