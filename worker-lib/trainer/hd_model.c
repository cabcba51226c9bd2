/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fully connected networks. Softmax regression is the one without hidden layers.
 *
 *   a[0] = x           z[l] = a[l] W[l] + b[l]        a[l+1] = max(z[l], 0)
 *   last layer: p = softmax(z), loss = mean of -ln p[y]
 *   back: dz = (p - onehot(y)) / rows;  dW[l] = a[l]^T dz;  db[l] = sum of dz's rows;
 *         dz <- (dz W[l]^T) where a[l] > 0
 */
#include "hd_row_model.h"

#include <assert.h>
#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct layer {
	uint32_t in, out;
	uint64_t weight, bias; /* offsets in params */
	float *activation; /* batch_max x out: after ReLU, or the scores of the last layer */
};

struct hd_model {
	uint32_t features, classes, batch_max;
	uint32_t layer_count;
	struct layer layer[HD_LAYERS_MAX + 1];
	float *delta[2]; /* batch_max x widest layer: dz of this layer and of the one before */
	float *dense; /* batch_max x features: rows of a sparse data set; else NULL */
	struct hd_tensor *tensors;
	uint64_t values;
	bool by_row; /* then only `values` of the above is used */
	struct hd_row_model rows;
	struct hd_model_watch watch;
};

static int parse_widths(const char *text, uint32_t *width, char *error, size_t error_bytes) {
	const char *at = text + 4;
	int count = 0;

	if (strcmp(text, "softmax") == 0)
		return 0;
	if (strncmp(text, "mlp:", 4) != 0) {
		hd_trainer_put(
			error,
			error_bytes,
			"model: '%.64s' is not softmax, mlp:W,W,..., logistic or pmf:K",
			text
		);
		return -EINVAL;
	}
	for (;;) {
		char *end;
		unsigned long value;

		errno = 0;
		value = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
		if (value == 0 || errno != 0 || value > HD_LAYER_WIDTH_MAX) {
			hd_trainer_put(
				error,
				error_bytes,
				"model: width of hidden layer %d: not in 1..%d (HD_LAYER_WIDTH_MAX)",
				count + 1,
				HD_LAYER_WIDTH_MAX
			);
			return -EINVAL;
		}
		if (count == HD_LAYERS_MAX) {
			hd_trainer_put(
				error,
				error_bytes,
				"model: more than %d hidden layers (HD_LAYERS_MAX)",
				HD_LAYERS_MAX
			);
			return -EINVAL;
		}
		width[count++] = (uint32_t)value;
		if (*end == '\0')
			return count;
		if (*end != ',') {
			hd_trainer_put(error, error_bytes, "model: '%.16s' after a width", end);
			return -EINVAL;
		}
		at = end + 1;
	}
}

static void describe_layer(struct hd_model *model, uint32_t index) {
	const struct layer *layer = &model->layer[index];
	struct hd_tensor *weight = &model->tensors[(size_t)2 * index];
	struct hd_tensor *bias = weight + 1;

	(void)snprintf(weight->name, sizeof weight->name, "fc%u.weight", index + 1);
	weight->dimension_count = 2;
	weight->dimension[0] = layer->in;
	weight->dimension[1] = layer->out;
	/* He et al. 2015: variance 2 / fan-in keeps the scale through ReLU; uniform: 6 / fan-in.
	 * Regression is convex and starts from zero. */
	weight->init = model->layer_count == 1 ? HD_INIT_ZERO : HD_INIT_UNIFORM;
	weight->init_scale = model->layer_count == 1 ? 0.0f : sqrtf(6.0f / (float)layer->in);
	(void)snprintf(bias->name, sizeof bias->name, "fc%u.bias", index + 1);
	bias->dimension_count = 1;
	bias->dimension[0] = layer->out;
	bias->init = HD_INIT_ZERO;
}

static int allocate(struct hd_model *model) {
	uint32_t widest = 1;

	model->tensors = calloc((size_t)2 * model->layer_count, sizeof *model->tensors);
	if (!model->tensors)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->layer_count; i++) {
		struct layer *layer = &model->layer[i];

		layer->weight = model->values;
		layer->bias = layer->weight + (uint64_t)layer->in * layer->out;
		model->values = layer->bias + layer->out;
		widest = layer->out > widest ? layer->out : widest;
		describe_layer(model, i);
		layer->activation
			= malloc(sizeof(float) * (size_t)model->batch_max * (size_t)layer->out);
		if (!layer->activation)
			return -ENOMEM;
	}
	for (int i = 0; i < 2; i++) {
		model->delta[i] = malloc(sizeof(float) * (size_t)model->batch_max * widest);
		if (!model->delta[i])
			return -ENOMEM;
	}
	return 0;
}

