/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A state for a replica: one version's model and momentum as two transfers, the rounds that are in it, and the log from
 * there on. Commits continue meanwhile, on copies, as during a checkpoint.
 *
 *   SEED(version 17) | LOG past | LOG 18 | LOG 19 ...       messages, in this order
 *   chunks of model and momentum at 17 ..............       in parallel
 */
#include "hd_bytes.h"
#include "rep_primary.h"
#include "srv_keep.h"

#include <assert.h>
#include <errno.h>

/* --- messages --------------------------------------------------------------------------------- */

static void log_flush(
	struct srv_turn *turn,
	struct rep_primary *primary,
	enum hd_log_of of,
	const uint8_t *data,
	size_t bytes
) {
	struct hd_message message = {.kind = HD_MSG_LOG};

	if ((bytes == 0 && of != HD_LOG_ROUNDS_END) || !primary->link->peer)
		return;
	message.log = (struct hd_msg_log){
		.job = primary->job->id,
		.generation = primary->generation,
		.of = (uint8_t)of,
		.entries = {data, (uint32_t)bytes},
	};
	srv_peer_send(turn, primary->link->peer, &message);
	turn->server->stats.log_messages++;
}

static struct hd_entry_member log_member(const struct srv_part *part, uint64_t counter) {
	const struct srv_incoming *in = part->in;
	uint64_t index = (uint64_t)(part - in->parts);

	return (struct hd_entry_member){
		.base = part->base,
		.position = in->kind == SRV_DIRECT ? 0 : in->position + index,
		.round = part->round,
		.delay = srv_commit_delay(part, counter),
		.worker = part->member->rank,
	};
}

/* The entries of one commit, in as few messages as possible. */
struct log_batch {
	struct srv_turn *turn;
	struct rep_primary *primary;
	size_t used;
	uint8_t data[REP_LOG_BYTES_MAX];
};

static void log_batch_flush(struct log_batch *batch) {
	log_flush(batch->turn, batch->primary, HD_LOG_COMMITS, batch->data, batch->used);
	batch->used = 0;
}

static void log_batch_put(
	struct log_batch *batch,
	const struct hd_entry *entry,
	const struct hd_entry_member *members
) {
	const size_t capacity = sizeof batch->data;
	int bytes = hd_entry_put(entry, members, batch->data + batch->used, capacity - batch->used);

	if (bytes < 0 && batch->used > 0) {
		log_batch_flush(batch);
		bytes = hd_entry_put(entry, members, batch->data, capacity);
	}
	if (bytes < 0) { /* one message cannot hold its members: the replica needs a state */
		batch->primary->due = true;
		return;
	}
	batch->used += (size_t)bytes;
}

/* The entry of one transfer with its members; `more` members of the same commit follow in later entries. */
static struct hd_entry log_entry(
	const struct srv_job *job,
	const struct srv_incoming *in,
	struct hd_entry_member *members,
	uint32_t more
) {
	uint64_t counter = hd_version_counter(job->version) - more;

	for (uint16_t i = 0; i < in->part_count; i++)
		members[i] = log_member(&in->parts[i], counter - in->part_count + 1 + i);
	return (struct hd_entry){
		.version = hd_version_make(hd_version_incarnation(job->version), counter),
		.bytes = in->bytes,
		.weight = srv_incoming_weight(in),
		.dtype = in->dtype,
		.member_count = in->part_count,
		.more = (uint16_t)more,
		.scale = in->state == SRV_STEPPED ? job->step.scale : 1,
	};
}

void rep_log_commit(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct srv_incoming *in,
	double update
) {
	uint32_t more = srv_commit_parts(in);
	struct hd_entry_member *members = calloc(more, sizeof *members);
	struct log_batch batch = {.turn = turn, .primary = job->primary};

	if (!members) {
		job->primary->due = true; /* send a state instead */
		return;
	}
	for (const struct srv_incoming *of = in; of; of = srv_commit_after(of)) {
		struct hd_entry entry;

		more -= of->part_count;
		entry = log_entry(job, of, members, more);
		entry.update = more == 0 ? update : 0;
		log_batch_put(&batch, &entry, members);
	}
	log_batch_flush(&batch);
	free(members);
}

