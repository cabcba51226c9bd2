/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A replica: another server's job, followed entry by entry of its log.
 *
 *   SEED, chunks --> a version --> LOG: | 18 copy whole | 19 copy comes | 20 asked for |   --> applied in this order
 *                                         \--> applied, confirmed: FOLLOW(18)
 *   of a synchronous job           LOG: | w2, 3 more | w0 + w1, 1 more | w3 |   one step: added in this order, as there
 *   SERVE --> everything that is whole is applied; the rest is forgotten: its workers push it again
 */
#include "hd_kernels.h"
#include "hd_replica.h"
#include "hd_server_apply.h"
#include "hd_server_step.h"

#include <errno.h>
#include <math.h>

struct hd_mirror *hd_mirror_of(const struct hd_server *server, uint32_t job) {
	struct hd_mirror *mirror;

	TAILQ_FOREACH (mirror, &server->mirrors, link) {
		if (mirror->job->id == job) {
			return mirror;
		}
	}
	return NULL;
}

/* --- telling ---------------------------------------------------------------------------------- */

void hd_mirror_answer(
	struct hd_turn *turn,
	struct hd_peer *peer,
	uint32_t job,
	uint64_t generation,
	enum hd_follow_state state
) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};

	message.follow = (struct hd_msg_follow){
		.job = job,
		.generation = generation,
		.state = (uint8_t)state,
		.divergence = -1,
	};
	hd_peer_send(turn, peer, &message);
}

struct hd_mirror_entry *hd_mirror_first(const struct hd_mirror *mirror) {
	const struct hd_incoming *added = TAILQ_LAST(&mirror->job->step.members, hd_incoming_list);

	return added != NULL ? TAILQ_NEXT(added->entry, link) : TAILQ_FIRST(&mirror->entries);
}

static uint8_t hd_mirror_state(const struct hd_mirror *mirror) {
	const struct hd_mirror_entry *first = hd_mirror_first(mirror);
	hd_version at = mirror->job->version + mirror->job->step.count;
	hd_version before, needed;

	if (!mirror->seeded) {
		return HD_FOLLOW_SEEDING;
	}
	if (first == NULL) {
		return HD_FOLLOW_STEP;
	}
	before = first->head.version - first->head.member_count;
	needed = first->lost ? first->head.version + first->head.more : before;
	/* A state that is on its way fills the hole, when it is new enough. */
	if ((before == at && !first->lost) || (mirror->seeding && mirror->seed >= needed)) {
		return HD_FOLLOW_STEP;
	}
	return HD_FOLLOW_HOLE;
}

void hd_mirror_tell(struct hd_turn *turn, struct hd_mirror *mirror, bool always) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};
	uint8_t state = hd_mirror_state(mirror);
	hd_version version = mirror->seeded ? mirror->job->version : 0;

	if (mirror->source == NULL
	    || (!always && mirror->told == version && mirror->told_state == state)) {
		return;
	}
	mirror->told = version;
	mirror->told_state = state;
	message.follow = (struct hd_msg_follow){
		.job = mirror->job->id,
		.generation = mirror->generation,
		.state = state,
		.version = version,
		.behind = mirror->entry_count,
		.divergence = -1,
	};
	hd_peer_send(turn, mirror->source, &message);
}

void hd_mirrors_announce(struct hd_turn *turn) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};
	const struct hd_mirror *mirror;

	TAILQ_FOREACH (mirror, &turn->server->mirrors, link) {
		if (!mirror->seeded) {
			continue;
		}
		message.follow = (struct hd_msg_follow){
			.job = mirror->job->id,
			.generation = mirror->generation,
			.state = hd_mirror_state(mirror),
			.version = mirror->job->version,
			.behind = mirror->entry_count,
			.divergence = -1,
		};
		hd_controller_send(turn, &message);
	}
}

void hd_mirror_event(
	struct hd_turn *turn,
	const struct hd_job *job,
	enum hd_event_kind kind,
	const struct hd_mirror_entry *entry
) {
	struct hd_event event = {.kind = kind, .job = job->id, .version = job->version};

	if (entry != NULL) {
		event.worker = entry->members[0].worker;
		event.round = entry->members[0].round;
		event.position = entry->members[0].position;
		event.base = entry->members[0].base;
		event.direction = HD_COPY;
		event.bytes = entry->head.bytes;
		event.aux = entry->members[0].delay;
		event.value = (double)entry->head.weight;
	}
	hd_turn_event(turn, &event);
}

