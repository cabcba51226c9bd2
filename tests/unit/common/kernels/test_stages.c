/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a device, on the host: bit for bit what the kernels of the host give, of every type, at every
 * alignment, around the sizes at which a block or a lane ends. */
#include "hd_kernels.h"
#include "hd_random.h"
#include "hd_stages.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROOM ((size_t)3 * HD_STAGE_VALUES)
#define SHIFTS ((size_t)4) /* values off an aligned address */
#define GENERATION 77
#define VALUE_BYTES_MAX 4

static const uint64_t sizes[]
	= {1,
	   3,
	   4,
	   5,
	   31,
	   4095,
	   4097,
	   HD_STAGE_VALUES - 1,
	   HD_STAGE_VALUES,
	   HD_STAGE_VALUES + 1,
	   (uint64_t)2 * HD_STAGE_VALUES,
	   2 * HD_STAGE_VALUES + 4099};
#define SIZES (sizeof sizes / sizeof *sizes)
static const uint8_t dtypes[] = {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32};
static const float weights[] = {1.0F, 0.37F, 0.0F, 3.5F};

static float *values, *kept;
static uint8_t *ours, *theirs;
static uint64_t flags[4];
static struct hd_stage_sums sums[4];

static int setup(void **state) {
	struct hd_random random;

	values = malloc((ROOM + SHIFTS) * sizeof *values);
	kept = malloc((ROOM + SHIFTS) * sizeof *kept);
	ours = calloc(ROOM, VALUE_BYTES_MAX);
	theirs = calloc(ROOM, VALUE_BYTES_MAX);
	hd_random_init(&random, 5);
	/* Any bits at all, NaN and Inf among them, and then what gradients are like. */
	for (size_t i = 0; i < ROOM + SHIFTS; i++) {
		uint64_t bits = hd_random_u64(&random);

		values[i] = i % 3 == 0 ? hd_stage_float((uint32_t)bits) :
					 (float)(hd_random_unit(&random) - 0.5);
	}
	return 0;
}

static int teardown(void **state) {
	free(values);
	free(kept);
	free(ours);
	free(theirs);
	return 0;
}

static void pack(const struct hd_pack *job) {
	memset(flags, 0, sizeof flags);
	for (uint64_t b = 0; b < hd_stage_blocks(job->values); b++) {
		hd_pack_block(job, b);
		assert_int_equal((uint32_t)flags[b], GENERATION);
	}
}

/* True when some value did not fit. */
static bool by_kernels(const struct hd_pack *job, void *to, int exponent) {
	if (job->dtype == HD_DTYPE_FIXED32)
		return hd_fixed_from_f32(to, job->from, job->values, job->weight, exponent);
	if (hd_dtype_is_half(job->dtype)) {
		hd_half_from_f32(job->dtype, to, job->from, job->values, job->weight);
		return hd_find_not_finite_half(job->dtype, to, job->values) < job->values;
	}
	if (job->weight == 1.0F)
		memcpy(to, job->from, job->values * sizeof(float));
	else
		hd_scale_f32(to, job->from, job->values, job->weight);
	return hd_find_not_finite_f32(to, job->values) < job->values;
}

static void test_pack_has_the_kernels_bits(void **state) {
	const int exponent = -20;

	for (size_t i = 0; i < SIZES * 4 * 4 * SHIFTS; i++) {
		struct hd_pack job = {
			.from = values + i % SHIFTS,
			.to = ours,
			.values = sizes[i / (16 * SHIFTS)],
			.flags = flags,
			.weight = weights[i / SHIFTS % 4],
			.unit = ldexpf(1, -exponent),
			.generation = GENERATION,
			.dtype = dtypes[i / (4 * SHIFTS) % 4],
		};
		uint64_t unfit = 0;

		memset(theirs, 0xa5, ROOM * sizeof(float));
		memset(ours, 0xa5, ROOM * sizeof(float));
		pack(&job);
		for (size_t b = 0; b < hd_stage_blocks(job.values); b++)
			unfit |= flags[b] >> 32;
		assert_int_equal(unfit, by_kernels(&job, theirs, exponent));
		assert_memory_equal(ours, theirs, ROOM * sizeof(float));
	}
}

/* A block's flag says of that block alone whether a value did not fit. */
static void test_a_flag_speaks_of_its_block(void **state) {
	struct hd_pack job
		= {.from = kept,
		   .to = ours,
		   .values = ROOM,
		   .flags = flags,
		   .weight = 2.0F,
		   .generation = GENERATION,
		   .dtype = HD_DTYPE_FP16};

	for (size_t i = 0; i < ROOM; i++)
		kept[i] = 1.0F;
	kept[2 * HD_STAGE_VALUES - 1] = 32760.0F; /* twice that rounds to Inf */
	pack(&job);
	assert_int_equal(flags[0] >> 32, 0);
	assert_int_equal(flags[1] >> 32, 1);
	assert_int_equal(flags[2] >> 32, 0);
	kept[2 * HD_STAGE_VALUES - 1] = 32759.0F; /* and of this to 65504 */
	pack(&job);
	assert_int_equal(flags[1] >> 32, 0);
}

