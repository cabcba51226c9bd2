/* SPDX-License-Identifier: BSD-3-Clause */
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fake_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct fake *fake = owner;

	fake->session = session;
	fake->open = true;
}

static void fake_send_serve(
	struct fake *fake,
	struct hd_session *session,
	uint32_t job,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REPLICA, .replica = {.job = job}};

	message.replica.epoch = fake->epoch;
	message.replica.order = HD_REPLICA_SERVE;
	assert_int_equal(hd_session_send(session, &message, now, sink), 0);
}

static void fake_answer_register(
	struct fake *fake,
	struct hd_session *session,
	const struct hd_msg_register_ *message,
	hd_ns now,
	struct hd_sink *sink
) {
	const struct hd_message answer
		= {.kind = HD_MSG_REGISTERED, .registered = {.epoch = fake->epoch, .scheduled = 1}};

	if (fake->serves_first)
		fake_send_serve(fake, session, hd_job_id("t", "job"), now, sink);
	assert_int_equal(hd_session_send(session, &answer, now, sink), 0);
	if (!fake->silent && message->role == HD_ROLE_SERVER)
		fake_send_serve(fake, session, hd_job_id("t", "job"), now, sink);
}

static void fake_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct fake *fake = owner;

	if (message->kind == HD_MSG_SACK) {
		for (size_t i = 0; i < FAKE_SENDS_MAX; i++)
			if (fake->sends[i] && hd_send_token(fake->sends[i]) == message->sack.token)
				hd_send_sack(fake->sends[i], now, &message->sack);
		fake->sacks++;
		return;
	}
	if (message->kind == HD_MSG_REFUSE)
		hd_text_copy(fake->refused, sizeof fake->refused, message->refuse.text);
	if (message->kind == HD_MSG_REGISTER)
		fake_answer_register(fake, session, &message->register_, now, sink);
	if (message->kind == HD_MSG_STATE && message->state.generation == 0 && !fake->silent)
		fake_send_serve(fake, session, message->state.job, now, sink);
	assert_true(fake->inbox_count < FAKE_INBOX_MAX);
	fake->inbox[fake->inbox_count++] = *message;
}

static void fake_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct fake *fake = owner;

	fake->open = false;
	fake->closed++;
}

static const struct hd_endpoint_ops fake_endpoint_ops
	= {.opened = fake_opened, .message = fake_message, .closed = fake_closed};

/* Takes chunks of the version that PULL_STATE named; notes when another one slips in. */
static void fake_chunk(struct fake *fake, hd_ns now, const struct hd_packet *packet) {
	struct hd_chunk_header header;
	const struct hd_message *state = NULL;
	const uint8_t *payload;
	size_t bytes;

	assert_int_equal(
		hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &bytes), 0
	);
	for (size_t i = 0; i < fake->inbox_count; i++)
		if (fake->inbox[i].kind == HD_MSG_PULL_STATE
		    && fake->inbox[i].pull_state.token == header.token)
			state = &fake->inbox[i];
	if (!state || header.round != fake->recv_round)
		return;
	fake->mixed = fake->mixed || header.version != state->pull_state.version;
	if (!fake->recv) {
		struct hd_recv_config config = {
			.token = header.token,
			.job = header.job,
			.round = header.round,
			.worker = fake->rank,
			.attempt = header.attempt,
			.bytes = fake->pulled_values * sizeof(float),
			.data = fake->pulled,
		};

		assert_int_equal(hd_recv_create(&config, &fake->recv), 0);
		fake->recv_token = header.token;
		fake->pulled_version = header.version;
	}
	if (header.token == fake->recv_token
	    && hd_recv_chunk(fake->recv, now, &header, payload, bytes) == HD_RECV_DONE)
		fake->pulled_done = true;
}

