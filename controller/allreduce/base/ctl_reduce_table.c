/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of a job: the table of them, and who stands where in each. */
#include "ctl_base.h"
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
	/* Those that have no part yet are not counted. */
	assert(r->part[worker] == CTL_PART_NONE || r->count[r->part[worker]] > 0);
	r->count[r->part[worker]]--;
	r->part[worker] = (uint8_t)part;
	r->count[part]++;
}

/* Has asked for nothing, or not again. */
bool ctl_reduce_is_idle(const struct ctl_reduce *r, uint16_t worker) {
	return r->part[worker] == CTL_PART_NONE || r->part[worker] == CTL_PART_VOID;
}

/* Whoever has ended this round already, and those that came later, are not waited for. */
void ctl_reduce_leave_out(const struct ctl_job *job, struct ctl_reduce *r) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && ctl_reduce_is_idle(r, i)
		    && job->workers[i]->reduce_from > r->round)
			ctl_reduce_part(r, i, CTL_PART_OUT);
}

struct ctl_reduce *ctl_reduce_add(struct ctl_job *job, const struct hd_msg_request *m) {
	struct ctl_reduce *r;

	if (job->reduce_count >= CTL_REDUCES_MAX)
		return NULL;
	r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->round = m->round;
	r->dtype = m->dtype;
	r->order = m->order;
	r->bytes = m->bytes;
	TAILQ_INSERT_TAIL(&job->reduces, r, entry);
	job->reduce_count++;
	ctl_reduce_leave_out(job, r);
	return r;
}

void ctl_reduce_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r) {
	ctl_reduce_vacate(c, r);
	TAILQ_REMOVE(&job->reduces, r, entry);
	job->reduce_count--;
	free(r->shards);
	free(r);
}

bool ctl_reduce_has_other(
	const struct ctl_job *job,
	uint16_t worker,
	uint32_t round,
	uint64_t making
) {
	return job->has[worker].round == round && job->has[worker].making != making;
}

void ctl_reduce_seen(struct ctl_job *job, uint32_t round) {
	if (round > job->reduce_round)
		job->reduce_round = round;
}

/* A sum of that round exists: it is not made again, nor for who asks for it later, and the job goes on behind it. */
static void note_sum(struct hd_controller *c, struct ctl_job *job, uint32_t round) {
	if (!job->goes_on || !job->formed)
		ctl_check_by(c, c->now + 1);
	job->goes_on = true;
	ctl_reduce_seen(job, round);
	ctl_reduce_keep(c, job);
}

void ctl_reduce_doubt(struct ctl_job *job, uint16_t worker, uint32_t round) {
	assert(worker < HD_WORKERS_MAX && round > 0);
	job->doubt[worker] = round;
}

void ctl_reduce_believe(struct ctl_job *job, const struct ctl_reduce *r) {
	uint64_t making = 0;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_DONE && job->doubt[i] != r->round)
			return;
		if (job->doubt[i] == r->round && job->has[i].round == r->round
		    && job->has[i].making > making)
			making = job->has[i].making;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->doubt[i] == r->round && !ctl_reduce_has_other(job, i, r->round, making))
			job->doubt[i] = 0;
}

void ctl_reduce_anew(struct ctl_job *job, uint16_t worker) {
	struct ctl_reduce *r;

	job->doubt[worker] = 0;
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
	const uint64_t making = sum->making;
	struct ctl_sum *newest = &job->sums[round % CTL_SUMS_KEPT];
	struct ctl_sum *has = &job->has[worker];

	if (round == 0)
		return;
	if (!ctl_round_is_possible(c, job, round)) {
		c->counters.hostile_value++;
		return;
	}
	note_sum(c, job, round);
	if (making == 0)
		return;
	if (round >= has->round)
		*has = (struct ctl_sum){round, making};
	if (newest->round != round) {
		if (newest->round < round)
			*newest = (struct ctl_sum){round, making};
		return;
	}
	if (making < newest->making)
		ctl_reduce_doubt(job, worker, round);
	for (uint16_t i = 0; i < HD_WORKERS_MAX && making > newest->making; i++)
		if (ctl_reduce_has_other(job, i, round, making))
			ctl_reduce_doubt(job, i, round);
	newest->making = making > newest->making ? making : newest->making;
}

bool ctl_reduce_is_apart(struct ctl_job *job, const struct hd_msg_request *m) {
	uint32_t doubt = job->doubt[m->worker];
	struct ctl_reduce *r;

	if (doubt == m->round)
		job->doubt[m->worker] = 0; /* it has none */
	if (doubt == 0 || m->have <= doubt)
		return false;
	job->doubt[m->worker] = 0;
	job->has[m->worker] = (struct ctl_sum){0}; /* and it hears so but once */
	r = ctl_reduce_find(job, doubt);
	if (r && r->part[m->worker] == CTL_PART_DONE)
		ctl_reduce_part(r, m->worker, CTL_PART_OUT); /* its sum is not theirs */
	return true;
}

void ctl_reduce_fini(struct hd_controller *c, struct ctl_job *job) {
	struct ctl_reduce *next;

	for (struct ctl_reduce *r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		ctl_reduce_forget(c, job, r);
	}
}
