/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of what packets carry: every SIMD version against the reference bit for bit, and the reference against
 * arithmetic that is not its own. */
#include "hd_bytes.h"
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

static const size_t sizes[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 352, 704, 1023, 1024};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static float float_of(uint32_t bits) {
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static uint32_t bits_of(float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Which of two NaN a sum keeps is open; everything else is not. */
static void assert_same(const float *a, const float *b, size_t count) {
	for (size_t i = 0; i < count; i++)
		if (!isnan(a[i]) || !isnan(b[i]))
			assert_int_equal(bits_of(a[i]), bits_of(b[i]));
}

static void random_bytes(struct hd_random *random, void *to, size_t bytes) {
	uint8_t *data = to;

	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)hd_random_u64(random);
}

/* --- 16-bit floats ------------------------------------------------------------------------------ */

static void test_halves_alike(void **state) {
	uint8_t *packet = malloc(VALUES * sizeof(uint16_t) + 8);
	float *one = malloc(VALUES * sizeof(float)), *two = malloc(VALUES * sizeof(float)), wide;
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 31);
	for (size_t round = 0; round < SIZES * 8; round++) {
		size_t count = sizes[round % SIZES];
		/* a payload behind an Ethernet header is aligned to 2 only */
		const uint16_t *x = (const void *)(packet + (size_t)2 * (round % 4));

		random_bytes(&random, packet, VALUES * sizeof(uint16_t) + 8);
		for (size_t k = 0; k < 2; k++) {
			uint8_t dtype = k ? HD_DTYPE_BF16 : HD_DTYPE_FP16;
			float *sum = malloc(VALUES * sizeof(float));

			random_bytes(&random, sum, VALUES * sizeof(float));
			memcpy(one, sum, VALUES * sizeof(float));
			for (size_t i = 0; i < count; i++) {
				hd_half_to_f32(dtype, &wide, x + i, 1);
				one[i] = sum[i] + wide;
			}
			for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
				memcpy(two, sum, VALUES * sizeof(float));
				(k ? table->add_bf16 : table->add_f16)(two, x, count);
				assert_same(one, two, VALUES);
			}
			free(sum);
		}
	}
	free(packet);
	free(one);
	free(two);
}

static void test_small_members_count(void **state) {
	/* 1 + 1000 x 2^-12 is lost in bf16 member by member; in fp32 it is there when the sum is rounded. */
	uint16_t one, small, out;
	float x = 1, sum = 0;

	hd_half_from_f32(HD_DTYPE_BF16, &one, &x, 1, 1);
	x = 0x1p-12F;
	hd_half_from_f32(HD_DTYPE_BF16, &small, &x, 1, 1);
	hd_add_half(HD_DTYPE_BF16, &sum, &one, 1);
	for (int i = 0; i < 1024; i++)
		hd_add_half(HD_DTYPE_BF16, &sum, &small, 1);
	hd_half_from_f32(HD_DTYPE_BF16, &out, &sum, 1, 1);
	hd_half_to_f32(HD_DTYPE_BF16, &x, &out, 1);
	assert_true(x == 1.25F);
}

static void test_unaligned_payload(void **state) {
	uint8_t packet[17 * 4 + 2];
	const struct hd_kernels *table;

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		float sum[17];

		for (uint32_t i = 0; i < 17; i++) {
			float x = (float)i;

			sum[i] = 1;
			memcpy(packet + 2 + 4 * (size_t)i, &x, sizeof x);
		}
		table->add_f32(sum, (const float *)(const void *)(packet + 2), 17);
		for (uint32_t i = 0; i < 17; i++)
			assert_true(sum[i] == (float)(i + 1));
	}
}

/* --- fixed point -------------------------------------------------------------------------------- */

