/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists in GROUP, MEMBERS, REDUCE and SLOTS: records of a fixed size, one after the other (docs/wire.md).
 *
 *      GROUP    inputs  the transfers to an aggregator, in the order of their ranks
 *               outputs the transfers of their sum
 *      MEMBERS  members whose updates are in a sum, in the order of their positions
 *      REDUCE   shards  pieces of the values, in their order, each with its aggregator
 *      SLOTS    members that send into a switch's slots, in the order of their bits (seats)
 *               receivers of the sums
 *
 * Decoders accept any bytes: the result is a list within its limit, or an error.
 */
#ifndef HD_GROUP_H
#define HD_GROUP_H

#include "hd_limits.h"
#include "hd_message.h"

/* The worker in the header and events of a sum, which belongs to no single worker. Its round and attempt mean nothing,
 * only the token does. */
#define HD_GROUP_WORKER UINT16_MAX

/* After the server has applied a sum that a switch made, the slots may be kept and the members go on sending for this
 * long, for a replica that misses some of it. */
#define HD_SUM_TAIL_US 2000000

#define HD_GROUP_INPUT_BYTES 31
#define HD_GROUP_OUTPUT_BYTES 50
#define HD_GROUP_MEMBER_BYTES 31
#define HD_GROUP_SHARD_BYTES 42
#define HD_GROUP_SEAT_BYTES 24
#define HD_GROUP_RECEIVER_BYTES 14
#define HD_GROUP_BLOB_BYTES_MAX (HD_GROUP_MEMBERS_MAX * HD_GROUP_OUTPUT_BYTES)

/* GROUP.order: how the members' values are added. */
enum hd_group_order {
	HD_GROUP_ARRIVAL = 0, /* as they arrive: the fastest; fp32 sums differ in their last bits */
	HD_GROUP_RANKED = 1 /* in the order of the list: always the same bits */
};

/* REQUEST.avoid of an all-reduce: why it must not use a switch. */
enum hd_group_avoid {
	HD_GROUP_AVOID_NOT = 0,
	HD_GROUP_AVOID_VALUES = 1, /* one did not fit the exponent there */
	HD_GROUP_AVOID_STILL = 2 /* it stalled there: use aggregators, if there are any */
};

/* A transfer that ends at the aggregator. */
struct hd_group_input {
	uint64_t token;
	uint64_t after; /* token of the transfer whose end starts this one; 0: none */
	uint16_t worker;
	uint32_t round;
	uint8_t attempt;
	uint64_t bytes; /* of a sparse update; 0: GROUP.bytes (of a merged sum: the maximum) */
};

/* A transfer of the sum. `start_ns` counts from GROUP.origin_ns, on the controller's clock. */
struct hd_group_output {
	uint64_t token;
	uint64_t after; /* not 0: it waits for go, or its start time */
	hd_ns start_ns;
	uint64_t rate_bps; /* 0: bounded by congestion control only */
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
	uint64_t token; /* of its transfer to the aggregator, as in VOID and REPORT */
	hd_version base;
	uint16_t worker;
	uint32_t round;
	uint8_t attempt;
	float weight; /* by which its worker multiplied it */
	float norm; /* L2, without the weight */
};

/* A piece of a collective's values. */
struct hd_group_shard {
	uint64_t out_token,
		in_token; /* of the chunks that leave, and of the sum; 0: there are none */
	uint64_t bytes;
	uint32_t ipv4; /* of the aggregator */
	uint16_t port;
	float cc_weight;
	uint64_t first; /* where it begins: not before the end of the previous one */
};

/* A member of a lease. */
struct hd_group_seat {
	uint16_t worker;
	uint64_t token, result_token; /* of its chunks, and of its sums */
	uint32_t ipv4; /* where the sums go */
	uint16_t port;
};

/* A receiver of the sums of a lease; without any, its members receive them. */
struct hd_group_receiver {
	uint64_t token;
	uint32_t ipv4;
	uint16_t port;
};

/* The first value of block `index` of `count` blocks that are as equal as possible: values <= 2^40, count <= 2^16. */
static inline uint64_t hd_block_first(uint64_t values, uint32_t index, uint32_t count) {
	return values * index / count;
}

/* Each writes `count` records. Returns the bytes, or -EMSGSIZE (beyond capacity), -E2BIG (HD_GROUP_MEMBERS_MAX). */
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

/* The number of records in a list: 1 .. HD_GROUP_MEMBERS_MAX, or -EBADMSG (none, too many, an incomplete one).
 * record_bytes: HD_GROUP_..._BYTES. */
int hd_group_count(const struct hd_blob *blob, uint32_t record_bytes);
/* The record at index, below hd_group_count(). Values may be anything: their users check them. */
struct hd_group_input hd_group_get_input(const struct hd_blob *inputs, uint32_t index);
struct hd_group_output hd_group_get_output(const struct hd_blob *outputs, uint32_t index);
struct hd_group_member hd_group_get_member(const struct hd_blob *members, uint32_t index);
struct hd_group_shard hd_group_get_shard(const struct hd_blob *shards, uint32_t index);
struct hd_group_seat hd_group_get_seat(const struct hd_blob *seats, uint32_t index);
struct hd_group_receiver hd_group_get_receiver(const struct hd_blob *receivers, uint32_t index);

#endif
