/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of all-reduces: every type, operation and SIMD version, at lengths around the vectors' and at any address,
 * beside a model that computes with integers: on the bits, or modulo 2^64. */
#include "hd_kernels_impl.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 2100 /* more than a block of converted halves */
#define GUARD 64
#define BYTES_MAX (VALUES * sizeof(uint64_t))

static const uint8_t dtypes[]
	= {HD_DTYPE_FP32,
	   HD_DTYPE_FP64,
	   HD_DTYPE_INT8,
	   HD_DTYPE_UINT8,
	   HD_DTYPE_INT32,
	   HD_DTYPE_INT64,
	   HD_DTYPE_FP16,
	   HD_DTYPE_BF16};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])
static const uint8_t ops[] = {
	HD_REDUCE_OP_SUM,
	HD_REDUCE_OP_MIN,
	HD_REDUCE_OP_MAX,
	HD_REDUCE_OP_PRODUCT,
};
static const size_t sizes[]
	= {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 352, 704, 1023, 2048, VALUES};
#define SIZES (sizeof sizes / sizeof sizes[0])

struct scene {
	struct hd_random random;
	uint8_t x[BYTES_MAX + 8], sum[BYTES_MAX + GUARD], want[BYTES_MAX + GUARD];
	uint8_t got[BYTES_MAX + GUARD];
};

static bool is_float(uint8_t dtype) {
	return dtype == HD_DTYPE_FP32 || dtype == HD_DTYPE_FP64 || hd_dtype_is_half(dtype);
}

/* Bytes of a value of the sum. */
static size_t wide(uint8_t dtype) {
	return hd_dtype_is_half(dtype) ? sizeof(float) : hd_dtype_bytes(dtype);
}

/* --- the model ----------------------------------------------------------------------------------- */

static uint64_t get(const uint8_t *from, size_t bytes) {
	uint64_t x = 0;

	memcpy(&x, from, bytes); /* little-endian */
	return x;
}

static int64_t extended(uint8_t dtype, uint64_t x) {
	switch (dtype) {
	case HD_DTYPE_INT8:
		return (int8_t)x;
	case HD_DTYPE_UINT8:
		return (uint8_t)x;
	case HD_DTYPE_INT32:
		return (int32_t)x;
	default:
		return (int64_t)x;
	}
}

static uint64_t of_integers(uint8_t dtype, uint8_t op, uint64_t a, uint64_t b) {
	switch (op) {
	case HD_REDUCE_OP_MIN:
		return extended(dtype, a) <= extended(dtype, b) ? a : b;
	case HD_REDUCE_OP_MAX:
		return extended(dtype, a) >= extended(dtype, b) ? a : b;
	case HD_REDUCE_OP_PRODUCT:
		return a * b;
	default:
		return a + b;
	}
}

static double number(size_t bytes, uint64_t x) {
	double y;
	float z;

	if (bytes == sizeof y) {
		memcpy(&y, &x, sizeof y);
		return y;
	}
	memcpy(&z, &x, sizeof z);
	return (double)z;
}

static uint64_t bits_of(size_t bytes, double y) {
	float z = (float)y;
	uint64_t x = 0;

	memcpy(&x, bytes == sizeof y ? (const void *)&y : (const void *)&z, bytes);
	return x;
}

/* Orders the bits of a float as its value, with -0 below 0. */
static int64_t key(size_t bytes, uint64_t x) {
	const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);

	return (x & sign) != 0 ? -(int64_t)(x & (sign - 1)) - 1 : (int64_t)x;
}

/* An fp32 operation in fp64, rounded once more, has the same bits. */
static uint64_t of_floats(size_t bytes, uint8_t op, uint64_t a, uint64_t b) {
	const double x = number(bytes, a), y = number(bytes, b);

	if (op == HD_REDUCE_OP_SUM)
		return bits_of(bytes, x + y);
	if (op == HD_REDUCE_OP_PRODUCT)
		return bits_of(bytes, x * y);
	if (isnan(x) || isnan(y))
		return bits_of(bytes, (double)NAN);
	return (key(bytes, a) < key(bytes, b)) == (op == HD_REDUCE_OP_MIN) ? a : b;
}

static uint64_t member(uint8_t dtype, const uint8_t *x) {
	float y;
	uint16_t half;

	if (!hd_dtype_is_half(dtype))
		return get(x, hd_dtype_bytes(dtype));
	memcpy(&half, x, sizeof half);
	y = hd_stage_from_half(dtype, half);
	return bits_of(sizeof y, (double)y);
}

