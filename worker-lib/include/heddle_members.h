/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: the members of a job, shards of data, and preemption. Include heddle.h. */
#ifndef HEDDLE_MEMBERS_H
#define HEDDLE_MEMBERS_H

#include "heddle_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_WORKERS_MAX 4096 /* the ranks of a job are below this */

/* The workers of the job at one time. The controller (without one: the server) decides the membership; all workers
 * receive the same sets, at slightly different times. A worker is a member from its registration until it leaves or is
 * silent for 1 s. */
struct heddle_members {
	size_t size;
	uint64_t change; /* number of this set, growing; 0: none was received yet */
	/* As rank and size of a communicator: `count` members; this worker's place among them in the order of ranks, 0 ..
	 * count - 1, or -1 if it is not a member. A rank is a worker's for the whole job; an index changes with the set. */
	uint32_t count;
	int index;
	/* Decisions that belong to this set (heddlectl elastic). target: the wanted number of workers, 0: no policy
	 * sets one. sync_count: N of HEDDLE_SYNC_N, and tau_max: the staleness bound; 0: as in the job's description.
	 * scale: the factor by which the caller must multiply its updates; 1: none. */
	uint32_t target, sync_count, tau_max;
	float scale;
	/* In a synchronous job `scale` is 1, and the server multiplies the mean of each step by this factor, so that
	 * one step never mixes the factors of two sets. The caller must not apply it. 1 in all other jobs. */
	float step_scale;
};
#ifdef __cplusplus
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ sizeof(struct heddle_members), 0, 0, -1, 0, 0, 0, 1.0f, 1.0f }
#else
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ .size = sizeof(struct heddle_members), .index = -1, .scale = 1.0f, .step_scale = 1.0f }
#endif
/* Copies the newest membership that was received, and its ranks, ascending: the first `capacity` of them, which are all
 * if capacity is members.count or more (HEDDLE_WORKERS_MAX is always enough). ranks may be NULL with capacity 0. 0,
 * -EINVAL (size), -ECHILD. */
int heddle_get_members(
	struct heddle *fabric,
	struct heddle_members *members,
	int *ranks,
	size_t capacity
);
/* Returns only `change`, to poll for news; 0 for NULL. heddle_fd() becomes readable with each change, too. */
uint64_t heddle_members_change(struct heddle *fabric);

/*
 * Computes which rows of a data set of `dataset_size` rows (up to 2^47) belong to the worker `rank` when the members
 * with these `rank_count` ranks (ascending, as from heddle_get_members()) share it. Needs no handle; the result depends
 * only on the arguments and is the same on every machine. ranges: ascending and disjoint, `capacity` elements; may be
 * NULL with capacity 0. Returns the number of ranges (at most 65,536), also when it exceeds capacity. Guarantees:
 *   - each row belongs to exactly one member;
 *   - a member's share exceeds the mean share by at most a quarter or four square roots of it, whichever is more,
 *     plus one block (rows are assigned in at most 65,536 blocks of equal size, to within a row);
 *   - when a member leaves, only its rows move (1 / n of all, on average), and when one joins, only the rows that
 *     it receives; the bound on shares moves very few more.
 * Costs 2 ns for each pair of a block and a member. -EINVAL (ranks, rank_count), -ENOENT (rank is not a member), -E2BIG
 * (dataset_size), -ENOMEM.
 */
long heddle_shard(
	const int *ranks,
	size_t rank_count,
	uint64_t dataset_size,
	int rank,
	struct heddle_range *ranges,
	size_t capacity
);

#define HEDDLE_SCALE_MAX 16.0f

/* Returns the factor for heddle_push_options.scale when the learning rate was chosen for `base` workers: count / base,
 * at most `max` (0: HEDDLE_SCALE_MAX). Returns 1 before the first membership was received, and when base is 0 or
 * members is NULL. A pure function: call heddle_get_members() once before computing a gradient, and push with the
 * factor for that set. Linear scaling is meant for the mean of all members' updates, whose batch grows with their
 * number (Zhang et al., arXiv 2003.05649, 7). In a synchronous job prefer heddle_spec_set_scale_base(), as members
 * learn of a change at different times. In an asynchronous job the batch of a step does not grow; more workers already
 * make more steps. The factor applies to gradients only: weight decay keeps its rate, and momentum accumulates updates
 * as pushed. */
float heddle_members_scale(const struct heddle_members *members, uint32_t base, float max);

/* Announces that this worker's machine is preempted in `seconds` (at most 3600), as in a cloud's notice to a spot
 * instance. May be called from a signal handler (it sets no heddle_last_error()) and repeatedly: the earliest end
 * counts. The controller then plans this worker's pushes before all others and not through aggregators; updates that
 * cannot arrive in time are DROPPED (preempted). The worker leaves without further calls: it accepts pushes and pulls
 * until heddle_time_left_ms() is 0 and then waits for those in flight. 120 ms before the end it withdraws those that
 * the server does not hold (cancelled), and then it sends LEAVE. Pushes whose outcome is still unknown then end as
 * FAILED (preempted); they may or may not have been applied. Close the handle as usual, before or after. No other node
 * waits for the worker beyond the announced time. The controller can send a notice, too, to a surplus worker:
 * heddle_time_left_ms() is then 0 at once; push the update that is already computed, and close. 0, -EINVAL (seconds),
 * -ECHILD. */
int heddle_notify_preemption(struct heddle *fabric, double seconds);
/* Returns for how many ms new pushes are still accepted (0: not any more, or a surplus worker); -1: no notice was
 * given, or NULL. Do not start a computation that takes longer. */
int heddle_time_left_ms(struct heddle *fabric);

#ifdef __cplusplus
}
#endif

#endif
