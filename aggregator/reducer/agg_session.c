/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions, and which peers may send which messages.
 *
 * A sender's chunks come from the address of its session: acknowledgements find the session by it. A worker also sends
 * JOIN, so that it can get go before its first chunk.
 */
#include "agg_group.h"
#include "hd_route.h"

/* --- the controller's session ----------------------------------------------------------------- */

static void send_register(struct agg_turn *turn) {
	const struct hd_aggregator *aggregator = turn->aggregator;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;

	reg->role = HD_ROLE_AGGREGATOR;
	memcpy(reg->host, aggregator->host, sizeof reg->host);
	reg->data_ipv4 = aggregator->config.data.ipv4;
	reg->data_port = aggregator->config.data.port;
	reg->memory_bytes = agg_memory_sums(aggregator);
	reg->job = aggregator->config.job;
	reg->worker = aggregator->config.worker;
	agg_controller_send(turn, &message);
}

/* Groups of an older epoch continue: their workers and receivers know of no change, and a controller that does not know
 * the groups learns from their receivers how they end. */
static void registered(struct agg_turn *turn, const struct hd_msg_registered *registered) {
	struct hd_aggregator *aggregator = turn->aggregator;

	hd_upstream_on_registered(&aggregator->upstream);
	if (registered->epoch > aggregator->epoch)
		aggregator->epoch = registered->epoch;
}

static void refused(struct agg_turn *turn, const struct hd_msg_refuse *refuse) {
	struct hd_event event = hd_upstream_on_refuse(&turn->aggregator->upstream, refuse);

	agg_event(turn, &event);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* Ends transfers that need the session: inputs that are not held whole, outputs that are not delivered. */
static void detach(struct agg_turn *turn, struct agg_peer *peer, enum hd_reason reason) {
	struct agg_output *out;
	struct agg_input *in;

	peer->open = false;
	while ((in = LIST_FIRST(&peer->inputs))) {
		LIST_REMOVE(in, peer_link);
		in->peer = NULL;
		if (!in->complete)
			agg_group_fail(turn, in->group, reason, in);
	}
	while ((out = LIST_FIRST(&peer->outputs))) {
		struct agg_group *group = out->group;

		group->deserted += out->is.role == HD_ROLE_WORKER;
		agg_output_lose(turn, out, reason);
		(void)agg_group_consider(turn, group);
	}
}

static void peer_end(struct agg_turn *turn, struct agg_peer *peer, enum hd_reason reason) {
	detach(turn, peer, reason);
	agg_peer_destroy(turn->aggregator, peer);
}

void agg_peer_close(
	struct agg_turn *turn,
	struct agg_peer *peer,
	enum hd_reason reason,
	const char *why
) {
	struct hd_session *session = peer->session;

	peer_end(turn, peer, reason);
	hd_session_set_user(session, NULL);
	hd_session_close(session, reason, why, turn->now, turn->sink);
}

void agg_peer_unreached(struct agg_turn *turn, struct agg_peer *peer) {
	if (peer->open)
		return;
	agg_outputs_unreached(turn, peer->addr);
	agg_peer_close(turn, peer, HD_REASON_TIMEOUT, "no answer");
}

/* --- peers' messages -------------------------------------------------------------------------- */

/* Finds the inputs of this worker that were created before its session. */
static void find_inputs(struct agg_turn *turn, struct agg_peer *peer) {
	struct agg_group *group;

	TAILQ_FOREACH (group, &turn->aggregator->group_list, link) {
		for (uint32_t i = 0; group->job == peer->job && i < group->input_count; i++) {
			struct agg_input *in = &group->inputs[i];

			if (in->is.worker == peer->worker && !in->peer)
				agg_input_bind(turn, in, peer);
		}
	}
}

/* A newer process on the same host takes the rank at once. One on another host waits until the older session has
 * ended. */
static bool
is_held_elsewhere(struct agg_turn *turn, struct agg_peer *peer, const struct agg_peer *older) {
	if (!older || older == peer || older->broken
	    || hd_session_peer(older->session).ipv4 == hd_session_peer(peer->session).ipv4)
		return false;
	peer->broken = "a process on another host has this rank";
	turn->aggregator->breaking = true;
	turn->aggregator->stats.refused_messages++;
	return true;
}

static void join(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_join *join) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct agg_job *job = NULL;
	struct agg_peer *older;

	if (join->worker != HD_GROUP_WORKER)
		job = agg_job_get(aggregator, join->job);
	if (!job) {
		aggregator->stats.refused_messages++;
		return;
	}
	older = agg_peer_of(aggregator, join->job, join->worker);
	if (is_held_elsewhere(turn, peer, older))
		return;
	job->peers++;
	agg_peer_forget(aggregator, peer);
	older = agg_peer_of(aggregator, join->job, join->worker);
	if (older)
		agg_peer_forget(aggregator, older);
	peer->job = job;
	peer->worker = join->worker;
	peer->who = agg_who_key(join->job, join->worker);
	peer->who_hh.tbl = NULL;
	HASH_ADD(who_hh, aggregator->peers_by_who, who, sizeof peer->who, peer);
	peer->by_who = peer->who_hh.tbl != NULL;
	find_inputs(turn, peer);
	agg_outputs_opened(turn, peer);
}

/* --- routes ----------------------------------------------------------------------------------- */

static void on_registered(void *turn, void *from, const struct hd_message *message) {
	registered(turn, &message->registered);
}

static void on_refuse(void *turn, void *from, const struct hd_message *message) {
	refused(turn, &message->refuse);
}

