/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The combiner of one group: adds its members' updates chunk by chunk as they come, and says how far the sum is
 * final. What is final never changes again and may be on its way while the rest still comes.
 *
 *      member 0  chunks -->|  hd_recv  |--+
 *      member 1  chunks -->|  hd_recv  |--+--> sum, chunk by chunk -->  | final ....... | partial |
 *      member 2  chunks -->|  hd_recv  |--+                             0            prefix
 *
 * A chunk is final when every member is in it, exactly once: hd_recv knows the duplicates. No partial sum leaves.
 *
 * Order. ARRIVAL adds what comes at once; fp32 sums then depend on the order in their last bits. RANKED adds the
 * members of each chunk in the order of the list, so that the sum is the same bits whatever came first; what comes
 * before its turn is kept, a share of early_bytes for each member, and beyond that dropped as if it had been lost
 * (its window says so beforehand: hd_reduce_window()). Fixed point does not depend on the order by itself.
 *
 * Sparse updates of several inputs are merged instead, see hd_merge.h: what is said of RANKED holds for them.
 *
 * 16-bit floats are added in fp32 and rounded once, in place, when their chunk is final. A single member is passed on
 * as it is, whatever its type.
 *
 * Source: the aggregator of MLfabric, section 5, which keeps whole updates; here nothing but the sum is kept, and its
 * first chunks leave before the last ones came.
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
	uint64_t bytes; /* of a sparse update: each has its own; 0: as the config has it */
};

struct hd_reduce_config {
	uint32_t job;
	uint8_t dtype; /* any; sparse updates of several inputs are merged (hd_merge.h) */
	uint8_t order; /* enum hd_group_order */
	int16_t exponent; /* of FIXED32: chunks with another one do not match */
	uint64_t bytes; /* of an update on the wire; of a merged one: the most that it may have */
	uint32_t input_count; /* 1 .. HD_GROUP_MEMBERS_MAX */
	const struct hd_reduce_input *inputs; /* copied */
	uint64_t
		early_bytes; /* RANKED, merged: payloads kept before their turn, all members together */
	void *sum; /* hd_reduce_sum_bytes(), aligned to 64; outlives the group */
};

struct hd_reduce;

/* Memory for the sum. */
uint64_t hd_reduce_sum_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count);
/* The same as an aggregator allocates it: rounded up by an eighth at most, so that sums of about the same size use the
 * same buffers again. */
uint64_t hd_reduce_buffer_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count);
/* The most that a group takes beside that, whatever chunks come. */
uint64_t hd_reduce_state_bytes(const struct hd_reduce_config *config);
/* What a group counts with, at its aggregator and in the controller's plans: its buffer, and its state with early_bytes
 * as they are in `config`, of which dtype, order, bytes (from 1) and input_count are looked at besides. */
uint64_t hd_reduce_memory_bytes(const struct hd_reduce_config *config);

/* Returns 0, -EINVAL (no inputs, no sum, type, order, bytes no multiple of the type's), -E2BIG (inputs), -ENOMEM. */
int hd_reduce_create(const struct hd_reduce_config *config, struct hd_reduce **reduce);
void hd_reduce_destroy(struct hd_reduce *reduce);

enum hd_reduce_result {
	HD_REDUCE_NEW, /* it is in the sum, or kept for its turn */
	HD_REDUCE_DUPLICATE,
	HD_REDUCE_DONE, /* it was the last one of this input */
	HD_REDUCE_MISMATCH, /* header or size disagree: nothing happened */
	HD_REDUCE_BROKEN, /* of a merged sum: there will be none, hd_reduce_culprit() */
	HD_REDUCE_EARLY, /* before its turn, and no room to keep it: dropped as loss */
	HD_REDUCE_NO_MEMORY /* for what the first chunk needs: dropped as loss */
};
/* Takes one chunk under the token of the input at index. The first one sets the payload of a full chunk for all.
 * Cost: one addition of the payload, of what was kept for it too, and a look at a final chunk for NaN and Inf. */
enum hd_reduce_result hd_reduce_chunk(
	struct hd_reduce *reduce,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

/* The payload of a full chunk, as any chunk tells it of an update of so many bytes; 0: it cannot be one of it, or its
 * chunks would be smaller than HD_REDUCE_CHUNK_BYTES_MIN. */
uint32_t hd_reduce_full_chunk(
	uint64_t total,
	uint8_t dtype,
	const struct hd_chunk_header *header,
	size_t payload_bytes
);
/* Who is why a merged sum is broken: an input, UINT32_MAX: none is, it is bigger than was said. */
uint32_t hd_reduce_culprit(const struct hd_reduce *reduce);

/* The input's receiver, for acknowledgements and samples. NULL before the first chunk of any input (merged: of this
 * one). */
struct hd_recv *hd_reduce_recv(const struct hd_reduce *reduce, uint32_t index);
/* What this input may send beyond what is acknowledged: `most`, or less while it runs ahead of its turn; at least a
 * chunk. Cost: RANKED: O(index). */
uint32_t hd_reduce_window(const struct hd_reduce *reduce, uint32_t index, uint32_t most);
/* True while this input is ahead of its turn and its share is used up: it has been told to wait. */
bool hd_reduce_is_full(const struct hd_reduce *reduce, uint32_t index);
/* True once after an input whose chunk was dropped as EARLY has room again: its sender is to be told. */
bool hd_reduce_relieved(struct hd_reduce *reduce, uint32_t index);

/* Bytes of the sum on the wire, from its start, that are final. */
uint64_t hd_reduce_final(const struct hd_reduce *reduce);
/* Bytes of the sum when all are known: of a merged one at its end; 0 before. */
uint64_t hd_reduce_total(const struct hd_reduce *reduce);
/* All of it is final. */
static inline bool hd_reduce_is_final(const struct hd_reduce *reduce) {
	return hd_reduce_total(reduce) != 0 && hd_reduce_final(reduce) == hd_reduce_total(reduce);
}
/* Where they lie: chunk i of chunk_bytes at sum + i * stride. 0 before the first chunk. */
uint32_t hd_reduce_chunk_bytes(const struct hd_reduce *reduce);
uint32_t hd_reduce_stride(const struct hd_reduce *reduce);
/* A final chunk has a NaN or an Inf, or a lane of fixed point overflowed. Not looked for with a single input. */
bool hd_reduce_not_finite(const struct hd_reduce *reduce);
/* Payload bytes that are kept before their turn now. */
uint64_t hd_reduce_early_bytes(const struct hd_reduce *reduce);

#endif
