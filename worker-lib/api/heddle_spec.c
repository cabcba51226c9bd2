/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's description. */
#include "hd_text.h"
#include "heddle_elastic.h"
#include "heddle_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int set_name(char field[HD_NAME_BYTES_MAX + 1], const char *text, const char *what) {
	size_t bytes = text ? strlen(text) : 0;

	if (bytes == 0)
		return heddle_fail(-EINVAL, "%s: empty", what);
	if (bytes > HD_NAME_BYTES_MAX)
		return heddle_fail(
			-EINVAL,
			"%s: longer than %d bytes (HD_NAME_BYTES_MAX)",
			what,
			HD_NAME_BYTES_MAX
		);
	if (!hd_text_valid(text, bytes))
		return heddle_fail(-EINVAL, "%s: not UTF-8 without control characters", what);
	memcpy(field, text, bytes + 1);
	return 0;
}

int heddle_spec_create(const char *tenant, const char *job, struct heddle_spec **out) {
	struct heddle_spec *spec;
	int rc;

	if (!tenant)
		tenant = getenv("HEDDLE_TENANT");
	if (!job)
		job = getenv("HEDDLE_JOB");
	spec = calloc(1, sizeof *spec);
	if (!spec)
		return heddle_fail(-ENOMEM, "no memory");
	rc = set_name(spec->job.tenant, tenant ? tenant : "default", "tenant (HEDDLE_TENANT)");
	if (rc == 0)
		rc = set_name(spec->job.name, job, "job (HEDDLE_JOB)");
	if (rc < 0) {
		free(spec);
		return rc;
	}
	spec->job.optimizer = HD_OPTIMIZER_SGD;
	spec->job.learning_rate = 0.01f;
	spec->job.staleness_c = 1.0f;
	spec->job.tau_max = 16;
	*out = spec;
	return 0;
}

void heddle_spec_destroy(struct heddle_spec *spec) {
	if (!spec)
		return;
	free(spec->job.tensors);
	free(spec);
}

static int check_tensor(
	const struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t count
) {
	if (spec->job.tensor_count == HD_TENSORS_MAX)
		return heddle_fail(-E2BIG, "more than %d tensors (HD_TENSORS_MAX)", HD_TENSORS_MAX);
	if (count > HD_DIMENSIONS_MAX)
		return heddle_fail(
			-E2BIG,
			"tensor %s: more than %d dimensions (HD_DIMENSIONS_MAX)",
			name,
			HD_DIMENSIONS_MAX
		);
	if (count == 0)
		return heddle_fail(-EINVAL, "tensor %s: no dimension", name);
	for (size_t i = 0; i < count; i++)
		if (dimensions[i] == 0)
			return heddle_fail(-EINVAL, "tensor %s: dimension %zu is 0", name, i);
	return 0;
}

int heddle_spec_tensor(
	struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t dimension_count,
	enum heddle_init init,
	float scale
) {
	struct hd_tensor tensor = {.dtype = 0, .init = (uint8_t)init, .init_scale = scale};
	int rc = set_name(tensor.name, name, "tensor");

	if (rc == 0)
		rc = check_tensor(spec, name, dimensions, dimension_count);
	if (rc < 0)
		return rc;
	if (spec->job.tensor_count == spec->capacity) {
		uint32_t more = spec->capacity ? 2 * spec->capacity : 16;
		struct hd_tensor *grown = realloc(spec->job.tensors, (size_t)more * sizeof *grown);

		if (!grown)
			return heddle_fail(-ENOMEM, "no memory");
		spec->job.tensors = grown;
		spec->capacity = more;
	}
	tensor.dimension_count = (uint8_t)dimension_count;
	memcpy(tensor.dimension, dimensions, dimension_count * sizeof *dimensions);
	spec->job.tensors[spec->job.tensor_count++] = tensor;
	return 0;
}

void heddle_spec_seed(struct heddle_spec *spec, uint64_t seed) {
	spec->job.seed = seed;
}

void heddle_spec_sgd(struct heddle_spec *spec, float rate, float momentum, float decay) {
	spec->job.optimizer = HD_OPTIMIZER_SGD;
	spec->job.learning_rate = rate;
	spec->job.momentum = momentum;
	spec->job.weight_decay = decay;
}

void heddle_spec_div_max(struct heddle_spec *spec, float div_max) {
	spec->job.div_max = div_max;
}

void heddle_spec_sync(struct heddle_spec *spec, enum heddle_sync mode, uint32_t n) {
	spec->job.sync = (uint8_t)mode;
	spec->job.sync_count = n;
}

void heddle_spec_scale(struct heddle_spec *spec, uint32_t base) {
	spec->job.scale_base = base;
}

void heddle_spec_tau_max(struct heddle_spec *spec, uint32_t tau_max) {
	spec->job.tau_max = tau_max;
}

void heddle_spec_staleness(struct heddle_spec *spec, enum heddle_staleness rule, float c) {
	spec->job.staleness_rule = (uint8_t)rule;
	spec->job.staleness_c = c;
}

void heddle_spec_allow_not_finite(struct heddle_spec *spec) {
	spec->job.allow_not_finite = true;
}

void heddle_spec_integrity(struct heddle_spec *spec, int on) {
	spec->job.unsealed = !on;
}

uint64_t heddle_spec_values(const struct heddle_spec *spec) {
	return hd_jobspec_values(&spec->job);
}

int heddle_spec_initialize(const struct heddle_spec *spec, float *values) {
	char error[HD_TEXT_BYTES_MAX];

	if (hd_jobspec_check(&spec->job, error, sizeof error) < 0)
		return heddle_fail(-EINVAL, "%s", error);
	hd_jobspec_initialize(&spec->job, values);
	return 0;
}
