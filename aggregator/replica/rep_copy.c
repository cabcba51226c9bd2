/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of updates, from the workers that pushed them. The replica sees in the log which copies it lacks and requests
 * them from the controller, which plans the transfers:
 *
 *   LOG 18 (worker 3, round 7) -> REQUEST(copy) -> EXPECT, chunks -> held
 *                                      \--> DROP: no node has it any more: a hole, which a state fills
 */
#include "rep_job.h"

/* A transfer that failed for this reason may succeed later; after any other the bytes are gone. */
static bool copy_may_come(uint8_t reason) {
	return reason == HD_REASON_TIMEOUT || reason == HD_REASON_CLOSED || reason == HD_REASON_VOID
		|| reason == HD_REASON_EPOCH || reason == HD_REASON_NO_MEMORY
		|| reason == HD_REASON_LEASE;
}

static struct rep_entry *
copy_entry(const struct rep_job *replica, uint16_t worker, uint32_t round) {
	struct rep_entry *entry;

	TAILQ_FOREACH (entry, &replica->entries, link)
		if (entry->head.member_count == 1 && entry->members[0].worker == worker
		    && entry->members[0].round == round)
			return entry;
	return NULL;
}

void rep_entry_free(struct hd_server *server, struct rep_entry *entry) {
	struct rep_job *replica = entry->replica;

	if (entry->copy) {
		entry->copy->entry = NULL;
		srv_incoming_destroy(server, entry->copy);
	}
	TAILQ_REMOVE(&replica->entries, entry, link);
	replica->entry_count--;
	free(entry);
}

static void copy_lose(struct srv_turn *turn, struct rep_entry *entry) {
	entry->lost = true;
	entry->replica->job->dirty = true; /* so that the hole is reported */
	turn->server->stats.copies_lost++;
}

/* --- requests --------------------------------------------------------------------------------- */

static void copy_ask(struct srv_turn *turn, struct rep_entry *entry) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	const struct rep_job *replica = entry->replica;

	if (entry->attempt == REP_ATTEMPTS_MAX) {
		copy_lose(turn, entry);
		return;
	}
	entry->attempt++;
	entry->asked = true;
	entry->since = turn->now;
	turn->server->stats.copies_asked++;
	message.request = (struct hd_msg_request){
		.job = replica->job->id,
		.worker = entry->members[0].worker,
		.round = entry->members[0].round,
		.direction = HD_COPY,
		.attempt = entry->attempt,
		.dtype = entry->head.dtype,
		.bytes = entry->head.bytes,
		.norm = entry->head.weight, /* identifies the grant: each has its own bytes */
		.base = entry->members[0].base,
		.have = entry->head.version,
	};
	srv_controller_send(turn, &message);
}

/* Requests the copy of one entry if it is due, or gives up the one that is silent. */
static void copy_look(struct srv_turn *turn, struct rep_entry *entry) {
	hd_ns fallback = hd_ns_add(entry->since, REP_FALLBACK_US * HD_US);
	hd_ns again = hd_ns_add(entry->since, REP_AGAIN_US * HD_US);
	struct srv_incoming *copy = entry->copy;
	hd_ns active;

	if (copy) {
		active = copy->kind == SRV_SUM ? hd_ns_max(copy->active, entry->since) :
						 copy->active;
		active = hd_ns_add(
			active, (copy->kind == SRV_SUM ? REP_SUM_SILENT_US : REP_SILENT_US) * HD_US
		);
		if (!srv_incoming_is_whole(copy) && turn->now > active)
			rep_copy_fail(turn, copy, HD_REASON_TIMEOUT);
		return;
	}
	if (!turn->server->upstream.registered) {
		/* There is no controller to plan it; the server's next state brings it. */
		if (turn->now >= fallback)
			copy_lose(turn, entry);
		return;
	}
	if (!entry->asked && (entry->attempt == 0 || turn->now >= again))
		copy_ask(turn, entry);
}

void rep_copies_look(struct srv_turn *turn, struct rep_job *replica) {
	struct rep_entry *entry = rep_job_first(replica), *next;
	uint32_t asked = 0;

	for (; entry && asked < REP_ASKED_MAX; entry = next, asked++) {
		next = TAILQ_NEXT(entry, link);
		if (!entry->lost
		    && !(replica->receiving && entry->head.version <= replica->received))
			copy_look(turn, entry);
	}
	rep_sums_look(turn, replica);
	hd_timer_set(
		&turn->server->timers,
		&replica->timer,
		TAILQ_EMPTY(&replica->entries) && TAILQ_EMPTY(&replica->sums) ?
			HD_NEVER :
			hd_ns_add(turn->now, REP_LOOK_US * HD_US)
	);
}

void rep_copies_ask_again(struct srv_turn *turn) {
	struct rep_entry *entry;
	struct rep_job *replica;

	TAILQ_FOREACH (replica, &turn->server->replicas, link) {
		rep_sums_end(turn, replica, HD_REASON_EPOCH);
		TAILQ_FOREACH (entry, &replica->entries, link) {
			entry->asked = entry->copy != NULL;
			entry->since = turn->now;
			entry->attempt = entry->copy ? entry->attempt : 0;
		}
		replica->job->dirty = true;
	}
}

/* --- the controller's answers ----------------------------------------------------------------- */

