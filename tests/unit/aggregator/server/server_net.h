/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server core and the nodes that a test needs around it, in virtual time: each packet takes the same time, losses are
 * chosen by the test. Workers and the controller are real endpoints and real transfers, but act only as the test tells
 * them.
 */
#ifndef SERVER_NET_H
#define SERVER_NET_H

#include "hd_endpoint.h"
#include "hd_group.h"
#include "hd_recv.h"
#include "hd_send.h"
#include "hd_server.h"
#include "hd_text.h"

#define SERVER_IP 0x0a000001
#define NET_NODES_MAX 96
#define NET_PACKETS_MAX 65536
#define NET_EVENTS_MAX 65536
#define FAKE_INBOX_MAX 512
#define FAKE_SENDS_MAX 16

struct net;

struct net_node {
	struct hd_sink sink; /* first */
	struct net *net;
	struct hd_addr addr;
	struct hd_node node;
	bool down; /* its packets vanish, both ways */
};

struct net_packet {
	hd_ns at;
	struct hd_addr from, to;
	uint8_t *data;
	size_t bytes;
};

struct net {
	hd_ns now;
	hd_ns delay;
	struct net_node *nodes[NET_NODES_MAX];
	size_t node_count;
	struct net_packet *packets; /* a ring */
	size_t first, count;
	/* True: this packet is lost. */
	bool (*lose)(struct net *net, const struct net_packet *packet);
	uint64_t sent, lost;
	struct hd_event *events; /* of the server */
	size_t event_count;
	char who[256]; /* NAME ADDRESS TENANT/JOB, of the newest event that says a job */
	struct hd_keyring keys;
	struct hd_key key;
	struct net_node server_node;
	struct hd_server *server;
	uint8_t starts; /* of the server: another seed for each */
};

struct fake {
	struct net_node node; /* first */
	struct hd_endpoint *endpoint;
	struct hd_session *session; /* with the server */
	struct hd_addr server; /* where its pushes go */
	uint8_t role;
	uint16_t rank, epoch;
	uint32_t job;
	bool open;
	bool silent; /* a controller that tells no node to be a server, */
	bool serves_first; /* or does so ahead of REGISTERED */
	uint32_t closed;
	struct hd_message *inbox;
	size_t inbox_count; /* SACKs apart */
	uint64_t sacks;
	char refused[HD_TEXT_BYTES_MAX + 1];
	struct hd_path path;
	uint8_t pull_dtype; /* that it asks for */
	uint8_t dtype; /* of its pushes, as data of fake_push() has them */
	hd_version base; /* of pushes on credits, */
	uint32_t total; /* and their bytes; 0: they were granted */
	float peak; /* and their largest value, as it says */
	int16_t exponent; /* of its chunks */
	uint8_t flags;
	uint64_t granted_bps; /* of its pushes; 0: as fast as the path allows */
	struct hd_send *sends[FAKE_SENDS_MAX];
	struct hd_recv *recv; /* of one pull at a time */
	uint64_t recv_token;
	uint32_t recv_round;
	uint8_t recv_attempt;
	float *pulled;
	uint64_t pulled_values;
	hd_version pulled_version;
	bool pulled_done, mixed;
};

/* A job of two tensors and `values` values. */
void spec_make(struct hd_jobspec *spec, struct hd_tensor tensors[2], uint64_t values);

void net_add(struct net *net, struct net_node *node, uint32_t ipv4);
void net_remove(struct net *net, struct net_node *node);
/* Its events are kept. net_server() does that for the server's. */
void net_watch(struct net *net, struct net_node *node);
void net_open(struct net *net);
/* Starts an incarnation of the server. `config` may set the subject of the test. */
void net_server(struct net *net, struct hd_server_config *config);
void net_close(struct net *net);
/* Delivers the next packet, whatever the time; no node ticks. */
void net_deliver_one(struct net *net);
void net_run(struct net *net, hd_ns span);
/* Runs until done() or fails the test after `limit`. */
void net_run_until(struct net *net, bool (*done)(void *what), void *what, hd_ns limit);
/* Events of one kind so far. */
size_t net_events(const struct net *net, enum hd_event_kind kind);
const struct hd_event *net_event(const struct net *net, enum hd_event_kind kind, size_t index);

struct fake *fake_worker(struct net *net, uint16_t rank);
/* It tells who registers as a server to be that of spec_make()'s job. */
struct fake *fake_controller(struct net *net, uint16_t epoch);
/* The same for a server that is not net's own. */
struct fake *fake_worker_at(struct net *net, uint16_t rank, uint32_t ipv4, struct hd_addr server);
struct fake *fake_controller_at(struct net *net, uint16_t epoch, uint32_t ipv4);
/* An aggregator, or another server, that has a session with the server that is named. */
struct fake *fake_node_at(struct net *net, uint8_t role, uint32_t ipv4, struct hd_addr server);
/* An aggregator that has one with the server; fake_push() sends its sums. */
static inline struct fake *fake_aggregator(struct net *net, uint16_t index) {
	const struct hd_addr server = {SERVER_IP, HD_PORT};

	return fake_node_at(net, HD_ROLE_AGGREGATOR, 0x0a000200U + index, server);
}
struct hd_addr fake_address(const struct fake *fake);
void fake_close(struct fake *fake);
/* The node dies without notice. */
void fake_kill(struct fake *fake);
void fake_send(struct fake *fake, const struct hd_message *message);
size_t fake_count(const struct fake *fake, uint8_t kind);
/* Runs until the index-th message (from 0) of this kind is there, and returns it. */
const struct hd_message *fake_wait(struct fake *fake, uint8_t kind, size_t index);

/* JOIN and, unless refused, wait for JOINED number `index`. */
void fake_join(struct fake *fake, const struct hd_jobspec *spec);
const struct hd_msg_joined *fake_joined(struct fake *fake, const struct hd_jobspec *spec);
void fake_request_push(
	struct fake *fake,
	uint32_t round,
	uint8_t attempt,
	hd_version base,
	uint64_t bytes
);
void fake_request_pull(struct fake *fake, uint32_t round, hd_version have, bool conditional);
/* Starts sending data under a token. */
struct hd_send *fake_push(
	struct fake *fake,
	uint64_t token,
	uint32_t round,
	uint8_t attempt,
	const void *data,
	uint64_t values
);
/* Room for the data of the next pull. */
void fake_pull_into(struct fake *fake, float *data, uint64_t values, uint32_t round);
void fake_expect(struct fake *controller, const struct hd_msg_expect *expect);
/* MEMBERS with this list. */
void fake_members(
	struct fake *controller,
	const struct hd_msg_members *members,
	const struct hd_group_member *list,
	uint32_t count
);
/* The whole of a direct push: request, grant, chunks, outcome (returned). */
const struct hd_msg_outcome *fake_push_direct(
	struct fake *fake,
	uint32_t round,
	hd_version base,
	const void *data,
	uint64_t values
);
/* The outcome of a round, waited for. */
const struct hd_msg_outcome *fake_outcome(struct fake *fake, uint32_t round);

#endif
