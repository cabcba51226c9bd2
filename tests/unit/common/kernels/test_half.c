/* SPDX-License-Identifier: BSD-3-Clause */
/* 16-bit floats: every one of the 65,536 values, and what lies between two of them, in every version. */
#include "hd_kernels_impl.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ALL 65536
#define BLOCK 4099 /* values of the random comparisons: two of the kernel's blocks and a rest */

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

struct type {
	uint8_t dtype;
	int fraction_bits, bias;
	uint32_t infinity;
};
static const struct type types[]
	= {{HD_DTYPE_FP16, 10, 15, 0x7c00}, {HD_DTYPE_BF16, 7, 127, 0x7f80}};

/* The value of a finite magnitude by IEEE 754, by arithmetic, without the kernels' bit tricks. */
static double value_of(const struct type *type, uint32_t magnitude) {
	int exponent = (int)(magnitude >> type->fraction_bits);
	uint32_t fraction = magnitude & ((1U << type->fraction_bits) - 1);

	if (exponent > 0)
		fraction |= 1U << type->fraction_bits;
	return ldexp(
		(double)fraction, (exponent > 0 ? exponent : 1) - type->bias - type->fraction_bits
	);
}

static void
from(const struct hd_kernels *table, uint8_t dtype, uint16_t *y, const float *x, size_t n, float a
) {
	(dtype == HD_DTYPE_BF16 ? table->bf16_from_f32 : table->f16_from_f32)(y, x, n, a);
}

static void
to(const struct hd_kernels *table, uint8_t dtype, float *y, const uint16_t *x, size_t n) {
	(dtype == HD_DTYPE_BF16 ? table->f32_from_bf16 : table->f32_from_f16)(y, x, n);
}

static void test_every_value_there_and_back(void **state) {
	uint16_t *all = malloc(ALL * sizeof *all), *back = malloc(ALL * sizeof *back);
	float *wide = malloc(ALL * sizeof *wide);
	const struct hd_kernels *table;

	for (size_t i = 0; i < ALL; i++)
		all[i] = (uint16_t)i;
	for (size_t t = 0; t < 6; t++) {
		const struct type *type = &types[t % 2];

		table = hd_kernels_supported(t / 2);
		if (!table)
			continue;
		to(table, type->dtype, wide, all, ALL);
		from(table, type->dtype, back, wide, ALL, 1);
		for (uint32_t i = 0; i < ALL; i++) {
			uint32_t magnitude = i & 0x7fff;
			double sign = i >> 15 ? -1 : 1;

			if (magnitude < type->infinity) {
				assert_true((double)wide[i] == sign * value_of(type, magnitude));
				assert_int_equal(signbit(wide[i]) != 0, i >> 15);
				assert_int_equal(back[i], i);
			} else if (magnitude == type->infinity) {
				assert_true((double)wide[i] == sign * (double)INFINITY);
				assert_int_equal(back[i], i);
			} else {
				assert_true(isnan(wide[i]));
				/* Quiet, sign and payload kept. */
				assert_int_equal(back[i], i | 1U << (type->fraction_bits - 1));
			}
		}
	}
	free(all);
	free(back);
	free(wide);
}

static void expect(const struct hd_kernels *table, uint8_t dtype, float x, uint32_t magnitude) {
	float in[17];
	uint16_t out[17];

	for (size_t i = 0; i < 17; i++)
		in[i] = i % 2 == 0 ? x : -x;
	from(table, dtype, out, in, 17, 1);
	for (size_t i = 0; i < 17; i++)
		assert_int_equal(out[i], magnitude | (i % 2 == 0 ? 0 : 0x8000));
}

/* Between each value and the next above it: just below the middle, the middle (a tie goes to the even one),
 * just above. Beyond the greatest one the next would be 2^(bias + 1): from its middle on it is Inf. */
static void check_rounding(const struct hd_kernels *table, const struct type *type) {
	for (uint32_t i = 0; i < type->infinity; i++) {
		double a = value_of(type, i);
		double b
			= i + 1 < type->infinity ? value_of(type, i + 1) : ldexp(1, type->bias + 1);
		float middle = (float)((a + b) / 2);

		assert_true((double)middle == (a + b) / 2); /* fp32 has it exactly */
		expect(table, type->dtype, middle, i % 2 == 0 ? i : i + 1);
		expect(table, type->dtype, nextafterf(middle, 0), i);
		expect(table, type->dtype, nextafterf(middle, INFINITY), i + 1);
	}
	expect(table, type->dtype, float_of(0x7f7fffff), type->infinity);
	expect(table, type->dtype, INFINITY, type->infinity);
	expect(table, type->dtype, float_of(1), 0);
}

static void test_rounds_to_nearest_even(void **state) {
	const struct hd_kernels *table;

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++)
		for (size_t k = 0; k < 2; k++)
			check_rounding(table, &types[k]);
}

