/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference of a worker: the same mathematics in one process (--local). */
#include "hd_kernels.h"
#include "train_far.h"
#include "train_filter.h"
#include "train_loss.h"
#include "train_sparse.h"
#include "train_steps.h"
#include "train_summary.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct local {
	struct train *train;
	struct train_summary summary;
	struct train_sparse sparse;
	struct train_filter filter;
	struct train_loss loss;
	float *grad, *momentum; /* where the model is computed */
	uint16_t *half;
	struct train_model server;
};

static int take_memory(struct local *local) {
	struct train *train = local->train;
	const struct train_options *options = &train->options;
	const uint64_t values = train->values;

	local->grad = train_array(train, values);
	local->momentum = train_array(train, values);
	local->half = malloc(values * sizeof(uint16_t));
	local->server = (struct train_model){
		.params = malloc(values * sizeof(float)),
		.momentum = local->momentum,
		.values = values,
		.sgd = {options->rate, options->momentum, options->decay},
	};
	if (!local->grad || !local->momentum || !local->half || !local->server.params
	    || train_sparse_init(&local->sparse, values) < 0
	    || hd_sampler_init(&train->sampler, &train->train, 0, 1, options->batch, options->seed)
		    < 0)
		return train_no_memory("the reference");
	return EX_OK;
}

static int begin(struct local *local) {
	struct train *train = local->train;
	int status = take_memory(local);

	if (status == EX_OK && heddle_spec_initialize_model(train->spec, train->params) < 0)
		status = train_fail(EX_USAGE, "%s", heddle_last_error());
	if (status == EX_OK && train->far)
		status = train_far_write(train, train_params(train), train->params, train->values);
	if (status == EX_OK)
		status = train_filter_init(&local->filter, train, NULL);
	if (status == EX_OK)
		status = train_loss_open(&local->loss, train, 0);
	if (status == EX_OK)
		memcpy(local->server.params, train->params, train->values * sizeof(float));
	return status;
}

/* The server's step with the runs of an update. */
static void step_runs(struct local *local) {
	const struct train_sparse *sparse = &local->sparse;
	const float *x = sparse->data;

	for (size_t i = 0; i < sparse->run_count; i++) {
		const struct heddle_range *run = &sparse->runs[i];

		(void)hd_sgd_apply(
			local->train->params + run->first,
			local->momentum + run->first,
			x,
			run->count,
			&local->server.sgd
		);
		x += run->count;
	}
}

/* The server's step with an update that was sent. An exit status. */
static int step(struct local *local) {
	struct train *train = local->train;
	const struct hd_sgd *sgd = &local->server.sgd;
	const uint8_t dtype = (uint8_t)train->options.payload;
	const uint64_t values = train->values;

	if (train->far)
		return train_far_sgd(
			train,
			&(struct train_far_step
			){train_params(train), local->momentum, local->grad, values, 1}
		);
	if (train->options.sparse && train_sparse_pack(&local->sparse, local->grad, values)) {
		step_runs(local);
	} else if (!hd_dtype_is_half(dtype)) {
		(void)hd_sgd_apply(train->params, local->momentum, local->grad, values, sgd);
	} else {
		hd_half_from_f32(dtype, local->half, local->grad, values, 1);
		(void
		)hd_sgd_apply_half(dtype, train->params, local->momentum, local->half, values, sgd);
	}
	return EX_OK;
}

static int run(struct local *local) {
	struct train *train = local->train;
	struct train_summary *summary = &local->summary;
	int status = EX_OK;

	while (status == EX_OK && !train_enough(train, summary->steps)) {
		status = train_gradient(train, local->grad, summary);
		train_loss_row(&local->loss, train, NULL, summary->steps, summary);
		if (local->filter.filter)
			train_filter_local(
				&local->filter, train, &local->server, local->grad, summary->steps
			);
		else if (status == EX_OK)
			status = step(local);
	}
	if (status == EX_OK && local->filter.filter)
		train_filter_local_flush(&local->filter, train, &local->server);
	return status;
}

int train_local(struct train *train) {
	struct local local = {.train = train, .summary = {.role = "local"}};
	int status = begin(&local);

	if (status == EX_OK)
		status = run(&local);
	train_filter_summary(&local.filter, &local.summary);
	if (train_loss_close(&local.loss, train) != EX_OK && status == EX_OK)
		status = EX_IOERR;
	local.summary.version = local.summary.steps;
	if (status == EX_OK)
		status = train_summary_write(train, &local.summary);
	hd_sampler_fini(&train->sampler);
	train_filter_fini(&local.filter);
	train_sparse_fini(&local.sparse);
	free(local.server.params);
	free(local.half);
	train_array_free(train, local.momentum);
	train_array_free(train, local.grad);
	return status;
}