/* --- life ------------------------------------------------------------------------------------- */

void hd_mirror_free(struct hd_server *server, struct hd_job *job) {
	struct hd_mirror *mirror = job->mirror;
	struct hd_mirror_entry *entry;
	struct hd_incoming *sum;

	if (mirror == NULL) {
		return;
	}
	hd_mirror_seed_drop(server, mirror);
	while ((entry = TAILQ_FIRST(&mirror->entries)) != NULL) {
		hd_mirror_entry_free(server, entry);
	}
	hd_step_end(job);
	while ((sum = TAILQ_FIRST(&mirror->sums)) != NULL) {
		hd_mirror_unlist(mirror, sum);
		hd_incoming_destroy(server, sum);
	}
	hd_timers_release(&server->timers, &mirror->timer);
	TAILQ_REMOVE(&server->mirrors, mirror, link);
	job->mirror = NULL;
	free(mirror);
}

/* --- the log ---------------------------------------------------------------------------------- */

static bool hd_log_plausible(const struct hd_job *job, const struct hd_entry *entry) {
	bool norm = entry->update >= 0 && isfinite(entry->update);

	return hd_payload_fits(job, entry->dtype, entry->bytes) && (norm || entry->update < 0)
		&& (entry->more == 0 || job->spec.sync != HD_SYNC_NONE) && entry->scale > 0
		&& isfinite(entry->scale)
		&& hd_version_counter(entry->version) >= entry->member_count;
}

static void
hd_mirror_append(struct hd_turn *turn, struct hd_mirror *mirror, const struct hd_entry *head) {
	size_t bytes = head->member_count * sizeof(struct hd_entry_member);
	struct hd_mirror_entry *entry;

	/* Too far behind: whatever is left out here leaves a gap, which is a hole. */
	if (mirror->entry_count >= HD_MIRROR_QUEUE_MAX || !hd_log_plausible(mirror->job, head)) {
		turn->server->stats.refused_messages++;
		return;
	}
	entry = calloc(1, sizeof(*entry) + bytes);
	if (entry == NULL) {
		return;
	}
	entry->mirror = mirror;
	entry->head = *head;
	entry->head.records = NULL;
	entry->since = turn->now;
	for (uint16_t i = 0; i < head->member_count; i++) {
		entry->members[i] = hd_entry_member(head, i);
		/* Its weights are not in the log: a state does. */
		entry->lost = entry->lost || mirror->job->spec.sync == HD_SYNC_FEDERATED
			|| entry->members[i].worker >= HD_WORKERS_MAX;
	}
	/* A sum comes from its aggregator, or not at all: then a state does. */
	if (head->member_count > 1 && !entry->lost) {
		hd_mirror_name(mirror, entry);
		entry->lost = entry->copy == NULL;
	}
	TAILQ_INSERT_TAIL(&mirror->entries, entry, link);
	mirror->entry_count++;
}

void hd_mirror_log(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_log *log) {
	struct hd_mirror *mirror = hd_mirror_of(turn->server, log->job);
	struct hd_job *job = hd_job_find(turn->server, log->job);
	hd_version newest;
	struct hd_entry head;
	uint32_t at = 0;

	if (mirror == NULL) {
		hd_mirror_answer(
			turn,
			peer,
			log->job,
			log->generation,
			job != NULL && job->generation > log->generation ? HD_FOLLOW_FENCED :
									   HD_FOLLOW_NONE
		);
		return;
	}
	if (mirror->source != peer || mirror->generation != log->generation
	    || log->of >= HD_LOG_COUNT) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (log->of != HD_LOG_COMMITS) {
		hd_mirror_stage(mirror, log);
		return;
	}
	newest = mirror->seeded ? mirror->job->version : 0;
	if (!TAILQ_EMPTY(&mirror->entries)) {
		newest = TAILQ_LAST(&mirror->entries, hd_mirror_entries)->head.version;
	}
	while (hd_entry_next(&log->entries, &at, &head) > 0) {
		if (head.version > newest) {
			newest = head.version;
			hd_mirror_append(turn, mirror, &head);
		}
	}
	mirror->job->dirty = true;
}

