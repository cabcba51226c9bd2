/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: who may say what, and what the controller is told about us. */
#include "srv_credit.h"
#include "srv_order.h"
#include "srv_peer.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_roster.h"
#include "srv_update.h"

/* --- the controller's session ----------------------------------------------------------------- */

static void server_register(struct srv_turn *turn) {
	const struct hd_server_config *config = &turn->server->config;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;
	const struct srv_job *job;

	reg->role = config->replica ? HD_ROLE_REPLICA : HD_ROLE_SERVER;
	memcpy(reg->host, turn->server->host, sizeof(reg->host));
	reg->data_ipv4 = config->data.ipv4;
	reg->data_port = config->data.port;
	reg->memory_bytes = config->memory_bytes;
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

	/* A session that begins: the controller has forgotten them, or is another one. */
	TAILQ_FOREACH (open, &server->jobs, link) {
		srv_credit_end_all(turn, open, HD_REASON_EPOCH);
	}
	server->registered = true;
	server->alone = false;
	if (registered->epoch != server->epoch) {
		server->told_count = 0; /* what another life of the controller said is void */
	}
	server->epoch = registered->epoch > server->epoch ? registered->epoch : server->epoch;
	TAILQ_FOREACH (job, &server->jobs, link) {
		srv_announce(turn, job);
	}
	rep_ops.announce_replicas(turn);
	rep_ops.ask_again(turn);
}

/* REGISTER was refused. The session stays, in case that the controller thinks better of it. */
static void server_refused(struct srv_turn *turn, const struct hd_msg_refuse *refuse) {
	struct hd_event event = {
		.kind = HD_EVENT_NODE_DOWN,
		.reason = refuse->reason < HD_REASON_COUNT ? refuse->reason : HD_REASON_REFUSED,
		.aux = HD_ROLE_CONTROLLER,
	};

	turn->server->registered = false;
	srv_turn_event(turn, &event);
}

