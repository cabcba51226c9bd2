/* SPDX-License-Identifier: BSD-3-Clause */
/* A scene of server and replica, with a second worker and an aggregator whose sums go to both. */
#ifndef SUM_STAGE_H
#define SUM_STAGE_H

#include "rep_job.h"
#include "replica_scene.h"

#define MADE_MAX 64
#define BUFFER_BYTES ((VALUES * sizeof(float) + 63) / 64 * 64)

/* A sum of workers 1 and 2, and the message about it. */
struct sum {
	uint64_t token, copy; /* to the server, to the replica */
	struct hd_group_member list[2];
	struct hd_msg_members message; /* token and peer apart */
	float values[VALUES];
};

struct stage {
	struct scene *scene;
	struct fake *other; /* worker 2 */
	struct fake *aggregator, *second; /* the aggregator's session with each of the two */
	struct sum *made[MADE_MAX];
	uint32_t count;
	uint64_t position;
};

/* replica_memory 0: the default. The replica follows. */
void stage_open(struct stage *t, uint64_t replica_memory);
void stage_close(struct stage *t);
/* The aggregator's session with one of the two. */
struct fake *aggregator_at(struct scene *s, uint16_t index, uint32_t ipv4);
const struct hd_server_stats *stats(const struct stage *t);
struct srv_job *job_of(const struct stage *t); /* at the replica */

/* The next round of both workers, at the next positions. */
struct sum *sum_make(struct stage *t, uint8_t dtype);
void tell_server(struct stage *t, const struct sum *sum);
void tell_replica(struct stage *t, const struct sum *sum);
void send_to_server(struct stage *t, const struct sum *sum);
void send_to_replica(struct stage *t, const struct sum *sum);
/* Its aggregator tells the replica that it will not come. */
void send_void(struct stage *t, const struct sum *sum);
/* Waits until the server has applied it. */
void committed(struct stage *t, const struct sum *sum);
/* All of it: told to both, sent to both, in the replica's model. */
void sum_whole(struct stage *t);

/* The replica's report about it to the controller; NULL: none yet. */
const struct hd_msg_report *report_of(const struct stage *t, const struct sum *sum);
/* And to its aggregator: how often, and at last why. */
size_t voided(const struct stage *t, const struct sum *sum, uint8_t *reason);

/* Nothing of any sum is at the replica: no transfer, and no buffer beside model and momentum. */
void assert_nothing_held(const struct stage *t);
/* A sum of which all bytes had come: no node has to be notified. */
void assert_forgotten(const struct stage *t, const struct sum *sum);
/* One of which something was missing: its aggregator and the controller are told. */
void assert_ended(const struct stage *t, const struct sum *sum, enum hd_reason why);
/* Sums that ended have left nothing, and the next ones come by themselves. */
void assert_goes_on(struct stage *t);

#endif
