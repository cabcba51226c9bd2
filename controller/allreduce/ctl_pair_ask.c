/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of workers and aggregators about pairs, and nodes that come and go. */
#include "ctl_base.h"
#include "ctl_pair_ends.h"
#include "ctl_transfers.h"

#include <assert.h>

static uint64_t boot_of(const struct ctl_job *job, uint16_t worker) {
	return job->workers[worker] ? hd_session_peer_boot(job->workers[worker]->session) : 0;
}

/* The end has not asked, or not again. */
static bool is_idle(const struct ctl_pair *pair, enum ctl_end end) {
	return pair->part[end] == CTL_PART_NONE || pair->part[end] == CTL_PART_VOID;
}

static void
deny(struct hd_controller *c,
     struct ctl_node *node,
     const struct hd_msg_request *m,
     struct ctl_denial denial,
     struct hd_sink *sink) {
	denial.sum_id = m->peer_boot;
	c->counters.requests_refused++;
	ctl_refuse_request(c, node, m, &denial, sink);
}

/* To an end that still counts with the other one's last process. */
static const struct ctl_denial replaced = {
	.reason = HD_REASON_PEER,
	.restart = true,
	.words = "the other worker is a new process: both count from 1 again",
};

/* They call different things: both are told. */
static void tell_mismatch(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	const char *words,
	struct hd_sink *sink
) {
	const struct ctl_denial denial = {.reason = HD_REASON_MISMATCH, .words = words};

	for (enum ctl_end end = CTL_END_SENDER; end < CTL_ENDS; end++)
		if (pair->part[end] == CTL_PART_ASKED)
			ctl_pair_send_drop(c, job, pair, end, &denial, sink);
	ctl_pair_forget(c, job, pair);
}

/* The pair of this request, after what the request says of an attempt in progress. NULL: it is answered. */
static struct ctl_pair *
take(struct hd_controller *c,
     struct ctl_node *node,
     const struct hd_msg_request *m,
     enum ctl_end end,
     struct hd_sink *sink) {
	struct ctl_pair *pair = ctl_pair_find(node->job, m->channel, m->round);

	if (!pair)
		pair = ctl_pair_add(node->job, m, end);
	if (!pair) {
		deny(c, node, m, (struct ctl_denial){.reason = HD_REASON_NO_MEMORY}, sink);
		return NULL;
	}
	if (m->attempt <= pair->attempt[end] && !is_idle(pair, end)) {
		c->counters.requests_repeated++;
		return NULL;
	}
	c->counters.requests++;
	pair->attempt[end] = m->attempt;
	pair->peer_boot[end] = m->peer_boot;
	/* It was cut off, and its values have arrived: otherwise it would not ask. */
	if (pair->begun && end == CTL_END_SENDER
	    && (pair->part[end] == CTL_PART_GONE || pair->part[end] == CTL_PART_GIVEN)) {
		ctl_pair_enter(pair, end, CTL_PART_GIVEN);
		return NULL;
	}
	/* It has given up the attempt in progress. */
	if (pair->begun)
		ctl_pair_fail(c, node->job, pair, HD_REASON_VOID, sink);
	return pair;
}

void ctl_pair_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	const enum ctl_end end = ctl_pair_end(m->channel, node->worker);
	char words[HD_TEXT_BYTES_MAX + 1];
	struct ctl_pair *pair;
	uint64_t boot;

	if (!ctl_pair_is_valid(m) || end == CTL_ENDS) {
		deny(c, node, m, (struct ctl_denial){.reason = HD_REASON_REFUSED}, sink);
		return;
	}
	boot = boot_of(
		job, end == CTL_END_SENDER ? hd_channel_to(m->channel) : hd_channel_from(m->channel)
	);
	if (m->peer_boot != 0 && boot != 0 && m->peer_boot != boot) {
		deny(c, node, m, replaced, sink);
		return;
	}
	pair = take(c, node, m, end, sink);
	if (!pair)
		return;
	ctl_pair_enter(pair, end, CTL_PART_ASKED);
	if (ctl_pair_differs(pair, m, words)) {
		tell_mismatch(c, job, pair, words, sink);
		return;
	}
	/* The receiver may have it already, if it was asked for before. */
	pair->ask_at = end == CTL_END_SENDER && m->attempt > 1 ? c->now : c->now + CTL_PAIR_ASK_NS;
	ctl_pair_consider(c, job, pair, sink);
}

