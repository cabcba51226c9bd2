/* SPDX-License-Identifier: BSD-3-Clause */
/* Every SIMD version against the scalar reference, on odd sizes, odd addresses and odd values. */
#include "hd_kernels_impl.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 1100
#define GUARD 0x5a

struct arrays {
	float w[VALUES], h[VALUES], g[VALUES];
};

static float value(struct hd_random *random) {
	uint64_t pick = hd_random_below(random, 64);
	float sign = hd_random_chance(random, 0.5) ? 1.0F : -1.0F;

	if (pick == 0)
		return sign * 0.0F;
	if (pick == 1)
		return sign * 1e-41F; /* subnormal */
	if (pick == 2)
		return sign * 3e38F; /* overflows in a sum */
	return sign * (float)exp(20 * (hd_random_unit(random) - 0.5));
}

static void fill(struct hd_random *random, struct arrays *arrays) {
	for (size_t i = 0; i < VALUES; i++) {
		arrays->w[i] = value(random);
		arrays->h[i] = value(random);
		arrays->g[i] = value(random);
	}
}

/* Bit for bit; a NaN's payload and sign are the one thing IEEE leaves open. */
static void assert_same(const float *a, const float *b, size_t count) {
	for (size_t i = 0; i < count; i++) {
		if (isnan(a[i]) && isnan(b[i]))
			continue;
		assert_memory_equal(&a[i], &b[i], sizeof(float));
	}
}

static void assert_near(double a, double b) {
	if (!isfinite(a) || !isfinite(b)) {
		assert_int_equal(isfinite(a), isfinite(b));
		return;
	}
	assert_true(fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)));
}

static const size_t sizes[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 352, 1023, 1024};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void test_apply_is_bit_identical(void **state) {
	static const struct hd_sgd settings[]
		= {{0.05F, 0.9F, 1e-4F},
		   {1, 0, 0},
		   {0, 0.9F, 0.1F},
		   {-0.3F, 1, 3},
		   {1e30F, 1e30F, 1e30F}};
	const struct hd_kernels *table;
	struct hd_random random;
	struct arrays one, two;

	hd_random_init(&random, 11);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t i = 0; i < SIZES * 5 * 4; i++) {
			size_t count = sizes[i % SIZES], offset = i / SIZES % 4;
			const struct hd_sgd *s = &settings[i / SIZES / 4];
			double norm_one, norm_two;

			fill(&random, &one);
			two = one;
			norm_one = hd_sgd_apply_scalar(
				one.w + offset, one.h + offset, one.g + 3 * offset, count, s
			);
			norm_two = table->sgd_apply(
				two.w + offset, two.h + offset, two.g + 3 * offset, count, s
			);
			/* The whole arrays: what lies beyond `count` stays as it was. */
			assert_same(one.w, two.w, VALUES);
			assert_same(one.h, two.h, VALUES);
			assert_near(norm_one, norm_two);
		}
	}
}

/* The scalar reference itself, by hand: a contracted multiply-add would differ in the last bit. */
static void test_apply_rounds_each_operation(void **state) {
	const float eps = 0x1p-12F;
	const struct hd_kernels *table;

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		float w[17], h[17], g[17];

		for (size_t i = 0; i < 17; i++) {
			w[i] = 0;
			h[i] = 1 + eps;
			g[i] = 1 + 0x1p-11F;
		}
		/* (1+e)(1+e) = 1 + 2e + e^2 rounds to 1 + 2e; minus g = 1 + 2e is 0, not e^2. */
		table->sgd_apply(w, h, g, 17, &(struct hd_sgd){1, 1 + eps, 0});
		for (size_t i = 0; i < 17; i++)
			assert_true(h[i] == 0);
	}
}

static void test_apply_known_values(void **state) {
	float w[2] = {1, -2}, h[2] = {0.5F, 0}, g[2] = {2, 4};
	double norm2 = hd_sgd_apply(w, h, g, 2, &(struct hd_sgd){0.5F, 0.5F, 0.5F});

	/* u = -0.5 (g + 0.5 w) = -1.25, -1.5;  h = 0.25 - 1.25 = -1, -1.5;  w = 0, -3.5 */
	assert_true(h[0] == -1.0F && h[1] == -1.5F);
	assert_true(w[0] == 0.0F && w[1] == -3.5F);
	assert_true(norm2 == 1.0 + 2.25);
}

#define SUM_VALUES 5003 /* some blocks, and a rest */

