/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases of slots: who gets one, and when it ends. */
#include "ctl_base.h"
#include "ctl_slots.h"
#include "hd_group.h"
#include "hd_kernels.h"

#include <stdlib.h>

/* --- the decision --- */

/* Writes the decision to the journal when it differs from the last one. */
static enum ctl_reduce_path
decide(const struct hd_controller *c,
       struct ctl_job *job,
       enum ctl_reduce_path path,
       const char *why) {
	if (job->why != why && path == CTL_PATH_SHARDS && why != ctl_why_no_switch)
		ctl_lease_record(c, job, NULL, "shards", why);
	job->why = why;
	return path;
}

/* --- ends --- */

void ctl_lease_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_lease *lease = job->lease;

	for (uint32_t i = 0; lease && i < lease->seat_count; i++) {
		if (lease->seats[i].worker != worker || (lease->waits >> i & 1) == 0)
			continue;
		lease->waits &= ~(UINT64_C(1) << i);
		if (lease->waits)
			(void)ctl_lease_send(c, lease, sink);
		else
			ctl_check_by(c, c->now); /* the lease ends */
		return;
	}
}

/* NONE, or why the lease has to end. */
static enum hd_reason is_over(const struct hd_controller *c, const struct ctl_lease *lease) {
	if (!lease->job || lease->waits == 0)
		return HD_REASON_LEFT;
	if (!lease->held)
		return c->now >= hd_ns_add(lease->asked, CTL_LEASE_WAIT_NS) ? HD_REASON_TIMEOUT :
									      HD_REASON_NONE;
	if (!c->switching)
		return HD_REASON_CANCELLED;
	return c->now >= hd_ns_add(lease->used, CTL_LEASE_IDLE_NS) ? HD_REASON_EXPIRED :
								     HD_REASON_NONE;
}

hd_ns ctl_lease_check(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_lease *lease, *next;
	hd_ns at = HD_NEVER;

	for (lease = TAILQ_FIRST(&c->leases); lease; lease = next) {
		enum hd_reason reason;

		next = TAILQ_NEXT(lease, entry);
		if (ctl_lease_is_busy(lease))
			lease->used = c->now;
		else if ((reason = is_over(c, lease))) {
			if (reason == HD_REASON_TIMEOUT) {
				c->counters.leases_refused++;
				ctl_switch_rests(c, lease->node);
			}
			ctl_lease_end(c, lease, reason, sink);
			continue;
		}
		at = hd_ns_min(
			at,
			lease->held ? hd_ns_add(lease->used, CTL_LEASE_IDLE_NS) :
				      hd_ns_add(lease->asked, CTL_LEASE_WAIT_NS)
		);
	}
	return at;
}

/* --- the path of a round --- */

static bool is_seated(const struct ctl_lease *lease, const struct ctl_job *job, uint16_t worker) {
	for (uint32_t i = 0; i < lease->seat_count; i++)
		if (lease->seats[i].worker == worker && (lease->waits >> i & 1) != 0)
			return hd_addr_equal(lease->seats[i].addr, job->workers[worker]->data);
	return false;
}

/* Whether the lease has just these workers, and chunks in which the round can be added. */
static bool
fits(const struct ctl_lease *lease, const struct ctl_job *job, const struct ctl_reduce *r) {
	uint32_t count = (uint32_t)__builtin_popcountll(lease->waits);

	if (count != r->count[CTL_PART_ASKED] || lease->node->draining
	    || (lease->dtype == HD_DTYPE_FP32 && r->order != HD_GROUP_ARRIVAL))
		return false;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED && !is_seated(lease, job, i))
			return false;
	return true;
}

/* NULL, or why this round never goes through a switch. */
static const char *
is_unfit(const struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	bool aggregator = ctl_reduce_any_aggregator(c, job);

	if (!c->switching)
		return "off";
	if (r->dtype != HD_DTYPE_FP32)
		return "type";
	if (r->op != HD_REDUCE_OP_SUM && r->op != HD_REDUCE_OP_AVERAGE)
		return "operation";
	if (r->avoid
	    || (r->stood_still && (aggregator || r->switch_failures >= CTL_LEASE_STILL_ALONE)))
		return "avoided";
	if (aggregator && r->switch_failures >= CTL_LEASE_FAILURES)
		return "failed";
	if (aggregator && r->count[CTL_PART_ASKED] < 2)
		return "alone";
	return NULL;
}

static const char *lease_new(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_reduce *r,
	struct hd_sink *sink
) {
	struct ctl_lease *lease = calloc(1, sizeof *lease);
	const char *why = lease ? ctl_lease_pick(c, job, r, lease, sink) : "memory";

	if (why) {
		free(lease);
		return why;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED)
			lease->seats[lease->seat_count++] = (struct ctl_seat){
				.worker = i,
				.token = hd_token_draw(&c->entropy, false),
				.result_token = hd_token_draw(&c->entropy, false),
				.addr = job->workers[i]->data,
			};
	lease->waits = UINT64_MAX >> (64 - lease->seat_count);
	lease->name = hd_entropy_u64(&c->entropy);
	job->lease_attempt = (uint8_t)(job->lease_attempt % UINT8_MAX + 1);
	lease->attempt = job->lease_attempt;
	lease->job = job;
	lease->job_id = job->id;
	lease->asked = lease->used = c->now;
	job->lease = lease;
	TAILQ_INSERT_TAIL(&c->leases, lease, entry);
	if (ctl_lease_send(c, lease, sink) < 0) {
		ctl_lease_forget(c, lease);
		return "refused";
	}
	ctl_lease_record(c, job, lease, "leased", "none");
	ctl_check_by(c, hd_ns_add(c->now, CTL_LEASE_WAIT_NS));
	return NULL;
}

/* The job's lease is for other workers, or of another size. */
static const char *
renew(struct hd_controller *c, struct ctl_job *job, const struct ctl_reduce *r, struct hd_sink *sink
) {
	if (job->lease)
		ctl_lease_end(c, job->lease, HD_REASON_VOID, sink);
	return lease_new(c, job, r, sink);
}

enum ctl_reduce_path ctl_lease_choose_path(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_reduce *r,
	struct hd_sink *sink
) {
	const char *why = is_unfit(c, job, r);
	struct ctl_lease *lease = job->lease;
	bool busy;

	if (why)
		return decide(c, job, CTL_PATH_SHARDS, why);
	busy = lease && ctl_lease_is_busy(lease);
	if (lease && fits(lease, job, r)
	    && (busy ? !ctl_lease_is_over(c, lease) : ctl_lease_is_fair(c, lease))) {
		if (lease->dtype == HD_DTYPE_FIXED32
		    && ctl_lease_exponent(r) > HD_FIXED_EXPONENT_MAX)
			return decide(c, job, CTL_PATH_SHARDS, "values");
		if (lease->held)
			return decide(c, job, CTL_PATH_SLOTS, NULL);
		ctl_check_by(c, hd_ns_add(lease->asked, CTL_LEASE_WAIT_NS));
		return CTL_PATH_WAIT;
	}
	if (busy) { /* the round needs a new one: once the rounds before it are done */
		ctl_check_by(c, c->now + CTL_LEASE_BUSY_NS);
		return CTL_PATH_WAIT;
	}
	why = renew(c, job, r, sink);
	return why ? decide(c, job, CTL_PATH_SHARDS, why) : CTL_PATH_WAIT;
}