static void fake_sack(struct fake *fake, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!fake->recv || !fake->open || !hd_recv_sack_due(fake->recv, now))
		return;
	hd_recv_sack(fake->recv, now, 1 << 20, &message.sack);
	hd_session_send_once(fake->session, &message, now, sink);
}

static void fake_poll(struct fake *fake, hd_ns now, struct hd_sink *sink) {
	for (size_t i = 0; i < FAKE_SENDS_MAX; i++) {
		if (fake->sends[i]) {
			while (hd_send_poll(fake->sends[i], now, 64, sink) == 64) {}
		}
	}
}

static void fake_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct fake *fake = core;
	uint8_t version;

	for (size_t i = 0; i < count; i++) {
		int type = hd_packet_classify(packets[i].data, packets[i].bytes, &version);

		if (type == HD_PACKET_CHUNK || type == HD_PACKET_SEALED)
			fake_chunk(fake, now, &packets[i]);
		else
			hd_endpoint_receive(fake->endpoint, now, &packets[i], sink);
	}
	fake_sack(fake, now, sink);
	fake_poll(fake, now, sink);
}

static void fake_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct fake *fake = core;

	hd_endpoint_tick(fake->endpoint, now, sink);
	fake_sack(fake, now, sink);
	fake_poll(fake, now, sink);
}

static hd_ns fake_deadline(const void *core) {
	const struct fake *fake = core;
	hd_ns next = hd_endpoint_deadline(fake->endpoint);

	for (size_t i = 0; i < FAKE_SENDS_MAX; i++)
		if (fake->sends[i])
			next = hd_ns_min(next, hd_send_deadline(fake->sends[i]));
	return fake->recv ? hd_ns_min(next, hd_recv_deadline(fake->recv)) : next;
}

static const struct hd_core_ops fake_ops
	= {.receive = fake_receive, .tick = fake_tick, .deadline = fake_deadline};

static bool fake_is_open(void *what) {
	return ((struct fake *)what)->open;
}

static struct fake *fake_make(struct net *net, uint8_t role, uint32_t ipv4) {
	static uint8_t seeds = 100; /* every fake of the program has its own boot id */
	struct fake *fake = calloc(1, sizeof *fake);
	struct hd_endpoint_config config = {
		.name = hd_role_name(role),
		.role = role,
		.key_id = 7,
		.keys = &net->keys,
		.accepts = role == HD_ROLE_CONTROLLER,
		.ops = &fake_endpoint_ops,
		.owner = fake,
	};

	memset(config.seed, seeds++, sizeof config.seed);
	config.seed[0] = role;
	fake->role = role;
	fake->inbox = calloc(FAKE_INBOX_MAX, sizeof *fake->inbox);
	hd_path_init(&fake->path, 1500);
	assert_int_equal(hd_endpoint_create(&config, &fake->endpoint), 0);
	fake->node.node = (struct hd_node){&fake_ops, fake};
	net_add(net, &fake->node, ipv4);
	return fake;
}

struct fake *fake_worker_at(struct net *net, uint16_t rank, uint32_t ipv4, struct hd_addr server) {
	struct fake *fake = fake_make(net, HD_ROLE_WORKER, ipv4);

	fake->rank = rank;
	fake->server = server;
	assert_int_equal(hd_endpoint_connect(fake->endpoint, server, net->now, &fake->session), 0);
	net_run_until(net, fake_is_open, fake, HD_SECOND);
	return fake;
}

struct fake *fake_worker(struct net *net, uint16_t rank) {
	return fake_worker_at(net, rank, 0x0a000100U + rank, (struct hd_addr){SERVER_IP, HD_PORT});
}

struct fake *fake_controller_at(struct net *net, uint16_t epoch, uint32_t ipv4) {
	struct fake *fake = fake_make(net, HD_ROLE_CONTROLLER, ipv4);

	fake->epoch = epoch;
	return fake;
}

struct fake *fake_controller(struct net *net, uint16_t epoch) {
	return fake_controller_at(net, epoch, 0x0a000002);
}

