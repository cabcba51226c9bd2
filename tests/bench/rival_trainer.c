/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_event.h"
#include "hd_kernels.h"
#include "hd_message.h"
#include "hd_program.h"
#include "hd_trainer.h"
#include "rival_trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rival {
	struct hd_dataset train, test;
	struct hd_model *model;
	struct hd_sampler sampler;
	struct hd_compute compute;
	struct hd_event_log *log;
	uint64_t seed;
};

static char words[256];

const char *rival_error(void) {
	return words;
}

struct rival *
rival_open(const char *model, uint32_t batch, uint32_t rank, uint32_t world, uint64_t seed) {
	struct rival *rival = calloc(1, sizeof *rival);

	(void)snprintf(words, sizeof words, "no memory, or no row for this rank");
	if (!rival)
		return NULL;
	rival->seed = seed;
	rival->compute.fd = -1;
	if (hd_dataset_open("digits", &rival->train, &rival->test, words, sizeof words) != 0
	    || hd_model_create(model, &rival->train, batch, &rival->model, words, sizeof words) != 0
	    || hd_sampler_init(&rival->sampler, &rival->train, rank, world, batch, seed) != 0) {
		rival_close(rival);
		return NULL;
	}
	return rival;
}

void rival_close(struct rival *rival) {
	(void)hd_event_log_close(rival->log);
	hd_compute_fini(&rival->compute);
	hd_sampler_fini(&rival->sampler);
	hd_model_destroy(rival->model);
	hd_dataset_fini(&rival->train);
	hd_dataset_fini(&rival->test);
	free(rival);
}

uint64_t rival_values(const struct rival *rival) {
	return hd_model_values(rival->model);
}

int rival_initial(struct rival *rival, float *w) {
	struct hd_jobspec spec = {
		.seed = rival->seed,
		.tau_max = 1,
		.tensor_count = hd_model_tensor_count(rival->model),
		.tensors = (struct hd_tensor *)hd_model_tensors(rival->model),
	};

	hd_jobspec_initialize(&spec, w);
	return 0;
}

void rival_next(struct rival *rival, const float **x, const uint8_t **y) {
	hd_sampler_next(&rival->sampler);
	*x = rival->sampler.x;
	*y = rival->sampler.y;
}

uint32_t rival_features(const struct rival *rival) {
	return rival->train.features;
}

void rival_gradient(struct rival *rival, const float *w, float *g) {
	const struct hd_sampler *s = &rival->sampler;

	(void)hd_model_gradient(rival->model, w, s->x, s->y, s->batch, g);
}

void rival_evaluate(struct rival *rival, const float *w, double *accuracy, double *loss) {
	hd_model_evaluate(rival->model, w, &rival->test, accuracy, loss);
}

void rival_sgd(
	const struct rival *rival,
	float *w,
	float *h,
	const float *g,
	const float rate_momentum_decay[3]
) {
	const struct hd_sgd sgd
		= {rate_momentum_decay[0], rate_momentum_decay[1], rate_momentum_decay[2]};

	(void)hd_sgd_apply(w, h, g, hd_model_values(rival->model), &sgd);
}

int rival_compute(struct rival *rival, double compute_ms, const char *schedule) {
	hd_compute_fini(&rival->compute);
	return hd_compute_init(&rival->compute, compute_ms, schedule, words, sizeof words) == 0 ?
		0 :
		-1;
}

int rival_pad(struct rival *rival, uint64_t begun) {
	(void)snprintf(words, sizeof words, "a signal");
	return hd_compute_pad(&rival->compute, begun, words, sizeof words) == 0 ? 0 : -1;
}

uint64_t rival_now(void) {
	return hd_compute_now();
}

int rival_log(struct rival *rival, const char *path, const char *node) {
	int rc = hd_event_log_open(path, node, &rival->log);

	if (rc != 0)
		(void)snprintf(words, sizeof words, "%s: %s", path, strerror(-rc));
	return rc == 0 ? 0 : -1;
}

void rival_event(
	struct rival *rival,
	enum rival_event event,
	uint32_t worker,
	uint32_t round,
	uint64_t version,
	uint64_t delay
) {
	static const enum hd_event_kind kinds[] = {
		[RIVAL_PUSHED] = HD_EVENT_PUSHED,
		[RIVAL_APPLIED] = HD_EVENT_OUTCOME,
		[RIVAL_COMMITTED] = HD_EVENT_COMMITTED,
	};
	struct hd_event record = {
		.at = hd_compute_now(),
		.kind = kinds[event],
		.job = 1,
		.worker = (uint16_t)worker,
		.direction = HD_PUSH,
		.round = round,
		.version = version,
		.bytes = 4 * hd_model_values(rival->model),
		.aux = event == RIVAL_APPLIED ? (uint64_t)HD_OUTCOME_APPLIED : delay,
	};

	if (rival->log)
		hd_event_log_add(rival->log, &record);
}
