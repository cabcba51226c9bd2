/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An update in transfer: of one worker, or the sum of several, which is one transfer with a part for each.
 *
 *   EXPECT, REQUEST --> one part  \
 *   MEMBERS --------> k parts  ----> announced, started, complete, applied: k rounds end APPLIED
 *                                  \--> failed: rounds that cannot be applied any more end, the others are
 *                                       withdrawn: their workers ask again
 */
#include "hd_group.h"
#include "srv_incoming.h"
#include "srv_keep.h"

#include <assert.h>
#include <errno.h>

/* --- beginning and ending --------------------------------------------------------------------- */

struct srv_incoming *srv_incoming_create(
	struct srv_turn *turn,
	struct srv_job *job,
	uint64_t token,
	uint16_t part_count
) {
	struct hd_server *server = turn->server;
	struct srv_incoming *in = calloc(1, sizeof *in + part_count * sizeof in->parts[0]);

	if (!in)
		return NULL;
	if (hd_timers_reserve(&server->timers) < 0) {
		free(in);
		return NULL;
	}
	in->handle.kind = SRV_HANDLE_INCOMING;
	in->handle.token = token;
	if (srv_handle_add(server, &in->handle) < 0) {
		hd_timers_release(&server->timers, &in->timer);
		free(in);
		return NULL;
	}
	in->timer.kind = SRV_TIMER_INCOMING;
	in->state = SRV_ANNOUNCED;
	in->job = job;
	in->granted = in->active = turn->now;
	in->part_count = part_count;
	in->steps = 1;
	in->scale = 1;
	TAILQ_INSERT_TAIL(&job->open, in, open_link);
	job->open_count++;
	return in;
}

void srv_incoming_enter(struct srv_incoming *in, enum srv_incoming_state state) {
	/* From which others. */
	static const uint8_t from[] = {
		[SRV_STARVED] = 1u << SRV_ANNOUNCED,
		[SRV_ANNOUNCED] = 1u << SRV_STARVED,
		[SRV_COMING] = 1u << SRV_ANNOUNCED,
		[SRV_HELD] = 1u << SRV_COMING,
		[SRV_READY] = 1u << SRV_HELD,
		[SRV_STEPPED] = 1u << SRV_READY,
	};

	assert(from[state] >> in->state & 1);
	assert(state < SRV_COMING || in->recv);
	assert(state != SRV_STARVED || in->kind == SRV_DIRECT);
	in->state = state;
}

void srv_incoming_part(struct srv_incoming *in, uint16_t index, const struct srv_part *like) {
	struct srv_part *part = &in->parts[index];

	*part = *like;
	part->in = in;
	LIST_INSERT_HEAD(&part->member->parts, part, member_link);
}

/* The states from which each may be entered. */
static void incoming_unlink(struct hd_server *server, struct srv_incoming *in) {
	if (in->predecessor)
		LIST_REMOVE(in, successor_link);
	if (in->queued)
		TAILQ_REMOVE(&in->job->queue, in, queue_link);
	if (in->state == SRV_STEPPED)
		TAILQ_REMOVE(&in->job->step.members, in, queue_link);
	if (in->touched)
		TAILQ_REMOVE(&server->touched, in, touched_link);
	if (in->state == SRV_STARVED)
		TAILQ_REMOVE(&server->starved, in, starved_link);
	if (in->aggregator)
		LIST_REMOVE(in, aggregator_link);
	TAILQ_REMOVE(&in->job->open, in, open_link);
	in->job->open_count--;
}

void srv_incoming_destroy(struct hd_server *server, struct srv_incoming *in) {
	struct srv_incoming *successor;

	assert(in->job->apply.in != in);
	while ((successor = LIST_FIRST(&in->successors))) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
	}
	for (uint16_t i = 0; i < in->part_count; i++) {
		struct srv_part *part = &in->parts[i];

		if (part->member)
			LIST_REMOVE(part, member_link);
		if (part->handle.kind == SRV_HANDLE_PART)
			srv_handle_remove(server, &part->handle);
	}
	incoming_unlink(server, in);
	in->job->dirty = true; /* Removes it from the lists. */
	srv_handle_remove(server, &in->handle);
	hd_timers_release(&server->timers, &in->timer);
	hd_recv_destroy(in->recv);
	srv_buffer_put(server, in->job, in->buffer);
	free(in);
}

