/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-sim: runs scenario files in virtual time, with every invariant checked. */
#include "hd_program.h"
#include "sim_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int
create(const struct sim_session *session,
       const struct hd_cluster_config *config,
       struct hd_cluster **cluster) {
	char error[512];
	int code = hd_cluster_create(config, cluster, error, sizeof error);

	if (code == 0)
		return EX_OK;
	(void)fprintf(
		stderr,
		"heddle-sim: %s: %s\n",
		session->options->path ? session->options->path : "cluster",
		error
	);
	return code == -EINVAL ? EX_DATAERR : EX_OSERR;
}

int sim_run(const struct sim_session *session, struct hd_results_run *run, bool until_target) {
	const struct sim_options *options = session->options;
	static struct hd_scenario scenario; /* large */
	const struct hd_cluster_training training = {
		.train = &session->train,
		.test = &session->test,
		.until_target = until_target,
		.filter = (float)options->filter,
	};
	struct hd_cluster_config config = {
		.scenario = &scenario,
		.seed = run->seed,
		.mode = run->mode,
		.explain = true,
		.training = options->trains ? &training : NULL,
		.unchecked = options->unchecked,
		.event = options->trace || options->perfetto ? sim_trace_event : NULL,
		.owner = session->trace,
	};
	struct hd_cluster *cluster;
	hd_ns start = hd_driver_now();
	int code;

	scenario = session->scenario;
	scenario.job.learning_rate = run->learning_rate;
	if (options->target_accuracy > 0)
		scenario.job.target_accuracy = options->target_accuracy;
	run->trains = options->trains;
	run->filter = options->filter;
	run->target_accuracy = scenario.job.target_accuracy;
	code = sim_trace_begin(session->trace, &scenario);
	if (code == EX_OK)
		code = create(session, &config, &cluster);
	if (code != EX_OK)
		return code;
	code = hd_cluster_run(cluster);
	hd_cluster_result(cluster, &run->result);
	hd_cluster_take_curve(cluster, &run->curve);
	run->wall_s = (double)(hd_driver_now() - start) * 1e-9;
	if (code < 0)
		(void)fprintf(
			stderr,
			"heddle-sim: violated: %s\nreplay: heddle-sim %s --mode %s --seed %llu",
			hd_cluster_failure(cluster),
			options->random ? "--random" : options->path,
			hd_results_mode(run->mode, scenario.aggregators),
			(unsigned long long)run->seed
		);
	if (code < 0 && options->trains)
		(void)fprintf(stderr, " --train --learning-rate %g", run->learning_rate);
	if (code < 0 && options->filter > 0)
		(void)fprintf(stderr, " --filter %.9g", options->filter);
	if (code < 0)
		(void)fputc('\n', stderr);
	hd_cluster_destroy(cluster);
	return code < 0 ? EX_SOFTWARE : EX_OK;
}

/* The rate of the grid, of the command line or of the scenario. */
static double rate_of(const struct sim_session *session, enum hd_cluster_mode mode) {
	if (session->rate[mode] > 0)
		return session->rate[mode];
	return session->options->learning_rate > 0 ? session->options->learning_rate :
						     session->scenario.job.learning_rate;
}

static int run_mode(struct sim_session *session, uint64_t seed, enum hd_cluster_mode mode) {
	struct hd_results_run *run = &session->runs[session->count++];
	int code;

	*run = (struct hd_results_run){
		.scenario = session->options->random ? "random" : session->scenario.name,
		.mode = mode,
		.aggregators = session->scenario.aggregators,
		.seed = seed,
		.tau_max = session->scenario.job.tau_max,
		.learning_rate = rate_of(session, mode),
		.tried = session->tried[mode],
		.tried_count = session->rate[mode] > 0 ? SIM_RATES : 0,
	};
	code = sim_run(session, run, session->options->until_target);
	if (code == EX_DATAERR || code == EX_OSERR) {
		session->count--; /* there was no run */
		return code;
	}
	if (!session->options->quiet || code != EX_OK)
		hd_results_row(stdout, run);
	(void)fflush(stdout);
	return code;
}

