/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs begin with a JOIN: compared with what is there, restored, or created within the memory. */
#include "rep_internal.h"
#include "srv_apply.h"
#include "srv_end.h"
#include "srv_pull.h"
#include "srv_rank.h"
#include "srv_roster.h"
#include "srv_step.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Model, momentum, one update in flight and one snapshot; a checkpoint holds a copy of the momentum
 * besides the snapshot. With these a job always goes on, if slowly. */
#define HD_BUFFERS_NEEDED 4
#define HD_BUFFERS_CHECKPOINT 1
#define HD_BUFFERS_SYNC 1 /* the sum of a synchronous step */
/* First incarnations are drawn below this, so that each restart can count up from there. */
#define HD_FIRST_INCARNATION_MAX 0x7fff

/* --- finding --------------------------------------------------------------------------------- */

struct srv_job *srv_job_find(const struct hd_server *server, uint32_t id) {
	struct srv_job *job;

	TAILQ_FOREACH (job, &server->jobs, link) {
		if (job->id == id) {
			return job;
		}
	}
	return NULL;
}

struct srv_member *srv_job_member(const struct srv_job *job, uint16_t rank) {
	return rank < HD_WORKERS_MAX ? job->members[rank] : NULL;
}

const struct srv_round *srv_member_round(const struct srv_member *member, uint32_t round) {
	const struct srv_round *kept = &member->rounds[round % HD_ROUNDS_KEPT];

	return round != 0 && kept->round == round ? kept : NULL;
}

bool srv_member_forgot(const struct srv_member *member, uint32_t round) {
	return member->newest_round >= HD_ROUNDS_KEPT
		&& round <= member->newest_round - HD_ROUNDS_KEPT;
}

void srv_member_record(struct srv_member *member, const struct srv_round *round) {
	struct srv_round *kept = &member->rounds[round->round % HD_ROUNDS_KEPT];

	if (kept->round <= round->round && round->outcome != HD_OUTCOME_PENDING) {
		*kept = *round;
	}
	if (round->round > member->newest_round) {
		member->newest_round = round->round;
	}
}

bool srv_job_knows(const struct srv_job *job, hd_version base) {
	uint16_t incarnation = hd_version_incarnation(base);
	uint64_t counter = hd_version_counter(base);

	if (incarnation == hd_version_incarnation(job->version)) {
		return counter <= hd_version_counter(job->version);
	}
	for (uint32_t i = 0; i < job->life_count; i++) {
		if (job->lives[i].incarnation == incarnation) {
			return counter <= job->lives[i].last;
		}
	}
	return false;
}

/* --- creating -------------------------------------------------------------------------------- */

void srv_job_destroy(struct hd_server *server, struct srv_job *job) {
	struct srv_outgoing *out;
	struct srv_incoming *in;

	rep_primary_free(server, job);
	rep_job_free(server, job);
	while ((out = TAILQ_FIRST(&job->pulls)) != NULL) {
		srv_outgoing_destroy(server, out);
	}
	while ((in = TAILQ_FIRST(&job->open)) != NULL) {
		srv_incoming_destroy(server, in);
	}
	srv_checkpoint_fini(server, job);
	srv_apply_fini(server, job);
	srv_step_fini(server, job);
	srv_rounds_fini(job);
	for (uint32_t i = 0; i < 2; i++) {
		srv_buffer_put(server, job, job->spare[i]);
	}
	srv_buffer_put(server, job, job->model);
	srv_buffer_put(server, job, job->momentum);
	srv_memory_fini(server, job);
	hd_timers_release(&server->timers, &job->hold);
	hd_timers_release(&server->timers, &job->retry);
	hd_timers_release(&server->timers, &job->roster_timer);
	hd_timers_release(&server->timers, &job->idle);
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		free(job->members[i]);
	}
	free(job->members);
	free(job->log);
	hd_jobspec_fini(&job->spec);
	TAILQ_REMOVE(&server->jobs, job, link);
	server->job_count--;
	free(job);
}

/* The bare job, in the list; takes *spec over only on success. */
static struct srv_job *job_allocate(struct hd_server *server, struct hd_jobspec *spec) {
	struct srv_job *job = calloc(1, sizeof(*job));

