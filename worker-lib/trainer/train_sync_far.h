/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous training with the model on a GPU. Gradient, buckets and sums stay in its memory; the model moves there.
 * Only the head of a bucket is made and read on the host. The roll and the comparison of models, which are rare, work
 * on copies in the host's memory: sync->train->params and sync->momentum.
 *
 *   gradient --scale--> bucket --all-reduce--> sum --head--> host: members, factor
 *                                               +----factor * sum, SGD--> momentum, params
 *
 * Functions return an exit status, and print errors by themselves.
 */
#ifndef TRAIN_SYNC_FAR_H
#define TRAIN_SYNC_FAR_H

#include "train_far.h"
#include "train_sync.h"

/* After the buckets were set. Does nothing on the host. */
int train_sync_far_init(struct train_sync *sync);
void train_sync_far_fini(struct train_sync *sync);
/* Puts a bucket into its buffer, in the order of the stream. */
int train_sync_far_pack(struct train_sync *sync, uint32_t index, const struct hd_share *share);
int train_sync_far_total(struct train_sync *sync, uint32_t index, struct hd_total *total);
/* The model's step with the mean of a bucket. */
int train_sync_far_move(struct train_sync *sync, uint32_t index, const struct hd_total *total);
/* Copy model and momentum to the host's memory, or from there; do nothing on the host. */
int train_sync_far_read(struct train_sync *sync);
int train_sync_far_write(struct train_sync *sync);

#endif
