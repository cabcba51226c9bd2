/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists in GROUP, MEMBERS, REDUCE and SLOTS: records of a fixed size, one after the other (docs/wire.md).
 *
 *      GROUP    inputs  whom an aggregator takes chunks from, in the order of their ranks
 *               outputs where the sum of them goes
 *      MEMBERS  members whose updates are in a sum, in the order of their positions
 *      REDUCE   shards  pieces of a worker's values, one after the other, each with its aggregator
 *      SLOTS    members who sends into a switch's slots, in the order of their bits (seats)
 *               receivers of the sums
 *
 * Decoders are total: any bytes are a list within its limit, or an error.
 */
#ifndef HD_GROUP_H
#define HD_GROUP_H

#include "hd_limits.h"
#include "hd_message.h"

/* Whose a sum is: HD_CHUNK's and an event's worker, where it is nobody's alone. Its round and attempt say nothing,
 * the token does. */
#define HD_GROUP_WORKER UINT16_MAX

/* For so long after the server applied a sum that a switch made may its slots be kept, and its members go on sending,
 * for a replica that misses some of it. */
#define HD_SUM_TAIL_US 2000000

#define HD_GROUP_INPUT_BYTES 31
#define HD_GROUP_OUTPUT_BYTES 50
#define HD_GROUP_MEMBER_BYTES 31
#define HD_GROUP_SHARD_BYTES 34
#define HD_GROUP_SEAT_BYTES 24
#define HD_GROUP_RECEIVER_BYTES 14
#define HD_GROUP_BLOB_BYTES_MAX (HD_GROUP_MEMBERS_MAX * HD_GROUP_OUTPUT_BYTES)

/* GROUP.order: how the members' values are added. */
enum hd_group_order {
	HD_GROUP_ARRIVAL = 0, /* as they come: the fastest; fp32 sums differ in their last bits */
	HD_GROUP_RANKED = 1 /* in the order of the list: always the same bits */
};

/* REQUEST.avoid of an all-reduce: why not through a switch. */
enum hd_group_avoid {
	HD_GROUP_AVOID_NOT = 0,
	HD_GROUP_AVOID_VALUES = 1, /* fixed point cannot sum them */
	HD_GROUP_AVOID_STILL
		= 2 /* it stood still there: rather over aggregators, if there are any */
};

/* A transfer that ends at the aggregator. */
struct hd_group_input {
	uint64_t token;
	uint64_t after; /* token of the transfer whose end is this one's start; 0: none */
	uint16_t worker;
	uint32_t round;
	uint8_t attempt;
	uint64_t
		bytes; /* of a sparse update; 0: GROUP.bytes, which of a sum of sparse ones is the most that it may have */
};

/* A transfer of the sum. `start_ns` counts from GROUP.origin_ns, on the controller's clock. */
struct hd_group_output {
	uint64_t token;
	uint64_t after; /* not 0: it waits for go, or its start */
	hd_ns start_ns;
	uint64_t rate_bps; /* 0: what congestion control allows */
	uint8_t role; /* enum hd_role of the receiver */
	uint16_t worker; /* of a relayed pull */
	uint32_t round;
	uint8_t attempt;
	uint32_t ipv4;
	uint16_t port;
	float cc_weight;
};

/* One update of a sum. */
struct hd_group_member {
	uint64_t token; /* of its transfer to the aggregator: names it in VOID and REPORT */
	hd_version base;
	uint16_t worker;
	uint32_t round;
	uint8_t attempt;
	float weight; /* by which its worker multiplied it */
	float norm; /* L2, before that */
};

/* A piece of an all-reduce; it begins where the one before ends. */
struct hd_group_shard {
	uint64_t out_token, in_token; /* under which it leaves, and under which the sum comes */
	uint64_t bytes;
	uint32_t ipv4; /* of the aggregator */
	uint16_t port;
	float cc_weight;
};

/* A member of a lease. */
struct hd_group_seat {
	uint16_t worker;
	uint64_t token, result_token; /* of its chunks, and of the sums that it gets */
	uint32_t ipv4; /* where those go */
	uint16_t port;
};

/* Who gets the sums of a lease instead of its members. */
struct hd_group_receiver {
	uint64_t token;
	uint32_t ipv4;
	uint16_t port;
};

/* Each writes `count` records. Returns the bytes, or -EMSGSIZE (beyond capacity), -E2BIG
 * (HD_GROUP_MEMBERS_MAX). */
int hd_group_put_inputs(
	const struct hd_group_input *inputs,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);
int hd_group_put_outputs(
	const struct hd_group_output *outputs,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);
int hd_group_put_members(
	const struct hd_group_member *members,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);
int hd_group_put_shards(
	const struct hd_group_shard *shards,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);
int hd_group_put_seats(
	const struct hd_group_seat *seats,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);
int hd_group_put_receivers(
	const struct hd_group_receiver *receivers,
	uint32_t count,
	uint8_t *data,
	size_t capacity
);

/* How many records a list has: 1 .. HD_GROUP_MEMBERS_MAX, or -EBADMSG (none, too many, part of one).
 * record_bytes: HD_GROUP_..._BYTES. */
int hd_group_count(const struct hd_blob *blob, uint32_t record_bytes);
/* The record at index, which hd_group_count() has seen. Values may be anything: their users check. */
struct hd_group_input hd_group_get_input(const struct hd_blob *inputs, uint32_t index);
struct hd_group_output hd_group_get_output(const struct hd_blob *outputs, uint32_t index);
struct hd_group_member hd_group_get_member(const struct hd_blob *members, uint32_t index);
struct hd_group_shard hd_group_get_shard(const struct hd_blob *shards, uint32_t index);
struct hd_group_seat hd_group_get_seat(const struct hd_blob *seats, uint32_t index);
struct hd_group_receiver hd_group_get_receiver(const struct hd_blob *receivers, uint32_t index);

#endif
