/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "worker_peers.h"

#include <stdlib.h>
#include <string.h>

static struct hd_key key = {.id = 1, .secret = {1, 2, 3}};
static const struct hd_keyring keys = {.count = 1, .keys = &key};

const struct hd_keyring *peer_keys(void) {
	return &keys;
}

int peer_send(struct peer *peer, const struct hd_message *message) {
	int rc;

	if (!peer->session)
		return -1;
	rc = hd_session_send(
		peer->session,
		message,
		hd_sim_node_now(peer->sim, peer->node),
		hd_sim_node_sink(peer->sim, peer->node)
	);
	hd_sim_node_poke(peer->sim, peer->node);
	return rc;
}

uint32_t peer_count(const struct peer *peer, uint8_t kind) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < peer->seen_count; i++)
		count += peer->seen[i].kind == kind;
	return count;
}

const struct hd_message *peer_last(const struct peer *peer, uint8_t kind) {
	for (uint32_t i = peer->seen_count; i > 0; i--)
		if (peer->seen[i - 1].kind == kind)
			return &peer->seen[i - 1];
	return NULL;
}

static struct peer_transfer *find_transfer(struct peer *peer, uint64_t token) {
	for (uint32_t i = 0; i < PEER_TRANSFERS_MAX; i++)
		if (peer->transfers[i].token == token)
			return &peer->transfers[i];
	return NULL;
}

static void forget(struct peer_transfer *transfer) {
	hd_recv_destroy(transfer->recv);
	hd_send_destroy(transfer->send);
	free(transfer->data);
	memset(transfer, 0, sizeof *transfer);
}

/* --- server --------------------------------------------------------------------------------- */

static struct peer_transfer *
open_transfer(struct peer *server, uint64_t token, const struct hd_msg_request *request) {
	struct peer_transfer *transfer = find_transfer(server, 0);

	if (!transfer)
		abort();
	transfer->token = token;
	transfer->request = *request;
	transfer->data = malloc(request->bytes);
	return transfer;
}

void peer_expect(struct peer *server, uint64_t token, const struct hd_msg_request *request) {
	struct peer_transfer *transfer = open_transfer(server, token, request);
	struct hd_recv_config config = {
		.token = token,
		.job = request->job,
		.round = request->round,
		.worker = request->worker,
		.attempt = request->attempt,
		.dtype = request->dtype,
		.bytes = request->bytes,
		.data = transfer->data,
	};

	if (hd_recv_create(&config, &transfer->recv) < 0)
		abort();
}

void peer_serve(struct peer *server, uint64_t token, const struct hd_msg_request *request) {
	struct peer_transfer *transfer = open_transfer(server, token, request);
	struct hd_message state = {.kind = HD_MSG_PULL_STATE};
	const hd_ns now = hd_sim_node_now(server->sim, server->node);
	struct hd_send_config config = {
		.peer = hd_session_peer(server->session),
		.header
		= {.attempt = request->attempt,
		   .job = request->job,
		   .worker = request->worker,
		   .round = request->round,
		   .version = server->version,
		   .token = token},
		.data = transfer->data,
		.bytes = request->bytes,
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1.0f,
		.path = &server->path,
		.keys = &keys,
		.key_id = 1,
	};

	if (server->granted_bps > 0)
		config.segments = (struct hd_segs){1, {{now, server->granted_bps, request->bytes}}};
	state.pull_state.job = request->job;
	state.pull_state.worker = request->worker;
	state.pull_state.round = request->round;
	state.pull_state.attempt = request->attempt;
	state.pull_state.token = token;
	state.pull_state.version = server->version;
	state.pull_state.bytes = request->bytes;
	if (request->conditional && request->have == server->version) {
		state.pull_state.reason = HD_REASON_NOT_MODIFIED;
		forget(transfer);
	} else {
		memcpy(transfer->data, server->model, request->bytes);
		if (hd_send_create(&config, now, &transfer->send) < 0)
			abort();
	}
	peer_send(server, &state);
}

