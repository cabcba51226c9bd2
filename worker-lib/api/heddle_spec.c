/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's description. */
#include "hd_text.h"
#include "heddle_private.h"
#include "heddle_setup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A description has a byte for it: what does not fit stays unknown, so that heddle_open() says so. */
static uint8_t byte_of(int value) {
	return value >= 0 && value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

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

/* An environment variable that is empty is not set. */
static const char *text_or(const char *text, const char *otherwise) {
	return text && *text ? text : otherwise;
}

int heddle_spec_create(const char *tenant, const char *job, struct heddle_spec **out) {
	struct heddle_spec *spec;
	int rc;

	if (!out)
		return heddle_fail(-EINVAL, "spec: NULL");
	if (!tenant)
		tenant = text_or(getenv("HEDDLE_TENANT"), "default");
	if (!job)
		job = getenv("HEDDLE_JOB");
	if (!job || !*job)
		return heddle_fail(-EINVAL, "no job name: set HEDDLE_JOB, or pass one");
	spec = calloc(1, sizeof *spec);
	if (!spec)
		return heddle_fail(-ENOMEM, "no memory");
	rc = set_name(spec->job.tenant, tenant, "tenant name");
	if (rc == 0)
		rc = set_name(spec->job.name, job, "job name");
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
	if (count == 0 || !dimensions)
		return heddle_fail(-EINVAL, "tensor %s: no dimension", name);
	for (size_t i = 0; i < count; i++)
		if (dimensions[i] == 0)
			return heddle_fail(-EINVAL, "tensor %s: dimension %zu is 0", name, i);
	return 0;
}

int heddle_spec_add_tensor(
	struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t dimension_count,
	enum heddle_init init,
	float scale
) {
	struct hd_tensor tensor = {.dtype = 0, .init = byte_of((int)init), .init_scale = scale};
	int rc = spec ? set_name(tensor.name, name, "tensor") : heddle_fail(-EINVAL, "spec: NULL");

	if (rc == 0)
		rc = check_tensor(spec, name, dimensions, dimension_count);
	if (rc < 0)
		return rc;
	if (tensor.init > HD_INIT_UNIFORM)
		return heddle_fail(-EINVAL, "tensor %s: init %d is unknown", name, (int)init);
	if (!isfinite(scale))
		return heddle_fail(-EINVAL, "tensor %s: scale is not finite", name);
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

void heddle_spec_set_seed(struct heddle_spec *spec, uint64_t seed) {
	if (spec)
		spec->job.seed = seed;
}

void heddle_spec_set_sgd(struct heddle_spec *spec, float rate, float momentum, float decay) {
	if (!spec)
		return;
	spec->job.optimizer = HD_OPTIMIZER_SGD;
	spec->job.learning_rate = rate;
	spec->job.momentum = momentum;
	spec->job.weight_decay = decay;
}

void heddle_spec_set_div_max(struct heddle_spec *spec, float div_max) {
	if (spec)
		spec->job.div_max = div_max;
}

void heddle_spec_set_sync(struct heddle_spec *spec, enum heddle_sync mode, uint32_t n) {
	if (!spec)
		return;
	/* Federated is what heddle_spec_set_federated() makes it. */
	spec->job.sync = mode <= HEDDLE_SYNC_N_BATCH ? byte_of((int)mode) : UINT8_MAX;
	spec->sync = (int)mode;
	spec->job.sync_count = n;
}

void heddle_spec_set_scale_base(struct heddle_spec *spec, uint32_t base) {
	if (spec)
		spec->job.scale_base = base;
}

void heddle_spec_set_tau_max(struct heddle_spec *spec, uint32_t tau_max) {
	if (spec)
		spec->job.tau_max = tau_max;
}

void heddle_spec_set_staleness(struct heddle_spec *spec, enum heddle_staleness rule, float c) {
	if (!spec)
		return;
	spec->job.staleness_rule = byte_of((int)rule);
	spec->staleness = (int)rule;
	spec->job.staleness_c = c;
}

void heddle_spec_allow_not_finite(struct heddle_spec *spec) {
	if (spec)
		spec->job.allow_not_finite = true;
}

void heddle_spec_set_integrity(struct heddle_spec *spec, int on) {
	if (spec)
		spec->job.unsealed = !on;
}

uint64_t heddle_spec_value_count(const struct heddle_spec *spec) {
	return spec ? hd_jobspec_values(&spec->job) : 0;
}

int heddle_check_spec(const struct heddle_spec *spec) {
	char error[HD_TEXT_BYTES_MAX];

	if (!spec)
		return heddle_fail(-EINVAL, "spec: NULL");
	if (spec->job.sync == UINT8_MAX)
		return heddle_fail(-EINVAL, "spec: sync: %d is unknown", spec->sync);
	if (spec->job.staleness_rule == UINT8_MAX)
		return heddle_fail(-EINVAL, "spec: staleness_rule: %d is unknown", spec->staleness);
	if (hd_jobspec_check(&spec->job, error, sizeof error) < 0)
		return heddle_fail(-EINVAL, "spec: %s", error);
	return 0;
}

int heddle_spec_initialize_model(const struct heddle_spec *spec, float *values) {
	int rc;

	if (!spec || !values)
		return heddle_fail(-EINVAL, "spec or values: NULL");
	rc = heddle_check_spec(spec);
	if (rc == 0)
		hd_jobspec_initialize(&spec->job, values);
	return rc;
}