static int create_by_row(
	const char *text,
	const struct hd_dataset *like,
	struct hd_model **out,
	char *error,
	size_t error_bytes
) {
	struct hd_model *model = calloc(1, sizeof *model);
	int rc;

	if (!model)
		return -ENOMEM;
	model->by_row = true;
	rc = hd_row_model_init(&model->rows, text, like, error, error_bytes);
	if (rc < 0) {
		free(model);
		return rc;
	}
	model->values = model->rows.values;
	*out = model;
	return 0;
}

int hd_model_create(
	const char *text,
	const struct hd_dataset *like,
	uint32_t batch_max,
	struct hd_model **out,
	char *error,
	size_t error_bytes
) {
	uint32_t width[HD_LAYERS_MAX];
	struct hd_model *model;
	int hidden, rc;

	if (hd_row_model_is(text))
		return create_by_row(text, like, out, error, error_bytes);
	hidden = parse_widths(text, width, error, error_bytes);
	if (hidden < 0)
		return hidden;
	if (like->target) {
		hd_trainer_put(error, error_bytes, "model: ratings take pmf:K, not '%.16s'", text);
		return -EINVAL;
	}
	if (batch_max == 0 || batch_max > HD_BATCH_MAX || like->features == 0
	    || like->classes == 0) {
		hd_trainer_put(
			error, error_bytes, "batch: not in 1..%d (HD_BATCH_MAX)", HD_BATCH_MAX
		);
		return -EINVAL;
	}
	if (hd_model_take_buffers() < 0)
		return -ENOMEM;
	model = calloc(1, sizeof *model);
	if (!model)
		return -ENOMEM;
	model->features = like->features;
	model->classes = like->classes;
	model->batch_max = batch_max;
	model->layer_count = (uint32_t)hidden + 1;
	for (int i = 0; i <= hidden; i++) {
		model->layer[i].in = i == 0 ? like->features : width[i - 1];
		model->layer[i].out = i == hidden ? like->classes : width[i];
	}
	rc = allocate(model);
	if (rc == 0 && !like->x) {
		model->dense = malloc(sizeof(float) * (size_t)batch_max * like->features);
		rc = model->dense ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		hd_trainer_put(error, error_bytes, "model: no memory for %s", text);
		hd_model_destroy(model);
		return rc;
	}
	*out = model;
	return 0;
}

void hd_model_destroy(struct hd_model *model) {
	if (!model)
		return;
	for (uint32_t i = 0; i < model->layer_count; i++)
		free(model->layer[i].activation);
	free(model->delta[0]);
	free(model->delta[1]);
	free(model->dense);
	free(model->tensors);
	free(model);
}

uint64_t hd_model_values(const struct hd_model *model) {
	return model->values;
}

uint32_t hd_model_tensor_count(const struct hd_model *model) {
	return model->by_row ?
		(uint32_t)(sizeof model->rows.tensors / sizeof model->rows.tensors[0]) :
		2 * model->layer_count;
}

const struct hd_tensor *hd_model_tensors(const struct hd_model *model) {
	return model->by_row ? model->rows.tensors : model->tensors;
}

bool hd_model_by_row(const struct hd_model *model) {
	return model->by_row;
}

void hd_model_watch(struct hd_model *model, const struct hd_model_watch *watch) {
	model->watch = *watch;
}

static void notify(const struct hd_model *model, uint64_t first, double loss) {
	if (model->watch.ready)
		model->watch.ready(model->watch.arg, first, loss);
}

double hd_model_gradient_rows(
	struct hd_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	const uint32_t *rows,
	uint32_t count,
	float *grad
) {
	double loss;

	assert(model->by_row && count > 0);
	loss = hd_row_model_gradient(&model->rows, params, dataset, rows, count, grad);
	notify(model, 0, loss);
	return loss;
}

/* Fills every layer's activation; the last one holds the scores. */
static void forward(struct hd_model *model, const float *params, const float *x, uint32_t rows) {
	const float *input = x;

	for (uint32_t l = 0; l < model->layer_count; l++) {
		const struct layer *layer = &model->layer[l];
		float *z = layer->activation;
		size_t count = (size_t)rows * layer->out;

		for (uint32_t r = 0; r < rows; r++)
			memcpy(z + (size_t)r * layer->out,
			       params + layer->bias,
			       sizeof(float) * layer->out);
		cblas_sgemm(
			CblasRowMajor,
			CblasNoTrans,
			CblasNoTrans,
			(int)rows,
			(int)layer->out,
			(int)layer->in,
			1.0f,
			input,
			(int)layer->in,
			params + layer->weight,
			(int)layer->out,
			1.0f,
			z,
			(int)layer->out
		);
		if (l + 1 < model->layer_count)
			for (size_t i = 0; i < count; i++)
				z[i] = z[i] > 0.0f ? z[i] : 0.0f;
		input = z;
	}
}

