/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle's significance filter: sends only the values of an update that change their weight significantly. */
#ifndef HEDDLE_FILTER_H
#define HEDDLE_FILTER_H

#include "heddle_transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct heddle_filter; /* the values that one worker holds back */

#define HEDDLE_FILTER_BLOCK_MAX 65536
#define HEDDLE_FILTER_EVERYTHING UINT64_MAX /* as a step: every value except 0 is significant */

enum heddle_filter_decay {
	HEDDLE_FILTER_DECAY_SQRT = 0, /* the threshold of step t is v / sqrt(t) */
	HEDDLE_FILTER_DECAY_CONSTANT = 1 /* v */
};

/*
 * A filter sends only the significant values of an update (MLLess, arXiv 2206.05786; the rule is Gaia's, NSDI'17). It
 * holds each value back and adds it up until the sum would change its weight by more than the threshold, relative to
 * the weight:
 *
 *	x += factor u;  a += u;  a_i is sent, then a_i = 0, where |factor a_i| > v_t |x_i|
 *
 * x is this worker's own model, which includes held values, so every pull must be followed by heddle_filter_reapply().
 * At a weight of 0 every value passes that is not 0. Sent and held values add up to the computed ones, to rounding.
 * With momentum or decay at the server, values that are not sent neither move nor decay.
 *
 *	heddle_pull(fabric, x, ...);  heddle_filter_reapply(filter, x);
 *	...gradient g at x...
 *	heddle_filter_push_start(filter, fabric, &(struct heddle_filter_step){x, g, step, version}, NULL, &ticket);
 *	...
 *	heddle_filter_flush_start(filter, fabric, version, NULL, &ticket);     before leaving
 *
 * Only one thread at a time may use a filter.
 */
struct heddle_filter_options {
	size_t size;
	float v; /* 0: nothing is held, the same bits as without a filter; at most 1e6 */
	/* The distance by which one unit of an update moves the model: minus the learning rate in an asynchronous
	 * job; that divided by the number of workers in a synchronous job; 1 if updates are added unscaled. */
	float factor;
	enum heddle_filter_decay decay;
	/* Number of neighbouring values that are sent or held together, counted from the model's first value, by
	 * their L2 norm and that of their weights. All workers then send the same runs, which aggregators add at a
	 * lower cost. 0 and 1: each value separately. */
	uint32_t block;
	/* Gaps of at most this many held values between two sent ones are sent, too. Up to 2 cost no more than
	 * another run. */
	uint32_t bridge;
	int always; /* 1: send the first block if no value is significant, as a step waits for it */
};
#ifdef __cplusplus
#define HEDDLE_FILTER_OPTIONS_INIT                                                                 \
	{ sizeof(struct heddle_filter_options), 0, 1, HEDDLE_FILTER_DECAY_SQRT, 0, 0, 0 }
#else
#define HEDDLE_FILTER_OPTIONS_INIT                                                                 \
	{ .size = sizeof(struct heddle_filter_options), .factor = 1.0f }
#endif

/* Creates a filter for a model of `values` values; takes 16 bytes of memory for each. 0, -EINVAL (size, v, factor,
 * block, decay), -ENOMEM. */
int heddle_filter_create(
	uint64_t values,
	const struct heddle_filter_options *options,
	struct heddle_filter **filter
);
/* Frees the filter and discards the held values: flush first. */
void heddle_filter_destroy(struct heddle_filter *filter);

/* A step of the training loop. x and update have all values of the model. */
struct heddle_filter_step {
	float *x; /* the worker's own model, at which the update was computed */
	float *update; /* in: the update; out: the sent values, with zeros between */
	uint64_t step; /* from 1 */
	uint64_t base; /* of the push */
};
/* Filters one step and pushes the result: like heddle_push_sparse_start(), or like heddle_push_start() if that is
 * smaller, if the payload is not FP32, or if v is 0. Updates x (unless v is 0). The caller may reuse both arrays at
 * once. 0: *ticket is set; 1: no value is significant, and there is no ticket. Errors of these functions, and -EINVAL
 * (borrow, another number of values). After -EINVAL and -ENOTSUP nothing has changed; after the others x has been
 * updated, and all values except NaN and Inf are held. After heddle_notify_preemption() the filter holds nothing
 * back. */
int heddle_filter_push_start(
	struct heddle_filter *filter,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
enum heddle_filter_result {
	HEDDLE_FILTER_RESULT_SPARSE = 0, /* *sparse has the values */
	HEDDLE_FILTER_RESULT_NOTHING = 1,
	HEDDLE_FILTER_RESULT_DENSE
		= 2 /* update has them; runs would be longer (in packets of 1408 bytes) */
};
/* The same without a push. Returns an enum heddle_filter_result, or -EINVAL. *sparse points into the filter and is
 * valid until the next call. */
int heddle_filter_apply(
	struct heddle_filter *filter,
	float *x,
	float *update,
	uint64_t step,
	struct heddle_sparse *sparse
);
/* Pushes all held values: call it before leaving, before a checkpoint, or before a round that averages models. 0:
 * *ticket is set; 1: nothing is held. Errors of heddle_filter_push_start(); the values then stay held. */
int heddle_filter_flush_start(
	struct heddle_filter *filter,
	struct heddle *fabric,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* The same without a push: returns an enum heddle_filter_result, or -EINVAL, and holds nothing any more. update has
 * all values, like *sparse. */
int heddle_filter_take(struct heddle_filter *filter, float *update, struct heddle_sparse *sparse);
/* Call it when a push was DROPPED, or FAILED for another reason than HEDDLE_REASON_PREEMPTED: holds the values again
 * that heddle_filter_push_start() left in update. No effect with v = 0. 0, -EINVAL. */
int heddle_filter_return(struct heddle_filter *filter, const float *update);
/* Adds factor times the held values to x: call it after each pull. 0, -EINVAL. */
int heddle_filter_reapply(const struct heddle_filter *filter, float *x);
/* Sets the factor for the following steps, after a change of the rate or of the number of workers. Rescales the held
 * values, so that they move the model by the same distance. Return dropped updates first. 0, -EINVAL (0, not finite, or
 * the held values would not be finite). */
int heddle_filter_set_factor(struct heddle_filter *filter, float factor);
/* Keeps only this part (0 to 1) of the held values and gives up the rest, before workers end together: with 1 / n
 * each, and then a flush or a step of HEDDLE_FILTER_EVERYTHING, the server's model becomes the mean of the models of
 * the n workers. With all held values of n workers it would become a model that none of them has evaluated. 0, -EINVAL
 * (part). */
int heddle_filter_keep(struct heddle_filter *filter, float part);
/* Returns the held values of the whole model; NULL for NULL. */
const float *heddle_filter_held(const struct heddle_filter *filter);

struct heddle_filter_stats {
	size_t size;
	uint64_t steps, silent; /* silent: steps without a significant value */
	uint64_t sent_values; /* of all steps, without flushes */
	uint64_t flushes, returned;
	float threshold; /* of the last step */
	double sent_norm, held_norm; /* L2 norms of the last sent, and of the held values */
	double given_up_norm; /* of the values that the last heddle_filter_keep() gave up */
};
#ifdef __cplusplus
#define HEDDLE_FILTER_STATS_INIT                                                                   \
	{ sizeof(struct heddle_filter_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_FILTER_STATS_INIT                                                                   \
	{ .size = sizeof(struct heddle_filter_stats) }
#endif
/* Copies the filter's statistics. 0, -EINVAL (size). */
int heddle_filter_get_stats(const struct heddle_filter *filter, struct heddle_filter_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
