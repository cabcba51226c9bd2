/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the table of all-reduces, and their use of links and aggregators. */
#ifndef CTL_REDUCES_H
#define CTL_REDUCES_H

#include "ctl_core.h"

/* --- ctl_reduce_table.c --- */
struct ctl_reduce *ctl_reduce_find(const struct ctl_job *job, uint32_t round);
void ctl_reduce_part(struct ctl_reduce *r, uint16_t worker, enum ctl_part part);
/* The worker has not asked, or not again. */
bool ctl_reduce_is_idle(const struct ctl_reduce *r, uint16_t worker);
/* No worker is OUT of it yet (ctl_wait_exclude()). NULL: limit or memory. */
struct ctl_reduce *ctl_reduce_add(struct ctl_job *job, const struct hd_msg_request *m);
/* The round is of this call. */
void ctl_reduce_set_call(struct ctl_reduce *r, const struct hd_msg_request *m);
void ctl_reduce_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r);
/* Whether the worker's sum of the round is from another attempt than this. */
bool ctl_reduce_has_other(
	const struct ctl_job *job,
	uint16_t worker,
	uint32_t round,
	uint64_t sum_id
);
/* The newest attempt of this round of which a member has the result; 0: unknown. */
uint64_t ctl_reduce_sum_id(const struct ctl_job *job, uint32_t round);
/* Members have ended the round without a report. */
void ctl_reduce_note_end(struct ctl_job *job, const struct ctl_reduce *r);
/* Whether this member has something to receive, by the round's shards. In shared memory all report the end. */
bool ctl_reduce_receives(const struct ctl_reduce *r, uint16_t worker);
/* This worker has that sum; round 0: it has none, sum_id 0: its attempt is unknown. The round is not repeated. A worker
 * whose sum is from an older attempt is marked (ctl_reduce_mark_unconfirmed()). */
void ctl_reduce_learn(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	const struct ctl_sum *sum
);
/* This round has begun, under this controller process or an earlier one. */
void ctl_reduce_seen(struct ctl_job *job, uint32_t round);
/* The worker may have, or get, another sum of this round than the others. */
void ctl_reduce_mark_unconfirmed(struct ctl_job *job, uint16_t worker, uint32_t round);
/* No worker is left that could make the sum of a later round than the newest one again. */
void ctl_reduce_confirm_later(struct ctl_job *job);
/* The unconfirmed sums of this round are the only other ones that a worker can have: the newest of them counts. */
void ctl_reduce_confirm(struct ctl_job *job, const struct ctl_reduce *r);
/* A new process of this worker has no sums of the old one. */
void ctl_reduce_reset_worker(struct ctl_job *job, uint16_t worker);
/* Whether the worker, while unreachable, got the sum of a round that the others repeated: its model differs from
 * theirs. */
bool ctl_reduce_is_apart(struct ctl_job *job, const struct hd_msg_request *m);
void ctl_reduce_fini(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_call.c --- */
/* Whether this member gives values to the shard, and whether it receives them from there. */
bool ctl_shard_gives(const struct ctl_reduce *r, const struct ctl_shard *shard, uint16_t worker);
bool ctl_shard_takes(const struct ctl_reduce *r, const struct ctl_shard *shard, uint16_t worker);
/* Values of one member arrive as they are. */
bool ctl_call_is_copy(const struct ctl_call *call);
/* It has a root, which has not asked. */
bool ctl_call_lacks_root(const struct ctl_reduce *r);
bool ctl_call_has_root(const struct ctl_call *call);
/* Each member has a block of the values. */
bool ctl_call_has_blocks(const struct ctl_call *call);
/* Whether a round can be of this call. */
bool ctl_call_is_valid(const struct hd_msg_request *m);
void ctl_call_take(const struct hd_msg_request *m, struct ctl_call *call);
/* Whether it is another call than the round's; r->wrong then says so. */
bool ctl_call_differs(struct ctl_reduce *r, const struct hd_msg_request *m);
/* The size of the round, once its members are those that have asked: sets r->bytes. False: it does not fit into
 * memory, or has too many members; r->wrong then says so. */
bool ctl_call_size(struct ctl_reduce *r);
/* No value leaves its member: a barrier, a copy with one member only, or a broadcast to members that have it. */
bool ctl_reduce_stays(const struct ctl_reduce *r);
/* Whether the round cannot be, now that those that are here have asked, all that it waits for or some: r->wrong then
 * says why. */
bool ctl_call_is_wrong(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	bool all
);

/* --- ctl_shared.c --- */
/* Whether those that have asked can make the round in memory that they share. */
bool ctl_shared_is_possible(const struct ctl_job *job, const struct ctl_reduce *r);
/* The round begins there. */
void ctl_shared_take(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r);
/* The round has failed: it uses no shared memory any more, and no round begins where it was. */
void ctl_shared_leave(struct ctl_job *job, struct ctl_reduce *r);
/* The next round has another segment: a member is another process. */
void ctl_shared_end(struct ctl_job *job);

/* --- ctl_reduce.c and others --- */
/* A worker has registered: how many there were at once. */
void ctl_reduce_count_workers(struct ctl_job *job);
/* Sets job->formed when the job has all of its workers: ctl_form.c. */
void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job);
/* The job has no workers any more: the next one begins a new job. */
void ctl_reduce_disband(struct ctl_job *job);
/* A process that was a worker before that is back: it may have the sum of a lost round, or ask for it again. */
void ctl_reduce_continue(struct ctl_job *job);
/* This round has begun, with the workers that are STARTED. It is saved soon, and at once when its members differ from
 * those of the round before. */
void ctl_reduce_begun(struct hd_controller *c, struct ctl_job *job, const struct ctl_reduce *r);
/* Saves the newest round soon: a worker that joins under the next controller process begins after it. */
void ctl_reduce_keep(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_reduce_sample.c --- */
/* The round begins: the links of its hosts are not idle. */
void ctl_reduce_occupy(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);
/* The round has ended. */
void ctl_reduce_vacate(struct hd_controller *c, struct ctl_reduce *r);
/* A worker's values have arrived at an aggregator. */
void ctl_reduce_came(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct hd_msg_report *report
);
/* A shard of the sum has arrived at a worker. False: there is no such shard. */
bool ctl_reduce_went(
	struct hd_controller *c,
	const struct ctl_reduce *r,
	const struct ctl_node *worker,
	const struct hd_msg_report *report
);

/* --- ctl_shards.c --- */
/* How long that would take through aggregators that stand by themselves if no other job used them, in s; INFINITY:
 * impossible. */
double
ctl_reduce_seconds(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r);
/* Divides the values among the aggregators: sets r->shards. HOLD: not yet, other rounds hold their memory. */
enum hd_reason
ctl_reduce_cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);
/* The aggregator is lost. Whether a member in progress still needs one of its shards, other than the worker that ends
 * with it. */
bool ctl_reduce_needs(const struct ctl_reduce *r, const struct ctl_node *aggregator);
/* Its shards stay, without it. */
void ctl_reduce_forget_aggregator(struct ctl_reduce *r, const struct ctl_node *aggregator);

#endif
