/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aggregator core: groups that the controller makes (GROUP), each with inputs and outputs.
 *
 *      k inputs, 1 output     the sum of k updates on its way to the server (2: and to its replica)
 *      n inputs, n outputs    a shard of an all-reduce
 *      1 input,  k outputs    one model version, relayed to k workers
 *      trees                  an output may be another aggregator's input
 *
 *      chunks --> hd_reduce (one group) --> what is final --> hd_send (one output) --> chunks
 *
 * Nothing is stored and then forwarded: the first chunks of a sum leave when the first chunks of all members are in.
 *
 * A group is all or nothing. Its members are those that GROUP named; when one is lost, cancelled or silent while
 * others wait, the whole group fails: every member's worker is told VOID for its input and asks again, every receiver
 * VOID for its sum, the controller REPORT for the member that was the reason and REPORT for the group; it plans the
 * survivors anew. So a sum, its weight and its member set always agree.
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
	/* Adds what the core cannot see to the numbers that shells ask for: ports, queues, cores. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
};

struct hd_aggregator_config {
	const char *name;
	const char *host; /* its name in the topology */
	const struct hd_keyring *keys; /* outlives it */
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* who makes groups */
	struct hd_addr data; /* own address, as others reach it */
	uint64_t memory_bytes; /* for sums and what belongs to them; 0: 1 GiB */
	uint64_t early_bytes; /* of one ranked group: chunks kept before their turn; 0: 16 MiB */
	uint32_t receive_window_bytes; /* what the driver can buffer; 0: 1 MiB */
	uint32_t hold_us; /* a member may be silent for so long while others wait; 0: HD_HOLD_US */
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

/* Fails every group and closes every session, before the end. */
void hd_aggregator_drain(struct hd_aggregator *aggregator, hd_ns now, struct hd_sink *sink);

/* All since creation. A dropped chunk has no other effect than its counter. */
struct hd_aggregator_stats {
	uint64_t chunks, chunk_bytes;
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t drop_token; /* no such input: forged, late, or ahead of its GROUP */
	uint64_t
		drop_source; /* not from the address that the input's sender has its session from */
	uint64_t
		drop_mac; /* its MAC is not that of its header and values, or its key is not here */
	uint64_t drop_mismatch; /* the header or the size disagrees with the group */
	uint64_t drop_memory; /* no memory for what a group's first chunk needs */
	uint64_t drop_early; /* before its turn, and no room to keep it */
	uint64_t duplicates; /* chunks that were held already */
	uint64_t refused_messages; /* out of place: role, token, epoch */
	uint64_t groups, groups_delivered, groups_failed, groups_refused, groups_not_finite;
	uint64_t
		groups_broken; /* sparse updates that are no ascending runs, or a merged sum beyond its bound */
	uint64_t inputs_held; /* whole */
	uint64_t outputs_delivered, outputs_lost;
	uint64_t sends_broken; /* sessions given up because their queue was full */
	uint64_t jobs, groups_open, memory_bytes; /* now */
};
const struct hd_aggregator_stats *hd_aggregator_stats(const struct hd_aggregator *aggregator);
extern const struct hd_stat_group hd_aggregator_group;
extern const struct hd_stat_group *const hd_aggregator_groups[]; /* NULL after the last */
/* Adds these and the endpoint's, with what each means. */
void hd_aggregator_gather(const struct hd_aggregator *aggregator, struct hd_stats *stats);
/* What a shell gets by message: the tables sums, ports, queues, cores, counters and histograms, as hd_rows.h
 * has them; malloc'ed. NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_aggregator_shapes[]; /* NULL after the last */
char *hd_aggregator_table(
	const struct hd_aggregator *aggregator,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);

#endif
