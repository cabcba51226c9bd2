/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms: which bucket a value is in, where counting stops, quantiles against sorted samples. */
#include "hd_histogram.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SAMPLES 5000

static const struct hd_scale *const scales[] = {&hd_scale_time, &hd_scale_delay};

/* The bucket that a value alone is counted in. */
static uint8_t bucket_of(const struct hd_scale *scale, uint64_t value) {
	struct hd_histogram histogram = {0};
	uint8_t found = HD_HISTOGRAM_BUCKETS_MAX;

	hd_histogram_add(&histogram, scale, value);
	assert_int_equal(histogram.count, 1);
	assert_int_equal(histogram.sum, value);
	assert_int_equal(histogram.max, value);
	for (uint8_t i = 0; i < HD_HISTOGRAM_BUCKETS_MAX; i++)
		if (histogram.bucket[i])
			found = i;
	return found;
}

static void test_buckets(void **state) {
	(void)state;
	for (size_t s = 0; s < 2; s++) {
		const struct hd_scale *scale = scales[s];

		assert_in_range(scale->count, 2, HD_HISTOGRAM_BUCKETS_MAX - 1);
		assert_int_equal(bucket_of(scale, 0), 0);
		assert_int_equal(bucket_of(scale, UINT64_MAX), scale->count);
		for (uint8_t i = 0; i < scale->count; i++) {
			const uint64_t most = scale->bounds[i].most;

			assert_int_equal(bucket_of(scale, most), i);
			assert_int_equal(bucket_of(scale, most + 1), i + 1);
			assert_true(i == 0 || most > scale->bounds[i - 1].most);
		}
	}
	assert_int_equal(hd_scale_time.bounds[0].most, 10 * HD_US);
	assert_int_equal(hd_scale_time.bounds[hd_scale_time.count - 1].most, 100 * HD_SECOND);
	assert_int_equal(hd_scale_delay.bounds[hd_scale_delay.count - 1].most, 256);
}

/* Metrics print a bound as its value in their unit. */
static void test_texts(void **state) {
	(void)state;
	for (size_t s = 0; s < 2; s++)
		for (uint8_t i = 0; i < scales[s]->count; i++) {
			const struct hd_bound *bound = &scales[s]->bounds[i];
			const double size = (double)bound->most * scales[s]->metric_size;
			char *end;

			assert_true(fabs(strtod(bound->text, &end) - size) <= 1e-12 * size);
			assert_int_equal(*end, '\0');
		}
}

static void test_saturation(void **state) {
	struct hd_histogram histogram = {
		.bucket = {[1] = UINT64_MAX - 1}, .count = UINT64_MAX - 1, .sum = UINT64_MAX - 5};

	(void)state;
	hd_histogram_add(&histogram, &hd_scale_delay, 1);
	assert_int_equal(histogram.bucket[1], UINT64_MAX);
	assert_int_equal(histogram.sum, UINT64_MAX - 4);
	hd_histogram_add(&histogram, &hd_scale_delay, 1);
	assert_int_equal(histogram.bucket[1], UINT64_MAX);
	hd_histogram_add(&histogram, &hd_scale_delay, 300);
	assert_int_equal(histogram.bucket[hd_scale_delay.count], 1);
	assert_int_equal(histogram.sum, UINT64_MAX);
	assert_int_equal(histogram.max, 300);
	assert_int_equal(hd_histogram_count_to(&histogram, 0), 0);
	assert_int_equal(hd_histogram_count_to(&histogram, 1), UINT64_MAX);
	assert_int_equal(histogram.count, UINT64_MAX);
	assert_true(hd_histogram_quantile(&histogram, &hd_scale_delay, 0.99) <= 1);
	assert_true(isfinite(hd_histogram_quantile(&histogram, &hd_scale_delay, 1)));
}

static void test_nothing(void **state) {
	const struct hd_histogram histogram = {0};

	(void)state;
	assert_int_equal(histogram.count, 0);
	assert_true(isnan(hd_histogram_mean(&histogram)));
	assert_true(isnan(hd_histogram_quantile(&histogram, &hd_scale_time, 0.5)));
}

static bool is_about(double value, double wanted) {
	return fabs(value - wanted) < 1e-9;
}

/* Of buckets that can hold one value only nothing is guessed; of others it is spread evenly, up to the greatest. */
static void test_known(void **state) {
	static const uint64_t values[] = {0, 0, 1, 2, 2, 3, 4, 4, 9, 11};
	const struct hd_scale *scale = &hd_scale_delay;
	struct hd_histogram histogram = {0};

	(void)state;
	for (size_t i = 0; i < 10; i++)
		hd_histogram_add(&histogram, scale, values[i]);
	assert_int_equal(hd_histogram_count_to(&histogram, 3), 8);
	assert_int_equal(histogram.count, 10);
	assert_true(is_about(hd_histogram_mean(&histogram), 3.6));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0), 0));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.2), 0));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.3), 1));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.5), 2));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.65), 3.5));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.8), 4));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 0.9), 10));
	assert_true(is_about(hd_histogram_quantile(&histogram, scale, 1), 11));
}

static int compare(const void *a, const void *b) {
	const uint64_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

/* Every quantile lies in the bucket of the sample that it stands for, and none is above the greatest. */
static void check_quantiles(const struct hd_scale *scale, uint64_t samples[SAMPLES], size_t count) {
	struct hd_histogram histogram = {0};
	double sum = 0, last = 0;

	for (size_t i = 0; i < count; i++) {
		hd_histogram_add(&histogram, scale, samples[i]);
		sum += (double)samples[i];
	}
	qsort(samples, count, sizeof samples[0], compare);
	assert_int_equal(histogram.count, count);
	assert_int_equal(histogram.max, samples[count - 1]);
	assert_true(fabs(hd_histogram_mean(&histogram) * (double)count - sum) <= 1e-9 * sum);
	for (unsigned percent = 1; percent <= 100; percent++) {
		const double found = hd_histogram_quantile(&histogram, scale, percent / 100.0);
		const double rank = ceil(percent / 100.0 * (double)count);
		const uint8_t bucket = bucket_of(scale, samples[(size_t)rank - 1]);

		assert_true(found >= last && found <= (double)histogram.max);
		assert_true(bucket == scale->count || found <= (double)scale->bounds[bucket].most);
		assert_true(bucket == 0 || found > (double)scale->bounds[bucket - 1].most);
		last = found;
	}
}

static void test_quantiles(void **state) {
	static const size_t counts[] = {1, 2, 3, 100, SAMPLES};
	static uint64_t samples[SAMPLES];
	struct hd_random random;

	(void)state;
	hd_random_init(&random, 11);
	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		/* Waits of every order of magnitude, beyond both ends; then delays. */
		for (size_t i = 0; i < counts[c]; i++)
			samples[i] = hd_random_below(&random, 1000 * HD_SECOND)
				>> hd_random_below(&random, 40);
		check_quantiles(&hd_scale_time, samples, counts[c]);
		for (size_t i = 0; i < counts[c]; i++)
			samples[i] = hd_random_below(&random, 400) >> hd_random_below(&random, 9);
		check_quantiles(&hd_scale_delay, samples, counts[c]);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_saturation),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
