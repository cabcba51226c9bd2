/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous training in one process, of the workers that others' steps had: the reference of test_sync.py. Model and
 * momentum are double, and a step is the plain formula over the mean of all rows.
 *
 * usage: sync_reference MODEL BATCH WORLD SEED RATE MOMENTUM BUCKET_VALUES
 *
 * Each line of standard input is a step: the ranks whose gradients are in each bucket, as bits of a hexadecimal number,
 * separated by spaces. Each line of output is that step's mean loss (of the workers in the first bucket) before it, and
 * the test accuracy and loss after it. With BUCKET_VALUES 0: only the bytes of the initial model.
 */
#include "hd_trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define RANKS_MAX 32
#define LINE_BYTES 4096

struct reference {
	struct hd_dataset train, test;
	struct hd_model *model;
	struct hd_sampler sampler[RANKS_MAX];
	uint32_t batch, world;
	uint64_t seed, values, each;
	double rate, momentum;
	float *w, *grad;
	double *exact, *velocity, *sum, *samples;
};

static void fail(const char *what) {
	(void)fprintf(stderr, "sync_reference: %s\n", what);
	exit(EX_SOFTWARE);
}

static void *zeros(uint64_t count, size_t size) {
	void *memory = calloc(count, size);

	if (!memory)
		fail("no memory");
	return memory;
}

static void begin(struct reference *r, char **argv) {
	char error[256] = "";
	struct hd_jobspec spec = {.tau_max = 1};

	r->batch = (uint32_t)strtoul(argv[2], NULL, 10);
	r->world = (uint32_t)strtoul(argv[3], NULL, 10);
	r->seed = spec.seed = strtoull(argv[4], NULL, 10);
	r->rate = (double)strtof(argv[5], NULL);
	r->momentum = (double)strtof(argv[6], NULL);
	r->each = strtoull(argv[7], NULL, 10);
	if (hd_dataset_open("digits", &r->train, &r->test, error, sizeof error) != 0
	    || hd_model_create(argv[1], &r->train, r->batch, &r->model, error, sizeof error) != 0)
		fail(error);
	r->values = hd_model_values(r->model);
	spec.tensor_count = hd_model_tensor_count(r->model);
	spec.tensors = (struct hd_tensor *)hd_model_tensors(r->model);
	r->w = zeros(r->values, sizeof *r->w);
	r->grad = zeros(r->values, sizeof *r->grad);
	r->exact = zeros(r->values, sizeof *r->exact);
	r->velocity = zeros(r->values, sizeof *r->velocity);
	r->sum = zeros(r->values, sizeof *r->sum);
	r->samples = zeros(r->values, sizeof *r->samples);
	hd_jobspec_initialize(&spec, r->w);
	for (uint64_t i = 0; i < r->values; i++)
		r->exact[i] = (double)r->w[i];
	for (uint32_t k = 0; k < RANKS_MAX; k++)
		if (hd_sampler_init(
			    &r->sampler[k], &r->train, k, r->world, r->batch, r->seed + k / r->world
		    )
		    != 0)
			fail("no rows");
}

/* The gradients of one rank in the buckets that have it; bucket 0 is at the end of the model. */
static double add(struct reference *r, uint32_t rank, const uint64_t *members, uint32_t buckets) {
	struct hd_sampler *s = &r->sampler[rank];
	double loss;

	hd_sampler_next(s);
	loss = hd_model_gradient(r->model, r->w, s->x, s->y, s->batch, r->grad);
	for (uint64_t i = 0; i < r->values; i++) {
		const uint64_t bucket = (r->values - 1 - i) / r->each;

		if (bucket >= buckets)
			fail("fewer buckets than the model has");
		if (!(members[bucket] >> rank & 1))
			continue;
		r->sum[i] += (double)r->grad[i] * s->batch;
		r->samples[i] += s->batch;
	}
	return members[0] >> rank & 1 ? loss : 0;
}

static void step(struct reference *r, const uint64_t *members, uint32_t buckets) {
	double loss = 0, accuracy, test_loss;
	uint32_t count = 0;

	memset(r->sum, 0, r->values * sizeof *r->sum);
	memset(r->samples, 0, r->values * sizeof *r->samples);
	for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
		bool any = false;

		for (uint32_t b = 0; b < buckets; b++)
			any = any || members[b] >> rank & 1;
		if (any)
			loss += add(r, rank, members, buckets);
		count += members[0] >> rank & 1;
	}
	for (uint64_t i = 0; i < r->values; i++) {
		r->velocity[i] = r->momentum * r->velocity[i] - r->rate * r->sum[i] / r->samples[i];
		r->exact[i] += r->velocity[i];
		r->w[i] = (float)r->exact[i];
	}
	hd_model_evaluate(r->model, r->w, &r->test, &accuracy, &test_loss);
	(void)printf("%.9g %.9g %.9g\n", loss / count, accuracy, test_loss);
}

int main(int argc, char **argv) {
	static struct reference r;
	char line[LINE_BYTES];

	if (argc != 8)
		fail("7 arguments");
	begin(&r, argv);
	if (r.each == 0)
		return fwrite(r.w, sizeof *r.w, r.values, stdout) == r.values ? EX_OK : EX_IOERR;
	while (fgets(line, sizeof line, stdin)) {
		uint64_t members[64];
		uint32_t buckets = 0;
		char *at = line, *end;

		for (; buckets < 64; at = end) {
			members[buckets] = strtoull(at, &end, 16);
			if (end == at)
				break;
			buckets++;
		}
		step(&r, members, buckets);
	}
	return EX_OK;
}