void peer_outcome(struct peer *server, uint32_t round, enum hd_outcome outcome, uint8_t reason) {
	struct hd_message message = {.kind = HD_MSG_OUTCOME};
	const struct hd_message *join = peer_last(server, HD_MSG_JOIN);

	message.outcome.job = join->join.job;
	message.outcome.worker = join->join.worker;
	message.outcome.round = round;
	message.outcome.outcome = (uint8_t)outcome;
	message.outcome.reason = reason;
	message.outcome.version = server->applied_version[round];
	message.outcome.delay = 1;
	message.outcome.durable = server->durable;
	peer_send(server, &message);
}

static void apply(struct peer *server, struct peer_transfer *transfer) {
	uint32_t round = transfer->request.round;

	hd_add_f32(server->model, transfer->data, (size_t)transfer->request.bytes / sizeof(float));
	server->version++;
	server->applied[round]++;
	server->applied_version[round] = server->version;
	if (round > server->last_round)
		server->last_round = round;
	if (!server->no_outcome)
		peer_outcome(server, round, HD_OUTCOME_APPLIED, HD_REASON_NONE);
}

static void server_request(struct peer *server, const struct hd_msg_request *request) {
	uint64_t token = ++server->next_token;

	if (request->direction == HD_PULL) {
		peer_serve(server, token, request);
	} else if (server->applied[request->round]) {
		peer_outcome(server, request->round, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	} else {
		peer_expect(server, token, request);
		peer_grant(server, request, token);
	}
}

static void send_rank_held(struct peer *peer) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_RANK_HELD;
	strncpy(message.refuse.text, "rank 3 is alive", 20);
	peer_send(peer, &message);
}

static void server_join(struct peer *server, const struct hd_msg_join *join) {
	struct hd_message message = {.kind = HD_MSG_JOINED};

	if (server->refuses) {
		message.kind = HD_MSG_REFUSE;
		message.refuse = (struct hd_msg_refuse){.reason = HD_REASON_REFUSED};
		strncpy(message.refuse.text, "tensor 0 differs", 20);
	} else {
		message.joined.job = join->job;
		message.joined.version = server->version;
		message.joined.durable = server->durable;
		message.joined.last_round = server->last_round;
		message.joined.tau_max = 7;
	}
	peer_send(server, &message);
}

static void send_sack(struct peer *server, struct peer_transfer *transfer, hd_ns now) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	hd_recv_sack(transfer->recv, now, 1 << 20, &message.sack);
	if (server->session)
		(void)hd_session_send_once(
			server->session, &message, now, hd_sim_node_sink(server->sim, server->node)
		);
}

static void server_chunk(struct peer *server, hd_ns now, const struct hd_packet *packet) {
	struct hd_chunk_header header;
	struct peer_transfer *transfer;
	const uint8_t *payload;
	size_t bytes;
	uint32_t round;

	if (server->deaf
	    || hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &bytes) < 0)
		return;
	server->chunk = header;
	transfer = find_transfer(server, header.token);
	if (!transfer || !transfer->recv || header.token == 0)
		return;
	if (hd_recv_chunk(transfer->recv, now, &header, payload, bytes) != HD_RECV_DONE)
		return;
	send_sack(server, transfer, now);
	round = transfer->request.round;
	if (!server->applied[round] && !server->silent && server->role == HD_ROLE_SERVER)
		apply(server, transfer);
}

/* --- controller ------------------------------------------------------------------------------ */

static void controller_register(struct peer *peer, const struct hd_msg_register_ *body) {
	struct hd_message message = {.kind = HD_MSG_REGISTERED};
	message.registered.epoch = (uint16_t)peer->process;
	message.registered.job = body->job;
	message.registered.lease_us = HD_DETECTION_US;
	message.registered.server_ipv4 = peer->server_addr.ipv4;
	message.registered.server_port = peer->server_addr.port;
	message.registered.scheduled = !peer->unscheduled;
	message.registered.reduce_round = peer->newest_reduce;
	peer_send(peer, &message);
}

