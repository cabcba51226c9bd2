/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A state for a replica: one version's model and momentum as two transfers, the rounds that are in it, and the log from
 * there. Commits go on meanwhile, on copies, as while a checkpoint is written.
 *
 *   SEED(version 17) | LOG past | LOG 18 | LOG 19 ...       messages, in this order
 *   chunks of model and momentum at 17 ..............       beside them
 */
#include "hd_bytes.h"
#include "hd_replica.h"
#include "hd_server_step.h"

#include <errno.h>

/* --- messages --------------------------------------------------------------------------------- */

static void hd_log_flush(
	struct hd_turn *turn,
	struct hd_follow *follow,
	enum hd_log_of of,
	const uint8_t *data,
	size_t bytes
) {
	struct hd_message message = {.kind = HD_MSG_LOG};

	if ((bytes == 0 && of != HD_LOG_ROUNDS_END) || follow->link->peer == NULL) {
		return;
	}
	message.log = (struct hd_msg_log){
		.job = follow->job->id,
		.generation = follow->generation,
		.of = (uint8_t)of,
		.entries = {data, (uint32_t)bytes},
	};
	hd_peer_send(turn, follow->link->peer, &message);
	turn->server->stats.log_messages++;
}

static struct hd_entry_member hd_log_member(const struct hd_part *part, uint64_t counter) {
	const struct hd_incoming *in = part->in;
	uint64_t index = (uint64_t)(part - in->parts);

	return (struct hd_entry_member){
		.base = part->base,
		.position = in->direct ? 0 : in->position + index,
		.round = part->round,
		.delay = hd_commit_delay(part, counter),
		.worker = part->member->rank,
	};
}

/* The entries of one commit, in as few messages as hold them. */
struct hd_log_batch {
	struct hd_turn *turn;
	struct hd_follow *follow;
	size_t used;
	uint8_t data[HD_LOG_BYTES_MAX];
};

static void hd_log_batch_flush(struct hd_log_batch *batch) {
	hd_log_flush(batch->turn, batch->follow, HD_LOG_COMMITS, batch->data, batch->used);
	batch->used = 0;
}

static void hd_log_batch_put(
	struct hd_log_batch *batch,
	const struct hd_entry *entry,
	const struct hd_entry_member *members
) {
	const size_t capacity = sizeof(batch->data);
	int bytes = hd_entry_put(entry, members, batch->data + batch->used, capacity - batch->used);

	if (bytes < 0 && batch->used > 0) {
		hd_log_batch_flush(batch);
		bytes = hd_entry_put(entry, members, batch->data, capacity);
	}
	if (bytes < 0) { /* too many members for one message: the replica needs a state instead */
		batch->follow->due = true;
		return;
	}
	batch->used += (size_t)bytes;
}

/* One transfer's, and its members; `more` of the same commit come after them. */
static struct hd_entry hd_log_entry(
	const struct hd_job *job,
	const struct hd_incoming *in,
	struct hd_entry_member *members,
	uint32_t more
) {
	uint64_t counter = hd_version_counter(job->version) - more;

	for (uint16_t i = 0; i < in->part_count; i++) {
		members[i] = hd_log_member(&in->parts[i], counter - in->part_count + 1 + i);
	}
	return (struct hd_entry){
		.version = hd_version_make(hd_version_incarnation(job->version), counter),
		.bytes = in->bytes,
		.weight = hd_incoming_weight(in),
		.dtype = in->dtype,
		.member_count = in->part_count,
		.more = (uint16_t)more,
		.scale = in->stepped ? job->step.scale : 1,
	};
}

void hd_log_commit(
	struct hd_turn *turn,
	struct hd_job *job,
	const struct hd_incoming *in,
	double update
) {
	uint32_t more = hd_commit_parts(in);
	struct hd_entry_member *members = calloc(more, sizeof(*members));
	struct hd_log_batch batch = {.turn = turn, .follow = job->follow};

	if (members == NULL) {
		job->follow->due = true; /* a state instead */
		return;
	}
	for (const struct hd_incoming *of = in; of != NULL; of = hd_commit_after(of)) {
		struct hd_entry entry;

		more -= of->part_count;
		entry = hd_log_entry(job, of, members, more);
		entry.update = more == 0 ? update : 0;
		hd_log_batch_put(&batch, &entry, members);
	}
	hd_log_batch_flush(&batch);
	free(members);
}

