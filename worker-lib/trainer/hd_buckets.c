/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_buckets.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum head {
	SAMPLES,
	LOSS, /* sum over the samples */
	MEMBERS,
	JOINING,
	ENDS,
	LEFT,
};

void hd_buckets_init(struct hd_buckets *buckets, uint64_t values, uint64_t bytes) {
	const uint64_t most = bytes / sizeof(float) > 0 ? bytes / sizeof(float) : 1;
	uint64_t count;

	assert(values > 0);
	count = (values - 1) / most + 1;
	if (count > HD_BUCKETS_MAX)
		count = HD_BUCKETS_MAX;
	buckets->values = values;
	buckets->each = (values - 1) / count + 1;
	/* Rounding up may leave the last ones empty. */
	buckets->count = (uint32_t)((values - 1) / buckets->each + 1);
}

uint64_t hd_bucket_buffer(const struct hd_buckets *buckets) {
	return buckets->each + HD_BUCKET_HEAD;
}

uint64_t hd_bucket_first(const struct hd_buckets *buckets, uint32_t index) {
	const uint64_t after = (index + UINT64_C(1)) * buckets->each;

	assert(index < buckets->count);
	return buckets->values > after ? buckets->values - after : 0;
}

uint64_t hd_bucket_values(const struct hd_buckets *buckets, uint32_t index) {
	return buckets->values - index * buckets->each - hd_bucket_first(buckets, index);
}

uint32_t hd_buckets_ready(const struct hd_buckets *buckets, uint64_t first) {
	assert(first <= buckets->values);
	return first == 0 ? buckets->count : (uint32_t)((buckets->values - first) / buckets->each);
}

void hd_bucket_pack(
	const struct hd_buckets *buckets,
	uint32_t index,
	const float *gradient,
	const struct hd_share *share,
	float *buffer
) {
	const float *from = gradient + hd_bucket_first(buckets, index);
	const uint64_t values = hd_bucket_values(buckets, index);
	const float weight = (float)share->samples;

	for (uint64_t i = 0; i < values; i++)
		buffer[i] = weight * from[i];
	memset(buffer + values, 0, (buckets->each - values) * sizeof *buffer);
	hd_bucket_head(buckets, index, share, buffer + buckets->each);
}

void hd_bucket_head(
	const struct hd_buckets *buckets,
	uint32_t index,
	const struct hd_share *share,
	float *head
) {
	head[SAMPLES] = (float)share->samples;
	head[LOSS] = (float)(share->loss * share->samples);
	head[MEMBERS] = 1;
	head[JOINING] = 0;
	head[ENDS] = share->ends ? 1 : 0;
	head[LEFT] = (float)(buckets->count - 1 - index);
}

void hd_bucket_pack_joining(const struct hd_buckets *buckets, float *buffer) {
	memset(buffer, 0, hd_bucket_buffer(buckets) * sizeof *buffer);
	buffer[buckets->each + JOINING] = 1;
}

struct hd_total hd_bucket_total(const struct hd_buckets *buckets, const float *sum) {
	return hd_head_total(sum + buckets->each);
}

struct hd_total hd_head_total(const float *head) {
	const double members = round((double)head[MEMBERS]), samples = (double)head[SAMPLES];
	const bool any = members >= 1;

	/* A switch adds in fixed point, and what others in the chunk need is the step of that: 0 stays 0. */
	return (struct hd_total){
		.samples = samples,
		.loss = any ? (double)head[LOSS] / samples : 0,
		.members = any ? (uint32_t)members : 0,
		.joining = head[JOINING] > 0,
		.ends = head[ENDS] > 0,
		.left = any ? (uint32_t)round((double)head[LEFT] / members) : 0,
	};
}

bool hd_total_has_mean(const struct hd_total *total) {
	return total->members > 0 && round(total->samples) >= 1 && isfinite(total->samples)
		&& isfinite(total->loss);
}

float hd_total_factor(const struct hd_total *total, float scale) {
	return (float)((double)scale / total->samples);
}

void hd_bucket_mean(
	const struct hd_buckets *buckets,
	uint32_t index,
	const struct hd_total *total,
	float scale,
	float *sum
) {
	const uint64_t values = hd_bucket_values(buckets, index);
	const float factor = hd_total_factor(total, scale);

	for (uint64_t i = 0; i < values; i++)
		sum[i] *= factor;
}