static void test_fixed_sums(void **state) {
	uint32_t x[VALUES], one[VALUES], two[VALUES];
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 32);
	for (size_t round = 0; round < SIZES * 8; round++) {
		size_t count = sizes[round % SIZES];
		bool overflow = false;

		random_bytes(&random, x, sizeof x);
		random_bytes(&random, one, sizeof one);
		for (size_t i = 0; round % 3 != 0 && i < VALUES; i++) {
			/* small enough that few sums overflow: none, or one, in a call */
			x[i] = htobe32((uint32_t)((int32_t)be32toh(x[i]) / (round % 3 == 1 ? 2 : 1))
			);
			one[i] = htobe32((uint32_t)((int32_t)be32toh(one[i]) / 3));
		}
		memcpy(two, one, sizeof two);
		for (size_t i = 0; i < count; i++) {
			int64_t sum = (int64_t)(int32_t)be32toh(one[i]) + (int32_t)be32toh(x[i]);

			overflow |= sum > INT32_MAX || sum < INT32_MIN;
			one[i] = htobe32((uint32_t)(uint64_t)sum);
		}
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			uint32_t sum[VALUES];
			uint8_t packet[sizeof x + 2];
			void *at = packet + 2;

			memcpy(sum, two, sizeof sum);
			assert_int_equal(table->add_fixed(sum, x, count), overflow);
			assert_memory_equal(sum, one, sizeof sum);
			memcpy(sum, two, sizeof sum);
			memcpy(at, x, sizeof x);
			assert_int_equal(table->add_fixed_both(sum, at, count), overflow);
			assert_memory_equal(sum, one, sizeof sum);
			assert_memory_equal(at, one, count * 4);
			assert_memory_equal(
				packet + 2 + count * 4, x + count, sizeof x - count * 4
			);
		}
	}
}

static void test_fp32_sums_that_go_on(void **state) {
	static const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38F};
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 35);
	for (size_t round = 0; round < SIZES * 8; round++) {
		float x[VALUES], one[VALUES], expected[VALUES];
		size_t count = sizes[round % SIZES];
		bool odd = round % 3 == 0 && count > 0;

		for (size_t i = 0; i < VALUES; i++) {
			x[i] = (float)hd_random_unit(&random) - 0.5F;
			one[i] = (float)hd_random_unit(&random) * 10;
		}
		if (odd) {
			size_t at = hd_random_below(&random, count);

			x[at] = wrong[round / 3 % 4];
			one[at] = fabsf(x[at]) > 2e38F && !isinf(x[at]) ? x[at] : one[at];
		}
		memcpy(expected, one, sizeof one);
		for (size_t i = 0; i < count; i++)
			expected[i] += x[i];
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			float sum[VALUES];
			uint8_t packet[sizeof x + 2];
			void *at = packet + 2;

			memcpy(sum, one, sizeof sum);
			memcpy(at, x, sizeof x);
			assert_int_equal(table->add_f32_both(sum, at, count), odd);
			assert_memory_equal(sum, expected, sizeof sum);
			assert_memory_equal(at, expected, count * 4);
			assert_memory_equal(
				packet + 2 + count * 4, x + count, sizeof x - count * 4
			);
		}
	}
}

static void test_one_overflow_is_seen(void **state) {
	const struct hd_kernels *table;

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t at = 0; at < 35; at++) {
			uint32_t sum[35] = {0}, x[35] = {0};

			sum[at] = htobe32(INT32_MAX);
			x[at] = htobe32(1);
			assert_true(table->add_fixed(sum, x, 35));
			sum[at] = htobe32((uint32_t)INT32_MIN);
			x[at] = htobe32((uint32_t)-1);
			assert_true(table->add_fixed(sum, x, 35));
			sum[at] = htobe32((uint32_t)INT32_MIN);
			x[at] = htobe32(INT32_MAX);
			assert_false(table->add_fixed(sum, x, 35));
			assert_false(table->add_fixed_both(sum, x, 35));
			sum[at] = x[at] = htobe32(1 << 30);
			assert_true(table->add_fixed_both(sum, x, 35));
		}
	}
}

