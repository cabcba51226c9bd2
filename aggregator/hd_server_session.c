/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: who may say what, and what the controller is told about us. */
#include "hd_replica.h"
#include "hd_server_credit.h"
#include "hd_server_pull.h"
#include "hd_server_roster.h"

/* --- the controller's session ---------------------------------------------------------------- */

static void hd_server_register(struct hd_turn *turn) {
	const struct hd_server_config *config = &turn->server->config;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;
	const struct hd_job *job;

	reg->role = config->replica ? HD_ROLE_REPLICA : HD_ROLE_SERVER;
	memcpy(reg->host, turn->server->host, sizeof(reg->host));
	reg->data_ipv4 = config->data.ipv4;
	reg->data_port = config->data.port;
	reg->memory_bytes = config->memory_bytes;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		uint16_t incarnation = hd_version_incarnation(job->version);

		reg->incarnation = incarnation > reg->incarnation ? incarnation : reg->incarnation;
	}
	hd_controller_send(turn, &message);
}

/* A sum part by part, as they are granted: that is also how this controller hears of its end. */
static void hd_server_inflight_push(struct hd_turn *turn, struct hd_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_INFLIGHT};

	in->apart = in->sum;
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_part *part = &in->parts[i];

		message.inflight = (struct hd_msg_inflight){
			.job = in->job->id,
			.worker = part->member->rank,
			.round = part->round,
			.direction = HD_PUSH,
			.attempt = part->attempt,
			.token = in->sum ? part->handle.token : in->handle.token,
			.position = in->direct ? 0 : in->position + i,
			.base = part->base,
			.bytes = in->bytes,
			.held_bytes = in->recv != NULL ? hd_recv_stats(in->recv)->bytes_held : 0,
		};
		hd_controller_send(turn, &message);
	}
}

static void hd_server_inflight_pull(struct hd_turn *turn, const struct hd_outgoing *out) {
	struct hd_message message = {.kind = HD_MSG_INFLIGHT};

	message.inflight = (struct hd_msg_inflight){
		.job = out->job->id,
		.worker = out->grant.worker,
		.round = out->grant.round,
		.direction = HD_PULL,
		.attempt = out->grant.attempt,
		.token = out->handle.token,
		.base = out->snapshot != NULL ? out->snapshot->version : 0,
		.bytes = out->grant.bytes,
		.held_bytes = out->send != NULL ? hd_send_stats(out->send)->bytes_acked : 0,
	};
	hd_controller_send(turn, &message);
}

void hd_server_announce(struct hd_turn *turn, const struct hd_job *job) {
	struct hd_message message = {.kind = HD_MSG_STATE};
	uint32_t inflight = job->pull_count;
	const struct hd_outgoing *out;
	struct hd_incoming *in;

	if (!turn->server->registered || job->mirror != NULL || job->retired) {
		return;
	}
	TAILQ_FOREACH (in, &job->open, open_link) {
		inflight += in->part_count;
	}
	message.state = (struct hd_msg_state){
		.job = job->id,
		.version = job->version,
		.position = job->position,
		.tau_max = job->spec.tau_max,
		.model_bytes = job->bytes,
		.inflight = inflight,
		.generation = job->confirmed ? job->generation : 0,
	};
	hd_controller_send(turn, &message);
	hd_follow_announce(turn, job);
	TAILQ_FOREACH (in, &job->open, open_link) {
		hd_server_inflight_push(turn, in);
	}
	TAILQ_FOREACH (out, &job->pulls, open_link) {
		hd_server_inflight_pull(turn, out);
	}
}

static void hd_server_registered(struct hd_turn *turn, const struct hd_msg_registered *registered) {
	struct hd_server *server = turn->server;
	const struct hd_job *job;
	struct hd_job *open;

	/* A session that begins: the controller has forgotten them, or is another one. */
	TAILQ_FOREACH (open, &server->jobs, link) {
		hd_credit_end_all(turn, open, HD_REASON_EPOCH);
	}
	server->registered = true;
	server->alone = false;
	if (registered->epoch != server->epoch) {
		server->told_count = 0; /* what another life of the controller said is void */
	}
	server->epoch = registered->epoch > server->epoch ? registered->epoch : server->epoch;
	TAILQ_FOREACH (job, &server->jobs, link) {
		hd_server_announce(turn, job);
	}
	hd_mirrors_announce(turn);
	hd_copies_ask_again(turn);
}

