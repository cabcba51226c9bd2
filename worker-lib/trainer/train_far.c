/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_far_model.h"
#include "train_far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PATIENCE (600 * HD_SECOND)

struct train_far {
	struct hd_device *device;
	void *stream, *event;
	struct hd_far_model *model;
	struct hd_model_watch watch;
	float *params;
	float *near; /* registered memory of the host: as many values as the model */
	struct hd_stage_sums *sums; /* the same, for a look at all parameters */
};

/* --- errors --------------------------------------------------------------------------------- */

static int status_of(int code) {
	if (code == 0)
		return EX_OK;
	return train_fail(
		code == -ENOTSUP        ? EX_UNAVAILABLE :
			code == -ENOMEM ? EX_OSERR :
			code == -EINVAL ? EX_SOFTWARE :
					  EX_IOERR,
		"device: %s",
		hd_device_words()
	);
}

static int wait_for(const struct train_far *far) {
	const int rc = far->device->ops->record(far->device, far->event, far->stream);

	return rc < 0 ? rc : hd_device_wait(far->device, far->event, PATIENCE);
}

static int launch(const struct train_far *far, struct hd_stage_job *job) {
	job->width = HD_STAGE_WIDEST;
	return far->device->ops->launch(far->device, far->stream, job);
}

static int queue_copy(const struct train_far *far, void *to, const void *from, uint64_t values) {
	return far->device->ops->copy(far->device, far->stream, to, from, values * sizeof(float));
}

/* --- begin and end -------------------------------------------------------------------------- */

static int allocate(struct train_far *far, uint64_t values) {
	const struct hd_device_ops *ops = far->device->ops;
	const size_t bytes = values * sizeof(float);
	void *memory = NULL;
	int rc = ops->stream_create(far->device, &far->stream);

	if (rc == 0)
		rc = ops->event_create(far->device, &far->event);
	if (rc == 0)
		rc = ops->host_allocate(far->device, bytes, &memory);
	if (rc == 0) {
		far->near = memory;
		rc = ops->host_allocate(
			far->device, hd_stage_blocks(values) * sizeof *far->sums, &memory
		);
	}
	if (rc == 0) {
		far->sums = memory;
		rc = ops->allocate(far->device, bytes, &memory);
	}
	if (rc == 0)
		far->params = memory;
	return rc;
}

/* When nothing uses it any more. */
static void release(const struct train_far *far, float *array) {
	(void)wait_for(far);
	far->device->ops->release(far->device, array);
}

void train_far_close(struct train *train) {
	struct train_far *far = train->far;
	const struct hd_device_ops *ops = far ? far->device->ops : NULL;

	if (!far)
		return;
	hd_far_model_destroy(far->model);
	if (far->params)
		release(far, far->params);
	if (far->sums)
		ops->host_release(far->device, far->sums);
	if (far->near)
		ops->host_release(far->device, far->near);
	if (far->event)
		ops->event_destroy(far->device, far->event);
	if (far->stream)
		ops->stream_destroy(far->device, far->stream);
	free(far);
	train->far = NULL;
}

/* Of --device auto: NULL, and words that say why not, where a GPU is not there or excluded. */
static struct hd_device *find_device(const struct train *train, const char **why) {
	const char *name = train_device_excluded(&train->options);
	struct hd_device *device = NULL;

	if (name || hd_model_by_row(train->model))
		*why = name ? name : train->options.model;
	else if (hd_device_open(0, &device) < 0)
		*why = hd_device_words();
	return device;
}

/* Leaves the device NULL where the host computes. */
static int choose(const struct train *train, struct hd_device **device) {
	const struct train_device *wanted = &train->options.device;
	const char *why = "";

	*device = NULL;
	if (wanted->kind == TRAIN_DEVICE_CPU || train->options.evaluate)
		return EX_OK;
	if (wanted->kind == TRAIN_DEVICE_CUDA && hd_model_by_row(train->model))
		return train_fail(
			EX_USAGE,
			"model: '%.64s': not with --device cuda, which has softmax and mlp:W,W,...",
			train->options.model
		);
	if (wanted->kind == TRAIN_DEVICE_CUDA)
		return status_of(hd_device_open((int)wanted->number, device));
	*device = find_device(train, &why);
	if (!*device && !train->options.quiet)
		train_note("device", "computes on the processor: %s", why);
	return EX_OK;
}

int train_far_open(struct train *train) {
	struct hd_device *device;
	struct train_far *far;
	int rc = choose(train, &device);

	if (rc != EX_OK || !device)
		return rc;
	far = calloc(1, sizeof *far);
	if (!far)
		return train_no_memory("the device");
	far->device = device;
	train->far = far;
	rc = allocate(far, train->values);
	if (rc == 0)
		rc = hd_far_model_create(
			device, far->stream, train->model, train->options.batch, &far->model
		);
	if (rc < 0)
		return status_of(rc);
	memset(train->params, 0, train->values * sizeof(float));
	return train_far_write(train, far->params, train->params, train->values);
}

const char *train_device_name(const struct train *train) {
	return train->far ? train->far->device->name : "cpu";
}

void *train_far_stream(const struct train *train) {
	return train->far ? train->far->stream : NULL;
}

enum heddle_memory train_memory_kind(const struct train *train) {
	return train->far ? HEDDLE_MEMORY_CUDA : HEDDLE_MEMORY_HOST;
}

