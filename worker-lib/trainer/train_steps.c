/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "train_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

int train_steps_init(struct train_steps *steps, const struct train *train) {
	const struct train_options *options = &train->options;
	int rc = 0;

	*steps = (struct train_steps){0};
	if (options->admm > 0.0f)
		rc = hd_admm_init(&steps->admm, train->values, options->rate, options->admm);
	if (rc == -EINVAL)
		return train_fail(EX_USAGE, "admm: rho or the rate is out of its limits");
	if (options->local_steps > 1 || options->admm > 0.0f) {
		steps->grad = malloc(train->values * sizeof(float));
		steps->kept = malloc(train->values * sizeof(float));
		if (!steps->grad || !steps->kept)
			rc = -ENOMEM;
	}
	return rc < 0 ? train_fail(EX_OSERR, "no memory for local steps") : EX_OK;
}

void train_steps_fini(struct train_steps *steps) {
	hd_admm_fini(&steps->admm);
	free(steps->grad);
	free(steps->kept);
	*steps = (struct train_steps){0};
}

int train_gradient(struct train *train, float *grad, struct train_report *report) {
	struct hd_sampler *sampler = &train->sampler;
	char error[HD_TEXT_BYTES_MAX];
	hd_ns begun = hd_compute_now();
	int rc;

	hd_sampler_next(sampler);
	if (hd_model_by_row(train->model))
		report->loss_sum += hd_model_gradient_rows(
			train->model,
			train->params,
			&train->train,
			sampler->picked,
			sampler->batch,
			grad
		);
	else
		report->loss_sum += hd_model_gradient(
			train->model, train->params, sampler->x, sampler->y, sampler->batch, grad
		);
	report->steps++;
	rc = hd_compute_pad(&train->compute, begun, error, sizeof error);
	return rc == -EINVAL ? train_fail(EX_DATAERR, "%s", error) : EX_OK;
}

/* Steps of this worker's own, of which the sum of the gradients is pushed. The server's step with the mean of such
 * sums makes its model the mean of the workers' (model averaging: Jiang et al., SIGMOD 2021, 3.2). */
static int
average(struct train_steps *steps, struct train *train, float *update, struct train_report *report
) {
	const float *last = update;
	int rc = train_gradient(train, update, report);

	for (uint32_t i = 1; rc == EX_OK && i < train->options.local_steps; i++) {
		for (uint64_t k = 0; k < train->values; k++)
			train->params[k] -= train->options.rate * last[k];
		rc = train_gradient(train, steps->grad, report);
		hd_add_f32(update, steps->grad, train->values);
		last = steps->grad;
	}
	return rc;
}

/* Those of hd_admm.h. */
static int
agree(struct train_steps *steps, struct train *train, float *update, struct train_report *report) {
	struct hd_admm *admm = &steps->admm;
	int rc = EX_OK;

	hd_admm_begin(admm, train->params, steps->applied);
	steps->applied = false;
	for (uint32_t i = 0; rc == EX_OK && i < train->options.local_steps; i++) {
		memcpy(train->params, admm->x, train->values * sizeof(float));
		rc = train_gradient(train, steps->grad, report);
		hd_admm_step(admm, steps->grad);
	}
	hd_admm_update(admm, update);
	return rc;
}

int train_steps_compute(
	struct train_steps *steps,
	struct train *train,
	float *update,
	struct train_report *report
) {
	int rc;

	if (!steps->grad)
		return train_gradient(train, update, report);
	memcpy(steps->kept, train->params, train->values * sizeof(float));
	rc = steps->admm.values > 0 ? agree(steps, train, update, report) :
				      average(steps, train, update, report);
	memcpy(train->params, steps->kept, train->values * sizeof(float));
	return rc;
}

void train_steps_end(struct train_steps *steps, const struct heddle_status *status) {
	steps->applied = status->state == HEDDLE_APPLIED || status->state == HEDDLE_DURABLE;
}

float train_steps_scale(const struct train_steps *steps, const struct train *train) {
	return steps->admm.values > 0 ? 1.0f : train->scale;
}
