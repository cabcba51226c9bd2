/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller with workers of one all-reduce and aggregators on the same hosts, no server; all of them fakes. */
#ifndef REDUCE_SCENE_H
#define REDUCE_SCENE_H

#include "controller_net.h"
#include "hd_group.h"

#define WORKERS 3
#define BYTES (UINT64_C(3) * 64 * 11264)

struct scene {
	struct net net;
	struct peer *workers[WORKERS], *aggregators[WORKERS];
};

struct hd_message registration(const struct peer *worker, uint16_t world);
struct peer *aggregator(struct net *net, const char *host, uint64_t memory);
struct peer *worker(struct net *net, uint16_t rank, uint16_t world);
void open_scene_with(struct scene *s, uint64_t memory);
void open_scene(struct scene *s);
void ask(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt);
void ask_next(struct scene *s, uint16_t rank, uint32_t round);
const struct hd_msg_reduce *reduce_sent(const struct scene *s, uint16_t rank);
void done(struct scene *s, uint16_t rank, uint8_t outcome);
uint32_t drops(const struct scene *s, uint16_t rank, uint8_t reason);

#endif
