/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of layers on a host: the device's operations in the device's order. */
#include "hd_layers.h"

static uint32_t end_of(uint64_t first, uint32_t most, uint32_t all) {
	return first + most < all ? (uint32_t)first + most : all;
}

void hd_product_block(const struct hd_product *product, uint64_t tile) {
	const uint64_t across = hd_tiles(product->columns);
	const uint32_t first_row = (uint32_t)(tile / across) * HD_TILE;
	const uint32_t first_column = (uint32_t)(tile % across) * HD_TILE;
	const uint32_t rows = end_of(first_row, HD_TILE, product->rows);
	const uint32_t columns = end_of(first_column, HD_TILE, product->columns);

	for (uint32_t r = first_row; r < rows; r++)
		for (uint32_t c = first_column; c < columns; c++) {
			float sum = 0.0F;

			for (uint32_t k = 0; k < product->depth; k++)
				sum = hd_layer_fma(
					hd_product_a(product, r, k),
					hd_product_b(product, k, c),
					sum
				);
			hd_product_end(product, r, c, sum);
		}
}

void hd_softmax_block(const struct hd_softmax *softmax, uint64_t block) {
	const uint64_t first = block * HD_STAGE_LANES;
	const uint32_t end = end_of(first, HD_STAGE_LANES, softmax->rows);

	for (uint32_t r = (uint32_t)first; r < end; r++)
		hd_softmax_one(softmax, r);
}

void hd_columns_block(const struct hd_columns *columns, uint64_t block) {
	const uint64_t first = block * HD_STAGE_LANES;
	const uint32_t end = end_of(first, HD_STAGE_LANES, columns->columns);

	for (uint32_t c = (uint32_t)first; c < end; c++)
		hd_columns_one(columns, c);
}

void hd_axpy_block(const struct hd_axpy *axpy, uint64_t block) {
	const uint64_t first = block * HD_STAGE_VALUES;
	const uint32_t count = hd_stage_count(axpy->values, block);

	for (uint32_t i = 0; i < count; i++)
		hd_axpy_one(axpy, first + i);
}

void hd_sgd_block(const struct hd_sgd_stage *sgd, uint64_t block) {
	const uint64_t first = block * HD_STAGE_VALUES;
	const uint32_t count = hd_stage_count(sgd->values, block);

	for (uint32_t i = 0; i < count; i++)
		hd_sgd_one(sgd, first + i);
}
