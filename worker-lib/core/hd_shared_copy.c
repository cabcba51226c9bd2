/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of a collective through shared memory: which are whose, copies and sums (hd_shared.h). */
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_memcpy.h"
#include "hd_shared.h"

#include <string.h>

#define STRIP                                                                                      \
	2048 /* values that are combined at a time: of fp32, 8 KiB stay in the first-level cache */
#define DIRECT_BYTES (16 << 10) /* of a member's values: up to here each adds for itself, */
#define DIRECT_ALL_BYTES (128 << 10) /* unless the members are many */
#define BLOCK_ALIGN 64 /* values: two members' blocks are in different lines */

/* --- which are whose ------------------------------------------------------------------------ */

static void take_all(const struct hd_shared_call *call, struct hd_shared_share *share) {
	share->first = 0;
	share->end = call->values;
}

static void take_block(const struct hd_shared_call *call, struct hd_shared_share *share) {
	share->first = hd_block_first(call->values, call->index, call->members);
	share->end = hd_block_first(call->values, call->index + 1, call->members);
}

static void from_all(const struct hd_shared_call *call, struct hd_shared_share *share) {
	share->giver = 0;
	share->giver_end = call->members;
}

static void from_root(const struct hd_shared_call *call, struct hd_shared_share *share) {
	share->giver = call->root;
	share->giver_end = call->root + 1;
}

static bool are_few(const struct hd_shared_call *call, size_t value) {
	const uint64_t most = DIRECT_ALL_BYTES / call->members;

	return call->values <= (most < DIRECT_BYTES ? most : DIRECT_BYTES) / value;
}

void hd_shared_share(const struct hd_shared_call *call, struct hd_shared_share *share) {
	const bool root = call->index == call->root;

	*share = (struct hd_shared_share){
		.value = hd_dtype_bytes(call->dtype),
		.values = call->values,
		.gives = true,
	};
	switch (call->collective) {
	case HD_COLLECTIVE_BROADCAST:
		share->gives = root;
		from_root(call, share);
		if (!root)
			take_all(call, share);
		break;
	case HD_COLLECTIVE_SCATTER:
		share->gives = root;
		from_root(call, share);
		if (!root)
			take_block(call, share);
		break;
	case HD_COLLECTIVE_ALLGATHER:
	case HD_COLLECTIVE_GATHER:
		share->gives = call->collective == HD_COLLECTIVE_ALLGATHER || !root;
		from_all(call, share);
		share->stride = call->values;
		if (root || call->collective == HD_COLLECTIVE_ALLGATHER)
			take_all(call, share);
		break;
	case HD_COLLECTIVE_ALLTOALL:
		from_all(call, share);
		take_block(call, share);
		share->stride = share->end - share->first;
		break;
	default: /* sums */
		share->direct = are_few(call, share->value);
		share->combines = !share->direct;
		if (call->collective == HD_COLLECTIVE_REDUCE_SCATTER)
			take_block(call, share);
		else if (call->collective == HD_COLLECTIVE_ALLREDUCE || root)
			take_all(call, share);
		break;
	}
}

/* --- pieces --------------------------------------------------------------------------------- */

struct span {
	uint64_t first, end;
};

/* The values of piece p. */
static struct span piece_of(const struct hd_shared_run *run, uint32_t p) {
	const uint64_t first = (uint64_t)p * run->per, end = first + run->per;

	return (struct span){first, end < run->share.values ? end : run->share.values};
}

/* The block of it that member i combines. */
static struct span block_of(const struct hd_shared_run *run, struct span piece, uint32_t i) {
	const uint64_t values = piece.end - piece.first, members = run->map->members;
	uint64_t size = (values + members - 1) / members, first, end;

	size = (size + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
	first = i * size < values ? i * size : values;
	end = first + size < values ? first + size : values;
	return (struct span){piece.first + first, piece.first + end};
}

static struct span overlap(struct span a, struct span b) {
	const uint64_t first = a.first > b.first ? a.first : b.first;
	const uint64_t end = a.end < b.end ? a.end : b.end;