/* The loss of one row from its scores; p gets the probabilities. */
static double softmax_loss(const float *score, uint32_t classes, uint8_t label, float *p) {
	float top = score[0];
	double sum = 0.0;

	for (uint32_t c = 1; c < classes; c++)
		top = score[c] > top ? score[c] : top;
	for (uint32_t c = 0; c < classes; c++) {
		p[c] = expf(score[c] - top);
		sum += (double)p[c];
	}
	for (uint32_t c = 0; c < classes; c++)
		p[c] = (float)((double)p[c] / sum);
	return log(sum) - (double)(score[label] - top);
}

static void backward_layer(
	struct hd_model *model,
	uint32_t l,
	const float *params,
	const float *input,
	uint32_t rows,
	float *grad
) {
	const struct layer *layer = &model->layer[l];
	float *dz = model->delta[0], *before = model->delta[1];
	float *db = grad + layer->bias;
	size_t count = (size_t)rows * layer->in;

	cblas_sgemm(
		CblasRowMajor,
		CblasTrans,
		CblasNoTrans,
		(int)layer->in,
		(int)layer->out,
		(int)rows,
		1.0f,
		input,
		(int)layer->in,
		dz,
		(int)layer->out,
		0.0f,
		grad + layer->weight,
		(int)layer->out
	);
	memset(db, 0, sizeof(float) * layer->out);
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t c = 0; c < layer->out; c++)
			db[c] += dz[(size_t)r * layer->out + c];
	if (l == 0)
		return;
	cblas_sgemm(
		CblasRowMajor,
		CblasNoTrans,
		CblasTrans,
		(int)rows,
		(int)layer->in,
		(int)layer->out,
		1.0f,
		dz,
		(int)layer->out,
		params + layer->weight,
		(int)layer->out,
		0.0f,
		before,
		(int)layer->in
	);
	for (size_t i = 0; i < count; i++)
		before[i] = input[i] > 0.0f ? before[i] : 0.0f;
	model->delta[0] = before;
	model->delta[1] = dz;
}

double hd_model_gradient(
	struct hd_model *model,
	const float *params,
	const float *x,
	const uint8_t *y,
	uint32_t rows,
	float *grad
) {
	const struct layer *last = &model->layer[model->layer_count - 1];
	double loss = 0.0;
	float scale = 1.0f / (float)rows;

	assert(rows > 0 && rows <= model->batch_max);
	forward(model, params, x, rows);
	for (uint32_t r = 0; r < rows; r++) {
		float *p = model->delta[0] + (size_t)r * last->out;

		loss += softmax_loss(last->activation + (size_t)r * last->out, last->out, y[r], p);
		p[y[r]] -= 1.0f;
		for (uint32_t c = 0; c < last->out; c++)
			p[c] *= scale;
	}
	loss /= (double)rows;
	for (uint32_t l = model->layer_count; l-- > 0;) {
		const float *input = l == 0 ? x : model->layer[l - 1].activation;

		backward_layer(model, l, params, input, rows, grad);
		notify(model, model->layer[l].weight, loss);
	}
	return loss;
}

static const float *
rows_of(struct hd_model *model, const struct hd_dataset *dataset, uint32_t first, uint32_t rows) {
	size_t features = dataset->features;

	if (dataset->x)
		return dataset->x + first * features;
	for (uint32_t i = 0; i < rows; i++)
		hd_dataset_row(dataset, first + i, model->dense + i * features);
	return model->dense;
}

void hd_model_evaluate(
	struct hd_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	double *accuracy,
	double *loss
) {
	const struct layer *last = &model->layer[model->by_row ? 0 : model->layer_count - 1];
	uint32_t right = 0;
	double sum = 0.0;

	if (model->by_row) {
		hd_row_model_evaluate(&model->rows, params, dataset, accuracy, loss);
		return;
	}
	for (uint32_t at = 0; at < dataset->rows; at += model->batch_max) {
		uint32_t left = dataset->rows - at;
		uint32_t rows = left < model->batch_max ? left : model->batch_max;

		forward(model, params, rows_of(model, dataset, at, rows), rows);
		for (uint32_t r = 0; r < rows; r++) {
			const float *score = last->activation + (size_t)r * last->out;
			uint8_t label = dataset->y[at + r];
			uint32_t best = 0;

			for (uint32_t c = 1; c < last->out; c++)
				best = score[c] > score[best] ? c : best;
			right += best == label;
			sum += softmax_loss(score, last->out, label, model->delta[0]);
		}
	}
	*accuracy = dataset->rows ? (double)right / (double)dataset->rows : 0.0;
	*loss = dataset->rows ? sum / (double)dataset->rows : 0.0;
}