/* Rounds that are in the state: asked for again at a promoted replica they are recognised. */
static void hd_seed_past(struct hd_turn *turn, struct hd_follow *follow) {
	const struct hd_job *job = follow->job;
	uint32_t most
		= job->member_count > HD_ROUNDS_SEEDED_MANY ? HD_ROUNDS_SEEDED_FEW : HD_ROUNDS_KEPT;
	struct hd_last_round rows[HD_ROUNDS_KEPT];
	uint8_t data[HD_LOG_BYTES_MAX];
	size_t used = 0;

	for (uint32_t rank = 0; rank < HD_WORKERS_MAX; rank++) {
		uint32_t count = job->members[rank] != NULL ?
			hd_member_applied(job->members[rank], most, rows) :
			0;

		for (uint32_t i = 0; i < count; i++) {
			struct hd_entry entry = {.version = rows[i].version, .member_count = 1};
			struct hd_entry_member member = {
				.round = rows[i].round,
				.delay = rows[i].delay,
				.worker = rows[i].worker,
			};

			if (used + HD_ENTRY_HEAD_BYTES + HD_ENTRY_MEMBER_BYTES > sizeof(data)) {
				hd_log_flush(turn, follow, HD_LOG_ROUNDS, data, used);
				used = 0;
			}
			used += (size_t
			)hd_entry_put(&entry, &member, data + used, sizeof(data) - used);
		}
	}
	hd_log_flush(turn, follow, HD_LOG_ROUNDS_END, data, used);
}

/* 0, or the error of sending it. */
static int hd_seed_say(struct hd_turn *turn, struct hd_follow *follow) {
	struct hd_message message = {.kind = HD_MSG_SEED};
	const struct hd_job *job = follow->job;
	uint8_t lives[HD_LIVES_MAX * HD_LIFE_BYTES];
	uint8_t *spec = malloc(HD_MESSAGE_BYTES_MAX);
	int bytes = spec != NULL ? hd_jobspec_encode(&job->spec, spec, HD_MESSAGE_BYTES_MAX) :
				   -ENOMEM;

	for (uint32_t i = 0; i < job->life_count; i++) {
		hd_put16(lives + (size_t)i * HD_LIFE_BYTES, job->lives[i].incarnation);
		hd_put64(lives + (size_t)i * HD_LIFE_BYTES + 2, job->lives[i].last);
	}
	if (bytes > 0) {
		message.seed = (struct hd_msg_seed){
			.job = job->id,
			.generation = follow->generation,
			.version = job->version,
			.model_token = follow->part[0].handle.token,
			.momentum_token = follow->part[1].handle.token,
			.bytes = job->bytes,
			.every = follow->every,
			.lives = {lives, job->life_count * HD_LIFE_BYTES},
			.spec = {spec, (uint32_t)bytes},
		};
		bytes = hd_session_send(
			follow->link->peer->session, &message, turn->now, turn->sink
		);
	}
	free(spec);
	return bytes;
}

/* --- transfers -------------------------------------------------------------------------------- */

static int hd_seed_open(struct hd_turn *turn, struct hd_follow *follow, uint32_t index) {
	struct hd_seed_part *part = &follow->part[index];
	struct hd_job *job = follow->job;
	struct hd_server *server = turn->server;
	struct hd_send_config config = {
		.peer = follow->link->addr,
		.header =
			{
				.job = job->id,
				.worker = HD_WORKERS_MAX,
				.round = index + 1,
				.dtype = HD_DTYPE_FP32,
				.version = job->version,
			},
		.data = follow->held_state[index]->data,
		.bytes = job->bytes,
		.chunk_bytes = server->config.chunk_bytes,
		.cc_weight = 1,
		.path = &follow->link->peer->path,
		.keys = server->config.keys,
		.key_id = server->config.key_id,
	};
	int rc;

	part->handle.token = hd_token_draw(&server->entropy, !job->spec.unsealed);
	config.header.token = part->handle.token;
	if (follow->rate_bps > 0) {
		/* Both run at once. */
		config.segments.count = 1;
		config.segments.item[0]
			= (struct hd_segment){turn->now, follow->rate_bps / 2 + 1, job->bytes};
	}
	rc = hd_handle_add(server, &part->handle);
	if (rc < 0) {
		return rc;
	}
	rc = hd_send_create(&config, turn->now, &part->send);
	if (rc < 0) {
		part->send = NULL;
		hd_handle_remove(server, &part->handle);
		return rc;
	}
	hd_timer_set(&server->sends, &part->timer, turn->now);
	return 0;
}