static void server_from_controller(struct srv_turn *turn, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_REGISTERED:
		server_registered(turn, &message->registered);
		break;
	case HD_MSG_REFUSE:
		server_refused(turn, &message->refuse);
		break;
	case HD_MSG_EXPECT:
		srv_push_expect(turn, &message->expect);
		break;
	case HD_MSG_MEMBERS:
		srv_sum_members(turn, &message->members);
		break;
	case HD_MSG_CREDIT:
		srv_credit_offer(turn, &message->credit);
		break;
	case HD_MSG_GRANT:
		srv_pull_grant(turn, &message->grant);
		break;
	case HD_MSG_VOID:
		srv_push_void(turn, &message->void_);
		break;
	case HD_MSG_REPLICA:
		srv_order(turn, &message->replica);
		break;
	case HD_MSG_DROP:
		rep_ops.drop(turn, &message->drop);
		break;
	case HD_MSG_ROSTER:
		srv_roster_told(turn, &message->roster);
		break;
	case HD_MSG_PROBE:
		hd_probes_probe(&turn->server->probes, turn->now, &message->probe, turn->sink);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* --- workers' sessions ------------------------------------------------------------------------ */

/* The member that a message speaks for, when its session may: it joined this job as this worker. */
static struct srv_member *
peer_speaks(struct srv_turn *turn, const struct srv_peer *peer, uint32_t job, uint16_t worker) {
	if (peer->joined && peer->job->id == job && peer->member->rank == worker) {
		return peer->member;
	}
	turn->server->stats.refused_messages++;
	return NULL;
}

static void
server_request(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_request *request) {
	struct srv_member *member = peer_speaks(turn, peer, request->job, request->worker);

	if (member == NULL) {
		return;
	}
	if (request->direction == HD_PULL) {
		srv_pull_request(turn, member, request);
	} else {
		srv_push_request(turn, member, request);
	}
}

static void
server_cancel(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_cancel *cancel) {
	struct srv_member *member = peer_speaks(turn, peer, cancel->job, cancel->worker);

	if (member == NULL) {
		return;
	}
	if (cancel->direction == HD_PULL) {
		srv_pull_cancel(turn, member, cancel);
	} else {
		srv_push_cancel(turn, member, cancel);
	}
}

static void
server_notice(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_notice *notice) {
	const struct srv_member *member = peer_speaks(turn, peer, notice->job, notice->worker);

	if (member != NULL) {
		srv_roster_notice(turn, member, notice);
	}
}

static void
server_from_worker(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_JOIN:
		srv_job_join(turn, peer, &message->join);
		break;
	case HD_MSG_LEAVE:
		if (peer_speaks(turn, peer, message->leave.job, message->leave.worker) != NULL) {
			srv_job_leave(turn, peer, message->leave.reason);
		}
		break;
	case HD_MSG_NOTICE:
		server_notice(turn, peer, &message->notice);
		break;
	case HD_MSG_WORK:
		if (peer_speaks(turn, peer, message->work.job, message->work.worker) != NULL) {
			srv_rounds_work(turn, peer, &message->work);
		}
		break;
	case HD_MSG_REQUEST:
		server_request(turn, peer, &message->request);
		break;
	case HD_MSG_CANCEL:
		server_cancel(turn, peer, &message->cancel);
		break;
	case HD_MSG_SACK:
		srv_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

static void server_from_aggregator(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_VOID:
		srv_sum_void(turn, peer, &message->void_);
		break;
	case HD_MSG_SACK:
		srv_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* A server whose jobs we copy, or a replica of ours. */
static void
server_from_server(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_SEED:
		srv_order_seed(turn, peer, &message->seed);
		break;
	case HD_MSG_LOG:
		rep_ops.log(turn, peer, &message->log);
		break;
	case HD_MSG_FOLLOW:
		srv_order_follow(turn, peer, &message->follow);
		break;
	case HD_MSG_SACK:
		srv_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

static void
server_from_shell(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_SHOW:
		srv_show(turn, peer, &message->show);
		break;
	case HD_MSG_COMMAND:
		srv_refuse_command(turn, peer);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* --- endpoint callbacks ----------------------------------------------------------------------- */

static void
server_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_server *server = owner;
	struct srv_turn turn = {server, now, sink};
	struct hd_event event = {.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)};
	struct srv_peer *peer;

	srv_turn_event(&turn, &event);
	if (session == server->controller) {
		server->registered = false;
		server_register(&turn);
		return;
	}
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL) {
		rep_ops.link_lost(&turn, session);
		hd_session_close(session, HD_REASON_NO_MEMORY, "no memory", now, sink);
		return;
	}
	peer->session = session;
	hd_path_init(
		&peer->path,
		server->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + SRV_PACKET_OVERHEAD
	);
	hd_session_set_user(session, peer);
	TAILQ_INSERT_TAIL(&server->peers, peer, link);
	if (hd_session_peer_role(session) == HD_ROLE_AGGREGATOR) {
		srv_aggregator_attach(&turn, peer);
	}
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
	struct srv_turn turn = {server, now, sink};
	struct srv_peer *peer;

	if (session == server->controller) {
		server_from_controller(&turn, message);
		return;
	}
	peer = hd_session_user(session);
	switch (peer != NULL ? hd_session_peer_role(session) : HD_ROLE_NONE) {
	case HD_ROLE_SHELL:
		server_from_shell(&turn, peer, message);
		break;
	case HD_ROLE_AGGREGATOR:
		server_from_aggregator(&turn, peer, message);
		break;
	case HD_ROLE_SERVER:
	case HD_ROLE_REPLICA:
		server_from_server(&turn, peer, message);
		break;
	case HD_ROLE_WORKER:
		server_from_worker(&turn, peer, message);
		break;
	default:
		server->stats.refused_messages++;
		break;
	}
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
	struct srv_turn turn = {server, now, sink};
	struct hd_event event = {.kind = HD_EVENT_NODE_DOWN, .reason = reason};
	struct srv_peer *peer;

	if (session == server->controller) {
		server->heard = server->registered ? hd_session_heard(session) : server->heard;
		server->registered = false;
		if (reason == HD_REASON_REFUSED) {
			server->refused = true;
			server->controller = NULL; /* freed after this call */
		}
		event.aux = HD_ROLE_CONTROLLER;
		srv_turn_event(&turn, &event);
		return;
	}
	peer = hd_session_user(session);
	if (peer != NULL) {
		rep_ops.link_closed(&turn, peer);
	}
	if (reason == HD_REASON_REFUSED) {
		rep_ops.link_lost(&turn, session);
	}
	if (peer == NULL) {
		return;
	}
	event.aux = hd_session_peer_role(session);
	event.job = peer->job != NULL ? peer->job->id : 0;
	event.worker = peer->member != NULL ? peer->member->rank : 0;
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
