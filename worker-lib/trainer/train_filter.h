/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter in the trainer's loops: what it is set to, and its reference in one process. */
#ifndef TRAIN_FILTER_H
#define TRAIN_FILTER_H

#include "hd_kernels.h"
#include "heddle_filter.h"
#include "train_summary.h"

struct train_filter {
	struct heddle_filter *filter; /* NULL: none */
	float *update; /* of a flush */
	bool ended; /* all that is held goes with the next push */
};

/* 0, or an exit status. fabric: NULL in one process. */
int train_filter_init(struct train_filter *filter, struct train *train, struct heddle *fabric);
void train_filter_fini(struct train_filter *filter);
/* When others take part, or the scale of updates is another. */
void train_filter_follow(struct train_filter *filter, struct train *train, struct heddle *fabric);
/* No step, or this one at most, follows: what is held goes with it, so that it weighs no more than any update does. All
 * workers end together, and the model is to be the mean of theirs (heddle_filter_keep()). */
void train_filter_end(struct train_filter *filter, struct train *train, struct heddle *fabric);
/* As heddle_filter_push(), with the trainer's options. */
int train_filter_push(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	struct heddle_ticket **ticket
);
/* Whether anything is held back. There is a filter. */
bool train_filter_holds(const struct train_filter *filter, size_t values);
/* A push of what is held, which `update` has then; NULL: there is none, or an error. */
struct heddle_ticket *train_filter_flush(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	float *update,
	uint64_t base
);
void train_filter_summary(const struct train_filter *filter, struct train_summary *summary);

/* What the server does with what came of an update: sparse where that is smaller, as it travels then. */
struct train_model {
	float *params, *momentum;
	uint64_t values;
	struct hd_sgd sgd;
};
/* One step in one process: the gradient at train->params, which is then the server's model with what is held. */
void train_filter_local(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server,
	float *grad,
	uint64_t step
);
/* Its end: everything that is held. */
void train_filter_local_flush(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server
);

#endif