/* A sum in blocks is what its mean, step after step, makes of whole arrays. */
static void test_sum_is_steps_of_its_mean(void **state) {
	static const struct hd_sgd settings[]
		= {{0.05F, 0.9F, 1e-4F}, {0.1F, 0, 0.01F}, {0.1F, 0.5F, 0}};
	static const uint8_t types[] = {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16};
	static float w[2][SUM_VALUES], h[2][SUM_VALUES], g[SUM_VALUES], mean[SUM_VALUES];
	static uint16_t half[SUM_VALUES];
	struct hd_random random;

	hd_random_init(&random, 15);
	for (uint32_t i = 0; i < 3 * 3 * 8; i++) {
		struct hd_sgd_sum how = {settings[i % 3], 1 + i / 9, types[i / 3 % 3]};
		bool is_half = how.dtype != HD_DTYPE_FP32;
		double norm2 = 0, reference = 0;

		for (size_t k = 0; k < SUM_VALUES; k++) {
			w[0][k] = w[1][k] = (float)(hd_random_unit(&random) - 0.5);
			h[0][k] = h[1][k] = (float)(hd_random_unit(&random) - 0.5);
			mean[k] = g[k] = (float)(hd_random_unit(&random) - 0.5);
		}
		if (is_half) {
			hd_half_from_f32(how.dtype, half, g, SUM_VALUES, 1);
			hd_half_to_f32(how.dtype, mean, half, SUM_VALUES);
		}
		hd_scale_f32_scalar(mean, mean, SUM_VALUES, 1.0F / (float)how.steps);
		for (uint32_t k = 0; k < how.steps; k++)
			reference = hd_sgd_apply_scalar(w[0], h[0], mean, SUM_VALUES, &how.sgd);
		norm2 = hd_sgd_apply_sum(
			w[1], h[1], is_half ? (const void *)half : g, SUM_VALUES, &how
		);
		assert_same(w[0], w[1], SUM_VALUES);
		assert_same(h[0], h[1], SUM_VALUES);
		assert_near(reference, norm2);
	}
}

/* h' = gamma^k h - lr mean (1 - gamma^k) / (1 - gamma); without momentum and decay it is one step of the
 * sum: 10 / 3 would be rounded. */
static void test_sum_known_values(void **state) {
	struct hd_sgd_sum how = {{0.5F, 0.5F, 0}, 3, HD_DTYPE_FP32};
	float w = 1, h = 4, sum = 6;

	hd_sgd_apply_sum(&w, &h, &sum, 1, &how);
	/* mean 2: h = 2 - 1 = 1, 0.5 - 1 = -0.5, -0.25 - 1 = -1.25;  w = 1 + 1 - 0.5 - 1.25 */
	assert_true(h == -1.25F && w == 0.25F);
	how.sgd.momentum = 0;
	w = 0;
	sum = 10;
	hd_sgd_apply_sum(&w, &h, &sum, 1, &how);
	assert_true(h == -5 && w == -5);
}

static void test_prox_is_bit_identical(void **state) {
	static const float rates[] = {0.01F, 1, -0.5F, 1e30F}, pulls[] = {0, 1, 0.001F, 1e30F};
	const struct hd_kernels *table;
	struct hd_random random;
	struct arrays one, two;

	hd_random_init(&random, 16);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t i = 0; i < SIZES * 4 * 4; i++) {
			size_t count = sizes[i % SIZES], offset = i / SIZES % 4;
			float rate = rates[i / SIZES % 4], mu = pulls[i / SIZES / 4];

			fill(&random, &one);
			two = one;
			hd_prox_apply_scalar(
				one.w + offset, one.h + 2 * offset, one.g, count, rate, mu
			);
			table->prox_apply(
				two.w + offset, two.h + 2 * offset, two.g, count, rate, mu
			);
			assert_same(one.w, two.w, VALUES);
		}
	}
}

/* F(w) = (w - 3)^2, rate 0.1, 5 steps from `begin`: what is left of the slope of F + mu/2 (w - w_t)^2. */
static float prox_walk(float begin, float mu) {
	float w = begin, w_t = begin, g;

	for (int i = 0; i < 5; i++) {
		g = 2 * (w - 3);
		hd_prox_apply(&w, &w_t, &g, 1, 0.1F, mu);
	}
	return w;
}

static void test_prox_known_values(void **state) {
	float w = prox_walk(0, 0);

	assert_float_equal(w, 2.01696, 1e-6);
	assert_float_equal(fabsf(2 * (w - 3)) / 6, 0.32768, 1e-6);
	w = prox_walk(0, 1);
	assert_float_equal(w, 1.66386, 1e-6);
	assert_float_equal(fabsf(2 * (w - 3) + w) / 6, 0.16807, 1e-6);
	assert_float_equal(prox_walk(1, 1), 2.10924, 1e-6);
}

