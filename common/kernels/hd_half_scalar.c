/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for 16-bit floats, on the bits alone: no rounding mode and no compiler can change it. */
#include "hd_kernels_impl.h"

#include <string.h>

#define F32_INF UINT32_C(0x7f800000)
#define F16_OVERFLOW UINT32_C(0x47800000) /* 65536: from here on no rounding leads back */
#define F16_NORMAL UINT32_C(0x38800000) /* 2^-14, the least normal number */
#define F16_ZERO UINT32_C(0x33000000) /* 2^-25: half of the least number, a tie that goes to 0 */

static uint32_t bits_of(float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static float float_of(uint32_t bits) {
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* x / 2^shift, to nearest, ties to even. */
static uint32_t shift_round(uint32_t x, uint32_t shift) {
	uint32_t whole = x >> shift, rest = x & ((1U << shift) - 1), half = 1U << (shift - 1);

	return whole + (rest > half || (rest == half && (whole & 1) != 0));
}

static uint16_t f16_of(float x) {
	uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > F32_INF)
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= F16_OVERFLOW)
		return (uint16_t)(sign | 0x7c00);
	if (magnitude >= F16_NORMAL) {
		/* The exponent lies above the mantissa: a carry does what it should, up to Inf. */
		return (uint16_t)(sign | shift_round(magnitude - (UINT32_C(112) << 23), 13));
	}
	if (magnitude <= F16_ZERO)
		return (uint16_t)sign;
	/* In units of 2^-24: mantissa 2^(exponent - 150 + 24). */
	return (uint16_t
	)(sign | shift_round((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23)));
}

static float f32_of_f16(uint16_t x) {
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 0x1f,
		 mantissa = x & 0x3ff;

	if (exponent == 0x1f)
		return float_of(sign | F32_INF | mantissa << 13 | (mantissa != 0 ? 0x400000U : 0U));
	if (exponent == 0)
		return float_of(sign | bits_of((float)mantissa * 0x1p-24F));
	return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t bf16_of(float x) {
	uint32_t bits = bits_of(x);

	if ((bits & 0x7fffffff) > F32_INF)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void hd_f16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a) {
	for (size_t i = 0; i < count; i++)
		y[i] = f16_of(a * x[i]);
}

void hd_f32_from_f16_scalar(float *y, const uint16_t *x, size_t count) {
	uint16_t half;

	for (size_t i = 0; i < count; i++) {
		memcpy(&half, &x[i], sizeof half); /* a payload is not aligned */
		y[i] = f32_of_f16(half);
	}
}

void hd_bf16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a) {
	for (size_t i = 0; i < count; i++)
		y[i] = bf16_of(a * x[i]);
}

void hd_f32_from_bf16_scalar(float *y, const uint16_t *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		uint32_t bits;

		memcpy(&half, &x[i], sizeof half);
		bits = (uint32_t)half << 16;
		memcpy(&y[i], &bits, sizeof bits);
	}
}

size_t hd_find_mask_16_scalar(const uint16_t *x, size_t count, uint16_t mask) {
	for (size_t i = 0; i < count; i++)
		if ((x[i] & mask) == mask)
			return i;
	return count;
}
