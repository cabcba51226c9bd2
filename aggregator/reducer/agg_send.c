/* SPDX-License-Identifier: BSD-3-Clause */
/* The bottom of the aggregator: tokens, sessions by address, sends, lists of touched groups and inputs. */
#include "agg_group.h"

#include <errno.h>

/* --- tokens ----------------------------------------------------------------------------------- */

struct agg_handle *agg_handle_find(const struct hd_aggregator *aggregator, uint64_t token) {
	struct agg_handle *handle;

	HASH_FIND(hh, aggregator->handles, &token, sizeof token, handle);
	return handle;
}

int agg_handle_add(struct hd_aggregator *aggregator, struct agg_handle *handle) {
	if (agg_handle_find(aggregator, handle->token))
		return -EEXIST;
	handle->hh.tbl = NULL;
	HASH_ADD(hh, aggregator->handles, token, sizeof handle->token, handle);
	return handle->hh.tbl ? 0 : -ENOMEM;
}

void agg_handle_remove(struct hd_aggregator *aggregator, struct agg_handle *handle) {
	HASH_DELETE(hh, aggregator->handles, handle);
}

/* --- sessions --------------------------------------------------------------------------------- */

struct agg_peer *agg_peer_at(const struct hd_aggregator *aggregator, uint64_t addr) {
	struct agg_peer *peer;

	HASH_FIND(addr_hh, aggregator->peers_by_addr, &addr, sizeof addr, peer);
	return peer;
}

struct agg_peer *
agg_peer_of(const struct hd_aggregator *aggregator, uint32_t job, uint16_t worker) {
	uint64_t who = agg_who_key(job, worker);
	struct agg_peer *peer;

	HASH_FIND(who_hh, aggregator->peers_by_who, &who, sizeof who, peer);
	return peer;
}

/* --- sending ---------------------------------------------------------------------------------- */

void agg_event(struct agg_turn *turn, struct hd_event *event) {
	event->at = turn->now;
	if (turn->sink->event)
		turn->sink->event(turn->sink, event);
}

void agg_peer_send(struct agg_turn *turn, struct agg_peer *peer, const struct hd_message *message) {
	if (!peer || !peer->open || peer->broken)
		return;
	if (hd_session_send(peer->session, message, turn->now, turn->sink) < 0) {
		peer->broken = "too many messages wait for an acknowledgement";
		turn->aggregator->breaking = true;
		turn->aggregator->stats.sends_broken++;
	}
}

void agg_controller_send(struct agg_turn *turn, const struct hd_message *message) {
	hd_upstream_send(&turn->aggregator->upstream, message, turn->now, turn->sink);
}

/* --- touched groups and inputs ---------------------------------------------------------------- */

void agg_group_touch(struct hd_aggregator *aggregator, struct agg_group *group) {
	if (!group->touched) {
		group->touched = true;
		TAILQ_INSERT_TAIL(&aggregator->touched_groups, group, touched_link);
	}
}

void agg_input_touch(struct hd_aggregator *aggregator, struct agg_input *in) {
	if (!in->touched) {
		in->touched = true;
		TAILQ_INSERT_TAIL(&aggregator->touched, in, touched_link);
	}
}
