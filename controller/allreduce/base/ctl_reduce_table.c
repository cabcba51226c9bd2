/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a job's all-reduces, and the state of each worker in each. */
#include "ctl_base.h"
#include "ctl_inline.h"
#include "ctl_pairs.h"
#include "ctl_possible.h"
#include "ctl_reduces.h"

#include <assert.h>
#include <stdlib.h>

struct ctl_reduce *ctl_reduce_find(const struct ctl_job *job, uint32_t round) {
	struct ctl_reduce *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->round == round)
			return r;
	return NULL;
}

void ctl_reduce_part(struct ctl_reduce *r, uint16_t worker, enum ctl_part part) {
	assert(worker < HD_WORKERS_MAX && part <= CTL_PART_DONE);
	/* Workers without a part are not counted. */
	assert(r->part[worker] == CTL_PART_NONE || r->count[r->part[worker]] > 0);
	if (r->receives[worker] && r->part[worker] == CTL_PART_STARTED) {
		assert(r->receiving > 0);
		r->receiving--;
	}
	r->receiving += r->receives[worker] && part == CTL_PART_STARTED;
	r->count[r->part[worker]]--;
	r->part[worker] = (uint8_t)part;
	r->count[part]++;
	if (r->count[CTL_PART_ASKED] == 0)
		r->waits_from = 0;
}

bool ctl_reduce_receives(const struct ctl_reduce *r, uint16_t worker) {
	if (r->inlined)
		return ctl_inline_receives(r, worker);
	if (r->call.collective == HD_COLLECTIVE_ALLREDUCE || r->shared != 0)
		return true;
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (ctl_shard_takes(r, &r->shards[i], worker))
			return true;
	return false;
}

/* The worker has not asked, or not again. */
bool ctl_reduce_is_idle(const struct ctl_reduce *r, uint16_t worker) {
	return r->part[worker] == CTL_PART_NONE || r->part[worker] == CTL_PART_VOID;
}

void ctl_reduce_set_call(struct ctl_reduce *r, const struct hd_msg_request *m) {
	r->caller = m->worker;
	r->wrong = HD_REASON_NONE;
	ctl_call_take(m, &r->call);
	r->dtype = m->dtype;
	r->op = m->op;
	r->order = m->order;
	r->bytes = m->bytes;
}

struct ctl_reduce *ctl_reduce_add(struct ctl_job *job, const struct hd_msg_request *m) {
	struct ctl_reduce *r;

	if (job->reduce_count >= CTL_REDUCES_MAX)
		return NULL;
	r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->round = m->round;
	ctl_reduce_set_call(r, m);
	TAILQ_INSERT_TAIL(&job->reduces, r, entry);
	job->reduce_count++;
	return r;
}

void ctl_reduce_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r) {
	ctl_reduce_vacate(c, r);
	TAILQ_REMOVE(&job->reduces, r, entry);
	job->reduce_count--;
	ctl_inline_fini(c, r);
	free(r->shards);
	free(r);
}

bool ctl_reduce_has_other(
	const struct ctl_job *job,
	uint16_t worker,
	uint32_t round,
	uint64_t sum_id
) {
	return job->has[worker].round == round && job->has[worker].sum_id != sum_id;
}

uint64_t ctl_reduce_sum_id(const struct ctl_job *job, uint32_t round) {
	const struct ctl_sum *sum = &job->sums[round % CTL_SUMS_KEPT];

	return sum->round == round ? sum->sum_id : 0;
}

void ctl_reduce_note_end(struct ctl_job *job, const struct ctl_reduce *r) {
	struct ctl_sum *newest = &job->sums[r->round % CTL_SUMS_KEPT];

	if (newest->round < r->round || (newest->round == r->round && newest->sum_id < r->sum_id))
		*newest = (struct ctl_sum){r->round, r->sum_id};
}

void ctl_reduce_seen(struct ctl_job *job, uint32_t round) {
	if (round > job->reduce_round)
		job->reduce_round = round;
}

