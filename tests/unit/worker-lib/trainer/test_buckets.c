/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets of a gradient: they cover it once, from its end on; the mean is that of the rows of all that took part; and
 * the values that backward calls final are final, so that a bucket may leave while the rest is computed.
 */
#include "hd_buckets.h"
#include "hd_trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 1003
#define ROWS 7
#define FEATURES 5
#define CLASSES 3

static void check_cover(uint64_t values, uint64_t bytes) {
	struct hd_buckets buckets;
	uint64_t end = values;

	hd_buckets_init(&buckets, values, bytes);
	assert_in_range(buckets.count, 1, HD_BUCKETS_MAX);
	if (bytes >= sizeof(float) && values <= bytes / sizeof(float) * HD_BUCKETS_MAX)
		assert_true(buckets.each * sizeof(float) <= bytes);
	for (uint32_t i = 0; i < buckets.count; i++) {
		const uint64_t first = hd_bucket_first(&buckets, i);

		assert_in_range(hd_bucket_values(&buckets, i), 1, buckets.each);
		assert_int_equal(first + hd_bucket_values(&buckets, i), end);
		/* It is complete with its first value, and not before. */
		assert_int_equal(hd_buckets_ready(&buckets, first), i + 1);
		if (first + 1 < values)
			assert_int_equal(hd_buckets_ready(&buckets, first + 1), i);
		end = first;
	}
	assert_int_equal(end, 0);
	assert_int_equal(hd_buckets_ready(&buckets, values), 0);
}

static void test_cover(void **state) {
	const uint64_t values[] = {1, 2, 63, 64, 65, VALUES, 65536, 1000003};
	const uint64_t bytes[] = {1, 4, 8, 1024, 4012, 8192, 26214400};

	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		for (size_t k = 0; k < sizeof bytes / sizeof bytes[0]; k++)
			check_cover(values[i], bytes[k]);
}

static void test_default_is_one_for_small_models(void **state) {
	struct hd_buckets buckets;

	(void)state;
	hd_buckets_init(&buckets, VALUES, UINT64_C(25) << 20);
	assert_int_equal(buckets.count, 1);
	assert_int_equal(buckets.each, VALUES);
}

static void add(float *sum, const float *give, uint64_t count) {
	for (uint64_t i = 0; i < count; i++)
		sum[i] += give[i];
}

/* Three workers with batches of different sizes, and one that has no model yet. */
static void test_mean_of_samples(void **state) {
	const uint32_t samples[] = {32, 8, 24};
	float gradient[3][VALUES], give[VALUES + HD_BUCKET_HEAD], sum[VALUES + HD_BUCKET_HEAD];
	struct hd_buckets buckets;

	(void)state;
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < VALUES; i++)
			gradient[k][i] = (float)(k + 1) * 0.25f + (float)i;
	hd_buckets_init(&buckets, VALUES, 1024);
	for (uint32_t b = 0; b < buckets.count; b++) {
		const uint64_t first = hd_bucket_first(&buckets, b);
		struct hd_total total;

		hd_bucket_pack_joining(&buckets, sum);
		for (int k = 0; k < 3; k++) {
			const struct hd_share share = {samples[k], k + 1, k == 1 && b == 0};

			hd_bucket_pack(&buckets, b, gradient[k], &share, give);
			add(sum, give, hd_bucket_buffer(&buckets));
		}
		total = hd_bucket_total(&buckets, sum);
		assert_int_equal(total.members, 3);
		assert_true(hd_total_has_mean(&total));
		assert_true(total.joining);
		assert_int_equal(total.ends, b == 0);
		assert_int_equal(total.left, buckets.count - 1 - b);
		assert_true(fabs(total.samples - 64) < 1e-9);
		assert_true(fabs(total.loss - (32 * 1 + 8 * 2 + 24 * 3) / 64.0) < 1e-6);
		hd_bucket_mean(&buckets, b, &total, 2, sum);
		for (uint64_t i = 0; i < hd_bucket_values(&buckets, b); i++) {
			const double mean
				= (32 * 0.25 + 8 * 0.5 + 24 * 0.75) / 64 + (double)(first + i);

			assert_true(fabs((double)sum[i] - 2 * mean) <= 1e-6 * 2 * mean);
		}
	}
}

/* All are joining: there is no model, and nothing is divided by 0. */
static void test_none_has_a_model(void **state) {
	float sum[VALUES + HD_BUCKET_HEAD], give[VALUES + HD_BUCKET_HEAD];
	struct hd_buckets buckets;
	struct hd_total total;

	(void)state;
	hd_buckets_init(&buckets, VALUES, 1 << 20);
	hd_bucket_pack_joining(&buckets, sum);
	hd_bucket_pack_joining(&buckets, give);
	add(sum, give, hd_bucket_buffer(&buckets));
	total = hd_bucket_total(&buckets, sum);
	assert_int_equal(total.members, 0);
	assert_int_equal(total.left, 0);
	assert_true(total.joining && !total.ends);
	assert_false(isnan(total.loss));
	assert_false(hd_total_has_mean(&total));
}

