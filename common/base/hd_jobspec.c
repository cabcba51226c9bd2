/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_jobspec.h"
#include "hd_out.h"
#include "hd_random.h"
#include "hd_text.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t hd_job_id(const char *tenant, const char *name) {
	const char *part[] = {tenant, "/", name};
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < 3; i++)
		for (const char *c = part[i]; *c; c++)
			hash = (hash ^ (uint8_t)*c) * 16777619u;
	return hash ? hash : 1;
}

/* --- checks ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int
refuse(char *error, size_t error_bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(error, error_bytes, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static bool name_valid(const char *name) {
	const char *end = memchr(name, '\0', HD_NAME_BYTES_MAX + 1);

	return end && end > name && hd_text_valid(name, (size_t)(end - name));
}

static bool at_least_zero(float x) {
	return isfinite(x) && x >= 0;
}

/* Values of one tensor, 0 if beyond the limit. A tensor without dimensions is one value. */
static uint64_t tensor_values(const struct hd_tensor *tensor) {
	uint64_t values = 1;

	for (size_t i = 0; i < tensor->dimension_count; i++) {
		if (tensor->dimension[i] == 0 || tensor->dimension[i] > HD_MODEL_BYTES_MAX / values)
			return 0;
		values *= tensor->dimension[i];
	}
	return values;
}

static int check_tensor(const struct hd_tensor *t, uint32_t index, char *error, size_t bytes) {
	if (!name_valid(t->name))
		return refuse(
			error, bytes, "tensors[%u].name: 1..64 bytes of UTF-8 are expected", index
		);
	if (t->dtype != HD_DTYPE_FP32)
		return refuse(
			error, bytes, "tensors[%u].dtype: %u is not fp32 (0)", index, t->dtype
		);
	if (t->dimension_count > HD_DIMENSIONS_MAX)
		return refuse(
			error,
			bytes,
			"tensors[%u].shape: %u dimensions (HD_DIMENSIONS_MAX 8)",
			index,
			t->dimension_count
		);
	if (tensor_values(t) == 0)
		return refuse(
			error,
			bytes,
			"tensors[%u].shape: a dimension of 0, or beyond HD_MODEL_BYTES_MAX",
			index
		);
	if (t->init > HD_INIT_UNIFORM)
		return refuse(error, bytes, "tensors[%u].init: %u is unknown", index, t->init);
	if (!at_least_zero(t->init_scale))
		return refuse(error, bytes, "tensors[%u].init_scale: must be finite, >= 0", index);
	return 0;
}