	if (job == NULL) {
		return NULL;
	}
	job->members = calloc(HD_WORKERS_MAX, sizeof(struct srv_member *));
	job->log = calloc(HD_COMMITS_KEPT, sizeof(*job->log));
	if (job->members == NULL || job->log == NULL) {
		goto fail_arrays;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		goto fail_arrays;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		goto fail_timer;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		goto fail_retry;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		goto fail_roster;
	}
	job->hold.kind = SRV_TIMER_HOLD;
	job->retry.kind = SRV_TIMER_CHECKPOINT;
	job->roster_timer.kind = SRV_TIMER_ROSTER;
	job->idle.kind = SRV_TIMER_IDLE;
	job->id = hd_job_id(spec->tenant, spec->name);
	job->values = hd_jobspec_values(spec);
	job->bytes = hd_jobspec_model_bytes(spec);
	TAILQ_INIT(&job->open);
	TAILQ_INIT(&job->queue);
	TAILQ_INIT(&job->step.members);
	TAILQ_INIT(&job->pulls);
	job->spec = *spec;
	*spec = (struct hd_jobspec){0};
	TAILQ_INSERT_TAIL(&server->jobs, job, link);
	server->job_count++;
	return job;
fail_roster:
	hd_timers_release(&server->timers, &job->roster_timer);
fail_retry:
	hd_timers_release(&server->timers, &job->retry);
fail_timer:
	hd_timers_release(&server->timers, &job->hold);
fail_arrays:
	free(job->members);
	free(job->log);
	free(job);
	return NULL;
}

bool srv_job_empty(const struct srv_job *job, const struct srv_peers *peers) {
	const struct srv_peer *peer;

	TAILQ_FOREACH (peer, peers, link) {
		if (peer->job == job) {
			return false;
		}
	}
	return true;
}

static int job_admit(struct srv_turn *turn, struct srv_job *job, char *text) {
	struct hd_server *server = turn->server;
	bool checkpoints = server->config.ops != NULL && server->config.ops->checkpoint != NULL;
	bool sums = job->spec.sync != HD_SYNC_NONE;
	uint32_t needed = HD_BUFFERS_NEEDED + (checkpoints ? HD_BUFFERS_CHECKPOINT : 0)
		+ (sums ? HD_BUFFERS_SYNC : 0);
	uint64_t left = srv_memory_left(server);

	do {
		if (srv_memory_guarantee(server, job, needed) == 0) {
			return 0;
		}
	} while (srv_job_give_way(turn, job));
	(void)snprintf(
		text,
		HD_TEXT_BYTES_MAX,
		"memory: the job needs %" PRIu64 " bytes (%" PRIu32 " times its model of %" PRIu64
		": model, momentum, snapshot, an update in flight%s%s), %" PRIu64
		" are left (limit "
		"memory_bytes %" PRIu64 ")",
		job->bytes * needed,
		needed,
		job->bytes,
		checkpoints ? ", checkpoint" : "",
		sums ? ", a step's sum" : "",
		left,
		server->config.memory_bytes
	);
	return -ENOMEM;
}

static void job_restore_rounds(struct srv_job *job, const struct hd_checkpoint *from) {
	for (uint32_t i = 0; i < from->round_count; i++) {
		const struct hd_last_round *last = &from->rounds[i];
		struct srv_member *member;
		struct srv_round round = {
			.round = last->round,
			.outcome = last->outcome,
			.delay = last->delay,
			.version = last->version,
		};

		if (last->worker >= HD_WORKERS_MAX || last->round == 0) {
			continue;
		}
		member = job->members[last->worker];
		if (member == NULL) {
			member = calloc(1, sizeof(*member));
		}
		if (member == NULL) {
			continue;
		}
		member->rank = last->worker;
		job->members[last->worker] = member;
		srv_member_record(member, &round);
	}
}

