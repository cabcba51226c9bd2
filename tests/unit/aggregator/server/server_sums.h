/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with a controller, an aggregator and four workers, for tests of sums. Worker i's update is g[i]. */
#ifndef SERVER_SUMS_H
#define SERVER_SUMS_H

#include "server_net.h"

#define SUM_VALUES 6000
#define SUM_BYTES (SUM_VALUES * sizeof(float))
#define SUM_WORKERS 4
#define SUM_TOKEN 0x900 /* plus the first position */
#define PART_TOKEN 0x9000 /* plus the position */

struct sums {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *aggregator, *worker[SUM_WORKERS];
	hd_version base;
	uint32_t job;
	float g[SUM_WORKERS][SUM_VALUES];
	float sum[SUM_VALUES];
	struct hd_group_member list[SUM_WORKERS]; /* of the newest sums_tell() */
	struct hd_msg_members message;
	uint32_t advanced; /* commits of sums_advance() */
};

struct sums *sums_open(uint32_t tau_max, const struct hd_server_config *config);
void sums_close(struct sums *s);
/* Round 1 of these workers ("013"), at positions from `position`, on the first version. Fills list and message. */
void sums_make(struct sums *s, const char *workers, uint64_t position);
/* Says it, and waits until it has arrived. */
void sums_send(struct sums *s, const char *list);
void sums_tell(struct sums *s, const char *workers, uint64_t position);
/* The aggregator sends the sum of these workers' updates; whole: and waits until it is held. */
void sums_push(struct sums *s, const char *workers, uint64_t position);
void sums_push_whole(struct sums *s, const char *workers, uint64_t position);
/* Commits on the newest version, so that the first falls behind: worker 3's rounds from 11 on. */
void sums_advance(struct sums *s, uint32_t commits);
void sums_run_ms(struct sums *s, uint32_t ms);
/* The VOIDs of its part that a worker got. */
size_t sums_withdrawn(const struct sums *s, uint16_t worker, uint64_t position);
/* Every worker's commits, in their order: "012". */
void sums_assert_order(const struct sums *s, const char *order);

#endif