static void test_unpack_has_the_kernels_bits(void **state) {
	const int exponent = -20;

	for (size_t i = 0; i < SIZES * 4 * SHIFTS; i++) {
		struct hd_unpack job = {
			.from = values,
			.to = kept + i % SHIFTS,
			.values = sizes[i / (4 * SHIFTS)],
			.unit = ldexpf(1, exponent),
			.dtype = dtypes[i / SHIFTS % 4],
		};

		for (uint64_t b = 0; b < hd_stage_blocks(job.values); b++)
			hd_unpack_block(&job, b);
		if (job.dtype == HD_DTYPE_FP32)
			memcpy(theirs, values, job.values * sizeof(float));
		else if (job.dtype == HD_DTYPE_FIXED32)
			hd_fixed_to_f32(
				(float *)(void *)theirs,
				(const uint32_t *)(const void *)values,
				job.values,
				exponent
			);
		else
			hd_half_to_f32(
				job.dtype,
				(float *)(void *)theirs,
				(const uint16_t *)(const void *)values,
				job.values
			);
		assert_memory_equal(job.to, theirs, job.values * sizeof(float));
	}
}

static void check_sums(const struct hd_take *job, const float *scaled) {
	double norm2 = 0, other = hd_norm2_f32(scaled, job->values);
	uint64_t first = job->values;
	uint32_t peak = 0;

	for (uint64_t b = 0; b < hd_stage_blocks(job->values); b++) {
		norm2 += sums[b].norm2;
		peak = sums[b].peak > peak ? sums[b].peak : peak;
		if (first == job->values && sums[b].not_finite != HD_STAGE_FINITE)
			first = b * HD_STAGE_VALUES + sums[b].not_finite;
	}
	assert_int_equal(first, hd_find_not_finite_as(job->dtype, scaled, job->values));
	assert_int_equal(peak, hd_stage_bits(hd_peak_f32(scaled, job->values)));
	if (isfinite(other))
		assert_true(fabs(norm2 - other) <= 1e-12 * other);
	else
		assert_false(isfinite(norm2));
}

static void test_take_sees_what_the_kernels_see(void **state) {
	float *scaled = malloc(ROOM * sizeof *scaled);

	for (size_t i = 0; i < SIZES * 4 * 4 * SHIFTS; i++) {
		bool wild = i / SHIFTS % 2 == 0;
		struct hd_take job = {
			.from = (wild ? values : kept) + i % SHIFTS,
			.copy = i % 2 == 0 ? (float *)(void *)ours : NULL,
			.values = sizes[i / (16 * SHIFTS)],
			.sums = sums,
			.scale = i / SHIFTS % 4 < 2 ? 1.0F : 0.3F,
			.dtype = dtypes[i / (4 * SHIFTS) % 4],
		};

		for (size_t k = 0; k < ROOM + SHIFTS; k++)
			kept[k] = (float)((int)(k * 7919 % 2003) - 1001) * 0x1p-9F;
		if (job.scale == 1.0F)
			memcpy(scaled, job.from, job.values * sizeof *scaled);
		else
			hd_scale_f32(scaled, job.from, job.values, job.scale);
		for (uint64_t b = 0; b < hd_stage_blocks(job.values); b++)
			hd_take_block(&job, b);
		check_sums(&job, scaled);
		if (job.copy)
			assert_memory_equal(ours, scaled, job.values * sizeof *scaled);
	}
	free(scaled);
}

/* Each of the 2^16 floats around where rounding to 16 bits leads to Inf. */
static void test_finite_as_is_what_rounding_gives(void **state) {
	static const uint32_t around[] = {0x477ff000, 0x7f7f8000, 0x7f800000};

	for (size_t k = 0; k < 2; k++) {
		const uint8_t dtype = k == 0 ? HD_DTYPE_FP16 : HD_DTYPE_BF16;

		for (uint32_t i = 0; i < 3 * 65536; i++) {
			float x = hd_stage_float(around[i / 65536] - 32768 + i % 65536);
			uint16_t half = hd_stage_half(dtype, x);

			assert_int_equal(
				hd_stage_is_finite_as(dtype, x),
				hd_find_not_finite_half(dtype, &half, 1) == 1
			);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pack_has_the_kernels_bits),
		cmocka_unit_test(test_a_flag_speaks_of_its_block),
		cmocka_unit_test(test_unpack_has_the_kernels_bits),
		cmocka_unit_test(test_take_sees_what_the_kernels_see),
		cmocka_unit_test(test_finite_as_is_what_rounding_gives),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
