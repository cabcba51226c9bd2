/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller core and fake workers, servers and shells around it, in one process and in virtual
 * time. The peers are real endpoints; what they say is up to the test. Packets take LATENCY.
 */
#ifndef CONTROLLER_NET_H
#define CONTROLLER_NET_H

#include "ctl_base.h"
#include "ctl_estimate.h"
#include "hd_random.h"

#ifndef NET_PEERS_MAX
#define NET_PEERS_MAX 80
#endif
#define NET_LATENCY (50 * HD_US)
#define SETTLED (150 * HD_MS) /* a server that registered has said what it has */
#define MB UINT64_C(1000000)

struct net;

struct peer {
	struct net *net;
	uint8_t role;
	uint16_t worker;
	char host[16], job[16], tenant[16];
	struct hd_addr addr;
	struct hd_endpoint *endpoint; /* NULL: it is a core of its own */
	struct hd_node node;
	struct hd_session *session;
	bool open, cut; /* cut: nothing goes to it or comes from it */
	unsigned processes;
	struct hd_message *log; /* what it received; lists of GROUP and MEMBERS are copies */
	uint32_t count, capacity;
	char *json; /* of the newest TABLE */
	char refused[HD_TEXT_BYTES_MAX + 1]; /* of the newest REFUSE */
};

struct net {
	struct hd_controller *controller;
	struct hd_addr addr;
	struct hd_keyring keys;
	struct peer peers[NET_PEERS_MAX];
	uint32_t peer_count;
	hd_ns now;
	struct net_packet *queue; /* by arrival */
	struct hd_sink sink;
	struct peer *beside; /* the next peer is on this one's host; NULL: on one of its own */
	struct hd_addr sender; /* of the call in progress */
	double loss;
	struct hd_random random;
	struct hd_event *events; /* the controller's */
	uint32_t event_count, event_capacity;
	char *kept; /* state that the controller keeps for its next incarnation */
	unsigned keeps; /* times that it said so */
	char log_level[16];
	void (*on_event)(struct net *net, const struct hd_event *event);
	void *user;
};

struct net_config {
	uint16_t epoch;
	const char *topology; /* JSON; NULL: star */
	double theta, initial_bps, ageing_s;
	uint32_t interval_us, drop_permille_max, replicate_every;
	bool unscheduled;
	bool logs; /* its log level can be set */
	bool forgets; /* it keeps nothing for its next incarnation */
};

/* Links of 10 MB/s. */
extern const struct net_config net_plain;

void net_open(struct net *net, const struct net_config *config);
/* The controller dies without notice, and a new one starts. */
void net_restart(struct net *net, const struct net_config *config);
void net_close(struct net *net);
void net_run(struct net *net, hd_ns span);
/* The receiver of the first packet in flight; no address: none is in flight. */
struct hd_addr net_next(const struct net *net);

/* Peers connect at once; their messages are up to the caller. */
struct peer *net_peer(struct net *net, uint8_t role, const char *host);
/* A core that is no fake; its owner's. It may be exchanged: node.core. */
struct peer *net_core(struct net *net, struct hd_node node);
/* Ends a peer's process and starts a new one at the same address. */
void peer_restart(struct peer *peer);
int peer_send(struct peer *peer, const struct hd_message *message);
/* The same; aborts when it cannot be sent. */
void post(struct peer *peer, struct hd_message message);
/* Empties its log. */
void peer_forget(struct peer *peer);
/* The newest message of this kind, NULL: none. */
const struct hd_message *peer_last(const struct peer *peer, uint8_t kind);
uint32_t peer_count(const struct peer *peer, uint8_t kind);
/* Index in the log of the newest message of this kind, -1: none. */
int peer_find(const struct peer *peer, uint8_t kind);
/* The newest GRANT or EXPECT of that round. */
const struct hd_msg_grant *peer_grant(const struct peer *peer, uint16_t worker, uint32_t round);
const struct hd_msg_expect *peer_expect(const struct peer *peer, uint16_t worker, uint32_t round);

/* Ready-made messages. */
struct hd_message net_register_aggregator(const struct peer *peer, uint64_t memory_bytes);
#define NET_MODEL_BYTES UINT64_C(4000000)
struct hd_message net_register_server(const struct peer *peer);
struct hd_message net_register_worker(const struct peer *peer, uint32_t tau_max, float weight);
struct hd_message net_push(const struct peer *peer, uint32_t round, uint64_t bytes, uint64_t base);
struct hd_message net_pull(const struct peer *peer, uint32_t round);
/* The receiver's report that a transfer was applied at this version. */
struct hd_message net_report(const struct hd_msg_grant *grant, uint64_t version, uint64_t rate_bps);

/* A registered server "ps", and workers 0.. of tenant/job on hosts "h1".. */
struct peer *net_server(struct net *net, const char *host);
struct peer *
net_worker(struct net *net, const char *tenant, const char *job, uint16_t worker, uint32_t tau_max);
struct peer *net_aggregator(struct net *net, const char *host, uint64_t memory_bytes);
struct ctl_counters *counters(struct net *net);
uint32_t net_count_events(const struct net *net, enum hd_event_kind kind);
uint32_t net_job(const struct peer *peer);

#endif