static void test_any_bits_alike(void **state) {
	float *x = malloc(BLOCK * sizeof *x);
	uint16_t *one = malloc(BLOCK * sizeof *one), *two = malloc(BLOCK * sizeof *two);
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 21);
	for (size_t round = 0; round < 64; round++) {
		float a = round % 4 == 0 ? 1 : (float)(2 * hd_random_unit(&random));
		size_t count = BLOCK - round % 33;

		for (size_t i = 0; i < BLOCK; i++)
			x[i] = float_of((uint32_t)hd_random_u64(&random));
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			for (size_t k = 0; k < 2; k++) {
				memset(one, 0xaa, BLOCK * sizeof *one);
				memset(two, 0xaa, BLOCK * sizeof *two);
				from(&hd_kernels_scalar, types[k].dtype, one, x, count, a);
				from(table, types[k].dtype, two, x, count, a);
				assert_memory_equal(one, two, BLOCK * sizeof *one);
			}
		}
	}
	free(x);
	free(one);
	free(two);
}

static void test_weight_comes_first(void **state) {
	/* 1 + 2^-11 is a tie that goes to 1 in fp16; 3 times it in fp32 is 3 + 3 x 2^-11, which rounds up to
	 * 3 + 2^-9. Rounding before the weight would give 3. */
	float x = 1 + 0x1p-11F;
	uint16_t y;

	hd_half_from_f32(HD_DTYPE_FP16, &y, &x, 1, 3);
	assert_int_equal(y, 0x4201);
}

static void test_finds_not_finite(void **state) {
	const struct hd_kernels *table;
	uint16_t x[71] = {0};

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t k = 0; k < 2; k++) {
			uint16_t mask = (uint16_t)types[k].infinity;

			for (size_t at = 0; at < 70; at++) {
				memset(x, 0, sizeof x);
				x[0] = (uint16_t)(mask - 1) | 0x8000; /* the greatest finite one */
				assert_int_equal(table->find_mask_16(x, 71, mask), 71);
				x[at] = at % 2 == 0 ? mask : (uint16_t)(0x8001 | mask);
				x[70] = mask;
				for (size_t count = 0; count <= 70; count++)
					assert_int_equal(
						table->find_mask_16(x, count, mask),
						count > at ? at : count
					);
			}
		}
	}
}

static void test_finds_beyond_the_type(void **state) {
	float *x = calloc(BLOCK, sizeof *x);

	for (size_t i = 0; i < BLOCK; i++)
		x[i] = 65504;
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP16, x, BLOCK), BLOCK);
	x[4097] = -65520; /* the tie that leads to Inf */
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP16, x, BLOCK), 4097);
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP16, x, 4097), 4097);
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_BF16, x, BLOCK), BLOCK);
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP32, x, BLOCK), BLOCK);
	x[2048] = float_of(0x7f7f8000);
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_BF16, x, BLOCK), 2048);
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP32, x, BLOCK), BLOCK);
	x[2048] = NAN;
	assert_int_equal(hd_find_not_finite_as(HD_DTYPE_FP32, x, BLOCK), 2048);
	free(x);
}

/* A step from 16 bits is the step from the same values in fp32, bit for bit. */
static void test_applies_in_fp32(void **state) {
	float *w[2], *h[2], *g = malloc(BLOCK * sizeof *g);
	uint16_t *half = malloc(BLOCK * sizeof *half);
	const struct hd_sgd sgd = {0.1F, 0.9F, 1e-4F};
	struct hd_random random;

	hd_random_init(&random, 22);
	for (size_t k = 0; k < 2; k++) {
		w[k] = malloc(BLOCK * sizeof(float));
		h[k] = malloc(BLOCK * sizeof(float));
	}
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < BLOCK; i++) {
			w[0][i] = w[1][i] = (float)hd_random_unit(&random);
			h[0][i] = h[1][i] = (float)hd_random_unit(&random);
			g[i] = (float)(hd_random_unit(&random) - 0.5);
		}
		hd_half_from_f32(types[k].dtype, half, g, BLOCK, 0.7F);
		hd_half_to_f32(types[k].dtype, g, half, BLOCK);
		hd_sgd_apply(w[0], h[0], g, BLOCK, &sgd);
		hd_sgd_apply_half(types[k].dtype, w[1], h[1], half, BLOCK, &sgd);
		assert_memory_equal(w[0], w[1], BLOCK * sizeof(float));
		assert_memory_equal(h[0], h[1], BLOCK * sizeof(float));
		assert_true(bits_of(w[0][1]) != 0);
	}
	for (size_t k = 0; k < 2; k++) {
		free(w[k]);
		free(h[k]);
	}
	free(g);
	free(half);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_value_there_and_back),
		cmocka_unit_test(test_rounds_to_nearest_even),
		cmocka_unit_test(test_any_bits_alike),
		cmocka_unit_test(test_weight_comes_first),
		cmocka_unit_test(test_finds_not_finite),
		cmocka_unit_test(test_finds_beyond_the_type),
		cmocka_unit_test(test_applies_in_fp32),
	};

	return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
