/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A replica: another server's job, which follows the server's log entry by entry.
 *
 *   SEED, chunks --> a version --> LOG: | 18 copy held | 19 copy arriving | 20 requested |   --> applied in this order
 *                                         \--> applied, confirmed: FOLLOW(18)
 *   a synchronous job              LOG: | w2, 3 more | w0 + w1, 1 more | w3 |   one step, added in the server's order
 *   SERVE --> applies every entry whose copy is held, drops the rest (its workers push it again), becomes the server
 */
#include "hd_divergence.h"
#include "hd_kernels.h"
#include "rep_job.h"
#include "srv_apply.h"
#include "srv_keep.h"
#include "srv_step.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* --- free ------------------------------------------------------------------------------------- */

void rep_job_free(struct hd_server *server, struct srv_job *job) {
	struct rep_job *replica = job->replica;
	struct rep_entry *entry;
	struct srv_incoming *sum;

	if (!replica)
		return;
	rep_state_drop(server, replica);
	while ((entry = TAILQ_FIRST(&replica->entries)))
		rep_entry_free(server, entry);
	srv_step_end(job);
	while ((sum = TAILQ_FIRST(&replica->sums))) {
		rep_sum_unlist(replica, sum);
		srv_incoming_destroy(server, sum);
	}
	hd_timers_release(&server->timers, &replica->timer);
	TAILQ_REMOVE(&server->replicas, replica, link);
	job->replica = NULL;
	free(replica);
}

void rep_copies_detach(struct hd_server *server, const struct srv_peer *peer) {
	struct rep_entry *entry;
	struct rep_job *replica;

	TAILQ_FOREACH (replica, &server->replicas, link) {
		if (replica->source == peer) {
			replica->source = NULL;
			rep_state_drop(server, replica);
		}
		TAILQ_FOREACH (entry, &replica->entries, link)
			if (entry->copy && entry->copy->source == peer)
				entry->copy->source = NULL;
	}
}

/* --- the log ---------------------------------------------------------------------------------- */

static bool log_plausible(const struct srv_job *job, const struct hd_entry *entry) {
	bool norm = entry->update >= 0 && isfinite(entry->update);

	return srv_payload_fits(job, entry->dtype, entry->bytes) && (norm || entry->update < 0)
		&& (entry->more == 0 || job->spec.sync != HD_SYNC_NONE) && entry->scale > 0
		&& isfinite(entry->scale)
		&& hd_version_counter(entry->version) >= entry->member_count;
}

static void
replica_append(struct srv_turn *turn, struct rep_job *replica, const struct hd_entry *head) {
	size_t bytes = head->member_count * sizeof(struct hd_entry_member);
	struct rep_entry *entry;

	/* The queue is full: dropping the entry leaves a gap in the log, which a state fills. */
	if (replica->entry_count >= REP_QUEUE_MAX || !log_plausible(replica->job, head)) {
		turn->server->stats.refused_messages++;
		return;
	}
	entry = calloc(1, sizeof *entry + bytes);
	if (!entry)
		return;
	entry->replica = replica;
	entry->head = *head;
	entry->head.records = NULL;
	entry->since = turn->now;
	for (uint16_t i = 0; i < head->member_count; i++) {
		entry->members[i] = hd_entry_member(head, i);
		/* The log does not have the weights of a federated step: only a state brings it. */
		entry->lost = entry->lost || replica->job->spec.sync == HD_SYNC_FEDERATED
			|| entry->members[i].worker >= HD_WORKERS_MAX;
	}
	/* A sum comes from its aggregator or not at all; then a state brings it. */
	if (head->member_count > 1 && !entry->lost) {
		rep_sum_name(replica, entry);
		entry->lost = !entry->copy;
	}
	TAILQ_INSERT_TAIL(&replica->entries, entry, link);
	replica->entry_count++;
}

void rep_log_take(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_log *log) {
	struct rep_job *replica = rep_job_of(turn->server, log->job);
	struct srv_job *job = srv_job_find(turn->server, log->job);
	hd_version newest;
	struct hd_entry head;
	uint32_t at = 0;

	if (!replica) {
		rep_job_answer(
			turn,
			peer,
			log->job,
			log->generation,
			job && job->generation > log->generation ? HD_FOLLOW_FENCED : HD_FOLLOW_NONE
		);
		return;
	}
	if (replica->source != peer || replica->generation != log->generation
	    || log->of >= HD_LOG_COUNT) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (log->of != HD_LOG_COMMITS) {
		rep_state_stage(replica, log);
		return;
	}
	newest = replica->has_state ? replica->job->version : 0;
	if (!TAILQ_EMPTY(&replica->entries))
		newest = TAILQ_LAST(&replica->entries, rep_entries)->head.version;
	while (hd_entry_next(&log->entries, &at, &head) > 0) {
		if (head.version > newest) {
			newest = head.version;
			replica_append(turn, replica, &head);
		}
	}
	replica->job->dirty = true;
}