	return (struct span){first, end > first ? end : first};
}

/* The place of value `at` of piece p in the slot of member i. */
static uint8_t *slot(const struct hd_shared_run *run, uint32_t i, uint32_t p, uint64_t at) {
	const struct hd_shared_map *map = run->map;
	const uint64_t half = (map->pieces + p) % 2;
	const uint64_t in_piece = at - (uint64_t)p * run->per;

	return map->slots + ((uint64_t)i * 2 + half) * map->piece_bytes
		+ in_piece * run->share.value;
}

static const uint8_t *given(const struct hd_shared_run *run, uint64_t at) {
	return (const uint8_t *)run->call->in + at * run->share.value;
}

static void put(const struct hd_shared_run *run, uint32_t p, struct span part) {
	if (part.end > part.first)
		memcpy(slot(run, run->call->index, p, part.first),
		       given(run, part.first),
		       (part.end - part.first) * run->share.value);
}

void hd_shared_copy_in(const struct hd_shared_run *run, uint32_t p) {
	const struct span piece = piece_of(run, p);
	struct span own = {piece.end, piece.end};

	if (!run->share.gives)
		return;
	if (run->share.combines)
		own = block_of(run, piece, run->call->index);
	put(run, p, (struct span){piece.first, own.first});
	put(run, p, (struct span){own.end, piece.end});
}

/* --- sums ----------------------------------------------------------------------------------- */

/* What member i gives of a strip. */
static const void *
member_values(const struct hd_shared_run *run, uint32_t i, uint32_t p, struct span strip) {
	return i == run->call->index ? (const void *)given(run, strip.first) :
				       (const void *)slot(run, i, p, strip.first);
}

/* In the order of ranks, as an aggregator adds in ranked order: the first one's values, then the others' to them. `to`
 * is aligned. */
static void
combine_strip(const struct hd_shared_run *run, uint32_t p, struct span strip, uint8_t *to) {
	const struct hd_shared_call *call = run->call;
	const size_t count = strip.end - strip.first;
	const bool half = hd_dtype_is_half(call->dtype);
	float wide[STRIP];
	void *sum = half ? (void *)wide : (void *)to;

	if (half)
		hd_half_to_f32(call->dtype, wide, member_values(run, 0, p, strip), count);
	else
		memcpy(to, member_values(run, 0, p, strip), count * run->share.value);
	for (uint32_t i = 1; i < call->members; i++)
		hd_combine(call->dtype, call->op, sum, member_values(run, i, p, strip), count);
	if (call->op == HD_REDUCE_OP_AVERAGE)
		hd_average(call->dtype, sum, count, call->members);
	if (half)
		hd_half_from_f32(call->dtype, (uint16_t *)(void *)to, wide, count, 1);
}

void hd_shared_combine(const struct hd_shared_run *run, uint32_t p) {
	const struct span own = block_of(run, piece_of(run, p), run->call->index);
	struct span strip = {own.first, own.first};

	while (strip.first < own.end) {
		strip.end = strip.first + STRIP < own.end ? strip.first + STRIP : own.end;
		combine_strip(run, p, strip, slot(run, run->call->index, p, strip.first));
		strip.first = strip.end;
	}
}

/* --- results -------------------------------------------------------------------------------- */

static void take(const struct hd_shared_run *run, void *to, const void *from, size_t bytes) {
	if (run->streams)
		hd_memcpy_stream(to, from, bytes);
	else
		memcpy(to, from, bytes);
}

/* `part` of member i's slot, to `at` values beyond where its first value is. */
static void
get(const struct hd_shared_run *run, uint32_t i, uint32_t p, struct span part, uint64_t at) {
	const size_t value = run->share.value;

	if (part.end > part.first)
		take(run,
		     (uint8_t *)run->call->out + (at + part.first - run->share.first) * value,
		     slot(run, i, p, part.first),
		     (part.end - part.first) * value);
}

/* The sum of what all have given. */
static void add_out(const struct hd_shared_run *run, uint32_t p, struct span wanted) {
	const size_t value = run->share.value;
	_Alignas(HD_SHARED_LINE) uint8_t sum[STRIP * sizeof(uint64_t)];
	struct span strip = wanted;

	while (strip.first < wanted.end) {
		strip.end = strip.first + STRIP < wanted.end ? strip.first + STRIP : wanted.end;
		combine_strip(run, p, strip, sum);
		memcpy((uint8_t *)run->call->out + (strip.first - run->share.first) * value,
		       sum,
		       (strip.end - strip.first) * value);
		strip.first = strip.end;
	}
}

void hd_shared_copy_out(const struct hd_shared_run *run, uint32_t p) {
	const struct hd_shared_share *share = &run->share;
	const struct span piece = piece_of(run, p);
	const struct span wanted = overlap(piece, (struct span){share->first, share->end});

	if (wanted.end == wanted.first)
		return;
	if (share->direct) {
		add_out(run, p, wanted);
		return;
	}
	for (uint32_t i = 0; share->combines && i < run->map->members; i++)
		get(run, i, p, overlap(wanted, block_of(run, piece, i)), 0);
	for (uint32_t i = share->giver; !share->combines && i < share->giver_end; i++)
		if (i != run->call->index)
			get(run, i, p, wanted, i * share->stride);
	if (run->streams)
		hd_memcpy_stream_end();
}
