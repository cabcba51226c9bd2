/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aggregator core: groups that the controller creates (GROUP), each with inputs and outputs.
 *
 *      k inputs, 1 output     the sum of k updates for the server (2 outputs: and for its replica)
 *      n inputs, n outputs    a shard of an all-reduce
 *      1 input,  k outputs    one model version, relayed to k workers
 *      trees                  an output may be another aggregator's input
 *
 *      chunks --> hd_reduce (one group) --> final part --> hd_send (one output) --> chunks
 *
 * The first chunks of a sum leave as soon as the first chunks of all members are here: no store-and-forward.
 *
 * A group succeeds or fails as a whole. Its members are those that GROUP named. When one is lost, cancelled, or silent
 * while others wait, the whole group fails: every member gets VOID for its input and asks again, every receiver gets
 * VOID for its sum, and the controller gets REPORT for the member that caused it and REPORT for the group. The
 * controller plans the survivors again. So a sum, its weight and its member set always agree.
 *
 * Source: MLfabric, section 5; where it differs: see hd_reduce.h.
 */
#ifndef HD_AGGREGATOR_H
#define HD_AGGREGATOR_H

#include "hd_event.h"
#include "hd_keys.h"
#include "hd_node.h"
#include "hd_stats.h"

struct hd_aggregator;

struct hd_aggregator_ops {
	/* Adds counters from outside of the core, of ports, queues and cores, to those that shells ask for. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
};

struct hd_aggregator_config {
	const char *name;
	const char *host; /* its name in the topology */
	const struct hd_keyring *keys; /* outlives it */
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* that creates the groups */
	struct hd_addr data; /* own address, as others reach it */
	uint64_t memory_bytes; /* for sums and their bookkeeping; 0: 1 GiB */
	uint64_t early_bytes; /* for early chunks of one ranked group; 0: 16 MiB */
	uint32_t receive_window_bytes; /* what the driver can buffer; 0: 1 MiB */
	uint32_t hold_us; /* silence of a member while others wait; 0: HD_HOLD_US */
	/* Of the worker in whose process it runs: it adds the all-reduces of that job only, as long as that worker is
	 * registered. job 0: of no worker, for all jobs. */
	uint32_t job;
	uint16_t worker;
	const struct hd_aggregator_ops *ops; /* may be NULL */
	void *owner;
};

/* 0, -EINVAL (no key with key_id, name or host too long), -ENOMEM. */
int hd_aggregator_create(
	const struct hd_aggregator_config *config,
	struct hd_aggregator **aggregator
);
void hd_aggregator_destroy(struct hd_aggregator *aggregator);
extern const struct hd_core_ops hd_aggregator_ops;

/* Refuses new groups; those that it has go on. It may end without loss when it is idle. */
void hd_aggregator_retire(struct hd_aggregator *aggregator);
/* It has no group, and its controller, if it has one, has all reports. */
bool hd_aggregator_is_idle(const struct hd_aggregator *aggregator);
/* Fails every group and closes every session. Comes before hd_aggregator_destroy(). */
void hd_aggregator_drain(struct hd_aggregator *aggregator, hd_ns now, struct hd_sink *sink);

/* Counted since creation. A dropped chunk has no effect other than its counter. */
struct hd_aggregator_stats {
	uint64_t chunks, chunk_bytes;
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t drop_token; /* no such input: forged, late, or ahead of its GROUP */
	uint64_t drop_source; /* not from the address of the sender's session */
	uint64_t drop_mac; /* the MAC does not match the header and values, or the key is unknown */
	uint64_t drop_mismatch; /* the header or the size disagrees with the group */
	uint64_t drop_memory; /* no memory for what a group's first chunk needs */
	uint64_t drop_early; /* before its turn, without room to keep it */
	uint64_t duplicates; /* chunks that were held already */
	uint64_t refused_messages; /* wrong role, token or epoch */
	uint64_t groups, groups_delivered, groups_failed, groups_refused, groups_not_finite;
	uint64_t groups_broken; /* sparse runs not ascending, or a merged sum beyond its bound */
	uint64_t inputs_held; /* whole */
	uint64_t outputs_delivered, outputs_lost;
	uint64_t sends_broken; /* sessions closed because their queue was full */
	uint64_t jobs, groups_open, memory_bytes; /* now */
};
const struct hd_aggregator_stats *hd_aggregator_stats(const struct hd_aggregator *aggregator);
extern const struct hd_stat_group hd_aggregator_group;
extern const struct hd_stat_group *const hd_aggregator_groups[]; /* NULL after the last */
/* Adds these counters and the endpoint's, with their descriptions. */
void hd_aggregator_gather(const struct hd_aggregator *aggregator, struct hd_stats *stats);
/* Answers a shell: the tables sums, ports, queues, cores, counters and histograms in hd_rows.h's format; malloc'ed.
 * NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_aggregator_shapes[]; /* NULL after the last */
char *hd_aggregator_table(
	const struct hd_aggregator *aggregator,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);

#endif