static int compare_names(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_unique(const struct hd_jobspec *spec, char *error, size_t bytes) {
	const char *names[HD_TENSORS_MAX];

	for (uint32_t i = 0; i < spec->tensor_count; i++)
		names[i] = spec->tensors[i].name;
	qsort(names, spec->tensor_count, sizeof names[0], compare_names);
	for (uint32_t i = 1; i < spec->tensor_count; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return refuse(error, bytes, "tensors: two are named \"%s\"", names[i]);
	return 0;
}

static int check_tensors(const struct hd_jobspec *spec, char *error, size_t bytes) {
	int result;

	if (spec->tensor_count > HD_TENSORS_MAX)
		return refuse(
			error,
			bytes,
			"tensors: %u of them (at most HD_TENSORS_MAX 1024)",
			spec->tensor_count
		);
	for (uint32_t i = 0; i < spec->tensor_count; i++) {
		result = check_tensor(&spec->tensors[i], i, error, bytes);
		if (result < 0)
			return result;
	}
	if (spec->tensor_count > 0 && hd_jobspec_values(spec) == 0)
		return refuse(error, bytes, "tensors: together beyond HD_MODEL_BYTES_MAX (2^40)");
	return check_unique(spec, error, bytes);
}

static int check_optimizer(const struct hd_jobspec *spec, char *error, size_t bytes) {
	if (spec->optimizer != HD_OPTIMIZER_SGD)
		return refuse(error, bytes, "optimizer: %u is unknown", spec->optimizer);
	if (!at_least_zero(spec->learning_rate))
		return refuse(error, bytes, "learning_rate: must be finite, >= 0");
	if (!at_least_zero(spec->momentum) || spec->momentum >= 1)
		return refuse(error, bytes, "momentum: must be >= 0 and < 1");
	if (!at_least_zero(spec->weight_decay))
		return refuse(error, bytes, "weight_decay: must be finite, >= 0");
	if (!at_least_zero(spec->div_max))
		return refuse(error, bytes, "div_max: must be finite, >= 0 (0: no bound)");
	if (spec->staleness_rule >= HD_STALENESS_COUNT)
		return refuse(error, bytes, "staleness_rule: %u is unknown", spec->staleness_rule);
	if (!at_least_zero(spec->staleness_c)
	    || (spec->staleness_rule != HD_STALENESS_CONSTANT && spec->staleness_c == 0))
		return refuse(error, bytes, "staleness_c: must be finite, > 0");
	return 0;
}

static int check_federated(const struct hd_jobspec *spec, char *error, size_t bytes) {
	const struct hd_federated *f = &spec->federated;

	if (f->clients == 0 || f->clients > HD_WORKERS_MAX)
		return refuse(error, bytes, "clients: %u (1..HD_WORKERS_MAX 4096)", f->clients);
	if (f->clients_least == 0 || f->clients_least > f->clients)
		return refuse(
			error,
			bytes,
			"clients_least: %u (1..clients %u)",
			f->clients_least,
			f->clients
		);
	if (f->available > HD_WORKERS_MAX)
		return refuse(error, bytes, "available: %u (0..HD_WORKERS_MAX 4096)", f->available);
	if (f->deadline_ms > HD_ROUND_MS_MAX)
		return refuse(
			error,
			bytes,
			"deadline_ms: %u (0..HD_ROUND_MS_MAX 86400000)",
			f->deadline_ms
		);
	if (f->wait_ms > HD_ROUND_MS_MAX)
		return refuse(
			error, bytes, "wait_ms: %u (0..HD_ROUND_MS_MAX 86400000)", f->wait_ms
		);
	if (f->epochs == 0)
		return refuse(error, bytes, "epochs: 0 (1..65535)");
	if (f->weighting > HD_WEIGHTING_UNIFORM)
		return refuse(error, bytes, "weighting: %u is unknown", f->weighting);
	if (f->late > HD_LATE_WEIGHT)
		return refuse(error, bytes, "late: %u is unknown", f->late);
	if (!at_least_zero(f->mu))
		return refuse(error, bytes, "mu: must be finite, >= 0");
	if (spec->staleness_rule != HD_STALENESS_CONSTANT)
		return refuse(error, bytes, "staleness_rule: must be constant with sync");
	return 0;
}

static int check_sync(const struct hd_jobspec *spec, char *error, size_t bytes) {
	bool counts = spec->sync == HD_SYNC_N || spec->sync == HD_SYNC_N_BATCH;

	if (spec->sync >= HD_SYNC_COUNT)
		return refuse(error, bytes, "sync: %u is unknown", spec->sync);
	if (counts && (spec->sync_count == 0 || spec->sync_count > HD_WORKERS_MAX))
		return refuse(
			error, bytes, "sync_count: %u (1..HD_WORKERS_MAX 4096)", spec->sync_count
		);
	if (!counts && spec->sync_count != 0)
		return refuse(error, bytes, "sync_count: only of N-sync and N-batch-sync");
	if (spec->scale_base > HD_WORKERS_MAX)
		return refuse(
			error, bytes, "scale_base: %u (0..HD_WORKERS_MAX 4096)", spec->scale_base
		);
	if (spec->scale_base > 0 && (spec->sync == HD_SYNC_NONE || spec->sync == HD_SYNC_FEDERATED))
		return refuse(error, bytes, "scale_base: only of synchronous steps");
	if (spec->sync == HD_SYNC_FEDERATED)
		return check_federated(spec, error, bytes);
	/* All members of a step have the same age. */
	if (spec->sync != HD_SYNC_NONE && spec->staleness_rule != HD_STALENESS_CONSTANT)
		return refuse(error, bytes, "staleness_rule: must be constant with sync");
	return 0;
}

int hd_jobspec_check(const struct hd_jobspec *spec, char *error, size_t error_bytes) {
	int result;

	if (!name_valid(spec->tenant))
		return refuse(error, error_bytes, "tenant: 1..64 bytes of UTF-8 are expected");
	if (!name_valid(spec->name))
		return refuse(error, error_bytes, "name: 1..64 bytes of UTF-8 are expected");
	if (spec->tau_max == 0 || spec->tau_max > HD_TAU_MAX_LIMIT)
		return refuse(
			error,
			error_bytes,
			"tau_max: %u (1..HD_TAU_MAX_LIMIT 1000000)",
			spec->tau_max
		);
	result = check_optimizer(spec, error, error_bytes);
	if (result == 0)
		result = check_sync(spec, error, error_bytes);
	return result < 0 ? result : check_tensors(spec, error, error_bytes);
}

uint64_t hd_jobspec_values(const struct hd_jobspec *spec) {
	uint64_t sum = 0, bytes = 0;

	for (uint32_t i = 0; i < spec->tensor_count; i++) {
		uint64_t values = tensor_values(&spec->tensors[i]);

		/* At most 2^40 values of at most 8 bytes: no product below overflows. */
		bytes += values * hd_dtype_bytes(spec->tensors[i].dtype);
		if (values == 0 || bytes > HD_MODEL_BYTES_MAX)
			return 0;
		sum += values;
	}
	return sum;
}

uint64_t hd_jobspec_model_bytes(const struct hd_jobspec *spec) {
	uint64_t bytes = 0;

	if (spec->tensor_count > 0 && hd_jobspec_values(spec) == 0)
		return 0;
	for (uint32_t i = 0; i < spec->tensor_count; i++)
		bytes += tensor_values(&spec->tensors[i]) * hd_dtype_bytes(spec->tensors[i].dtype);
	return bytes;
}

void hd_jobspec_fini(struct hd_jobspec *spec) {
	free(spec->tensors);
	spec->tensors = NULL;
	spec->tensor_count = 0;
}

/* --- differences ----------------------------------------------------------------------------- */

static void shape_text(const struct hd_tensor *tensor, char *text, size_t capacity) {
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < tensor->dimension_count && used < capacity; i++) {
		int n = snprintf(
			text + used,
			capacity - used,
			"%s%" PRIu64,
			i ? "x" : "",
			tensor->dimension[i]
		);

		used += n > 0 ? (size_t)n : 0;
	}
	if (tensor->dimension_count == 0)
		(void)snprintf(text, capacity, "scalar");
}

static bool shape_equal(const struct hd_tensor *a, const struct hd_tensor *b) {
	return a->dimension_count == b->dimension_count
		&& memcmp(a->dimension, b->dimension, a->dimension_count * sizeof a->dimension[0])
		== 0;
}

/* Writes "field: mine, the job has theirs". Always false, so that callers can return it. */
__attribute__((format(printf, 3, 4))) static bool
differ(char *difference, size_t bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(difference, bytes, format, arguments);
	va_end(arguments);
	return false;
}

static bool tensor_equal(
	const struct hd_tensor *a,
	const struct hd_tensor *b,
	uint32_t i,
	char *difference,
	size_t bytes
) {
	char mine[200], theirs[200];

	if (strcmp(a->name, b->name) != 0)
		return differ(
			difference, bytes, "tensor %u: name %s, the job has %s", i, a->name, b->name
		);
	if (!shape_equal(a, b)) {
		shape_text(a, mine, sizeof mine);
		shape_text(b, theirs, sizeof theirs);
		return differ(
			difference,
			bytes,
			"tensor %u (%s): shape %s, the job has %s",
			i,
			a->name,
			mine,
			theirs
		);
	}
	if (a->dtype != b->dtype)
		return differ(
			difference,
			bytes,
			"tensor %u (%s): dtype %u, the job has %u",
			i,
			a->name,
			a->dtype,
			b->dtype
		);
	if (a->init != b->init || a->init_scale != b->init_scale)
		return differ(
			difference,
			bytes,
			"tensor %u (%s): init %u scale %s, the job has %u scale %s",
			i,
			a->name,
			a->init,
			hd_float_text((double)a->init_scale, mine),
			b->init,
			hd_float_text((double)b->init_scale, theirs)
		);
	return true;
}

static bool numbers_equal(
	const struct hd_jobspec *a,
	const struct hd_jobspec *b,
	char *difference,
	size_t bytes
) {
	const struct {
		const char *name;
		double mine, theirs;
	} rows[] = {
		{"optimizer", a->optimizer, b->optimizer},
		{"learning_rate", (double)a->learning_rate, (double)b->learning_rate},
		{"momentum", (double)a->momentum, (double)b->momentum},
		{"weight_decay", (double)a->weight_decay, (double)b->weight_decay},
		{"staleness_rule", a->staleness_rule, b->staleness_rule},
		{"staleness_c", (double)a->staleness_c, (double)b->staleness_c},
		{"tau_max", a->tau_max, b->tau_max},
		{"allow_not_finite", a->allow_not_finite, b->allow_not_finite},
		{"div_max", (double)a->div_max, (double)b->div_max},
		{"sync", a->sync, b->sync},
		{"sync_count", a->sync_count, b->sync_count},
		{"scale_base", a->scale_base, b->scale_base},
		{"clients", a->federated.clients, b->federated.clients},
		{"clients_least", a->federated.clients_least, b->federated.clients_least},
		{"available", a->federated.available, b->federated.available},
		{"deadline_ms", a->federated.deadline_ms, b->federated.deadline_ms},
		{"epochs", a->federated.epochs, b->federated.epochs},
		{"weighting", a->federated.weighting, b->federated.weighting},
		{"drops", a->federated.drops, b->federated.drops},
		{"mu", (double)a->federated.mu, (double)b->federated.mu},
		{"mu_adapts", a->federated.mu_adapts, b->federated.mu_adapts},
		{"late", a->federated.late, b->federated.late},
		{"wait_ms", a->federated.wait_ms, b->federated.wait_ms},
		{"tensors", a->tensor_count, b->tensor_count},
	};
	char mine[HD_FLOAT_TEXT_BYTES], theirs[HD_FLOAT_TEXT_BYTES];

	if (a->federated.seed != b->federated.seed)
		return differ(
			difference,
			bytes,
			"rounds' seed: %" PRIu64 ", the job has %" PRIu64,
			a->federated.seed,
			b->federated.seed
		);
	if (a->unsealed != b->unsealed)
		return differ(
			difference,
			bytes,
			"integrity: %s, the job has %s",
			hd_integrity_name(a->unsealed),
			hd_integrity_name(b->unsealed)
		);
	if (a->seed != b->seed)
		return differ(
			difference,
			bytes,
			"seed: %" PRIu64 ", the job has %" PRIu64,
			a->seed,
			b->seed
		);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].mine != rows[i].theirs)
			return differ(
				difference,
				bytes,
				"%s: %s, the job has %s",
				rows[i].name,
				hd_float_text(rows[i].mine, mine),
				hd_float_text(rows[i].theirs, theirs)
			);
	return true;
}

