/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers with significance filters on a sparse model, in one process: what they send, and what it costs in loss. */
#ifndef SPARSE_RUN_H
#define SPARSE_RUN_H

#include "hd_filter.h"
#include "hd_row_model.h"

#define SPARSE_WORKERS_MAX 16

/* The use of held values in the last step. */
enum sparse_end {
	SPARSE_END_MEAN = 0, /* sends 1 / workers of it, as heddle-train does */
	SPARSE_END_ALL, /* all */
	SPARSE_END_HELD /* none but what is significant */
};

struct sparse_setting {
	const char *data,
		*model; /* hd_generate()'s words, without the seed; hd_row_model_init()'s */
	uint32_t workers, steps, batch;
	float rate;
	enum sparse_end end;
};
/* MLLess's two kinds of model, small: logistic regression on 2000 sparse features, matrix factorisation. */
extern const struct sparse_setting sparse_logistic, sparse_ratings;

struct sparse_result {
	uint64_t values, bytes; /* of all pushes of all workers */
	double before,
		loss; /* of the server's model on all rows: at the beginning, and at the end */
};
/* Each step is the mean of the workers' updates. bridge of the filter: 2 of single values, 0 of blocks. */
void sparse_run(
	const struct sparse_setting *setting,
	uint64_t seed,
	float v,
	uint32_t block,
	struct sparse_result *result
);

#endif
