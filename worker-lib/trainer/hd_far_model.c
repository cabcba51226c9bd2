/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_far_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (600 * HD_SECOND) /* for one step */

struct far_layer {
	uint32_t in, out;
	uint64_t weight, bias; /* offsets in params */
	float *activation; /* batch_max x out: after ReLU, or the scores of the last layer */
};

struct hd_far_model {
	struct hd_device *device;
	void *stream, *event;
	uint32_t features, batch_max, layer_count;
	struct far_layer layer[HD_LAYERS_MAX + 1];
	float *delta[2]; /* batch_max x widest layer */
	float *x, *near_x; /* batch_max x features; registered memory of the host */
	uint8_t *y, *near_y;
	struct hd_softmax_row *row, *near_row;
};

/* --- memory --------------------------------------------------------------------------------- */

static int allocate(struct hd_far_model *model, size_t bytes, void *out) {
	void *memory = NULL;
	const int rc = model->device->ops->allocate(model->device, bytes, &memory);

	if (rc == 0)
		memcpy(out, &memory, sizeof memory);
	return rc;
}

/* Memory on the device, and as much on the host, to copy from or to. */
static int allocate_pair(struct hd_far_model *model, size_t bytes, void *out, void *near_out) {
	void *memory = NULL;
	int rc = allocate(model, bytes, out);

	if (rc == 0)
		rc = model->device->ops->host_allocate(model->device, bytes, &memory);
	if (rc == 0)
		memcpy(near_out, &memory, sizeof memory);
	return rc;
}

static int allocate_all(struct hd_far_model *model) {
	const size_t rows = model->batch_max;
	uint32_t widest = 1;
	int rc = 0;

	for (uint32_t l = 0; l < model->layer_count && rc == 0; l++) {
		struct far_layer *layer = &model->layer[l];

		widest = layer->out > widest ? layer->out : widest;
		rc = allocate(model, rows * layer->out * sizeof(float), &layer->activation);
	}
	for (int i = 0; i < 2 && rc == 0; i++)
		rc = allocate(model, rows * widest * sizeof(float), &model->delta[i]);
	if (rc == 0)
		rc = allocate_pair(
			model, rows * model->features * sizeof(float), &model->x, &model->near_x
		);
	if (rc == 0)
		rc = allocate_pair(model, rows, &model->y, &model->near_y);
	if (rc == 0)
		rc = allocate_pair(
			model, rows * sizeof(struct hd_softmax_row), &model->row, &model->near_row
		);
	if (rc == 0)
		rc = model->device->ops->event_create(model->device, &model->event);
	return rc;
}

/* A layer is two tensors: weight (in x out) and bias (out). */
static void take_shapes(struct hd_far_model *model, const struct hd_model *from) {
	const struct hd_tensor *tensors = hd_model_tensors(from);
	uint64_t at = 0;

	model->layer_count = hd_model_tensor_count(from) / 2;
	for (uint32_t l = 0; l < model->layer_count; l++) {
		struct far_layer *layer = &model->layer[l];

		layer->in = (uint32_t)tensors[(size_t)2 * l].dimension[0];
		layer->out = (uint32_t)tensors[(size_t)2 * l].dimension[1];
		layer->weight = at;
		layer->bias = at + (uint64_t)layer->in * layer->out;
		at = layer->bias + layer->out;
	}
	model->features = model->layer[0].in;
}

int hd_far_model_create(
	struct hd_device *device,
	void *stream,
	const struct hd_model *model,
	uint32_t batch_max,
	struct hd_far_model **out
) {
	struct hd_far_model *made = calloc(1, sizeof *made);
	int rc;

	if (!made)
		return hd_device_fail(-ENOMEM, "no memory");
	made->device = device;
	made->stream = stream;
	made->batch_max = batch_max;
	take_shapes(made, model);
	rc = allocate_all(made);
	if (rc < 0) {
		hd_far_model_destroy(made);
		return rc;
	}
	*out = made;
	return 0;
}

void hd_far_model_destroy(struct hd_far_model *model) {
	const struct hd_device_ops *ops = model ? model->device->ops : NULL;

	if (!model)
		return;
	for (uint32_t l = 0; l < model->layer_count; l++)
		if (model->layer[l].activation)
			ops->release(model->device, model->layer[l].activation);
	for (int i = 0; i < 2; i++)
		if (model->delta[i])
			ops->release(model->device, model->delta[i]);
	if (model->x)
		ops->release(model->device, model->x);
	if (model->y)
		ops->release(model->device, model->y);
	if (model->row)
		ops->release(model->device, model->row);
	if (model->near_x)
		ops->host_release(model->device, model->near_x);
	if (model->near_y)
		ops->host_release(model->device, model->near_y);
	if (model->near_row)
		ops->host_release(model->device, model->near_row);
	if (model->event)
		ops->event_destroy(model->device, model->event);
	free(model);
}

