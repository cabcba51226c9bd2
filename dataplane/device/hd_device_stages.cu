/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stages on a CUDA device. A group of threads takes blocks in turns:
 *
 *   thread t: values 4t .. 4t+3 of each 4096, or 8t .. 8t+7 of each 8192 (pack of 16 bits): 16 bytes a thread and
 *   store, side by side, so that whole lines cross the bus to the host's memory.
 *
 * A flag: every thread has stored -> barrier -> one thread's __threadfence_system(), which covers all stores made
 * before the barrier -> one store.
 *
 * Finite values of 16 bits are converted by the device's own instructions, which round like hd_stages.h; other values
 * use hd_stages.h itself.
 */
#include "hd_stages.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define QUADS (HD_STAGE_VALUES / 4 / HD_STAGE_LANES)
#define WARP 32

static __device__ __forceinline__ bool aligned(const void *pointer) {
	return ((size_t)pointer & 15) == 0;
}

/* Four values from `at` on; those beyond `count` are 0. */
static __device__ __forceinline__ float4
load4(const float *from, uint32_t at, uint32_t count, bool wide) {
	float4 x = make_float4(0, 0, 0, 0);

	if (wide && at + 4 <= count)
		return *(const float4 *)(from + at);
	if (at < count)
		x.x = from[at];
	if (at + 1 < count)
		x.y = from[at + 1];
	if (at + 2 < count)
		x.z = from[at + 2];
	if (at + 3 < count)
		x.w = from[at + 3];
	return x;
}

static __device__ __forceinline__ void
store4(float *to, uint32_t at, uint32_t count, bool wide, float4 x) {
	if (wide && at + 4 <= count) {
		*(float4 *)(to + at) = x;
		return;
	}
	if (at < count)
		to[at] = x.x;
	if (at + 1 < count)
		to[at + 1] = x.y;
	if (at + 2 < count)
		to[at + 2] = x.z;
	if (at + 3 < count)
		to[at + 3] = x.w;
}

/* --- take ------------------------------------------------------------------------------------ */

struct look {
	double norm2;
	uint32_t not_finite, peak;
};

static __device__ __forceinline__ float
look_at(struct look *look, const struct hd_take &take, float x, uint32_t at, uint32_t count) {
	uint32_t bits;

	if (at >= count)
		return 0;
	if (hd_stage_bits(take.scale) != UINT32_C(0x3f800000))
		x = hd_stage_mul(take.scale, x);
	bits = hd_stage_bits(x) & 0x7fffffff;
	if (!hd_stage_is_finite_as(take.dtype, x) && at < look->not_finite)
		look->not_finite = at;
	look->peak = max(look->peak, bits);
	/* The product is exact, so fusing does not change it. */
	look->norm2 = __dadd_rn(look->norm2, __dmul_rn((double)x, (double)x));
	return x;
}

/* Reduces into the first lane, in the order of hd_stages.c. */
static __device__ __forceinline__ struct look over_warp(struct look look) {
	for (int half = WARP / 2; half > 0; half /= 2) {
		look.norm2 = __dadd_rn(look.norm2, __shfl_down_sync(~0U, look.norm2, half));
		look.not_finite
			= min(look.not_finite, __shfl_down_sync(~0U, look.not_finite, half));
		look.peak = max(look.peak, __shfl_down_sync(~0U, look.peak, half));
	}
	return look;
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_take(const __grid_constant__ struct hd_take take) {
	__shared__ struct look warps[HD_STAGE_LANES / WARP];
	const bool wide = aligned(take.from);
	const uint64_t blocks = hd_stage_blocks(take.values);

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		const float *from = take.from + block * HD_STAGE_VALUES;
		const uint32_t count = hd_stage_count(take.values, block);
		struct look look = {0, HD_STAGE_FINITE, 0};
		float4 x[QUADS];

#pragma unroll
		for (uint32_t j = 0; j < QUADS; j++)
			x[j] = load4(from, 4 * (threadIdx.x + j * HD_STAGE_LANES), count, wide);
#pragma unroll
		for (uint32_t j = 0; j < QUADS; j++) {
			uint32_t at = 4 * (threadIdx.x + j * HD_STAGE_LANES);

			x[j].x = look_at(&look, take, x[j].x, at, count);
			x[j].y = look_at(&look, take, x[j].y, at + 1, count);
			x[j].z = look_at(&look, take, x[j].z, at + 2, count);
			x[j].w = look_at(&look, take, x[j].w, at + 3, count);
			if (take.copy)
				store4(take.copy + block * HD_STAGE_VALUES, at, count, true, x[j]);
		}
		look = over_warp(look);
		__syncthreads(); /* the previous block's were read */
		if (threadIdx.x % WARP == 0)
			warps[threadIdx.x / WARP] = look;
		__syncthreads();
		if (threadIdx.x < WARP) {
			look = over_warp(warps[threadIdx.x]);
			if (threadIdx.x == 0)
				take.sums[block]
					= hd_stage_sums{look.norm2, look.not_finite, look.peak};
		}
	}
}

/* --- pack ------------------------------------------------------------------------------------ */

