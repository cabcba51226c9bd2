/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the table of all-reduces, and what they take of links and aggregators. */
#ifndef CTL_REDUCES_H
#define CTL_REDUCES_H

#include "ctl_core.h"

/* --- ctl_reduce_table.c --- */
struct ctl_reduce *ctl_reduce_find(const struct ctl_job *job, uint32_t round);
void ctl_reduce_part(struct ctl_reduce *r, uint16_t worker, enum ctl_part part);
/* Has asked for nothing, or not again. */
bool ctl_reduce_is_idle(const struct ctl_reduce *r, uint16_t worker);
/* Whoever has ended this round already, and those that came later, are not waited for. */
void ctl_reduce_leave_out(const struct ctl_job *job, struct ctl_reduce *r);
/* NULL: limit or memory. */
struct ctl_reduce *ctl_reduce_add(struct ctl_job *job, const struct hd_msg_request *m);
void ctl_reduce_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r);
/* Whether its sum of the round is of another making than this. */
bool ctl_reduce_has_other(
	const struct ctl_job *job,
	uint16_t worker,
	uint32_t round,
	uint64_t making
);
/* This worker has that sum; round 0: it has none, making 0: it does not say which. Nobody makes the round again. Who
 * has one of an older making is in doubt. */
void ctl_reduce_learn(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	const struct ctl_sum *sum
);
/* This round has begun, here or in an earlier life. */
void ctl_reduce_seen(struct ctl_job *job, uint32_t round);
/* The worker may have, or get, another sum of this round than the others. */
void ctl_reduce_doubt(struct ctl_job *job, uint16_t worker, uint32_t round);
/* Nobody else will have another sum of this round than those that are in doubt: of these the newest one counts. */
void ctl_reduce_believe(struct ctl_job *job, const struct ctl_reduce *r);
/* Another life of this worker has nothing of what the one before may have got. */
void ctl_reduce_anew(struct ctl_job *job, uint16_t worker);
/* It was cut off with the sum of a round that the others made again: it goes other ways than they. */
bool ctl_reduce_is_apart(struct ctl_job *job, const struct hd_msg_request *m);
void ctl_reduce_fini(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_form.c --- */
/* --- ctl_reduce.c and others --- */
/* Sets job->formed when everybody is there who belongs to it: ctl_form.c. */
void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job);
/* Nobody is there any more: who comes next begins anew. */
void ctl_reduce_disband(struct ctl_job *job);
/* This round has begun, with those that are TOLD. The next life hears of it soon, and at once when others make it than
 * made the one before. */
void ctl_reduce_begun(struct hd_controller *c, struct ctl_job *job, const struct ctl_reduce *r);
/* Tells the next life, soon, which round has begun: whoever joins then begins behind it. */
void ctl_reduce_keep(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_reduce_sample.c --- */
/* It begins: its hosts' links are not idle. */
void ctl_reduce_occupy(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);
/* It has ended. */
void ctl_reduce_vacate(struct hd_controller *c, struct ctl_reduce *r);
/* A worker's values have come to an aggregator. */
void ctl_reduce_came(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct hd_msg_report *report
);
/* A shard of the sum has come to a worker. False: there is no such shard. */
bool ctl_reduce_went(
	struct hd_controller *c,
	const struct ctl_reduce *r,
	const struct ctl_node *worker,
	const struct hd_msg_report *report
);

/* --- ctl_shards.c --- */
/* How long that would take when nobody else was there, in s; INFINITY: it would not go. */
double
ctl_reduce_seconds(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r);
/* Cuts the values over the aggregators: sets r->shards. HOLD: not yet, others hold their memory. */
enum hd_reason
ctl_reduce_cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);

#endif