static void
copy_refuse(struct srv_turn *turn, const struct hd_msg_expect *expect, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report = (struct hd_msg_report){
		.job = expect->job,
		.worker = expect->worker,
		.round = expect->round,
		.direction = HD_COPY,
		.attempt = expect->attempt,
		.token = expect->token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
	};
	turn->server->stats.refused_messages++;
	srv_controller_send(turn, &message);
}

void rep_copy_expect(struct srv_turn *turn, const struct hd_msg_expect *expect) {
	struct rep_job *replica = rep_job_of(turn->server, expect->job);
	struct rep_entry *entry
		= replica ? copy_entry(replica, expect->worker, expect->round) : NULL;
	struct srv_part part = {.round = expect->round, .attempt = expect->attempt};
	struct srv_member *member = NULL;
	struct srv_incoming *in;

	if (expect->epoch < turn->server->epoch) {
		copy_refuse(turn, expect, HD_REASON_EPOCH);
		return;
	}
	turn->server->epoch = expect->epoch;
	if (!entry || entry->copy || expect->token == 0 || expect->bytes != entry->head.bytes
	    || expect->dtype != entry->head.dtype) {
		copy_refuse(turn, expect, HD_REASON_DUPLICATE); /* a newer state replaced it */
		return;
	}
	part.base = entry->members[0].base;
	part.weight = entry->head.weight;
	member = srv_job_enter(replica->job, expect->worker);
	in = member ? srv_incoming_create(turn, replica->job, expect->token, 1) : NULL;
	if (!in) {
		copy_refuse(turn, expect, HD_REASON_NO_MEMORY);
		entry->asked = false;
		entry->since = turn->now;
		return;
	}
	turn->server->stats.expected++;
	part.member = member;
	srv_incoming_expect(in, expect, &part);
	in->entry = entry;
	entry->copy = in;
	entry->asked = true;
}

void rep_copy_drop(struct srv_turn *turn, const struct hd_msg_drop *drop) {
	struct rep_job *replica = rep_job_of(turn->server, drop->job);
	struct rep_entry *entry = replica ? copy_entry(replica, drop->worker, drop->round) : NULL;

	if (drop->direction != HD_COPY) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (!entry || entry->copy || entry->attempt != drop->attempt)
		return;
	entry->asked = false;
	entry->since = turn->now;
	if (!copy_may_come(drop->reason) || drop->reason == HD_REASON_LEASE)
		copy_lose(turn, entry);
	replica->job->dirty = true;
}

/* --- ends ------------------------------------------------------------------------------------- */

void rep_copy_complete(struct srv_turn *turn, struct srv_incoming *in) {
	struct srv_round round = {.outcome = HD_OUTCOME_APPLIED};

	srv_commit_report(turn, in, &round);
}

void rep_copy_fail(struct srv_turn *turn, struct srv_incoming *in, enum hd_reason reason) {
	struct srv_round round = {.outcome = HD_OUTCOME_FAILED, .reason = (uint8_t)reason};
	struct rep_entry *entry = in->entry;
	/* The end of a sum that was held has been reported already. */
	bool over = in->kind == SRV_SUM && in->state >= SRV_READY;

	if (!over)
		srv_commit_report(turn, in, &round);
	if (in->kind == SRV_SUM && !over)
		rep_sum_withdraw(turn, in, reason);
	if (!entry) {
		rep_sum_unlist(in->job->replica, in);
		srv_incoming_end(turn, in, srv_incoming_is_whole(in));
		return;
	}
	entry->copy = NULL;
	entry->asked = false;
	entry->since = turn->now;
	/* The aggregator frees what it has sent. */
	if (in->kind == SRV_SUM || !copy_may_come((uint8_t)reason))
		copy_lose(turn, entry);
	entry->replica->job->dirty = true;
	srv_incoming_end(turn, in, in->kind == SRV_SUM && srv_incoming_is_whole(in));
}

void rep_copies_overtaken(struct srv_turn *turn, struct rep_job *replica, hd_version version) {
	struct rep_entry *entry;

	TAILQ_FOREACH (entry, &replica->entries, link)
		if (entry->head.version <= version && entry->copy && entry->copy->kind == SRV_SUM
		    && !srv_incoming_is_whole(entry->copy))
			rep_copy_fail(turn, entry->copy, HD_REASON_CLOSED);
}

bool rep_copy_make_room(struct srv_turn *turn, struct srv_incoming *in) {
	struct rep_entry *entry;
	struct rep_job *replica;

	if (!srv_incoming_is_copy(in))
		return false;
	replica = in->job->replica;
	if (!in->entry) { /* no entry waits for it yet; its aggregator has other receivers */
		rep_copy_fail(turn, in, HD_REASON_NO_MEMORY);
		return false;
	}
	if (in->entry != rep_job_first(replica))
		return false;
	if (rep_sums_yield(turn, replica))
		return true;
	TAILQ_FOREACH_REVERSE(entry, &replica->entries, rep_entries, link) {
		if (entry != in->entry && entry->copy && entry->copy->buffer
		    && entry->copy->state != SRV_STEPPED) {
			rep_copy_fail(turn, entry->copy, HD_REASON_NO_MEMORY);
			return true;
		}
	}
	return false;
}
