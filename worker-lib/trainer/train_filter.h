/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter in the trainer's loops: its settings, and its reference in one process. */
#ifndef TRAIN_FILTER_H
#define TRAIN_FILTER_H

#include "hd_kernels.h"
#include "train_summary.h"

struct train_filter {
	struct heddle_filter *filter; /* NULL: none */
	float *update; /* of a flush */
	bool ended; /* all held values are sent with the next push */
};

/* 0, or an exit status. fabric: NULL in one process. */
int train_filter_init(struct train_filter *filter, struct train *train, struct heddle *fabric);
void train_filter_fini(struct train_filter *filter);
/* Call when the members have changed, or the scale of updates. */
void train_filter_follow(struct train_filter *filter, struct train *train, struct heddle *fabric);
/* At most one more step follows: the held values are sent with it, so that they weigh no more than any update does. All
 * workers end together, and the model should be the mean of theirs (heddle_filter_keep()). */
void train_filter_end(struct train_filter *filter, struct train *train, struct heddle *fabric);
/* As heddle_filter_push_start(), with the trainer's options. */
int train_filter_push(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	struct heddle_ticket **ticket
);
/* Whether any values are held back. There is a filter. */
bool train_filter_holds(const struct train_filter *filter, size_t values);
/* A push of the held values, which are then in `update`; NULL: there are none, or an error. */
struct heddle_ticket *train_filter_flush(
	struct train_filter *filter,
	struct train *train,
	struct heddle *fabric,
	float *update,
	uint64_t base
);
void train_filter_summary(const struct train_filter *filter, struct train_summary *summary);

/* The server's step with an update: sparse where that is smaller, in its type on the wire. */
struct train_model {
	float *params, *momentum;
	uint64_t values;
	struct hd_sgd sgd;
};
/* One step in one process: the gradient at train->params, which is then the server's model plus the held values. */
void train_filter_local(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server,
	float *grad,
	uint64_t step
);
/* The end: sends all held values. */
void train_filter_local_flush(
	struct train_filter *filter,
	struct train *train,
	struct train_model *server
);

#endif
