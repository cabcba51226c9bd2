/* SPDX-License-Identifier: BSD-3-Clause */
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS_MAX 4000000

/* --- the network ----------------------------------------------------------------------------- */

static void net_send(
	struct hd_sink *sink,
	struct hd_addr to,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct net_node *from = (struct net_node *)sink;
	struct net *net = from->net;
	struct net_packet packet = {
		.at = net->now + net->delay,
		.from = from->addr,
		.to = to,
		.bytes = head_bytes + payload_bytes,
	};

	packet.data = malloc(packet.bytes);
	memcpy(packet.data, head, head_bytes);
	if (payload_bytes > 0)
		memcpy(packet.data + head_bytes, payload, payload_bytes);
	net->sent++;
	if (from->down || (net->lose && net->lose(net, &packet))) {
		free(packet.data);
		net->lost++;
		return;
	}
	assert_true(net->count < NET_PACKETS_MAX);
	net->packets[(net->first + net->count++) % NET_PACKETS_MAX] = packet;
}

/* Copies an event's names of a node and a job, which are invalid after the call. */
static void keep_who(struct net *net, const struct hd_who *who) {
	(void)snprintf(
		net->who,
		sizeof net->who,
		"%s %08x:%u %s/%s",
		who->name ? who->name : "",
		who->address.ipv4,
		who->address.port,
		who->tenant,
		who->job
	);
}

static void net_event_sink(struct hd_sink *sink, const struct hd_event *event) {
	struct net *net = ((struct net_node *)sink)->net;

	assert_true(net->event_count < NET_EVENTS_MAX);
	assert_int_equal(event->at, net->now);
	net->events[net->event_count++] = *event;
	if (event->who && event->who->job)
		keep_who(net, event->who);
}

void net_add(struct net *net, struct net_node *node, uint32_t ipv4) {
	node->net = net;
	node->addr = (struct hd_addr){ipv4, HD_PORT};
	node->sink.send = net_send;
	assert_true(net->node_count < NET_NODES_MAX);
	net->nodes[net->node_count++] = node;
}

void net_watch(struct net *net, struct net_node *node) {
	assert_ptr_equal(node->net, net);
	node->sink.event = net_event_sink;
}

void net_remove(struct net *net, struct net_node *node) {
	for (size_t i = 0; i < net->node_count; i++) {
		if (net->nodes[i] == node) {
			memmove(&net->nodes[i],
				&net->nodes[i + 1],
				(net->node_count - i - 1) * sizeof(struct net_node *));
			net->node_count--;
			return;
		}
	}
}

void net_deliver_one(struct net *net) {
	struct net_packet *packet = &net->packets[net->first];
	struct hd_packet given
		= {.peer = packet->from, .data = packet->data, .bytes = packet->bytes};

	net->first = (net->first + 1) % NET_PACKETS_MAX;
	net->count--;
	for (size_t i = 0; i < net->node_count; i++) {
		struct net_node *node = net->nodes[i];

		if (hd_addr_equal(node->addr, packet->to) && !node->down) {
			node->node.ops->receive(node->node.core, net->now, &given, 1, &node->sink);
			break;
		}
	}
	free(packet->data);
}

static hd_ns net_next(const struct net *net) {
	hd_ns next = net->count > 0 ? net->packets[net->first].at : HD_NEVER;

	for (size_t i = 0; i < net->node_count; i++) {
		const struct net_node *node = net->nodes[i];

		next = hd_ns_min(next, node->node.ops->deadline(node->node.core));
	}
	return hd_ns_max(next, net->now);
}

static void net_step(struct net *net) {
	while (net->count > 0 && net->packets[net->first].at <= net->now)
		net_deliver_one(net);
	for (size_t i = 0; i < net->node_count; i++) {
		struct net_node *node = net->nodes[i];

		if (node->node.ops->deadline(node->node.core) <= net->now)
			node->node.ops->tick(node->node.core, net->now, &node->sink);
	}
}

