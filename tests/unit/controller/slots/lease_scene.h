/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller, workers of an all-reduce on hosts of their own, an aggregator beside each, and a switch that does what
 * the test says; all but the controller are fakes. */
#ifndef LEASE_SCENE_H
#define LEASE_SCENE_H

#include "controller_net.h"
#include "hd_group.h"

#define WORKERS 3
#define BYTES (UINT64_C(3) * 64 * 11264)
#define COUNT 352
#define BOTH (1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32)

struct scene {
	struct net net;
	struct peer *workers[WORKERS + 1], *others[WORKERS], *aggregators[WORKERS];
	struct peer *at;
	float peak;
	uint8_t order, avoid, dtype, op;
	uint32_t have; /* oldest round in flight; 0: the one asked for */
};

struct peer *
join(struct scene *s, const char *job, uint16_t rank, const char *host, uint16_t count);
struct hd_message registration(const struct peer *peer, uint32_t slots);
void add_switch(struct scene *s, uint32_t slots);
void add_aggregators(struct scene *s);
void open_with(struct scene *s, const struct net_config *config);
void open_scene(struct scene *s);
void ask_of(struct scene *s, struct peer *worker, uint32_t round, uint8_t attempt);
void ask(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt);
void ask_all(struct scene *s, uint32_t round, uint8_t attempt);
const struct hd_msg_slots *leased(const struct scene *s);
void answer(struct scene *s, uint8_t outcome, uint8_t reason);
void grant(struct scene *s);
const struct hd_msg_reduce *reduce_sent_to(const struct peer *worker);
const struct hd_msg_reduce *reduce_sent(const struct scene *s, uint16_t rank);
/* Its report that it has the sum: of this round, or of the newest that it was notified of. */
void done_round(struct scene *s, struct peer *worker, uint32_t round);
void done_by(struct scene *s, struct peer *worker);
void done(struct scene *s, uint16_t rank);
void done_all(struct scene *s);
const struct ctl_job *job_of(const struct scene *s);
/* The messages of a round to the switch and to each worker are consistent. */
void check_agreement(const struct scene *s, uint32_t members);
/* All of the newest round go over aggregators. */
void assert_shards(const struct scene *s);

#endif
