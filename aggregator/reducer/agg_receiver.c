/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of receivers, and sending to them. When an output ends, its group may end. */
#include "agg_group.h"

static struct agg_output *unplaced_at(const struct hd_aggregator *aggregator, uint64_t addr) {
	struct agg_output *out;

	TAILQ_FOREACH (out, &aggregator->unplaced, unplaced_link)
		if (agg_addr_key((struct hd_addr){out->is.ipv4, out->is.port}) == addr)
			return out;
	return NULL;
}

/* Searches from the start each time: losing one output may end its group and other outputs. */
void agg_outputs_unreached(struct agg_turn *turn, uint64_t addr) {
	struct agg_output *out;

	while ((out = unplaced_at(turn->aggregator, addr))) {
		struct agg_group *group = out->group;

		agg_output_lose(turn, out, HD_REASON_TIMEOUT);
		(void)agg_group_consider(turn, group);
	}
}

/* --- receivers' messages ---------------------------------------------------------------------- */

void agg_output_sack(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_sack *sack) {
	struct agg_output *out = agg_peer_output(peer, sack->token);

	if (!out || out->state != AGG_OUTPUT_SENDING)
		return; /* it has ended: late acknowledgements are normal */
	out->active = turn->now;
	out->group->active = turn->now;
	hd_send_sack(out->send, turn->now, sack);
	if (hd_send_stats(out->send)->state == HD_SEND_DONE) {
		struct agg_group *group = out->group;

		agg_output_delivered(turn, out);
		(void)agg_group_consider(turn, group);
		return;
	}
	hd_timer_set(&turn->aggregator->sends, &out->timer, turn->now);
}

void agg_output_go(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_go *go) {
	struct agg_output *out = agg_peer_output(peer, go->token);

	if (!out)
		return;
	out->went = true;
	out->active = turn->now;
	if (out->state == AGG_OUTPUT_SENDING) {
		hd_send_go(out->send, turn->now);
		hd_timer_set(&turn->aggregator->sends, &out->timer, turn->now);
	}
}

static void
output_cancel(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_cancel *cancel) {
	struct agg_output *out = agg_peer_output(peer, cancel->token);
	struct agg_group *group;

	if (!out || out->is.role != HD_ROLE_WORKER)
		return; /* it has ended */
	group = out->group;
	agg_output_lose(turn, out, HD_REASON_CANCELLED);
	(void)agg_group_consider(turn, group);
}

void agg_cancel(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_cancel *cancel) {
	struct agg_input *in = agg_input_find(turn->aggregator, cancel->token);

	if (!in) {
		output_cancel(turn, peer, cancel);
		return;
	}
	if (in->peer != peer || in->group->job->id != cancel->job
	    || in->is.worker != cancel->worker) {
		turn->aggregator->stats.refused_messages++;
		return;
	}
	agg_group_fail(turn, in->group, HD_REASON_CANCELLED, in);
}

/* A receiver refuses a sum, which has no use without it. */
void agg_output_void(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_void_ *void_
) {
	struct agg_output *out = agg_peer_output(peer, void_->token);
	struct agg_group *group;

	if (!out)
		return; /* it has ended */
	group = out->group;
	agg_output_lose(
		turn, out, void_->reason < HD_REASON_COUNT ? void_->reason : HD_REASON_VOID
	);
	(void)agg_group_consider(turn, group);
}

/* --- relayed models --------------------------------------------------------------------------- */

/* There will be no model: tells all receivers why, as the server itself would. */
static void
refused(struct agg_turn *turn, struct agg_group *group, enum hd_reason reason, struct agg_input *in
) {
	for (uint32_t i = 0; i < group->output_count; i++)
		agg_output_state(turn, &group->outputs[i], reason);
	agg_group_fail(turn, group, reason, in);
}

/* The version of a model, from its sender: passes it on. From here on only chunks of this version are taken. */
void agg_pull_state(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_pull_state *state
) {
	struct agg_input *in = agg_input_find(turn->aggregator, state->token);
	struct agg_group *group;

	if (!in)
		return; /* it has ended */
	group = in->group;
	if (!group->relay || group->job->id != state->job || (in->peer && in->peer != peer)) {
		turn->aggregator->stats.refused_messages++;
		return;
	}
	if (!in->peer)
		agg_input_bind(turn, in, peer);
	if (state->reason != HD_REASON_NONE || state->version == 0
	    || state->bytes != group->bytes) {
		enum hd_reason reason = state->reason < HD_REASON_COUNT ? state->reason : 0;

		refused(turn, group, reason != HD_REASON_NONE ? reason : HD_REASON_REFUSED, in);
		return;
	}
	if (group->version == state->version)
		return; /* GROUP named it */
	if (in->started) {
		agg_group_fail(turn, group, HD_REASON_REFUSED, in);
		return;
	}
	group->version = state->version;
	for (uint32_t i = 0; i < group->output_count; i++)
		agg_output_state(turn, &group->outputs[i], HD_REASON_NONE);
	agg_group_touch(turn->aggregator, group);
}

/* --- sending ---------------------------------------------------------------------------------- */

void agg_outputs_ended(struct agg_turn *turn) {
	struct agg_output_list *ended = &turn->aggregator->ended;
	struct agg_output *out;

	while ((out = TAILQ_FIRST(ended))) {
		struct agg_group *group = out->group;
		enum hd_reason reason = hd_send_stats(out->send)->reason;

		if (hd_send_stats(out->send)->state == HD_SEND_DONE)
			agg_output_delivered(turn, out);
		else
			agg_output_lose(turn, out, reason);
		(void)agg_group_consider(turn, group);
	}
}

/* Sends one output's share of a turn. Returns the number of packets sent. */
static size_t poll_output(struct agg_turn *turn, struct agg_output *out) {
	const struct hd_send_stats *stats = hd_send_stats(out->send);
	size_t sent = hd_send_poll(out->send, turn->now, AGG_POLL_PACKETS, turn->sink);
	hd_ns next = turn->now;

	if (sent > 0 && !out->started) {
		out->started = true;
		agg_output_event(turn, out, HD_EVENT_SEND_START, HD_REASON_NONE);
	}
	if (stats->state == HD_SEND_FAILED || stats->state == HD_SEND_DONE) {
		/* The sink may still read the sum, so the next call ends it. */
		agg_output_enter(out, AGG_OUTPUT_ENDED);
		TAILQ_INSERT_TAIL(&turn->aggregator->ended, out, ended_link);
		return sent;
	}
	if (sent < AGG_POLL_PACKETS)
		next = hd_ns_max(hd_send_deadline(out->send), turn->now + 1);
	hd_timer_set(&turn->aggregator->sends, &out->timer, next);
	return sent;
}

void agg_outputs_poll(struct agg_turn *turn) {
	size_t budget = AGG_POLL_BUDGET;
	struct hd_timer *timer;

	while (budget > 0 && (timer = hd_timers_pop(&turn->aggregator->sends, turn->now))) {
		struct agg_output *out = hd_container_of(timer, struct agg_output, timer);
		size_t sent = poll_output(turn, out);

		sent = sent > 0 ? sent : 1;
		budget -= sent < budget ? sent : budget;
	}
}