/* Converts two finite values. */
template <bool bf16> static __device__ __forceinline__ uint32_t two_finite(float low, float high) {
	uint32_t pair;

	if (bf16) {
		__nv_bfloat162 x = __floats2bfloat162_rn(low, high);

		memcpy(&pair, &x, sizeof pair);
	} else {
		__half2 x = __floats2half2_rn(low, high);

		memcpy(&pair, &x, sizeof pair);
	}
	return pair;
}

static __device__ __forceinline__ uint32_t two_any(uint8_t dtype, float low, float high) {
	return hd_stage_half(dtype, low) | (uint32_t)hd_stage_half(dtype, high) << 16;
}

/* Converts eight values times weight. */
template <bool bf16>
static __device__ __forceinline__ uint4
eight(const struct hd_pack &pack, float4 a, float4 b, bool *unfit) {
	const float limit = hd_stage_float(
		bf16 ? UINT32_C(0x7f7f8000) : UINT32_C(0x477ff000)
	); /* rounds to Inf */
	const float w = pack.weight;
	float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
	bool fits = true;

#pragma unroll
	for (int i = 0; i < 8; i++) {
		float y = __fmul_rn(w, x[i]);

		fits = fits && fabsf(y) < limit;
	}
	if (fits)
		return make_uint4(
			two_finite<bf16>(__fmul_rn(w, x[0]), __fmul_rn(w, x[1])),
			two_finite<bf16>(__fmul_rn(w, x[2]), __fmul_rn(w, x[3])),
			two_finite<bf16>(__fmul_rn(w, x[4]), __fmul_rn(w, x[5])),
			two_finite<bf16>(__fmul_rn(w, x[6]), __fmul_rn(w, x[7]))
		);
	*unfit = true;
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = hd_stage_mul(w, x[i]);
	return make_uint4(
		two_any(pack.dtype, x[0], x[1]),
		two_any(pack.dtype, x[2], x[3]),
		two_any(pack.dtype, x[4], x[5]),
		two_any(pack.dtype, x[6], x[7])
	);
}

/* This thread's quads of a block: adjacent in pairs, or not. */
static __device__ __forceinline__ void
load_block(float4 *x, const struct hd_pack &pack, uint64_t block, bool wide, bool pairs) {
	const float *from = pack.from + block * HD_STAGE_VALUES;
	const uint32_t count = hd_stage_count(pack.values, block);

#pragma unroll
	for (uint32_t j = 0; j < QUADS; j++) {
		uint32_t at = pairs ? 8 * (threadIdx.x + j / 2 * HD_STAGE_LANES) + j % 2 * 4 :
				      4 * (threadIdx.x + j * HD_STAGE_LANES);

		x[j] = load4(from, at, count, wide);
	}
}

/* All threads have stored their part of the block. */
static __device__ __forceinline__ void
raise_flag(const struct hd_pack &pack, uint64_t block, bool unfit) {
	unfit = __syncthreads_or(unfit);
	if (threadIdx.x != 0)
		return;
	__threadfence_system();
	*(volatile uint64_t *)&pack.flags[block] = (uint64_t)unfit << 32 | pack.generation;
}

static __device__ __forceinline__ void store8(uint16_t *to, uint32_t at, uint32_t count, uint4 x) {
	if (at + 8 <= count) {
		*(uint4 *)(to + at) = x;
		return;
	}
	for (uint32_t i = 0; i < 8 && at + i < count; i++) {
		uint32_t pair = i < 2 ? x.x : i < 4 ? x.y : i < 6 ? x.z : x.w;

		to[at + i] = (uint16_t)(pair >> i % 2 * 16);
	}
}

/* Loads the next block's values before this one's are stored. */
template <bool bf16>
static __device__ __forceinline__ void pack_halves(const struct hd_pack &pack) {
	const uint64_t blocks = hd_stage_blocks(pack.values);
	const bool wide = aligned(pack.from);
	float4 x[QUADS];

	if (blockIdx.x < blocks)
		load_block(x, pack, blockIdx.x, wide, true);
	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		uint16_t *to = (uint16_t *)pack.to + block * HD_STAGE_VALUES;
		uint32_t count = hd_stage_count(pack.values, block);
		uint4 out[QUADS / 2];
		bool unfit = false;

#pragma unroll
		for (uint32_t j = 0; j < QUADS / 2; j++)
			out[j] = eight<bf16>(pack, x[2 * j], x[2 * j + 1], &unfit);
		if (block + gridDim.x < blocks)
			load_block(x, pack, block + gridDim.x, wide, true);
#pragma unroll
		for (uint32_t j = 0; j < QUADS / 2; j++)
			store8(to, 8 * (threadIdx.x + j * HD_STAGE_LANES), count, out[j]);
		raise_flag(pack, block, unfit);
	}
}

static __device__ __forceinline__ float word(const struct hd_pack &pack, float x, bool *unfit) {
	if (pack.dtype == HD_DTYPE_FIXED32)
		return hd_stage_float(
			hd_stage_fixed(hd_stage_mul(pack.unit, hd_stage_mul(pack.weight, x)), unfit)
		);
	if (hd_stage_bits(pack.weight) != UINT32_C(0x3f800000))
		x = hd_stage_mul(pack.weight, x);
	*unfit |= !hd_stage_is_finite(x);
	return x;
}