static void hd_seed_part_end(struct hd_server *server, struct hd_seed_part *part) {
	if (part->send == NULL) {
		return;
	}
	hd_send_destroy(part->send);
	part->send = NULL;
	hd_handle_remove(server, &part->handle);
	hd_timer_set(&server->sends, &part->timer, HD_NEVER);
}

void hd_seed_end(struct hd_server *server, struct hd_follow *follow) {
	if (!follow->seeding) {
		return;
	}
	hd_seed_part_end(server, &follow->part[0]);
	hd_seed_part_end(server, &follow->part[1]);
	hd_state_release(server, follow->job, follow->held_state);
	follow->seeding = false;
	server->freed = true;
}

void hd_seed_begin(struct hd_turn *turn, struct hd_follow *follow) {
	struct hd_server *server = turn->server;
	int rc = hd_state_hold(server, follow->job, follow->held_state);

	follow->seed_at = turn->now;
	if (rc < 0) {
		follow->again_at = hd_ns_add(turn->now, HD_FOLLOW_RETRY_US * HD_US);
		hd_timer_set(&server->timers, &follow->timer, follow->again_at);
		return;
	}
	follow->seeding = true;
	rc = hd_seed_open(turn, follow, 0);
	if (rc == 0) {
		rc = hd_seed_open(turn, follow, 1);
	}
	if (rc == 0) {
		rc = hd_seed_say(turn, follow);
	}
	if (rc < 0) {
		hd_seed_end(server, follow);
		follow->again_at = hd_ns_add(turn->now, HD_FOLLOW_RETRY_US * HD_US);
		hd_timer_set(&server->timers, &follow->timer, follow->again_at);
		return;
	}
	follow->due = false;
	follow->logs = true;
	follow->seed = follow->job->version;
	server->stats.states_sent++;
	hd_seed_past(turn, follow);
}

/* --- one transfer's turn ------------------------------------------------------------------------ */

void hd_seed_check(struct hd_turn *turn, struct hd_follow *follow) {
	bool failed = false;

	if (!follow->seeding) {
		return;
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct hd_seed_part *part = &follow->part[i];
		enum hd_send_state state
			= part->send != NULL ? hd_send_stats(part->send)->state : HD_SEND_DONE;

		failed = failed || state == HD_SEND_FAILED;
		if (state == HD_SEND_DONE) {
			hd_seed_part_end(turn->server, part);
		}
	}
	follow->due = follow->due || failed;
	if (failed || (follow->part[0].send == NULL && follow->part[1].send == NULL)) {
		hd_seed_end(turn->server, follow);
	}
}

void hd_seed_sack(struct hd_turn *turn, struct hd_seed_part *part, const struct hd_msg_sack *sack) {
	hd_send_sack(part->send, turn->now, sack);
	hd_timer_set(&turn->server->sends, &part->timer, turn->now);
	hd_seed_check(turn, part->follow);
}

size_t hd_seed_poll(struct hd_turn *turn, struct hd_timer *timer) {
	struct hd_seed_part *part
		= (struct hd_seed_part
			   *)(void *)((char *)timer - offsetof(struct hd_seed_part, timer));
	hd_ns next = turn->now;
	size_t sent;

	sent = hd_send_poll(part->send, turn->now, HD_POLL_PACKETS, turn->sink);
	if (hd_send_stats(part->send)->state >= HD_SEND_DONE) {
		/* The sink may still read it: looked at in the next call. */
		hd_timer_set(&turn->server->timers, &part->follow->timer, turn->now);
		return sent;
	}
	if (sent < HD_POLL_PACKETS) {
		next = hd_ns_max(hd_send_deadline(part->send), turn->now + 1);
	}
	hd_timer_set(&turn->server->sends, &part->timer, next);
	return sent;
}
