/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls read pinned versions (srv_snapshot.c).
 *
 *   WAITING (start time, predecessor) -> STARVED (no buffer) -> SENDING -> ended
 */
#include "hd_group.h"
#include "srv_keep.h"
#include "srv_pull.h"
#include "srv_replica.h"

#include <assert.h>
#include <errno.h>

/* --- states of a pull ------------------------------------------------------------------------- */

static void pull_event(
	struct srv_turn *turn,
	const struct srv_outgoing *out,
	enum hd_event_kind kind,
	enum hd_reason reason
) {
	struct hd_event event = {
		.kind = kind,
		.reason = reason,
		.job = out->job->id,
		.worker = out->grant.worker,
		.direction = HD_PULL,
		.round = out->grant.round,
		.token = out->handle.token,
		.version = out->snapshot ? out->snapshot->version : out->job->version,
		.bytes = out->grant.bytes,
	};

	srv_turn_event(turn, &event);
}

static void outgoing_enter(struct srv_outgoing *out, enum srv_outgoing_state state) {
	/* The states from which each may be entered. */
	static const uint8_t from[] = {
		[SRV_OUTGOING_WAITING] = 1u << SRV_OUTGOING_STARVED,
		[SRV_OUTGOING_STARVED] = 1u << SRV_OUTGOING_WAITING,
		[SRV_OUTGOING_SENDING] = 1u << SRV_OUTGOING_WAITING,
		[SRV_OUTGOING_ENDED] = 1u << SRV_OUTGOING_SENDING,
	};

	assert(from[state] >> out->state & 1);
	assert(state < SRV_OUTGOING_SENDING || (out->send && out->snapshot));
	out->state = state;
}

static struct srv_outgoing *outgoing_create(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_peer *peer,
	const struct hd_msg_grant *grant
) {
	struct hd_server *server = turn->server;
	struct srv_outgoing *out = calloc(1, sizeof *out);

	if (!out)
		return NULL;
	out->handle.kind = SRV_HANDLE_OUTGOING;
	out->handle.token = grant->token;
	out->start_timer.kind = SRV_TIMER_PULL_START;
	out->poll_timer.kind = SRV_TIMER_PULL_SEND;
	out->job = job;
	out->peer = peer;
	out->grant = *grant;
	out->granted = turn->now;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_out;
	if (hd_timers_reserve(&server->sends) < 0)
		goto fail_timer;
	if (srv_handle_add(server, &out->handle) < 0)
		goto fail_both;
	LIST_INSERT_HEAD(&peer->outgoing, out, peer_link);
	TAILQ_INSERT_TAIL(&job->pulls, out, open_link);
	job->pull_count++;
	server->stats.pulls++;
	return out;
fail_both:
	hd_timers_release(&server->sends, &out->poll_timer);
fail_timer:
	hd_timers_release(&server->timers, &out->start_timer);
fail_out:
	free(out);
	return NULL;
}

void srv_outgoing_destroy(struct hd_server *server, struct srv_outgoing *out) {
	struct srv_outgoing *successor;

	while ((successor = LIST_FIRST(&out->successors))) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
	}
	if (out->predecessor)
		LIST_REMOVE(out, successor_link);
	if (out->state == SRV_OUTGOING_STARVED)
		TAILQ_REMOVE(&server->starved_pulls, out, starved_link);
	else if (out->state == SRV_OUTGOING_ENDED)
		TAILQ_REMOVE(&server->ended_pulls, out, starved_link);
	LIST_REMOVE(out, peer_link);
	TAILQ_REMOVE(&out->job->pulls, out, open_link);
	out->job->pull_count--;
	srv_handle_remove(server, &out->handle);
	hd_timers_release(&server->timers, &out->start_timer);
	hd_timers_release(&server->sends, &out->poll_timer);
	hd_send_destroy(out->send);
	if (out->snapshot)
		srv_snapshot_unpin(server, out->job, out->snapshot);
	free(out);
}

static void send_state(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_msg_grant *grant,
	enum hd_reason reason,
	hd_version version
) {
	struct hd_message message = {.kind = HD_MSG_PULL_STATE};

	message.pull_state = (struct hd_msg_pull_state){
		.job = grant->job,
		.worker = grant->worker,
		.round = grant->round,
		.attempt = grant->attempt,
		.token = grant->token,
		.reason = (uint8_t)reason,
		.version = version,
		.bytes = reason == HD_REASON_NONE ? grant->bytes : 0,
	};
	if (peer)
		srv_peer_send(turn, peer, &message);
}

