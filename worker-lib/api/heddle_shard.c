/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rows of a data set are whose, from nothing but the list of members.
 *
 *   rows     0 ........................................ size - 1
 *   blocks   |  0  |  1  |  2  |  3  | ...            as equal as may be, SHARD_BLOCKS_MAX at most
 *   block b  goes to the worker r with the greatest weight(b, r) that has room for it
 *
 * Weights do not know who else is there (rendezvous hashing: Thaler and Ravishankar, IEEE/ACM Trans. Networking 6(1),
 * 1998), so when a worker goes only its blocks move, and to one that comes only those move that are its from then on.
 * The room bounds what one of them can get by chance; it is wide enough that hardly a block ever meets it.
 */
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define SHARD_BLOCKS_MAX 65536
#define SHARD_ROWS_MAX (UINT64_C(1) << 47)

/* As the finalizer of splitmix64: every bit of the input moves every bit of the result. */
static uint64_t weight(uint64_t block, int rank) {
	uint64_t x = block * UINT64_C(0x9e3779b97f4a7c15)
		+ ((uint64_t)rank + 1) * UINT64_C(0xd1342543de82ef95);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Blocks that one worker takes at most. */
static uint64_t room_of(uint64_t blocks, uint32_t workers) {
	double mean = (double)blocks / workers;

	return (uint64_t)(mean + fmax(mean / 4, 4 * sqrt(mean))) + 1;
}

/* The members, ascending. */
struct members {
	const int *rank;
	uint32_t count;
};

/* The index of the worker that gets the block. Rooms are more than blocks: there is one. */
static uint32_t choose(const struct members *members, const uint64_t *room, uint64_t block) {
	uint64_t best_weight = 0;
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < members->count; i++) {
		uint64_t mine = room[i] > 0 ? weight(block, members->rank[i]) : 0;

		if (room[i] > 0 && (best == UINT32_MAX || mine > best_weight)) {
			best = i;
			best_weight = mine;
		}
	}
	return best;
}

static int check(const int *ranks, size_t rank_count, uint64_t size, int rank, uint32_t *mine) {
	*mine = UINT32_MAX;
	if (!ranks && rank_count > 0)
		return heddle_fail(-EINVAL, "ranks: NULL");
	if (rank_count > HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL,
			"rank_count: %zu, more than %d (HEDDLE_WORKERS_MAX)",
			rank_count,
			HEDDLE_WORKERS_MAX
		);
	if (size > SHARD_ROWS_MAX)
		return heddle_fail(-E2BIG, "dataset_size: more than 2^47");
	for (size_t i = 0; i < rank_count; i++) {
		if (ranks[i] < 0 || ranks[i] >= HEDDLE_WORKERS_MAX)
			return heddle_fail(
				-EINVAL,
				"ranks: %d is not within 0 to %d",
				ranks[i],
				HEDDLE_WORKERS_MAX - 1
			);
		if (i > 0 && ranks[i] <= ranks[i - 1])
			return heddle_fail(-EINVAL, "ranks: they do not ascend");
		if (ranks[i] == rank)
			*mine = (uint32_t)i;
	}
	return *mine == UINT32_MAX ? heddle_fail(-ENOENT, "rank %d: not a member", rank) : 0;
}

/* The ranges so far; beyond capacity they are only counted. */
struct ranges {
	struct heddle_range *item;
	size_t capacity, count;
	uint64_t end; /* of the last one */
};

/* Appends rows first .. end - 1, to the range before if they follow it. */
static void add(struct ranges *ranges, uint64_t first, uint64_t end) {
	bool follows = ranges->count > 0 && ranges->end == first;

	ranges->end = end;
	if (!follows)
		ranges->count++;
	if (ranges->count > ranges->capacity)
		return;
	if (!follows)
		ranges->item[ranges->count - 1] = (struct heddle_range){first, 0};
	ranges->item[ranges->count - 1].count += end - first;
}

long heddle_shard(
	const int *ranks,
	size_t rank_count,
	uint64_t dataset_size,
	int rank,
	struct heddle_range *ranges,
	size_t capacity
) {
	uint64_t blocks = dataset_size < SHARD_BLOCKS_MAX ? dataset_size : SHARD_BLOCKS_MAX;
	struct ranges found = {ranges, ranges ? capacity : 0, 0, 0};
	const struct members members = {ranks, (uint32_t)rank_count};
	uint64_t *room;
	uint32_t mine;
	int rc = check(ranks, rank_count, dataset_size, rank, &mine);

	if (rc < 0)
		return rc;
	room = calloc(rank_count, sizeof *room);
	if (!room)
		return heddle_fail(-ENOMEM, "no memory");
	for (uint32_t i = 0; i < members.count; i++)
		room[i] = room_of(blocks, members.count);
	for (uint64_t block = 0; block < blocks; block++) {
		uint32_t chosen = choose(&members, room, block);

		room[chosen]--;
		if (chosen == mine)
			add(&found,
			    block * dataset_size / blocks,
			    (block + 1) * dataset_size / blocks);
	}
	free(room);
	return (long)found.count;
}