void ctl_pair_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *m,
	struct hd_sink *sink
) {
	const enum ctl_end end = ctl_pair_end(m->channel, node->worker);
	struct ctl_pair *pair = ctl_pair_find(node->job, m->channel, m->round);

	if (!pair || end == CTL_ENDS || pair->part[end] == CTL_PART_NONE)
		return;
	c->counters.cancels++;
	ctl_pair_give_up(c, node->job, pair, end, "has given it up", sink);
}

void ctl_pair_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	const enum ctl_end end
		= job ? ctl_pair_end(m->channel, node->worker) : (enum ctl_end)CTL_ENDS;
	struct ctl_pair *pair = end < CTL_ENDS ? ctl_pair_find(job, m->channel, m->round) : NULL;
	const bool has = m->outcome == HD_OUTCOME_APPLIED;

	/* `base`: a receiver may have the values of the sender's last process. */
	if (!pair || (has && (end == CTL_END_SENDER || m->base == 0))
	    || (m->base != 0 && m->base != job->boot[pair->worker[ctl_other_end(end)]])) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	if (has)
		ctl_pair_deliver(c, job, pair, sink);
	else
		ctl_pair_give_up(c, job, pair, end, "could not take part", sink);
}

bool ctl_pair_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_pair *pair = job ? TAILQ_FIRST(&job->pairs) : NULL;

	while (pair && (pair->group != m->token || pair->aggregator != aggregator))
		pair = TAILQ_NEXT(pair, entry);
	if (!pair)
		return false;
	if (m->outcome != HD_OUTCOME_FAILED)
		return true;
	if (m->reason == HD_REASON_NO_MEMORY
	    || (m->reason == HD_REASON_CLOSED && aggregator->host_job != 0))
		ctl_group_refused(c, aggregator, job, m->reason);
	ctl_pair_fail(c, job, pair, m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE, sink);
	return true;
}

/* Whether the answering end has ended this pair. */
static bool has_ended(const struct hd_msg_channel *m, uint32_t number) {
	if (number > m->called || number < m->from)
		return number <= m->called;
	return number - m->from >= HD_CHANNEL_PAIRS_MAX || !(m->open >> (number - m->from) & 1);
}

static bool has_it(const struct hd_msg_channel *m, uint32_t number) {
	if (number >= m->newest)
		return number == m->newest;
	return m->newest - number <= HD_CHANNEL_PAIRS_MAX
		&& (m->had >> (m->newest - number - 1) & 1);
}

void ctl_pair_answer(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_channel *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	const enum ctl_end end
		= job ? ctl_pair_end(m->channel, node->worker) : (enum ctl_end)CTL_ENDS;
	struct ctl_pair *pair, *next;
	uint64_t boot;
	bool stale;

	assert(node->role == HD_ROLE_WORKER);
	if (end == CTL_ENDS || m->job != job->id || m->worker != node->worker) {
		c->counters.hostile_owner++;
		return;
	}
	boot = boot_of(
		job, end == CTL_END_SENDER ? hd_channel_to(m->channel) : hd_channel_from(m->channel)
	);
	stale = m->peer_boot != 0 && boot != 0 && m->peer_boot != boot;
	for (pair = TAILQ_FIRST(&job->pairs); pair; pair = next) {
		const enum ctl_end other = ctl_other_end(end);

		next = TAILQ_NEXT(pair, entry);
		/* It asked before it knew the other's last process, with which it counts: both begin again. */
		if (stale && pair->channel == m->channel && !pair->begun && !is_idle(pair, end)) {
			ctl_pair_send_drop(c, job, pair, end, &replaced, sink);
			ctl_pair_enter(pair, end, CTL_PART_NONE);
			if (pair->part[other] != CTL_PART_ASKED)
				ctl_pair_forget(c, job, pair);
			continue;
		}
		/* It may still count with the other's last process: then it says nothing of these. */
		if (pair->channel != m->channel || pair->begun || !is_idle(pair, end)
		    || pair->part[other] != CTL_PART_ASKED
		    || (m->peer_boot != 0 && m->peer_boot != boot_of(job, pair->worker[other])))
			continue;
		if (end == CTL_END_RECEIVER && m->peer_boot != 0 && has_it(m, pair->number))
			ctl_pair_deliver(c, job, pair, sink);
		else if (has_ended(m, pair->number))
			ctl_pair_give_up(c, job, pair, end, "has given it up", sink);
	}
}

