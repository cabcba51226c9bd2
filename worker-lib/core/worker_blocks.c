/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which values of a collective are whose. A round is about `total` values, in whose order REDUCE names shards. A worker
 * gives a range of them, and receives one, each in memory of its own:
 *
 *                     total    in                        out
 *   all-reduce        count    all                       all
 *   reduce            count    all                       all, at the root
 *   broadcast, send   count    all, at the root          all, at the others that do not have it
 *   all-gather        n count  its block                 all; its own block is copied
 *   gather            n count  its block                 all, at the root; its own block is copied
 *   reduce-scatter    count    all                       its block
 *   scatter           count    all, at the root          its block; the root's is copied
 *   all-to-all        n count  its row                   its block of each row; that of its own row is copied
 *
 * Block i is that of the i-th member in the order of ranks. In an all-to-all, row i is what the i-th member gives, and
 * each row has n blocks:
 *
 *                      | row 0:  0 |  1    |  2    | row 1:  0 |  1     |  2    | row 2:  0 |  1    |  2    |
 *     member 1                     | takes |       | gives     | copies | gives |           | takes |       |
 */
#include "hd_group.h"
#include "worker_blocks.h"

#include <errno.h>
#include <string.h>

static bool is_root(const struct hd_worker *worker, const struct worker_reduce *r) {
	return worker->config.rank == r->args.root;
}

static bool is_all_to_all(const struct worker_reduce *r) {
	return r->args.collective == HD_COLLECTIVE_ALLTOALL;
}

/* The range of values that this worker gives, and the one that it receives, with its own block. */
static void set_ranges(const struct hd_worker *worker, struct worker_reduce *r) {
	const struct worker_range all = {0, r->total}, none = {0, 0};
	const bool root = is_root(worker, r);

	switch (r->args.collective) {
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_SEND:
		r->gives = root ? all : none;
		r->takes = root || r->args.state == HD_REQUEST_HAS ? none : all;
		break;
	case HD_COLLECTIVE_REDUCE:
		r->gives = all;
		r->takes = root ? all : none;
		break;
	case HD_COLLECTIVE_ALLGATHER:
		r->gives = r->block;
		r->takes = all;
		break;
	case HD_COLLECTIVE_REDUCE_SCATTER:
		r->gives = all;
		r->takes = r->block;
		break;
	case HD_COLLECTIVE_GATHER:
		r->gives = root ? none : r->block;
		r->takes = root ? all : none;
		break;
	case HD_COLLECTIVE_SCATTER:
		r->gives = root ? all : none;
		r->takes = root ? none : r->block;
		break;
	case HD_COLLECTIVE_ALLTOALL: /* takes: of the result */
		r->gives.first = r->index * r->args.values;
		r->gives.end = r->gives.first + r->args.values;
		r->takes.first = 0;
		r->takes.end = (r->block.end - r->block.first) * r->members.count;
		break;
	default:
		r->gives = r->takes = all;
		break;
	}
}

/* Its own block is copied, and crosses no link. */
static bool keeps_block(const struct hd_worker *worker, const struct worker_reduce *r) {
	return r->args.collective == HD_COLLECTIVE_ALLGATHER || is_all_to_all(r)
		|| ((r->args.collective == HD_COLLECTIVE_GATHER
		     || r->args.collective == HD_COLLECTIVE_SCATTER)
		    && is_root(worker, r));
}

static bool is_gathered(const struct worker_reduce *r) {
	return r->args.collective == HD_COLLECTIVE_ALLGATHER
		|| r->args.collective == HD_COLLECTIVE_GATHER;
}

/* This worker's place among the members; -1: it is none. */
static int index_of(const struct hd_roster *members, uint16_t rank) {
	int index = 0;

	for (uint16_t i = 0; i < rank; i++)
		index += hd_roster_has(members, i);
	return hd_roster_has(members, rank) ? index : -1;
}

/* Of the values that there are, or of its row of them. */
static void set_block(struct worker_reduce *r, uint32_t members) {
	const uint64_t values = is_all_to_all(r) ? r->args.values : r->total;
	const uint64_t row = is_all_to_all(r) ? r->index * values : 0;

	r->block.first = row + hd_block_first(values, r->index, members);
	r->block.end = row + hd_block_first(values, r->index + 1, members);
}

