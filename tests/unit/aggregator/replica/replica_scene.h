/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server and its replica in virtual time, with a controller and workers that do as the test says. At each step
 * the replica must have the server's bits of every version that it says it has.
 */
#ifndef REPLICA_SCENE_H
#define REPLICA_SCENE_H

#include "hd_random.h"
#include "server_net.h"

#define REPLICA_IP 0x0a000003
#define REPLICA_MIND_IP 0x0a000004 /* the controller, as the replica sees it */
#define CARRIER_IP 0x0a000300 /* the worker's session with the replica */
#define VALUES 1500
#define ROUNDS 64
#define VERSIONS 256

/* Every version of the server, bit for bit. */
struct history {
	hd_version version[VERSIONS];
	float model[VERSIONS][VALUES], momentum[VERSIONS][VALUES];
	size_t count;
};

struct scene {
	struct net net;
	struct hd_server_config config, replica_config;
	struct net_node replica_node;
	struct hd_server *replica;
	struct fake *minds, *replica_minds; /* the controller: two fakes, one for each */
	struct fake *worker, *carrier;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct history *history;
	struct hd_random random;
	hd_version base;
	uint32_t round; /* of the newest push */
	float *updates[ROUNDS];
	uint64_t sizes[ROUNDS]; /* values */
	size_t carried; /* messages of the replica's controller that were looked at */
	bool deaf; /* copies are not granted */
	bool lost; /* they are refused: the worker has nothing any more */
	double farthest;
	uint64_t generation;
};

extern uint8_t scene_seed; /* of what a replica draws */

/* replica_memory 0: the default. */
struct scene *scene_open(uint64_t replica_memory);
/* The job's chunks carry no MAC. */
struct scene *scene_open_unsealed(void);
void scene_close(struct scene *s);
void replica_start(struct scene *s, uint64_t memory);

double distance(const float *a, const float *b);
/* Runs until done(s, number), checking each step. */
void run_until(struct scene *s, bool (*done)(struct scene *s, uint64_t number), uint64_t number);
void run_for(struct scene *s, hd_ns span);

/* REPLICA, from the controller of one of the two. */
void order(struct scene *s, struct fake *mind, uint8_t what, uint64_t generation, double div_max);
/* KEEP at another address than the replica's. */
void order_to(struct scene *s, uint32_t ipv4, uint64_t generation);
/* KEEP, and waits until the replica follows. */
void follow(struct scene *s, double div_max);

/* The next round's update: made, granted and in flight, or pushed and applied. */
void make_update(struct scene *s, uint8_t dtype, double size);
void grant_push(struct scene *s);
void push(struct scene *s, uint8_t dtype, double size);

/* For run_until(). */
bool has_outcome(struct scene *s, uint64_t round);
bool replica_at(struct scene *s, uint64_t version);
bool sent_durable(struct scene *s, uint64_t version);
bool caught_up(struct scene *s, uint64_t number);
const struct hd_msg_follow *last_follow(struct scene *s); /* to the controller; NULL: none */

#endif
