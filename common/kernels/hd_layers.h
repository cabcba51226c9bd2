/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of a training step of fully connected layers, written once for hosts and devices, as those of hd_stages.h:
 * a device's stages give the bits of their twins in hd_layers.c, except the bits of a NaN.
 *
 *   forward   z = a W + b, a' = max(z, 0)          PRODUCT, with bias and rectify
 *   loss      softmax and cross-entropy            SOFTMAX
 *   backward  dW = a^T dz                          PRODUCT, across_a
 *             db = sum of dz's rows                COLUMNS
 *             da = dz W^T where a > 0              PRODUCT, across_b and where
 *   update    y = y + a x, y = a x                 AXPY
 *             SGD with momentum                    SGD
 *
 * A sum is added in the order of its index, by one lane, with one rounding for each product and addition (fma). Every
 * other operation is rounded separately.
 *
 * A block is one group of HD_STAGE_LANES threads of a device: a tile of 32 x 32 elements of a product, a row or a
 * column for each lane, or HD_STAGE_VALUES values.
 */
#ifndef HD_LAYERS_H
#define HD_LAYERS_H

#include "hd_stages.h"

#define HD_TILE 32 /* elements of a side; HD_TILE x HD_TILE lanes */

/* c = a b, a: rows x depth, b: depth x columns, c: rows x columns, all by rows. */
struct hd_product {
	const float *a, *b;
	float *c;
	const float *bias; /* one for each column, is added; NULL: none */
	const float *where; /* like c: c is 0 where this is not above 0; NULL: nowhere */
	uint32_t rows, columns, depth;
	bool across_a, across_b; /* stored as its transpose: depth x rows, columns x depth */
	bool rectify; /* c is 0 where it is not above 0 */
};

/* Of a row's scores: loss = ln(sum) - margin. */
struct hd_softmax_row {
	double sum; /* of exp(score - greatest score) */
	double margin; /* the label's score - greatest score */
};

/* gradient = (softmax(score) - one at the label) * scale, for each row. */
struct hd_softmax {
	const float *score; /* rows x classes */
	float *gradient; /* the same; may be the scores */
	const uint8_t *label; /* of each row, below `classes` */
	struct hd_softmax_row *row;
	uint32_t rows, classes;
	float scale;
};

/* sum[c] = from[0][c] + from[1][c] + ... */
struct hd_columns {
	const float *from; /* rows x columns */
	float *sum;
	uint32_t rows, columns;
};

struct hd_axpy {
	const float *x;
	float *y;
	uint64_t values;
	float a;
	bool sets; /* y = a x, else y = y + a x */
};

/* A step of hd_sgd_apply() (hd_kernels.h) with factor * g; the same bits. */
struct hd_sgd_stage {
	float *w, *h;
	const float *g;
	uint64_t values;
	float factor; /* 1: unchanged */
	float learning_rate, momentum, decay;
};

HD_STAGE uint64_t hd_tiles(uint32_t side) {
	return ((uint64_t)side + HD_TILE - 1) / HD_TILE;
}

HD_STAGE uint64_t hd_lane_blocks(uint32_t lanes) {
	return ((uint64_t)lanes + HD_STAGE_LANES - 1) / HD_STAGE_LANES;
}

/* --- one value ------------------------------------------------------------------------------ */

/* a b + c, rounded once. */
HD_STAGE float hd_layer_fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
	return __fmaf_rn(a, b, c);
#else
	return __builtin_fmaf(a, b, c);
#endif
}

HD_STAGE float hd_product_a(const struct hd_product *product, uint32_t row, uint32_t k) {
	return product->across_a ? product->a[(uint64_t)k * product->rows + row] :
				   product->a[(uint64_t)row * product->depth + k];
}

HD_STAGE float hd_product_b(const struct hd_product *product, uint32_t k, uint32_t column) {
	return product->across_b ? product->b[(uint64_t)column * product->depth + k] :
				   product->b[(uint64_t)k * product->columns + column];
}