void srv_pull_end(struct srv_turn *turn, struct srv_outgoing *out, enum hd_reason reason) {
	struct srv_outgoing *successor;

	assert(reason != HD_REASON_NONE || out->state >= SRV_OUTGOING_SENDING);
	srv_summary_pulled(turn->server, out->job, turn->now - out->granted, reason);
	if (out->started)
		pull_event(turn, out, HD_EVENT_SEND_END, reason);
	/* Not started here, which could recurse: their timers are due in this call. */
	while ((successor = LIST_FIRST(&out->successors))) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
		hd_timer_set(&turn->server->timers, &successor->start_timer, turn->now);
	}
	srv_outgoing_destroy(turn->server, out);
}

/* --- starting --------------------------------------------------------------------------------- */

/* The grant's segments, on our clock. */
static struct hd_segs pull_segments(struct srv_turn *turn, const struct hd_msg_grant *grant) {
	const struct hd_session *controller = turn->server->upstream.session;
	struct hd_segs segments = grant->segments;

	for (uint8_t i = 0; i < segments.count; i++) {
		struct hd_segment *segment = &segments.item[i];
		hd_ns fallback = hd_ns_add(turn->now, segment->start_ns);
		hd_ns theirs = hd_ns_add(grant->origin_ns, segment->start_ns);

		segment->start_ns = controller ?
			hd_session_from_peer_time(controller, theirs, fallback) :
			fallback;
	}
	return segments;
}

static int pull_open(struct srv_turn *turn, struct srv_outgoing *out) {
	const struct hd_msg_grant *grant = &out->grant;
	struct srv_peer *peer = out->peer;
	struct hd_send_config config = {
		.peer = {grant->peer_ipv4, grant->peer_port},
		.header =
			{
				.job = out->job->id,
				.worker = grant->worker,
				.round = grant->round,
				.attempt = grant->attempt,
				.dtype = grant->dtype,
				.version = out->snapshot->version,
				.token = grant->token,
				.epoch = grant->epoch,
			},
		.data = srv_snapshot_data(out->snapshot, grant->dtype),
		.bytes = grant->bytes,
		.chunk_bytes = turn->server->config.chunk_bytes,
		.cc_weight = grant->cc_weight >= 1 ? grant->cc_weight : 1,
		.segments = grant->segments,
		.wait_go = grant->after != 0,
		.go_slack = SRV_GO_SLACK_US * HD_US,
		.path = &peer->path,
		.keys = turn->server->config.keys,
		.key_id = turn->server->config.key_id,
	};
	int rc;

	if (grant->peer_port == 0)
		config.peer = hd_session_peer(peer->session);
	hd_path_hear_rtt(config.path, hd_session_rtt_least(peer->session));
	rc = hd_send_create(&config, turn->now, &out->send);
	if (rc < 0)
		return rc;
	if (config.wait_go)
		hd_send_go(out->send, turn->now);
	return 0;
}

void srv_pull_start(struct srv_turn *turn, struct srv_outgoing *out) {
	struct hd_server *server = turn->server;
	struct srv_job *job = out->job;

	if (out->predecessor) {
		LIST_REMOVE(out, successor_link);
		out->predecessor = NULL;
	}
	if (out->grant.conditional && out->grant.have == job->version) {
		send_state(turn, out->peer, &out->grant, HD_REASON_NOT_MODIFIED, job->version);
		srv_pull_end(turn, out, HD_REASON_NOT_MODIFIED);
		return;
	}
	out->snapshot = srv_snapshot_pin(server, job, &out->grant);
	if (!out->snapshot) {
		outgoing_enter(out, SRV_OUTGOING_STARVED);
		TAILQ_INSERT_TAIL(&server->starved_pulls, out, starved_link);
		return;
	}
	if (pull_open(turn, out) < 0) {
		send_state(turn, out->peer, &out->grant, HD_REASON_NO_MEMORY, job->version);
		srv_pull_end(turn, out, HD_REASON_NO_MEMORY);
		return;
	}
	outgoing_enter(out, SRV_OUTGOING_SENDING);
	pull_event(turn, out, HD_EVENT_SNAPSHOT, HD_REASON_NONE);
	send_state(turn, out->peer, &out->grant, HD_REASON_NONE, out->snapshot->version);
	hd_timer_set(&server->sends, &out->poll_timer, turn->now);
}

void srv_pull_feed(struct srv_turn *turn) {
	struct srv_outgoing_list *starved = &turn->server->starved_pulls;
	struct srv_outgoing *last = TAILQ_LAST(starved, srv_outgoing_list), *out;

	/* Tries each waiting pull once; one that still finds no buffer goes to the end of the list again. */
	while (last) {
		out = TAILQ_FIRST(starved);
		TAILQ_REMOVE(starved, out, starved_link);
		outgoing_enter(out, SRV_OUTGOING_WAITING);
		last = out == last ? NULL : last;
		srv_pull_start(turn, out);
	}
}

