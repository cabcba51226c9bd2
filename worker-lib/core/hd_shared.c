/* SPDX-License-Identifier: BSD-3-Clause */
/* A round through shared memory, step by step (hd_shared.h). */
#include "hd_assert.h"
#include "hd_shared.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define PAGE 4096
#define DEAD (UINT64_C(1) << 63)
#define GIVEN_SHIFT 32
#define GIVEN_MASK UINT64_C(0xffff)
#define STREAM_BYTES (8 << 20) /* of a result: it would push the segment out of the caches */

/* --- the segment ---------------------------------------------------------------------------- */

static size_t head_bytes(uint32_t members) {
	const size_t bytes
		= sizeof(struct hd_shared_head) + members * sizeof(struct hd_shared_member);

	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Large enough that waking the others costs little, and the segment stays in the processor's cache. */
uint32_t hd_shared_piece_bytes(uint32_t members) {
	const uint32_t most = 512 << 10, least = 64 << 10, all = 8 << 20;
	const uint32_t part = all / 2 / members / PAGE * PAGE;

	return part > most ? most : part < least ? least : part;
}

size_t hd_shared_bytes(uint32_t members, uint32_t piece_bytes) {
	return head_bytes(members) + (size_t)2 * members * piece_bytes;
}

void hd_shared_init(void *memory, uint64_t token, uint32_t members, uint32_t piece_bytes) {
	struct hd_shared_head *head = memory;

	head->token = token;
	head->members = members;
	head->piece_bytes = piece_bytes;
	head->magic = HD_SHARED_MAGIC;
}

int hd_shared_attach(
	struct hd_shared_map *map,
	void *memory,
	uint64_t token,
	uint32_t members,
	uint32_t piece_bytes
) {
	struct hd_shared_head *head = memory;

	if (head->magic != HD_SHARED_MAGIC || head->token != token || head->members != members
	    || head->piece_bytes != piece_bytes)
		return -EPROTO;
	*map = (struct hd_shared_map){
		.head = head,
		.slots = (uint8_t *)memory + head_bytes(members),
		.members = members,
		.piece_bytes = piece_bytes,
	};
	return 0;
}

/* --- what becomes of a round ---------------------------------------------------------------- */

static uint32_t turn_of(uint64_t fate) {
	return (uint32_t)fate;
}

static bool is_complete(uint64_t fate, uint32_t turn) {
	return (int32_t)(turn_of(fate) - turn) > 0;
}

static void ring(const struct hd_shared_map *map) {
	(void)atomic_fetch_add(&map->head->bell.pieces, 1);
}

bool hd_shared_kill(const struct hd_shared_map *map, uint32_t turn) {
	uint64_t fate = atomic_load(&map->head->fate);

	while (!is_complete(fate, turn) && (fate & DEAD) == 0)
		if (atomic_compare_exchange_weak(&map->head->fate, &fate, fate | DEAD)) {
			ring(map);
			return true;
		}
	return !is_complete(fate, turn);
}

/* Pieces of which it has given all. */
static uint32_t given_pieces(const struct hd_shared_run *run) {
	return run->share.combines ? run->mids : run->ins;
}

/* One more member has given all that the others need: the last one completes the round. */
static enum hd_shared_next give(struct hd_shared_run *run) {
	struct hd_shared_head *head = run->map->head;
	uint64_t fate = atomic_load(&head->fate), next;

	hd_assert(!run->given && given_pieces(run) == run->pieces);
	do {
		if (fate & DEAD)
			return HD_SHARED_VOID;
		if (turn_of(fate) != run->map->turn)
			return HD_SHARED_BROKEN;
		next = fate + (UINT64_C(1) << GIVEN_SHIFT);
		if ((next >> GIVEN_SHIFT & GIVEN_MASK) == run->map->members)
			next = (uint32_t)(run->map->turn + 1);
	} while (!atomic_compare_exchange_weak(&head->fate, &fate, next));
	run->given = true;
	ring(run->map);
	run->mark = &head->bell;
	return HD_SHARED_MOVED;
}

/* --- a round -------------------------------------------------------------------------------- */

static uint64_t taken_bytes(const struct hd_shared_share *share) {
	const uint64_t blocks = share->combines ? 1 : share->giver_end - share->giver;

	return (share->end - share->first) * blocks * share->value;
}

int hd_shared_begin(
	struct hd_shared_run *run,
	struct hd_shared_map *map,
	const struct hd_shared_call *call
) {
	uint64_t pieces;

	/* An earlier round was given up, and all later ones with it. */
	if (call->turn != map->turn && (atomic_load(&map->head->fate) & DEAD) != 0)
		return -ECANCELED;
	if (call->members != map->members || call->turn != map->turn || call->index >= call->members
	    || call->root >= call->members || call->values == 0)
		return -EINVAL;
	*run = (struct hd_shared_run){.map = map, .call = call};
	hd_shared_share(call, &run->share);
	if (run->share.value == 0)
		return -EINVAL;
	run->per = (uint32_t)(map->piece_bytes / run->share.value);
	pieces = (call->values + run->per - 1) / run->per;
	if (pieces > INT32_MAX)
		return -EINVAL;
	run->pieces = (uint32_t)pieces;
	run->streams = taken_bytes(&run->share) >= STREAM_BYTES;
	return 0;
}

/* The first member whose mark at this offset has not reached this number of pieces of this round; NULL: all have. */
static struct hd_shared_mark *laggard(struct hd_shared_run *run, size_t offset, uint32_t pieces) {
	const uint32_t want = run->map->pieces + pieces;

	for (uint32_t i = 0; i < run->map->members; i++) {
		uint8_t *member = (uint8_t *)&run->map->head->member[i];
		struct hd_shared_mark *mark = (struct hd_shared_mark *)(void *)(member + offset);
		const uint32_t seen = atomic_load_explicit(&mark->pieces, memory_order_acquire);

		if ((int32_t)(seen - want) < 0) {
			run->seen = seen;
			return mark;
		}
	}
	return NULL;
}

#define IN offsetof(struct hd_shared_member, in)
#define MID offsetof(struct hd_shared_member, mid)
#define OUT offsetof(struct hd_shared_member, out)

static enum hd_shared_next
publish(struct hd_shared_run *run, struct hd_shared_mark *mark, uint32_t *done) {
	++*done;
	hd_assert(run->ins <= run->pieces && run->ins <= run->outs + 2);
	hd_assert(run->mids <= run->ins && run->outs <= given_pieces(run));
	atomic_store(&mark->pieces, run->map->pieces + *done);
	run->mark = mark;
	return HD_SHARED_MOVED;
}

static struct hd_shared_member *own(const struct hd_shared_run *run) {
	return &run->map->head->member[run->call->index];
}

/* The mark after which a piece may be copied out. */
static size_t ready(const struct hd_shared_run *run) {
	return run->share.combines ? MID : IN;
}

static enum hd_shared_next wait_at(struct hd_shared_run *run, struct hd_shared_mark *mark) {
	run->mark = mark;
	return HD_SHARED_WAIT;
}

/* The oldest piece waits for a member: that one does not wait for us. NULL: nothing to wait for, it can go on. */
static enum hd_shared_next wait(struct hd_shared_run *run) {
	struct hd_shared_mark *mark;

	if (run->outs == run->ins)
		mark = laggard(run, OUT, run->ins - 1);
	else if (run->share.combines && run->mids == run->outs)
		mark = laggard(run, IN, run->outs + 1);
	else
		mark = laggard(run, ready(run), run->outs + 1);
	if (mark)
		return wait_at(run, mark);
	run->mark = &own(run)->in; /* it has come meanwhile: the next step goes on */
	return HD_SHARED_MOVED;
}

enum hd_shared_next hd_shared_step(struct hd_shared_run *run) {
	struct hd_shared_head *head = run->map->head;
	const uint32_t bell = atomic_load(&head->bell.pieces);
	const uint64_t fate = atomic_load(&head->fate);
	const bool complete = is_complete(fate, run->map->turn);

	if (!complete && (fate & DEAD) != 0)
		return HD_SHARED_VOID;
	if ((complete && !run->given) || (!complete && turn_of(fate) != run->map->turn))
		return HD_SHARED_BROKEN;
	if (run->share.combines && run->mids < run->ins && !laggard(run, IN, run->mids + 1)) {
		hd_shared_combine(run, run->mids);
		return publish(run, &own(run)->mid, &run->mids);
	}
	if (run->ins < run->pieces && run->ins < run->outs + 2
	    && !laggard(run, OUT, run->ins - 1)) {
		hd_shared_copy_in(run, run->ins);
		return publish(run, &own(run)->in, &run->ins);
	}
	if (!run->given && given_pieces(run) == run->pieces)
		return give(run);
	if (run->outs < given_pieces(run) && !laggard(run, ready(run), run->outs + 1)) {
		hd_shared_copy_out(run, run->outs);
		return publish(run, &own(run)->out, &run->outs);
	}
	if (run->outs < run->pieces)
		return wait(run);
	if (!complete) {
		run->seen = bell;
		return wait_at(run, &head->bell);
	}
	hd_assert(run->given && run->outs == run->pieces);
	run->map->turn++;
	run->map->pieces += run->pieces;
	if (!run->share
		     .combines) /* a mark that is 2^31 pieces behind would be taken for one ahead */
		atomic_store(&own(run)->mid.pieces, run->map->pieces);
	return HD_SHARED_DONE;
}