bool hd_jobspec_equal(
	const struct hd_jobspec *mine,
	const struct hd_jobspec *theirs,
	char *difference,
	size_t difference_bytes
) {
	if (strcmp(mine->tenant, theirs->tenant) != 0)
		return differ(
			difference,
			difference_bytes,
			"tenant: %s, the job has %s",
			mine->tenant,
			theirs->tenant
		);
	if (strcmp(mine->name, theirs->name) != 0)
		return differ(
			difference,
			difference_bytes,
			"name: %s, the job has %s",
			mine->name,
			theirs->name
		);
	if (!numbers_equal(mine, theirs, difference, difference_bytes))
		return false;
	for (uint32_t i = 0; i < mine->tensor_count; i++)
		if (!tensor_equal(
			    &mine->tensors[i], &theirs->tensors[i], i, difference, difference_bytes
		    ))
			return false;
	return true;
}

/* --- derived values -------------------------------------------------------------------------- */

void hd_jobspec_initialize(const struct hd_jobspec *spec, float *values) {
	for (uint32_t i = 0; i < spec->tensor_count; i++) {
		const struct hd_tensor *tensor = &spec->tensors[i];
		uint64_t count = tensor_values(tensor);
		struct hd_random random;

		if (tensor->init == HD_INIT_ZERO) {
			memset(values, 0, count * sizeof *values);
			values += count;
			continue;
		}
		/* Each tensor has its own stream, so that another tensor at the end does not change the others. */
		hd_random_init(&random, spec->seed ^ (UINT64_C(0x9e3779b97f4a7c15) * (i + 1)));
		for (uint64_t k = 0; k < count; k++)
			*values++ = (float
			)((2 * hd_random_unit(&random) - 1) * (double)tensor->init_scale);
	}
}

