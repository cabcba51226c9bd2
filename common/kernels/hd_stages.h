/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on values between a gradient and the wire, written once for hosts and devices: this header compiles as C
 * and as CUDA, and gives the same bits in both. Each operation is rounded separately; a product that is NaN has the
 * bits that an x86-64 processor gives it.
 *
 *   push:  fp32 --take--> (copy), norm, peak, first NaN     once, when the caller hands the update over
 *               --pack--> fp32, fp16, bf16, fixed32         when the grant has set its weight
 *   pull:  fp32, fp16, bf16, fixed32 --unpack--> fp32
 *
 * A stage processes its values in blocks of HD_STAGE_VALUES. On a device a block is one group of HD_STAGE_LANES
 * threads; on a host hd_stages.c has equivalents that add in the same order.
 */
#ifndef HD_STAGES_H
#define HD_STAGES_H

#include "hd_types.h"

#include <string.h>

#ifdef __CUDACC__
#define HD_STAGE static __host__ __device__ __forceinline__
#else
#define HD_STAGE static inline
#endif

#define HD_STAGE_VALUES 16384
#define HD_STAGE_LANES 1024 /* lane i adds the values 4 i .. 4 i + 3 of each 4096 */
#define HD_STAGE_FINITE UINT32_MAX
#define HD_STAGE_FIXED_LIMIT 2147483520.0F /* the greatest fp32 below 2^31 */

/* The results of take for a block, after scaling. */
struct hd_stage_sums {
	double norm2; /* sum of squares: lane by lane, then as a tree over the lanes */
	uint32_t not_finite; /* first that rounds to NaN or Inf in dtype, or HD_STAGE_FINITE */
	uint32_t peak; /* bits of the largest absolute value; above those of Inf: there is a NaN */
};

/* Multiplies the values by scale (1: unchanged), examines them as they will travel, and copies them unless copy is
 * NULL. */
struct hd_take {
	const float *from;
	float *copy; /* aligned to 16 bytes */
	uint64_t values;
	struct hd_stage_sums *sums; /* one for each block */
	float scale;
	uint8_t dtype; /* type in which they will travel */
};

/* Writes weight times the values as dtype; fp32 with weight 1: unchanged. A block's flag is stored after all its bytes:
 * generation in the lower half; 1 in the upper half when a value did not fit (fixed32) or is NaN or Inf. */
struct hd_pack {
	const float *from;
	void *to; /* aligned to 16 bytes */
	uint64_t values;
	uint64_t *flags; /* one for each block */
	float weight;
	float unit; /* fixed32: 2^-exponent */
	uint32_t generation;
	uint8_t dtype;
};

struct hd_unpack {
	const void *from; /* aligned to 16 bytes */
	float *to;
	uint64_t values;
	float unit; /* fixed32: 2^exponent */
	uint8_t dtype;
};

HD_STAGE uint64_t hd_stage_blocks(uint64_t values) {
	return (values + HD_STAGE_VALUES - 1) / HD_STAGE_VALUES;
}

/* Values of a block. */
HD_STAGE uint32_t hd_stage_count(uint64_t values, uint64_t block) {
	uint64_t left = values - block * HD_STAGE_VALUES;

	return left < HD_STAGE_VALUES ? (uint32_t)left : HD_STAGE_VALUES;
}

/* --- one value ------------------------------------------------------------------------------ */

HD_STAGE uint32_t hd_stage_bits(float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

HD_STAGE float hd_stage_float(uint32_t bits) {
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* a is finite. */
HD_STAGE float hd_stage_mul(float a, float x) {
#ifdef __CUDA_ARCH__
	float y = __fmul_rn(a, x);
	uint32_t bits = hd_stage_bits(x);

	if ((hd_stage_bits(y) & 0x7fffffff) <= UINT32_C(0x7f800000))
		return y;
	return hd_stage_float(
		(bits & 0x7fffffff) > UINT32_C(0x7f800000) ? bits | 0x400000 : UINT32_C(0xffc00000)
	);
#else
	return a * x;
#endif
}

HD_STAGE bool hd_stage_is_finite(float x) {
	return (hd_stage_bits(x) & UINT32_C(0x7f800000)) != UINT32_C(0x7f800000);
}

/* x / 2^shift, to nearest, ties to even. */
HD_STAGE uint32_t hd_stage_shift(uint32_t x, uint32_t shift) {
	uint32_t whole = x >> shift, rest = x & ((1U << shift) - 1), half = 1U << (shift - 1);

	return whole + (rest > half || (rest == half && (whole & 1) != 0));
}

/* On the bits only: no rounding mode or compiler can change it. */
HD_STAGE uint16_t hd_stage_f16(float x) {
	const uint32_t inf = UINT32_C(0x7f800000);
	const uint32_t overflow = UINT32_C(0x47800000); /* 65536: rounds to Inf in any case */
	const uint32_t normal = UINT32_C(0x38800000); /* 2^-14, the least normal number */
	const uint32_t zero
		= UINT32_C(0x33000000); /* 2^-25: half of the least, a tie that goes to 0 */
	uint32_t bits = hd_stage_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > inf)
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= overflow)
		return (uint16_t)(sign | 0x7c00);
	/* The exponent is above the mantissa: a carry is right, up to Inf. */
	if (magnitude >= normal)
		return (uint16_t)(sign | hd_stage_shift(magnitude - (UINT32_C(112) << 23), 13));
	if (magnitude <= zero)
		return (uint16_t)sign;
	/* In units of 2^-24: mantissa 2^(exponent - 150 + 24). */
	return (uint16_t
	)(sign | hd_stage_shift((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23)));
}

