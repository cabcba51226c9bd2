/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of updates, from the workers that pushed them. The replica knows from the log what it misses, and asks the
 * controller for it, which plans the transfer:
 *
 *   LOG 18 (worker 3, round 7) -> REQUEST(copy) -> EXPECT, chunks -> whole
 *                                      \--> DROP: nobody has it any more: a hole, filled by a state
 */
#include "hd_replica.h"

/* Ended transfers that may succeed another time; the rest says that the bytes are gone. */
static bool hd_copy_may_come(uint8_t reason) {
	return reason == HD_REASON_TIMEOUT || reason == HD_REASON_CLOSED || reason == HD_REASON_VOID
		|| reason == HD_REASON_EPOCH || reason == HD_REASON_NO_MEMORY
		|| reason == HD_REASON_LEASE;
}

static struct hd_mirror_entry *
hd_copy_entry(const struct hd_mirror *mirror, uint16_t worker, uint32_t round) {
	struct hd_mirror_entry *entry;

	TAILQ_FOREACH (entry, &mirror->entries, link) {
		if (entry->head.member_count == 1 && entry->members[0].worker == worker
		    && entry->members[0].round == round) {
			return entry;
		}
	}
	return NULL;
}

void hd_mirror_entry_free(struct hd_server *server, struct hd_mirror_entry *entry) {
	struct hd_mirror *mirror = entry->mirror;

	if (entry->copy != NULL) {
		entry->copy->entry = NULL;
		hd_incoming_destroy(server, entry->copy);
	}
	TAILQ_REMOVE(&mirror->entries, entry, link);
	mirror->entry_count--;
	free(entry);
}

static void hd_copy_lose(struct hd_turn *turn, struct hd_mirror_entry *entry) {
	entry->lost = true;
	entry->mirror->job->dirty = true; /* a hole is told of */
	turn->server->stats.copies_lost++;
}

/* --- asking ------------------------------------------------------------------------------------ */

static void hd_copy_ask(struct hd_turn *turn, struct hd_mirror_entry *entry) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	const struct hd_mirror *mirror = entry->mirror;

	if (entry->attempt == HD_MIRROR_ATTEMPTS_MAX) {
		hd_copy_lose(turn, entry);
		return;
	}
	entry->attempt++;
	entry->asked = true;
	entry->since = turn->now;
	turn->server->stats.copies_asked++;
	message.request = (struct hd_msg_request){
		.job = mirror->job->id,
		.worker = entry->members[0].worker,
		.round = entry->members[0].round,
		.direction = HD_COPY,
		.attempt = entry->attempt,
		.dtype = entry->head.dtype,
		.bytes = entry->head.bytes,
		.norm = entry->head.weight, /* which tells one grant's bytes from another's */
		.base = entry->members[0].base,
		.have = entry->head.version,
	};
	hd_controller_send(turn, &message);
}

/* One entry whose turn it may be. */
static void hd_copy_look(struct hd_turn *turn, struct hd_mirror_entry *entry) {
	hd_ns fallback = hd_ns_add(entry->since, HD_MIRROR_FALLBACK_US * HD_US);
	hd_ns again = hd_ns_add(entry->since, HD_MIRROR_AGAIN_US * HD_US);
	struct hd_incoming *copy = entry->copy;
	hd_ns active;

	if (copy != NULL) {
		active = copy->sum ? hd_ns_max(copy->active, entry->since) : copy->active;
		active = hd_ns_add(
			active, (copy->sum ? HD_MIRROR_SUM_SILENT_US : HD_MIRROR_SILENT_US) * HD_US
		);
		if (!copy->complete && turn->now > active) {
			hd_copy_fail(turn, copy, HD_REASON_TIMEOUT);
		}
		return;
	}
	if (!turn->server->registered) {
		/* Nobody plans: the server's next state brings it. */
		if (turn->now >= fallback) {
			hd_copy_lose(turn, entry);
		}
		return;
	}
	if (!entry->asked && (entry->attempt == 0 || turn->now >= again)) {
		hd_copy_ask(turn, entry);
	}
}

void hd_copies_look(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_mirror_entry *entry = hd_mirror_first(mirror), *next;
	uint32_t asked = 0;

	for (; entry != NULL && asked < HD_MIRROR_ASKED_MAX; entry = next, asked++) {
		next = TAILQ_NEXT(entry, link);
		if (!entry->lost && !(mirror->seeding && entry->head.version <= mirror->seed)) {
			hd_copy_look(turn, entry);
		}
	}
	hd_mirror_sums_look(turn, mirror);
	hd_timer_set(
		&turn->server->timers,
		&mirror->timer,
		TAILQ_EMPTY(&mirror->entries) && TAILQ_EMPTY(&mirror->sums) ?
			HD_NEVER :
			hd_ns_add(turn->now, HD_MIRROR_LOOK_US * HD_US)
	);
}

void hd_copies_ask_again(struct hd_turn *turn) {
	struct hd_mirror_entry *entry;
	struct hd_mirror *mirror;

	TAILQ_FOREACH (mirror, &turn->server->mirrors, link) {
		hd_mirror_sums_end(turn, mirror, HD_REASON_EPOCH);
		TAILQ_FOREACH (entry, &mirror->entries, link) {
			entry->asked = entry->copy != NULL;
			entry->since = turn->now;
			entry->attempt = entry->copy != NULL ? entry->attempt : 0;
		}
		mirror->job->dirty = true;
	}
}

/* --- the controller's answers -------------------------------------------------------------------- */

static void
hd_copy_refuse(struct hd_turn *turn, const struct hd_msg_expect *expect, enum hd_reason reason) {
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
	hd_controller_send(turn, &message);
}