void peer_grant(struct peer *peer, const struct hd_msg_request *request, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_msg_grant *grant = &message.grant;

	grant->job = request->job;
	grant->worker = request->worker;
	grant->round = request->round;
	grant->direction = request->direction;
	grant->attempt = request->attempt;
	grant->token = token;
	grant->position = peer->role == HD_ROLE_CONTROLLER ? token : 0;
	grant->weight = peer->weight;
	grant->cc_weight = 1.0f;
	grant->after = peer->after;
	grant->bytes = request->bytes;
	grant->exponent = (uint16_t)peer->exponent;
	grant->peer_ipv4 = peer->via_addr.ipv4;
	grant->peer_port = peer->via_addr.port;
	if (peer->after) {
		grant->segments.count = 1;
		grant->segments.item[0] = (struct hd_segment){HD_SECOND, 100000000, request->bytes};
		grant->origin_ns = hd_sim_node_now(peer->sim, peer->node);
	}
	peer_send(peer, &message);
}

static void controller_request(struct peer *peer, const struct hd_msg_request *request) {
	struct hd_message message = {.kind = HD_MSG_DROP};
	uint64_t token = 1000 + ++peer->next_token;

	if (peer->drop_reason) {
		message.drop.job = request->job;
		message.drop.worker = request->worker;
		message.drop.round = request->round;
		message.drop.direction = request->direction;
		message.drop.attempt = request->attempt;
		message.drop.reason = peer->drop_reason;
		peer_send(peer, &message);
	} else if (request->direction == HD_PULL) {
		message.kind = HD_MSG_EXPECT;
		memset(&message.expect, 0, sizeof message.expect);
		message.expect.job = request->job;
		message.expect.worker = request->worker;
		message.expect.round = request->round;
		message.expect.direction = HD_PULL;
		message.expect.attempt = request->attempt;
		message.expect.token = token;
		message.expect.bytes = request->bytes;
		message.expect.peer_ipv4 = peer->via_addr.ipv4;
		message.expect.peer_port = peer->via_addr.port;
		peer_send(peer, &message);
		if (hd_addr_is_none(peer->via_addr) && peer->server && peer->server->session)
			peer_serve(peer->server, token, request);
	} else {
		if (peer->via)
			peer_expect(peer->via, token, request);
		else if (peer->server && hd_addr_is_none(peer->via_addr))
			peer_expect(peer->server, token, request);
		peer_grant(peer, request, token);
	}
}

/* --- both ------------------------------------------------------------------------------------ */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct peer *peer = owner;

	peer->session = session;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct peer *peer = owner;

	if (peer->session == session)
		peer->session = NULL;
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct peer *peer = owner;
	struct peer_transfer *transfer;

	if (message->kind == HD_MSG_SACK) {
		transfer = find_transfer(peer, message->sack.token);
		if (transfer && transfer->send)
			hd_send_sack(transfer->send, now, &message->sack);
		return;
	}
	if (message->kind == HD_MSG_STATS
	    && hd_dataplane_decode(
		       &peer->counted, message->stats.values.data, message->stats.values.bytes
	       ) < 0)
		abort();
	if (peer->seen_count < PEER_MESSAGES_MAX)
		peer->seen[peer->seen_count++] = peer_kept(message);
	if ((message->kind == HD_MSG_JOIN || message->kind == HD_MSG_REGISTER) && peer->rank_held)
		send_rank_held(peer);
	else if (message->kind == HD_MSG_JOIN && peer->role == HD_ROLE_SERVER && !peer->answers_no_join)
		server_join(peer, &message->join);
	else if (message->kind == HD_MSG_REGISTER)
		controller_register(peer, &message->register_);
	else if (message->kind == HD_MSG_REQUEST && !peer->silent) {
		if (peer->role == HD_ROLE_SERVER)
			server_request(peer, &message->request);
		else
			controller_request(peer, &message->request);
	}
}

static const struct hd_endpoint_ops endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

/* --- forging ----------------------------------------------------------------------------------- */

struct forging {
	struct hd_sink sink; /* first */
	struct hd_sink *real;
	struct peer *peer;
};

static void forging_send(
	struct hd_sink *sink,
	struct hd_addr to,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	static const uint8_t wrong[HD_CHUNK_BYTES_MAX] = {1, 2, 3};
	const struct forging *forging = (const struct forging *)sink;
	struct hd_sink *forger = hd_sim_node_sink(forging->peer->sim, *forging->peer->forger);

	forger->send(forger, to, head, head_bytes, wrong, payload_bytes);
	forging->peer->forgeries++;
	forging->real->send(forging->real, to, head, head_bytes, payload, payload_bytes);
}