void net_run_until(struct net *net, bool (*done)(void *what), void *what, hd_ns limit) {
	hd_ns end = net->now + limit;

	for (size_t steps = 0; !done || !done(what); steps++) {
		hd_ns next = net_next(net);

		assert_true(steps < STEPS_MAX); /* a core whose deadline never moves on */
		if (next > end) {
			assert_null(done);
			net->now = end;
			return;
		}
		net->now = next;
		net_step(net);
	}
}

void net_run(struct net *net, hd_ns span) {
	net_run_until(net, NULL, NULL, span);
}

size_t net_events(const struct net *net, enum hd_event_kind kind) {
	size_t count = 0;

	for (size_t i = 0; i < net->event_count; i++)
		count += net->events[i].kind == kind ? 1 : 0;
	return count;
}

const struct hd_event *net_event(const struct net *net, enum hd_event_kind kind, size_t index) {
	for (size_t i = 0; i < net->event_count; i++)
		if (net->events[i].kind == kind && index-- == 0)
			return &net->events[i];
	fail_msg("no such event: %s", hd_event_name(kind));
	return NULL;
}

void net_open(struct net *net) {
	*net = (struct net){.now = HD_SECOND, .delay = 100 * HD_US};
	net->packets = calloc(NET_PACKETS_MAX, sizeof *net->packets);
	net->events = calloc(NET_EVENTS_MAX, sizeof *net->events);
	net->key.id = 7;
	memset(net->key.secret, 0x42, sizeof net->key.secret);
	net->keys = (struct hd_keyring){1, &net->key};
}

void net_server(struct net *net, struct hd_server_config *config) {
	const char *step = getenv("HEDDLE_TEST_APPLY");

	config->name = "ps";
	config->host = "ps";
	config->keys = &net->keys;
	config->key_id = 7;
	config->data = (struct hd_addr){SERVER_IP, HD_PORT};
	/* The same tests once more, with updates that take many calls to apply. */
	if (config->apply_values == 0 && step)
		config->apply_values = strtoull(step, NULL, 10);
	memset(config->seed, 1 + net->starts++, sizeof config->seed);
	if (net->server) {
		hd_server_destroy(net->server);
		net_remove(net, &net->server_node);
	}
	assert_int_equal(hd_server_create(config, &net->server), 0);
	net->server_node = (struct net_node){.node = {&hd_server_ops, net->server}};
	net->server_node.sink.event = net_event_sink;
	net_add(net, &net->server_node, SERVER_IP);
}

void net_close(struct net *net) {
	hd_server_destroy(net->server);
	while (net->count > 0) {
		free(net->packets[net->first].data);
		net->first = (net->first + 1) % NET_PACKETS_MAX;
		net->count--;
	}
	free(net->packets);
	free(net->events);
}

void spec_make(struct hd_jobspec *spec, struct hd_tensor tensors[2], uint64_t values) {
	memset(tensors, 0, 2 * sizeof tensors[0]);
	hd_text_copy(tensors[0].name, sizeof tensors[0].name, "fc1.weight");
	tensors[0].dimension_count = 2;
	tensors[0].dimension[0] = 2;
	tensors[0].dimension[1] = values / 2 - 1;
	tensors[0].init = HD_INIT_UNIFORM;
	tensors[0].init_scale = 0.1F;
	hd_text_copy(tensors[1].name, sizeof tensors[1].name, "fc1.bias");
	tensors[1].dimension_count = 1;
	tensors[1].dimension[0] = values - 2 * (values / 2 - 1);
	*spec = (struct hd_jobspec){
		.tenant = "t",
		.name = "job",
		.seed = 5,
		.learning_rate = 0.05F,
		.momentum = 0.9F,
		.weight_decay = 1e-4F,
		.tau_max = 16,
		.tensor_count = 2,
		.tensors = tensors,
	};
}
