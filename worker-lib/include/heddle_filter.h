/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle's significance filter: a part of heddle.h in a header of its own. */
#ifndef HEDDLE_FILTER_H
#define HEDDLE_FILTER_H

#include "heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct heddle_filter; /* what one worker holds back */

#define HEDDLE_FILTER_BLOCK_MAX 65536
#define HEDDLE_FILTER_EVERYTHING UINT64_MAX /* as a step: all that is not 0 is significant */

enum heddle_filter_decay {
	HEDDLE_FILTER_SQRT = 0, /* the threshold of step t is v / sqrt(t) */
	HEDDLE_FILTER_CONSTANT = 1 /* v */
};

/*
 * Sends of an update only what matters (MLLess, arXiv 2206.05786; the rule is Gaia's, NSDI'17). Each value is held
 * back and adds up until it would move its weight by more than the threshold's part of it:
 *
 *	x += factor u;  a += u;  sent, and a_i = 0, where |factor a_i| > v_t |x_i|
 *
 * x is this worker's own model, which has the update at once, so that a pull must be followed by
 * heddle_filter_reapply(). A weight of 0 lets everything pass that is not 0. What is sent and what is held add up to
 * what was computed, to rounding. With momentum or decay at the server, what is not sent neither moves nor decays.
 *
 *	heddle_pull(fabric, x, ...);  heddle_filter_reapply(filter, x);
 *	...gradient g at x...
 *	heddle_filter_push(filter, fabric, &(struct heddle_filter_step){x, g, step, version}, NULL, &ticket);
 *	...
 *	heddle_filter_flush(filter, fabric, version, NULL, &ticket);     before leaving
 *
 * One thread at a time uses a filter.
 */
struct heddle_filter_options {
	size_t size;
	float v; /* 0: nothing is held, the same bits as without a filter; at most 1e6 */
	/* How far 1 of an update moves the model: minus the learning rate of an asynchronous job, that by the number of
	 * workers of a synchronous one. 1 where updates are added as they are. */
	float factor;
	enum heddle_filter_decay decay;
	/* Values that are sent or held together, counted from the model's beginning, by their L2 norm and that of their
	 * weights: workers then send the same runs, which aggregators add at less cost. 0 and 1: each value for itself. */
	uint32_t block;
	/* Gaps of at most so many held values between two that are sent go along. 2 cost no more than another run. */
	uint32_t bridge;
	int always; /* the first block is sent when nothing is significant: somebody waits for each update */
};
#ifdef __cplusplus
#define HEDDLE_FILTER_OPTIONS_INIT                                                                 \
	{ sizeof(struct heddle_filter_options), 0, 1, HEDDLE_FILTER_SQRT, 0, 0, 0 }
#else
#define HEDDLE_FILTER_OPTIONS_INIT                                                                 \
	{ .size = sizeof(struct heddle_filter_options), .factor = 1.0f }
#endif

/* For a model of so many values: 16 bytes of memory each. -EINVAL (size, v, factor, block, decay), -ENOMEM. */
int heddle_filter_create(
	uint64_t values,
	const struct heddle_filter_options *options,
	struct heddle_filter **filter
);
/* What is held is gone: flush first. */
void heddle_filter_destroy(struct heddle_filter *filter);

/* A step of the training loop. x and update have all values of the model. */
struct heddle_filter_step {
	float *x; /* the worker's own model, at which the update was computed */
	float *update; /* becomes what is sent, with zeros between */
	uint64_t step; /* from 1 */
	uint64_t base; /* of the push */
};
/*
 * One step and its push: as heddle_push_sparse(), or as heddle_push() where that is smaller, the payload is another
 * than FP32, or v is 0. x moves (but with v = 0); both may be used again at once. 0: *ticket is set; 1: nothing is
 * significant, there is no ticket. Errors as theirs; also -EINVAL (borrow, another number of values). After -EINVAL and
 * -ENOTSUP nothing has been done, after the others x has moved and all is held, but for NaN and Inf. After
 * heddle_preempt_notice() nothing more is held back.
 */
int heddle_filter_push(
	struct heddle_filter *filter,
	struct heddle *fabric,
	const struct heddle_filter_step *step,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
enum heddle_filter_result {
	HEDDLE_FILTER_SPARSE = 0, /* *sparse has it */
	HEDDLE_FILTER_NOTHING = 1,
	HEDDLE_FILTER_DENSE
		= 2 /* update has it; as runs it would be longer (in packets of 1408 bytes) */
};
/* The same without a push: an enum heddle_filter_result. *sparse points into the filter, until the next call. */
int heddle_filter_apply(
	struct heddle_filter *filter,
	float *x,
	float *update,
	uint64_t step,
	struct heddle_sparse *sparse
);
/* Pushes all that is held: before leaving, a checkpoint, or a round that averages models. 0: *ticket is set; 1:
 * nothing is held. Errors as heddle_filter_push(); then it stays held. */
int heddle_filter_flush(
	struct heddle_filter *filter,
	struct heddle *fabric,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* The same without a push: an enum heddle_filter_result; nothing is held any more. update has all of it, as *sparse. */
int heddle_filter_take(struct heddle_filter *filter, float *update, struct heddle_sparse *sparse);
/* A push was DROPPED, or FAILED for another reason than HEDDLE_REASON_PREEMPTED: what heddle_filter_push() had left in
 * update is held again. Nothing with v = 0. */
int heddle_filter_return(struct heddle_filter *filter, const float *update);
/* x += factor times what is held: after each pull. */
int heddle_filter_reapply(const struct heddle_filter *filter, float *x);
/* For the steps from now on: a rate, or a number of workers, has changed. What is held moves the model by as much as
 * before. Take back what was dropped first. -EINVAL (0, not finite, or what is held would not be). */
int heddle_filter_set_factor(struct heddle_filter *filter, float factor);
/*
 * Gives up all of what is held but this part, 0 to 1, before workers end together: with 1 / n each, and then a flush or
 * a step of HEDDLE_FILTER_EVERYTHING, the server's model becomes the mean of the models that the n workers have. All
 * of n workers' held values at once is a model that none of them has seen. -EINVAL (part).
 */
int heddle_filter_keep(struct heddle_filter *filter, float part);
/* All values of it; NULL of NULL. */
const float *heddle_filter_held(const struct heddle_filter *filter);

struct heddle_filter_stats {
	size_t size;
	uint64_t steps, silent; /* silent: those that had nothing to send */
	uint64_t sent_values; /* of all steps; a flush's are not counted */
	uint64_t flushes, returned;
	float threshold; /* of the last step */
	double sent_norm, held_norm; /* L2 norms: of what was sent last, and of what is held now */
	double given_up_norm; /* of what the last heddle_filter_keep() took */
};
#ifdef __cplusplus
#define HEDDLE_FILTER_STATS_INIT                                                                   \
	{ sizeof(struct heddle_filter_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_FILTER_STATS_INIT                                                                   \
	{ .size = sizeof(struct heddle_filter_stats) }
#endif
/* -EINVAL (size). */
int heddle_filter_get_stats(const struct heddle_filter *filter, struct heddle_filter_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
