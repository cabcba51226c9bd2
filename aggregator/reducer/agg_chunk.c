/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks are added to their group's sum at once. Everything else (acknowledgement, completion, go, the final part of
 * the sum) is handled once a call for each input that was touched, not once a packet.
 */
#include "agg_group.h"

static void started(struct agg_turn *turn, struct agg_input *in) {
	struct hd_event event = agg_input_event(in, HD_EVENT_RECV_START);

	in->started = true;
	hd_histogram_add(
		&turn->aggregator->histograms[in->group->relay].first_chunk,
		&hd_scale_time,
		turn->now - in->group->made
	);
	agg_event(turn, &event);
}

static bool is_at(const struct agg_peer *peer, struct hd_addr from) {
	return peer && hd_addr_equal(hd_session_peer(peer->session), from);
}

/* The peer at this address, if a chunk of this input may come from it; else NULL. Workers send JOIN before their
 * chunks. GROUP does not name the aggregators that send partial sums: any aggregator with a session may. */
static struct agg_peer *
sender_at(const struct agg_turn *turn, const struct agg_input *in, struct hd_addr from) {
	struct agg_peer *peer = in->peer;

	if (!peer && in->is.worker == HD_GROUP_WORKER && !in->group->relay) {
		peer = agg_peer_at(turn->aggregator, agg_addr_key(from));
		if (peer
		    && (!peer->open || hd_session_peer_role(peer->session) != HD_ROLE_AGGREGATOR))
			return NULL;
	}
	return is_at(peer, from) ? peer : NULL;
}

/* A relayed model is one version: chunks that arrive before PULL_STATE has named it are dropped and retransmitted. */
static bool is_version(const struct agg_group *group, const struct hd_chunk_header *header) {
	return !group->relay || (group->version != 0 && header->version == group->version);
}

static void took(struct agg_turn *turn, struct agg_input *in, size_t bytes) {
	if (!in->started)
		started(turn, in);
	in->active = turn->now;
	in->group->active = turn->now;
	in->group->final_at = turn->now;
	turn->aggregator->stats.chunk_bytes += bytes;
	agg_input_touch(turn->aggregator, in);
}

/* Runs that do not ascend, or a sum longer than announced: no receiver could merge these. */
static void on_broken(struct agg_turn *turn, struct agg_group *group) {
	uint32_t culprit = hd_reduce_culprit(group->reduce);

	turn->aggregator->stats.groups_broken++;
	agg_group_fail(
		turn,
		group,
		HD_REASON_REFUSED,
		culprit < group->input_count ? &group->inputs[culprit] : NULL
	);
}

static void on_chunk(
	struct agg_turn *turn,
	struct agg_input *in,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	size_t bytes = packet->bytes - (size_t)(payload - packet->data);
	struct hd_aggregator_stats *stats = &turn->aggregator->stats;
	struct agg_peer *sender = sender_at(turn, in, packet->peer);

	if (!sender) {
		stats->drop_source++;
		return;
	}
	if (!hd_seal_check(
		    &in->seal, turn->aggregator->config.keys, header, packet->data, packet->bytes
	    )) {
		stats->drop_mac++;
		return;
	}
	if (!is_version(in->group, header)) {
		stats->drop_mismatch++;
		return;
	}
	switch (hd_reduce_chunk(in->group->reduce, in->index, turn->now, header, payload, bytes)) {
	case HD_REDUCE_NEW:
		break;
	case HD_REDUCE_DONE:
		in->complete = true;
		break;
	case HD_REDUCE_DUPLICATE:
		stats->duplicates++;
		break;
	case HD_REDUCE_MISMATCH:
		stats->drop_mismatch++;
		return;
	case HD_REDUCE_BROKEN:
		on_broken(turn, in->group);
		return;
	case HD_REDUCE_EARLY:
		stats->drop_early++;
		in->active = turn->now; /* so it is not silent */
		return;
	case HD_REDUCE_NO_MEMORY:
		stats->drop_memory++;
		return;
	}
	if (!in->peer)
		agg_input_bind(turn, in, sender);
	hd_sink_expect(turn->sink, hd_recv_whole_at(hd_reduce_recv(in->group->reduce, in->index)));
	took(turn, in, bytes);
}

/* Tells a sender that still retransmits that we hold everything. */
static void on_late_chunk(
	struct agg_turn *turn,
	struct agg_tombstone *tomb,
	const struct hd_chunk_header *header,
	struct hd_addr from
) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct agg_peer *peer = agg_peer_at(aggregator, tomb->addr);
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!tomb->done || header->job != tomb->job || !peer || !peer->open) {
		aggregator->stats.drop_token++;
		return;
	}
	if (!is_at(peer, from)) {
		aggregator->stats.drop_source++;
		return;
	}
	aggregator->stats.duplicates++;
	if (tomb->answered == turn->call)
		return;
	tomb->answered = turn->call;
	hd_recv_sack_done(
		tomb->handle.token, header, aggregator->config.receive_window_bytes, &message.sack
	);
	message.sack.held = tomb->chunks;
	(void)hd_session_send_once(peer->session, &message, turn->now, turn->sink);
}

