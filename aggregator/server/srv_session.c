/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: which peers may send which messages, and what the controller is told about us. */
#include "hd_route.h"
#include "srv_assignment.h"
#include "srv_credit.h"
#include "srv_order.h"
#include "srv_peer.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_roster.h"
#include "srv_update.h"

#include <assert.h>

/* --- the controller's session ----------------------------------------------------------------- */

static void server_register(struct srv_turn *turn) {
	const struct hd_server_config *config = &turn->server->config;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;
	const struct srv_job *job;

	reg->role = config->replica ? HD_ROLE_REPLICA : HD_ROLE_SERVER;
	memcpy(reg->host, turn->server->host, sizeof reg->host);
	reg->data_ipv4 = config->data.ipv4;
	reg->data_port = config->data.port;
	reg->memory_bytes = config->memory_bytes;
	if (config->ops && config->ops->keeps && config->ops->keeps(config->owner))
		reg->flags |= HD_REGISTER_KEEPS;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		uint16_t incarnation = hd_version_incarnation(job->version);

		reg->incarnation = incarnation > reg->incarnation ? incarnation : reg->incarnation;
	}
	srv_controller_send(turn, &message);
}

static void server_registered(struct srv_turn *turn, const struct hd_msg_registered *registered) {
	struct hd_server *server = turn->server;
	const struct srv_job *job;
	struct srv_job *open;

	/* A new session: the controller forgot the requests, or is another one. */
	TAILQ_FOREACH (open, &server->jobs, link)
		srv_credit_end_all(turn, open, HD_REASON_EPOCH);
	hd_upstream_on_registered(&server->upstream);
	server->alone = false;
	srv_assignments_from(server, registered->epoch);
	server->epoch = registered->epoch > server->epoch ? registered->epoch : server->epoch;
	TAILQ_FOREACH (job, &server->jobs, link)
		srv_announce(turn, job);
	rep_ops.announce_replicas(turn);
	rep_ops.ask_again(turn);
}

static void server_refused(struct srv_turn *turn, const struct hd_msg_refuse *refuse) {
	struct hd_event event = hd_upstream_on_refuse(&turn->server->upstream, refuse);

	srv_turn_event(turn, &event);
}

/* --- from the controller ---------------------------------------------------------------------- */

static void on_registered(void *turn, void *from, const struct hd_message *message) {
	server_registered(turn, &message->registered);
}

static void on_refuse(void *turn, void *from, const struct hd_message *message) {
	server_refused(turn, &message->refuse);
}

static void on_expect(void *turn, void *from, const struct hd_message *message) {
	srv_push_expect(turn, &message->expect);
}

static void on_members(void *turn, void *from, const struct hd_message *message) {
	srv_sum_members(turn, &message->members);
}

static void on_credit(void *turn, void *from, const struct hd_message *message) {
	srv_credit_offer(turn, &message->credit);
}

static void on_grant(void *turn, void *from, const struct hd_message *message) {
	srv_pull_grant(turn, &message->grant);
}

static void on_void(void *turn, void *from, const struct hd_message *message) {
	srv_push_void(turn, &message->void_);
}

static void on_order(void *turn, void *from, const struct hd_message *message) {
	srv_order(turn, &message->replica);
}

static void on_drop(void *turn, void *from, const struct hd_message *message) {
	rep_ops.drop(turn, &message->drop);
}

static void on_roster(void *turn, void *from, const struct hd_message *message) {
	srv_roster_receive(turn, &message->roster);
}

static void on_probe(void *turn_, void *from, const struct hd_message *message) {
	struct srv_turn *turn = turn_;

	hd_probes_probe(&turn->server->probes, turn->now, &message->probe, turn->sink);
}

static void on_poll(void *turn, void *from, const struct hd_message *message) {
	srv_poll(turn, &message->poll);
}

/* --- from workers ----------------------------------------------------------------------------- */

/* The member in whose name the message is sent, if its session may: it joined this job as this worker. */
static struct srv_member *
peer_speaks(struct srv_turn *turn, const struct srv_peer *peer, uint32_t job, uint16_t worker) {
	assert(!peer->joined || (peer->job && peer->member));
	if (peer->joined && peer->job->id == job && peer->member->rank == worker)
		return peer->member;
	turn->server->stats.refused_messages++;
	return NULL;
}