struct fake *fake_node_at(struct net *net, uint8_t role, uint32_t ipv4, struct hd_addr server) {
	struct fake *fake = fake_make(net, role, ipv4);

	fake->rank = HD_GROUP_WORKER;
	fake->server = server;
	assert_int_equal(hd_endpoint_connect(fake->endpoint, server, net->now, &fake->session), 0);
	net_run_until(net, fake_is_open, fake, HD_SECOND);
	return fake;
}

struct hd_addr fake_address(const struct fake *fake) {
	return fake->node.addr;
}

void fake_kill(struct fake *fake) {
	net_remove(fake->node.net, &fake->node);
	fake_close(fake);
}

void fake_close(struct fake *fake) {
	net_remove(fake->node.net, &fake->node);
	for (size_t i = 0; i < FAKE_SENDS_MAX; i++)
		hd_send_destroy(fake->sends[i]);
	hd_recv_destroy(fake->recv);
	hd_endpoint_destroy(fake->endpoint);
	free(fake->inbox);
	free(fake);
}

void fake_send(struct fake *fake, const struct hd_message *message) {
	assert_int_equal(
		hd_session_send(fake->session, message, fake->node.net->now, &fake->node.sink), 0
	);
}

size_t fake_count(const struct fake *fake, uint8_t kind) {
	size_t count = 0;

	for (size_t i = 0; i < fake->inbox_count; i++)
		count += fake->inbox[i].kind == kind ? 1 : 0;
	return count;
}

struct fake_awaited {
	struct fake *fake;
	uint8_t kind;
	size_t index;
	uint32_t round; /* of an outcome; 0: by index */
	const struct hd_message *found;
};

static bool fake_has(void *what) {
	struct fake_awaited *awaited = what;
	size_t index = awaited->index;

	for (size_t i = 0; i < awaited->fake->inbox_count; i++) {
		const struct hd_message *message = &awaited->fake->inbox[i];

		if (message->kind != awaited->kind
		    || (awaited->round != 0 && message->outcome.round != awaited->round))
			continue;
		if (index-- == 0) {
			awaited->found = message;
			return true;
		}
	}
	return false;
}

const struct hd_message *fake_wait(struct fake *fake, uint8_t kind, size_t index) {
	struct fake_awaited awaited = {.fake = fake, .kind = kind, .index = index};

	net_run_until(fake->node.net, fake_has, &awaited, 5 * HD_SECOND);
	return awaited.found;
}

const struct hd_msg_outcome *fake_outcome(struct fake *fake, uint32_t round) {
	struct fake_awaited awaited = {.fake = fake, .kind = HD_MSG_OUTCOME, .round = round};

	net_run_until(fake->node.net, fake_has, &awaited, 5 * HD_SECOND);
	return &awaited.found->outcome;
}

void fake_join(struct fake *fake, const struct hd_jobspec *spec) {
	static uint8_t data[HD_MESSAGE_BYTES_MAX];
	struct hd_message message = {.kind = HD_MSG_JOIN};
	int bytes = hd_jobspec_encode(spec, data, sizeof data);

	assert_true(bytes > 0);
	fake->job = hd_job_id(spec->tenant, spec->name);
	message.join.job = fake->job;
	message.join.worker = fake->rank;
	hd_text_copy(message.join.host, sizeof message.join.host, "h1");
	message.join.spec = (struct hd_blob){data, (uint32_t)bytes};
	fake_send(fake, &message);
}

const struct hd_msg_joined *fake_joined(struct fake *fake, const struct hd_jobspec *spec) {
	size_t before = fake_count(fake, HD_MSG_JOINED);

	fake_join(fake, spec);
	return &fake_wait(fake, HD_MSG_JOINED, before)->joined;
}

