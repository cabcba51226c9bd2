/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair of endpoints with an open session, and a program of bytes that throws packets at them:
 *     op:8 length:8 bytes...
 *     op & 1   to the server, else to the client
 *     op >> 1 & 3   0 as they are;  1 a body of the session, tagged with its key;
 *                   2 a body tagged with the node key (HELLO family);  3 only time passes
 * When nothing that was thrown carried the session's key, the session must be as good as before.
 */
#include "endpoint_net.h"
#include "fuzz.h"

#include <string.h>

#define OPS_MAX 64

struct input {
	const uint8_t *at, *end;
};

static uint8_t next(struct input *in) {
	return in->at < in->end ? *in->at++ : 0;
}

static uint32_t next32(struct input *in) {
	uint32_t x = 0;

	for (int i = 0; i < 4; i++)
		x = x << 8 | next(in);
	return x;
}

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

struct target {
	struct net net;
	struct node *server, *client;
	uint8_t key[HD_KEY_BYTES];
	uint64_t sequence;
};

/* Small fields mostly, so that numbers often fall into windows; `wide` takes all bits. */
static struct hd_control_header header_from(struct input *in, struct target *t, bool to_server) {
	uint8_t wide = next(in);
	struct hd_control_header header = {
		.type = HD_PACKET_CONTROL,
		.flags = (uint8_t)((next(in) & 1) | (to_server ? 0 : HD_CONTROL_ANSWERER)),
		.kind = next(in),
		.key_id = 7,
		.session = to_server ? t->net.welcome.session : t->net.hello.session,
		.sequence = t->sequence++,
	};

	header.message = wide & 1 ? next32(in) : next(in);
	header.ack = wide & 2 ? next32(in) : next(in) & 3;
	header.ack_mask = wide & 4 ? next32(in) : next(in);
	if (wide & 8)
		header.sequence += next32(in);
	return header;
}

static size_t build(struct target *t, struct input *in, uint8_t op, uint8_t *packet) {
	bool to_server = op & 1;
	struct hd_control_header header;

	switch (op >> 1 & 3) {
	case 0:
		memcpy(packet, in->at, (size_t)(in->end - in->at));
		return (size_t)(in->end - in->at);
	case 1:
		header = header_from(in, t, to_server);
		return net_forge(t->key, &header, in->at, (size_t)(in->end - in->at), packet);
	case 2:
		header = (struct hd_control_header){
			.type = HD_PACKET_HELLO,
			.kind = next(in) & 3,
			.key_id = (uint16_t)(next(in) & 1 ? 7 : 8),
			.session = to_server ? t->net.welcome.session : t->net.hello.session,
		};
		return net_forge(
			hd_keyring_find(&t->net.keys, header.key_id)->secret,
			&header,
			in->at,
			(size_t)(in->end - in->at),
			packet
		);
	default:
		return 0;
	}
}

static void throw_one(struct target *t, struct input *in, uint8_t op) {
	size_t length = next(in), left = (size_t)(in->end - in->at);
	struct input part = {in->at, in->at + (length < left ? length : left)};
	uint8_t packet[400];
	struct node *to = op & 1 ? t->server : t->client;
	struct node *from = op & 1 ? t->client : t->server;
	struct hd_addr stranger = {0x0b000000 + op, 4773};

	in->at = part.end;
	if ((op >> 1 & 3) == 3) {
		net_run(&t->net, t->net.now + (hd_ns)length * HD_MS);
		return;
	}
	length = build(t, &part, op, packet);
	net_inject(&t->net, op & 0x80 ? stranger : from->addr, to->addr, packet, length);
	if (op & 0x40)
		net_run(&t->net, t->net.now + 200 * HD_US);
}

static void check_alive(struct target *t) {
	struct hd_message message = {.kind = HD_MSG_GO};
	unsigned before = t->server->messages;

	CHECK(t->client->opened == 1 && t->client->closed == 0 && t->server->closed == 0);
	CHECK(hd_session_send(t->client->session, &message, node_now(t->client), &t->client->sink)
	      == 0);
	net_run(&t->net, t->net.now + 100 * HD_MS);
	CHECK(t->server->messages == before + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static struct target t;
	struct input in = {data, data + bytes};
	bool keyed = false;

	net_init(&t.net, 1);
	t.server = net_add(&t.net, &server_config);
	t.client = net_add(&t.net, &client_config);
	CHECK(net_connect(t.client, t.server));
	net_run(&t.net, t.net.now + 20 * HD_MS);
	CHECK(t.client->opened == 1 && t.server->opened == 1);
	net_session_key(&t.net, t.key);
	t.sequence = 100;
	for (int i = 0; i < OPS_MAX && in.at < in.end; i++) {
		uint8_t op = next(&in);

		/* A REFUSE or WELCOME tagged with the node key is the peer's own word as well. */
		keyed = keyed || (op >> 1 & 3) == 1 || (op >> 1 & 3) == 2;
		throw_one(&t, &in, op);
	}
	net_run(&t.net, t.net.now + 10 * HD_MS);
	if (!keyed)
		check_alive(&t);
	net_run(&t.net, t.net.now + 3 * HD_SECOND);
	net_fini(&t.net);
	return 0;
}
