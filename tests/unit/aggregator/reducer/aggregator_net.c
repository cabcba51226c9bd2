/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregator_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- an end ---------------------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct end *end = owner;

	end->session = session;
	end->open = true;
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message answer = {.kind = HD_MSG_REGISTERED};
	struct end *end = owner;

	for (size_t i = 0; message->kind == HD_MSG_SACK && i < end->send_count; i++)
		if (hd_send_token(end->sends[i]) == message->sack.token)
			hd_send_sack(end->sends[i], now, &message->sack);
	if (message->kind == HD_MSG_SACK)
		return;
	if (message->kind == HD_MSG_REGISTER) {
		answer.registered.epoch = 3;
		assert_int_equal(hd_session_send(session, &answer, now, sink), 0);
	}
	assert_true(end->inbox_count < END_INBOX_MAX);
	end->inbox[end->inbox_count++] = *message;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	((struct end *)owner)->open = false;
}

static const struct hd_endpoint_ops end_endpoint_ops
	= {.opened = on_opened, .message = on_message, .closed = on_closed};

static void on_chunk(struct end *end, hd_ns now, const struct hd_packet *packet) {
	struct hd_chunk_header header;
	struct end_recv *to;
	const uint8_t *payload;
	size_t bytes;

	assert_int_equal(
		hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &bytes), 0
	);
	to = end_received(end, header.token);
	if (!to)
		return;
	if (!to->recv) {
		struct hd_recv_config config = {
			.token = header.token,
			.job = header.job,
			.round = header.round,
			.worker = header.worker,
			.attempt = header.attempt,
			.dtype = header.dtype,
			.bytes = to->bytes,
			.data = to->data,
			.open = header.dtype == HD_DTYPE_SPARSE32,
		};

		assert_int_equal(hd_recv_create(&config, &to->recv), 0);
		to->version = header.version;
		to->worker = header.worker;
	}
	to->mixed |= header.version != to->version;
	to->flags |= header.flags;
	if (hd_recv_chunk(to->recv, now, &header, payload, bytes) == HD_RECV_DONE)
		to->done = true;
}

static void act(struct end *end, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	for (size_t i = 0; i < end->recv_count; i++) {
		if (!end->recvs[i].recv || !end->open || !hd_recv_sack_due(end->recvs[i].recv, now))
			continue;
		hd_recv_sack(end->recvs[i].recv, now, 1 << 20, &message.sack);
		(void)hd_session_send_once(end->session, &message, now, sink);
	}
	for (size_t i = 0; i < end->send_count; i++)
		while (hd_send_poll(end->sends[i], now, 64, sink) == 64) {}
}

static void end_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct end *end = core;
	uint8_t version;

	for (size_t i = 0; i < count; i++) {
		int type = hd_packet_classify(packets[i].data, packets[i].bytes, &version);

		if (type == HD_PACKET_CHUNK || type == HD_PACKET_SEALED)
			on_chunk(end, now, &packets[i]);
		else
			hd_endpoint_receive(end->endpoint, now, &packets[i], sink);
	}
	act(end, now, sink);
}

static void end_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct end *end = core;

	hd_endpoint_tick(end->endpoint, now, sink);
	act(end, now, sink);
}

static hd_ns end_deadline(const void *core) {
	const struct end *end = core;
	hd_ns next = hd_endpoint_deadline(end->endpoint);

	for (size_t i = 0; i < end->send_count; i++)
		next = hd_ns_min(next, hd_send_deadline(end->sends[i]));
	for (size_t i = 0; end->open && i < end->recv_count; i++)
		if (end->recvs[i].recv)
			next = hd_ns_min(next, hd_recv_deadline(end->recvs[i].recv));
	return next;
}

static const struct hd_core_ops end_ops
	= {.receive = end_receive, .tick = end_tick, .deadline = end_deadline};

struct end *end_open(struct world *world, uint8_t role, uint32_t ipv4) {
	static uint8_t seeds = 1;
	struct end *end = calloc(1, sizeof *end);
	struct hd_endpoint_config config = {
		.name = hd_role_name(role),
		.role = role,
		.key_id = 7,
		.keys = &world->net.keys,
		.accepts = role != HD_ROLE_WORKER && role != HD_ROLE_SHELL,
		.ops = &end_endpoint_ops,
		.owner = end,
	};