/* Takes the state of a former life over; this one is the next incarnation after it. */
static int job_restore(struct srv_job *job, const struct hd_checkpoint *from, char *text) {
	uint16_t incarnation = hd_version_incarnation(from->version);
	uint16_t newest
		= incarnation > from->newest_incarnation ? incarnation : from->newest_incarnation;
	uint64_t counter = hd_version_counter(from->version);
	uint32_t skip = from->life_count >= HD_LIVES_MAX ? from->life_count - HD_LIVES_MAX + 1 : 0;
	char difference[HD_TEXT_BYTES_MAX / 2];

	if (!hd_jobspec_equal(&job->spec, &from->spec, difference, sizeof(difference))) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"the checkpoint is of another description: %s",
			difference
		);
		return -EINVAL;
	}
	if (from->values != job->values || newest == UINT16_MAX) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"checkpoint: %" PRIu64 " values of incarnation %u, the job has %" PRIu64
			" (limit 65534 incarnations)",
			from->values,
			newest,
			job->values
		);
		return -EINVAL;
	}
	memcpy(job->model->data, from->model, job->bytes);
	memcpy(job->momentum->data, from->momentum, job->bytes);
	for (uint32_t i = skip; i < from->life_count; i++) {
		job->lives[job->life_count++] = from->lives[i];
	}
	job->lives[job->life_count++] = (struct hd_life){incarnation, counter};
	job->version = hd_version_make((uint16_t)(newest + 1), counter);
	job_restore_rounds(job, from);
	return 0;
}

static void checkpoint_free(struct hd_checkpoint *checkpoint) {
	free(checkpoint->model);
	free(checkpoint->momentum);
	free(checkpoint->rounds);
	free(checkpoint->lives);
	hd_jobspec_fini(&checkpoint->spec);
}

/* Model and momentum: from a checkpoint if there is one, else from the seed. */
static int job_fill(struct srv_turn *turn, struct srv_job *job, char *text) {
	struct hd_server *server = turn->server;
	const struct hd_server_ops *ops = server->config.ops;
	struct hd_checkpoint from = {0};
	int rc = -ENOENT;

	job->model = srv_buffer_get(server, job);
	job->momentum = srv_buffer_get(server, job);
	if (ops != NULL && ops->restore != NULL) {
		rc = ops->restore(server->config.owner, job->id, &from);
	}
	if (rc == 0) {
		rc = job_restore(job, &from, text);
		checkpoint_free(&from);
		job->restoring = rc == 0 && ops->checkpoint != NULL;
		return rc;
	}
	if (rc != -ENOENT) {
		(void)snprintf(
			text, HD_TEXT_BYTES_MAX, "checkpoint: cannot be restored (error %d)", -rc
		);
		return rc;
	}
	hd_jobspec_initialize(&job->spec, job->model->data);
	memset(job->momentum->data, 0, job->bytes);
	/* Drawn, not 1: a life that left no checkpoint may have given out versions too. */
	job->version = hd_version_make(
		(uint16_t)(1 + hd_entropy_u64(&server->entropy) % HD_FIRST_INCARNATION_MAX), 0
	);
	return 0;
}

static struct srv_job *job_create(struct srv_turn *turn, struct hd_jobspec *spec, char *text) {
	struct hd_server *server = turn->server;
	struct srv_job *job;

	if (server->job_count >= HD_JOBS_MAX && !srv_job_give_way(turn, NULL)) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"jobs: %" PRIu32
			" are here, and none can be missed (limit HD_JOBS_MAX %d): end one "
			"(evict job), or begin when one has ended",
			server->job_count,
			HD_JOBS_MAX
		);
		return NULL;
	}
	job = job_allocate(server, spec);
	if (job == NULL) {
		(void)snprintf(text, HD_TEXT_BYTES_MAX, "memory: none left for the job's tables");
		return NULL;
	}
	job->generation = srv_told_generation(server, job->id);
	job->asking = !hd_addr_is_none(server->config.controller);
	srv_job_idle(turn, job); /* until somebody has joined */
	if (job_admit(turn, job, text) < 0 || job_fill(turn, job, text) < 0) {
		srv_job_destroy(server, job);
		return NULL;
	}
	if (job->asking && server->alone) {
		srv_job_alone(turn, job);
	}
	srv_announce(turn, job);
	if (job->restoring) {
		srv_checkpoint_consider(turn, job, true);
	}
	return job;
}