/* --- applying --------------------------------------------------------------------------------- */

static bool replica_scales_apart(const struct srv_job *job, const struct rep_entry *entry) {
	float scale = entry->head.scale, of = job->step.scale;

	return job->step.count > 0 && (scale < of || scale > of);
}

/* The first entry if it directly follows our version and its copy is held; else NULL. */
static struct rep_entry *replica_next(const struct rep_job *replica) {
	struct rep_entry *first = rep_job_first(replica);
	const struct srv_job *job = replica->job;

	if (!first || !replica->has_state || !first->copy || first->copy->state != SRV_READY
	    || hd_version_incarnation(first->head.version) != hd_version_incarnation(job->version)
	    || hd_version_counter(first->head.version) - first->head.member_count
		    != hd_version_counter(job->version) + job->step.count)
		return NULL;
	if (srv_commit_bounds(job, first->copy, 0) != HD_REASON_NONE
	    || !rep_sum_measures(first->copy, first) || replica_scales_apart(job, first)) {
		first->lost = true; /* the authenticated server contradicts the copy */
		return NULL;
	}
	return first;
}

/* Records the rounds of the first entry, which is now in the model, and ends its copy. */
static void replica_entered(struct srv_turn *turn, struct rep_job *replica) {
	struct rep_entry *entry = TAILQ_FIRST(&replica->entries);
	uint64_t counter = hd_version_counter(entry->head.version);
	struct srv_job *job = replica->job;
	struct srv_incoming *copy = entry->copy;

	turn->server->stats.replicated += entry->head.member_count;
	for (uint16_t i = 0; i < entry->head.member_count; i++) {
		const struct hd_entry_member *from = &entry->members[i];
		struct srv_member *member = srv_job_enter(job, from->worker);
		struct srv_round round = {
			.round = from->round,
			.outcome = HD_OUTCOME_APPLIED,
			.delay = from->delay,
			.version = hd_version_make(
				hd_version_incarnation(job->version),
				counter - entry->head.member_count + 1 + i
			),
		};

		if (member)
			srv_member_record(member, &round);
	}
	rep_event(turn, job, HD_EVENT_REPLICATED, entry);
	entry->copy = NULL;
	srv_incoming_end(turn, copy, true);
	rep_entry_free(turn->server, entry);
}

/* Makes the result the model and ends all entries that made this version. */
static void replica_applied(struct srv_turn *turn, struct rep_job *replica) {
	struct srv_job *job = replica->job;
	const struct rep_entry *first = TAILQ_FIRST(&replica->entries);
	uint32_t left = job->step.count > 0 ? job->step.count : first->head.member_count;

	srv_apply_take(turn->server, job, left);
	while (left > 0) {
		left -= TAILQ_FIRST(&replica->entries)->head.member_count;
		replica_entered(turn, replica);
	}
	srv_step_end(job);
}

static bool replica_is_whole(const struct srv_job *job) {
	const struct srv_incoming *last = TAILQ_LAST(&job->step.members, srv_incoming_list);

	return last && !job->step.adding && last->entry->head.more == 0;
}

/* Adds the entries of a synchronous step in the log's order, as the server did. False: the call's budget was used
 * up. */
static bool replica_gather(struct srv_turn *turn, struct rep_job *replica) {
	struct srv_job *job = replica->job;
	struct rep_entry *next;

	while (!job->apply.in && !replica_is_whole(job)) {
		next = !job->step.adding ? replica_next(replica) : NULL;
		if (!next && !job->step.adding)
			return true;
		while (next && !srv_step_take(turn->server, job, next->copy, next->head.scale)) {
			if (!rep_copy_make_room(turn, next->copy)) {
				return true; /* looked at again soon, as long as there are entries */
			}
		}
		if (!srv_step_add(turn->server, job))
			return false;
	}
	return true;
}

/* The update or complete step that can be applied next; NULL: none. */
static struct srv_incoming *replica_due(const struct rep_job *replica) {
	const struct srv_job *job = replica->job;
	const struct rep_entry *next;

	if (job->spec.sync != HD_SYNC_NONE)
		return replica_is_whole(job) ? TAILQ_FIRST(&job->step.members) : NULL;
	next = replica_next(replica);
	return next ? next->copy : NULL;
}

