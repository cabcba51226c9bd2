/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_number.h"
#include "train_far.h"
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
		steps->grad = train_array(train, train->values);
		steps->kept = train_array(train, train->values);
		if (!steps->grad || !steps->kept)
			rc = -ENOMEM;
	}
	return rc < 0 ? train_no_memory("local steps") : EX_OK;
}

void train_steps_fini(struct train_steps *steps, const struct train *train) {
	hd_admm_fini(&steps->admm);
	train_array_free(train, steps->grad);
	train_array_free(train, steps->kept);
	*steps = (struct train_steps){0};
}

int train_gradient(struct train *train, float *grad, struct train_summary *summary) {
	return train_gradient_of(train, grad, true, hd_compute_now(), summary);
}

void train_watch(const struct train *train, const struct hd_model_watch *watch) {
	if (train->far)
		train_far_watch(train, watch);
	else
		hd_model_watch(train->model, watch);
}

static int on_host(const struct train *train, float *grad, double *loss) {
	const struct hd_sampler *sampler = &train->sampler;

	if (hd_model_by_row(train->model))
		*loss = hd_model_gradient_rows(
			train->model,
			train->params,
			&train->train,
			sampler->picked,
			sampler->batch,
			grad
		);
	else
		*loss = hd_model_gradient(
			train->model, train->params, sampler->x, sampler->y, sampler->batch, grad
		);
	return EX_OK;
}

int train_gradient_of(
	struct train *train,
	float *grad,
	bool next,
	hd_ns begun,
	struct train_summary *summary
) {
	char error[HD_TEXT_BYTES_MAX];
	double loss;
	int rc;

	if (next)
		hd_sampler_next(&train->sampler);
	rc = train->far ? train_far_gradient(train, grad, &loss) : on_host(train, grad, &loss);
	if (rc != EX_OK)
		return rc;
	summary->loss_sum += loss;
	summary->steps++;
	rc = hd_compute_pad(&train->compute, begun, error, sizeof error);
	return rc == -EINVAL ? train_fail(EX_DATAERR, "%s", error) : EX_OK;
}

/* Local steps of this worker, whose sum of gradients is pushed. The server's step with the mean of such sums makes its
 * model the mean of the workers' (model averaging: Jiang et al., SIGMOD 2021, 3.2). */
static int
average(struct train_steps *steps, struct train *train, float *update, struct train_summary *summary
) {
	const uint64_t values = train->values;
	const float *last = update;
	int rc = train_gradient(train, update, summary);

	for (uint32_t i = 1; rc == EX_OK && i < train->options.local_steps; i++) {
		rc = train_array_add(
			train, train_params(train), -train->options.rate, last, values
		);
		if (rc == EX_OK)
			rc = train_gradient(train, steps->grad, summary);
		if (rc == EX_OK)
			rc = train_array_add(train, update, 1, steps->grad, values);
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
	rc = train_array_copy(train, steps->kept, train_params(train), train->values);
	if (rc == EX_OK)
		rc = steps->admm.values > 0 ? agree(steps, train, update, summary) :
					      average(steps, train, update, summary);
	if (rc == EX_OK)
		rc = train_array_copy(train, train_params(train), steps->kept, train->values);
	return rc;
}

void train_steps_end(struct train_steps *steps, const struct heddle_status *status) {
	steps->applied
		= status->state == HEDDLE_STATE_APPLIED || status->state == HEDDLE_STATE_DURABLE;
}

float train_steps_scale(const struct train_steps *steps, const struct train *train) {
	return steps->admm.values > 0 ? 1.0f : train->scale;
}