struct srv_job *srv_job_create_replica(struct srv_turn *turn, struct hd_jobspec *spec, char *text) {
	struct hd_server *server = turn->server;
	bool room = server->job_count < HD_JOBS_MAX || srv_job_give_way(turn, NULL);
	struct srv_job *job = room ? job_allocate(server, spec) : NULL;

	if (job == NULL) {
		(void)snprintf(text, HD_TEXT_BYTES_MAX, "jobs or memory: none left for a copy");
		return NULL;
	}
	while (srv_memory_guarantee(server, job, rep_job_buffers(job)) < 0) {
		if (srv_job_give_way(turn, job)) {
			continue;
		}
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"memory: a copy needs %" PRIu64 " bytes (limit memory_bytes %" PRIu64 ")",
			job->bytes * rep_job_buffers(job),
			server->config.memory_bytes
		);
		srv_job_destroy(server, job);
		return NULL;
	}
	job->model = srv_buffer_get(server, job);
	job->momentum = srv_buffer_get(server, job);
	return job;
}

/* --- joining --------------------------------------------------------------------------------- */

static void
peer_refuse(struct srv_turn *turn, struct srv_peer *peer, uint32_t job, const char *text) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	message.refuse.wire_version = HD_WIRE_VERSION;
	message.refuse.job = job;
	(void)snprintf(message.refuse.text, sizeof(message.refuse.text), "%s", text);
	turn->server->stats.refused_messages++;
	srv_peer_send(turn, peer, &message);
}

static void peer_joined(struct srv_turn *turn, struct srv_peer *peer) {
	struct hd_message message = {.kind = HD_MSG_JOINED};
	const struct srv_job *job = peer->job;
	const struct srv_part *part;
	uint32_t last_round = peer->member->newest_round;

	LIST_FOREACH (part, &peer->member->parts, member_link) {
		last_round = part->round > last_round ? part->round : last_round;
	}
	message.joined = (struct hd_msg_joined){
		.job = job->id,
		.version = job->version,
		.durable = job->durable,
		.last_round = last_round,
		.tau_max = job->spec.tau_max,
	};
	peer->joined = true;
	srv_step_joined(turn->server, peer->job);
	srv_peer_send(turn, peer, &message);
	srv_roster_change(turn, peer->job, peer->member->rank, !peer->member->observer);
}

void srv_job_joined(struct srv_turn *turn, struct srv_job *job) {
	struct srv_peer *peer;

	if (srv_job_away(job)) {
		return;
	}
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job && !peer->joined) {
			peer_joined(turn, peer);
		}
	}
}

/* Ties the session to its worker. A newer session of the same rank takes the older one's place. */
static void peer_attach(
	struct srv_turn *turn,
	struct srv_peer *peer,
	struct srv_job *job,
	struct srv_member *member
) {
	struct srv_peer *older = member->peer;

	if (older != NULL && older != peer) {
		srv_peer_detach(turn, older, HD_REASON_DUPLICATE);
		srv_peer_break(turn->server, older, "a newer session joined as this worker");
	}
	member->peer = peer;
	member->left = false;
	member->done = false;
	if (!member->joined) {
		member->joined = true;
		member->first_round = member->newest_round;
	}
	if (job->report.begun == 0) {
		job->report.begun = turn->now;
	}
	peer->job = job;
	peer->member = member;
	if (!srv_job_away(job)) {
		peer_joined(turn, peer);
	}
}

struct srv_member *srv_job_enter(struct srv_job *job, uint16_t rank) {
	struct srv_member *member = job->members[rank];

	if (member != NULL) {
		return member;
	}
	member = calloc(1, sizeof(*member));
	if (member != NULL) {
		member->rank = rank;
		job->members[rank] = member;
		job->member_count++;
	}
	return member;
}