static void on_join(void *turn, void *from, const struct hd_message *message) {
	srv_job_join(turn, from, &message->join);
}

static void on_leave(void *turn, void *from, const struct hd_message *message) {
	if (peer_speaks(turn, from, message->leave.job, message->leave.worker))
		srv_job_leave(turn, from, message->leave.reason);
}

static void on_notice(void *turn, void *from, const struct hd_message *message) {
	const struct hd_msg_notice *notice = &message->notice;

	if (peer_speaks(turn, from, notice->job, notice->worker))
		srv_roster_notice(turn, from, notice);
}

static void on_work(void *turn, void *from, const struct hd_message *message) {
	if (peer_speaks(turn, from, message->work.job, message->work.worker))
		srv_federated_work(turn, from, &message->work);
}

static void on_request(void *turn, void *from, const struct hd_message *message) {
	const struct hd_msg_request *request = &message->request;
	struct srv_member *member = peer_speaks(turn, from, request->job, request->worker);

	if (!member)
		return;
	if (request->direction == HD_PULL)
		srv_pull_request(turn, member, request);
	else
		srv_push_request(turn, member, request);
}

static void on_cancel(void *turn, void *from, const struct hd_message *message) {
	const struct hd_msg_cancel *cancel = &message->cancel;
	struct srv_member *member = peer_speaks(turn, from, cancel->job, cancel->worker);

	if (!member)
		return;
	if (cancel->direction == HD_PULL)
		srv_pull_cancel(turn, member, cancel);
	else
		srv_push_cancel(turn, member, cancel);
}

static void on_sack(void *turn, void *from, const struct hd_message *message) {
	srv_pull_sack(turn, from, &message->sack);
}

/* --- from other nodes, and shells ------------------------------------------------------------- */

static void on_sum_void(void *turn, void *from, const struct hd_message *message) {
	srv_sum_void(turn, from, &message->void_);
}

static void on_seed(void *turn, void *from, const struct hd_message *message) {
	srv_order_seed(turn, from, &message->seed);
}

static void on_log(void *turn, void *from, const struct hd_message *message) {
	rep_ops.log(turn, from, &message->log);
}

static void on_follow(void *turn, void *from, const struct hd_message *message) {
	srv_order_follow(turn, from, &message->follow);
}

static void on_show(void *turn, void *from, const struct hd_message *message) {
	srv_show(turn, from, &message->show);
}

static void on_command(void *turn, void *from, const struct hd_message *message) {
	srv_refuse_command(turn, from);
}

/* --- endpoint callbacks ----------------------------------------------------------------------- */

