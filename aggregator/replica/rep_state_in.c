/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving a state at a replica. A complete state replaces the job's state at once. Until then the older state, if
 * there is one, stays in force for a promotion and goes on following the log.
 */
#include "hd_bytes.h"
#include "rep_job.h"
#include "rep_primary.h"
#include "srv_assignment.h"
#include "srv_keep.h"
#include "srv_step.h"

#include <assert.h>
#include <errno.h>

/* --- dropping one ----------------------------------------------------------------------------- */

static void state_in_end(struct hd_server *server, struct rep_job *replica, uint32_t index) {
	struct rep_state_in *part = &replica->part[index];

	if (part->recv) {
		hd_recv_destroy(part->recv);
		part->recv = NULL;
		srv_handle_remove(server, &part->handle);
	}
	srv_buffer_put(server, replica->job, part->buffer);
	part->buffer = NULL;
	part->whole = false;
}

void rep_state_drop(struct hd_server *server, struct rep_job *replica) {
	state_in_end(server, replica, 0);
	state_in_end(server, replica, 1);
	free(replica->staged);
	replica->staged = NULL;
	replica->staged_count = 0;
	replica->staged_capacity = 0;
	replica->staged_all = false;
	replica->receiving = false;
}

/* --- its rounds ------------------------------------------------------------------------------- */

static bool stage_grow(struct rep_job *replica) {
	uint32_t capacity = replica->staged_capacity > 0 ? 2 * replica->staged_capacity : 256;
	struct hd_last_round *grown;

	if (replica->staged_count < replica->staged_capacity)
		return true;
	if (capacity > REP_STAGED_MAX)
		return false;
	grown = realloc(replica->staged, capacity * sizeof *grown);
	if (!grown)
		return false;
	replica->staged = grown;
	replica->staged_capacity = capacity;
	return true;
}

void rep_state_stage(struct rep_job *replica, const struct hd_msg_log *log) {
	struct hd_entry head;
	uint32_t at = 0;

	while (replica->receiving && hd_entry_next(&log->entries, &at, &head) > 0) {
		struct hd_entry_member member = hd_entry_member(&head, 0);

		if (member.worker >= HD_WORKERS_MAX || member.round == 0 || !stage_grow(replica))
			continue;
		replica->staged[replica->staged_count++] = (struct hd_last_round){
			.worker = member.worker,
			.round = member.round,
			.delay = member.delay,
			.outcome = head.version != 0 ? HD_OUTCOME_APPLIED : HD_OUTCOME_PENDING,
			.version = head.version,
		};
	}
	replica->staged_all = replica->receiving && log->of == HD_LOG_ROUNDS_END;
}

static void staged_take(struct rep_job *replica) {
	struct srv_job *job = replica->job;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->members[i])
			srv_member_forget(job->members[i]);
	for (uint32_t i = 0; i < replica->staged_count; i++) {
		const struct hd_last_round *row = &replica->staged[i];
		struct srv_member *member = srv_job_enter(job, row->worker);
		struct srv_round round = {
			.round = row->round,
			.outcome = row->outcome,
			.delay = row->delay,
			.version = row->version,
		};

		if (member)
			srv_member_record(member, &round);
	}
}

/* --- SEED ------------------------------------------------------------------------------------- */

bool rep_job_begin(struct srv_turn *turn, struct srv_job *job) {
	struct hd_server *server = turn->server;
	struct rep_job *replica = calloc(1, sizeof *replica);

	assert(!job->replica && !job->primary);
	if (!replica || hd_timers_reserve(&server->timers) < 0) {
		free(replica);
		return false;
	}
	replica->job = job;
	replica->timer.kind = SRV_TIMER_REPLICA;
	for (uint32_t i = 0; i < 2; i++) {
		replica->part[i].handle.kind = SRV_HANDLE_STATE_IN;
		replica->part[i].replica = replica;
	}
	TAILQ_INIT(&replica->entries);
	TAILQ_INIT(&replica->sums);
	TAILQ_INSERT_TAIL(&server->replicas, replica, link);
	job->replica = replica;
	return true;
}