void fake_request_push(
	struct fake *fake,
	uint32_t round,
	uint8_t attempt,
	hd_version base,
	uint64_t bytes
) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};

	message.request = (struct hd_msg_request){
		.job = fake->job,
		.worker = fake->rank,
		.round = round,
		.attempt = attempt,
		.direction = HD_PUSH,
		.dtype = fake->dtype,
		.bytes = bytes,
		.base = base,
		.peak = fake->peak,
	};
	fake_send(fake, &message);
}

void fake_request_pull(struct fake *fake, uint32_t round, hd_version have, bool conditional) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};

	message.request = (struct hd_msg_request){
		.job = fake->job,
		.worker = fake->rank,
		.round = round,
		.attempt = 1,
		.direction = HD_PULL,
		.dtype = fake->pull_dtype,
		.have = have,
		.conditional = conditional,
	};
	fake_send(fake, &message);
}

struct hd_send *fake_push(
	struct fake *fake,
	uint64_t token,
	uint32_t round,
	uint8_t attempt,
	const void *data,
	uint64_t values
) {
	struct net *net = fake->node.net;
	struct hd_send_config config = {
		.peer = fake->server,
		.header
		= {.job = fake->job,
		   .worker = fake->rank,
		   .round = round,
		   .attempt = attempt,
		   .dtype = fake->dtype,
		   .version = fake->base,
		   .total = fake->total,
		   .flags = fake->flags,
		   .exponent = fake->exponent,
		   .token = token},
		.data = data,
		.bytes = values * hd_dtype_bytes(fake->dtype),
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1,
		.path = &fake->path,
		.keys = &fake->node.net->keys,
		.key_id = 7,
	};
	size_t at = 0;

	if (fake->granted_bps > 0)
		config.segments
			= (struct hd_segs){1, {{net->now, fake->granted_bps, config.bytes}}};
	while (at < FAKE_SENDS_MAX && fake->sends[at]
	       && hd_send_stats(fake->sends[at])->state != HD_SEND_DONE
	       && hd_send_stats(fake->sends[at])->state != HD_SEND_FAILED)
		at++;
	assert_true(at < FAKE_SENDS_MAX);
	hd_send_destroy(fake->sends[at]);
	assert_int_equal(hd_send_create(&config, net->now, &fake->sends[at]), 0);
	return fake->sends[at];
}

void fake_pull_into(struct fake *fake, float *data, uint64_t values, uint32_t round) {
	hd_recv_destroy(fake->recv);
	fake->recv = NULL;
	fake->pulled = data;
	fake->pulled_values = values;
	fake->pulled_done = false;
	fake->recv_round = round;
}

void fake_expect(struct fake *controller, const struct hd_msg_expect *expect) {
	struct hd_message message = {.kind = HD_MSG_EXPECT};

	message.expect = *expect;
	fake_send(controller, &message);
}

void fake_members(
	struct fake *controller,
	const struct hd_msg_members *members,
	const struct hd_group_member *list,
	uint32_t count
) {
	uint8_t data[HD_GROUP_MEMBERS_MAX * HD_GROUP_MEMBER_BYTES];
	struct hd_message message = {.kind = HD_MSG_MEMBERS};
	int bytes = hd_group_put_members(list, count, data, sizeof data);

	assert_true(bytes >= 0);
	message.members = *members;
	message.members.members = (struct hd_blob){data, (uint32_t)bytes};
	fake_send(controller, &message);
}

const struct hd_msg_outcome *fake_push_direct(
	struct fake *fake,
	uint32_t round,
	hd_version base,
	const void *data,
	uint64_t values
) {
	size_t grants = fake_count(fake, HD_MSG_GRANT);
	const struct hd_msg_grant *grant;

	fake_request_push(fake, round, 1, base, values * hd_dtype_bytes(fake->dtype));
	grant = &fake_wait(fake, HD_MSG_GRANT, grants)->grant;
	assert_int_equal(grant->round, round);
	fake_push(fake, grant->token, round, grant->attempt, data, values);
	return fake_outcome(fake, round);
}