/* The job that the description names: there and equal, or created. NULL with text: refused. */
static struct srv_job *job_agree(
	struct srv_turn *turn,
	const struct hd_msg_join *join,
	struct hd_jobspec *spec,
	char *text
) {
	struct srv_job *job;
	int used;

	if (hd_job_id(spec->tenant, spec->name) != join->job) {
		(void)snprintf(
			text, HD_TEXT_BYTES_MAX, "job: its id is not that of its tenant and name"
		);
		return NULL;
	}
	job = srv_job_find(turn->server, join->job);
	if (job == NULL) {
		return job_create(turn, spec, text);
	}
	used = snprintf(text, HD_TEXT_BYTES_MAX, "description: ");
	if (!hd_jobspec_equal(spec, &job->spec, text + used, (size_t)(HD_TEXT_BYTES_MAX - used))) {
		return NULL;
	}
	return job;
}

void srv_job_join(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join) {
	char text[HD_TEXT_BYTES_MAX + 1] = "";
	struct hd_jobspec spec = {0};
	struct srv_member *member;
	struct srv_job *job;

	/* Without a description it is from a worker that has copies for us: its packets say who it is.
	 * A refusal would be for good; the session ends with the server, and its next life is asked. */
	if (turn->server->draining || join->spec.bytes == 0
	    || srv_told_waits(turn->server, peer, join->job)) {
		return;
	}
	if (peer->job != NULL
	    && (peer->job->id != join->job || peer->member->rank != join->worker)) {
		peer_refuse(turn, peer, join->job, "this session has joined another job or rank");
		return;
	}
	if (join->worker >= HD_WORKERS_MAX) {
		peer_refuse(turn, peer, join->job, "worker: rank beyond 4095 (HD_WORKERS_MAX)");
		return;
	}
	if (hd_jobspec_decode(join->spec.data, join->spec.bytes, &spec) < 0) {
		peer_refuse(turn, peer, join->job, "spec: malformed or beyond a limit");
		return;
	}
	job = job_agree(turn, join, &spec, text);
	hd_jobspec_fini(&spec);
	if (job == NULL) {
		peer_refuse(turn, peer, join->job, text);
		return;
	}
	if (srv_rank_is_held(turn, peer, job, join->worker)) {
		return;
	}
	member = srv_job_enter(job, join->worker);
	if (member == NULL) {
		peer_refuse(turn, peer, join->job, "memory: none left for another worker");
		return;
	}
	member->observer = join->observer != 0;
	if (join->last_round == 0 && !member->observer) {
		srv_step_anew(turn->server, job, member);
	}
	peer_attach(turn, peer, job, member);
}

/* --- leaving --------------------------------------------------------------------------------- */

void srv_peer_detach(struct srv_turn *turn, struct srv_peer *peer, enum hd_reason reason) {
	struct srv_member *member = peer->member;
	struct srv_part *part, *next;
	struct srv_outgoing *out;

	while ((out = LIST_FIRST(&peer->outgoing)) != NULL) {
		srv_pull_end(turn, out, reason);
	}
	srv_aggregator_detach(turn, peer);
	if (member == NULL) {
		return;
	}
	peer->job->emptied = true;
	peer->job->left = member->left;
	srv_job_idle(turn, peer->job);
	srv_roster_change(turn, peer->job, member->rank, false);
	peer->job->dirty = true; /* a step may have waited for this one alone */
	member->peer = NULL;
	peer->member = NULL;
	peer->job = NULL;
	peer->joined = false;
	/* What is held whole is still committed; so are sums: whether this worker's part is in one whole knows its
	 * aggregator, who gives it up if not. */
	for (part = LIST_FIRST(&member->parts); part != NULL; part = next) {
		next = LIST_NEXT(part, member_link);
		if (!part->in->complete && !part->in->sum) {
			reason = reason == HD_REASON_LEFT ? reason : HD_REASON_LEASE;
			srv_incoming_fail(turn, part->in, reason, NULL);
		}
	}
}

/* With NONE it is about to: no step waits for it. */
void srv_job_leave(struct srv_turn *turn, struct srv_peer *peer, uint8_t reason) {
	if (reason == HD_REASON_NONE && peer->job->spec.sync != HD_SYNC_NONE) {
		peer->member->done = true;
		peer->job->dirty = true; /* a step may have waited for it */
		return;
	}
	peer->member->left = true;
	srv_peer_detach(turn, peer, HD_REASON_LEFT);
}
