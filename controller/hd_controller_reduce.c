/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_controller_core.h"
#include "hd_controller_reduce.h"
#include "hd_group.h"

#include <stdlib.h>

/* --- the table --- */

static struct ctl_reduce *find(const struct ctl_job *job, uint32_t round) {
	struct ctl_reduce *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->round == round)
			return r;
	return NULL;
}

static void set_part(struct ctl_reduce *r, uint16_t worker, enum ctl_part part) {
	r->count[r->part[worker]]--;
	r->part[worker] = (uint8_t)part;
	r->count[part]++;
}

/* Has asked for nothing, or not again. */
static bool is_idle(const struct ctl_reduce *r, uint16_t worker) {
	return r->part[worker] == CTL_PART_NONE || r->part[worker] == CTL_PART_VOID;
}

/* Whoever has ended this round already, and those that came later, are not waited for. */
static void leave_out(const struct ctl_job *job, struct ctl_reduce *r) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && is_idle(r, i) && job->workers[i]->reduce_from > r->round)
			set_part(r, i, CTL_PART_OUT);
}

static struct ctl_reduce *add(struct ctl_job *job, const struct hd_msg_request *m) {
	struct ctl_reduce *r;

	if (job->reduce_count >= CTL_REDUCES_MAX)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->round = m->round;
	r->dtype = m->dtype;
	r->order = m->order;
	r->bytes = m->bytes;
	TAILQ_INSERT_TAIL(&job->reduces, r, entry);
	job->reduce_count++;
	leave_out(job, r);
	return r;
}

static void forget(struct ctl_job *job, struct ctl_reduce *r) {
	TAILQ_REMOVE(&job->reduces, r, entry);
	job->reduce_count--;
	free(r->shards);
	free(r);
}

void ctl_reduce_fini(struct ctl_job *job) {
	struct ctl_reduce *r;

	while ((r = TAILQ_FIRST(&job->reduces)))
		forget(job, r);
}

static void tell_event(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	enum hd_event_kind kind,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = kind,
			.reason = reason,
			.job = job->id,
			.direction = HD_REDUCE,
			.round = r->round,
			.bytes = r->bytes,
			.aux = r->shard_count,
		}
	);
}

static void say_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_msg_request request = {
		.job = job->id,
		.worker = worker,
		.round = r->round,
		.direction = HD_REDUCE,
		.attempt = r->attempt[worker],
		.bytes = r->bytes,
	};

	if (job->workers[worker])
		ctl_drop_request(c, job->workers[worker], &request, reason, sink);
}

/* Nobody else will have another sum of this round than those that are in doubt. */
static void believe(struct ctl_job *job, const struct ctl_reduce *r) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_DONE && job->doubt[i] != r->round)
			return;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->doubt[i] == r->round)
			job->doubt[i] = 0;
}

static void drop_all(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED || r->part[i] == CTL_PART_TOLD)
			say_drop(c, job, r, i, reason, sink);
	forget(job, r);
}

/* --- beginning --- */

static void
begin(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	struct ctl_reduce_words words;
	enum hd_reason reason = ctl_reduce_cut(c, job, r);

	if (reason == HD_REASON_HOLD) {
		ctl_check_by(c, c->now + CTL_REDUCE_WAIT_NS);
		return;
	}
	if (!reason)
		reason = ctl_reduce_prepare(c, r, &words);
	if (reason) {
		drop_all(c, job, r, reason, sink);
		return;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED)
			set_part(r, i, CTL_PART_TOLD);
	r->begun = true;
	job->reduce_round = r->round > job->reduce_round ? r->round : job->reduce_round;
	ctl_reduce_keep(c, job);
	c->counters.reduces++;
	ctl_reduce_say(c, job, r, &words, sink);
	tell_event(c, job, r, HD_EVENT_GRANTED, HD_REASON_NONE, sink);
}

