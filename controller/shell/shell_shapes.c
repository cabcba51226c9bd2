/* SPDX-License-Identifier: BSD-3-Clause */
#include "shell_shapes.h"

#include <assert.h>
#include <math.h>

HD_ROW_SHAPE_OF(shell_plan_head_shape, plan_head, ELASTIC_PLAN_HEAD, "elastic-plan", "");
HD_ROW_SHAPE_OF(
	shell_plan_row_shape,
	plan_row,
	ELASTIC_PLAN,
	"elastic-plan",
	"plans that `elastic plan` compared"
);
HD_ROW_SHAPE_OF(shell_fit_head_shape, fit_head, ELASTIC_FIT_HEAD, "elastic-fit", "");
HD_ROW_SHAPE_OF(
	shell_fit_row_shape,
	fit_row,
	ELASTIC_FIT,
	"elastic-fit",
	"step times R(n) of a loss log"
);
HD_ROW_SHAPE_OF(shell_check_head_shape, check_head, CHECK_HEAD, "check", "");
HD_ROW_SHAPE_OF(shell_check_row_shape, check_row, CHECK, "check", "results of heddlectl check");
HD_ROW_SHAPE_OF(
	shell_done_head_shape,
	done_head,
	DONE,
	"done",
	"result of set, pause, resume, drain, undrain, evict with --json"
);

const struct shell_shape shell_plan_shape = {&shell_plan_head_shape, &shell_plan_row_shape, true};
const struct shell_shape shell_fit_shape = {&shell_fit_head_shape, &shell_fit_row_shape, true};
const struct shell_shape shell_check_shape
	= {&shell_check_head_shape, &shell_check_row_shape, false};
const struct shell_shape shell_done_shape = {&shell_done_head_shape, NULL, false};

static json_t *real_or_null(double value) {
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count_or_null(uint64_t value) {
	return value == HD_ROW_NONE ? json_null() : json_integer((json_int_t)value);
}

static json_t *text_or_null(const char *text) {
	return text ? json_string(text) : json_null();
}

static json_t *value_of(uint16_t type, const void *at) {
	switch ((enum hd_row_type)type) {
	case HD_ROW_TEXT:
	case HD_ROW_TEXT_OR_NULL:
		return text_or_null(*(const char *const *)at);
	case HD_ROW_COUNT:
	case HD_ROW_COUNT_OR_NULL:
		return count_or_null(*(const uint64_t *)at);
	case HD_ROW_REAL:
	case HD_ROW_REAL_OR_NULL:
		return real_or_null(*(const double *)at);
	case HD_ROW_BOOL:
	case HD_ROW_TRUE:
		return json_boolean(*(const bool *)at);
	case HD_ROW_EXACT:
	case HD_ROW_EXACT_OR_NULL:
	case HD_ROW_NUMBER:
	case HD_ROW_VERSION:
	case HD_ROW_ADDRESS:
	case HD_ROW_BUCKETS:
		break;
	}
	assert(!"a type that no document of the shell has");
	return NULL;
}

void shell_json_put(json_t *object, const struct hd_row_shape *shape, const void *row) {
	for (uint16_t i = 0; i < shape->count; i++) {
		const struct hd_row_field *field = &shape->fields[i];

		json_object_set_new(
			object,
			field->name,
			value_of(field->type, (const char *)row + field->offset)
		);
	}
}

void shell_json_append(json_t *rows, const struct hd_row_shape *shape, const void *row) {
	json_t *object = json_object();

	shell_json_put(object, shape, row);
	json_array_append_new(rows, object);
}