/* --- applying --------------------------------------------------------------------------------- */

static bool hd_mirror_scales_apart(const struct hd_job *job, const struct hd_mirror_entry *entry) {
	float scale = entry->head.scale, of = job->step.scale;

	return job->step.count > 0 && (scale < of || scale > of);
}

/* The first entry, when it comes right after what we have and its copy is there. */
static struct hd_mirror_entry *hd_mirror_next(const struct hd_mirror *mirror) {
	struct hd_mirror_entry *first = hd_mirror_first(mirror);
	const struct hd_job *job = mirror->job;

	if (first == NULL || !mirror->seeded || first->copy == NULL || !first->copy->complete
	    || first->copy->completed_at == 0
	    || hd_version_incarnation(first->head.version) != hd_version_incarnation(job->version)
	    || hd_version_counter(first->head.version) - first->head.member_count
		    != hd_version_counter(job->version) + job->step.count) {
		return NULL;
	}
	if (hd_commit_bounds(job, first->copy, 0) != HD_REASON_NONE
	    || !hd_mirror_measures(first->copy, first) || hd_mirror_scales_apart(job, first)) {
		first->lost = true; /* nonsense, from an authenticated server all the same */
		return NULL;
	}
	return first;
}

/* The rounds of the first entry, which is in the model. */
static void hd_mirror_entered(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_mirror_entry *entry = TAILQ_FIRST(&mirror->entries);
	uint64_t counter = hd_version_counter(entry->head.version);
	struct hd_job *job = mirror->job;
	struct hd_incoming *copy = entry->copy;

	turn->server->stats.replicated += entry->head.member_count;
	for (uint16_t i = 0; i < entry->head.member_count; i++) {
		const struct hd_entry_member *from = &entry->members[i];
		struct hd_member *member = hd_job_enter(job, from->worker);
		struct hd_round round = {
			.round = from->round,
			.outcome = HD_OUTCOME_APPLIED,
			.delay = from->delay,
			.version = hd_version_make(
				hd_version_incarnation(job->version),
				counter - entry->head.member_count + 1 + i
			),
		};

		if (member != NULL) {
			hd_member_record(member, &round);
		}
	}
	hd_mirror_event(turn, job, HD_EVENT_REPLICATED, entry);
	entry->copy = NULL;
	hd_incoming_end(turn, copy, true);
	hd_mirror_entry_free(turn->server, entry);
}

/* All that made one version of the model. */
static void hd_mirror_applied(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_job *job = mirror->job;
	const struct hd_mirror_entry *first = TAILQ_FIRST(&mirror->entries);
	uint32_t left = job->step.count > 0 ? job->step.count : first->head.member_count;

	hd_apply_take(turn->server, job);
	job->version += left;
	while (left > 0) {
		left -= TAILQ_FIRST(&mirror->entries)->head.member_count;
		hd_mirror_entered(turn, mirror);
	}
	hd_step_end(job);
}

static bool hd_mirror_is_whole(const struct hd_job *job) {
	const struct hd_incoming *last = TAILQ_LAST(&job->step.members, hd_incoming_list);

	return last != NULL && job->step.adding == NULL && last->entry->head.more == 0;
}

/* A synchronous job's: adds what is there, in the log's order, as the server did. False: the call's step was used up
 * before that. */
static bool hd_mirror_gather(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_job *job = mirror->job;
	struct hd_mirror_entry *next;

	while (job->apply.in == NULL && !hd_mirror_is_whole(job)) {
		next = job->step.adding == NULL ? hd_mirror_next(mirror) : NULL;
		if (next == NULL && job->step.adding == NULL) {
			return true;
		}
		while (next != NULL && !hd_step_take(turn->server, job, next->copy)) {
			if (!hd_copy_make_room(turn, next->copy)) {
				return true; /* looked at again soon, as long as there are entries */
			}
		}
		if (!hd_step_add(turn->server, job)) {
			return false;
		}
	}
	return true;
}

/* What can be applied next, as far as it is there; NULL: nothing. */
static struct hd_incoming *hd_mirror_due(const struct hd_mirror *mirror) {
	const struct hd_job *job = mirror->job;
	const struct hd_mirror_entry *next;