/* Stores an element, whose products are added. NaN stays where nothing makes it 0. */
HD_STAGE void
hd_product_end(const struct hd_product *product, uint32_t row, uint32_t column, float sum) {
	const uint64_t at = (uint64_t)row * product->columns + column;

	if (product->bias)
		sum = sum + product->bias[column];
	if (product->rectify && !(sum > 0.0F))
		sum = 0.0F;
	if (product->where && !(product->where[at] > 0.0F))
		sum = 0.0F;
	product->c[at] = sum;
}

/* exp(x) for x <= 0, 0 below -87, NaN for NaN: 2^n exp(r), n the nearest whole number to x / ln 2, |r| <= ln(2) / 2,
 * and exp(r) by its series to r^7, whose rest is below 6e-9. */
HD_STAGE float hd_layer_exp(float x) {
	const float shift = 12582912.0F; /* 1.5 x 2^23: the sum's last bit is worth 1 */
	const float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
	float n, r, y;

	if (x < -87.0F)
		return 0.0F;
	n = hd_layer_fma(x, 0x1.715476p+0F, shift) - shift;
	r = hd_layer_fma(-n, ln2_high, x);
	r = hd_layer_fma(-n, ln2_low, r);
	y = 0x1.a01a02p-13F; /* 1 / 7! */
	y = hd_layer_fma(y, r, 0x1.6c16c2p-10F);
	y = hd_layer_fma(y, r, 0x1.111112p-7F);
	y = hd_layer_fma(y, r, 0x1.555556p-5F);
	y = hd_layer_fma(y, r, 0x1.555556p-3F);
	y = hd_layer_fma(y, r, 0.5F);
	y = hd_layer_fma(y, r, 1.0F);
	y = hd_layer_fma(y, r, 1.0F);
	if (!(n <= 0.0F))
		return y; /* NaN */
	return y * hd_stage_float((uint32_t)((int32_t)n + 127) << 23);
}

HD_STAGE void hd_softmax_one(const struct hd_softmax *softmax, uint32_t row) {
	const float *score = softmax->score + (uint64_t)row * softmax->classes;
	float *gradient = softmax->gradient + (uint64_t)row * softmax->classes;
	const uint8_t label = softmax->label[row];
	float top = score[0];
	double sum = 0.0;

	for (uint32_t c = 1; c < softmax->classes; c++)
		top = score[c] > top ? score[c] : top;
	softmax->row[row].margin = (double)(score[label] - top);
	for (uint32_t c = 0; c < softmax->classes; c++) {
		gradient[c] = hd_layer_exp(score[c] - top);
		sum = sum + (double)gradient[c];
	}
	softmax->row[row].sum = sum;
	for (uint32_t c = 0; c < softmax->classes; c++) {
		float p = (float)((double)gradient[c] / sum);

		gradient[c] = (c == label ? p - 1.0F : p) * softmax->scale;
	}
}

HD_STAGE void hd_columns_one(const struct hd_columns *columns, uint32_t column) {
	float sum = 0.0F;

	for (uint32_t r = 0; r < columns->rows; r++)
		sum = sum + columns->from[(uint64_t)r * columns->columns + column];
	columns->sum[column] = sum;
}

HD_STAGE void hd_axpy_one(const struct hd_axpy *axpy, uint64_t at) {
	const float product = axpy->a * axpy->x[at];

	axpy->y[at] = axpy->sets ? product : axpy->y[at] + product;
}

HD_STAGE void hd_sgd_one(const struct hd_sgd_stage *sgd, uint64_t at) {
	const float g = sgd->factor * sgd->g[at], decayed = sgd->decay * sgd->w[at];
	const float u = -sgd->learning_rate * (g + decayed), kept = sgd->momentum * sgd->h[at];

	sgd->h[at] = kept + u;
	sgd->w[at] = sgd->w[at] + sgd->h[at];
}

#ifndef __CUDACC__
/* --- on the host: hd_layers.c ---------------------------------------------------------------- */

/* Each processes one block. */
void hd_product_block(const struct hd_product *product, uint64_t tile);
void hd_softmax_block(const struct hd_softmax *softmax, uint64_t block);
void hd_columns_block(const struct hd_columns *columns, uint64_t block);
void hd_axpy_block(const struct hd_axpy *axpy, uint64_t block);
void hd_sgd_block(const struct hd_sgd_stage *sgd, uint64_t block);
#endif

#endif
