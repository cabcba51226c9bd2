/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller with an aggregator and the peers around it, for tests of groups. The peers are fakes; links carry
 * 10 MB/s, updates have 1 MB. */
#ifndef GROUP_PEERS_H
#define GROUP_PEERS_H

#include "controller_net.h"
#include "hd_group.h"

#define WORKERS 6
#define MEMORY (UINT64_C(1) << 30)

struct scene {
	struct net net;
	struct peer *server, *aggregator, *workers[WORKERS];
};

struct made {
	uint64_t group, sum;
	struct hd_group_input inputs[WORKERS];
	uint16_t workers[WORKERS];
	uint32_t count, open;
};

/* Workers 0.. of one job, its server, an aggregator on a host of its own. */
void open_scene(struct scene *s, uint64_t memory_bytes);
/* On host "rp". */
struct peer *add_replica(struct scene *s);
/* The server says that it has begun the workers' job: only then it is given a replica. */
void send_begun(struct scene *s);
/* The server says how its replica follows, which the controller has named to it. */
void send_follow(struct scene *s, const struct peer *replica, uint8_t state);
/* Every worker asks for a push of 1 MB. */
void push_all(struct scene *s, uint32_t round);
/* NULL: none. */
const struct hd_msg_group *newest_group(const struct scene *s);
const struct hd_msg_members *newest_members(const struct scene *s);
int inputs_of(const struct hd_msg_group *group);
/* An aggregator's report of an input that it holds whole. */
void send_held(struct scene *s, const struct hd_group_input *input);
/* The server's report of a sum. */
void end_sum(
	struct scene *s,
	const struct hd_msg_members *members,
	uint8_t outcome,
	uint64_t version
);
/* A peer's report of a sum's copy. */
void send_copy(struct scene *s, struct peer *peer, uint64_t token, uint8_t outcome);
void send_group_failed(struct scene *s, const struct hd_msg_group *group);
/* Whether the peer was told that this token is void; its newest reason. */
bool has_void(const struct peer *peer, uint64_t token, uint8_t *reason);
uint32_t open_count(struct scene *s);
/* All workers push, and some pushes are a group: its members and their tokens. */
struct made make_group(struct scene *s);

#endif