/* --- copies --------------------------------------------------------------------------------- */

int train_far_read(const struct train *train, float *host, const float *array, uint64_t values) {
	const struct train_far *far = train->far;
	int rc = queue_copy(far, far->near, array, values);

	if (rc == 0)
		rc = wait_for(far);
	if (rc == 0)
		memcpy(host, far->near, values * sizeof *host);
	return status_of(rc);
}

int train_far_write(const struct train *train, float *array, const float *host, uint64_t values) {
	const struct train_far *far = train->far;
	int rc;

	memcpy(far->near, host, values * sizeof *host);
	rc = queue_copy(far, array, far->near, values);
	return status_of(rc < 0 ? rc : wait_for(far));
}

int train_far_fetch(struct train *train) {
	return train->far ?
		train_far_read(train, train->params, train->far->params, train->values) :
		EX_OK;
}

int train_far_move(const struct train *train, float *to, const float *from, uint64_t values) {
	return status_of(queue_copy(train->far, to, from, values));
}

float *train_far_near(const struct train *train, uint64_t values) {
	const struct train_far *far = train->far;
	void *memory = NULL;

	if (far->device->ops->host_allocate(far->device, values * sizeof(float), &memory) < 0)
		return NULL;
	memset(memory, 0, values * sizeof(float));
	return memory;
}

void train_far_near_free(const struct train *train, float *near) {
	if (near)
		train->far->device->ops->host_release(train->far->device, near);
}

/* --- arrays --------------------------------------------------------------------------------- */

float *train_params(const struct train *train) {
	return train->far ? train->far->params : train->params;
}

/* A stage that sets them would multiply by what is there, and that may be NaN. */
static int zero(const struct train_far *far, float *array, uint64_t values, uint64_t each) {
	int rc = 0;

	memset(far->near, 0, each * sizeof(float));
	for (uint64_t at = 0; at < values && rc == 0; at += each)
		rc = queue_copy(
			far, array + at, far->near, values - at < each ? values - at : each
		);
	return rc < 0 ? rc : wait_for(far);
}

float *train_array(const struct train *train, uint64_t values) {
	const struct train_far *far = train->far;
	void *memory = NULL;

	if (!far)
		return calloc(values, sizeof(float));
	if (far->device->ops->allocate(far->device, values * sizeof(float), &memory) < 0)
		return NULL;
	if (zero(far, memory, values, train->values) == 0)
		return memory;
	far->device->ops->release(far->device, memory);
	return NULL;
}

void train_array_free(const struct train *train, float *array) {
	if (!train->far)
		free(array);
	else if (array)
		release(train->far, array);
}

int train_array_copy(const struct train *train, float *to, const float *from, uint64_t values) {
	if (train->far)
		return status_of(queue_copy(train->far, to, from, values));
	memcpy(to, from, values * sizeof *to);
	return EX_OK;
}

static int axpy(const struct train_far *far, const struct hd_axpy *axpy) {
	struct hd_stage_job job = {.kind = HD_STAGE_AXPY, .axpy = *axpy};

	return status_of(launch(far, &job));
}

int train_array_add(const struct train *train, float *y, float a, const float *x, uint64_t values) {
	if (train->far)
		return axpy(train->far, &(struct hd_axpy){x, y, values, a, false});
	for (uint64_t i = 0; i < values; i++)
		y[i] += a * x[i];
	return EX_OK;
}

int train_array_wait(const struct train *train) {
	return train->far ? status_of(wait_for(train->far)) : EX_OK;
}

/* --- steps ---------------------------------------------------------------------------------- */

void train_far_watch(const struct train *train, const struct hd_model_watch *watch) {
	train->far->watch = *watch;
}

int train_far_gradient(const struct train *train, float *grad, double *loss) {
	const struct train_far *far = train->far;

	return status_of(hd_far_model_gradient(
		far->model, far->params, &train->sampler, grad, &far->watch, loss
	));
}

int train_far_scale(const struct train *train, float *y, float a, const float *x, uint64_t values) {
	return axpy(train->far, &(struct hd_axpy){x, y, values, a, true});
}

int train_far_sgd(const struct train *train, const struct train_far_step *step) {
	const struct train_options *options = &train->options;
	struct hd_stage_job job = {.kind = HD_STAGE_SGD};

	job.sgd = (struct hd_sgd_stage){
		.w = step->w,
		.h = step->h,
		.g = step->g,
		.values = step->values,
		.factor = step->factor,
		.learning_rate = options->rate,
		.momentum = options->momentum,
		.decay = options->decay,
	};
	return status_of(launch(train->far, &job));
}

int train_far_is_finite(const struct train *train, bool *finite) {
	const struct train_far *far = train->far;
	struct hd_stage_job job = {.kind = HD_STAGE_TAKE};
	bool all = true;
	int rc;

	job.take = (struct hd_take){
		.from = far->params,
		.values = train->values,
		.sums = far->sums,
		.scale = 1.0f,
		.dtype = HD_DTYPE_FP32,
	};
	rc = launch(far, &job);
	if (rc == 0)
		rc = wait_for(far);
	for (uint64_t b = 0; b < hd_stage_blocks(train->values) && rc == 0; b++)
		all = all && far->sums[b].not_finite == HD_STAGE_FINITE;
	if (rc == 0)
		*finite = all;
	return status_of(rc);
}
