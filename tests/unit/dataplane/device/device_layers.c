/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of layers on any device have the bits of their twins on the host. */
#include "device_check.h"
#include "hd_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALUES ((size_t)HD_STAGE_VALUES + 3000)
#define ARRAYS 4

/* The same arrays on the host and on the device. */
struct pair {
	struct hd_device *device;
	float *near[ARRAYS], *far[ARRAYS];
	uint8_t *near_label, *far_label;
	struct hd_softmax_row *near_row, *far_row;
};

static void *far_memory(struct hd_device *device, size_t bytes) {
	void *memory;

	assert_int_equal(device->ops->allocate(device, bytes, &memory), 0);
	return memory;
}

static void refill(struct pair *pair, uint64_t seed) {
	struct hd_random random;

	hd_random_init(&random, seed);
	for (int i = 0; i < ARRAYS; i++) {
		for (size_t k = 0; k < VALUES; k++)
			pair->near[i][k] = (float)(hd_random_unit(&random) - 0.5) * 8.0F;
		device_copy(
			pair->device, pair->far[i], pair->near[i], VALUES * sizeof(float), true
		);
	}
}

static void begin(struct pair *pair, struct hd_device *device) {
	pair->device = device;
	for (int i = 0; i < ARRAYS; i++) {
		pair->near[i] = malloc(VALUES * sizeof(float));
		pair->far[i] = far_memory(device, VALUES * sizeof(float));
	}
	pair->near_label = malloc(VALUES);
	pair->far_label = far_memory(device, VALUES);
	pair->near_row = malloc(VALUES * sizeof *pair->near_row);
	pair->far_row = far_memory(device, VALUES * sizeof *pair->far_row);
}

static void end(struct pair *pair) {
	const struct hd_device_ops *ops = pair->device->ops;

	for (int i = 0; i < ARRAYS; i++) {
		free(pair->near[i]);
		ops->release(pair->device, pair->far[i]);
	}
	free(pair->near_label);
	free(pair->near_row);
	ops->release(pair->device, pair->far_label);
	ops->release(pair->device, pair->far_row);
}

static void run(struct pair *pair, const struct hd_stage_job *job, uint32_t width) {
	struct hd_stage_job wide = *job;

	wide.width = width;
	device_run(pair->device, &wide);
}

static void compare(struct pair *pair, int array) {
	float *got = malloc(VALUES * sizeof *got);

	device_fetch(pair->device, pair->far[array], got, VALUES);
	assert_memory_equal(got, pair->near[array], VALUES * sizeof *got);
	free(got);
}

static void check_product(struct pair *pair, struct hd_product product, uint32_t width) {
	struct hd_stage_job job = {.kind = HD_STAGE_PRODUCT, .product = product};
	const bool biased = product.bias, masked = product.where;

	job.product.a = pair->far[0];
	job.product.b = pair->far[1];
	job.product.c = pair->far[2];
	job.product.bias = biased ? pair->far[3] : NULL;
	job.product.where = masked ? pair->far[3] : NULL;
	run(pair, &job, width);
	product.a = pair->near[0];
	product.b = pair->near[1];
	product.c = pair->near[2];
	product.bias = biased ? pair->near[3] : NULL;
	product.where = masked ? pair->near[3] : NULL;
	for (uint64_t tile = 0; tile < hd_stage_job_blocks(&job); tile++)
		hd_product_block(&product, tile);
	compare(pair, 2);
}

static void check_products(struct pair *pair) {
	static const uint32_t shapes[][3]
		= {{1, 1, 1}, {32, 64, 32}, {33, 31, 65}, {120, 10, 77}, {3, 130, 100}};
	const float none = 0;

	for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		for (uint32_t how = 0; how < 32; how++) {
			refill(pair, 32 * i + how);
			check_product(
				pair,
				(struct hd_product){
					.bias = how & 1 ? &none : NULL,
					.where = how & 2 ? &none : NULL,
					.rows = shapes[i][0],
					.columns = shapes[i][1],
					.depth = shapes[i][2],
					.across_a = how & 4,
					.across_b = how & 8,
					.rectify = how & 16,
				},
				how % 3 == 0 ? 2 : HD_STAGE_WIDEST
			);
		}
}