/* Sends the rounds that are in the state, so that a promoted replica recognises rounds that are pushed again. */
static void state_past(struct srv_turn *turn, struct rep_primary *primary) {
	const struct srv_job *job = primary->job;
	uint32_t most = job->member_count > REP_ROUNDS_MANY ? REP_ROUNDS_FEW : HD_ROUNDS_KEPT;
	struct hd_last_round rows[HD_ROUNDS_KEPT];
	uint8_t data[REP_LOG_BYTES_MAX];
	size_t used = 0;

	for (uint32_t rank = 0; rank < HD_WORKERS_MAX; rank++) {
		uint32_t count = job->members[rank] ?
			srv_member_applied(job->members[rank], most, rows) :
			0;

		for (uint32_t i = 0; i < count; i++) {
			struct hd_entry entry = {.version = rows[i].version, .member_count = 1};
			struct hd_entry_member member = {
				.round = rows[i].round,
				.delay = rows[i].delay,
				.worker = rows[i].worker,
			};

			if (used + HD_ENTRY_HEAD_BYTES + HD_ENTRY_MEMBER_BYTES > sizeof data) {
				log_flush(turn, primary, HD_LOG_ROUNDS, data, used);
				used = 0;
			}
			used += (size_t
			)hd_entry_put(&entry, &member, data + used, sizeof data - used);
		}
	}
	log_flush(turn, primary, HD_LOG_ROUNDS_END, data, used);
}

/* Sends SEED. 0 or -errno. */
static int state_send(struct srv_turn *turn, struct rep_primary *primary) {
	struct hd_message message = {.kind = HD_MSG_SEED};
	const struct srv_job *job = primary->job;
	uint8_t prior[HD_INCARNATIONS_MAX * REP_INCARNATION_BYTES];
	uint8_t *spec = malloc(HD_MESSAGE_BYTES_MAX);
	int bytes = spec ? hd_jobspec_encode(&job->spec, spec, HD_MESSAGE_BYTES_MAX) : -ENOMEM;

	for (uint32_t i = 0; i < job->prior_count; i++) {
		hd_put16(prior + (size_t)i * REP_INCARNATION_BYTES, job->prior[i].incarnation);
		hd_put64(prior + (size_t)i * REP_INCARNATION_BYTES + 2, job->prior[i].last);
	}
	if (bytes > 0) {
		message.seed = (struct hd_msg_seed){
			.job = job->id,
			.generation = primary->generation,
			.version = job->version,
			.model_token = primary->part[0].handle.token,
			.momentum_token = primary->part[1].handle.token,
			.bytes = job->bytes,
			.every = primary->every,
			.prior = {prior, job->prior_count * REP_INCARNATION_BYTES},
			.spec = {spec, (uint32_t)bytes},
		};
		bytes = hd_session_send(
			primary->link->peer->session, &message, turn->now, turn->sink
		);
	}
	free(spec);
	return bytes;
}

/* --- transfers -------------------------------------------------------------------------------- */

static int state_open(struct srv_turn *turn, struct rep_primary *primary, uint32_t index) {
	struct rep_state_out *part = &primary->part[index];
	struct srv_job *job = primary->job;
	struct hd_server *server = turn->server;
	struct hd_send_config config = {
		.peer = primary->link->addr,
		.header =
			{
				.job = job->id,
				.worker = HD_WORKERS_MAX,
				.round = index + 1,
				.dtype = HD_DTYPE_FP32,
				.version = job->version,
			},
		.data = primary->held_state[index]->data,
		.bytes = job->bytes,
		.chunk_bytes = server->config.chunk_bytes,
		.cc_weight = 1,
		.path = &primary->link->peer->path,
		.keys = server->config.keys,
		.key_id = server->config.key_id,
	};
	int rc;

	part->handle.token = hd_token_draw(&server->entropy, !job->spec.unsealed);
	config.header.token = part->handle.token;
	if (primary->rate_bps > 0) {
		/* Model and momentum are sent in parallel. */
		config.segments.count = 1;
		config.segments.item[0]
			= (struct hd_segment){turn->now, primary->rate_bps / 2 + 1, job->bytes};
	}
	rc = srv_handle_add(server, &part->handle);
	if (rc < 0)
		return rc;
	hd_path_hear_rtt(config.path, hd_session_rtt_least(primary->link->peer->session));
	rc = hd_send_create(&config, turn->now, &part->send);
	if (rc < 0) {
		part->send = NULL;
		srv_handle_remove(server, &part->handle);
		return rc;
	}
	hd_timer_set(&server->sends, &part->timer, turn->now);
	return 0;
}

