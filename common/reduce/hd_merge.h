/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The merger of one group of sparse updates (runs of values, hd_runs.h): a value that several members have is their
 * sum, a value that no member has is not in it.
 *
 *      member 0   |==== 10..19 ====|       |= 40..44 =|
 *      member 1          |==== 15..24 ====|            |== 50..
 *      merged     |= 10..14 |+ 15..19 |= 20..24 |= 40..44 |           final as far as every member has come
 *                 one run: 10..24                                      next value: 45, as member 1 has passed 44
 *
 * Runs ascend within a member, so everything below the least index that may still come is final and is sent. Members
 * are added in the order of the list, value by value: the same bits in any order of arrival.
 *
 * Memory. The merged update is in `sum`, in chunks of its own. A member's chunks are kept from the first that is not
 * merged yet, as many as its share of early_bytes holds (at least two). Chunks beyond these are dropped as loss; the
 * member's window is small before that. The member that the others wait for always has room for its next chunk.
 *
 * The size of the merged update is known at its end; hd_runs_merged_bytes() is its bound.
 */
#ifndef HD_MERGE_H
#define HD_MERGE_H

#include "hd_reduce.h"

#define HD_MERGE_NONE UINT32_MAX

struct hd_merge;

/* The maximum memory of the merger beside the sum, for any chunks; without inputs: for any inputs. */
uint64_t hd_merge_state_bytes(const struct hd_reduce_config *config);
/* 0, -EINVAL (no sum, or an update without runs), -E2BIG (more than HD_MERGE_MEMBERS_MAX), -ENOMEM. */
int hd_merge_create(const struct hd_reduce_config *config, struct hd_merge **merge);
void hd_merge_destroy(struct hd_merge *merge);
/* Like hd_reduce_chunk(). Cost: values that became final, once; for each piece of them every member is examined. */
enum hd_reduce_result hd_merge_chunk(
	struct hd_merge *merge,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* The member whose chunks are no ascending runs; HD_MERGE_NONE: none, the sum was larger than `bytes`. */
uint32_t hd_merge_culprit(const struct hd_merge *merge);

struct hd_recv *hd_merge_recv(const struct hd_merge *merge, uint32_t index);
uint32_t hd_merge_window(const struct hd_merge *merge, uint32_t index, uint32_t most);
bool hd_merge_is_full(const struct hd_merge *merge, uint32_t index);
bool hd_merge_relieved(struct hd_merge *merge, uint32_t index);
/* Whole chunks only, until the end is known: any chunk may be the last one. */
uint64_t hd_merge_final(const struct hd_merge *merge);
/* Bytes of the merged update; 0: unknown yet. */
uint64_t hd_merge_total(const struct hd_merge *merge);
uint32_t hd_merge_chunk_bytes(const struct hd_merge *merge);
bool hd_merge_not_finite(const struct hd_merge *merge);
uint64_t hd_merge_kept_bytes(const struct hd_merge *merge);

#endif
