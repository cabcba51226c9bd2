/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "hd_number.h"
#include "train_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ADMM_STEPS 10 /* the default */
#define ADMM_RHO_MAX 1e6

int train_take_admm(void *values, const char *text) {
	struct train_options *options = values;
	char *end;
	double rho = strtod(text, &end);
	uint64_t steps = ADMM_STEPS;
	bool good = end != text && rho > 0.0 && rho <= ADMM_RHO_MAX && (float)rho > 0.0f;

	if (good && *end != '\0')
		good = *end == ',' && hd_number_whole(end + 1, 1, LOCAL_STEPS_MAX, &steps) == 0;
	if (!good)
		return train_fail(
			EX_USAGE,
			"--admm: '%.32s' (RHO[,LOCAL_STEPS], RHO above 0, at most %g; steps: 1..%d)",
			text,
			ADMM_RHO_MAX,
			LOCAL_STEPS_MAX
		);
	options->admm = (float)rho;
	options->local_steps = (uint32_t)steps;
	return 0;
}

int train_check_admm(const struct train_options *options) {
	double product = (double)options->rate * (double)options->admm;

	if (options->local || options->is_federated || options->filtered || options->scaled)
		return train_fail(
			EX_USAGE, "admm: not with --local, --federated, --filter or --scale-rate"
		);
	if (options->sync != HD_SYNC_ALL && options->sync != HD_SYNC_N)
		return train_fail(EX_USAGE, "admm: needs --sync full or nsync:N");
	if (options->momentum > 0.0f || options->decay > 0.0f)
		return train_fail(EX_USAGE, "admm: not with --momentum or --weight-decay");
	if (options->rate <= 0.0f || product > 1.0)
		return train_fail(
			EX_USAGE,
			"admm: RHO x --lr is %.6g, must be above 0 and at most 1, or local steps "
			"overshoot",
			product
		);
	return -1;
}

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
	return rc < 0 ? train_no_memory("local steps") : EX_OK;
}

void train_steps_fini(struct train_steps *steps) {
	hd_admm_fini(&steps->admm);
	free(steps->grad);
	free(steps->kept);
	*steps = (struct train_steps){0};
}

int train_gradient(struct train *train, float *grad, struct train_summary *summary) {
	return train_gradient_of(train, grad, true, hd_compute_now(), summary);
}

int train_gradient_of(
	struct train *train,
	float *grad,
	bool next,
	hd_ns begun,
	struct train_summary *summary
) {
	struct hd_sampler *sampler = &train->sampler;
	char error[HD_TEXT_BYTES_MAX];
	int rc;

	if (next)
		hd_sampler_next(sampler);
	if (hd_model_by_row(train->model))
		summary->loss_sum += hd_model_gradient_rows(
			train->model,
			train->params,
			&train->train,
			sampler->picked,
			sampler->batch,
			grad
		);
	else
		summary->loss_sum += hd_model_gradient(
			train->model, train->params, sampler->x, sampler->y, sampler->batch, grad
		);
	summary->steps++;
	rc = hd_compute_pad(&train->compute, begun, error, sizeof error);
	return rc == -EINVAL ? train_fail(EX_DATAERR, "%s", error) : EX_OK;
}

/* Local steps of this worker, whose sum of gradients is pushed. The server's step with the mean of such sums makes its
 * model the mean of the workers' (model averaging: Jiang et al., SIGMOD 2021, 3.2). */
static int
average(struct train_steps *steps, struct train *train, float *update, struct train_summary *summary
) {
	const float *last = update;
	int rc = train_gradient(train, update, summary);

	for (uint32_t i = 1; rc == EX_OK && i < train->options.local_steps; i++) {
		for (uint64_t k = 0; k < train->values; k++)
			train->params[k] -= train->options.rate * last[k];
		rc = train_gradient(train, steps->grad, summary);
		hd_add_f32(update, steps->grad, train->values);
		last = steps->grad;
	}
	return rc;
}

/* The steps of hd_admm.h. */
static int
agree(struct train_steps *steps, struct train *train, float *update, struct train_summary *summary
) {
	struct hd_admm *admm = &steps->admm;
	int rc = EX_OK;

	hd_admm_begin(admm, train->params, steps->applied);
	steps->applied = false;
	for (uint32_t i = 0; rc == EX_OK && i < train->options.local_steps; i++) {
		memcpy(train->params, admm->x, train->values * sizeof(float));
		rc = train_gradient(train, steps->grad, summary);
		hd_admm_step(admm, steps->grad);
	}
	hd_admm_update(admm, update);
	return rc;
}

int train_steps_compute(
	struct train_steps *steps,
	struct train *train,
	float *update,
	struct train_summary *summary
) {
	int rc;

	if (!steps->grad)
		return train_gradient(train, update, summary);
	memcpy(steps->kept, train->params, train->values * sizeof(float));
	rc = steps->admm.values > 0 ? agree(steps, train, update, summary) :
				      average(steps, train, update, summary);
	memcpy(train->params, steps->kept, train->values * sizeof(float));
	return rc;
}

void train_steps_end(struct train_steps *steps, const struct heddle_status *status) {
	steps->applied
		= status->state == HEDDLE_STATE_APPLIED || status->state == HEDDLE_STATE_DURABLE;
}

float train_steps_scale(const struct train_steps *steps, const struct train *train) {
	return steps->admm.values > 0 ? 1.0f : train->scale;
}