static void model(uint8_t dtype, uint8_t op, uint8_t *sum, const uint8_t *x, size_t count) {
	const size_t bytes = wide(dtype);

	for (size_t i = 0; i < count; i++) {
		uint64_t a = get(sum + i * bytes, bytes);
		uint64_t b = member(dtype, x + i * hd_dtype_bytes(dtype));

		a = is_float(dtype) ? of_floats(bytes, op, a, b) : of_integers(dtype, op, a, b);
		memcpy(sum + i * bytes, &a, bytes);
	}
}

/* --- the kernels --------------------------------------------------------------------------------- */

/* Random bits, with values that meet: equal ones, zeros of both signs, Inf, NaN. */
static void draw(struct hd_random *random, uint8_t *to, size_t bytes, size_t size) {
	static const double odd[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-1074, 1e38};

	for (size_t i = 0; i + size <= bytes; i += size) {
		uint64_t x = hd_random_u64(random);

		if (x >> 60 < 8 && size >= sizeof(float))
			x = bits_of(size, odd[x % (sizeof odd / sizeof odd[0])]);
		else if (x >> 60 < 12)
			x = x % 3 - 1;
		memcpy(to + i, &x, size);
	}
}

/* Which bits a NaN has is open; everything else is not. */
static void check(uint8_t dtype, const uint8_t *got, const uint8_t *want, size_t count) {
	const size_t bytes = wide(dtype);

	for (size_t i = 0; i < count && is_float(dtype); i++) {
		uint64_t a = get(got + i * bytes, bytes), b = get(want + i * bytes, bytes);

		if (!isnan(number(bytes, a)) || !isnan(number(bytes, b)))
			assert_true(a == b);
	}
	if (!is_float(dtype))
		assert_memory_equal(got, want, count * bytes);
	assert_memory_equal(got + count * bytes, want + count * bytes, GUARD);
}

/* The kernel of this version; 16-bit floats have those of their conversion, and of fp32. */
static void combine(const struct hd_kernels *table, uint8_t dtype, uint8_t op, struct scene *s) {
	static const uint8_t rows[HD_DTYPE_COUNT] = {
		[HD_DTYPE_FP32] = HD_COMBINE_F32,
		[HD_DTYPE_FP64] = HD_COMBINE_F64,
		[HD_DTYPE_INT8] = HD_COMBINE_I8,
		[HD_DTYPE_UINT8] = HD_COMBINE_U8,
		[HD_DTYPE_INT32] = HD_COMBINE_I32,
		[HD_DTYPE_INT64] = HD_COMBINE_I64,
	};
	static const uint8_t columns[HD_REDUCE_OP_COUNT] = {
		[HD_REDUCE_OP_SUM] = HD_COMBINE_ADD,
		[HD_REDUCE_OP_MIN] = HD_COMBINE_LEAST,
		[HD_REDUCE_OP_MAX] = HD_COMBINE_MOST,
		[HD_REDUCE_OP_PRODUCT] = HD_COMBINE_MULTIPLY,
	};

	for (size_t k = 0; k < SIZES; k++) {
		const uint8_t *x = s->x + hd_random_below(&s->random, 8);
		const size_t count = sizes[k];

		memcpy(s->want, s->sum, sizeof s->sum);
		memcpy(s->got, s->sum, sizeof s->sum);
		model(dtype, op, s->want, x, count);
		if (table)
			(*table->combine)[rows[dtype]][columns[op]](s->got, x, count);
		else
			hd_combine(dtype, op, s->got, x, count);
		check(dtype, s->got, s->want, count);
	}
}

static void test_all(void **state) {
	struct scene *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
	const struct hd_kernels *table;

	hd_random_init(&s->random, 51);
	for (size_t d = 0; d < DTYPES; d++)
		for (size_t o = 0; o < sizeof ops; o++)
			for (size_t round = 0; round < 4; round++) {
				const uint8_t dtype = dtypes[d];

				draw(&s->random, s->x, sizeof s->x, hd_dtype_bytes(dtype));
				draw(&s->random, s->sum, sizeof s->sum, wide(dtype));
				combine(NULL, dtype, ops[o], s);
				for (size_t t = 0; (table = hd_kernels_supported(t)); t++)
					if (!hd_dtype_is_half(dtype))
						combine(table, dtype, ops[o], s);
			}
	free(s);
}

