/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of layers against the same in double precision. */
#include "hd_kernels.h"
#include "hd_layers.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIDE ((size_t)100)
#define ROUNDING 0x1p-22 /* of a sum, relative to the sum of the products' sizes */

static void fill(float *x, size_t count, uint64_t seed) {
	struct hd_random random;

	hd_random_init(&random, seed);
	for (size_t i = 0; i < count; i++)
		x[i] = (float)(hd_random_unit(&random) - 0.5);
}

static void test_exp(void **state) {
	double worst = 0;

	for (int i = 0; i < 87 << 10; i++) {
		const float x = (float)-i * 0x1p-10F;
		const double right = exp((double)x);

		worst = fmax(worst, fabs((double)hd_layer_exp(x) - right) / right);
	}
	assert_true(worst < 0x1p-23); /* a unit in the last place, at most */
	assert_true(hd_layer_exp(-87.5F) < 1e-37F);
	assert_true(hd_layer_exp(-INFINITY) < 1e-37F);
	assert_true(isnan(hd_layer_exp(NAN)));
	assert_int_equal(hd_stage_bits(hd_layer_exp(0)), hd_stage_bits(1.0F));
	assert_int_equal(hd_stage_bits(hd_layer_exp(-0.0F)), hd_stage_bits(1.0F));
}

static float
operand(const float *x, bool across, uint32_t rows, uint32_t columns, uint32_t r, uint32_t c) {
	return across ? x[(size_t)c * rows + r] : x[(size_t)r * columns + c];
}

static void check_element(const struct hd_product *product, uint32_t r, uint32_t c) {
	const size_t at = (size_t)r * product->columns + c;
	double sum = 0, size = 1;

	for (uint32_t k = 0; k < product->depth; k++) {
		double a = (double
		)operand(product->a, product->across_a, product->rows, product->depth, r, k);
		double b = (double
		)operand(product->b, product->across_b, product->depth, product->columns, k, c);

		sum += a * b;
		size += fabs(a * b);
	}
	sum += product->bias ? (double)product->bias[c] : 0;
	if ((product->rectify && sum <= 0) || (product->where && product->where[at] <= 0.0F))
		sum = 0;
	assert_true(fabs((double)product->c[at] - sum) <= ROUNDING * size);
}

static void check_product(struct hd_product product) {
	const uint64_t tiles = hd_tiles(product.rows) * hd_tiles(product.columns);
	const size_t count = (size_t)product.rows * product.columns;

	for (size_t i = 0; i <= count; i++)
		product.c[i] = NAN;
	for (uint64_t t = tiles; t-- > 0;) /* in any order */
		hd_product_block(&product, t);
	assert_true(isnan(product.c[count]));
	for (uint32_t r = 0; r < product.rows; r++)
		for (uint32_t c = 0; c < product.columns; c++)
			check_element(&product, r, c);
}

static void test_products(void **state) {
	static const uint32_t shapes[][3]
		= {{1, 1, 1}, {32, 32, 32}, {33, 31, 65}, {100, 10, 7}, {3, 97, 100}};
	static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE + 1], bias[SIDE],
		where[SIDE * SIDE];

	fill(a, SIDE * SIDE, 1);
	fill(b, SIDE * SIDE, 2);
	fill(bias, SIDE, 3);
	fill(where, SIDE * SIDE, 4);
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		for (int how = 0; how < 32; how++)
			check_product((struct hd_product){
				.a = a,
				.b = b,
				.c = c,
				.bias = how & 1 ? bias : NULL,
				.where = how & 2 ? where : NULL,
				.rows = shapes[i][0],
				.columns = shapes[i][1],
				.depth = shapes[i][2],
				.across_a = how & 4,
				.across_b = how & 8,
				.rectify = how & 16,
			});
}

