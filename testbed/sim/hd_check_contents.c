/* SPDX-License-Identifier: BSD-3-Clause */
/* The model that results from the committed updates. */
#include "hd_check_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- a job that trains --------------------------------------------------------------------- */

int hd_check_train(struct hd_check *check, const float *initial, const struct hd_sgd *sgd) {
	size_t bytes = check->values * sizeof(float);
	float *copy = malloc(bytes), *momentum = calloc(check->values, sizeof(float));

	if (!copy || !momentum) {
		free(copy);
		free(momentum);
		return -ENOMEM;
	}
	memcpy(copy, initial, bytes);
	memcpy(check->shadow, initial, bytes);
	check->initial = copy;
	check->momentum = momentum;
	check->sgd = *sgd;
	check->trains = true;
	return 0;
}

void hd_check_pulls_as(struct hd_check *check, uint8_t dtype) {
	check->pull_dtype = dtype;
}

uint64_t hd_check_pulled_hash(struct hd_check *check) {
	uint16_t *half = malloc(check->values * sizeof *half);
	uint64_t hash;

	if (!half) {
		hd_check_fail(check, "out of memory");
		return 0;
	}
	hd_half_from_f32(check->pull_dtype, half, check->shadow, check->values, 1);
	hd_half_to_f32(check->pull_dtype, check->scratch, half, check->values);
	hash = hd_check_hash(check->scratch, check->values);
	free(half);
	return hash;
}

void hd_check_contents_fini(struct hd_check *check) {
	free(check->shadow);
	free(check->scratch);
	free(check->initial);
	free(check->momentum);
	hd_check_merge_end(check);
}

void hd_check_keep(struct hd_check *check, struct hd_check_record *record, const float *data) {
	size_t bytes = check->values * sizeof(float);

	if (!check->trains || check->blind)
		return;
	record->data = malloc(bytes);
	if (!record->data)
		hd_check_fail(check, "out of memory");
	else
		memcpy(record->data, data, bytes);
}

void hd_check_forget(struct hd_check_record *record) {
	free(record->data);
	record->data = NULL;
}

/* As the server does: values outside of the runs stay, momentum included. */
static void
apply_trained_runs(struct hd_check *check, const struct hd_check_record *record, float weight) {
	struct hd_run runs[HD_CHECK_RUNS_MAX];
	size_t count = hd_check_runs(record->salt, check->values, runs);

	for (size_t i = 0; i < count; i++) {
		hd_scale_f32(check->scratch, record->data + runs[i].first, runs[i].count, weight);
		(void)hd_sgd_apply(
			check->shadow + runs[i].first,
			check->momentum + runs[i].first,
			check->scratch,
			runs[i].count,
			&check->sgd
		);
	}
}

/* The update as on the wire: in scratch. */
static void
make_travel(struct hd_check *check, const struct hd_check_record *record, float weight) {
	if (hd_dtype_is_half(record->dtype))
		hd_half_from_f32(
			record->dtype, (void *)check->scratch, record->data, check->values, weight
		);
	else if (weight >= 1.0f && weight <= 1.0f)
		memcpy(check->scratch, record->data, check->values * sizeof(float));
	else
		hd_scale_f32(check->scratch, record->data, check->values, weight);
}

static void step(struct hd_check *check, uint8_t dtype, const void *update) {
	if (hd_dtype_is_half(dtype))
		(void)hd_sgd_apply_half(
			dtype, check->shadow, check->momentum, update, check->values, &check->sgd
		);
	else
		(void
		)hd_sgd_apply(check->shadow, check->momentum, update, check->values, &check->sgd);
}

/* The server works block by block. */
static void step_sum(struct hd_check *check, uint16_t steps) {
	hd_scale_f32(check->sum, check->sum, check->values, 1.0f / (float)steps);
	for (uint16_t i = 0; i < steps; i++)
		(void)hd_sgd_apply(
			check->shadow, check->momentum, check->sum, check->values, &check->sgd
		);
}

/* A part of a sum: added as aggregators do in the order of ranks, 16 bits in fp32. The last one makes the steps. */
static void add_part(struct hd_check *check, const struct hd_check_record *record, uint16_t more) {
	bool half = hd_dtype_is_half(record->dtype), first = !check->sum;
	uint8_t dtype = record->dtype;

	if (first) {
		check->sum = malloc(check->values * sizeof(float));
		check->sum_dtype = dtype;
		check->sum_parts = 0;
	}
	if (!check->sum || dtype != check->sum_dtype) {
		hd_check_fail(check, "a sum of two types, or out of memory");
		return;
	}
	if (first && half)
		hd_half_to_f32(dtype, check->sum, (void *)check->scratch, check->values);
	else if (first)
		memcpy(check->sum, check->scratch, check->values * sizeof(float));
	else if (half)
		hd_add_half(dtype, check->sum, (void *)check->scratch, check->values);
	else
		hd_add_f32(check->sum, check->scratch, check->values);
	check->sum_parts++;
	if (more > 0)
		return;
	if (half) {
		hd_half_from_f32(dtype, (void *)check->scratch, check->sum, check->values, 1);
		hd_half_to_f32(dtype, check->sum, (void *)check->scratch, check->values);
	}
	step_sum(check, check->sum_parts);
	free(check->sum);
	check->sum = NULL;
}

static void
apply_trained(struct hd_check *check, struct hd_check_record *record, float weight, uint16_t more) {
	if (check->blind)
		return;
	if (check->sync != HD_SYNC_NONE) {
		make_travel(check, record, weight);
		hd_check_step_apply(check, record, more);
	} else if (record->dtype == HD_DTYPE_SPARSE32) {
		if (more == 0 && check->more == 0)
			apply_trained_runs(check, record, weight);
	} else {
		make_travel(check, record, weight);
		if (more > 0 || check->more > 0)
			add_part(check, record, more);
		else
			step(check, record->dtype, check->scratch);
	}
	hd_check_forget(record);
}

void hd_check_apply(
	struct hd_check *check,
	struct hd_check_record *record,
	float weight,
	uint16_t more
) {
	struct hd_run runs[HD_CHECK_RUNS_MAX] = {{0, check->values}};
	size_t count = 1;

	if (record->dtype == HD_DTYPE_SPARSE32 && check->sync == HD_SYNC_NONE
	    && (more > 0 || check->more > 0))
		hd_check_merge(check, record, weight, more);
	if (check->trains) {
		apply_trained(check, record, weight, more);
		return;
	}
	hd_check_fill(record->salt, check->scratch, check->values);
	if (check->sync != HD_SYNC_NONE) {
		hd_check_step_apply(check, record, more);
		return;
	}
	if (record->dtype == HD_DTYPE_SPARSE32)
		count = hd_check_runs(record->salt, check->values, runs);
	for (size_t i = 0; i < count; i++)
		hd_check_subtract(
			&check->shadow[runs[i].first], &check->scratch[runs[i].first], runs[i].count
		);
}

void hd_check_reset(struct hd_check *check, const float *model) {
	size_t bytes = check->values * sizeof(float);

	check->blind = check->sync_blind || (check->trains && check->log_count > 0);
	hd_check_merge_end(check);
	if (model)
		memcpy(check->shadow, model, bytes);
	else if (check->trains)
		memcpy(check->shadow, check->initial, bytes);
	else
		memset(check->shadow, 0, bytes);
}
