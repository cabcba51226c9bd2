/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs: their senders' sessions, go, and their ends. */
#include "agg_group.h"

struct hd_event agg_input_event(const struct agg_input *in, enum hd_event_kind kind) {
	return (struct hd_event){
		.kind = kind,
		.job = in->group->job->id,
		.worker = in->is.worker,
		.direction = in->group->relay ? HD_PULL : HD_PUSH,
		.round = in->is.round,
		.token = in->handle.token,
		.version = in->group->version,
		.bytes = in->is.bytes != 0 ? in->is.bytes : in->group->bytes,
	};
}

void agg_report_input(
	struct agg_turn *turn,
	const struct agg_input *in,
	enum hd_outcome outcome,
	enum hd_reason reason
) {
	const struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *report = &message.report;

	report->job = in->group->job->id;
	report->worker = in->is.worker;
	report->round = in->is.round;
	report->direction = in->group->relay ? HD_PULL : HD_PUSH;
	report->attempt = in->is.attempt;
	report->token = in->handle.token;
	report->outcome = (uint8_t)outcome;
	report->reason = (uint8_t)reason;
	report->version = in->group->version;
	if (recv) {
		const struct hd_recv_stats *stats = hd_recv_stats(recv);

		report->bytes = stats->bytes_held;
		report->duration_ns = stats->last - stats->first;
		report->rate_bps = (uint64_t)hd_recv_rate_bps(recv);
		report->limited_permille = hd_recv_limited_permille(recv);
	}
	agg_controller_send(turn, &message);
}

/* --- sessions --------------------------------------------------------------------------------- */

static void unbind(struct agg_input *in) {
	if (in->peer) {
		LIST_REMOVE(in, peer_link);
		in->peer = NULL;
	}
}

static void send_go(struct agg_turn *turn, const struct agg_input *in) {
	struct hd_message message = {.kind = HD_MSG_GO};

	message.go.job = in->group->job->id;
	message.go.token = in->handle.token;
	agg_peer_send(turn, in->peer, &message);
}

void agg_input_bind(struct agg_turn *turn, struct agg_input *in, struct agg_peer *peer) {
	unbind(in);
	in->peer = peer;
	LIST_INSERT_HEAD(&peer->inputs, in, peer_link);
	if (in->went && !in->started)
		send_go(turn, in); /* its sender had no session yet */
}

/* --- go --------------------------------------------------------------------------------------- */

void agg_input_go(struct agg_turn *turn, struct agg_input *in) {
	struct hd_event event = agg_input_event(in, HD_EVENT_GO);

	if (in->predecessor) {
		LIST_REMOVE(in, successor_link);
		in->predecessor = NULL;
	}
	in->active = turn->now;
	in->went = true;
	agg_event(turn, &event);
	send_go(turn, in);
}

struct agg_input *agg_input_find(const struct hd_aggregator *aggregator, uint64_t token) {
	struct agg_handle *handle = agg_handle_find(aggregator, token);

	return handle && handle->kind == AGG_HANDLE_INPUT ?
		hd_container_of(handle, struct agg_input, handle) :
		NULL;
}

void agg_input_follow(struct agg_turn *turn, struct agg_input *in, uint64_t after) {
	struct agg_input *first = agg_input_find(turn->aggregator, after);

	if (!first || first == in || first->complete) {
		agg_input_go(turn, in);
		return;
	}
	in->predecessor = first;
	LIST_INSERT_HEAD(&first->successors, in, successor_link);
	agg_input_touch(turn->aggregator, first);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void add_tombstone(struct hd_aggregator *aggregator, const struct agg_tombstone *like) {
	struct agg_tombstone *tomb = &aggregator->tombstones[aggregator->tombstone_next];

	aggregator->tombstone_next = (aggregator->tombstone_next + 1) % HD_TOMBSTONES_MAX;
	if (tomb->used)
		agg_handle_remove(aggregator, &tomb->handle);
	*tomb = *like;
	tomb->used = agg_handle_add(aggregator, &tomb->handle) == 0;
}

void agg_input_drop(struct hd_aggregator *aggregator, struct agg_input *in) {
	struct agg_input *next;

	if (!in->group)
		return; /* it has ended already */
	while ((next = LIST_FIRST(&in->successors))) {
		LIST_REMOVE(next, successor_link);
		next->predecessor = NULL;
	}
	if (in->predecessor)
		LIST_REMOVE(in, successor_link);
	if (in->touched)
		TAILQ_REMOVE(&aggregator->touched, in, touched_link);
	unbind(in);
	agg_handle_remove(aggregator, &in->handle);
	hd_timers_release(&aggregator->timers, &in->timer);
	in->group = NULL;
}

void agg_input_end(struct agg_turn *turn, struct agg_input *in, bool done) {
	const struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	struct agg_tombstone tomb = {
		.handle = {.token = in->handle.token, .kind = AGG_HANDLE_TOMBSTONE},
		.done = done,
		.job = in->group->job->id,
		.chunks = recv ? hd_recv_held(recv) : 0,
		.addr = in->peer ? in->peer->addr : 0,
	};
	struct agg_input *next;

	while ((next = LIST_FIRST(&in->successors)))
		agg_input_go(turn, next);
	agg_input_drop(turn->aggregator, in);
	add_tombstone(turn->aggregator, &tomb);
}