/* --- a step --------------------------------------------------------------------------------- */

static int launch(struct hd_far_model *model, struct hd_stage_job *job) {
	job->width = HD_STAGE_WIDEST;
	return model->device->ops->launch(model->device, model->stream, job);
}

static int product(struct hd_far_model *model, const struct hd_product *what) {
	return launch(model, &(struct hd_stage_job){.kind = HD_STAGE_PRODUCT, .product = *what});
}

static int copy(struct hd_far_model *model, void *to, const void *from, size_t bytes) {
	return model->device->ops->copy(model->device, model->stream, to, from, bytes);
}

static int wait_for(struct hd_far_model *model) {
	const int rc = model->device->ops->record(model->device, model->event, model->stream);

	return rc < 0 ? rc : hd_device_wait(model->device, model->event, PATIENCE);
}

static int forward(struct hd_far_model *model, const float *params, uint32_t rows) {
	const float *input = model->x;
	int rc = 0;

	for (uint32_t l = 0; l < model->layer_count && rc == 0; l++) {
		const struct far_layer *layer = &model->layer[l];

		rc = product(
			model,
			&(struct hd_product){
				.a = input,
				.b = params + layer->weight,
				.c = layer->activation,
				.bias = params + layer->bias,
				.rows = rows,
				.columns = layer->out,
				.depth = layer->in,
				.rectify = l + 1 < model->layer_count,
			}
		);
		input = layer->activation;
	}
	return rc;
}

/* Leaves dz of the last layer in delta[0]. */
static int find_loss(struct hd_far_model *model, uint32_t rows, double *loss) {
	const struct far_layer *last = &model->layer[model->layer_count - 1];
	struct hd_stage_job job = {.kind = HD_STAGE_SOFTMAX};
	double sum = 0.0;
	int rc;

	job.softmax = (struct hd_softmax){
		.score = last->activation,
		.gradient = model->delta[0],
		.label = model->y,
		.row = model->row,
		.rows = rows,
		.classes = last->out,
		.scale = 1.0f / (float)rows,
	};
	rc = launch(model, &job);
	if (rc == 0)
		rc = copy(model, model->near_row, model->row, rows * sizeof *model->row);
	if (rc == 0)
		rc = wait_for(model);
	for (uint32_t r = 0; r < rows && rc == 0; r++)
		sum += log(model->near_row[r].sum) - model->near_row[r].margin;
	if (rc == 0)
		*loss = sum / (double)rows;
	return rc;
}

/* From dz of this layer to its part of the gradient, and to dz of the layer before. */
static int backward_layer(
	struct hd_far_model *model,
	uint32_t l,
	const float *params,
	uint32_t rows,
	float *grad
) {
	const struct far_layer *layer = &model->layer[l];
	const float *input = l == 0 ? model->x : model->layer[l - 1].activation;
	float *dz = model->delta[0], *before = model->delta[1];
	struct hd_stage_job sums = {.kind = HD_STAGE_COLUMNS};
	int rc = product(
		model,
		&(struct hd_product){
			.a = input,
			.b = dz,
			.c = grad + layer->weight,
			.rows = layer->in,
			.columns = layer->out,
			.depth = rows,
			.across_a = true,
		}
	);

	sums.columns = (struct hd_columns){dz, grad + layer->bias, rows, layer->out};
	if (rc == 0)
		rc = launch(model, &sums);
	if (rc != 0 || l == 0)
		return rc;
	model->delta[0] = before;
	model->delta[1] = dz;
	return product(
		model,
		&(struct hd_product){
			.a = dz,
			.b = params + layer->weight,
			.c = before,
			.where = input,
			.rows = rows,
			.columns = layer->in,
			.depth = layer->out,
			.across_b = true,
		}
	);
}

int hd_far_model_gradient(
	struct hd_far_model *model,
	const float *params,
	const struct hd_sampler *batch,
	float *grad,
	const struct hd_model_watch *watch,
	double *loss
) {
	const uint32_t rows = batch->batch;
	const size_t bytes = (size_t)rows * model->features * sizeof(float);
	int rc;

	memcpy(model->near_x, batch->x, bytes);
	memcpy(model->near_y, batch->y, rows);
	rc = copy(model, model->x, model->near_x, bytes);
	if (rc == 0)
		rc = copy(model, model->y, model->near_y, rows);
	if (rc == 0)
		rc = forward(model, params, rows);
	if (rc == 0)
		rc = find_loss(model, rows, loss);
	for (uint32_t l = model->layer_count; rc == 0 && l-- > 0;) {
		rc = backward_layer(model, l, params, rows, grad);
		if (rc == 0 && watch->ready)
			watch->ready(watch->arg, model->layer[l].weight, *loss);
	}
	return rc == 0 ? wait_for(model) : rc;
}