const char *hd_integrity_name(bool unsealed) {
	return unsealed ? "off" : "on";
}

const char *hd_sync_name(uint8_t sync) {
	static const char *const names[] = {
		[HD_SYNC_NONE] = "async",
		[HD_SYNC_ALL] = "full",
		[HD_SYNC_N] = "nsync",
		[HD_SYNC_N_BATCH] = "nbatch",
		[HD_SYNC_FEDERATED] = "federated",
	};

	return sync < HD_SYNC_COUNT ? names[sync] : "unknown";
}

int hd_sync_parse(const char *text, uint8_t *sync, uint32_t *count) {
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint8_t mode = HD_SYNC_NONE;
	uint32_t n = 0;

	while (mode < HD_SYNC_COUNT
	       && (strlen(hd_sync_name(mode)) != length
		   || memcmp(hd_sync_name(mode), text, length) != 0))
		mode++;
	if (mode == HD_SYNC_COUNT || !colon != (mode != HD_SYNC_N && mode != HD_SYNC_N_BATCH))
		return -EINVAL;
	for (const char *digit = colon ? colon + 1 : ""; *digit; digit++) {
		if (*digit < (n ? '0' : '1') || *digit > '9' || n > HD_WORKERS_MAX)
			return -EINVAL;
		n = 10 * n + (uint32_t)(*digit - '0');
	}
	if (colon && (n == 0 || n > HD_WORKERS_MAX))
		return -EINVAL;
	*sync = mode;
	*count = n;
	return 0;
}

float hd_staleness_weight(uint8_t rule, float c, uint32_t tau_max, uint64_t t, uint32_t tau) {
	double steps = t > 0 ? (double)t : 1, bound = tau_max > 0 ? tau_max : 1;
	double weight;

	if (!isfinite(c) || c <= 0)
		return 1;
	switch (rule) {
	case HD_STALENESS_INV_SQRT:
		weight = (double)c / sqrt(bound * steps);
		break;
	case HD_STALENESS_ADADELAY:
		weight = (double)c / sqrt(steps + tau);
		break;
	default:
		return 1;
	}
	return (float)fmax(fmin(weight, (double)FLT_MAX), (double)FLT_MIN);
}
