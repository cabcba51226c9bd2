/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An aggregator core and the nodes that a test needs around it, on the network of server_net.h. Workers, servers and
 * the controller are real endpoints and real transfers, but act only as the test tells them.
 */
#ifndef AGGREGATOR_NET_H
#define AGGREGATOR_NET_H

#include "hd_aggregator.h"
#include "hd_group.h"
#include "server_net.h"

#define AGGREGATOR_IP 0x0a000301
#define CONTROLLER_IP 0x0a000002
#define REPLICA_IP 0x0a000003
#define WORKER_IP 0x0a000100 /* plus the rank */
#define JOB 77
#define WORLD_WORKERS_MAX 9
#define END_INBOX_MAX 1024
#define END_TRANSFERS_MAX 32

/* A transfer that an end receives, from its first chunk on. */
struct end_recv {
	uint64_t token, bytes;
	uint8_t *data;
	struct hd_recv *recv;
	uint8_t flags; /* of all its chunks */
	uint64_t version; /* of its first */
	uint16_t worker;
	bool done, mixed;
};

struct end {
	struct net_node node; /* first */
	struct hd_endpoint *endpoint;
	struct hd_session *session; /* with the aggregator */
	uint8_t role;
	uint16_t rank;
	uint32_t job;
	bool open;
	struct hd_path path;
	struct hd_message *inbox; /* SACKs apart; blobs are not kept */
	size_t inbox_count;
	struct hd_send *sends[END_TRANSFERS_MAX];
	struct end_recv recvs[END_TRANSFERS_MAX];
	size_t send_count, recv_count;
};

struct world {
	struct net net;
	struct hd_aggregator_config config;
	struct hd_aggregator *aggregator;
	struct net_node node; /* the aggregator's */
	struct end *controller, *server, *replica;
	struct end *worker[WORLD_WORKERS_MAX];
	uint32_t workers;
};

/* A group that a test is about: input i from worker[i], token 0x100 * group + i; outputs are added one by one. */
struct plan {
	struct hd_msg_group message;
	uint32_t input_count, output_count;
	struct hd_group_input inputs[WORLD_WORKERS_MAX];
	struct hd_group_output outputs[WORLD_WORKERS_MAX];
};

/* A registered aggregator, a server, a replica, and workers that have said JOIN. config may set what the test is
 * about; NULL: nothing. */
struct world *world_open(uint32_t workers, const struct hd_aggregator_config *config);
void world_close(struct world *world);
void world_run(struct world *world, hd_ns span);
const struct hd_aggregator_stats *world_stats(const struct world *world);

struct end *end_open(struct world *world, uint8_t role, uint32_t ipv4);
void end_connect(struct world *world, struct end *end);
void end_join(struct world *world, struct end *end, uint32_t job, uint16_t rank);
/* The node dies without notice. */
void end_kill(struct world *world, struct end *end);
void end_send_message(struct end *end, const struct hd_message *message);
size_t end_heard(const struct end *end, uint8_t kind);
/* The index-th message of this kind, or the test fails. */
const struct hd_message *end_message(const struct end *end, uint8_t kind, size_t index);
/* The REPORT for this token, NULL: none. The newest. */
const struct hd_msg_report *end_report(const struct end *end, uint64_t token);
/* The VOIDs for this token. */
size_t end_voids(const struct end *end, uint64_t token);
/* Room for what comes under this token. */
struct end_recv *end_expect(struct end *end, uint64_t token, uint64_t bytes);
struct end_recv *end_received(struct end *end, uint64_t token);

/* Starts a transfer. Used of the header: job, worker, round, attempt, dtype, token, exponent, version. */
struct hd_send *
end_send(struct end *end, const struct hd_chunk_header *header, const void *data, uint64_t bytes);

/* Updates of `inputs` workers, of `bytes` each, without outputs yet. */
void plan_make(struct plan *plan, uint64_t group, uint32_t inputs, uint64_t bytes);
void plan_to(struct plan *plan, const struct end *end, uint64_t token);
void plan_send(struct world *world, const struct plan *plan);
/* The input's transfer begins. */
struct hd_send *
plan_push(struct world *world, const struct plan *plan, uint32_t input, const void *data);

#endif
