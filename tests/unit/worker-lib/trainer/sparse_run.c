/* SPDX-License-Identifier: BSD-3-Clause */
#include "sparse_run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 1408

const struct sparse_setting sparse_logistic
	= {"logistic:8000,2000,20", "logistic", 4, 300, 256, 1.0f, SPARSE_END_MEAN};
const struct sparse_setting sparse_ratings
	= {"ratings:200,300,20000", "pmf:20", 4, 400, 200, 40.0f, SPARSE_END_MEAN};

struct worker {
	struct hd_significance filter;
	struct hd_sampler sampler;
	float *x, *update;
};

struct run {
	const struct sparse_setting *setting;
	struct hd_dataset data;
	struct hd_row_model model;
	struct worker worker[SPARSE_WORKERS_MAX];
	float *x; /* the server's */
	float factor;
	struct sparse_result *result;
};

static void *must(void *memory) {
	if (!memory) {
		(void)fprintf(stderr, "sparse_run: no memory\n");
		exit(1);
	}
	return memory;
}

static void must_be(int rc, const char *error) {
	if (rc == 0)
		return;
	(void)fprintf(stderr, "sparse_run: %s\n", error);
	exit(1);
}

static void open_data(struct run *run, uint64_t seed) {
	char words[128], error[HD_TEXT_BYTES_MAX], *text;
	size_t bytes;
	bool ratings;
	int rc;

	(void
	)snprintf(words, sizeof words, "%s,%llu", run->setting->data, (unsigned long long)seed);
	must_be(hd_generate(words, &text, &bytes, &ratings, error, sizeof error), error);
	rc = ratings ? hd_ratings_decode(text, bytes, NULL, &run->data, error, sizeof error) :
		       hd_svmlight_decode(text, bytes, NULL, &run->data, error, sizeof error);
	must_be(rc, error);
	free(text);
	run->data.by_row = true;
	rc = hd_row_model_init(&run->model, run->setting->model, &run->data, error, sizeof error);
	must_be(rc, error);
}

static void open_worker(struct run *run, uint32_t rank, uint64_t seed, float v, uint32_t block) {
	const struct hd_filter_settings how
		= {.v = v, .factor = run->factor, .block = block, .bridge = block > 1 ? 0 : 2};
	struct worker *worker = &run->worker[rank];
	size_t bytes = run->model.values * sizeof(float);

	worker->x = must(malloc(bytes));
	worker->update = must(malloc(bytes));
	must_be(hd_filter_init(&worker->filter, run->model.values, &how), "filter");
	must_be(hd_sampler_init(
			&worker->sampler,
			&run->data,
			rank,
			run->setting->workers,
			run->setting->batch,
			seed
		),
		"sampler");
}

static void initialize(struct run *run, uint64_t seed) {
	struct hd_random random;

	run->x = must(calloc(run->model.values, sizeof(float)));
	hd_random_init(&random, seed);
	for (uint64_t i = 0; run->model.factors > 0 && i < run->model.values; i++)
		run->x[i] = run->model.tensors[0].init_scale
			* (float)(2.0 * hd_random_unit(&random) - 1.0);
}

static void
count_bytes(struct run *run, const struct hd_significance *filter, enum hd_filter_result sent) {
	uint64_t dense = run->model.values * sizeof(float), bytes = 0;

	if (sent == HD_FILTER_SPARSE)
		bytes = hd_runs_bytes(filter->runs, filter->run_count, CHUNK_BYTES);
	run->result->bytes += sent == HD_FILTER_DENSE || bytes > dense ? dense : bytes;
}

/* The last step has what is held with it, 1 / workers of it: the model is then the mean of the workers' own. */
static void step(struct run *run, struct worker *worker, uint64_t t) {
	struct hd_significance *filter = &worker->filter;
	bool last = t == run->setting->steps;
	enum hd_filter_result sent;

	hd_filter_reapply(filter, worker->x);
	hd_sampler_next(&worker->sampler);
	(void)hd_row_model_gradient(
		&run->model,
		worker->x,
		&run->data,
		worker->sampler.picked,
		run->setting->batch,
		worker->update
	);
	if (last && run->setting->end == SPARSE_END_MEAN)
		hd_filter_keep(filter, 1.0f / (float)run->setting->workers);
	sent = hd_filter_step(
		filter, worker->x, worker->update, t, last && run->setting->end != SPARSE_END_HELD
	);
	run->result->values += filter->sent;
	count_bytes(run, filter, sent);
}

void sparse_run(
	const struct sparse_setting *setting,
	uint64_t seed,
	float v,
	uint32_t block,
	struct sparse_result *result
) {
	struct run run = {
		.setting = setting,
		.factor = -setting->rate / (float)setting->workers,
		.result = result,
	};
	double accuracy;

	assert(setting->workers <= SPARSE_WORKERS_MAX);
	*result = (struct sparse_result){0};
	open_data(&run, seed);
	initialize(&run, seed);
	hd_row_model_evaluate(&run.model, run.x, &run.data, &accuracy, &result->before);
	for (uint32_t i = 0; i < setting->workers; i++)
		open_worker(&run, i, seed, v, block);
	for (uint64_t t = 1; t <= setting->steps; t++) {
		for (uint32_t i = 0; i < setting->workers; i++) {
			memcpy(run.worker[i].x, run.x, run.model.values * sizeof(float));
			step(&run, &run.worker[i], t);
		}
		for (uint32_t i = 0; i < setting->workers; i++)
			for (uint64_t k = 0; k < run.model.values; k++)
				run.x[k] += run.factor * run.worker[i].update[k];
	}
	hd_row_model_evaluate(&run.model, run.x, &run.data, &accuracy, &result->loss);
	for (uint32_t i = 0; i < setting->workers; i++) {
		hd_filter_fini(&run.worker[i].filter);
		hd_sampler_fini(&run.worker[i].sampler);
		free(run.worker[i].x);
		free(run.worker[i].update);
	}
	hd_dataset_fini(&run.data);
	free(run.x);
}