/* Everything else is refused. `from` is the peer; NULL: the controller. */
static const struct hd_route routes[] = {
	{HD_MSG_REGISTERED, HD_FROM_CONTROLLER, on_registered},
	{HD_MSG_REFUSE, HD_FROM_CONTROLLER, on_refuse},
	{HD_MSG_EXPECT, HD_FROM_CONTROLLER, on_expect},
	{HD_MSG_MEMBERS, HD_FROM_CONTROLLER, on_members},
	{HD_MSG_CREDIT, HD_FROM_CONTROLLER, on_credit},
	{HD_MSG_GRANT, HD_FROM_CONTROLLER, on_grant},
	{HD_MSG_VOID, HD_FROM_CONTROLLER, on_void},
	{HD_MSG_VOID, HD_FROM_AGGREGATOR, on_sum_void},
	{HD_MSG_REPLICA, HD_FROM_CONTROLLER, on_order},
	{HD_MSG_DROP, HD_FROM_CONTROLLER, on_drop},
	{HD_MSG_ROSTER, HD_FROM_CONTROLLER, on_roster},
	{HD_MSG_PROBE, HD_FROM_CONTROLLER, on_probe},
	{HD_MSG_POLL, HD_FROM_CONTROLLER, on_poll},
	{HD_MSG_JOIN, HD_FROM_WORKER, on_join},
	{HD_MSG_LEAVE, HD_FROM_WORKER, on_leave},
	{HD_MSG_NOTICE, HD_FROM_WORKER, on_notice},
	{HD_MSG_WORK, HD_FROM_WORKER, on_work},
	{HD_MSG_REQUEST, HD_FROM_WORKER, on_request},
	{HD_MSG_CANCEL, HD_FROM_WORKER, on_cancel},
	{HD_MSG_SACK, HD_FROM_WORKER | HD_FROM_AGGREGATOR | HD_FROM_SERVERS, on_sack},
	{HD_MSG_SEED, HD_FROM_SERVERS, on_seed},
	{HD_MSG_LOG, HD_FROM_SERVERS, on_log},
	{HD_MSG_FOLLOW, HD_FROM_SERVERS, on_follow},
	{HD_MSG_SHOW, HD_FROM_SHELL, on_show},
	{HD_MSG_COMMAND, HD_FROM_SHELL, on_command},
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

bool srv_routes_are_valid(void) {
	return hd_routes_are_valid(routes, ROUTES);
}

static void
server_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_server *server = owner;
	struct srv_turn turn = {server, now, sink, now};
	struct hd_event event = {.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)};
	const struct hd_who who = hd_session_who(session);
	struct srv_peer *peer;

	event.who = &who;
	srv_turn_event(&turn, &event);
	if (session == server->upstream.session) {
		hd_upstream_on_opened(&server->upstream);
		server_register(&turn);
		return;
	}
	peer = calloc(1, sizeof *peer);
	if (!peer) {
		rep_ops.link_lost(&turn, session);
		hd_session_close(session, HD_REASON_NO_MEMORY, "no memory", now, sink);
		return;
	}
	peer->session = session;
	hd_path_init(
		&peer->path,
		server->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + SRV_PACKET_OVERHEAD
	);
	peer->path.totals = &server->transfers;
	hd_session_set_user(session, peer);
	TAILQ_INSERT_TAIL(&server->peers, peer, link);
	if (hd_session_peer_role(session) == HD_ROLE_AGGREGATOR)
		srv_aggregator_attach(&turn, peer);
	rep_ops.link_opened(&turn, peer);
}

static void server_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_server *server = owner;
	struct srv_turn turn = {server, now, sink, now};
	struct srv_peer *peer
		= session == server->upstream.session ? NULL : hd_session_user(session);
	uint8_t role = hd_upstream_role(&server->upstream, session);

	if (!peer && role != HD_ROLE_CONTROLLER)
		role = HD_ROLE_NONE;
	if (hd_route_message(routes, ROUTES, role, &turn, peer, message) != HD_ROUTED)
		server->stats.refused_messages++;
}

static void server_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_server *server = owner;
	struct srv_turn turn = {server, now, sink, now};
	struct hd_event event = {.kind = HD_EVENT_NODE_DOWN, .reason = reason};
	struct hd_who who = hd_session_who(session);
	struct srv_peer *peer;

	if (session == server->upstream.session) {
		if (server->upstream.registered)
			server->heard = hd_session_heard(session);
		event = hd_upstream_on_closed(&server->upstream, reason);
		srv_turn_event(&turn, &event);
		return;
	}
	peer = hd_session_user(session);
	if (peer)
		rep_ops.link_closed(&turn, peer);
	if (reason == HD_REASON_REFUSED)
		rep_ops.link_lost(&turn, session);
	if (!peer)
		return;
	event.aux = hd_session_peer_role(session);
	event.job = peer->job ? peer->job->id : 0;
	who.tenant = peer->job ? peer->job->spec.tenant : NULL;
	who.job = peer->job ? peer->job->spec.name : NULL;
	event.who = &who;
	event.worker = peer->member ? peer->member->rank : 0;
	srv_turn_event(&turn, &event);
	srv_peer_detach(&turn, peer, reason);
	hd_session_set_user(session, NULL);
	srv_peer_destroy(server, peer);
}

const struct hd_endpoint_ops srv_endpoint_ops = {
	.opened = server_opened,
	.message = server_message,
	.closed = server_closed,
};
