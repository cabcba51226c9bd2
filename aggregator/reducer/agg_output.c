/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transfer of the final part of the sum to one receiver:
 *
 *   WAITING (a session, the first final chunk, a relayed model's version) -> SENDING -> ENDED -> DELIVERED | LOST
 */
#include "agg_group.h"
#include "hd_assert.h"

#include <errno.h>

/* --- sessions --------------------------------------------------------------------------------- */

static void leave_peer(struct hd_aggregator *aggregator, struct agg_output *out) {
	if (out->peer) {
		LIST_REMOVE(out, peer_link);
		out->peer = NULL;
	} else if (out->unplaced) {
		TAILQ_REMOVE(&aggregator->unplaced, out, unplaced_link);
		out->unplaced = false;
	}
}

static void attach(struct agg_turn *turn, struct agg_output *out, struct agg_peer *peer) {
	leave_peer(turn->aggregator, out);
	out->peer = peer;
	out->active = turn->now;
	LIST_INSERT_HEAD(&peer->outputs, out, peer_link);
	if (out->group->relay && out->group->version != 0)
		agg_output_state(turn, out, HD_REASON_NONE);
	agg_group_touch(turn->aggregator, out->group);
}

int agg_output_bind(struct agg_turn *turn, struct agg_output *out) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct hd_addr addr = {out->is.ipv4, out->is.port};
	struct agg_peer *peer = agg_peer_at(aggregator, agg_addr_key(addr));

	out->unplaced = true;
	TAILQ_INSERT_TAIL(&aggregator->unplaced, out, unplaced_link);
	if (!peer && out->is.role == HD_ROLE_WORKER) {
		peer = agg_peer_of(aggregator, out->group->job->id, out->is.worker);
	} else if (!peer) {
		peer = agg_peer_connect(turn, addr);
		if (!peer)
			return -ENOMEM;
	}
	if (peer && peer->open)
		attach(turn, out, peer);
	return 0;
}

/* Whether the session is this output's receiver: by address, or by the worker's rank. */
static bool belongs(const struct agg_output *out, const struct agg_peer *peer) {
	struct hd_addr addr = {out->is.ipv4, out->is.port};

	if (agg_addr_key(addr) == peer->addr)
		return true;
	return out->is.role == HD_ROLE_WORKER && peer->job == out->group->job
		&& peer->worker == out->is.worker;
}

void agg_outputs_opened(struct agg_turn *turn, struct agg_peer *peer) {
	struct agg_output *out = TAILQ_FIRST(&turn->aggregator->unplaced), *next;

	for (; out; out = next) {
		next = TAILQ_NEXT(out, unplaced_link);
		if (belongs(out, peer))
			attach(turn, out, peer);
	}
}

struct agg_output *agg_peer_output(const struct agg_peer *peer, uint64_t token) {
	struct agg_output *out;

	LIST_FOREACH (out, &peer->outputs, peer_link)
		if (out->is.token == token)
			return out;
	return NULL;
}

/* --- states ----------------------------------------------------------------------------------- */

void agg_output_event(
	struct agg_turn *turn,
	const struct agg_output *out,
	enum hd_event_kind kind,
	enum hd_reason reason
) {
	struct hd_event event = {
		.kind = kind,
		.reason = reason,
		.job = out->group->job->id,
		.worker = out->is.worker,
		.direction = out->group->relay ? HD_PULL : HD_PUSH,
		.round = out->is.round,
		.token = out->is.token,
		.version = out->group->version,
		.bytes = out->group->bytes,
	};

	agg_event(turn, &event);
}

void agg_output_enter(struct agg_output *out, enum agg_output_state state) {
	const uint8_t in_flight
		= 1u << AGG_OUTPUT_WAITING | 1u << AGG_OUTPUT_SENDING | 1u << AGG_OUTPUT_ENDED;
	/* The states from which each may be entered. */
	const uint8_t from[] = {
		[AGG_OUTPUT_WAITING] = 0,
		[AGG_OUTPUT_SENDING] = 1u << AGG_OUTPUT_WAITING,
		[AGG_OUTPUT_ENDED] = 1u << AGG_OUTPUT_SENDING,
		[AGG_OUTPUT_DELIVERED] = 1u << AGG_OUTPUT_SENDING | 1u << AGG_OUTPUT_ENDED,
		[AGG_OUTPUT_LOST] = in_flight,
	};

	hd_assert(from[state] >> out->state & 1);
	out->state = state;
}

static int output_open(struct agg_turn *turn, struct agg_output *out) {
	const struct agg_group *group = out->group;
	struct hd_send_config config = {
		.peer = hd_session_peer(out->peer->session),
		.header =
			{
				.job = group->job->id,
				.worker = out->is.worker,
				.round = out->is.round,
				.attempt = out->is.attempt,
				.dtype = group->dtype,
				.exponent = group->exponent,
				.version = group->version,
				.token = out->is.token,
				.epoch = group->epoch,
			},
		.data = group->buffer->data,
		.bytes = group->bytes,
		.chunk_bytes = hd_reduce_chunk_bytes(group->reduce),
		.stride_bytes = hd_reduce_stride(group->reduce),
		.grows = true,
		.cc_weight = out->is.cc_weight >= 1 ? out->is.cc_weight : 1,
		.wait_go = out->is.after != 0,
		.go_slack = AGG_GO_SLACK_US * HD_US,
		.path = &out->peer->path,
		.keys = turn->aggregator->config.keys,
		.key_id = turn->aggregator->config.key_id,
	};
	int rc;

	if (out->is.after != 0 || out->is.rate_bps != 0) {
		config.segments.count = 1;
		config.segments.item[0]
			= (struct hd_segment){out->start, out->is.rate_bps, group->bytes};
	}
	hd_assert(out->send == NULL);
	hd_path_hear_rtt(config.path, hd_session_rtt_least(out->peer->session));
	rc = hd_send_create(&config, turn->now, &out->send);
	if (rc < 0) {
		out->send = NULL;
		return rc;
	}
	if (out->went)
		hd_send_go(out->send, turn->now);
	agg_output_enter(out, AGG_OUTPUT_SENDING);
	return 0;
}