static bool replica_apply(struct srv_turn *turn, struct rep_job *replica) {
	struct hd_server *server = turn->server;
	struct srv_job *job = replica->job;

	for (;;) {
		if (job->spec.sync != HD_SYNC_NONE && !replica_gather(turn, replica))
			return false;
		if (!job->apply.in) {
			struct srv_incoming *due = replica_due(replica);

			if (!due)
				return true;
			if (server->apply_left == 0)
				return false;
			srv_apply_begin(job, due);
		}
		if (!srv_apply_slice(server, job))
			return false;
		replica_applied(turn, replica);
	}
}

/* --- becoming the server ---------------------------------------------------------------------- */

/* Upper bound of the distance to the server's model, from the log's entries; < 0: unknown. */
static double replica_divergence(const struct rep_job *replica) {
	const struct srv_job *job = replica->job;
	struct hd_divergence *d = calloc(1, sizeof *d);
	const struct rep_entry *entry;
	double bound = -1;

	if (!d)
		return bound;
	hd_divergence_init(
		d,
		(double)job->spec.momentum,
		(double)job->spec.learning_rate * (double)job->spec.weight_decay,
		sqrt(hd_norm2_f32(job->momentum->data, job->values)),
		sqrt(hd_norm2_f32(job->model->data, job->values))
	);
	TAILQ_FOREACH (entry, &replica->entries, link) {
		/* Entries of sparse sums bound one step of the sum. In a synchronous step the last entry has the
		 * bound. */
		uint16_t steps = job->spec.sync == HD_SYNC_NONE ? entry->head.member_count : 1;
		const struct hd_divergence_step step = {
			.update = entry->head.update / steps,
			.more = steps - 1u,
		};

		if (entry->head.more > 0)
			continue;
		if (step.update < 0 || hd_divergence_add(d, &step) < 0) {
			free(d);
			return bound;
		}
	}
	bound = hd_divergence_bound(d);
	free(d);
	return bound;
}

static uint16_t serve_incarnation(struct srv_turn *turn, uint16_t former) {
	const uint32_t room = UINT16_MAX - 1U - former;
	const uint32_t least = room > 2 * REP_SERVE_LEAST ? REP_SERVE_LEAST : room > 0;
	const uint32_t span = room - least < REP_SERVE_SPAN ? room - least + 1 : REP_SERVE_SPAN;

	return (uint16_t)(former + least + hd_entropy_u64(&turn->server->entropy) % span);
}

static void replica_promote(struct srv_turn *turn, struct rep_job *replica) {
	struct srv_job *job = replica->job;
	uint16_t former = hd_version_incarnation(job->version);
	struct hd_event event = {
		.kind = HD_EVENT_PROMOTED,
		.base = job->version,
		.aux = replica->entry_count,
		.value = replica_divergence(replica),
	};

	srv_state_succeed(job, replica->serve_generation, serve_incarnation(turn, former));
	if (replica->source) { /* it may be alive and still act as the server */
		rep_job_answer(
			turn, replica->source, job->id, replica->generation, HD_FOLLOW_FENCED
		);
	}
	rep_job_free(turn->server, job);
	turn->server->stats.promoted++;
	event.version = job->version;
	srv_job_event(turn, job, &event);
}

enum rep_run rep_job_run(struct srv_turn *turn, struct srv_job *job) {
	struct rep_job *replica = job->replica;

	assert(replica && replica->job == job);
	if (!replica_apply(turn, replica))
		return REP_RUN_UNFINISHED;
	if (replica->serve) {
		replica_promote(turn, replica);
		return REP_RUN_SERVES;
	}
	rep_copies_look(turn, replica);
	rep_job_tell(turn, replica, false);
	return REP_RUN_DONE;
}

enum rep_verdict
rep_job_serve(struct srv_turn *turn, struct srv_job *job, const struct hd_msg_replica *order) {
	struct rep_job *replica = job->replica;

	if (order->generation <= replica->generation) {
		turn->server->stats.refused_messages++;
		return REP_DONE;
	}
	if (!replica->has_state) {
		/* Another node acts as the server, and this one has begun to copy its job. */
		if (replica->source) {
			rep_job_answer(
				turn,
				replica->source,
				order->job,
				replica->generation,
				HD_FOLLOW_FENCED
			);
		}
		return REP_RETIRE;
	}
	rep_state_drop(turn->server, replica);
	replica->serve = true;
	replica->serve_generation = order->generation;
	job->dirty = true;
	return REP_DONE;
}

/* --- time ------------------------------------------------------------------------------------- */

void rep_job_timer(struct hd_timer *timer) {
	struct rep_job *replica = hd_container_of(timer, struct rep_job, timer);

	replica->job->dirty = true; /* so that the current call looks at it */
}
