/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_histogram.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct hd_bound times[] = {
	{10 * HD_US, "1e-05"},      {20 * HD_US, "2e-05"},    {50 * HD_US, "5e-05"},
	{100 * HD_US, "0.0001"},    {200 * HD_US, "0.0002"},  {500 * HD_US, "0.0005"},
	{HD_MS, "0.001"},           {2 * HD_MS, "0.002"},     {5 * HD_MS, "0.005"},
	{10 * HD_MS, "0.01"},       {20 * HD_MS, "0.02"},     {50 * HD_MS, "0.05"},
	{100 * HD_MS, "0.1"},       {200 * HD_MS, "0.2"},     {500 * HD_MS, "0.5"},
	{HD_SECOND, "1.0"},         {2 * HD_SECOND, "2.0"},   {5 * HD_SECOND, "5.0"},
	{10 * HD_SECOND, "10.0"},   {20 * HD_SECOND, "20.0"}, {50 * HD_SECOND, "50.0"},
	{100 * HD_SECOND, "100.0"},
};

static const struct hd_bound delays[] = {
	{0, "0.0"},
	{1, "1.0"},
	{2, "2.0"},
	{4, "4.0"},
	{8, "8.0"},
	{16, "16.0"},
	{32, "32.0"},
	{64, "64.0"},
	{128, "128.0"},
	{256, "256.0"},
};

static_assert(COUNT(times) < HD_HISTOGRAM_BUCKETS_MAX, "times");
static_assert(COUNT(delays) < HD_HISTOGRAM_BUCKETS_MAX, "delays");

const struct hd_scale hd_scale_time = {
	.bounds = times,
	.count = COUNT(times),
	.metric_unit = "seconds",
	.shell_unit = "ms",
	.metric_size = 1e-9,
	.shell_size = 1e-6,
};

const struct hd_scale hd_scale_delay = {
	.bounds = delays,
	.count = COUNT(delays),
	.metric_unit = "updates",
	.shell_unit = "updates",
	.metric_size = 1,
	.shell_size = 1,
};

static uint64_t sum_of(uint64_t a, uint64_t b) {
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void hd_histogram_add(
	struct hd_histogram *histogram,
	const struct hd_scale *scale,
	uint64_t value
) {
	uint8_t i = 0;

	while (i < scale->count && value > scale->bounds[i].most)
		i++;
	histogram->bucket[i] = sum_of(histogram->bucket[i], 1);
	histogram->count = sum_of(histogram->count, 1);
	histogram->sum = sum_of(histogram->sum, value);
	histogram->max = value > histogram->max ? value : histogram->max;
}

uint64_t hd_histogram_count_to(const struct hd_histogram *histogram, uint8_t bucket) {
	uint64_t count = 0;

	hd_assert(bucket < HD_HISTOGRAM_BUCKETS_MAX);
	for (uint8_t i = 0; i <= bucket; i++)
		count = sum_of(count, histogram->bucket[i]);
	return count;
}

double hd_histogram_mean(const struct hd_histogram *histogram) {
	if (histogram->count == 0)
		return (double)NAN;
	return (double)histogram->sum / (double)histogram->count;
}

double hd_histogram_quantile(
	const struct hd_histogram *histogram,
	const struct hd_scale *scale,
	double share
) {
	double all = 0, before = 0, least = 0;

	hd_assert(share >= 0 && share <= 1);
	for (uint8_t i = 0; i <= scale->count; i++)
		all += (double)histogram->bucket[i];
	for (uint8_t i = 0; i <= scale->count; i++) {
		const double here = (double)histogram->bucket[i];
		uint64_t most = i < scale->count ? scale->bounds[i].most : UINT64_MAX;

		most = most < histogram->max ? most : histogram->max;
		if (here > 0 && before + here >= share * all)
			return least
				+ ((double)most - least) * fmax(share * all - before, 0) / here;
		before += here;
		least = (double)most + 1;
	}
	return (double)NAN;
}