void agg_output_feed(struct agg_turn *turn, struct agg_output *out) {
	struct agg_group *group = out->group;
	uint64_t final = hd_reduce_final(group->reduce);

	if (out->state == AGG_OUTPUT_WAITING) {
		if (final == 0 || !out->peer || (group->relay && group->version == 0))
			return;
		if (output_open(turn, out) < 0) {
			agg_output_lose(turn, out, HD_REASON_NO_MEMORY);
			return;
		}
	}
	if (out->state != AGG_OUTPUT_SENDING || final == out->fed)
		return;
	if (hd_reduce_not_finite(group->reduce))
		hd_send_flag(out->send, HD_CHUNK_NOT_FINITE);
	/* A merged sum is shorter than announced; its length is known once its last chunk is final. */
	if (hd_reduce_is_final(group->reduce) && final < group->bytes)
		(void)hd_send_close(out->send, final);
	out->fed = final;
	hd_send_available(out->send, turn->now, final);
	hd_timer_set(&turn->aggregator->sends, &out->timer, turn->now);
}

/* Stops sending. */
static void stop(struct hd_aggregator *aggregator, struct agg_output *out) {
	if (out->state == AGG_OUTPUT_ENDED)
		TAILQ_REMOVE(&aggregator->ended, out, ended_link);
	hd_timer_set(&aggregator->sends, &out->timer, HD_NEVER);
	hd_send_destroy(out->send);
	out->send = NULL;
	leave_peer(aggregator, out);
}

/* A sum that does not reach the server, or a model that reaches no worker, is of no use. */
void agg_output_lose(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	if (out->started)
		agg_output_event(turn, out, HD_EVENT_SEND_END, reason);
	if (out->is.role == HD_ROLE_REPLICA) { /* tell it, so that it need not time out */
		struct hd_message answer = {.kind = HD_MSG_VOID};

		answer.void_.job = out->group->job->id;
		answer.void_.token = out->is.token;
		answer.void_.reason = HD_REASON_CLOSED;
		agg_peer_send(turn, out->peer, &answer);
	}
	stop(turn->aggregator, out);
	agg_output_enter(out, AGG_OUTPUT_LOST);
	out->group->lost++;
	out->group->lost_reason = (uint8_t)reason;
	out->group->doomed = out->group->doomed || out->is.role == HD_ROLE_SERVER;
	turn->aggregator->stats.outputs_lost++;
	if (out->is.role == HD_ROLE_WORKER)
		return; /* the node's own session reports this to the controller */
	message.report = (struct hd_msg_report){
		.job = out->group->job->id,
		.worker = out->is.worker,
		.round = out->is.round,
		.direction = out->group->relay ? HD_PULL : HD_PUSH,
		.attempt = out->is.attempt,
		.token = out->is.token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
	};
	agg_controller_send(turn, &message);
}

void agg_output_drop(struct hd_aggregator *aggregator, struct agg_output *out) {
	stop(aggregator, out);
	hd_timers_release(&aggregator->sends, &out->timer);
}

void agg_output_delivered(struct agg_turn *turn, struct agg_output *out) {
	agg_output_event(turn, out, HD_EVENT_SEND_END, HD_REASON_NONE);
	stop(turn->aggregator, out);
	agg_output_enter(out, AGG_OUTPUT_DELIVERED);
	out->group->delivered++;
	turn->aggregator->stats.outputs_delivered++;
	hd_histogram_add(
		&turn->aggregator->histograms[out->group->relay].passed_on,
		&hd_scale_time,
		turn->now - out->group->final_at
	);
}

/* --- deliveries and losses -------------------------------------------------------------------- */

void agg_outputs_watch(struct agg_turn *turn, struct agg_group *group, hd_ns before) {
	if (!hd_reduce_is_final(group->reduce))
		return;
	for (uint32_t i = 0; i < group->output_count; i++) {
		struct agg_output *out = &group->outputs[i];

		if ((out->state == AGG_OUTPUT_WAITING || out->state == AGG_OUTPUT_SENDING)
		    && hd_ns_max(out->active, group->final_at) <= before)
			agg_output_lose(turn, out, HD_REASON_TIMEOUT);
	}
}

/* --- relayed models --------------------------------------------------------------------------- */

void agg_output_state(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_PULL_STATE};

	if (out->state == AGG_OUTPUT_DELIVERED || out->state == AGG_OUTPUT_LOST)
		return;
	message.pull_state = (struct hd_msg_pull_state){
		.job = out->group->job->id,
		.worker = out->is.worker,
		.round = out->is.round,
		.attempt = out->is.attempt,
		.token = out->is.token,
		.reason = (uint8_t)reason,
		.version = out->group->version,
		.bytes = reason == HD_REASON_NONE ? out->group->bytes : 0,
	};
	agg_peer_send(turn, out->peer, &message);
}

/* --- sending ---------------------------------------------------------------------------------- */
