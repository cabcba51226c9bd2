/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stages of layers on a CUDA device. A group of threads takes blocks in turns. A product's block is a tile:
 *
 *   thread t computes the element (t / 32, t % 32) of the tile; for each 32 of the depth the group loads a tile of a
 *   and one of b into shared memory: neighbouring threads load neighbouring values, whichever operand is transposed.
 *
 * A row of shared memory has one value more than it needs, so that a warp that goes down a column uses every bank.
 */
#include "hd_layers.h"

#define PITCH (HD_TILE + 1)

struct tiles {
	float a[HD_TILE][PITCH]; /* [row][k] */
	float b[HD_TILE][PITCH]; /* [k][column] */
};

/* Loads the parts of a and b at depth k on; what is outside of them is not used. */
static __device__ __forceinline__ void load_tiles(
	struct tiles *tiles,
	const struct hd_product &product,
	uint32_t first_row,
	uint32_t first_column,
	uint32_t k
) {
	const uint32_t y = threadIdx.x / HD_TILE, x = threadIdx.x % HD_TILE;
	const uint32_t row = first_row + (product.across_a ? x : y);
	const uint32_t column = first_column + (product.across_b ? y : x);
	const uint32_t k_a = k + (product.across_a ? y : x), k_b = k + (product.across_b ? x : y);

	if (row < product.rows && k_a < product.depth)
		tiles->a[row - first_row][k_a - k] = hd_product_a(&product, row, k_a);
	if (column < product.columns && k_b < product.depth)
		tiles->b[k_b - k][column - first_column] = hd_product_b(&product, k_b, column);
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_product(const __grid_constant__ struct hd_product product) {
	__shared__ struct tiles tiles;
	const uint32_t y = threadIdx.x / HD_TILE, x = threadIdx.x % HD_TILE;
	const uint64_t across = hd_tiles(product.columns);
	const uint64_t blocks = hd_tiles(product.rows) * across;

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		const uint32_t first_row = (uint32_t)(block / across) * HD_TILE;
		const uint32_t first_column = (uint32_t)(block % across) * HD_TILE;
		float sum = 0.0F;

		for (uint32_t k = 0; k < product.depth; k += HD_TILE) {
			const uint32_t left = min(product.depth - k, (uint32_t)HD_TILE);

			__syncthreads(); /* the previous tiles were read */
			load_tiles(&tiles, product, first_row, first_column, k);
			__syncthreads();
			for (uint32_t i = 0; i < left; i++)
				sum = hd_layer_fma(tiles.a[y][i], tiles.b[i][x], sum);
		}
		if (first_row + y < product.rows && first_column + x < product.columns)
			hd_product_end(&product, first_row + y, first_column + x, sum);
	}
}

/* One item for each lane. */
#define EACH_LANE(at, count)                                                                       \
	for (uint64_t at = (uint64_t)blockIdx.x * HD_STAGE_LANES + threadIdx.x; at < (count);      \
	     at += (uint64_t)gridDim.x * HD_STAGE_LANES)

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_softmax(const __grid_constant__ struct hd_softmax softmax) {
	EACH_LANE(row, softmax.rows)
	hd_softmax_one(&softmax, (uint32_t)row);
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_columns(const __grid_constant__ struct hd_columns columns) {
	EACH_LANE(column, columns.columns)
	hd_columns_one(&columns, (uint32_t)column);
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_axpy(const __grid_constant__ struct hd_axpy axpy) {
	EACH_LANE(at, axpy.values)
	hd_axpy_one(&axpy, at);
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_sgd(const __grid_constant__ struct hd_sgd_stage sgd) {
	EACH_LANE(at, sgd.values)
	hd_sgd_one(&sgd, at);
}