static bool any_aggregator(const struct hd_controller *c) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry)
		if (ctl_may_add(node))
			return true;
	return false;
}

/* Whether everybody has asked, and there is somebody to add: a late aggregator is waited for. */
static void
consider(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	hd_ns patience = hd_ns_add(c->started, ctl_silence(c));

	if (r->begun || !job->formed || r->count[CTL_PART_ASKED] == 0
	    || r->count[CTL_PART_ASKED] + r->count[CTL_PART_OUT] != job->worker_count || c->paused
	    || job->paused)
		return;
	if (any_aggregator(c)) {
		r->alone_since = 0;
		begin(c, job, r, sink);
		return;
	}
	r->alone_since = r->alone_since ? r->alone_since : c->now;
	patience = hd_ns_max(patience, hd_ns_add(r->alone_since, CTL_REDUCE_PATIENCE_NS));
	if (c->now < patience)
		ctl_check_by(c, patience);
	else
		drop_all(c, job, r, HD_REASON_NO_SERVER, sink);
}

void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_reduce *r, *next;

	ctl_reduce_form(c, job);
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		consider(c, job, r, sink);
	}
}

/* --- ends --- */

static void say_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	uint64_t token,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job->id;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	(void)ctl_send(c, node, &message, sink);
}

/* Everybody who is under way stops, and asks again; but when somebody has the sum and will not give its values
 * a second time, the others cannot get it any more. */
static void
fail(struct hd_controller *c,
     struct ctl_job *job,
     struct ctl_reduce *r,
     enum hd_reason reason,
     struct hd_sink *sink) {
	bool lost = r->count[CTL_PART_DONE] > 0;

	c->counters.reduces_failed++;
	tell_event(c, job, r, HD_EVENT_VOIDED, reason, sink);
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].aggregator->role
		    == HD_ROLE_AGGREGATOR) /* also one that is drained */
			say_void(c, job, r->shards[i].aggregator, r->shards[i].group, reason, sink);
	r->shard_count = 0;
	r->begun = false;
	if (lost) {
		believe(job, r);
		drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_GONE) {
			set_part(r, i, CTL_PART_NONE);
			job->doubt[i] = r->round;
		}
		if (r->part[i] != CTL_PART_TOLD)
			continue;
		set_part(r, i, CTL_PART_VOID);
		if (job->workers[i])
			say_void(c, job, job->workers[i], r->token[i], reason, sink);
	}
	leave_out(job, r);
}

static void
settle(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	bool nobody = r->count[CTL_PART_OUT] == 0 || r->count[CTL_PART_OUT] == job->worker_count;

	nobody = nobody && r->count[CTL_PART_ASKED] == 0 && r->count[CTL_PART_VOID] == 0;
	if (r->begun ? r->count[CTL_PART_TOLD] == 0 : nobody)
		forget(job, r);
	else
		consider(c, job, r, sink);
}

/* This worker has ended the round without its sum: nobody waits for it there. */
static void drop_out(
	struct hd_controller *c,
	struct ctl_job *job,
	uint32_t round,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = find(job, round);

	if (!r || r->part[worker] == CTL_PART_DONE)
		return;
	set_part(r, worker, CTL_PART_OUT);
	settle(c, job, r, sink);
}

/* It has its sum: the others can not get theirs without it any more. */
static void
has_sum(struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink) {
	/* Not that which is made now: it was lost when it got it, and the others began anew. */
	if (r->begun && r->part[worker] == CTL_PART_NONE)
		job->doubt[worker] = r->round;
	if (!r->begun) {
		believe(job, r);
		drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	set_part(r, worker, CTL_PART_DONE);
	settle(c, job, r, sink);
}

/* Another life of this worker has nothing of what the one before may have got. */
static void begins_anew(struct ctl_job *job, uint16_t worker) {
	struct ctl_reduce *r;

	job->doubt[worker] = 0;
	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->part[worker] == CTL_PART_GONE)
			set_part(r, worker, CTL_PART_NONE);
}