/* --- granted and asked for -------------------------------------------------------------------- */

/* A worker's pull of this round. Pulls that an aggregator relays are identified by their tokens. */
static struct srv_outgoing *peer_pull(const struct srv_peer *peer, uint32_t round) {
	struct srv_outgoing *out;

	if (peer->aggregates)
		return NULL;
	LIST_FOREACH (out, &peer->outgoing, peer_link)
		if (out->grant.round == round)
			return out;
	return NULL;
}

/* Begins a pull, or ignores it when the same or a newer attempt is in flight. */
static void pull_begin(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_peer *peer,
	const struct hd_msg_grant *grant
) {
	struct srv_outgoing *out = peer_pull(peer, grant->round);
	const struct srv_handle *after = NULL;
	hd_ns start = turn->now;

	if (out && out->grant.attempt >= grant->attempt)
		return;
	if (out)
		srv_pull_end(turn, out, HD_REASON_CANCELLED);
	out = outgoing_create(turn, job, peer, grant);
	if (!out) {
		send_state(turn, peer, grant, HD_REASON_NO_MEMORY, job->version);
		return;
	}
	out->grant.bytes = job->values * hd_dtype_bytes(grant->dtype);
	out->grant.segments = pull_segments(turn, grant);
	if (grant->after != 0)
		after = srv_handle_find(turn->server, grant->after);
	if (after && after->kind == SRV_HANDLE_OUTGOING) {
		out->predecessor = hd_container_of(after, struct srv_outgoing, handle);
		LIST_INSERT_HEAD(&out->predecessor->successors, out, successor_link);
		start = HD_NEVER;
		if (out->grant.segments.count > 0) {
			start = hd_ns_add(
				out->grant.segments.item[0].start_ns, SRV_GO_SLACK_US * HD_US
			);
		}
	} else if (grant->after == 0 && out->grant.segments.count > 0) {
		start = hd_ns_max(start, out->grant.segments.item[0].start_ns);
	}
	hd_timer_set(&turn->server->timers, &out->start_timer, start);
}

/* The receiver of a granted pull: the aggregator it names, else the worker; NULL: neither has a session. */
static struct srv_peer *pull_receiver(
	const struct hd_server *server,
	const struct srv_job *job,
	const struct hd_msg_grant *grant
) {
	struct srv_peer *aggregator
		= srv_aggregator_find(server, (struct hd_addr){grant->peer_ipv4, grant->peer_port});
	const struct srv_member *member = srv_job_member(job, grant->worker);

	if (aggregator)
		return aggregator;
	return member ? member->peer : NULL;
}

/* Its session may come a little later: the grant waits, replacing the oldest waiting one. */
static void pull_wait(struct hd_server *server, const struct hd_msg_grant *grant) {
	server->relays[server->relay_next] = *grant;
	server->relay_next = (server->relay_next + 1) % HD_RELAYS_WAITING_MAX;
}

void srv_pull_relays(struct srv_turn *turn, const struct srv_peer *peer) {
	struct hd_addr address = hd_session_peer(peer->session);

	for (uint32_t i = 0; i < HD_RELAYS_WAITING_MAX; i++) {
		struct hd_msg_grant grant = turn->server->relays[i];

		if (grant.token == 0
		    || !hd_addr_equal((struct hd_addr){grant.peer_ipv4, grant.peer_port}, address))
			continue;
		turn->server->relays[i].token = 0;
		srv_pull_grant(turn, &grant);
	}
}

void srv_pull_grant(struct srv_turn *turn, const struct hd_msg_grant *grant) {
	struct hd_server *server = turn->server;
	struct srv_job *job = srv_job_find(server, grant->job);
	struct srv_peer *peer = job ? pull_receiver(server, job, grant) : NULL;
	enum hd_reason reason = HD_REASON_NONE;

	if (srv_handle_find(server, grant->token))
		return; /* a repeated grant */
	if (grant->direction != HD_PULL || grant->token == 0) {
		server->stats.refused_messages++;
		return;
	}
	if (grant->epoch < server->epoch) {
		reason = HD_REASON_EPOCH;
	} else if (!hd_dtype_is_model(grant->dtype)) {
		reason = HD_REASON_REFUSED;
	} else if (!peer && job && grant->worker == HD_GROUP_WORKER) {
		pull_wait(server, grant);
		return;
	} else if (!peer || !(peer->joined || peer->aggregates) || srv_job_away(job)) {
		reason = HD_REASON_CLOSED;
	}
	if (reason != HD_REASON_NONE) {
		server->stats.refused_messages++;
		if (job)
			send_state(turn, peer, grant, reason, job->version);
		return;
	}
	server->epoch = grant->epoch;
	pull_begin(turn, job, peer, grant);
}

