/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_row_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR_SCALE 0.17320508F /* uniform in +-this: a standard deviation of 0.1 */
#define REGULARIZATION_MAX 1000.0F
#define NEAR 0.5F

bool hd_row_model_is(const char *text) {
	return strcmp(text, "logistic") == 0 || strncmp(text, "pmf", 3) == 0;
}

static int parse_factors(struct hd_row_model *model, const char *text, char *error, size_t bytes) {
	const char *at = text + 3;
	char *end = NULL;
	unsigned long factors = 0;

	if (at[0] == ':' && at[1] >= '0' && at[1] <= '9')
		factors = strtoul(at + 1, &end, 10);
	if (factors == 0 || factors > HD_FACTORS_MAX) {
		hd_trainer_put(
			error,
			bytes,
			"model: factors of pmf:K: not in 1..%d (HD_FACTORS_MAX)",
			HD_FACTORS_MAX
		);
		return -EINVAL;
	}
	model->factors = (uint32_t)factors;
	if (*end == ',') {
		at = end + 1;
		model->regularization = strtof(at, &end);
		if (end == at || !(model->regularization >= 0.0f)
		    || model->regularization > REGULARIZATION_MAX)
			end = (char *)"?";
	}
	if (*end == '\0')
		return 0;
	hd_trainer_put(
		error, bytes, "model: '%.32s' is not pmf:K or pmf:K,REG (REG: 0..1000)", text
	);
	return -EINVAL;
}

static void describe(struct hd_tensor *tensor, const char *name, uint64_t rows, uint64_t columns) {
	(void)snprintf(tensor->name, sizeof tensor->name, "%s", name);
	tensor->dimension_count = columns > 0 ? 2 : 1;
	tensor->dimension[0] = rows;
	tensor->dimension[1] = columns;
	tensor->init = columns > 0 ? HD_INIT_UNIFORM : HD_INIT_ZERO;
	tensor->init_scale = columns > 0 ? FACTOR_SCALE : 0.0f;
}

int hd_row_model_init(
	struct hd_row_model *model,
	const char *text,
	const struct hd_dataset *like,
	char *error,
	size_t error_bytes
) {
	bool ratings = like->target != NULL, logistic = strcmp(text, "logistic") == 0;
	int rc = 0;

	*model = (struct hd_row_model){
		.features = like->features,
		.users = like->users,
		.mean = like->mean,
	};
	if (!logistic)
		rc = parse_factors(model, text, error, error_bytes);
	if (rc < 0)
		return rc;
	if (logistic ? ratings || like->x || like->classes != 2 : !ratings) {
		hd_trainer_put(
			error,
			error_bytes,
			logistic ? "model: logistic takes sparse rows (svmlight) of 2 classes" :
				   "model: pmf takes ratings"
		);
		return -EINVAL;
	}
	if (logistic) {
		describe(&model->tensors[0], "weight", model->features, 0);
		describe(&model->tensors[1], "bias", 1, 0);
		model->values = (uint64_t)model->features + 1;
		return 0;
	}
	describe(&model->tensors[0], "users", model->users, model->factors);
	describe(&model->tensors[1], "items", model->features - model->users, model->factors);
	model->values = (uint64_t)model->features * model->factors;
	return 0;
}

/* --- logistic regression -------------------------------------------------------------------- */

static double
score(const struct hd_row_model *model,
      const float *params,
      const struct hd_dataset *dataset,
      uint32_t row) {
	double z = (double)params[model->features];

	for (uint64_t i = dataset->start[row]; i < dataset->start[row + 1]; i++)
		z += (double)params[dataset->index[i]] * (double)dataset->value[i];
	return z;
}

/* ln(1 + exp(-z)) without overflow. */
static double log_loss(double z) {
	return z > 0.0 ? log1p(exp(-z)) : log1p(exp(z)) - z;
}

static double add_logistic(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	uint32_t row,
	double share,
	float *grad
) {
	double z = score(model, params, dataset, row), label = dataset->y[row] ? 1.0 : -1.0;
	double slope = -label / (1.0 + exp(label * z)) * share;

	for (uint64_t i = dataset->start[row]; i < dataset->start[row + 1]; i++)
		grad[dataset->index[i]] += (float)(slope * (double)dataset->value[i]);
	grad[model->features] += (float)slope;
	return log_loss(label * z);
}

/* --- matrix factorisation ------------------------------------------------------------------- */

static float
rate(const struct hd_row_model *model,
     const float *params,
     const struct hd_dataset *dataset,
     uint32_t row) {
	const uint32_t *index = dataset->index + dataset->start[row];
	const float *p = params + (size_t)index[0] * model->factors;
	const float *q = params + (size_t)index[1] * model->factors;
	float sum = model->mean;

	for (uint32_t k = 0; k < model->factors; k++)
		sum += p[k] * q[k];
	return sum;
}

static double add_rating(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	uint32_t row,
	double share,
	float *grad
) {
	const uint32_t *index = dataset->index + dataset->start[row];
	size_t user = (size_t)index[0] * model->factors, item = (size_t)index[1] * model->factors;
	float off = rate(model, params, dataset, row) - dataset->target[row];
	float slope = 2.0f * (float)share, shrink = slope * model->regularization;

	for (uint32_t k = 0; k < model->factors; k++) {
		float p = params[user + k], q = params[item + k];

		grad[user + k] += slope * off * q + shrink * p;
		grad[item + k] += slope * off * p + shrink * q;
	}
	return (double)off * (double)off;
}

/* --- all models ----------------------------------------------------------------------------- */

double hd_row_model_gradient(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	const uint32_t *rows,
	uint32_t count,
	float *grad
) {
	double loss = 0.0, share = 1.0 / (double)count;

	memset(grad, 0, model->values * sizeof(float));
	for (uint32_t i = 0; i < count; i++)
		loss += model->factors > 0 ?
			add_rating(model, params, dataset, rows[i], share, grad) :
			add_logistic(model, params, dataset, rows[i], share, grad);
	return loss * share;
}

void hd_row_model_evaluate(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	double *accuracy,
	double *loss
) {
	double sum = 0.0;
	uint32_t right = 0;

	for (uint32_t row = 0; row < dataset->rows; row++) {
		if (model->factors > 0) {
			float off = rate(model, params, dataset, row) - dataset->target[row];

			right += fabsf(off) <= NEAR;
			sum += (double)off * (double)off;
		} else {
			double z = score(model, params, dataset, row);

			right += (z > 0.0) == (dataset->y[row] != 0);
			sum += log_loss(dataset->y[row] ? z : -z);
		}
	}
	*accuracy = dataset->rows ? (double)right / (double)dataset->rows : 0.0;
	*loss = dataset->rows ? sum / (double)dataset->rows : 0.0;
}
