/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of a worker core in its tests: a server and a controller that keep the protocol but decide nothing by
 * themselves, over the simulated network. Both record the requests.
 */
#ifndef WORKER_PEERS_H
#define WORKER_PEERS_H

#include "hd_dataplane.h"
#include "hd_endpoint.h"
#include "hd_recv.h"
#include "hd_send.h"
#include "hd_sim.h"
#include "hd_worker.h"

#define PEER_MESSAGES_MAX 512
#define PEER_TRANSFERS_MAX 128
#define PEER_ROUNDS_MAX 256

struct peer_transfer {
	uint64_t token;
	struct hd_msg_request request;
	struct hd_recv *recv; /* push */
	struct hd_send *send; /* pull */
	float *data;
};

struct peer {
	struct hd_sim *sim;
	struct hd_endpoint *endpoint;
	struct hd_session *session; /* the worker's */
	int host, node;
	uint8_t role;
	uint64_t process;
	/* Its answers to requests. */
	bool silent; /* nothing: the test says what */
	bool answers_no_join;
	bool refuses; /* JOIN or REGISTER */
	bool rank_held; /* both, for now */
	bool unscheduled; /* controller: REGISTERED.scheduled = 0 */
	uint32_t newest_reduce; /* controller: REGISTERED.reduce_round */
	bool no_outcome; /* server: says nothing after the last byte */
	bool deaf; /* server: drops every chunk */
	uint8_t drop_reason; /* controller: DROP instead of GRANT */
	float weight; /* of grants */
	int16_t exponent; /* of grants of fixed point */
	uint64_t after; /* of grants */
	/* The packets that it received. */
	struct hd_message seen[PEER_MESSAGES_MAX];
	uint32_t seen_count;
	struct hd_dataplane counted; /* what the newest STATS says */
	/* server */
	uint64_t values;
	float *model; /* sum of what was applied */
	hd_version version, durable;
	uint32_t last_round;
	uint8_t applied[PEER_ROUNDS_MAX]; /* times each round was applied */
	hd_version applied_version[PEER_ROUNDS_MAX];
	struct peer_transfer transfers[PEER_TRANSFERS_MAX];
	uint64_t next_token;
	struct hd_chunk_header chunk; /* newest that came */
	struct hd_path path;
	int *forger; /* the node that sends a forged chunk ahead of each of its own; NULL: none */
	uint64_t forgeries;
	uint64_t granted_bps; /* of pulls that it serves; 0: as fast as the path allows */
	/* controller */
	struct peer *server;
	struct hd_addr server_addr;
	struct peer
		*via; /* an aggregator that takes pushes and serves pulls instead; NULL: none, */
	struct hd_addr via_addr; /* and none */
};

/* Host and node stay; start and stop are lives. An aggregator takes chunks and says nothing of what becomes of
 * them. */
void peer_init(struct peer *peer, struct hd_sim *sim, uint8_t role, uint64_t values);
void peer_start(struct peer *peer);
void peer_stop(struct peer *peer);
void peer_fini(struct peer *peer);
/* Says something to the worker, now. */
int peer_send(struct peer *peer, const struct hd_message *message);
/* Messages of a kind seen so far, and the newest one (NULL: none). */
uint32_t peer_count(const struct peer *peer, uint8_t kind);
const struct hd_message *peer_last(const struct peer *peer, uint8_t kind);
/* worker_kept.c: a message as it is kept, with blobs of its own; frees all that a peer has kept, and its model. */
struct hd_message peer_kept(const struct hd_message *message);
void peer_forget(struct peer *peer);
/* The server accepts a transfer under a token (what EXPECT or GRANT would tell it). */
void peer_expect(struct peer *server, uint64_t token, const struct hd_msg_request *request);
void peer_grant(struct peer *peer, const struct hd_msg_request *request, uint64_t token);
/* The server begins a pull's transfer. */
void peer_serve(struct peer *server, uint64_t token, const struct hd_msg_request *request);
void peer_outcome(struct peer *server, uint32_t round, enum hd_outcome outcome, uint8_t reason);

const struct hd_keyring *peer_keys(void);

#endif