static int
state_in_open(struct srv_turn *turn, struct rep_job *replica, uint32_t index, uint64_t token) {
	struct rep_state_in *part = &replica->part[index];
	struct srv_job *job = replica->job;
	struct hd_recv_config config = {
		.token = token,
		.job = job->id,
		.round = index + 1,
		.worker = HD_WORKERS_MAX,
		.dtype = HD_DTYPE_FP32,
		.bytes = job->bytes,
	};
	int rc;

	part->buffer = srv_buffer_get(turn->server, job);
	while (!part->buffer && rep_sums_yield(turn, replica))
		part->buffer = srv_buffer_get(turn->server, job);
	if (!part->buffer)
		return -ENOMEM;
	config.data = part->buffer->data;
	part->handle.token = token;
	rc = srv_handle_add(turn->server, &part->handle);
	if (rc < 0)
		return rc;
	rc = hd_recv_create(&config, &part->recv);
	if (rc < 0) {
		part->recv = NULL;
		srv_handle_remove(turn->server, &part->handle);
	}
	return rc;
}

static void state_incarnations(struct rep_job *replica, const struct hd_blob *prior) {
	uint32_t count = prior->bytes / REP_INCARNATION_BYTES;

	replica->prior_count = count < HD_INCARNATIONS_MAX ? count : HD_INCARNATIONS_MAX;
	for (uint32_t i = 0; i < replica->prior_count; i++) {
		const uint8_t *at = prior->data + (size_t)i * REP_INCARNATION_BYTES;

		replica->prior[i] = (struct hd_incarnation){hd_get16(at), hd_get64(at + 2)};
	}
}

static void
state_take(struct srv_turn *turn, struct rep_job *replica, const struct hd_msg_seed *seed) {
	rep_state_drop(turn->server, replica);
	replica->receiving = true;
	replica->received = seed->version;
	replica->every = seed->every;
	state_incarnations(replica, &seed->prior);
	if (state_in_open(turn, replica, 0, seed->model_token) < 0
	    || state_in_open(turn, replica, 1, seed->momentum_token) < 0) {
		rep_state_drop(turn->server, replica);
		turn->server->stats.drop_memory++;
		rep_job_answer(turn, replica->source, seed->job, seed->generation, HD_FOLLOW_NONE);
		return;
	}
	rep_job_tell(turn, replica, true);
}

/* The server began the job again, with another history, so its versions may be smaller than ours. */
static bool
state_is_of_another_history(const struct rep_job *replica, const struct hd_msg_seed *seed) {
	hd_version ours = replica->job->version;

	return replica->has_state && !replica->serve && seed->generation > replica->generation
		&& hd_version_incarnation(seed->version) < hd_version_incarnation(ours);
}

/* A restarted node may have been the job's server before and hold a checkpoint. Only the controller knows, and says so
 * when it registers the node. Until then a state may come from a server that has been replaced meanwhile. */
static bool state_may_be_former(const struct hd_server *server) {
	return server->epoch == 0 && !hd_addr_is_none(server->config.controller);
}

enum rep_verdict
rep_state_offer(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_seed *seed) {
	struct srv_job *job = srv_job_find(turn->server, seed->job);
	struct rep_job *replica;

	if (hd_version_incarnation(seed->version) == UINT16_MAX) { /* none can follow */
		turn->server->stats.refused_messages++;
		return REP_DONE;
	}
	if (turn->server->draining || (job && job->phase == SRV_JOB_RETIRED))
		return REP_DONE; /* the server sends it again */
	if (!job ? srv_assignment_serves(turn->server, seed->job) > seed->generation :
		   !job->replica && job->generation > seed->generation) {
		rep_job_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_FENCED);
		return REP_DONE;
	}
	if (job && !job->replica) {
		/* Its generation is newer than ours; the controller's message to us is in flight. The server sends it
		 * again. */
		rep_job_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_NONE);
		return REP_RETIRE;
	}
	if (job && state_is_of_another_history(job->replica, seed)) {
		rep_job_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_NONE);
		return REP_RETIRE; /* the server sends it again, when the job is gone */
	}
	if (!job && state_may_be_former(turn->server)) {
		rep_job_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_NONE);
		return REP_DONE; /* the server sends it again */
	}
	if (!job)
		return REP_NEW;
	replica = job->replica;
	if (seed->generation < replica->generation || replica->serve
	    || seed->bytes != replica->job->bytes) {
		turn->server->stats.refused_messages++;
		return REP_DONE;
	}
	/* Keeps the queued log, even of an earlier assignment: a version names one commit only. */
	replica->generation = seed->generation;
	replica->source = peer;
	state_take(turn, replica, seed);
	return REP_DONE;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static bool state_is_from(const struct rep_state_in *part, struct hd_addr from) {
	const struct srv_peer *source = part->replica->source;

	return source && hd_addr_equal(hd_session_peer(source->session), from);
}