int worker_blocks_begin(
	const struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	const size_t value = hd_dtype_bytes(r->args.dtype);
	const uint32_t members = message->workers;
	int index = 0;

	memset(&r->members, 0, sizeof r->members);
	r->pub.members = message->members.bytes > 0 ? &r->members : NULL;
	if (message->members.bytes > 0) {
		if (hd_roster_read(
			    &r->members,
			    message->workers,
			    message->members.data,
			    message->members.bytes
		    )
		    < 0)
			return -EINVAL;
		index = index_of(&r->members, worker->config.rank);
	} else if (r->args.collective != HD_COLLECTIVE_ALLREDUCE) {
		return -EINVAL;
	}
	if (index < 0)
		return -EINVAL;
	r->index = (uint32_t)index;
	r->total = r->args.values * (is_gathered(r) || is_all_to_all(r) ? members : 1);
	if (message->bytes != r->total * value)
		return -EINVAL;
	set_block(r, members);
	if (value == 0 || r->total > HD_MODEL_BYTES_MAX / value)
		return -EINVAL;
	set_ranges(worker, r);
	if (r->args.room > 0 && r->takes.end - r->takes.first > r->args.room)
		return -EINVAL;
	return 0;
}

static uint64_t values_of(const struct worker_range *range) {
	return range->end - range->first;
}

uint64_t worker_blocks_due(const struct hd_worker *worker, const struct worker_reduce *r) {
	const bool copied = keeps_block(worker, r) && values_of(&r->takes) > 0;

	return values_of(&r->takes) - (copied ? values_of(&r->block) : 0);
}

uint64_t worker_blocks_to_send(const struct hd_worker *worker, const struct worker_reduce *r) {
	const bool keeps = is_all_to_all(r)
		|| (r->args.collective == HD_COLLECTIVE_SCATTER && is_root(worker, r));
	const bool alone = hd_roster_has(&r->members, worker->config.rank) && r->members.count == 1;

	/* A broadcast without shards has no receivers, or they have the values from an earlier attempt. */
	if (r->args.collective == HD_COLLECTIVE_BROADCAST && r->shard_count == 0)
		return 0;
	if (r->args.collective == HD_COLLECTIVE_ALLGATHER && alone)
		return 0;
	return values_of(&r->gives) - (keeps ? values_of(&r->block) : 0);
}

static bool is_within(const struct worker_range *range, uint64_t first, uint64_t count) {
	return first >= range->first && first < range->end && count <= range->end - first;
}

static bool overlaps(const struct worker_range *range, uint64_t first, uint64_t count) {
	return first < range->end && range->first < first + count;
}

bool worker_blocks_given(
	const struct worker_reduce *r,
	uint64_t first,
	uint64_t count,
	uint64_t *at
) {
	*at = first - r->gives.first;
	if (is_all_to_all(r) && overlaps(&r->block, first, count))
		return false;
	return is_within(&r->gives, first, count);
}

/* Of its block in each row. */
static bool
taken_of_row(const struct worker_reduce *r, uint64_t first, uint64_t count, uint64_t *at) {
	const uint64_t row = first / r->args.values, size = values_of(&r->block);
	struct worker_range here;

	here.first = row * r->args.values + r->block.first - r->index * r->args.values;
	here.end = here.first + size;
	*at = row * size + first - here.first;
	return row < r->members.count && row != r->index && is_within(&here, first, count);
}

bool worker_blocks_taken(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	uint64_t first,
	uint64_t count,
	uint64_t *at
) {
	if (is_all_to_all(r))
		return taken_of_row(r, first, count, at);
	*at = first - r->takes.first;
	if (keeps_block(worker, r) && overlaps(&r->block, first, count))
		return false;
	return is_within(&r->takes, first, count);
}

void worker_blocks_copy(const struct hd_worker *worker, const struct worker_reduce *r) {
	const size_t value = hd_dtype_bytes(r->args.type);
	const uint64_t first = r->block.first * value, bytes = values_of(&r->block) * value;
	const uint64_t of_row = (r->block.first - r->gives.first) * value;

	if (!keeps_block(worker, r) || !r->args.out || bytes == 0)
		return;
	if (is_all_to_all(r))
		memmove((uint8_t *)r->args.out + r->index * bytes,
			(const uint8_t *)r->args.in + of_row,
			bytes);
	else if (is_gathered(r))
		memmove((uint8_t *)r->args.out + first, r->args.in, bytes);
	else
		memmove(r->args.out, (const uint8_t *)r->args.in + first, bytes);
}