double srv_incoming_weights(const struct srv_incoming *in) {
	double weights = 0;

	for (uint16_t i = 0; i < in->part_count; i++)
		weights += (double)in->parts[i].weight;
	return weights;
}

float srv_incoming_weight(const struct srv_incoming *in) {
	float weight = 0;

	for (uint16_t i = 0; i < in->part_count; i++)
		weight += in->parts[i].weight;
	return weight;
}

struct srv_peer *srv_incoming_peer(const struct srv_incoming *in) {
	if (srv_incoming_is_copy(in) && in->kind != SRV_SUM)
		return in->source;
	return in->kind == SRV_SUM ? in->aggregator : in->parts[0].member->peer;
}

struct hd_event srv_incoming_event(const struct srv_incoming *in, enum hd_event_kind kind) {
	const struct srv_part *part = &in->parts[0];

	return (struct hd_event){
		.kind = kind,
		.job = in->job->id,
		.worker = in->kind == SRV_SUM ? HD_GROUP_WORKER : part->member->rank,
		.direction = srv_incoming_is_copy(in) ? HD_COPY : HD_PUSH,
		.round = in->kind == SRV_SUM ? 0 : part->round,
		.token = in->handle.token,
		.position = in->kind == SRV_DIRECT ? 0 : in->position,
		.base = in->kind == SRV_SUM ? 0 : part->base,
		.bytes = in->bytes,
	};
}

/* updates behind it may be committed */

struct srv_tombstone
srv_incoming_epitaph(const struct srv_incoming *in, uint64_t token, bool done) {
	return (struct srv_tombstone){
		.handle = {.token = token, .kind = SRV_HANDLE_TOMBSTONE},
		.done = done,
		.copy = srv_incoming_is_copy(in),
		.job = in->job->id,
		.worker = in->kind == SRV_SUM ? HD_GROUP_WORKER : in->parts[0].member->rank,
		.sender = in->sender,
		.chunks = in->chunks,
		.slot_values = in->slot_values,
		.receiver = in->receiver,
	};
}

void srv_tombstone_add(struct hd_server *server, const struct srv_tombstone *like) {
	struct srv_tombstone *tomb = &server->tombstones[server->tombstone_next];

	server->tombstone_next = (server->tombstone_next + 1) % HD_TOMBSTONES_MAX;
	if (tomb->used)
		srv_handle_remove(server, &tomb->handle);
	*tomb = *like;
	tomb->used = srv_handle_add(server, &tomb->handle) == 0;
}

/* --- go --------------------------------------------------------------------------------------- */

/* Go to all members: a switch has no session, so we tell them ourselves. */
static void stream_go(struct srv_turn *turn, const struct srv_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_GO};

	message.go.job = in->job->id;
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct srv_part *part = &in->parts[i];

		message.go.token = part->handle.token;
		if (part->member->peer)
			srv_peer_send(turn, part->member->peer, &message);
	}
}

void srv_incoming_touch(struct hd_server *server, struct srv_incoming *in) {
	if (!in->touched) {
		in->touched = true;
		TAILQ_INSERT_TAIL(&server->touched, in, touched_link);
	}
}

int srv_incoming_open(
	struct hd_server *server,
	struct srv_incoming *in,
	const struct hd_chunk_header *header
) {
	const struct srv_part *part = &in->parts[0];
	struct hd_recv_config config = {
		.token = in->handle.token,
		.job = in->job->id,
		.round = in->kind == SRV_SUM ? header->round : part->round,
		.worker = in->kind == SRV_SUM ? header->worker : part->member->rank,
		.attempt = in->kind == SRV_SUM ? header->attempt : part->attempt,
		.dtype = in->dtype,
		.bytes = in->bytes,
		.chunk_bytes = (uint32_t)(in->slot_values * sizeof(uint32_t)),
		.open = in->kind == SRV_SUM
			&& in->dtype == HD_DTYPE_SPARSE32, /* merged: shorter than announced */
	};
	int rc;

	in->buffer = srv_buffer_get(server, in->job);
	if (!in->buffer)
		return -ENOMEM;
	config.data = in->buffer->data;
	rc = hd_recv_create(&config, &in->recv);
	if (rc < 0) {
		in->recv = NULL;
		srv_buffer_put(server, in->job, in->buffer);
		in->buffer = NULL;
	}
	in->normed = rc == 0 && (in->kind == SRV_CREDIT || in->job->primary);
	return rc;
}