static void state_chunk(
	struct srv_turn *turn,
	struct rep_state_in *part,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t bytes
) {
	struct hd_server_stats *stats = &turn->server->stats;

	switch (hd_recv_chunk(part->recv, turn->now, header, payload, bytes)) {
	case HD_RECV_DONE:
		part->whole = true;
		break;
	case HD_RECV_DUPLICATE:
		stats->duplicates++;
		break;
	case HD_RECV_MISMATCH:
		stats->drop_mismatch++;
		return;
	default:
		break;
	}
	stats->chunk_bytes += bytes;
}

void rep_state_packet(
	struct srv_turn *turn,
	struct srv_handle *handle,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	struct rep_state_in *part = hd_container_of(handle, struct rep_state_in, handle);

	assert(handle->kind == SRV_HANDLE_STATE_IN);
	if (!state_is_from(part, packet->peer)) {
		turn->server->stats.drop_source++;
		return;
	}
	if (srv_chunk_is_true(turn, &part->seal, header, packet)) {
		state_chunk(
			turn,
			part,
			header,
			payload,
			packet->bytes - (size_t)(payload - packet->data)
		);
	}
}

static void state_in_sack(struct srv_turn *turn, struct rep_job *replica, uint32_t index) {
	struct hd_message message = {.kind = HD_MSG_SACK};
	struct hd_recv *recv = replica->part[index].recv;

	if (!recv || !replica->source || !hd_recv_sack_due(recv, turn->now))
		return;
	hd_recv_sack(recv, turn->now, turn->server->config.receive_window_bytes, &message.sack);
	(void)hd_session_send_once(replica->source->session, &message, turn->now, turn->sink);
}

/* --- the whole state -------------------------------------------------------------------------- */

static void state_swap(struct hd_server *server, struct rep_job *replica) {
	struct srv_job *job = replica->job;
	struct rep_entry *entry, *next;

	srv_state_replace(
		server,
		job,
		&(struct srv_state){
			.model = replica->part[0].buffer,
			.momentum = replica->part[1].buffer,
			.version = replica->received,
			.prior = replica->prior,
			.prior_count = replica->prior_count,
		}
	);
	replica->part[0].buffer = NULL;
	replica->part[1].buffer = NULL;
	staged_take(replica);
	for (entry = TAILQ_FIRST(&replica->entries); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->head.version <= replica->received
		    || (entry->copy && entry->copy->state == SRV_STEPPED))
			rep_entry_free(server, entry);
	}
	srv_step_end(job); /* a state replaces what the current step had added up */
	replica->has_state = true;
	server->stats.states_taken++;
	job->dirty = true;
}

static void replica_settle(struct srv_turn *turn, struct rep_job *replica) {
	state_in_sack(turn, replica, 0);
	state_in_sack(turn, replica, 1);
	/* Without the rounds, a push that is in the state would be applied again. */
	if (!replica->receiving || !replica->staged_all || !replica->part[0].whole
	    || !replica->part[1].whole || replica->job->apply.in || replica->serve)
		return;
	/* Drops a state that is older than our version. */
	if (!replica->has_state || replica->received > replica->job->version) {
		rep_copies_overtaken(turn, replica, replica->received);
		state_swap(turn->server, replica);
		rep_event(turn, replica->job, HD_EVENT_SEEDED, NULL);
	}
	rep_state_drop(turn->server, replica);
	rep_job_tell(turn, replica, true);
}

void rep_states_settle(struct srv_turn *turn) {
	struct rep_job *replica;

	TAILQ_FOREACH (replica, &turn->server->replicas, link)
		replica_settle(turn, replica);
}

hd_ns rep_jobs_deadline(const struct hd_server *server) {
	const struct rep_job *replica;
	hd_ns deadline = HD_NEVER;

	TAILQ_FOREACH (replica, &server->replicas, link) {
		for (uint32_t i = 0; i < 2 && replica->source; i++) {
			if (replica->part[i].recv) {
				deadline = hd_ns_min(
					deadline, hd_recv_deadline(replica->part[i].recv)
				);
			}
		}
	}
	return deadline;
}