HD_STAGE float hd_stage_from_f16(uint16_t x) {
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 0x1f,
		 mantissa = x & 0x3ff;

	if (exponent == 0x1f)
		return hd_stage_float(
			sign | UINT32_C(0x7f800000) | mantissa << 13
			| (mantissa != 0 ? 0x400000U : 0U)
		);
	if (exponent == 0) /* exact */
		return hd_stage_float(sign | hd_stage_bits((float)mantissa * 0x1p-24F));
	return hd_stage_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

HD_STAGE uint16_t hd_stage_bf16(float x) {
	uint32_t bits = hd_stage_bits(x);

	if ((bits & 0x7fffffff) > UINT32_C(0x7f800000))
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

HD_STAGE float hd_stage_from_bf16(uint16_t x) {
	return hd_stage_float((uint32_t)x << 16);
}

HD_STAGE uint16_t hd_stage_half(uint8_t dtype, float x) {
	return dtype == HD_DTYPE_BF16 ? hd_stage_bf16(x) : hd_stage_f16(x);
}

HD_STAGE float hd_stage_from_half(uint8_t dtype, uint16_t x) {
	return dtype == HD_DTYPE_BF16 ? hd_stage_from_bf16(x) : hd_stage_from_f16(x);
}

/* After rounding to the type. */
HD_STAGE bool hd_stage_is_finite_as(uint8_t dtype, float x) {
	uint32_t bits = hd_stage_bits(x) & 0x7fffffff;

	if (dtype == HD_DTYPE_FP16)
		return bits < UINT32_C(0x477ff000); /* 65520: from here on Inf */
	return bits < (dtype == HD_DTYPE_BF16 ? UINT32_C(0x7f7f8000) : UINT32_C(0x7f800000));
}

HD_STAGE uint32_t hd_stage_swap(uint32_t x) {
	return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

/* scaled: after weight and unit. Network order: hosts and devices are little-endian. */
HD_STAGE uint32_t hd_stage_fixed(float scaled, bool *unfit) {
	uint32_t bits = hd_stage_bits(scaled), magnitude = bits & 0x7fffffff;

	if (magnitude > hd_stage_bits(HD_STAGE_FIXED_LIMIT)) {
		*unfit = true;
		scaled = magnitude > UINT32_C(0x7f800000) ? 0.0F :
			bits >> 31                        ? -HD_STAGE_FIXED_LIMIT :
							    HD_STAGE_FIXED_LIMIT;
	}
#ifdef __CUDA_ARCH__
	return hd_stage_swap((uint32_t)__float2int_rn(scaled));
#else
	return hd_stage_swap((uint32_t)(int32_t)__builtin_lrintf(scaled));
#endif
}

HD_STAGE float hd_stage_from_fixed(uint32_t x, float unit) {
	int32_t lane = (int32_t)hd_stage_swap(x);

#ifdef __CUDA_ARCH__
	return __fmul_rn(__int2float_rn(lane), unit);
#else
	return (float)lane * unit;
#endif
}

/* w - rate (g + mu (w - w_t)): FedProx (hd_prox_apply()). */
HD_STAGE float hd_stage_prox(float w, float w_t, float g, float rate, float mu) {
#ifdef __CUDA_ARCH__
	return __fsub_rn(w, __fmul_rn(rate, __fadd_rn(g, __fmul_rn(mu, __fsub_rn(w, w_t)))));
#else
	return w - rate * (g + mu * (w - w_t));
#endif
}

#ifndef __CUDACC__
/* --- on the host: hd_stages.c ---------------------------------------------------------------- */

/* Each processes one block. Pointers need the alignment of their type only. */
void hd_take_block(const struct hd_take *take, uint64_t block);
void hd_pack_block(const struct hd_pack *pack, uint64_t block);
void hd_unpack_block(const struct hd_unpack *unpack, uint64_t block);
#endif

#endif
