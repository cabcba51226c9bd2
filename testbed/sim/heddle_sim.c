/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim: runs scenario files in virtual time, with every invariant checked. */
#include "hd_cluster.h"
#include "hd_program.h"
#include "hd_report.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SEEDS_MAX 100000

enum mode_choice {
	MODE_DEFAULT,
	MODE_ONE,
	MODE_BOTH
};

struct options {
	const char *path;
	bool random; /* scenarios drawn from the seed instead of a file */
	bool seeded;
	uint64_t seed, seeds;
	enum mode_choice choice;
	enum hd_cluster_mode mode;
	const char *json, *trace;
	bool unchecked, quiet;
};

static const char usage[]
	= "usage: heddle-sim [OPTIONS] SCENARIO.json\n"
	  "       heddle-sim [OPTIONS] --random\n"
	  "Runs a scenario with the shipped cores in virtual time and checks the invariants at each step.\n"
	  "  --seed N       seed (default: the scenario's)\n"
	  "  --seeds N      run this many seeds, counting up\n"
	  "  --mode MODE    scheduled (default), unscheduled, direct, or both (paired)\n"
	  "  --random       draw the scenario, its faults and mode from the seed\n"
	  "  --json FILE    write the runs as a list of records\n"
	  "  --trace FILE   write every event as a JSON line (one run only)\n"
	  "  --unchecked    leave out the comparisons of contents, for speed alone\n"
	  "  --quiet        print the table only when something is wrong\n"
	  "  --help\n"
	  "Exit: 0; 64 usage; 65 scenario; 70 an invariant was violated.\n";

static int bad(const char *field, const char *what) {
	(void)fprintf(stderr, "heddle-sim: %s: %s\n", field, what);
	return EX_USAGE;
}

