/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The combiner of one group: adds its members' updates chunk by chunk as they arrive, and reports how much of the sum
 * is final. The final part never changes again and may be sent while the rest still arrives.
 *
 *      member 0  chunks -->|  hd_recv  |--+
 *      member 1  chunks -->|  hd_recv  |--+--> sum, chunk by chunk -->  | final ....... | partial |
 *      member 2  chunks -->|  hd_recv  |--+                             0            prefix
 *
 * A chunk is final when every member is in it, exactly once: hd_recv detects duplicates. No partial sum is sent.
 *
 * Order. ARRIVAL adds chunks at once; the last bits of fp32 sums then depend on the order. RANKED adds the members of
 * each chunk in the order of the list, so that the sum has the same bits in any order of arrival. Chunks before their
 * turn are kept, up to a share of early_bytes for each member, and dropped as loss beyond that (the window announces
 * it: hd_reduce_window()). Fixed point does not depend on the order.
 *
 * Sparse updates of several inputs are merged instead (hd_merge.h), with the properties of RANKED.
 *
 * 16-bit floats are combined in fp32 and rounded once, in place, when their chunk is final; an average is divided then.
 * A single member is passed on unchanged, in any type. "Sum" stands for the result of any operation.
 *
 * Source: the aggregator of MLfabric, section 5, which keeps whole updates. Here only the sum is kept, and its first
 * chunks are sent before the last ones have arrived.
 */
#ifndef HD_REDUCE_H
#define HD_REDUCE_H

#include "hd_group.h"
#include "hd_recv.h"

struct hd_reduce_input {
	uint64_t token;
	uint32_t round;
	uint16_t worker;
	uint8_t attempt;
	uint64_t bytes; /* of a sparse update, each its own; 0: the config's */
};

struct hd_reduce_config {
	uint32_t job;
	uint8_t dtype; /* any; sparse updates of several inputs are merged (hd_merge.h) */
	uint8_t op; /* enum hd_reduce_op; only sums of fixed point and of sparse updates */
	uint8_t order; /* enum hd_group_order */
	int16_t exponent; /* of FIXED32: chunks with another one are refused */
	uint64_t bytes; /* of an update on the wire; of a merged one: the maximum */
	uint32_t input_count; /* 1 .. HD_GROUP_MEMBERS_MAX */
	const struct hd_reduce_input *inputs; /* copied */
	uint64_t early_bytes; /* RANKED, merged: total payload kept before its turn */
	void *sum; /* hd_reduce_sum_bytes(), aligned to 64; must outlive the group */
};

struct hd_reduce;

/* Memory for the sum. */
uint64_t hd_reduce_sum_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count);
/* The size that an aggregator allocates: rounded up by at most an eighth, so that sums of similar sizes reuse
 * buffers. */
uint64_t hd_reduce_buffer_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count);
/* The maximum memory of a group beside that, for any chunks. */
uint64_t hd_reduce_state_bytes(const struct hd_reduce_config *config);
/* The memory charged for a group, at its aggregator and in the controller's plans: its buffer, and its state with
 * config's early_bytes. Also uses dtype, order, bytes (>= 1) and input_count. */
uint64_t hd_reduce_memory_bytes(const struct hd_reduce_config *config);

/* Returns 0, -EINVAL (no inputs, no sum, type, op, order, bytes not whole values), -E2BIG (inputs), -ENOMEM. */
int hd_reduce_create(const struct hd_reduce_config *config, struct hd_reduce **reduce);
void hd_reduce_destroy(struct hd_reduce *reduce);

enum hd_reduce_result {
	HD_REDUCE_NEW, /* it is in the sum, or kept for its turn */
	HD_REDUCE_DUPLICATE,
	HD_REDUCE_DONE, /* it was the last one of this input */
	HD_REDUCE_MISMATCH, /* the header or the size disagrees: ignored */
	HD_REDUCE_BROKEN, /* a merged sum that cannot be completed: hd_reduce_culprit() */
	HD_REDUCE_EARLY, /* before its turn, without room: dropped as loss */
	HD_REDUCE_NO_MEMORY /* for the group's first chunk: dropped as loss */
};
/* Takes one chunk with the token of the input at index. The first one sets the payload of a full chunk for all. Cost:
 * adding this payload and those kept for the chunk, and a check of a final chunk for NaN and Inf. */
enum hd_reduce_result hd_reduce_chunk(
	struct hd_reduce *reduce,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

/* The payload of a full chunk, from any chunk of an update of this size; 0: the chunk cannot be part of it, or its
 * chunks would be smaller than HD_REDUCE_CHUNK_BYTES_MIN. */
uint32_t hd_reduce_full_chunk(
	uint64_t total,
	uint8_t dtype,
	const struct hd_chunk_header *header,
	size_t payload_bytes
);
/* The input that broke a merged sum; UINT32_MAX: none, the sum is larger than announced. */
uint32_t hd_reduce_culprit(const struct hd_reduce *reduce);

/* The input's receiver, for acknowledgements and samples. NULL before the first chunk of any input (merged: of this
 * one). */
struct hd_recv *hd_reduce_recv(const struct hd_reduce *reduce, uint32_t index);
/* The window of this input: `most`, or less while it is ahead of its turn; at least a chunk. Cost: RANKED: O(index). */
uint32_t hd_reduce_window(const struct hd_reduce *reduce, uint32_t index, uint32_t most);
/* True while this input is ahead of its turn and its share is used up: its window makes it wait. */
bool hd_reduce_is_full(const struct hd_reduce *reduce, uint32_t index);
/* True once when an input whose chunk was dropped as EARLY has room again: acknowledge, so that its sender knows. */
bool hd_reduce_relieved(struct hd_reduce *reduce, uint32_t index);

/* Bytes of the sum on the wire, from its start, that are final. */
uint64_t hd_reduce_final(const struct hd_reduce *reduce);
/* Bytes of the whole sum; a merged one's are known at its end, 0 before. */
uint64_t hd_reduce_total(const struct hd_reduce *reduce);
/* The whole sum is final. */
static inline bool hd_reduce_is_final(const struct hd_reduce *reduce) {
	return hd_reduce_total(reduce) != 0 && hd_reduce_final(reduce) == hd_reduce_total(reduce);
}
/* The layout of the sum: chunk i of chunk_bytes at sum + i * stride. 0 before the first chunk. */
uint32_t hd_reduce_chunk_bytes(const struct hd_reduce *reduce);
uint32_t hd_reduce_stride(const struct hd_reduce *reduce);
/* A final chunk has a NaN or an Inf, or a lane of fixed point overflowed. Not checked with a single input. */
bool hd_reduce_not_finite(const struct hd_reduce *reduce);
/* Payload bytes that are kept before their turn now. */
uint64_t hd_reduce_early_bytes(const struct hd_reduce *reduce);

#endif
