/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a pair begins, and how it ends. The state of an end (ctl_part):
 *
 *          REQUEST          both have asked: REDUCE           the receiver's REPORT
 *   NONE -----------> ASKED ------------------------> STARTED ----------------------> (forgotten)
 *                      ^ ^                            |     \
 *                      | +------- VOID <--------------+      \ the sender is lost: its values may have arrived
 *                      |  REQUEST       void                  +--> GONE
 *                      +--------------- void -------- GIVEN <------+   it is back: it has given all its values
 */
#include "ctl_base.h"
#include "ctl_pair_ends.h"
#include "ctl_transfers.h"

#include <assert.h>
#include <stdio.h>

/* It waits for the controller's word. */
static bool waits(const struct ctl_pair *pair, enum ctl_end end) {
	return pair->part[end] == CTL_PART_ASKED || pair->part[end] == CTL_PART_STARTED
		|| pair->part[end] == CTL_PART_GIVEN;
}

static struct ctl_node *
node_of(const struct ctl_job *job, const struct ctl_pair *pair, enum ctl_end end) {
	return job->workers[pair->worker[end]];
}

void ctl_pair_give_up(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	enum ctl_end end,
	const char *why,
	struct hd_sink *sink
) {
	const enum ctl_end other = ctl_other_end(end);
	char words[HD_TEXT_BYTES_MAX + 1];
	const struct ctl_denial denial = {.reason = HD_REASON_PEER, .words = words};

	(void)snprintf(
		words,
		sizeof words,
		"%s %u %s rank %u: rank %u %s",
		other == CTL_END_SENDER ? "send" : "receive",
		pair->number,
		other == CTL_END_SENDER ? "to" : "from",
		pair->worker[end],
		pair->worker[end],
		why
	);
	if (pair->begun)
		ctl_pair_void_group(c, job, pair, HD_REASON_PEER, sink);
	if (waits(pair, other))
		ctl_pair_send_drop(c, job, pair, other, &denial, sink);
	ctl_pair_forget(c, job, pair);
}

void ctl_pair_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	assert(pair->begun);
	c->counters.pairs_failed++;
	ctl_pair_void_group(c, job, pair, reason, sink);
	ctl_pair_vacate(c, job, pair);
	for (enum ctl_end end = CTL_END_SENDER; end < CTL_ENDS; end++) {
		if (pair->part[end] == CTL_PART_STARTED) {
			ctl_pair_enter(pair, end, CTL_PART_VOID);
			ctl_pair_send_void(c, job, pair, end, reason, sink);
		} else if (pair->part[end] == CTL_PART_GIVEN) {
			ctl_pair_enter(pair, end, CTL_PART_ASKED);
			pair->ask_at = c->now + CTL_PAIR_ASK_NS;
			ctl_check_by(c, c->now + 1);
		} else if (pair->part[end] == CTL_PART_GONE) {
			ctl_pair_enter(pair, end, CTL_PART_NONE);
		}
	}
}

void ctl_pair_deliver(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
) {
	if (pair->part[CTL_END_SENDER] != CTL_PART_NONE)
		ctl_pair_send_reduced(c, job, pair, sink);
	ctl_pair_forget(c, job, pair);
}

static void
refuse(struct hd_controller *c,
       struct ctl_job *job,
       struct ctl_pair *pair,
       enum hd_reason reason,
       struct hd_sink *sink) {
	const struct ctl_denial denial = {.reason = reason};

	for (enum ctl_end end = CTL_END_SENDER; end < CTL_ENDS; end++)
		ctl_pair_send_drop(c, job, pair, end, &denial, sink);
	ctl_pair_forget(c, job, pair);
}

/* Whether the pair may still wait for an aggregator. */
static bool is_patient(struct hd_controller *c, struct ctl_pair *pair) {
	hd_ns until = hd_ns_add(c->started, ctl_silence(c));

	pair->alone_since = pair->alone_since ? pair->alone_since : c->now;
	until = hd_ns_max(until, hd_ns_add(pair->alone_since, CTL_REDUCE_PATIENCE_NS));
	if (c->now < until)
		ctl_check_by(c, until);
	return c->now < until;
}

static void
begin(struct hd_controller *c, struct ctl_job *job, struct ctl_pair *pair, struct hd_sink *sink) {
	struct ctl_node *aggregator = NULL;
	enum hd_reason reason;
	bool any;

	if (c->paused || job->paused)
		return;
	for (int end = 0; end < CTL_ENDS; end++)
		if (job->pairs_of[pair->worker[end]] >= CTL_PAIRS_OF_WORKER) {
			job->pairs_held = true;
			return;
		}
	reason = ctl_pair_choose(c, job, pair, &aggregator, &any);
	if (reason == HD_REASON_HOLD) {
		ctl_check_by(c, c->now + CTL_REDUCE_WAIT_NS);
		return;
	}
	if (reason && !any && is_patient(c, pair))
		return;
	if (reason) {
		refuse(c, job, pair, reason, sink);
		return;
	}
	pair->alone_since = 0;
	ctl_pair_occupy(job, pair, aggregator);
	ctl_pair_enter(pair, CTL_END_SENDER, CTL_PART_STARTED);
	ctl_pair_enter(pair, CTL_END_RECEIVER, CTL_PART_STARTED);
	ctl_pair_send(c, job, pair, sink);
	c->counters.pairs++;
}

/* It was there, or does not come. Those of a job that begins are waited for, and under a new controller process those
 * that have not registered again yet. */
static bool
is_lost(struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end) {
	const uint16_t worker = pair->worker[end];
	const hd_ns back = hd_ns_max(hd_ns_add(c->started, ctl_silence(c)), job->gathered_at);

	if (c->config.epoch > 1 && c->now < back && job->boot[worker] == 0) {
		ctl_check_by(c, back);
		return false;
	}
	if (pair->peer_boot[ctl_other_end(end)] != 0)
		return true;
	return job->formed && (job->boot[worker] != 0 || job->world > 0 || job->goes_on);
}

void ctl_pair_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
) {
	enum ctl_end missing = CTL_END_SENDER;

	if (pair->begun)
		return;
	if (pair->part[CTL_END_SENDER] == CTL_PART_ASKED)
		missing = CTL_END_RECEIVER;
	if (pair->part[ctl_other_end(missing)] != CTL_PART_ASKED)
		return;
	if (pair->part[missing] == CTL_PART_ASKED) {
		begin(c, job, pair, sink);
		return;
	}
	if (!node_of(job, pair, missing)) {
		if (is_lost(c, job, pair, missing))
			ctl_pair_give_up(c, job, pair, missing, "is lost", sink);
		return;
	}
	if (c->now >= pair->ask_at) {
		pair->ask_at = HD_NEVER;
		ctl_pair_send_question(c, job, pair, missing, sink);
	}
	if (pair->ask_at != HD_NEVER)
		ctl_check_by(c, pair->ask_at);
}