/* Scores are subtracted in fp32, as the host's model does; all else is compared with double precision. */
static void check_row(const struct hd_softmax *softmax, uint32_t r) {
	const float *score = softmax->score + (size_t)r * softmax->classes;
	const float *gradient = softmax->gradient + (size_t)r * softmax->classes;
	const uint8_t label = softmax->label[r];
	float top = -INFINITY;
	double sum = 0, loss;

	for (uint32_t c = 0; c < softmax->classes; c++)
		top = score[c] > top ? score[c] : top;
	for (uint32_t c = 0; c < softmax->classes; c++)
		sum += exp((double)(score[c] - top));
	for (uint32_t c = 0; c < softmax->classes; c++) {
		double right = exp((double)(score[c] - top)) / sum - (c == label);

		assert_true(fabs((double)gradient[c] - right * (double)softmax->scale) < 2e-8);
	}
	loss = log(softmax->row[r].sum) - softmax->row[r].margin;
	assert_true(fabs(loss - (log(sum) - (double)(score[label] - top))) < 1e-7);
}

static void test_softmax(void **state) {
	enum {
		ROWS = 1500,
		CLASSES = 10
	};
	static float score[ROWS * CLASSES], gradient[ROWS * CLASSES];
	static struct hd_softmax_row rows[ROWS];
	static uint8_t label[ROWS];
	const struct hd_softmax softmax = {
		.score = score,
		.gradient = gradient,
		.label = label,
		.row = rows,
		.rows = ROWS,
		.classes = CLASSES,
		.scale = 0.125F,
	};

	fill(score, (size_t)ROWS * CLASSES, 5);
	for (uint32_t i = 0; i < ROWS * CLASSES; i++)
		score[i] *= 40;
	for (uint32_t r = 0; r < ROWS; r++)
		label[r] = (uint8_t)(r % CLASSES);
	for (uint64_t block = 0; block < hd_lane_blocks(ROWS); block++)
		hd_softmax_block(&softmax, block);
	for (uint32_t r = 0; r < ROWS; r++)
		check_row(&softmax, r);
}

static void test_columns(void **state) {
	enum {
		ROWS = 40,
		COLUMNS = 1030
	};
	static float from[ROWS * COLUMNS], sum[COLUMNS];
	const struct hd_columns columns = {from, sum, ROWS, COLUMNS};

	fill(from, (size_t)ROWS * COLUMNS, 6);
	for (uint64_t block = 0; block < hd_lane_blocks(COLUMNS); block++)
		hd_columns_block(&columns, block);
	for (uint32_t c = 0; c < COLUMNS; c++) {
		float right = 0;

		for (uint32_t r = 0; r < ROWS; r++)
			right += from[(size_t)r * COLUMNS + c];
		assert_int_equal(hd_stage_bits(sum[c]), hd_stage_bits(right));
	}
}

/* A step has the bits of the host's kernel, and so has one of a sum times a factor. */
static void test_sgd(void **state) {
	enum {
		VALUES = HD_STAGE_VALUES + 77
	};
	static float w[2][VALUES], h[2][VALUES], g[VALUES], mean[VALUES];
	const struct hd_sgd sgd = {0.05F, 0.9F, 1e-3F};
	const struct hd_axpy scale = {g, mean, VALUES, 0.3F, true};
	const struct hd_sgd_stage stage
		= {w[0], h[0], g, VALUES, 0.3F, sgd.learning_rate, sgd.momentum, sgd.decay};

	fill(g, VALUES, 7);
	for (int i = 0; i < 2; i++) {
		fill(w[i], VALUES, 8);
		fill(h[i], VALUES, 9);
	}
	for (uint64_t block = 0; block < hd_stage_blocks(VALUES); block++) {
		hd_axpy_block(&scale, block);
		hd_sgd_block(&stage, block);
	}
	(void)hd_sgd_apply(w[1], h[1], mean, VALUES, &sgd);
	assert_memory_equal(w[0], w[1], sizeof w[0]);
	assert_memory_equal(h[0], h[1], sizeof h[0]);
}

static void test_axpy(void **state) {
	float x[3] = {1, 2, -3}, y[3] = {10, 20, 30};
	const struct hd_axpy add = {x, y, 3, 0.5F, false}, set = {x, y, 3, 2, true};
	const float sums[3] = {10.5F, 21, 28.5F}, products[3] = {2, 4, -6};

	hd_axpy_block(&add, 0);
	assert_memory_equal(y, sums, sizeof y);
	hd_axpy_block(&set, 0);
	assert_memory_equal(y, products, sizeof y);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exp),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_softmax),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_sgd),
		cmocka_unit_test(test_axpy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