void srv_incoming_go(struct srv_turn *turn, struct srv_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_GO};
	struct hd_event event = srv_incoming_event(in, HD_EVENT_GO);
	struct srv_peer *peer = srv_incoming_peer(in);

	if (in->predecessor) {
		LIST_REMOVE(in, successor_link);
		in->predecessor = NULL;
	}
	in->active = turn->now;
	in->went = true;
	message.go.job = in->job->id;
	message.go.token = in->handle.token;
	srv_turn_event(turn, &event);
	if (in->slot_values != 0) {
		stream_go(turn, in);
		return;
	}
	if (peer)
		srv_peer_send(turn, peer, &message);
}

/* Inserts it after all with positions that are not greater. Positions grow, so the place is near the tail. */
void srv_commit_queue(struct srv_incoming *in) {
	struct srv_incoming_list *queue = &in->job->queue;
	struct srv_incoming *before = TAILQ_LAST(queue, srv_incoming_list);

	assert(!in->queued && in->state != SRV_STEPPED);
	if (in->kind == SRV_DIRECT)
		in->position = before ? before->position : 0;
	while (before && before->position > in->position)
		before = TAILQ_PREV(before, srv_incoming_list, queue_link);
	if (before)
		TAILQ_INSERT_AFTER(queue, before, in, queue_link);
	else
		TAILQ_INSERT_HEAD(queue, in, queue_link);
	in->queued = true;
}

void srv_incoming_follow(struct srv_turn *turn, struct srv_incoming *in, uint64_t token) {
	struct srv_handle *after;

	if (token == 0)
		return;
	after = srv_handle_find(turn->server, token);
	if (!after || after->kind != SRV_HANDLE_INCOMING
	    || srv_incoming_is_whole(hd_container_of(after, struct srv_incoming, handle))) {
		srv_incoming_go(turn, in);
		return;
	}
	in->predecessor = hd_container_of(after, struct srv_incoming, handle);
	LIST_INSERT_HEAD(&in->predecessor->successors, in, successor_link);
	srv_incoming_touch(turn->server, in->predecessor);
}

void srv_incoming_expect(
	struct srv_incoming *in,
	const struct hd_msg_expect *expect,
	const struct srv_part *part
) {
	assert(in->part_count == 1 && !in->recv);
	srv_incoming_part(in, 0, part);
	in->dtype = expect->dtype;
	in->bytes = expect->bytes;
}

void srv_sum_expect(struct srv_incoming *in, const struct hd_msg_members *message) {
	assert(in->part_count > 0 && !in->recv);
	in->kind = SRV_SUM;
	in->dtype = message->dtype;
	in->bytes = message->bytes;
	/* Usually only one member names a value of a sparse sum: it takes one step, as if alone. */
	in->steps = message->dtype == HD_DTYPE_SPARSE32 ? 1 : in->part_count;
	in->position = message->position;
	in->sender = (struct hd_addr){message->peer_ipv4, message->peer_port};
	in->slot_values = message->count;
	in->receiver = message->receiver;
}

void srv_sum_bind(struct srv_incoming *in, struct srv_peer *peer) {
	in->aggregator = peer;
	LIST_INSERT_HEAD(&peer->sums, in, aggregator_link);
}

/* --- the end ---------------------------------------------------------------------------------- */

void srv_incoming_end(struct srv_turn *turn, struct srv_incoming *in, bool done) {
	struct srv_tombstone tomb = srv_incoming_epitaph(in, in->handle.token, done);
	struct srv_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)))
		srv_incoming_go(turn, successor);
	srv_incoming_destroy(turn->server, in);
	srv_tombstone_add(turn->server, &tomb);
}