static void state_part_end(struct hd_server *server, struct rep_state_out *part) {
	if (!part->send)
		return;
	hd_send_destroy(part->send);
	part->send = NULL;
	srv_handle_remove(server, &part->handle);
	hd_timer_set(&server->sends, &part->timer, HD_NEVER);
}

void rep_state_end(struct hd_server *server, struct rep_primary *primary) {
	if (!primary->sending)
		return;
	state_part_end(server, &primary->part[0]);
	state_part_end(server, &primary->part[1]);
	srv_state_release(server, primary->job, primary->held_state);
	primary->sending = false;
	server->freed = true;
}

void rep_state_begin(struct srv_turn *turn, struct rep_primary *primary) {
	struct hd_server *server = turn->server;
	int rc = srv_state_hold(server, primary->job, primary->held_state);

	primary->sent_at = turn->now;
	if (rc < 0) {
		primary->again_at = hd_ns_add(turn->now, REP_RETRY_US * HD_US);
		hd_timer_set(&server->timers, &primary->timer, primary->again_at);
		return;
	}
	primary->sending = true;
	rc = state_open(turn, primary, 0);
	if (rc == 0)
		rc = state_open(turn, primary, 1);
	if (rc == 0)
		rc = state_send(turn, primary);
	if (rc < 0) {
		rep_state_end(server, primary);
		primary->again_at = hd_ns_add(turn->now, REP_RETRY_US * HD_US);
		hd_timer_set(&server->timers, &primary->timer, primary->again_at);
		return;
	}
	primary->due = false;
	primary->logs = true;
	primary->sent = primary->job->version;
	server->stats.states_sent++;
	state_past(turn, primary);
}

/* --- one transfer's turn ---------------------------------------------------------------------- */

void rep_state_check(struct srv_turn *turn, struct rep_primary *primary) {
	bool failed = false;

	if (!primary->sending)
		return;
	for (uint32_t i = 0; i < 2; i++) {
		struct rep_state_out *part = &primary->part[i];
		enum hd_send_state state
			= part->send ? hd_send_stats(part->send)->state : HD_SEND_DONE;

		failed = failed || state == HD_SEND_FAILED;
		if (state == HD_SEND_DONE)
			state_part_end(turn->server, part);
	}
	primary->due = primary->due || failed;
	if (failed || (!primary->part[0].send && !primary->part[1].send))
		rep_state_end(turn->server, primary);
}

void rep_state_sack(
	struct srv_turn *turn,
	struct srv_handle *handle,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
) {
	struct rep_state_out *part = hd_container_of(handle, struct rep_state_out, handle);

	assert(handle->kind == SRV_HANDLE_STATE_OUT);
	if (part->primary->link->peer != peer)
		return;
	hd_send_sack(part->send, turn->now, sack);
	hd_timer_set(&turn->server->sends, &part->timer, turn->now);
	rep_state_check(turn, part->primary);
}

size_t rep_state_poll(struct srv_turn *turn, struct hd_timer *timer) {
	struct rep_state_out *part = hd_container_of(timer, struct rep_state_out, timer);
	hd_ns next = turn->now;
	size_t sent;

	sent = hd_send_poll(part->send, turn->now, SRV_POLL_PACKETS, turn->sink);
	if (hd_send_stats(part->send)->state >= HD_SEND_DONE) {
		/* The sink may still read it, so the next call ends it. */
		hd_timer_set(&turn->server->timers, &part->primary->timer, turn->now);
		return sent;
	}
	if (sent < SRV_POLL_PACKETS)
		next = hd_ns_max(hd_send_deadline(part->send), turn->now + 1);
	hd_timer_set(&turn->server->sends, &part->timer, next);
	return sent;
}