/* REGISTER was refused. The session stays, in case that the controller thinks better of it. */
static void hd_server_refused(struct hd_turn *turn, const struct hd_msg_refuse *refuse) {
	struct hd_event event = {
		.kind = HD_EVENT_NODE_DOWN,
		.reason = refuse->reason < HD_REASON_COUNT ? refuse->reason : HD_REASON_REFUSED,
		.aux = HD_ROLE_CONTROLLER,
	};

	turn->server->registered = false;
	hd_turn_event(turn, &event);
}

static void hd_server_from_controller(struct hd_turn *turn, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_REGISTERED:
		hd_server_registered(turn, &message->registered);
		break;
	case HD_MSG_REFUSE:
		hd_server_refused(turn, &message->refuse);
		break;
	case HD_MSG_EXPECT:
		hd_push_expect(turn, &message->expect);
		break;
	case HD_MSG_MEMBERS:
		hd_sum_members(turn, &message->members);
		break;
	case HD_MSG_CREDIT:
		hd_credit_offer(turn, &message->credit);
		break;
	case HD_MSG_GRANT:
		hd_pull_grant(turn, &message->grant);
		break;
	case HD_MSG_VOID:
		hd_push_void(turn, &message->void_);
		break;
	case HD_MSG_REPLICA:
		hd_follow_order(turn, &message->replica);
		break;
	case HD_MSG_DROP:
		hd_copy_drop(turn, &message->drop);
		break;
	case HD_MSG_ROSTER:
		hd_roster_told(turn, &message->roster);
		break;
	case HD_MSG_PROBE:
		hd_probes_probe(&turn->server->probes, turn->now, &message->probe, turn->sink);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* --- workers' sessions ----------------------------------------------------------------------- */

/* The member that a message speaks for, when its session may: it joined this job as this worker. */
static struct hd_member *
hd_peer_speaks(struct hd_turn *turn, const struct hd_peer *peer, uint32_t job, uint16_t worker) {
	if (peer->joined && peer->job->id == job && peer->member->rank == worker) {
		return peer->member;
	}
	turn->server->stats.refused_messages++;
	return NULL;
}

static void hd_server_request(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_msg_request *request
) {
	struct hd_member *member = hd_peer_speaks(turn, peer, request->job, request->worker);

	if (member == NULL) {
		return;
	}
	if (request->direction == HD_PULL) {
		hd_pull_request(turn, member, request);
	} else {
		hd_push_request(turn, member, request);
	}
}

static void
hd_server_cancel(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_cancel *cancel) {
	struct hd_member *member = hd_peer_speaks(turn, peer, cancel->job, cancel->worker);

	if (member == NULL) {
		return;
	}
	if (cancel->direction == HD_PULL) {
		hd_pull_cancel(turn, member, cancel);
	} else {
		hd_push_cancel(turn, member, cancel);
	}
}

static void
hd_server_notice(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_notice *notice) {
	const struct hd_member *member = hd_peer_speaks(turn, peer, notice->job, notice->worker);

	if (member != NULL) {
		hd_roster_notice(turn, member, notice);
	}
}

static void hd_server_from_worker(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_JOIN:
		hd_job_join(turn, peer, &message->join);
		break;
	case HD_MSG_LEAVE:
		if (hd_peer_speaks(turn, peer, message->leave.job, message->leave.worker) != NULL) {
			hd_job_leave(turn, peer, message->leave.reason);
		}
		break;
	case HD_MSG_NOTICE:
		hd_server_notice(turn, peer, &message->notice);
		break;
	case HD_MSG_WORK:
		if (hd_peer_speaks(turn, peer, message->work.job, message->work.worker) != NULL) {
			hd_rounds_work(turn, peer, &message->work);
		}
		break;
	case HD_MSG_REQUEST:
		hd_server_request(turn, peer, &message->request);
		break;
	case HD_MSG_CANCEL:
		hd_server_cancel(turn, peer, &message->cancel);
		break;
	case HD_MSG_SACK:
		hd_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

static void hd_server_from_aggregator(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_VOID:
		hd_sum_void(turn, peer, &message->void_);
		break;
	case HD_MSG_SACK:
		hd_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* A server whose jobs we copy, or a replica of ours. */
static void hd_server_from_server(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_SEED:
		hd_mirror_seed(turn, peer, &message->seed);
		break;
	case HD_MSG_LOG:
		hd_mirror_log(turn, peer, &message->log);
		break;
	case HD_MSG_FOLLOW:
		hd_follow_message(turn, peer, &message->follow);
		break;
	case HD_MSG_SACK:
		hd_pull_sack(turn, peer, &message->sack);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

static void
hd_server_from_shell(struct hd_turn *turn, struct hd_peer *peer, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_SHOW:
		hd_server_show(turn, peer, &message->show);
		break;
	case HD_MSG_COMMAND:
		hd_server_refuse_command(turn, peer);
		break;
	default:
		turn->server->stats.refused_messages++;
		break;
	}
}

/* --- endpoint callbacks ---------------------------------------------------------------------- */

static void
hd_server_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_server *server = owner;
	struct hd_turn turn = {server, now, sink};
	struct hd_event event = {.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)};
	struct hd_peer *peer;

	hd_turn_event(&turn, &event);
	if (session == server->controller) {
		server->registered = false;
		hd_server_register(&turn);
		return;
	}
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL) {
		hd_link_lost(&turn, session);
		hd_session_close(session, HD_REASON_NO_MEMORY, "no memory", now, sink);
		return;
	}
	peer->session = session;
	hd_path_init(
		&peer->path, server->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + HD_PACKET_OVERHEAD
	);
	hd_session_set_user(session, peer);
	TAILQ_INSERT_TAIL(&server->peers, peer, link);
	if (hd_session_peer_role(session) == HD_ROLE_AGGREGATOR) {
		hd_aggregator_attach(&turn, peer);
	}
	hd_link_opened(&turn, peer);
}