	if (job->spec.sync != HD_SYNC_NONE) {
		return hd_mirror_is_whole(job) ? TAILQ_FIRST(&job->step.members) : NULL;
	}
	next = hd_mirror_next(mirror);
	return next != NULL ? next->copy : NULL;
}

static bool hd_mirror_apply(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_server *server = turn->server;
	struct hd_job *job = mirror->job;

	for (;;) {
		if (job->spec.sync != HD_SYNC_NONE && !hd_mirror_gather(turn, mirror)) {
			return false;
		}
		if (job->apply.in == NULL) {
			struct hd_incoming *due = hd_mirror_due(mirror);

			if (due == NULL) {
				return true;
			}
			if (server->step_left == 0) {
				return false;
			}
			hd_apply_begin(job, due);
		}
		if (!hd_apply_step(server, job)) {
			return false;
		}
		hd_mirror_applied(turn, mirror);
	}
}

/* --- becoming the server -------------------------------------------------------------------------- */

/* How far the server was at most, by what it told of its log; < 0: not known. */
static double hd_mirror_divergence(const struct hd_mirror *mirror) {
	const struct hd_job *job = mirror->job;
	struct hd_divergence *d = calloc(1, sizeof(*d));
	const struct hd_mirror_entry *entry;
	double bound = -1;

	if (d == NULL) {
		return bound;
	}
	hd_divergence_init(
		d,
		(double)job->spec.momentum,
		(double)job->spec.learning_rate * (double)job->spec.weight_decay,
		sqrt(hd_norm2_f32(job->momentum->data, job->values)),
		sqrt(hd_norm2_f32(job->model->data, job->values))
	);
	TAILQ_FOREACH (entry, &mirror->entries, link) {
		/* A bound of one step of the sum, too, which sparse ones are. A synchronous job's last entry has the step. */
		uint16_t steps = job->spec.sync == HD_SYNC_NONE ? entry->head.member_count : 1;
		const struct hd_divergence_step step = {
			.update = entry->head.update / steps,
			.more = steps - 1u,
		};

		if (entry->head.more > 0) {
			continue;
		}
		if (step.update < 0 || hd_divergence_add(d, &step) < 0) {
			free(d);
			return bound;
		}
	}
	bound = hd_divergence_bound(d);
	free(d);
	return bound;
}

static uint16_t hd_serve_incarnation(struct hd_turn *turn, uint16_t former) {
	const uint32_t room = UINT16_MAX - 1U - former;
	const uint32_t least = room > 2 * HD_SERVE_LEAST ? HD_SERVE_LEAST : room > 0;
	const uint32_t span = room - least < HD_SERVE_SPAN ? room - least + 1 : HD_SERVE_SPAN;

	return (uint16_t)(former + least + hd_entropy_u64(&turn->server->entropy) % span);
}

static void hd_mirror_promote(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_job *job = mirror->job;
	uint16_t former = hd_version_incarnation(job->version);
	uint64_t counter = hd_version_counter(job->version);
	struct hd_event event = {
		.kind = HD_EVENT_PROMOTED,
		.job = job->id,
		.base = job->version,
		.aux = mirror->entry_count,
		.value = hd_mirror_divergence(mirror),
	};

	if (job->life_count == HD_LIVES_MAX) {
		memmove(job->lives, job->lives + 1, (HD_LIVES_MAX - 1) * sizeof(job->lives[0]));
		job->life_count--;
	}
	job->lives[job->life_count++] = (struct hd_life){former, counter};
	/* All of it was durable: it is what a death of the server was not to take away. */
	job->durable = job->version;
	job->version = hd_version_make(hd_serve_incarnation(turn, former), counter);
	if (mirror->source != NULL) { /* it may live, and think that it is the server */
		hd_mirror_answer(
			turn, mirror->source, job->id, mirror->generation, HD_FOLLOW_FENCED
		);
	}
	job->generation = mirror->serve_generation;
	job->confirmed = true; /* who promotes it knows what it has */
	hd_mirror_free(turn->server, job);
	hd_job_idle(turn, job); /* until somebody has joined */
	turn->server->stats.promoted++;
	event.version = job->version;
	hd_turn_event(turn, &event);
	hd_server_announce(turn, job);
	hd_job_joined(turn, job);
	hd_mirror_ask_joins(turn->server, job->id); /* who said JOIN before there was a copy */
	hd_checkpoint_consider(turn, job, true);
}

