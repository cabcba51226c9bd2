/* SPDX-License-Identifier: BSD-3-Clause */
/* A gradient as the runs of its values that are not 0. */
#ifndef TRAIN_SPARSE_H
#define TRAIN_SPARSE_H

#include "heddle.h"

#include <stdbool.h>

struct train_sparse {
	struct heddle_range *runs;
	float *data;
	size_t run_count;
	size_t run_limit; /* with more runs, dense is smaller */
};

/* 0 or -ENOMEM. */
int train_sparse_init(struct train_sparse *sparse, uint64_t values);
void train_sparse_fini(struct train_sparse *sparse);
/* False when there are no values, or dense is smaller (with packets of 1408 bytes). */
bool train_sparse_pack(struct train_sparse *sparse, const float *grad, uint64_t values);

#endif
