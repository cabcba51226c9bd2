/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_sync_far.h"

#include <sysexits.h>

int train_sync_far_init(struct train_sync *sync) {
	struct train *train = sync->train;
	const uint64_t all = sync->buckets.count * hd_bucket_buffer(&sync->buckets);
	const uint64_t heads = (uint64_t)sync->buckets.count * HD_BUCKET_HEAD;

	sync->at = (struct train_sync_arrays){sync->grad, sync->momentum, sync->give, sync->sum};
	if (!train->far)
		return EX_OK;
	sync->at = (struct train_sync_arrays){
		.grad = train_array(train, train->values),
		.momentum = train_array(train, train->values),
		.give = train_array(train, all),
		.sum = train_array(train, all),
	};
	sync->heads = train_far_near(train, heads);
	return sync->at.grad && sync->at.momentum && sync->at.give && sync->at.sum && sync->heads ?
		EX_OK :
		train_no_memory("gradients on the device");
}

void train_sync_far_fini(struct train_sync *sync) {
	const struct train *train = sync->train;

	if (!train->far)
		return;
	train_array_free(train, sync->at.grad);
	train_array_free(train, sync->at.momentum);
	train_array_free(train, sync->at.give);
	train_array_free(train, sync->at.sum);
	train_far_near_free(train, sync->heads);
}

int train_sync_far_pack(struct train_sync *sync, uint32_t index, const struct hd_share *share) {
	const struct hd_buckets *buckets = &sync->buckets;
	const struct train *train = sync->train;
	float *give = sync->at.give + index * hd_bucket_buffer(buckets);
	float *head = sync->heads + (size_t)index * HD_BUCKET_HEAD;
	int status = train_far_scale(
		train,
		give,
		(float)share->samples,
		sync->at.grad + hd_bucket_first(buckets, index),
		hd_bucket_values(buckets, index)
	);

	/* Values between these and the head are 0 from the beginning. */
	hd_bucket_head(buckets, index, share, head);
	return status == EX_OK ? train_far_move(train, give + buckets->each, head, HD_BUCKET_HEAD) :
				 status;
}

int train_sync_far_total(struct train_sync *sync, uint32_t index, struct hd_total *total) {
	const struct hd_buckets *buckets = &sync->buckets;
	const float *sum = sync->at.sum + index * hd_bucket_buffer(buckets);
	float head[HD_BUCKET_HEAD];
	int status = train_far_read(sync->train, head, sum + buckets->each, HD_BUCKET_HEAD);

	if (status == EX_OK)
		*total = hd_head_total(head);
	return status;
}

int train_sync_far_move(struct train_sync *sync, uint32_t index, const struct hd_total *total) {
	const struct hd_buckets *buckets = &sync->buckets;
	const struct train *train = sync->train;
	const uint64_t first = hd_bucket_first(buckets, index);

	return train_far_sgd(
		train,
		&(struct train_far_step){
			.w = train_params(train) + first,
			.h = sync->at.momentum + first,
			.g = sync->at.sum + index * hd_bucket_buffer(buckets),
			.values = hd_bucket_values(buckets, index),
			.factor = hd_total_factor(total, train->scale),
		}
	);
}

int train_sync_far_read(struct train_sync *sync) {
	struct train *train = sync->train;
	int status = train_far_fetch(train);

	if (status == EX_OK && train->far)
		status = train_far_read(train, sync->momentum, sync->at.momentum, train->values);
	return status;
}

int train_sync_far_write(struct train_sync *sync) {
	const struct train *train = sync->train;
	int status = EX_OK;

	if (train->far)
		status = train_far_write(train, train_params(train), train->params, train->values);
	if (status == EX_OK && train->far)
		status = train_far_write(train, sync->at.momentum, sync->momentum, train->values);
	return status;
}
