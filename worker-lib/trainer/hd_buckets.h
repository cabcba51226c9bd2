/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets of a gradient for synchronous training by all-reduce: equal parts of the flat array, from its end to its
 * beginning, which is the order in which backward yields them. Each part is one all-reduce (a sum), and all have the
 * same size, so that a worker that joins can take part in any of them.
 *
 *   gradient   |  bucket 2  |  bucket 1  |  bucket 0  |       backward computes from the right to the left
 *   buffer     |  samples x values, 0 where there are none  |  head: struct hd_share  |
 *
 * The head says what the worker gives, and the sum of the heads what all have given: the mean is the sum of the values
 * divided by the sum of the samples of those workers.
 */
#ifndef HD_BUCKETS_H
#define HD_BUCKETS_H

#include "hd_types.h"

#define HD_BUCKETS_MAX 64 /* all-reduces in flight (HEDDLE_COLLECTIVES_MAX) */
#define HD_BUCKET_HEAD 6 /* values of a head */

struct hd_buckets {
	uint64_t values; /* of the gradient */
	uint64_t each; /* values of a bucket, without the head */
	uint32_t count;
};

/* One worker's part of a bucket, besides the values. A worker that has no model yet gives nothing but `joining`. */
struct hd_share {
	uint32_t samples; /* rows of its minibatch */
	double loss; /* mean of these */
	bool ends; /* its time is over: this step is to be the last one */
};

/* The same of all that took part. */
struct hd_total {
	double samples, loss; /* loss: mean of all samples */
	uint32_t members; /* workers that have the model */
	bool joining; /* there are workers without it */
	bool ends; /* the time of one of them is over */
	uint32_t left; /* buckets of this step after this one */
};

/* Buckets of at most `bytes` bytes, of equal size to within a value; larger ones where there would be more than
 * HD_BUCKETS_MAX. values and bytes: above 0. */
void hd_buckets_init(struct hd_buckets *buckets, uint64_t values, uint64_t bytes);
/* Values of a buffer, with the head. */
uint64_t hd_bucket_buffer(const struct hd_buckets *buckets);
/* Where bucket `index` begins in the gradient, and how many values it has there. */
uint64_t hd_bucket_first(const struct hd_buckets *buckets, uint32_t index);
uint64_t hd_bucket_values(const struct hd_buckets *buckets, uint32_t index);
/* How many buckets are complete when the gradient's values from `first` on are final. */
uint32_t hd_buckets_ready(const struct hd_buckets *buckets, uint64_t first);

/* Fills a buffer: the gradient's values times the samples, and the head. */
void hd_bucket_pack(
	const struct hd_buckets *buckets,
	uint32_t index,
	const float *gradient,
	const struct hd_share *share,
	float *buffer
);
/* The head alone: HD_BUCKET_HEAD values. */
void hd_bucket_head(
	const struct hd_buckets *buckets,
	uint32_t index,
	const struct hd_share *share,
	float *head
);
/* Fills the buffer of a worker that has no model yet. */
void hd_bucket_pack_joining(const struct hd_buckets *buckets, float *buffer);
/* Reads the head of a sum. */
struct hd_total hd_bucket_total(const struct hd_buckets *buckets, const float *sum);
struct hd_total hd_head_total(const float *head);
/* Whether there is a mean: of one sample or more, with a finite loss. */
bool hd_total_has_mean(const struct hd_total *total);
/* With which a sum is multiplied to be the mean times `scale`. total->samples: above 0. */
float hd_total_factor(const struct hd_total *total, float scale);
/* Makes the sum of a bucket the mean times `scale`, in place. total->samples: above 0. */
void hd_bucket_mean(
	const struct hd_buckets *buckets,
	uint32_t index,
	const struct hd_total *total,
	float scale,
	float *sum
);

#endif