bool hd_mirror_run(struct hd_turn *turn, struct hd_job *job) {
	struct hd_mirror *mirror = job->mirror;

	if (!hd_mirror_apply(turn, mirror)) {
		return false;
	}
	if (mirror->serve) {
		hd_mirror_promote(turn, mirror);
		return true;
	}
	hd_copies_look(turn, mirror);
	hd_mirror_tell(turn, mirror, false);
	return true;
}

bool hd_mirror_may_begin(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++) {
		if (server->told[i].job == job) {
			return server->told[i].may;
		}
	}
	return !server->config.replica
		&& (server->alone || hd_addr_is_none(server->config.controller));
}

bool hd_mirror_waits(const struct hd_server *server, struct hd_peer *peer, uint32_t job) {
	const struct hd_job *found = hd_job_find(server, job);
	bool waits = found != NULL ? found->retired || found->ending :
				     !hd_mirror_may_begin(server, job);

	peer->waits_for = waits ? job : 0;
	return waits;
}

uint64_t hd_mirror_serves(const struct hd_server *server, uint32_t job) {
	return hd_mirror_may_begin(server, job) ? hd_mirror_generation(server, job) : 0;
}

uint64_t hd_mirror_generation(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++) {
		if (server->told[i].job == job) {
			return server->told[i].generation;
		}
	}
	return 0;
}

void hd_mirror_may(struct hd_server *server, uint32_t job, bool may, uint64_t generation) {
	uint32_t i = 0;

	while (i < server->told_count && server->told[i].job != job) {
		i++;
	}
	if (i == HD_JOBS_MAX) {
		memmove(server->told, server->told + 1, (HD_JOBS_MAX - 1) * sizeof(server->told[0])
		);
		i--;
	}
	server->told_count = i + 1 > server->told_count ? i + 1 : server->told_count;
	server->told[i] = (struct hd_told){job, may, generation};
}

/* It had no answer, and says it once a session. */
void hd_mirror_ask_joins(struct hd_server *server, uint32_t job) {
	struct hd_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->waits_for != 0 && (job == 0 || peer->waits_for == job)) {
			peer->waits_for = 0;
			hd_peer_break(server, peer, "jobs may begin here now");
		}
	}
}

/* Another node thinks that it is the server, and this one began to copy its job: it is to be the server itself. */
static void hd_mirror_give_up(
	struct hd_turn *turn,
	const struct hd_mirror *mirror,
	const struct hd_msg_replica *order
) {
	if (mirror->source != NULL) {
		hd_mirror_answer(
			turn, mirror->source, order->job, mirror->generation, HD_FOLLOW_FENCED
		);
	}
	hd_job_retire(turn, mirror->job);
	hd_mirror_may(turn->server, order->job, true, order->generation);
}

void hd_mirror_serve(struct hd_turn *turn, const struct hd_msg_replica *order) {
	struct hd_server *server = turn->server;
	struct hd_mirror *mirror = hd_mirror_of(server, order->job);
	struct hd_job *job = hd_job_find(server, order->job);

	/* Without a copy it begins with a checkpoint, if there is one: the controller has no other. */
	hd_mirror_may(server, order->job, true, order->generation);
	if (job == NULL) {
		hd_mirror_ask_joins(server, order->job);
		return;
	}
	if (mirror == NULL) {
		hd_job_told(job, order->generation);
		if (!job->retired) {
			hd_job_goes_on(turn, job);
		}
		return;
	}
	if (order->generation <= mirror->generation) {
		server->stats.refused_messages++;
		return;
	}
	if (!mirror->seeded) {
		hd_mirror_give_up(turn, mirror, order);
		return;
	}
	hd_mirror_seed_drop(server, mirror);
	mirror->serve = true;
	mirror->serve_generation = order->generation;
	mirror->job->dirty = true;
}

/* --- time ------------------------------------------------------------------------------------- */

void hd_mirror_timer(struct hd_turn *turn, struct hd_mirror *mirror) {
	mirror->job->dirty = true; /* looked at in this very call */
	(void)turn;
}