static void send_some(struct peer *peer, struct hd_send *send, hd_ns now, struct hd_sink *sink) {
	struct forging forging = {{.send = forging_send}, sink, peer};

	hd_send_poll(send, now, 64, peer->forger ? &forging.sink : sink);
}

static void pump(struct peer *peer, hd_ns now, struct hd_sink *sink) {
	for (uint32_t i = 0; i < PEER_TRANSFERS_MAX; i++) {
		struct peer_transfer *transfer = &peer->transfers[i];

		if (transfer->recv && hd_recv_sack_due(transfer->recv, now))
			send_sack(peer, transfer, now);
		if (transfer->send)
			send_some(peer, transfer->send, now, sink);
	}
}

static void peer_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct peer *peer = core;
	uint8_t version;

	for (size_t i = 0; i < count; i++) {
		int type = hd_packet_classify(packets[i].data, packets[i].bytes, &version);

		if (type == HD_PACKET_CHUNK || type == HD_PACKET_SEALED)
			server_chunk(peer, now, &packets[i]);
		else
			hd_endpoint_receive(peer->endpoint, now, &packets[i], sink);
	}
	pump(peer, now, sink);
}

static void peer_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct peer *peer = core;

	hd_endpoint_tick(peer->endpoint, now, sink);
	pump(peer, now, sink);
}

static hd_ns peer_deadline(const void *core) {
	const struct peer *peer = core;
	hd_ns deadline = hd_endpoint_deadline(peer->endpoint);

	for (uint32_t i = 0; i < PEER_TRANSFERS_MAX; i++) {
		const struct peer_transfer *transfer = &peer->transfers[i];

		if (transfer->recv)
			deadline = hd_ns_min(deadline, hd_recv_deadline(transfer->recv));
		if (transfer->send)
			deadline = hd_ns_min(deadline, hd_send_deadline(transfer->send));
	}
	return deadline;
}

static const struct hd_core_ops peer_ops = {peer_receive, peer_tick, peer_deadline};

void peer_init(struct peer *peer, struct hd_sim *sim, uint8_t role, uint64_t values) {
	struct hd_sim_link link
		= {.rate_bps = 1000000000, .queue_bytes = 1 << 20, .latency = 50000};
	struct hd_sim_node_config config
		= {.clock = {.offset_ns = role == HD_ROLE_SERVER ? 0 : 77}};

	memset(peer, 0, sizeof *peer);
	peer->sim = sim;
	peer->role = role;
	peer->values = values;
	peer->weight = 1.0f;
	peer->version = hd_version_make(1, 0);
	peer->model = calloc(values, sizeof(float));
	peer->host = hd_sim_host(sim, &link);
	config.host = peer->host;
	peer->node = hd_sim_node(sim, &config);
}

void peer_start(struct peer *peer) {
	struct hd_endpoint_config config = {
		.name = hd_role_name(peer->role),
		.role = peer->role,
		.key_id = 1,
		.keys = &keys,
		.accepts = true,
		.ops = &endpoint_ops,
		.owner = peer,
	};

	config.seed[0] = (uint8_t)++peer->process;
	config.seed[1] = peer->role;
	if (hd_endpoint_create(&config, &peer->endpoint) < 0)
		abort();
	peer->session = NULL;
	hd_path_init(&peer->path, 1500);
	hd_sim_node_start(peer->sim, peer->node, (struct hd_node){&peer_ops, peer});
}

void peer_stop(struct peer *peer) {
	if (!peer->endpoint)
		return;
	hd_sim_node_stop(peer->sim, peer->node);
	for (uint32_t i = 0; i < PEER_TRANSFERS_MAX; i++)
		forget(&peer->transfers[i]);
	hd_endpoint_destroy(peer->endpoint);
	peer->endpoint = NULL;
	peer->session = NULL;
}

void peer_fini(struct peer *peer) {
	peer_stop(peer);
	peer_forget(peer);
}