void ctl_reduce_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	uint64_t boot = hd_session_peer_boot(job->workers[m->worker]->session);
	struct ctl_reduce *r, *next;

	if (boot != job->boot[m->worker])
		begins_anew(job, m->worker);
	job->boot[m->worker] = boot;
	if (job->worker_count == 1)
		job->gathered_at = hd_ns_add(c->now, ctl_silence(c));
	job->goes_on = job->goes_on || m->reduce_round > 0;
	if (m->reduce_round > job->reduce_round)
		job->reduce_round = m->reduce_round;
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->round <= m->reduce_round)
			has_sum(c, job, r, m->worker, sink);
	}
}

void ctl_reduce_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = node->job ? find(node->job, m->round) : NULL;
	bool has = m->outcome == HD_OUTCOME_APPLIED, known = false;

	/* GONE: it is back. VOID: that word crossed this one. NONE: an earlier controller began it. */
	if (r && m->worker == node->worker) {
		enum ctl_part part = r->part[m->worker];

		known = m->attempt == r->attempt[m->worker] ?
			part == CTL_PART_TOLD || part == CTL_PART_GONE || is_idle(r, m->worker) :
			has && !r->begun && is_idle(r, m->worker);
	}
	if (!known) {
		c->counters.reports_unknown++;
		if (!r && has && node->job && m->round > node->job->reduce_round)
			node->job->reduce_round = m->round;
		return;
	}
	c->counters.reports++;
	if (has) {
		has_sum(c, node->job, r, m->worker, sink);
		return;
	}
	if (r->begun)
		fail(c, node->job, r, m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE, sink
		);
	drop_out(c, node->job, m->round, m->worker, sink);
}

static struct ctl_reduce *
find_group(const struct ctl_job *job, const struct ctl_node *aggregator, uint64_t group) {
	struct ctl_reduce *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		for (uint32_t i = 0; i < r->shard_count; i++)
			if (r->shards[i].group == group && r->shards[i].aggregator == aggregator)
				return r;
	return NULL;
}

bool ctl_reduce_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_reduce *r = job ? find_group(job, aggregator, m->token) : NULL;

	if (!r)
		return false;
	/* That a sum was delivered its receivers say. */
	if (m->outcome != HD_OUTCOME_FAILED)
		return true;
	/* It would refuse the next attempt as well. */
	if (m->reason == HD_REASON_NO_MEMORY)
		ctl_group_refused(c, aggregator, m->reason);
	fail(c, job, r, m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE, sink);
	return true;
}

/* Its values may be in the sums already: whether they are, the aggregators say. */
void ctl_reduce_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce *r, *next;

	if (job->worker_count == 0) { /* who comes next begins anew */
		job->formed = job->goes_on = false;
		job->world = 0;
	}
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->part[worker] == CTL_PART_TOLD) {
			set_part(r, worker, CTL_PART_GONE);
		} else if (r->part[worker] != CTL_PART_DONE && r->part[worker] != CTL_PART_GONE) {
			if (r->part[worker] == CTL_PART_VOID)
				job->doubt[worker] = r->round;
			set_part(r, worker, CTL_PART_NONE);
		}
		settle(c, job, r, sink);
	}
}

void ctl_reduce_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	struct hd_sink *sink
) {
	for (uint32_t k = 0; k < c->job_count; k++) {
		struct ctl_reduce *r, *next;

		for (r = TAILQ_FIRST(&c->jobs[k]->reduces); r; r = next) {
			bool has = false;

			next = TAILQ_NEXT(r, entry);
			for (uint32_t i = 0; i < r->shard_count; i++)
				has = has || r->shards[i].aggregator == aggregator;
			if (has)
				fail(c, c->jobs[k], r, HD_REASON_LEASE, sink);
		}
	}
}

/* --- asking --- */