static void test_has_mean(void **state) {
	const struct hd_total good = {.samples = 0.99, .loss = 2, .members = 1};
	struct hd_total bad[] = {good, good, good, good, good};

	(void)state;
	assert_true(hd_total_has_mean(&good));
	bad[0].members = 0;
	bad[1].samples = 0.4;
	bad[2].samples = INFINITY;
	bad[3].loss = NAN;
	bad[4].loss = -INFINITY;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(hd_total_has_mean(&bad[i]));
}

/* Fixed point moves each value of the head by a little. */
static void test_head_is_rounded(void **state) {
	float sum[VALUES + HD_BUCKET_HEAD];
	struct hd_buckets buckets;
	struct hd_total total;

	(void)state;
	hd_buckets_init(&buckets, VALUES, 1024);
	memset(sum, 0, sizeof sum);
	sum[buckets.each + 2] = 4.01f; /* members */
	sum[buckets.each + 5] = 7.97f; /* 2 left at each */
	sum[buckets.each] = 128;
	total = hd_bucket_total(&buckets, sum);
	assert_int_equal(total.members, 4);
	assert_int_equal(total.left, 2);
	assert_false(total.joining);
	assert_false(total.ends);
}

/* --- what backward calls final --------------------------------------------------------------- */

struct watched {
	const float *grad;
	float *seen; /* as it was when it was called final */
	uint64_t values, from;
	double loss;
	int calls;
};

static void on_ready(void *arg, uint64_t first, double loss) {
	struct watched *watched = arg;

	assert_true(first < watched->from);
	memcpy(watched->seen + first, watched->grad + first, (watched->from - first) * sizeof(float)
	);
	watched->from = first;
	watched->loss = loss;
	watched->calls++;
}

static void test_final_layers(void **state) {
	float x[ROWS * FEATURES];
	uint8_t y[ROWS];
	struct hd_dataset like = {.features = FEATURES, .classes = CLASSES, .x = x, .y = y};
	struct watched watched = {0};
	const struct hd_model_watch watch = {on_ready, &watched};
	struct hd_model *model;
	char error[256];
	float *params, *grad;
	double loss;

	(void)state;
	for (int i = 0; i < ROWS * FEATURES; i++)
		x[i] = (float)(i % 11) / 11;
	for (int i = 0; i < ROWS; i++)
		y[i] = (uint8_t)(i % CLASSES);
	assert_int_equal(hd_model_create("mlp:9,4", &like, ROWS, &model, error, sizeof error), 0);
	watched.values = watched.from = hd_model_values(model);
	params = malloc(watched.values * sizeof *params);
	grad = malloc(watched.values * sizeof *grad);
	watched.seen = calloc(watched.values, sizeof *grad);
	assert_true(params && grad && watched.seen);
	for (uint64_t i = 0; i < watched.values; i++)
		params[i] = (float)((i * 7) % 13) / 13 - 0.4f;
	watched.grad = grad;
	hd_model_watch(model, &watch);
	loss = hd_model_gradient(model, params, x, y, ROWS, grad);
	assert_int_equal(watched.calls, 3);
	assert_int_equal(watched.from, 0);
	assert_memory_equal(watched.seen, grad, watched.values * sizeof *grad);
	assert_memory_equal(&watched.loss, &loss, sizeof loss);
	/* Without a watch again, the same gradient and no call. */
	hd_model_watch(model, &(struct hd_model_watch){0});
	(void)hd_model_gradient(model, params, x, y, ROWS, grad);
	assert_int_equal(watched.calls, 3);
	assert_memory_equal(watched.seen, grad, watched.values * sizeof *grad);
	free(watched.seen);
	free(grad);
	free(params);
	hd_model_destroy(model);
}

/* Parts of a padded step: the time within it counts as padding, once. */
static void test_hold(void **state) {
	struct hd_compute compute;
	char error[256];
	hd_ns begun, half, end;

	(void)state;
	assert_int_equal(hd_compute_init(&compute, 40, NULL, error, sizeof error), 0);
	begun = hd_compute_now();
	hd_compute_hold(&compute, begun, 0.5);
	half = hd_compute_now();
	assert_int_equal(hd_compute_pad(&compute, begun, error, sizeof error), 0);
	end = hd_compute_now();
	assert_true(half - begun >= 20 * HD_MS && end - begun >= 40 * HD_MS);
	assert_true(compute.padded_ns + compute.compute_ns <= end - begun);
	assert_true(compute.padded_ns >= 35 * HD_MS);
	assert_int_equal(compute.overruns, 0);
	hd_compute_fini(&compute);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cover),
		cmocka_unit_test(test_default_is_one_for_small_models),
		cmocka_unit_test(test_mean_of_samples),
		cmocka_unit_test(test_none_has_a_model),
		cmocka_unit_test(test_has_mean),
		cmocka_unit_test(test_head_is_rounded),
		cmocka_unit_test(test_final_layers),
		cmocka_unit_test(test_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