static void test_integers_wrap(void **state) {
	int8_t small = 100, more = 100;
	int64_t most = INT64_MAX, one = 1;

	hd_combine(HD_DTYPE_INT8, HD_REDUCE_OP_SUM, &small, &more, 1);
	assert_int_equal(small, -56);
	hd_combine(HD_DTYPE_INT64, HD_REDUCE_OP_SUM, &most, &one, 1);
	assert_true(most == INT64_MIN);
	hd_combine(HD_DTYPE_INT64, HD_REDUCE_OP_PRODUCT, &most, &most, 1);
	assert_true(most == 0);
}

static void test_averages(void **state) {
	int8_t small[] = {-7, 7, 127, -128};
	uint8_t bytes[] = {7, 255};
	int32_t ints[] = {-7, INT32_MIN, INT32_MAX};
	int64_t longs[] = {-7, INT64_MIN, INT64_MAX};
	double doubles[] = {49, -1, (double)INFINITY};
	float floats[] = {3, 10};

	hd_average(HD_DTYPE_INT8, small, 4, 2);
	assert_true(small[0] == -3 && small[1] == 3 && small[2] == 63 && small[3] == -64);
	hd_average(HD_DTYPE_UINT8, bytes, 2, 4096);
	assert_true(bytes[0] == 0 && bytes[1] == 0);
	hd_average(HD_DTYPE_INT32, ints, 3, 3);
	assert_true(ints[0] == -2 && ints[1] == INT32_MIN / 3 && ints[2] == INT32_MAX / 3);
	hd_average(HD_DTYPE_INT64, longs, 3, 2);
	assert_true(longs[0] == -3 && longs[1] == INT64_MIN / 2 && longs[2] == INT64_MAX / 2);
	hd_average(HD_DTYPE_FP64, doubles, 3, 49);
	assert_true(doubles[0] == 1 && doubles[1] == -1.0 / 49 && isinf(doubles[2]));
	hd_average(HD_DTYPE_BF16, floats, 2, 3); /* sums of halves are fp32 */
	assert_true(floats[0] == 3 * (1.0F / 3) && floats[1] == 10 * (1.0F / 3));
}

/* Beside the processor's division: around multiples, and at the ends of the range. */
static void test_quotients(void **state) {
	struct hd_random random;

	hd_random_init(&random, 52);
	for (uint32_t members = 1; members <= 4096; members++)
		for (int k = 0; k < 40; k++) {
			const int64_t near = (int64_t)hd_random_u64(&random) / members * members;
			const int64_t whole[] = {
				(int64_t)((uint64_t)near + hd_random_below(&random, 3) - 1),
				(int64_t)(hd_random_u64(&random) >> hd_random_below(&random, 64)),
				k % 2 ? INT64_MIN : INT64_MAX,
				k - 20,
			};
			int64_t x[4];
			int32_t y[4];
			int8_t z[4];
			uint8_t u[4];

			for (int i = 0; i < 4; i++) {
				x[i] = whole[i];
				y[i] = (int32_t)whole[i];
				z[i] = (int8_t)whole[i];
				u[i] = (uint8_t)whole[i];
			}
			hd_average(HD_DTYPE_INT64, x, 4, members);
			hd_average(HD_DTYPE_INT32, y, 4, members);
			hd_average(HD_DTYPE_INT8, z, 4, members);
			hd_average(HD_DTYPE_UINT8, u, 4, members);
			for (int i = 0; i < 4; i++) {
				assert_true(x[i] == whole[i] / (int64_t)members);
				assert_true(y[i] == (int32_t)whole[i] / (int64_t)members);
				assert_true(z[i] == (int8_t)whole[i] / (int64_t)members);
				assert_true(u[i] == (uint8_t)whole[i] / members);
			}
		}
}

static void test_not_finite(void **state) {
	double x[9] = {0};
	uint16_t half[] = {0, 0x7c00};
	int64_t integer = -1;

	assert_false(hd_any_not_finite(HD_DTYPE_FP64, x, 9));
	x[8] = (double)NAN;
	assert_true(hd_any_not_finite(HD_DTYPE_FP64, x, 9));
	assert_false(hd_any_not_finite(HD_DTYPE_FP64, x, 8));
	assert_true(hd_any_not_finite(HD_DTYPE_FP16, half, 2));
	assert_false(hd_any_not_finite(HD_DTYPE_BF16, half, 2));
	assert_false(hd_any_not_finite(HD_DTYPE_INT64, &integer, 1));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_integers_wrap),
		cmocka_unit_test(test_averages),
		cmocka_unit_test(test_quotients),
		cmocka_unit_test(test_not_finite),
	};

	return cmocka_run_group_tests_name("combine", tests, NULL, NULL);
}