/* NONE, or why this never begins. */
static enum hd_reason wrong(const struct ctl_job *job, const struct hd_msg_request *m) {
	const struct ctl_reduce *r = find(job, m->round);

	if (m->round == 0 || m->attempt == 0 || m->order > HD_GROUP_RANKED)
		return HD_REASON_REFUSED;
	if (!hd_dtype_is_model(m->dtype) || m->bytes == 0 || m->bytes > HD_MODEL_BYTES_MAX
	    || m->bytes % hd_dtype_bytes(m->dtype) != 0)
		return HD_REASON_REFUSED;
	if (r && (r->bytes != m->bytes || r->dtype != m->dtype || r->order != m->order))
		return HD_REASON_REFUSED;
	/* Everybody else has it: its values are gone. */
	if (!r && m->round <= job->reduce_round)
		return HD_REASON_LATE;
	if (r && r->begun && r->part[m->worker] != CTL_PART_TOLD)
		return HD_REASON_LATE;
	return HD_REASON_NONE;
}

/* It was cut off with the sum of a round that the others made again: it goes other ways than they. */
static bool is_apart(struct ctl_job *job, const struct hd_msg_request *m) {
	uint32_t doubt = job->doubt[m->worker];
	struct ctl_reduce *r;

	if (doubt == m->round)
		job->doubt[m->worker] = 0; /* it has none */
	if (doubt == 0 || m->have <= doubt)
		return false;
	job->doubt[m->worker] = 0;
	r = find(job, doubt);
	if (r && r->part[m->worker] == CTL_PART_DONE)
		set_part(r, m->worker, CTL_PART_OUT); /* its sum is not theirs */
	return true;
}

void ctl_reduce_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	enum hd_reason reason;
	struct ctl_reduce *r, *next;

	node->reduce_from = m->have > m->round ? m->round : (uint32_t)m->have;
	/* Rounds that it has ended, of which we may not have heard. */
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->round < node->reduce_from && !r->begun && r->part[m->worker] != CTL_PART_OUT)
			drop_out(c, job, r->round, m->worker, sink);
	}
	reason = wrong(job, m);
	if (is_apart(job, m) && !reason)
		reason = HD_REASON_LATE;
	r = find(job, m->round);
	if (!reason && !r) {
		r = add(job, m);
		reason = r ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
	}
	if (reason) {
		c->counters.requests_refused++;
		ctl_drop_request(c, node, m, reason, sink);
		if (reason == HD_REASON_LATE) {
			node->reduce_from += node->reduce_from == m->round;
			drop_out(c, job, m->round, m->worker, sink);
		}
		return;
	}
	/* Another life of it begins to count anew. */
	if (m->attempt <= r->attempt[m->worker] && !is_idle(r, m->worker)) {
		c->counters.requests_repeated++;
		return;
	}
	c->counters.requests++;
	/* Who asks again has given up what was under way, and with it the others have. */
	if (r->part[m->worker] == CTL_PART_TOLD)
		fail(c, job, r, HD_REASON_VOID, sink);
	r = find(job, m->round);
	if (!r) {
		ctl_drop_request(c, node, m, HD_REASON_LATE, sink);
		return;
	}
	r->attempt[m->worker] = m->attempt;
	set_part(r, m->worker, CTL_PART_ASKED);
	consider(c, job, r, sink);
}

void ctl_reduce_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *m,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = node->job ? find(node->job, m->round) : NULL;

	if (!r || m->worker != node->worker || r->part[m->worker] == CTL_PART_NONE)
		return;
	c->counters.cancels++;
	if (r->part[m->worker] == CTL_PART_TOLD) {
		fail(c, node->job, r, HD_REASON_CANCELLED, sink);
		r = find(node->job, m->round);
	}
	if (!r)
		return;
	set_part(r, m->worker, CTL_PART_OUT);
	settle(c, node->job, r, sink);
}