struct hd_peer *hd_peer_at(const struct hd_server *server, struct hd_addr addr) {
	struct hd_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (hd_addr_equal(hd_session_peer(peer->session), addr)) {
			return peer;
		}
	}
	return NULL;
}

void hd_peer_destroy(struct hd_server *server, struct hd_peer *peer) {
	hd_copies_detach(server, peer);
	TAILQ_REMOVE(&server->peers, peer, link);
	free(peer);
}

static void hd_server_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_server *server = owner;
	struct hd_turn turn = {server, now, sink};
	struct hd_peer *peer;

	if (session == server->controller) {
		hd_server_from_controller(&turn, message);
		return;
	}
	peer = hd_session_user(session);
	switch (peer != NULL ? hd_session_peer_role(session) : HD_ROLE_NONE) {
	case HD_ROLE_SHELL:
		hd_server_from_shell(&turn, peer, message);
		break;
	case HD_ROLE_AGGREGATOR:
		hd_server_from_aggregator(&turn, peer, message);
		break;
	case HD_ROLE_SERVER:
	case HD_ROLE_REPLICA:
		hd_server_from_server(&turn, peer, message);
		break;
	case HD_ROLE_WORKER:
		hd_server_from_worker(&turn, peer, message);
		break;
	default:
		server->stats.refused_messages++;
		break;
	}
}

static void hd_server_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_server *server = owner;
	struct hd_turn turn = {server, now, sink};
	struct hd_event event = {.kind = HD_EVENT_NODE_DOWN, .reason = reason};
	struct hd_peer *peer;

	if (session == server->controller) {
		server->heard = server->registered ? hd_session_heard(session) : server->heard;
		server->registered = false;
		if (reason == HD_REASON_REFUSED) {
			server->refused = true;
			server->controller = NULL; /* freed after this call */
		}
		event.aux = HD_ROLE_CONTROLLER;
		hd_turn_event(&turn, &event);
		return;
	}
	peer = hd_session_user(session);
	if (peer != NULL) {
		hd_link_closed(&turn, peer);
	}
	if (reason == HD_REASON_REFUSED) {
		hd_link_lost(&turn, session);
	}
	if (peer == NULL) {
		return;
	}
	event.aux = hd_session_peer_role(session);
	event.job = peer->job != NULL ? peer->job->id : 0;
	event.worker = peer->member != NULL ? peer->member->rank : 0;
	hd_turn_event(&turn, &event);
	hd_peer_detach(&turn, peer, reason);
	hd_session_set_user(session, NULL);
	hd_peer_destroy(server, peer);
}

const struct hd_endpoint_ops hd_server_endpoint_ops = {
	.opened = hd_server_opened,
	.message = hd_server_message,
	.closed = hd_server_closed,
};