void agg_chunk(struct agg_turn *turn, const struct hd_packet *packet) {
	struct hd_aggregator_stats *stats = &turn->aggregator->stats;
	struct hd_chunk_header header;
	struct agg_handle *handle;
	const uint8_t *payload;
	size_t payload_bytes;

	if (hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes) < 0) {
		stats->drop_malformed++;
		return;
	}
	stats->chunks++;
	handle = agg_handle_find(turn->aggregator, header.token);
	if (!handle) {
		stats->drop_token++;
	} else if (handle->kind == AGG_HANDLE_TOMBSTONE) {
		on_late_chunk(
			turn,
			hd_container_of(handle, struct agg_tombstone, handle),
			&header,
			packet->peer
		);
	} else {
		on_chunk(
			turn,
			hd_container_of(handle, struct agg_input, handle),
			packet,
			&header,
			payload
		);
	}
}

/* --- once a call ------------------------------------------------------------------------------ */

/* The bytes in flight in one round trip to the successor: its first chunk then arrives as the predecessor's last
 * does. */
static uint64_t window_to(const struct agg_input *in, const struct agg_input *next) {
	const struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	uint64_t least = 2 * (uint64_t)hd_reduce_chunk_bytes(in->group->reduce);
	double flight = 0;

	if (next->peer) {
		flight = hd_recv_rate_bps(recv) / 8 * 1e-9
			* (double)hd_session_rtt(next->peer->session);
	}
	return flight > (double)least ? (uint64_t)flight : least;
}

static void release(struct agg_turn *turn, struct agg_input *in) {
	const struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	struct agg_input *next = LIST_FIRST(&in->successors), *after;

	for (; in->started && next; next = after) {
		after = LIST_NEXT(next, successor_link);
		if (hd_recv_missing(recv) <= window_to(in, next))
			agg_input_go(turn, next);
	}
}

static void acknowledge(struct agg_turn *turn, struct agg_input *in, bool anyway) {
	const struct hd_aggregator_config *config = &turn->aggregator->config;
	struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	struct hd_message message = {.kind = HD_MSG_SACK};
	uint32_t window;

	if (!in->peer || !in->peer->open || (!anyway && !hd_recv_sack_due(recv, turn->now)))
		return;
	window = hd_reduce_window(in->group->reduce, in->index, config->receive_window_bytes);
	hd_recv_sack(recv, turn->now, window, &message.sack);
	(void)hd_session_send_once(in->peer->session, &message, turn->now, turn->sink);
}

static void completed(struct agg_turn *turn, struct agg_input *in) {
	const struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);
	struct hd_event event = agg_input_event(in, HD_EVENT_RECV_END);

	in->group->complete++;
	turn->aggregator->stats.inputs_held++;
	if (in->group->complete == in->group->input_count)
		hd_histogram_add(
			&turn->aggregator->histograms[in->group->relay].collected,
			&hd_scale_time,
			in->group->final_at - in->group->made
		);
	event.value = hd_recv_rate_bps(recv);
	agg_event(turn, &event);
	agg_report_input(turn, in, HD_OUTCOME_PENDING, HD_REASON_NONE);
}

/* Ranked sums: an input's chunks may have made room for those of later ranks. */
static void relieve(struct agg_turn *turn, struct agg_group *group) {
	bool turns = group->order == HD_GROUP_RANKED || group->dtype == HD_DTYPE_SPARSE32;

	for (uint32_t i = 0; turns && i < group->input_count; i++)
		if (hd_reduce_relieved(group->reduce, i))
			acknowledge(turn, &group->inputs[i], true);
}

static void settle(struct agg_turn *turn, struct agg_input *in, bool newly_complete) {
	struct hd_recv *recv = hd_reduce_recv(in->group->reduce, in->index);

	if (!recv)
		return;
	acknowledge(turn, in, false);
	release(turn, in);
	/* Without a session there is no acknowledgement. The next chunk in a new session asks for one. */
	hd_timer_set(
		&turn->aggregator->timers,
		&in->timer,
		in->peer && in->peer->open ? hd_recv_deadline(recv) : HD_NEVER
	);
	if (newly_complete)
		completed(turn, in);
	agg_group_touch(turn->aggregator, in->group);
}

void agg_inputs_settle(struct agg_turn *turn) {
	struct agg_input_list *touched = &turn->aggregator->touched;
	struct agg_group *group;
	struct agg_input *in;

	while ((in = TAILQ_FIRST(touched))) {
		bool done = in->complete && !in->reported;

		TAILQ_REMOVE(touched, in, touched_link);
		in->touched = false;
		in->reported = in->reported || done;
		settle(turn, in, done);
	}
	TAILQ_FOREACH (group, &turn->aggregator->touched_groups, touched_link)
		relieve(turn, group);
}