static void test_add_and_scale(void **state) {
	const struct hd_kernels *table;
	struct hd_random random;
	struct arrays one, two;

	hd_random_init(&random, 12);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t i = 0; i < SIZES * 4; i++) {
			size_t count = sizes[i % SIZES], offset = i / SIZES;

			fill(&random, &one);
			two = one;
			hd_add_f32_scalar(one.w + offset, one.g, count);
			table->add_f32(two.w + offset, two.g, count);
			hd_scale_f32_scalar(one.h + offset, one.h + offset, count, 0.3F);
			table->scale_f32(two.h + offset, two.h + offset, count, 0.3F);
			assert_same(one.w, two.w, VALUES);
			assert_same(one.h, two.h, VALUES);
		}
	}
}

static void test_norm(void **state) {
	const struct hd_kernels *table;
	struct hd_random random;
	struct arrays arrays;
	float three_four[2] = {3, -4};

	hd_random_init(&random, 13);
	assert_true(hd_norm2_f32(three_four, 2) == 25.0);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t i = 0; i < SIZES * 4; i++) {
			const float *x = arrays.g + i / SIZES;
			size_t count = sizes[i % SIZES];

			fill(&random, &arrays);
			assert_near(hd_norm2_f32_scalar(x, count), table->norm2_f32(x, count));
			if (count == 0)
				continue;
			arrays.g[i / SIZES + hd_random_below(&random, count)]
				= i % 2 == 0 ? NAN : INFINITY;
			assert_false(isfinite(table->norm2_f32(x, count)));
		}
	}
}

static void test_find_not_finite(void **state) {
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001};
	const struct hd_kernels *table;
	struct hd_random random;
	struct arrays arrays;

	hd_random_init(&random, 14);
	fill(&random, &arrays);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t i = 0; i < SIZES; i++) {
			assert_int_equal(
				table->find_not_finite_f32(arrays.g + 1, sizes[i]), sizes[i]
			);
		}
		for (size_t at = 0; at < 70; at++) {
			float x[71] = {0};

			memcpy(&x[at], &bad[at % 5], sizeof(float));
			x[70] = NAN;
			for (size_t count = 0; count <= 70; count++) {
				assert_int_equal(
					table->find_not_finite_f32(x, count),
					count > at ? at : count
				);
			}
		}
	}
}

static void test_peak(void **state) {
	float x[70];

	assert_float_equal(hd_peak_f32(x, 0), 0, 0);
	for (size_t at = 0; at < 70; at++) {
		for (size_t i = 0; i < 70; i++)
			x[i] = (i % 2 ? -1e-3F : 1e-3F) * (float)i;
		x[at] = at % 2 ? -7.5F : 7.5F;
		for (size_t count = 1; count <= 70; count++)
			assert_float_equal(
				hd_peak_f32(x, count),
				count > at ? 7.5F : 1e-3F * (float)(count - 1),
				0
			);
		assert_float_equal(hd_peak_finite_f32(x, 70), 7.5F, 0);
		x[(at + 2) % 70] = -INFINITY;
		assert_true(isinf(hd_peak_f32(x, 70)));
		x[(at + 1) % 70] = NAN;
		assert_true(isnan(hd_peak_f32(x, 70)));
		for (size_t count = 0; count <= 70; count++) {
			float most = 0;

			for (size_t i = 0; i < count; i++)
				most = isfinite(x[i]) ? fmaxf(most, fabsf(x[i])) : most;
			assert_float_equal(hd_peak_finite_f32(x, count), most, 0);
		}
	}
}

static void test_dispatch(void **state) {
	size_t count = 0;

	while (hd_kernels_supported(count))
		count++;
	assert_in_range(count, 1, 3);
	assert_string_equal(hd_kernels_supported(count - 1)->name, "scalar");
	assert_string_equal(hd_kernels_name(), "scalar"); /* lowered by main() */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apply_is_bit_identical),
		cmocka_unit_test(test_apply_rounds_each_operation),
		cmocka_unit_test(test_apply_known_values),
		cmocka_unit_test(test_sum_is_steps_of_its_mean),
		cmocka_unit_test(test_sum_known_values),
		cmocka_unit_test(test_prox_is_bit_identical),
		cmocka_unit_test(test_prox_known_values),
		cmocka_unit_test(test_add_and_scale),
		cmocka_unit_test(test_norm),
		cmocka_unit_test(test_find_not_finite),
		cmocka_unit_test(test_peak),
		cmocka_unit_test(test_dispatch),
	};

	setenv("HEDDLE_SIMD", "scalar", 1);
	return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