/* A sum of that round exists: the round is not repeated, not for a worker that asks later either; the job continues
 * after it. */
static void note_sum(struct hd_controller *c, struct ctl_job *job, uint32_t round) {
	if (!job->goes_on || !job->formed)
		ctl_check_by(c, c->now + 1);
	job->goes_on = true;
	if (round > job->reduce_had)
		job->reduce_had = round;
	ctl_reduce_seen(job, round);
	ctl_reduce_keep(c, job);
}

void ctl_reduce_mark_unconfirmed(struct ctl_job *job, uint16_t worker, uint32_t round) {
	assert(worker < HD_WORKERS_MAX && round > 0);
	job->unconfirmed[worker] = round;
}

void ctl_reduce_confirm_later(struct ctl_job *job) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->unconfirmed[i] > job->reduce_round)
			job->unconfirmed[i] = 0;
}

void ctl_reduce_confirm(struct ctl_job *job, const struct ctl_reduce *r) {
	uint64_t sum_id = 0;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_DONE && job->unconfirmed[i] != r->round)
			return;
		if (job->unconfirmed[i] == r->round && job->has[i].round == r->round
		    && job->has[i].sum_id > sum_id)
			sum_id = job->has[i].sum_id;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->unconfirmed[i] == r->round
		    && !ctl_reduce_has_other(job, i, r->round, sum_id))
			job->unconfirmed[i] = 0;
}

void ctl_reduce_reset_worker(struct ctl_job *job, uint16_t worker) {
	struct ctl_reduce *r;

	job->unconfirmed[worker] = 0;
	job->has[worker] = (struct ctl_sum){0};
	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->part[worker] == CTL_PART_GONE)
			ctl_reduce_part(r, worker, CTL_PART_NONE);
}

void ctl_reduce_learn(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	const struct ctl_sum *sum
) {
	const uint32_t round = sum->round;
	const uint64_t sum_id = sum->sum_id;
	struct ctl_sum *newest = &job->sums[round % CTL_SUMS_KEPT];
	struct ctl_sum *has = &job->has[worker];

	if (round == 0)
		return;
	if (!ctl_round_is_possible(c, job, round)) {
		c->counters.hostile_value++;
		return;
	}
	note_sum(c, job, round);
	if (sum_id == 0)
		return;
	if (round >= has->round)
		*has = (struct ctl_sum){round, sum_id};
	if (newest->round != round) {
		if (newest->round < round)
			*newest = (struct ctl_sum){round, sum_id};
		return;
	}
	if (sum_id < newest->sum_id)
		ctl_reduce_mark_unconfirmed(job, worker, round);
	for (uint16_t i = 0; i < HD_WORKERS_MAX && sum_id > newest->sum_id; i++)
		if (ctl_reduce_has_other(job, i, round, sum_id))
			ctl_reduce_mark_unconfirmed(job, i, round);
	newest->sum_id = sum_id > newest->sum_id ? sum_id : newest->sum_id;
}

bool ctl_reduce_is_apart(struct ctl_job *job, const struct hd_msg_request *m) {
	uint32_t unconfirmed = job->unconfirmed[m->worker];
	struct ctl_reduce *r;

	if (unconfirmed == m->round)
		job->unconfirmed[m->worker] = 0; /* it has no sum of the round */
	if (unconfirmed == 0 || m->have <= unconfirmed)
		return false;
	job->unconfirmed[m->worker] = 0;
	job->has[m->worker] = (struct ctl_sum){0}; /* it is told only once */
	r = ctl_reduce_find(job, unconfirmed);
	if (r && r->part[m->worker] == CTL_PART_DONE)
		ctl_reduce_part(r, m->worker, CTL_PART_OUT); /* its sum is not the others' */
	return true;
}

void ctl_reduce_fini(struct hd_controller *c, struct ctl_job *job) {
	struct ctl_reduce *next;

	for (struct ctl_reduce *r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		ctl_reduce_forget(c, job, r);
	}
	ctl_pair_fini(c, job);
}