static int parse_number(const char *field, const char *text, uint64_t limit, uint64_t *value) {
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || *value > limit) {
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

static int parse_mode(const char *text, struct options *options) {
	options->choice = MODE_ONE;
	if (strcmp(text, "scheduled") == 0)
		options->mode = HD_CLUSTER_SCHEDULED;
	else if (strcmp(text, "unscheduled") == 0)
		options->mode = HD_CLUSTER_UNSCHEDULED;
	else if (strcmp(text, "direct") == 0)
		options->mode = HD_CLUSTER_DIRECT;
	else if (strcmp(text, "both") == 0)
		options->choice = MODE_BOTH;
	else
		return bad("--mode", "must be one of scheduled, unscheduled, direct, both");
	return 0;
}

static const struct option long_options[] = {
	{"seed", required_argument, NULL, 's'},
	{"seeds", required_argument, NULL, 'n'},
	{"mode", required_argument, NULL, 'm'},
	{"random", no_argument, NULL, 'r'},
	{"json", required_argument, NULL, 'j'},
	{"trace", required_argument, NULL, 't'},
	{"unchecked", no_argument, NULL, 'u'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* Returns -1 to go on, else the exit code. */
static int parse_option(int option, struct options *options) {
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
		code = EX_USAGE;
	}
	return code ? code : -1;
}

static int parse(int argc, char **argv, struct options *options) {
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
	if (options->trace && (options->seeds > 1 || options->choice == MODE_BOTH))
		return bad("--trace", "needs a single run");
	options->path = options->random ? NULL : argv[optind];
	return -1;
}

static void trace_event(void *owner, const char *node, const struct hd_event *event) {
	char line[HD_EVENT_JSON_BYTES];
	size_t bytes = hd_event_json(event, node, line);

	(void)fwrite(line, 1, bytes, owner);
}

/* Runs one cluster and fills *run. Returns an exit code. */
static int
run_one(const struct options *options,
	const struct hd_scenario *scenario,
	FILE *trace,
	struct hd_report_run *run) {
	struct hd_cluster_config config = {
		.scenario = scenario,
		.seed = run->seed,
		.mode = run->mode,
		.explain = true,
		.unchecked = options->unchecked,
		.event = trace ? trace_event : NULL,
		.owner = trace,
	};
	struct hd_cluster *cluster;
	hd_ns start = hd_driver_now();
	char error[512];
	int code = hd_cluster_create(&config, &cluster, error, sizeof(error));

	if (code < 0) {
		(void)fprintf(stderr, "heddle-sim: cluster: %s\n", error);
		return EX_OSERR;
	}
	code = hd_cluster_run(cluster);
	hd_cluster_result(cluster, &run->result);
	run->wall_s = (double)(hd_driver_now() - start) * 1e-9;
	if (code < 0)
		(void)fprintf(
			stderr,
			"heddle-sim: violated: %s\nreplay: heddle-sim %s --mode %s --seed %llu\n",
			hd_cluster_failure(cluster),
			options->random ? "--random" : options->path,
			hd_report_mode(run->mode),
			(unsigned long long)run->seed
		);
	hd_cluster_destroy(cluster);
	return code < 0 ? EX_SOFTWARE : EX_OK;
}

struct session {
	const struct options *options;
	struct hd_scenario scenario;
	FILE *trace;
	struct hd_report_run *runs;
	size_t count;
};

static int run_mode(struct session *session, uint64_t seed, enum hd_cluster_mode mode) {
	struct hd_report_run *run = &session->runs[session->count++];
	int code;

	*run = (struct hd_report_run){
		.scenario = session->options->random ? "random" : session->scenario.name,
		.mode = mode,
		.seed = seed,
		.tau_max = session->scenario.job.tau_max,
	};
	code = run_one(session->options, &session->scenario, session->trace, run);
	if (!session->options->quiet || code != EX_OK)
		hd_report_row(stdout, run);
	(void)fflush(stdout);
	return code;
}

static int run_seed(struct session *session, uint64_t seed) {
	const struct options *options = session->options;
	enum hd_cluster_mode mode = options->mode;
	int code;

	if (options->random)
		hd_cluster_draw(seed, &session->scenario, &mode);
	if (options->choice == MODE_ONE)
		mode = options->mode;
	if (options->choice != MODE_BOTH)
		return run_mode(session, seed, mode);
	code = run_mode(session, seed, HD_CLUSTER_SCHEDULED);
	return code ? code : run_mode(session, seed, HD_CLUSTER_UNSCHEDULED);
}

static int run_seeds(struct session *session) {
	const struct options *options = session->options;
	int worst = EX_OK;

	if (!options->quiet)
		hd_report_head(stdout);
	for (uint64_t i = 0; i < options->seeds; i++) {
		int code = run_seed(session, options->seed + i);

		if (code != EX_OK)
			worst = code;
		if (code == EX_OSERR)
			break;
	}
	if (options->choice == MODE_BOTH)
		hd_report_pairs(stdout, session->runs, session->count);
	return worst;
}

static int finish(struct session *session, int code) {
	const struct options *options = session->options;
	int written = 0;

	if (session->trace && fclose(session->trace) != 0)
		written = -errno;
	if (options->json)
		written = hd_report_json(options->json, session->runs, session->count);
	if (written < 0) {
		(void)fprintf(stderr, "heddle-sim: output: %s\n", strerror(-written));
		return EX_IOERR;
	}
	return code;
}

static int open_outputs(struct session *session) {
	const struct options *options = session->options;

	session->runs = calloc(2 * options->seeds + 1, sizeof(*session->runs));
	if (!session->runs)
		return EX_OSERR;
	if (!options->trace)
		return EX_OK;
	session->trace = fopen(options->trace, "w");
	if (session->trace)
		return EX_OK;
	(void)fprintf(stderr, "heddle-sim: %s: %s\n", options->trace, strerror(errno));
	return EX_CANTCREAT;
}

int main(int argc, char **argv) {
	static struct session session;
	static struct options options = {.seed = 1, .seeds = 1};
	char error[512];
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	session.options = &options;
	if (options.path) {
		code = hd_scenario_read(options.path, &session.scenario, error, sizeof(error));
		if (code < 0) {
			(void)fprintf(stderr, "heddle-sim: %s\n", error);
			return code == -EINVAL ? EX_DATAERR : EX_NOINPUT;
		}
		if (!options.seeded)
			options.seed = session.scenario.seed;
	}
	code = open_outputs(&session);
	if (code == EX_OK)
		code = finish(&session, run_seeds(&session));
	free(session.runs);
	return code;
}
