/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rounds of a job do when one of its workers registers, or when a worker or an aggregator is lost. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_pair_ends.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "ctl_wait.h"

/* A later round may have ended before an earlier one, which the worker then still needs. */
static bool was_had(const struct hd_msg_register_ *m, uint32_t round) {
	if (round >= m->reduce_round || m->reduce_round - round > 64)
		return round <= m->reduce_round;
	return m->reduce_had >> (m->reduce_round - round - 1) & 1;
}

void ctl_reduce_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	uint64_t boot = hd_session_peer_boot(job->workers[m->worker]->session);
	struct ctl_reduce *r, *next;

	job->workers[m->worker]->reduce_from = m->reduce_from;
	ctl_wait_registered(c, job->workers[m->worker], m->reduce_called);
	if (m->world > job->world)
		job->world = m->world;
	ctl_reduce_count_workers(job);
	if (boot != job->boot[m->worker]) {
		ctl_reduce_reset_worker(job, m->worker);
		ctl_shared_end(job);
	} else {
		ctl_reduce_continue(job);
	}
	ctl_pair_attach(c, job, m->worker, boot != job->boot[m->worker], sink);
	job->boot[m->worker] = boot;
	if (job->worker_count == 1)
		job->gathered_at = hd_ns_add(c->now, ctl_silence(c));
	ctl_reduce_learn(c, job, m->worker, &(struct ctl_sum){m->reduce_round, m->sum_id});
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (was_had(m, r->round))
			ctl_reduce_has_sum(c, job, r, m->worker, sink);
		else if (!r->begun && r->round < m->reduce_from)
			ctl_reduce_drop_out(
				c, job, r->round, m->worker, sink
			); /* that message was lost */
	}
}

/* In shared memory the others wait for it, unless the round is complete for all. */
static void
fail_shared(struct hd_controller *c, struct ctl_job *job, uint16_t worker, struct hd_sink *sink) {
	struct ctl_reduce *r, *next;

	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->shared != 0 && r->part[worker] == CTL_PART_STARTED
		    && r->count[CTL_PART_DONE] == 0)
			ctl_reduce_fail(c, job, r, HD_REASON_LEASE, sink);
	}
}

/* Its values may be in the sums already; the aggregators report whether they are. */
void ctl_reduce_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce *r, *next;

	if (job->worker_count == 0) { /* the next worker begins a new job */
		ctl_reduce_disband(job);
		job->world = 0;
	}
	ctl_lease_worker_down(c, job, worker, sink);
	fail_shared(c, job, worker, sink);
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		const uint32_t round = r->round;

		next = TAILQ_NEXT(r, entry);
		if (r->part[worker] == CTL_PART_STARTED || r->part[worker] == CTL_PART_GIVEN) {
			ctl_reduce_part(r, worker, CTL_PART_GONE);
			/* No member receives it any more: all ask again, and are told that the root is lost. */
			if (worker == r->call.root && r->receives[worker] && r->shared == 0
			    && (r->call.collective == HD_COLLECTIVE_REDUCE
				|| r->call.collective == HD_COLLECTIVE_GATHER))
				ctl_reduce_fail(c, job, r, HD_REASON_LEASE, sink);
		} else if (r->part[worker] != CTL_PART_DONE && r->part[worker] != CTL_PART_GONE) {
			if (r->part[worker] == CTL_PART_VOID)
				ctl_reduce_mark_unconfirmed(job, worker, r->round);
			ctl_reduce_part(r, worker, CTL_PART_NONE);
		}
		r = ctl_reduce_find(
			job, round
		); /* one that failed, and is lost to all others, is gone */
		if (r)
			ctl_reduce_settle(c, job, r, sink);
	}
	if (job->worker_count == 0)
		ctl_reduce_confirm_later(job);
	ctl_pair_worker_down(c, job, worker, sink);
}

/* The aggregator of a worker that has left ends when it has delivered all its sums and has reported which it could not,
 * so it lacks at most a GROUP that it has not received. */
static bool has_delivered(struct hd_controller *c, const struct ctl_node *aggregator) {
	const struct ctl_job *job = ctl_job_find(c, aggregator->host_job);

	return aggregator->host_job != 0 && hd_session_left(aggregator->session)
		&& hd_session_queued(aggregator->session) == 0
		&& !(job && job->workers[aggregator->worker]);
}

/* Members that still give to a shard that no other needs see that it is gone, and ask again. */
void ctl_reduce_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	struct hd_sink *sink
) {
	const bool delivered = has_delivered(c, aggregator);

	for (uint32_t k = 0; k < c->job_count; k++) {
		struct ctl_reduce *r, *next;

		for (r = TAILQ_FIRST(&c->jobs[k]->reduces); r; r = next) {
			next = TAILQ_NEXT(r, entry);
			if (!delivered && ctl_reduce_needs(r, aggregator))
				ctl_reduce_fail(c, c->jobs[k], r, HD_REASON_LEASE, sink);
			else
				ctl_reduce_forget_aggregator(r, aggregator);
		}
	}
	ctl_pair_aggregator_down(c, aggregator, delivered, sink);
}