/* This end counts with another process than this of the other one. */
static bool counts_with_another(const struct ctl_pair *pair, enum ctl_end end, uint64_t boot) {
	return pair->peer_boot[end] != 0 && pair->peer_boot[end] != boot;
}

/* --- nodes ---------------------------------------------------------------------------------- */

void ctl_pair_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	bool is_new,
	struct hd_sink *sink
) {
	const uint64_t boot = boot_of(job, worker);
	struct ctl_pair *pair, *next;

	for (pair = TAILQ_FIRST(&job->pairs); pair; pair = next) {
		const enum ctl_end end = ctl_pair_end(pair->channel, worker);
		const enum ctl_end other = ctl_other_end(end);

		next = TAILQ_NEXT(pair, entry);
		if (end == CTL_ENDS)
			continue;
		/* The values of its last process may have arrived, but a pair of the new one has this number, too. */
		if (is_new && pair->part[end] != CTL_PART_NONE) {
			ctl_pair_give_up(c, job, pair, end, "is a new process", sink);
		} else if (pair->part[other] == CTL_PART_ASKED && counts_with_another(pair, other, boot)) {
			ctl_pair_send_drop(c, job, pair, other, &replaced, sink);
			ctl_pair_forget(c, job, pair);
		} else if (!pair->begun) {
			pair->ask_at = c->now + CTL_PAIR_ASK_NS;
		}
	}
}

void ctl_pair_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_pair *pair, *next;

	for (pair = TAILQ_FIRST(&job->pairs); pair; pair = next) {
		const enum ctl_end end = ctl_pair_end(pair->channel, worker);

		next = TAILQ_NEXT(pair, entry);
		if (end == CTL_ENDS || pair->part[end] == CTL_PART_GONE)
			continue;
		/* Its values may have arrived at the aggregator, which reports it if they have not. */
		if (pair->begun && end == CTL_END_SENDER)
			ctl_pair_enter(pair, end, CTL_PART_GONE);
		else if (pair->part[end] != CTL_PART_NONE)
			ctl_pair_give_up(c, job, pair, end, "is lost", sink);
		else /* it was waited for */
			ctl_pair_consider(c, job, pair, sink);
	}
}

void ctl_pair_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	bool delivered,
	struct hd_sink *sink
) {
	for (uint32_t k = 0; k < c->job_count; k++) {
		struct ctl_pair *pair, *next;

		for (pair = TAILQ_FIRST(&c->jobs[k]->pairs); pair; pair = next) {
			next = TAILQ_NEXT(pair, entry);
			if (pair->aggregator != aggregator)
				continue;
			if (delivered)
				ctl_pair_forget_aggregator(pair);
			else
				ctl_pair_fail(c, c->jobs[k], pair, HD_REASON_LEASE, sink);
		}
	}
}

void ctl_pair_check(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_pair *pair, *next;

	job->pairs_held = false;
	for (pair = TAILQ_FIRST(&job->pairs); pair; pair = next) {
		next = TAILQ_NEXT(pair, entry);
		ctl_pair_consider(c, job, pair, sink);
	}
}