	memset(config.seed, seeds++, sizeof config.seed);
	config.seed[0] = role;
	end->role = role;
	end->inbox = calloc(END_INBOX_MAX, sizeof *end->inbox);
	hd_path_init(&end->path, 1506);
	assert_int_equal(hd_endpoint_create(&config, &end->endpoint), 0);
	end->node.node = (struct hd_node){&end_ops, end};
	net_add(&world->net, &end->node, ipv4);
	return end;
}

static bool is_open(void *what) {
	return ((struct end *)what)->open;
}

void end_connect(struct world *world, struct end *end) {
	struct hd_addr to = {AGGREGATOR_IP, HD_PORT};

	assert_int_equal(hd_endpoint_connect(end->endpoint, to, world->net.now, &end->session), 0);
	net_run_until(&world->net, is_open, end, HD_SECOND);
}

void end_join(struct world *world, struct end *end, uint32_t job, uint16_t rank) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	end->job = job;
	end->rank = rank;
	message.join.job = job;
	message.join.worker = rank;
	end_send_message(end, &message);
	world_run(world, HD_MS);
}

void end_kill(struct world *world, struct end *end) {
	net_remove(&world->net, &end->node);
	for (size_t i = 0; i < end->send_count; i++)
		hd_send_destroy(end->sends[i]);
	for (size_t i = 0; i < end->recv_count; i++) {
		hd_recv_destroy(end->recvs[i].recv);
		free(end->recvs[i].data);
	}
	hd_endpoint_destroy(end->endpoint);
	free(end->inbox);
	free(end);
}

void end_send_message(struct end *end, const struct hd_message *message) {
	assert_int_equal(
		hd_session_send(end->session, message, end->node.net->now, &end->node.sink), 0
	);
}

size_t end_heard(const struct end *end, uint8_t kind) {
	size_t count = 0;

	for (size_t i = 0; i < end->inbox_count; i++)
		count += end->inbox[i].kind == kind;
	return count;
}

const struct hd_message *end_message(const struct end *end, uint8_t kind, size_t index) {
	for (size_t i = 0; i < end->inbox_count; i++)
		if (end->inbox[i].kind == kind && index-- == 0)
			return &end->inbox[i];
	fail_msg("%s was not said", hd_message_name(kind));
	return NULL;
}

const struct hd_msg_report *end_report(const struct end *end, uint64_t token) {
	for (size_t i = end->inbox_count; i-- > 0;)
		if (end->inbox[i].kind == HD_MSG_REPORT && end->inbox[i].report.token == token)
			return &end->inbox[i].report;
	return NULL;
}

size_t end_voids(const struct end *end, uint64_t token) {
	size_t count = 0;

	for (size_t i = 0; i < end->inbox_count; i++)
		count += end->inbox[i].kind == HD_MSG_VOID && end->inbox[i].void_.token == token;
	return count;
}

struct end_recv *end_expect(struct end *end, uint64_t token, uint64_t bytes) {
	struct end_recv *to = &end->recvs[end->recv_count++];

	assert_true(end->recv_count <= END_TRANSFERS_MAX);
	*to = (struct end_recv){.token = token, .bytes = bytes, .data = calloc(1, bytes)};
	return to;
}

struct end_recv *end_received(struct end *end, uint64_t token) {
	for (size_t i = 0; i < end->recv_count; i++)
		if (end->recvs[i].token == token)
			return &end->recvs[i];
	return NULL;
}

struct hd_send *
end_send(struct end *end, const struct hd_chunk_header *header, const void *data, uint64_t bytes) {
	struct hd_send_config config = {
		.peer = {AGGREGATOR_IP, HD_PORT},
		.header = *header,
		.data = data,
		.bytes = bytes,
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1,
		.path = &end->path,
		.keys = &end->node.net->keys,
		.key_id = 7,
	};

	assert_true(end->send_count < END_TRANSFERS_MAX);
	assert_int_equal(
		hd_send_create(&config, end->node.net->now, &end->sends[end->send_count]), 0
	);
	return end->sends[end->send_count++];
}

/* --- the world ------------------------------------------------------------------------------- */

static bool is_registered(void *what) {
	return end_heard(((struct world *)what)->controller, HD_MSG_REGISTER) > 0;
}

struct world *world_open(uint32_t workers, const struct hd_aggregator_config *config) {
	struct world *world = calloc(1, sizeof *world);