void srv_pull_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
) {
	struct srv_job *job = member->peer->job;
	struct hd_msg_grant grant = {
		.job = job->id,
		.worker = member->rank,
		.round = request->round,
		.direction = HD_PULL,
		.attempt = request->attempt,
		.token = hd_token_draw(&turn->server->entropy, !job->spec.unsealed),
		.cc_weight = 1,
		.have = request->have,
		.conditional = request->conditional,
		.dtype = request->dtype,
	};

	if (!hd_dtype_is_model(request->dtype)) {
		turn->server->stats.refused_messages++;
		send_state(turn, member->peer, &grant, HD_REASON_REFUSED, job->version);
		return;
	}
	pull_begin(turn, job, member->peer, &grant);
}

void srv_pull_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
) {
	struct srv_outgoing *out = peer_pull(member->peer, cancel->round);

	if (out && cancel->attempt >= out->grant.attempt)
		srv_pull_end(turn, out, HD_REASON_CANCELLED);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Successors start once all remaining bytes are in flight. */
static void pull_release(struct srv_turn *turn, const struct srv_outgoing *out) {
	const struct hd_send_stats *stats = hd_send_stats(out->send);
	const struct hd_path *path = &out->peer->path;
	double window = path->delivery_bps / 8 * 1e-9 * (double)path->srtt;
	double least = 2.0 * turn->server->config.chunk_bytes;
	struct srv_outgoing *successor;

	window = window > least ? window : least;
	if ((double)(stats->bytes_total - stats->bytes_acked) > window)
		return;
	LIST_FOREACH (successor, &out->successors, successor_link)
		hd_timer_set(&turn->server->timers, &successor->start_timer, turn->now);
}

void srv_pull_sack(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
) {
	struct srv_handle *handle = srv_handle_find(turn->server, sack->token);
	struct srv_outgoing *out;

	if (handle && handle->kind == SRV_HANDLE_STATE_OUT) {
		rep_ops.state_sack(turn, handle, peer, sack);
		return;
	}
	if (!handle || handle->kind != SRV_HANDLE_OUTGOING)
		return; /* it ended: late acknowledgements are normal */
	out = hd_container_of(handle, struct srv_outgoing, handle);
	if (out->peer != peer || !out->send || out->state == SRV_OUTGOING_ENDED) {
		turn->server->stats.refused_messages++;
		return;
	}
	hd_send_sack(out->send, turn->now, sack);
	if (hd_send_stats(out->send)->state == HD_SEND_DONE) {
		srv_pull_end(turn, out, HD_REASON_NONE);
		return;
	}
	pull_release(turn, out);
	hd_timer_set(&turn->server->sends, &out->poll_timer, turn->now);
}

/* Sends one pull's share of a turn. Returns the number of packets sent. */
static size_t pull_poll(struct srv_turn *turn, struct srv_outgoing *out) {
	uint64_t reach = hd_send_reached(out->send)
		+ (uint64_t)SRV_POLL_PACKETS * turn->server->config.chunk_bytes;
	const struct hd_send_stats *stats = hd_send_stats(out->send);
	hd_ns next = turn->now;
	size_t sent;

	srv_snapshot_convert(out->job, out->snapshot, out->grant.dtype, reach);
	sent = hd_send_poll(out->send, turn->now, SRV_POLL_PACKETS, turn->sink);
	if (sent > 0 && !out->started) {
		out->started = true;
		pull_event(turn, out, HD_EVENT_SEND_START, HD_REASON_NONE);
	}
	if (stats->state == HD_SEND_FAILED || stats->state == HD_SEND_DONE) {
		outgoing_enter(out, SRV_OUTGOING_ENDED);
		TAILQ_INSERT_TAIL(&turn->server->ended_pulls, out, starved_link);
		return sent;
	}
	if (sent < SRV_POLL_PACKETS)
		next = hd_ns_max(hd_send_deadline(out->send), turn->now + 1);
	hd_timer_set(&turn->server->sends, &out->poll_timer, next);
	return sent;
}

void srv_pulls_poll(struct srv_turn *turn) {
	size_t budget = SRV_POLL_BUDGET;
	struct hd_timer *timer;

	while (budget > 0 && (timer = hd_timers_pop(&turn->server->sends, turn->now))) {
		size_t sent;

		if (timer->kind == SRV_TIMER_STATE_SEND) {
			sent = rep_ops.state_poll(turn, timer);
		} else {
			sent = pull_poll(
				turn, hd_container_of(timer, struct srv_outgoing, poll_timer)
			);
		}
		sent = sent > 0 ? sent : 1;
		budget -= sent < budget ? sent : budget;
	}
}
