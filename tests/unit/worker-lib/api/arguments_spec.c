/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for descriptions of jobs. */
#include "arguments.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

static void spec_create(struct arguments_scene *s) {
	struct heddle_spec *spec = ANY;

	(void)s;
	refused(heddle_spec_create("t", "j", NULL), "spec: NULL");
	refused(heddle_spec_create("t", NULL, &spec), "no job name: set HEDDLE_JOB, or pass one");
	refused(heddle_spec_create("", "j", &spec), "tenant name: empty");
	refused(heddle_spec_create("t", "\xff", &spec), "UTF-8");
	assert_ptr_equal(spec, ANY);
}

static void spec_destroy(struct arguments_scene *s) {
	(void)s;
	heddle_spec_destroy(NULL);
}

static void spec_tensor(struct arguments_scene *s) {
	const enum heddle_init zero = HEDDLE_INIT_ZERO;
	const uint64_t d[] = {2, 0};
	struct heddle_spec *spec = s->spec;

	refused(heddle_spec_add_tensor(NULL, "v", d, 1, zero, 0), "spec: NULL");
	refused(heddle_spec_add_tensor(spec, NULL, d, 1, zero, 0), "tensor: empty");
	refused(heddle_spec_add_tensor(spec, "v", NULL, 1, zero, 0), "tensor v: no dimension");
	refused(heddle_spec_add_tensor(spec, "v", d, 0, zero, 0), "tensor v: no dimension");
	refused(heddle_spec_add_tensor(spec, "v", d, 2, zero, 0), "tensor v: dimension 1 is 0");
	says(heddle_spec_add_tensor(spec, "v", NULL, SIZE_MAX, zero, 0), -E2BIG, "dimensions");
	refused(heddle_spec_add_tensor(spec, "v", d, 1, (enum heddle_init)NONSENSE, 0), "init 256");
	refused(heddle_spec_add_tensor(spec, "v", d, 1, zero, NAN), "scale");
	assert_int_equal(heddle_spec_value_count(spec), VALUES);
}

static void spec_seed(struct arguments_scene *s) {
	(void)s;
	heddle_spec_set_seed(NULL, 1);
}

static void spec_sgd(struct arguments_scene *s) {
	heddle_spec_set_sgd(NULL, 1, 0, 0);
	heddle_spec_set_sgd(s->spec, NAN, 0, 0);
	not_opened(s, s->spec, "learning_rate");
	heddle_spec_set_sgd(s->spec, 1, 0, 0);
}

static void spec_tau_max(struct arguments_scene *s) {
	heddle_spec_set_tau_max(NULL, 1);
	heddle_spec_set_tau_max(s->spec, 0);
	not_opened(s, s->spec, "tau_max: 0");
	heddle_spec_set_tau_max(s->spec, 16);
}

static void spec_sync(struct arguments_scene *s) {
	heddle_spec_set_sync(NULL, HEDDLE_SYNC_ALL, 0);
	for (int i = 0; i < 3; i++) {
		const int modes[] = {HEDDLE_SYNC_N_BATCH + 1, NONSENSE, -1};

		char words[32];

		(void)snprintf(words, sizeof words, "sync: %d is unknown", modes[i]);
		heddle_spec_set_sync(s->spec, (enum heddle_sync)modes[i], 0);
		not_opened(s, s->spec, words);
		refused(heddle_spec_initialize_model(s->spec, s->data), words);
	}
	heddle_spec_set_sync(s->spec, HEDDLE_SYNC_NONE, 0);
}

static void spec_scale(struct arguments_scene *s) {
	heddle_spec_set_scale_base(NULL, 1);
	heddle_spec_set_scale_base(s->spec, UINT32_MAX);
	not_opened(s, s->spec, "scale_base");
	heddle_spec_set_scale_base(s->spec, 0);
}