static void on_group(void *turn, void *from, const struct hd_message *message) {
	agg_group_make(turn, &message->group);
}

static void on_void(void *turn, void *from, const struct hd_message *message) {
	agg_group_void(turn, &message->void_);
}

static void on_probe(void *turn_, void *from, const struct hd_message *message) {
	struct agg_turn *turn = turn_;

	hd_probes_probe(&turn->aggregator->probes, turn->now, &message->probe, turn->sink);
}

static void on_poll(void *turn, void *from, const struct hd_message *message) {
	agg_poll(turn, &message->poll);
}

static void on_join(void *turn, void *from, const struct hd_message *message) {
	join(turn, from, &message->join);
}

static void on_cancel(void *turn, void *from, const struct hd_message *message) {
	agg_cancel(turn, from, &message->cancel);
}

static void on_leave(void *turn_, void *from, const struct hd_message *message) {
	struct agg_turn *turn = turn_;

	agg_peer_forget(turn->aggregator, from);
}

static void on_sack(void *turn, void *from, const struct hd_message *message) {
	agg_output_sack(turn, from, &message->sack);
}

static void on_go(void *turn, void *from, const struct hd_message *message) {
	agg_output_go(turn, from, &message->go);
}

static void on_output_void(void *turn, void *from, const struct hd_message *message) {
	agg_output_void(turn, from, &message->void_);
}

static void on_pull_state(void *turn, void *from, const struct hd_message *message) {
	agg_pull_state(turn, from, &message->pull_state);
}

static void on_show(void *turn, void *from, const struct hd_message *message) {
	agg_show(turn, from, &message->show);
}

static void on_command(void *turn, void *from, const struct hd_message *message) {
	agg_refuse_command(turn, from);
}

/* Everything else is refused. `from` is the peer; NULL: the controller. */
static const struct hd_route routes[] = {
	{HD_MSG_REGISTERED, HD_FROM_CONTROLLER, on_registered},
	{HD_MSG_REFUSE, HD_FROM_CONTROLLER, on_refuse},
	{HD_MSG_GROUP, HD_FROM_CONTROLLER, on_group},
	{HD_MSG_VOID, HD_FROM_CONTROLLER, on_void},
	{HD_MSG_VOID, HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_output_void},
	{HD_MSG_PROBE, HD_FROM_CONTROLLER, on_probe},
	{HD_MSG_POLL, HD_FROM_CONTROLLER, on_poll},
	{HD_MSG_JOIN, HD_FROM_WORKER, on_join},
	{HD_MSG_CANCEL, HD_FROM_WORKER, on_cancel},
	{HD_MSG_LEAVE, HD_FROM_WORKER, on_leave},
	{HD_MSG_SACK, HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_sack},
	{HD_MSG_GO, HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_go},
	{HD_MSG_PULL_STATE, HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_pull_state},
	{HD_MSG_SHOW, HD_FROM_SHELL, on_show},
	{HD_MSG_COMMAND, HD_FROM_SHELL, on_command},
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

bool agg_routes_are_valid(void) {
	return hd_routes_are_valid(routes, ROUTES);
}

/* --- endpoint callbacks ----------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_aggregator *aggregator = owner;
	struct agg_turn turn = {aggregator, now, sink, now};
	struct hd_event event = {.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)};
	struct agg_peer *peer = hd_session_user(session);
	const struct hd_who who = hd_session_who(session);

	event.who = &who;
	agg_event(&turn, &event);
	if (session == aggregator->upstream.session) {
		hd_upstream_on_opened(&aggregator->upstream);
		send_register(&turn);
		return;
	}
	if (!peer)
		peer = agg_peer_create(aggregator, session, hd_session_peer(session));
	if (!peer) {
		hd_session_close(session, HD_REASON_NO_MEMORY, "no memory", now, sink);
		return;
	}
	peer->open = true;
	agg_outputs_opened(&turn, peer);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_aggregator *aggregator = owner;
	struct agg_turn turn = {aggregator, now, sink, now};
	struct agg_peer *peer
		= session == aggregator->upstream.session ? NULL : hd_session_user(session);
	uint8_t role = hd_upstream_role(&aggregator->upstream, session);

	if (!peer && role != HD_ROLE_CONTROLLER)
		role = HD_ROLE_NONE;
	if (hd_route_message(routes, ROUTES, role, &turn, peer, message) != HD_ROUTED)
		aggregator->stats.refused_messages++;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_aggregator *aggregator = owner;
	struct agg_turn turn = {aggregator, now, sink, now};
	struct hd_event event = {.kind = HD_EVENT_NODE_DOWN, .reason = reason};
	struct agg_peer *peer = hd_session_user(session);
	const struct hd_who who = hd_session_who(session);

	if (session == aggregator->upstream.session) {
		event = hd_upstream_on_closed(&aggregator->upstream, reason);
		agg_event(&turn, &event);
		return;
	}
	if (!peer)
		return;
	if (!peer->open && reason != HD_REASON_REFUSED)
		return; /* we opened it and it is not open yet: HELLO continues */
	event.aux = hd_session_peer_role(session);
	event.job = peer->job ? peer->job->id : 0;
	event.worker = peer->worker;
	event.who = &who;
	agg_event(&turn, &event);
	if (peer->ours && reason != HD_REASON_REFUSED) {
		agg_peer_close(&turn, peer, reason, "it ended"); /* or it would send HELLO again */
		return;
	}
	hd_session_set_user(session, NULL);
	peer_end(&turn, peer, reason);
}

const struct hd_endpoint_ops agg_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};