/* One value, in double: only the two roundings that are promised. */
static int32_t lane_of(float x, float a, int exponent, bool *unfit) {
	float scaled = (float)ldexp((double)(a * x), -exponent);

	if (isnan(scaled) || fabs((double)scaled) > 2147483520.0) {
		*unfit = true;
		return isnan(scaled) ? 0 : scaled > 0 ? 2147483520 : -2147483520;
	}
	return (int32_t)nearbyint((double)scaled);
}

static void test_conversions(void **state) {
	static const int exponents[] = {-126, -60, -24, -1, 0, 1, 30, 100, 126};
	uint32_t expected[VALUES], y[VALUES];
	float x[VALUES], one[VALUES], back[VALUES];
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 33);
	for (size_t round = 0; round < SIZES * 9; round++) {
		size_t count = sizes[round % SIZES];
		int exponent = exponents[round / SIZES];
		float a = round % 2 ? 1 : 0.7F;
		bool unfit = false;

		for (size_t i = 0; i < VALUES; i++)
			x[i] = i % 3 == 0 ?
				float_of((uint32_t)hd_random_u64(&random)) :
				(float)ldexp(hd_random_unit(&random) - 0.5, exponent + 31);
		memset(expected, GUARD, sizeof expected);
		memset(one, GUARD, sizeof one);
		for (size_t i = 0; i < count; i++) {
			int32_t lane = lane_of(x[i], a, exponent, &unfit);

			expected[i] = htobe32((uint32_t)lane);
			one[i] = (float)ldexp((double)(float)lane, exponent);
		}
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			memset(y, GUARD, sizeof y);
			memset(back, GUARD, sizeof back);
			assert_int_equal(
				table->fixed_from_f32(y, x, count, a, ldexpf(1, -exponent)), unfit
			);
			assert_memory_equal(y, expected, sizeof y);
			table->f32_from_fixed(back, y, count, ldexpf(1, exponent));
			assert_memory_equal(back, one, sizeof back);
		}
		memset(y, GUARD, sizeof y);
		assert_int_equal(hd_fixed_from_f32(y, x, count, a, exponent), unfit);
		assert_memory_equal(y, expected, sizeof y);
	}
}

/* With the exponent for the members' peaks no sum overflows, and one less would not do. */
static void test_exponent_of_a_sum(void **state) {
	struct hd_random random;

	hd_random_init(&random, 34);
	for (size_t round = 0; round < 2000; round++) {
		uint32_t members = 1 + (uint32_t)hd_random_below(&random, 64);
		float peak[64];
		double peaks = 0;
		uint32_t sum = 0, x;
		int exponent;

		for (uint32_t i = 0; i < members; i++) {
			peak[i] = (float
			)ldexp(1 - hd_random_unit(&random) / 2,
			       (int)hd_random_below(&random, 20) - 10);
			peaks += (double)peak[i];
		}
		exponent = hd_fixed_exponent(peaks, members);
		for (uint32_t i = 0; i < members; i++) {
			assert_false(hd_fixed_from_f32(&x, &peak[i], 1, 1, exponent));
			assert_false(hd_add_fixed(&sum, &x, 1));
		}
		assert_true(ldexp((double)(int32_t)be32toh(sum), exponent) <= peaks * 1.0001);
		assert_true((int32_t)be32toh(sum) > INT32_MAX / 2 - 200); /* no bit is wasted */
	}
	assert_int_equal(hd_fixed_exponent(0, 8), HD_FIXED_EXPONENT_MIN);
	assert_true(hd_fixed_exponent((double)INFINITY, 1) > HD_FIXED_EXPONENT_MAX);
	assert_true(hd_fixed_exponent((double)NAN, 1) > HD_FIXED_EXPONENT_MAX);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_halves_alike),
		cmocka_unit_test(test_small_members_count),
		cmocka_unit_test(test_unaligned_payload),
		cmocka_unit_test(test_fixed_sums),
		cmocka_unit_test(test_fp32_sums_that_go_on),
		cmocka_unit_test(test_one_overflow_is_seen),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_exponent_of_a_sum),
	};

	return cmocka_run_group_tests_name("sums", tests, NULL, NULL);
}