/* Loading the next block ahead of these stores was tried: a little slower. */
static __device__ __forceinline__ void pack_words(const struct hd_pack &pack) {
	const uint64_t blocks = hd_stage_blocks(pack.values);
	const bool wide = aligned(pack.from);

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		float *to = (float *)pack.to + block * HD_STAGE_VALUES;
		uint32_t count = hd_stage_count(pack.values, block);
		bool unfit = false;
		float4 x[QUADS];

		load_block(x, pack, block, wide, false);
#pragma unroll
		for (uint32_t j = 0; j < QUADS; j++) {
			x[j].x = word(pack, x[j].x, &unfit);
			x[j].y = word(pack, x[j].y, &unfit);
			x[j].z = word(pack, x[j].z, &unfit);
			x[j].w = word(pack, x[j].w, &unfit);
			store4(to, 4 * (threadIdx.x + j * HD_STAGE_LANES), count, true, x[j]);
		}
		raise_flag(pack, block, unfit);
	}
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_pack(const __grid_constant__ struct hd_pack pack) {
	if (pack.dtype == HD_DTYPE_BF16)
		pack_halves<true>(pack);
	else if (pack.dtype == HD_DTYPE_FP16)
		pack_halves<false>(pack);
	else
		pack_words(pack);
}

/* --- unpack ---------------------------------------------------------------------------------- */

/* fp32 can represent every value of 16 bits. */
template <bool bf16> static __device__ __forceinline__ float from_half(uint16_t half) {
	__half x;

	if (bf16)
		return hd_stage_from_bf16(half);
	if ((half & 0x7c00) == 0x7c00)
		return hd_stage_from_f16(half);
	memcpy(&x, &half, sizeof x);
	return __half2float(x);
}

template <bool bf16>
static __device__ __forceinline__ void
unpack_halves(const struct hd_unpack &unpack, uint64_t first, uint32_t count, bool wide) {
	const uint16_t *from = (const uint16_t *)unpack.from + first;
	uint2 in[QUADS];

#pragma unroll
	for (uint32_t j = 0; j < QUADS; j++) {
		uint32_t at = 4 * (threadIdx.x + j * HD_STAGE_LANES);

		if (at + 4 <= count) {
			in[j] = *(const uint2 *)(from + at);
			continue;
		}
		in[j] = make_uint2(0, 0);
		if (at < count)
			in[j].x = from[at];
		if (at + 1 < count)
			in[j].x |= (uint32_t)from[at + 1] << 16;
		if (at + 2 < count)
			in[j].y = from[at + 2];
	}
#pragma unroll
	for (uint32_t j = 0; j < QUADS; j++)
		store4(unpack.to + first,
		       4 * (threadIdx.x + j * HD_STAGE_LANES),
		       count,
		       wide,
		       make_float4(
			       from_half<bf16>((uint16_t)in[j].x),
			       from_half<bf16>((uint16_t)(in[j].x >> 16)),
			       from_half<bf16>((uint16_t)in[j].y),
			       from_half<bf16>((uint16_t)(in[j].y >> 16))
		       ));
}

static __device__ __forceinline__ float unpacked(const struct hd_unpack &unpack, float x) {
	return unpack.dtype == HD_DTYPE_FIXED32 ?
		hd_stage_from_fixed(hd_stage_bits(x), unpack.unit) :
		x;
}

static __device__ __forceinline__ void
unpack_words(const struct hd_unpack &unpack, uint64_t first, uint32_t count, bool wide) {
	float4 x[QUADS];

#pragma unroll
	for (uint32_t j = 0; j < QUADS; j++)
		x[j]
			= load4((const float *)unpack.from + first,
				4 * (threadIdx.x + j * HD_STAGE_LANES),
				count,
				true);
#pragma unroll
	for (uint32_t j = 0; j < QUADS; j++) {
		x[j].x = unpacked(unpack, x[j].x);
		x[j].y = unpacked(unpack, x[j].y);
		x[j].z = unpacked(unpack, x[j].z);
		x[j].w = unpacked(unpack, x[j].w);
		store4(unpack.to + first, 4 * (threadIdx.x + j * HD_STAGE_LANES), count, wide, x[j]
		);
	}
}

extern "C" __global__ void __launch_bounds__(HD_STAGE_LANES, 1)
	hd_unpack(const __grid_constant__ struct hd_unpack unpack) {
	const bool wide = aligned(unpack.to);
	const uint64_t blocks = hd_stage_blocks(unpack.values);

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		uint64_t first = block * HD_STAGE_VALUES;
		uint32_t count = hd_stage_count(unpack.values, block);

		if (unpack.dtype == HD_DTYPE_BF16)
			unpack_halves<true>(unpack, first, count, wide);
		else if (unpack.dtype == HD_DTYPE_FP16)
			unpack_halves<false>(unpack, first, count, wide);
		else
			unpack_words(unpack, first, count, wide);
	}
}