void hd_copy_expect(struct hd_turn *turn, const struct hd_msg_expect *expect) {
	struct hd_mirror *mirror = hd_mirror_of(turn->server, expect->job);
	struct hd_mirror_entry *entry
		= mirror != NULL ? hd_copy_entry(mirror, expect->worker, expect->round) : NULL;
	struct hd_part part = {.round = expect->round, .attempt = expect->attempt};
	struct hd_member *member = NULL;
	struct hd_incoming *in;

	if (expect->epoch < turn->server->epoch) {
		hd_copy_refuse(turn, expect, HD_REASON_EPOCH);
		return;
	}
	turn->server->epoch = expect->epoch;
	if (entry == NULL || entry->copy != NULL || expect->token == 0
	    || expect->bytes != entry->head.bytes || expect->dtype != entry->head.dtype) {
		hd_copy_refuse(turn, expect, HD_REASON_DUPLICATE); /* a state has overtaken it */
		return;
	}
	part.base = entry->members[0].base;
	part.weight = entry->head.weight;
	member = hd_job_enter(mirror->job, expect->worker);
	in = member != NULL ? hd_incoming_create(turn, mirror->job, expect->token, 1) : NULL;
	if (in == NULL) {
		hd_copy_refuse(turn, expect, HD_REASON_NO_MEMORY);
		entry->asked = false;
		entry->since = turn->now;
		return;
	}
	turn->server->stats.expected++;
	part.member = member;
	hd_incoming_part(in, 0, &part);
	in->dtype = expect->dtype;
	in->bytes = expect->bytes;
	in->entry = entry;
	entry->copy = in;
	entry->asked = true;
}

void hd_copy_drop(struct hd_turn *turn, const struct hd_msg_drop *drop) {
	struct hd_mirror *mirror = hd_mirror_of(turn->server, drop->job);
	struct hd_mirror_entry *entry
		= mirror != NULL ? hd_copy_entry(mirror, drop->worker, drop->round) : NULL;

	if (drop->direction != HD_COPY) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (entry == NULL || entry->copy != NULL || entry->attempt != drop->attempt) {
		return;
	}
	entry->asked = false;
	entry->since = turn->now;
	if (!hd_copy_may_come(drop->reason) || drop->reason == HD_REASON_LEASE) {
		hd_copy_lose(turn, entry);
	}
	mirror->job->dirty = true;
}

/* --- ends --------------------------------------------------------------------------------------- */

void hd_copy_complete(struct hd_turn *turn, struct hd_incoming *in) {
	struct hd_round round = {.outcome = HD_OUTCOME_APPLIED};

	hd_commit_report(turn, in, &round);
}

void hd_copy_fail(struct hd_turn *turn, struct hd_incoming *in, enum hd_reason reason) {
	struct hd_round round = {.outcome = HD_OUTCOME_FAILED, .reason = (uint8_t)reason};
	struct hd_mirror_entry *entry = in->entry;
	/* Of a sum that was held whole its aggregator and the controller have heard. */
	bool over = in->sum && in->completed_at != 0;

	if (!over) {
		hd_commit_report(turn, in, &round);
	}
	if (in->sum && !over) {
		hd_mirror_withdraw(turn, in, reason);
	}
	if (entry == NULL) {
		hd_mirror_unlist(in->job->mirror, in);
		hd_incoming_end(turn, in, in->complete);
		return;
	}
	entry->copy = NULL;
	entry->asked = false;
	entry->since = turn->now;
	/* What the aggregator has sent is gone there. */
	if (in->sum || !hd_copy_may_come((uint8_t)reason)) {
		hd_copy_lose(turn, entry);
	}
	entry->mirror->job->dirty = true;
	hd_incoming_end(turn, in, in->sum && in->complete);
}

void hd_copies_overtaken(struct hd_turn *turn, struct hd_mirror *mirror, hd_version version) {
	struct hd_mirror_entry *entry;

	TAILQ_FOREACH (entry, &mirror->entries, link) {
		if (entry->head.version <= version && entry->copy != NULL && entry->copy->sum
		    && !entry->copy->complete) {
			hd_copy_fail(turn, entry->copy, HD_REASON_CLOSED);
		}
	}
}

bool hd_copy_make_room(struct hd_turn *turn, struct hd_incoming *in) {
	struct hd_mirror_entry *entry;
	struct hd_mirror *mirror;

	if (!hd_incoming_is_copy(in)) {
		return false;
	}
	mirror = in->job->mirror;
	if (in->entry
	    == NULL) { /* it is not waited for yet: its aggregator has others to send to */
		hd_copy_fail(turn, in, HD_REASON_NO_MEMORY);
		return false;
	}
	if (in->entry != hd_mirror_first(mirror)) {
		return false;
	}
	if (hd_mirror_sums_yield(turn, mirror)) {
		return true;
	}
	TAILQ_FOREACH_REVERSE(entry, &mirror->entries, hd_mirror_entries, link) {
		if (entry != in->entry && entry->copy != NULL && entry->copy->buffer != NULL
		    && !entry->copy->stepped) {
			hd_copy_fail(turn, entry->copy, HD_REASON_NO_MEMORY);
			return true;
		}
	}
	return false;
}

void hd_copies_detach(struct hd_server *server, const struct hd_peer *peer) {
	struct hd_mirror_entry *entry;
	struct hd_mirror *mirror;

	TAILQ_FOREACH (mirror, &server->mirrors, link) {
		if (mirror->source == peer) {
			mirror->source = NULL;
			hd_mirror_seed_drop(server, mirror);
		}
		TAILQ_FOREACH (entry, &mirror->entries, link) {
			if (entry->copy != NULL && entry->copy->source == peer) {
				entry->copy->source = NULL;
			}
		}
	}
}
