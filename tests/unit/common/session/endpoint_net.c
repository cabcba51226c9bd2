/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint_net.h"
#include "hd_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key_text[]
	= "7 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
	  "8 ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

static hd_ns clock_at(const struct node *node, hd_ns now) {
	return (hd_ns
	)((int64_t)now + node->config.clock_offset_ns
	  + (int64_t)now / 1000000 * node->config.clock_ppm);
}

hd_ns node_now(const struct node *node) {
	return clock_at(node, node->net->now);
}

static bool before(const struct flight *a, const struct flight *b) {
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct flight *a, struct flight *b) {
	struct flight t = *a;

	*a = *b;
	*b = t;
}

static void push(struct net *net, struct flight flight) {
	size_t at = net->flight_count++;

	if (net->flight_count > net->flight_room) {
		net->flight_room = 2 * net->flight_room + 64;
		net->flights = realloc(net->flights, net->flight_room * sizeof flight);
		assert(net->flights);
	}
	flight.order = net->order++;
	net->flights[at] = flight;
	while (at > 0 && before(&net->flights[at], &net->flights[(at - 1) / 2])) {
		swap(&net->flights[at], &net->flights[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

static struct flight pop(struct net *net) {
	struct flight first = net->flights[0];
	size_t at = 0, child;

	assert(net->flight_count > 0);
	net->flights[0] = net->flights[--net->flight_count];
	net->flights[net->flight_count].data = NULL;
	while ((child = 2 * at + 1) < net->flight_count) {
		if (child + 1 < net->flight_count
		    && before(&net->flights[child + 1], &net->flights[child]))
			child++;
		if (!before(&net->flights[child], &net->flights[at]))
			break;
		swap(&net->flights[child], &net->flights[at]);
		at = child;
	}
	return first;
}

void net_inject(
	struct net *net,
	struct hd_addr from,
	struct hd_addr to,
	const void *data,
	size_t bytes
) {
	struct flight flight = {.from = from, .to = to, .bytes = bytes, .data = malloc(bytes + 1)};

	assert(flight.data);
	memcpy(flight.data, data, bytes);
	flight.at = net->now + net->delay;
	if (net->jitter > 0)
		flight.at += hd_random_below(&net->random, net->jitter);
	push(net, flight);
}

static void remember(struct net *net, const uint8_t *data, size_t bytes) {
	struct hd_control_header header;
	struct hd_message message;
	const uint8_t *body;
	size_t body_bytes;

	if (hd_control_decode(data, bytes, &header, &body, &body_bytes) < 0
	    || header.type != HD_PACKET_HELLO
	    || hd_message_decode(header.kind, body, body_bytes, &message) < 0)
		return;
	if (header.kind == HD_MSG_HELLO)
		net->hello = message.hello;
	else if (header.kind == HD_MSG_WELCOME)
		net->welcome = message.welcome;
}

void net_session_key(const struct net *net, uint8_t key[HD_KEY_BYTES]) {
	const struct hd_msg_hello *hello = &net->hello;
	const struct hd_msg_welcome *welcome = &net->welcome;
	struct hd_hello_side client = {
		.boot = hello->boot,
		.role = hello->role,
		.session = hello->session,
		.addr = {welcome->seen_ipv4, welcome->seen_port},
		.name = hello->name,
	};
	struct hd_hello_side server = {
		.boot = welcome->boot,
		.role = welcome->role,
		.session = welcome->session,
		.addr = {hello->asked_ipv4, hello->asked_port},
		.name = welcome->name,
	};

	memcpy(client.nonce, net->hello.nonce, sizeof client.nonce);
	memcpy(server.nonce, net->welcome.nonce, sizeof server.nonce);
	hd_session_key(hd_keyring_find(&net->keys, 7), &client, &server, key);
}

size_t net_forge(
	const uint8_t key[HD_KEY_BYTES],
	const struct hd_control_header *header,
	const void *body,
	size_t body_bytes,
	uint8_t *packet
) {
	size_t bytes = HD_CONTROL_HEADER_BYTES + body_bytes;

	hd_control_encode(header, packet);
	if (body_bytes > 0)
		memcpy(packet + HD_CONTROL_HEADER_BYTES, body, body_bytes);
	hd_auth_sign(key, packet, bytes, packet + bytes);
	return bytes + HD_TAG_BYTES;
}

static void sink_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct node *node = (struct node *)sink;
	struct net *net = node->net;
	struct flight flight = {.from = node->addr, .to = peer, .bytes = head_bytes};

	assert(!payload && payload_bytes == 0);
	node->sent_packets++;
	remember(net, head, head_bytes);
	node->sent_bytes += head_bytes;
	memcpy(&flight.data, &head, sizeof head); /* read only, and only by the tap */
	if (net->tap)
		net->tap(net, &flight);
	if (node->cut || hd_random_chance(&net->random, net->loss))
		return;
	net_inject(net, node->addr, peer, head, head_bytes);
	if (hd_random_chance(&net->random, net->duplicate))
		net_inject(net, node->addr, peer, head, head_bytes);
}

static void log_order(struct node *node, char what) {
	size_t used = strlen(node->order);

	if (used + 1 < sizeof node->order)
		node->order[used] = what;
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct node *node = owner;

	(void)sink;
	node->opened++;
	node->session = session;
	log_order(node, 'o');
	if (node->on_opened)
		node->on_opened(node, session, now);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct node *node = owner;

	(void)sink;
	node->messages++;
	if (node->on_message)
		node->on_message(node, session, message, now);
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct node *node = owner;

	(void)now;
	(void)sink;
	node->closed++;
	node->reason = reason;
	hd_text_copy(node->text, sizeof node->text, text);
	log_order(node, 'c');
	if (node->session == session)
		node->session = NULL;
	if (node->on_closed)
		node->on_closed(node, session, reason);
}

static const struct hd_endpoint_ops ops = {on_opened, on_message, on_closed};

static void start(struct node *node) {
	struct hd_endpoint_config config = {
		.name = node->config.name,
		.role = node->config.role,
		.key_id = node->config.key_id ? node->config.key_id : 7,
		.keys = node->config.keys ? node->config.keys : &node->net->keys,
		.accepts = node->config.accepts,
		.sessions_max = node->config.sessions_max,
		.keepalive_us = node->config.keepalive_us,
		.dead_us = node->config.dead_us,
		.ops = &ops,
		.owner = node,
	};
	int result;

	(void)snprintf(
		(char *)config.seed,
		sizeof config.seed,
		"%x %llx",
		node->addr.ipv4,
		(unsigned long long)node->config.process
	);
	result = hd_endpoint_create(&config, &node->endpoint);
	assert(result == 0);
	(void)result;
	node->up = true;
}

void net_init(struct net *net, uint64_t seed) {
	char error[100];
	int result;

	memset(net, 0, sizeof *net);
	hd_random_init(&net->random, seed);
	result = hd_keyring_parse(key_text, &net->keys, error, sizeof error);
	assert(result == 0);
	(void)result;
	net->delay = 100 * HD_US;
	net->now = HD_SECOND;
}

void net_fini(struct net *net) {
	for (unsigned i = 0; i < net->node_count; i++)
		net_stop(&net->nodes[i]);
	while (net->flight_count > 0)
		free(pop(net).data);
	free(net->flights);
	hd_keyring_fini(&net->keys);
}

struct node *net_add(struct net *net, const struct net_node_config *config) {
	struct node *node = &net->nodes[net->node_count];

	assert(net->node_count < NODES_MAX);
	node->net = net;
	node->config = *config;
	node->sink.send = sink_send;
	node->addr = (struct hd_addr){0x0a000001 + net->node_count++, 4773};
	start(node);
	return node;
}

void net_stop(struct node *node) {
	if (node->up)
		hd_endpoint_destroy(node->endpoint);
	node->up = false;
	node->session = NULL;
}

void net_restart(struct node *node, uint64_t process) {
	net_stop(node);
	node->config.process = process;
	start(node);
}

struct hd_session *net_connect(struct node *from, struct node *to) {
	struct hd_session *session;

	return hd_endpoint_connect(from->endpoint, to->addr, node_now(from), &session) == 0 ?
		session :
		NULL;
}

static struct node *node_at(struct net *net, struct hd_addr addr) {
	for (unsigned i = 0; i < net->node_count; i++)
		if (hd_addr_equal(net->nodes[i].addr, addr))
			return &net->nodes[i];
	return NULL;
}

static void arrive(struct net *net) {
	struct flight flight = pop(net);
	struct node *node = node_at(net, flight.to);
	struct hd_packet packet = {
		.peer = flight.from,
		.data = flight.data,
		.bytes = flight.bytes,
		.local = flight.to,
	};

	net->now = flight.at;
	if (node && node->any)
		packet.local.ipv4 = 0;
	if (node && node->up && !node->cut)
		hd_endpoint_receive(node->endpoint, node_now(node), &packet, &node->sink);
	free(flight.data);
}

/* The network's time at which the node's clock shows `at` or just after. */
static hd_ns true_time(const struct node *node, hd_ns at) {
	int64_t local = (int64_t)at - node->config.clock_offset_ns;
	hd_ns guess;

	if (at == HD_NEVER)
		return HD_NEVER;
	if (local <= (int64_t)node->net->now)
		local = (int64_t)node->net->now;
	guess = (hd_ns)(local - local / 1000000 * node->config.clock_ppm);
	while (clock_at(node, guess) < at)
		guess += 1000;
	return guess;
}

static struct node *next_due(struct net *net, hd_ns *at) {
	struct node *due = NULL;

	*at = HD_NEVER;
	for (unsigned i = 0; i < net->node_count; i++) {
		struct node *node = &net->nodes[i];
		hd_ns when;

		if (!node->up)
			continue;
		when = true_time(node, hd_endpoint_deadline(node->endpoint));
		if (when < *at) {
			*at = when;
			due = node;
		}
	}
	return due;
}

void net_run(struct net *net, hd_ns until) {
	for (;;) {
		hd_ns tick_at, packet_at = net->flight_count ? net->flights[0].at : HD_NEVER;
		struct node *node = next_due(net, &tick_at);

		if (hd_ns_min(tick_at, packet_at) > until)
			break;
		if (packet_at <= tick_at) {
			arrive(net);
			continue;
		}
		if (tick_at > net->now)
			net->now = tick_at;
		hd_endpoint_tick(node->endpoint, node_now(node), &node->sink);
	}
	if (until > net->now)
		net->now = until;
}
