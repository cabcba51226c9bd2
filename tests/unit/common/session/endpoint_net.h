/* SPDX-License-Identifier: BSD-3-Clause */
/* A few endpoints in one process, joined by a network with a seed: delay, loss, duplication and
 * reordering; every node has a clock of its own. */
#ifndef ENDPOINT_NET_H
#define ENDPOINT_NET_H

#include "hd_endpoint.h"
#include "hd_random.h"

#define NODES_MAX 64

struct node;

struct net_node_config {
	const char *name;
	uint8_t role;
	bool accepts;
	uint16_t key_id;
	const struct hd_keyring *keys; /* NULL: the network's */
	uint64_t process; /* part of the seed: another one is a restart */
	int64_t clock_offset_ns;
	int64_t clock_ppm;
	uint32_t sessions_max, keepalive_us, dead_us;
};

struct node {
	struct hd_sink sink; /* first: the sink is the node */
	struct net *net;
	struct hd_endpoint *endpoint;
	struct hd_addr addr;
	struct net_node_config config;
	bool up, cut; /* cut: neither sends nor receives */
	bool any; /* bound to any address: it does not know its own */
	/* Events, for the tests to look at. */
	unsigned opened, closed, messages, sent_packets;
	uint64_t sent_bytes;
	enum hd_reason reason;
	char text[HD_TEXT_BYTES_MAX + 64];
	char order[256]; /* 'o' opened, 'c' closed, in order */
	struct hd_session *session; /* newest opened */
	void (*on_opened)(struct node *node, struct hd_session *session, hd_ns now);
	void (*on_closed)(struct node *node, struct hd_session *session, enum hd_reason reason);
	void (*on_message
	)(struct node *node, struct hd_session *session, const struct hd_message *message, hd_ns now
	);
	void *user;
};

struct flight {
	hd_ns at;
	uint64_t order;
	struct hd_addr from, to;
	uint8_t *data;
	size_t bytes;
};

struct net {
	struct hd_random random;
	struct hd_keyring keys;
	hd_ns now;
	double loss, duplicate;
	hd_ns delay, jitter;
	struct node nodes[NODES_MAX];
	unsigned node_count;
	struct flight *flights; /* a heap by (at, order) */
	size_t flight_count, flight_room;
	uint64_t order;
	struct hd_msg_hello hello; /* the newest of each that was sent */
	struct hd_msg_welcome welcome;
	/* Every packet as it is sent: a test may keep a copy. May be NULL. */
	void (*tap)(struct net *net, const struct flight *flight);
	void *tap_user;
};

void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);
struct node *net_add(struct net *net, const struct net_node_config *config);
/* Ends the endpoint without notice and starts a new incarnation at the same address. */
void net_restart(struct node *node, uint64_t process);
void net_stop(struct node *node);
struct hd_session *net_connect(struct node *from, struct node *to);
/* Lets time pass up to `until`, in order of events. */
void net_run(struct net *net, hd_ns until);
/* Puts a packet onto the network, as if it came from `from`. */
void net_inject(
	struct net *net,
	struct hd_addr from,
	struct hd_addr to,
	const void *data,
	size_t bytes
);
/* The key of the session that the newest HELLO and WELCOME made, by node key 7. */
void net_session_key(const struct net *net, uint8_t key[HD_KEY_BYTES]);
/* A tagged packet: header->type and all else as given; body may be NULL. Returns its bytes. */
size_t net_forge(
	const uint8_t key[HD_KEY_BYTES],
	const struct hd_control_header *header,
	const void *body,
	size_t body_bytes,
	uint8_t *packet
);
hd_ns node_now(const struct node *node);

#endif
