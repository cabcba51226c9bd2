/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The merger of one group of sparse updates (runs of values, hd_runs.h): a value that several members name is their
 * sum, one that nobody names is not in it.
 *
 *      member 0   |==== 10..19 ====|       |= 40..44 =|
 *      member 1          |==== 15..24 ====|            |== 50..
 *      merged     |= 10..14 |+ 15..19 |= 20..24 |= 40..44 |           final as far as every member has come
 *                 one run: 10..24                                      next value: 45, as member 1 has passed 44
 *
 * Runs ascend within a member, so whatever lies before the least index that may still come is final and leaves. Members
 * are added in the order of the list, value by value: the same bits whatever came first.
 *
 * Memory. The merged update lies in `sum`, in chunks of its own. A member's chunks are kept from the first that is not
 * merged yet on, as many as its share of early_bytes holds (two at least); what lies further ahead is dropped as loss,
 * and its window is small before that. The member that the others wait for always has room for its next chunk.
 *
 * How big the merged update is shows at its end; hd_runs_merged_bytes() is its bound.
 */
#ifndef HD_MERGE_H
#define HD_MERGE_H

#include "hd_reduce.h"

#define HD_MERGE_NOBODY UINT32_MAX

struct hd_merge;

/* The most that the merger takes beside the sum, whatever chunks come; without inputs whatever they are. */
uint64_t hd_merge_state_bytes(const struct hd_reduce_config *config);
/* 0, -EINVAL (no sum, an update that is no runs), -E2BIG (more than HD_MERGE_MEMBERS_MAX), -ENOMEM. */
int hd_merge_create(const struct hd_reduce_config *config, struct hd_merge **merge);
void hd_merge_destroy(struct hd_merge *merge);
/* As hd_reduce_chunk(). Cost: what became final, once; for each piece of it a look at every member. */
enum hd_reduce_result hd_merge_chunk(
	struct hd_merge *merge,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* The member whose chunks are no ascending runs; HD_MERGE_NOBODY: all are, the sum was bigger than `bytes`. */
uint32_t hd_merge_culprit(const struct hd_merge *merge);

struct hd_recv *hd_merge_recv(const struct hd_merge *merge, uint32_t index);
uint32_t hd_merge_window(const struct hd_merge *merge, uint32_t index, uint32_t most);
bool hd_merge_is_full(const struct hd_merge *merge, uint32_t index);
bool hd_merge_relieved(struct hd_merge *merge, uint32_t index);
/* Whole chunks, until the end is known: which chunk is the last one is not. */
uint64_t hd_merge_final(const struct hd_merge *merge);
/* Bytes of the merged update; 0: not known yet. */
uint64_t hd_merge_total(const struct hd_merge *merge);
uint32_t hd_merge_chunk_bytes(const struct hd_merge *merge);
bool hd_merge_not_finite(const struct hd_merge *merge);
uint64_t hd_merge_kept_bytes(const struct hd_merge *merge);

#endif