static void spec_div_max(struct arguments_scene *s) {
	heddle_spec_set_div_max(NULL, 1);
	heddle_spec_set_div_max(s->spec, -1);
	not_opened(s, s->spec, "div_max");
	heddle_spec_set_div_max(s->spec, 0);
}

static void spec_staleness(struct arguments_scene *s) {
	heddle_spec_set_staleness(NULL, HEDDLE_STALENESS_CONSTANT, 1);
	heddle_spec_set_staleness(s->spec, (enum heddle_staleness)NONSENSE, 1);
	not_opened(s, s->spec, "staleness_rule: 256 is unknown");
	heddle_spec_set_staleness(s->spec, HEDDLE_STALENESS_CONSTANT, NAN);
	not_opened(s, s->spec, "staleness_c");
	heddle_spec_set_staleness(s->spec, HEDDLE_STALENESS_CONSTANT, 1);
}

static void spec_allow_not_finite(struct arguments_scene *s) {
	(void)s;
	heddle_spec_allow_not_finite(NULL);
}

static void spec_integrity(struct arguments_scene *s) {
	(void)s;
	heddle_spec_set_integrity(NULL, 1);
}

static void spec_values(struct arguments_scene *s) {
	(void)s;
	assert_int_equal(heddle_spec_value_count(NULL), 0);
}

static void spec_initialize(struct arguments_scene *s) {
	refused(heddle_spec_initialize_model(NULL, s->data), "spec or values: NULL");
	refused(heddle_spec_initialize_model(s->spec, NULL), "spec or values: NULL");
}

static void spec_federated(struct arguments_scene *s) {
	struct heddle_federated rounds = HEDDLE_FEDERATED_INIT;

	refused(heddle_spec_set_federated(NULL, &rounds), "NULL, or size");
	refused(heddle_spec_set_federated(s->federated_spec, NULL), "NULL, or size");
	rounds.size--;
	refused(heddle_spec_set_federated(s->federated_spec, &rounds), "NULL, or size");
	rounds.size++;
	rounds.weighting = (enum heddle_weighting)NONSENSE;
	refused(heddle_spec_set_federated(s->federated_spec, &rounds), "weighting: 256 is unknown");
	rounds.weighting = HEDDLE_WEIGHTING_SAMPLES;
	rounds.late = (enum heddle_late)NONSENSE;
	refused(heddle_spec_set_federated(s->federated_spec, &rounds), "late: 256 is unknown");
	rounds.late = HEDDLE_LATE_DROP;
	rounds.max_epochs = UINT32_MAX;
	refused(heddle_spec_set_federated(s->federated_spec, &rounds), "max_epochs");
	rounds.max_epochs = 0;
	rounds.mu = NAN;
	assert_int_equal(heddle_spec_set_federated(s->federated_spec, &rounds), 0);
	not_opened(s, s->federated_spec, "mu:");
	rounds.mu = 0;
	assert_int_equal(heddle_spec_set_federated(s->federated_spec, &rounds), 0);
}

const struct arguments_row arguments_spec[] = {
	{"heddle_spec_allow_not_finite", spec_allow_not_finite},
	{"heddle_spec_create", spec_create},
	{"heddle_spec_destroy", spec_destroy},
	{"heddle_spec_set_div_max", spec_div_max},
	{"heddle_spec_set_federated", spec_federated},
	{"heddle_spec_initialize_model", spec_initialize},
	{"heddle_spec_set_integrity", spec_integrity},
	{"heddle_spec_set_scale_base", spec_scale},
	{"heddle_spec_set_seed", spec_seed},
	{"heddle_spec_set_sgd", spec_sgd},
	{"heddle_spec_set_staleness", spec_staleness},
	{"heddle_spec_set_sync", spec_sync},
	{"heddle_spec_set_tau_max", spec_tau_max},
	{"heddle_spec_add_tensor", spec_tensor},
	{"heddle_spec_value_count", spec_values},
	{0},
};
