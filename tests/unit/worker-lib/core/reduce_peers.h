/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker that takes part in collectives, and aggregators, all of them but the worker scripted. */
#ifndef REDUCE_PEERS_H
#define REDUCE_PEERS_H

#include "hd_group.h"
#include "hd_roster.h"
#include "worker_world.h"

#define SHARDS 2
#define FIRST 3000 /* values of the first shard */
#define WORKERS 4 /* that REDUCE names */

struct scene {
	struct world *world;
	struct peer aggregators[SHARDS];
	float in[VALUES], before[VALUES], out[VALUES];
};

/* A round as the controller tells it. */
struct order {
	uint8_t attempt, dtype, op;
	uint16_t workers;
	uint64_t bytes, first[SHARDS], shard[SHARDS];
	bool not_out[SHARDS],
		not_in[SHARDS]; /* the worker gives nothing to it, or does not receive it */
	int shards;
	uint64_t sum_id;
	const struct hd_roster *members; /* NULL: none are told */
	uint32_t channel; /* of a send or receive */
	uint64_t peer_boot;
};

uint64_t out_token(uint32_t round, uint8_t attempt, int k);
uint64_t in_token(uint32_t round, uint8_t attempt, int k);
struct scene *open_scene(enum mode mode);
void close_scene(struct scene *s);
const struct hd_ticket *ticket(const struct scene *s, uint32_t round);
/* The round of the worker's call, or why it was refused. */
int call(struct scene *s, struct hd_reduce_args args);
int reduce(struct scene *s, uint8_t dtype, uint8_t op);
struct order order(uint8_t attempt, uint8_t dtype);
void send_reduce(struct scene *s, uint32_t round, const struct order *t);
void begin(struct scene *s, uint32_t round, const struct order *t);
/* The values that aggregator k holds of a token; NULL: not all of them. */
const void *held(struct scene *s, int k, uint64_t token);
void serve(struct scene *s, int k, uint32_t round, const struct order *t, const void *sum);
void send_drop(struct scene *s, uint32_t round, uint8_t attempt, uint8_t reason, uint32_t newest);
/* Of four equal workers: the sum is what it holds times four, every other result is the same. */
void answer(struct scene *s, int k, uint32_t round, const struct order *t);
void send_void(struct scene *s, struct peer *peer, uint64_t token);

#endif