static void check_softmax(struct pair *pair, uint32_t rows, uint32_t classes) {
	struct hd_stage_job job = {.kind = HD_STAGE_SOFTMAX};
	struct hd_softmax softmax = {
		.score = pair->near[0],
		.gradient = pair->near[1],
		.label = pair->near_label,
		.row = pair->near_row,
		.rows = rows,
		.classes = classes,
		.scale = 1.0F / (float)rows,
	};
	struct hd_softmax_row *got = malloc(rows * sizeof *got);

	refill(pair, rows);
	for (uint32_t r = 0; r < rows; r++)
		pair->near_label[r] = (uint8_t)(r * 7 % classes);
	device_copy(pair->device, pair->far_label, pair->near_label, rows, true);
	job.softmax = softmax;
	job.softmax.score = pair->far[0];
	job.softmax.gradient = pair->far[1];
	job.softmax.label = pair->far_label;
	job.softmax.row = pair->far_row;
	run(pair, &job, HD_STAGE_WIDEST);
	for (uint64_t block = 0; block < hd_lane_blocks(rows); block++)
		hd_softmax_block(&softmax, block);
	compare(pair, 1);
	device_copy(pair->device, got, pair->far_row, rows * sizeof *got, false);
	assert_memory_equal(got, pair->near_row, rows * sizeof *got);
	free(got);
}

static void check_columns(struct pair *pair, uint32_t rows, uint32_t columns) {
	struct hd_stage_job job = {.kind = HD_STAGE_COLUMNS};
	const struct hd_columns sums = {pair->near[0], pair->near[1], rows, columns};

	refill(pair, columns);
	job.columns = (struct hd_columns){pair->far[0], pair->far[1], rows, columns};
	run(pair, &job, 1);
	for (uint64_t block = 0; block < hd_lane_blocks(columns); block++)
		hd_columns_block(&sums, block);
	compare(pair, 1);
}

static void check_axpy(struct pair *pair, uint64_t values, bool sets) {
	struct hd_stage_job job = {.kind = HD_STAGE_AXPY};
	const struct hd_axpy axpy = {pair->near[0], pair->near[1], values, 0.3F, sets};

	refill(pair, values);
	job.axpy = (struct hd_axpy){pair->far[0], pair->far[1], values, 0.3F, sets};
	run(pair, &job, HD_STAGE_WIDEST);
	for (uint64_t block = 0; block < hd_stage_blocks(values); block++)
		hd_axpy_block(&axpy, block);
	compare(pair, 1);
}

static void check_sgd(struct pair *pair, uint64_t values) {
	struct hd_stage_job job = {.kind = HD_STAGE_SGD};
	struct hd_sgd_stage sgd = {
		.w = pair->near[0],
		.h = pair->near[1],
		.g = pair->near[2],
		.values = values,
		.factor = 0.7F,
		.learning_rate = 0.1F,
		.momentum = 0.9F,
		.decay = 1e-3F,
	};

	refill(pair, values);
	job.sgd = sgd;
	job.sgd.w = pair->far[0];
	job.sgd.h = pair->far[1];
	job.sgd.g = pair->far[2];
	run(pair, &job, HD_STAGE_WIDEST);
	for (uint64_t block = 0; block < hd_stage_blocks(values); block++)
		hd_sgd_block(&sgd, block);
	compare(pair, 0);
	compare(pair, 1);
}

void device_check_layers(struct hd_device *device) {
	struct pair pair;

	begin(&pair, device);
	check_products(&pair);
	check_softmax(&pair, 1500, 10);
	check_softmax(&pair, 31, 256);
	check_columns(&pair, 5, 1030);
	check_columns(&pair, 700, 3);
	for (int sets = 0; sets < 2; sets++)
		check_axpy(&pair, VALUES - 1, sets != 0);
	check_sgd(&pair, VALUES - 3);
	end(&pair);
}
