/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddle-train: trains a real model over the fabric. Three roles:
 *
 *   worker      pull -> gradient (padded to compute_ms) -> push, continue while it is in flight
 *   --sync allreduce  a worker without a server (train_sync.h)
 *   --evaluate  an observer: pulls at intervals, prints the test accuracy, stops at the target
 *   --local     the same mathematics in one process, without a fabric: the reference
 */
#include "hd_options.h"
#include "hd_row_model.h"
#include "train_far.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* The number of workers for which the learning rate was chosen. heddle_open() refuses an invalid number. */
static uint32_t rate_is_for(const struct train_options *options) {
	const char *world = getenv("HEDDLE_WORLD_SIZE");
	unsigned long count = world ? strtoul(world, NULL, 10) : 1;

	if (options->scale_base > 0)
		return options->scale_base;
	return count >= 1 && count <= HEDDLE_WORKERS_MAX ? (uint32_t)count : 1;
}

static int make_spec(struct train *train) {
	const struct train_options *options = &train->options;
	const struct hd_tensor *tensors = hd_model_tensors(train->model);
	const char *job = options->local ? "local" : getenv("HEDDLE_JOB");
	int rc;

	if (!job || !*job)
		return train_fail(
			EX_USAGE, "no job name: set HEDDLE_JOB, or start it with heddle-run --job"
		);
	rc = heddle_spec_create(options->local ? "local" : NULL, job, &train->spec);
	for (uint32_t i = 0; rc == 0 && i < hd_model_tensor_count(train->model); i++)
		rc = heddle_spec_add_tensor(
			train->spec,
			tensors[i].name,
			tensors[i].dimension,
			tensors[i].dimension_count,
			(enum heddle_init)tensors[i].init,
			tensors[i].init_scale
		);
	if (rc < 0)
		return train_heddle_error("job", rc);
	heddle_spec_set_seed(train->spec, options->seed);
	heddle_spec_set_sgd(train->spec, options->rate, options->momentum, options->decay);
	heddle_spec_set_tau_max(train->spec, options->tau_max);
	heddle_spec_set_sync(train->spec, (enum heddle_sync)options->sync, options->sync_count);
	if (options->scaled && options->sync != HD_SYNC_NONE)
		heddle_spec_set_scale_base(train->spec, rate_is_for(options));
	heddle_spec_set_div_max(train->spec, options->div_max);
	heddle_spec_set_integrity(train->spec, !options->unsealed);
	heddle_spec_set_staleness(train->spec, options->staleness, options->staleness_c);
	if (options->is_federated) {
		rc = heddle_spec_set_federated(train->spec, &options->federated);
		if (rc < 0)
			return train_heddle_error("federated", rc);
	}
	return EX_OK;
}

/* Prepares for every role: data, model, description, memory for the parameters. */
static int prepare(struct train *train) {
	const struct train_options *options = &train->options;
	uint32_t batch = options->evaluate && options->batch < 256 ? 256 : options->batch;
	char error[HD_TEXT_BYTES_MAX];
	int rc = train_open_clients(train);

	if (rc > EX_OK)
		return rc;
	if (rc < 0)
		rc = hd_dataset_open(
			options->data, &train->train, &train->test, error, sizeof error
		);
	if (rc == -ENOMEM)
		return train_no_memory("the data");
	if (rc < 0)
		return train_fail(rc == -ENOENT ? EX_NOINPUT : EX_DATAERR, "data: %s", error);
	rc = hd_model_create(
		options->model, &train->train, batch, &train->model, error, sizeof error
	);
	if (rc < 0)
		return rc == -ENOMEM ? train_no_memory("the model") :
				       train_fail(EX_USAGE, "%s", error);
	train->train.by_row = hd_model_by_row(train->model);
	rc = hd_compute_init(
		&train->compute, options->compute_ms, options->schedule, error, sizeof error
	);
	if (rc < 0)
		return train_fail(rc == -EINVAL ? EX_DATAERR : EX_NOINPUT, "%s", error);
	rc = make_spec(train);
	if (rc != EX_OK)
		return rc;
	train->values = hd_model_values(train->model);
	if (heddle_spec_value_count(train->spec) != train->values)
		return train_fail(EX_USAGE, "model: too many parameters (HD_MODEL_BYTES_MAX)");
	train->params = malloc(train->values * sizeof(float));
	return train->params ? train_far_open(train) : train_no_memory("the model");
}

/* Generated data as a file, for other programs. */
static int write_data(const struct train_options *options) {
	static const char generated[] = "generated:";
	char error[HD_TEXT_BYTES_MAX], *text;
	int rc = EX_OK;
	bool ratings;
	size_t bytes;
	FILE *file;

	if (strncmp(options->data, generated, sizeof generated - 1) != 0)
		return train_fail(EX_USAGE, "write-data: needs --data generated:...");
	if (hd_generate(
		    options->data + sizeof generated - 1,
		    &text,
		    &bytes,
		    &ratings,
		    error,
		    sizeof error
	    )
	    < 0)
		return train_fail(EX_USAGE, "data: %s", error);
	file = strcmp(options->write_data, "-") == 0 ? stdout : fopen(options->write_data, "we");
	if (!file) {
		rc = train_fail(
			EX_CANTCREAT, "write-data: %s: %s", options->write_data, strerror(errno)
		);
	} else {
		bool wrote = fwrite(text, 1, bytes, file) == bytes;

		wrote = (file == stdout ? fflush(file) : fclose(file)) == 0 && wrote;
		if (!wrote)
			rc = train_fail(EX_IOERR, "write-data: %s", strerror(errno));
	}
	free(text);
	return rc;
}

static void finish(struct train *train) {
	train_far_close(train);
	free(train->params);
	heddle_spec_destroy(train->spec);
	hd_compute_fini(&train->compute);
	hd_model_destroy(train->model);
	hd_clients_fini(&train->clients);
	hd_dataset_fini(&train->train);
	hd_dataset_fini(&train->test);
}

int main(int argc, char **argv) {
	struct sigaction stop = {.sa_handler = train_on_signal};
	struct train train = {.compute = {.fd = -1}, .scale = 1.0f, .step_scale = 1.0f};
	int status = train_parse(argc, argv, &train.options);

	if (status >= 0)
		return status;
	if (train.options.write_data)
		return write_data(&train.options);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	train_begin_blas(argv);
	status = train_limit_memory(train.options.memory_mb);
	if (status == EX_OK)
		status = prepare(&train);
	/* Before this there is no job to leave: a signal simply ends the process. */
	(void)sigaction(SIGINT, &stop, NULL);
	(void)sigaction(SIGTERM, &stop, NULL);
	train.begun = hd_compute_now();
	if (status == EX_OK)
		status = train.options.local       ? train_local(&train) :
			train.options.evaluate     ? train_evaluate(&train) :
			train.options.is_federated ? train_client(&train) :
			train.options.allreduce    ? train_sync(&train) :
						     train_worker(&train);
	finish(&train);
	return status;
}