	net_open(&world->net);
	if (config)
		world->config = *config;
	world->config.name = world->config.host = "agg";
	world->config.keys = &world->net.keys;
	world->config.key_id = 7;
	world->config.controller = (struct hd_addr){CONTROLLER_IP, HD_PORT};
	world->config.data = (struct hd_addr){AGGREGATOR_IP, HD_PORT};
	memset(world->config.seed, 0xee, sizeof world->config.seed);
	assert_int_equal(hd_aggregator_create(&world->config, &world->aggregator), 0);
	world->node = (struct net_node){.node = {&hd_aggregator_ops, world->aggregator}};
	net_add(&world->net, &world->node, AGGREGATOR_IP);
	net_watch(&world->net, &world->node);
	world->controller = end_open(world, HD_ROLE_CONTROLLER, CONTROLLER_IP);
	world->server = end_open(world, HD_ROLE_SERVER, SERVER_IP);
	world->replica = end_open(world, HD_ROLE_REPLICA, REPLICA_IP);
	net_run_until(&world->net, is_registered, world, HD_SECOND);
	for (; world->workers < workers; world->workers++) {
		struct end *end = end_open(world, HD_ROLE_WORKER, WORKER_IP + world->workers);

		world->worker[world->workers] = end;
		end_connect(world, end);
		end_join(world, end, JOB, (uint16_t)world->workers);
	}
	world_run(world, 10 * HD_MS);
	return world;
}

void world_close(struct world *world) {
	struct end *ends[] = {world->controller, world->server, world->replica};

	for (size_t i = 0; i < 3; i++)
		if (ends[i])
			end_kill(world, ends[i]);
	for (size_t i = 0; i < world->workers; i++)
		if (world->worker[i])
			end_kill(world, world->worker[i]);
	hd_aggregator_destroy(world->aggregator);
	net_close(&world->net);
	free(world);
}

void world_run(struct world *world, hd_ns span) {
	net_run(&world->net, span);
}

const struct hd_aggregator_stats *world_stats(const struct world *world) {
	return hd_aggregator_stats(world->aggregator);
}

/* --- groups ---------------------------------------------------------------------------------- */

void plan_make(struct plan *plan, uint64_t group, uint32_t inputs, uint64_t bytes) {
	memset(plan, 0, sizeof *plan);
	plan->message.job = JOB;
	plan->message.group = group;
	plan->message.epoch = 3;
	plan->message.bytes = bytes;
	plan->message.order = HD_GROUP_RANKED;
	plan->input_count = inputs;
	for (uint32_t i = 0; i < inputs; i++)
		plan->inputs[i] = (struct hd_group_input){
			.token = 0x100 * group + i,
			.worker = (uint16_t)i,
			.round = 5 + i,
			.attempt = 1,
		};
}

void plan_to(struct plan *plan, const struct end *end, uint64_t token) {
	plan->outputs[plan->output_count++] = (struct hd_group_output){
		.token = token,
		.role = end->role,
		.worker = end->role == HD_ROLE_WORKER ? end->rank : HD_GROUP_WORKER,
		.round = 9,
		.attempt = 1,
		.ipv4 = end->node.addr.ipv4,
		.port = HD_PORT,
		.cc_weight = 1,
	};
}

void plan_send(struct world *world, const struct plan *plan) {
	static uint8_t inputs[HD_GROUP_BLOB_BYTES_MAX], outputs[HD_GROUP_BLOB_BYTES_MAX];
	struct hd_message message = {.kind = HD_MSG_GROUP, .group = plan->message};
	int bytes = hd_group_put_inputs(plan->inputs, plan->input_count, inputs, sizeof inputs);

	assert_true(bytes > 0);
	message.group.inputs = (struct hd_blob){inputs, (uint32_t)bytes};
	bytes = hd_group_put_outputs(plan->outputs, plan->output_count, outputs, sizeof outputs);
	assert_true(bytes > 0);
	message.group.outputs = (struct hd_blob){outputs, (uint32_t)bytes};
	end_send_message(world->controller, &message);
	world_run(world, HD_MS);
}

struct hd_send *
plan_push(struct world *world, const struct plan *plan, uint32_t input, const void *data) {
	const struct hd_group_input *in = &plan->inputs[input];
	struct hd_chunk_header header = {
		.job = plan->message.job,
		.worker = in->worker,
		.round = in->round,
		.attempt = in->attempt,
		.dtype = plan->message.dtype,
		.exponent = (int16_t)plan->message.exponent,
		.token = in->token,
	};

	return end_send(
		world->worker[in->worker],
		&header,
		data,
		in->bytes > 0 ? in->bytes : plan->message.bytes
	);
}