size_t sim_modes(const struct sim_session *session, enum hd_cluster_mode modes[SIM_MODES]) {
	const struct sim_options *options = session->options;
	size_t count = 0;

	if (options->choice < SIM_MODE_BOTH) {
		modes[count++] = options->mode;
		return count;
	}
	if (options->choice == SIM_MODE_ALL && session->scenario.aggregators > 0)
		modes[count++] = HD_CLUSTER_SCHEDULED;
	modes[count++] = HD_CLUSTER_ALONE;
	modes[count++] = HD_CLUSTER_UNSCHEDULED;
	return count;
}

static int run_seed(struct sim_session *session, uint64_t seed) {
	const struct sim_options *options = session->options;
	enum hd_cluster_mode drawn = HD_CLUSTER_SCHEDULED, modes[SIM_MODES];
	size_t count;
	int code = EX_OK;

	if (options->random)
		hd_cluster_draw(seed, &session->scenario, &drawn);
	count = sim_modes(session, modes);
	if (options->random && options->choice == SIM_MODE_DEFAULT)
		modes[0] = drawn;
	for (size_t i = 0; code == EX_OK && i < count; i++)
		code = run_mode(session, seed, modes[i]);
	return code;
}

static int run_seeds(struct sim_session *session) {
	const struct sim_options *options = session->options;
	enum hd_cluster_mode modes[SIM_MODES];
	int worst = EX_OK;

	if (options->grid)
		worst = sim_grid(session);
	if (worst != EX_OK)
		return worst;
	if (!options->quiet)
		hd_results_head(stdout, options->trains);
	for (uint64_t i = 0; i < options->seeds; i++) {
		int code = run_seed(session, options->seed + i);

		if (code != EX_OK)
			worst = code;
		if (code == EX_OSERR || code == EX_DATAERR)
			return code;
	}
	if (options->choice >= SIM_MODE_BOTH)
		hd_results_pairs(stdout, session->runs, session->count, sim_modes(session, modes));
	return worst;
}

static int finish(struct sim_session *session, int code) {
	const struct sim_options *options = session->options;
	int written = sim_trace_close(session->trace);

	session->trace = NULL;
	if (written == 0 && options->json)
		written = hd_results_json(options->json, session->runs, session->count);
	if (written < 0) {
		(void)fprintf(stderr, "heddle-sim: output: %s\n", strerror(-written));
		return EX_IOERR;
	}
	return code;
}

static int open_outputs(struct sim_session *session) {
	const struct sim_options *options = session->options;

	session->runs = calloc(SIM_MODES * options->seeds + 1, sizeof *session->runs);
	if (!session->runs)
		return EX_OSERR;
	return sim_trace_open(options, &session->trace);
}

static int read_scenario(struct sim_session *session, struct sim_options *options) {
	char error[512];
	int code = hd_scenario_read(options->path, &session->scenario, error, sizeof error);

	if (code < 0) {
		(void)fprintf(stderr, "heddle-sim: %s\n", error);
		return code == -EINVAL ? EX_DATAERR : EX_NOINPUT;
	}
	if (!options->seeded)
		options->seed = session->scenario.seed;
	return EX_OK;
}

static int open_data(struct sim_session *session) {
	const char *name = session->options->data ? session->options->data : "digits";
	char error[512];
	int code = hd_dataset_open(name, &session->train, &session->test, error, sizeof error);

	if (code == 0)
		return EX_OK;
	(void)fprintf(stderr, "heddle-sim: data: %s\n", error);
	return code == -ENOENT ? EX_NOINPUT : EX_DATAERR;
}

int main(int argc, char **argv) {
	static struct sim_session session;
	static struct sim_options options = {.seed = 1, .seeds = 1};
	int code = sim_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	session.options = &options;
	code = options.path ? read_scenario(&session, &options) : EX_OK;
	if (code == EX_OK && options.trains)
		code = open_data(&session);
	if (code == EX_OK)
		code = open_outputs(&session);
	if (code == EX_OK)
		code = finish(&session, run_seeds(&session));
	for (size_t i = 0; i < session.count; i++)
		hd_curve_fini(&session.runs[i].curve);
	free(session.runs);
	hd_dataset_fini(&session.train);
	hd_dataset_fini(&session.test);
	return code;
}
