/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of processes that share memory. The segment has a slot for each member, for two pieces of its values:
 *
 *                 piece 2k                      piece 2k + 1
 *   member 0   | block 0 | block 1 | ...     | block 0 | block 1 | ...     in: what member 0 gives, but for block 0,
 *   member 1   | block 0 | block 1 | ...     | block 0 | block 1 | ...     where it puts the sum of all members'
 *
 *   for each piece:  copy in  -->  combine the own block of all slots  -->  copy the blocks of all slots out
 *                      (in)          (mid; only where values are added)       (out)
 *
 * A few values are added by each member for itself, which saves the others' wait for its block: the same additions in
 * the same order give the same bits.
 *
 * After each of these a member publishes how many pieces it has done. It copies a piece in when all have copied the
 * piece before the last one out. A member that has combined its last piece has given all that the others need, and
 * says so in one word, `fate`: the last one to do so completes the round. A member that gives the round up says so in
 * the same word, first or too late. So a round is complete for all members or for none, even if one of them dies.
 *
 * The functions know no thread and do not wait: libheddle drives them in a thread (heddle_shared.c), the simulator in
 * virtual time. Nothing that is read from the segment is used as an address or a size: a writer that is not one of us
 * can spoil results, and stop a round.
 */
#ifndef HD_SHARED_H
#define HD_SHARED_H

#include "hd_types.h"

#include <stdatomic.h>

#define HD_SHARED_MAGIC UINT64_C(0x6865646473686d31)
#define HD_SHARED_LINE 64

struct hd_worker;
struct hd_sink;

/* The call of one member, as its core gives it to what drives the memory. */
struct hd_shared_call {
	uint64_t token; /* names the segment */
	uint32_t turn; /* the round's place among those of the segment, from 0 */
	uint8_t collective, dtype, op;
	uint32_t index, members, root; /* in the order of ranks */
	const void *in; /* what this member gives; NULL: nothing */
	void *out; /* of what it receives; NULL: nothing */
	uint64_t values; /* of hd_reduce_args */
};

/* The driver's functions, called by the core. */
struct hd_shared_ops {
	/* Takes part; hd_worker_shared_done() says how that ended. -errno: it cannot. */
	int (*begin)(void *owner, const struct hd_shared_call *call);
	/* Gives the round up, and with it all later ones of the segment. True: it is void, or `force`; in and out are
	 * not used any more, and it is not reported. False: it is complete, and its end will be reported. */
	bool (*stop)(void *owner, uint64_t token, uint32_t turn, bool force);
	/* Grows with every step of any round. */
	uint64_t (*progress)(const void *owner);
};

/* The end of a round that was not stopped: 0, the result is in out; -ECANCELED, it is void; other errors, the memory
 * cannot be used. */
void hd_worker_shared_done(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_shared_call *call,
	int rc,
	struct hd_sink *sink
);

/* --- the segment ----------------------------------------------------------------------------- */

/* A number of pieces, and of the threads that sleep until it grows. In a line of its own. */
struct hd_shared_mark {
	_Alignas(HD_SHARED_LINE) _Atomic uint32_t pieces; // writer: one member, readers: all
	_Atomic uint32_t sleepers; // writers and readers: all drivers
};

struct hd_shared_member {
	struct hd_shared_mark in, mid, out; /* over all rounds, modulo 2^32 */
};

struct hd_shared_head {
	uint64_t magic, token;
	uint32_t members, piece_bytes;
	_Atomic uint32_t mapped; // writers: all members, once each
	/* dead:1 zero:15 given:16 turn:32. Rounds before `turn` are complete; of round `turn`, `given` members have given
	 * all. */
	_Alignas(HD_SHARED_LINE) _Atomic uint64_t fate; // writers: all members
	struct hd_shared_mark bell; // writers: all members; it changes after fate has
	struct hd_shared_member member[];
};

/* A member's view of a segment. */
struct hd_shared_map {
	struct hd_shared_head *head;
	uint8_t *slots;
	uint32_t members, piece_bytes; /* not the segment's word for it */
	uint32_t turn,
		pieces; /* rounds that this member has completed, and their pieces, modulo 2^32 */
};

/* Of a piece: all members of a round know it from their number. */
uint32_t hd_shared_piece_bytes(uint32_t members);
/* The size of a segment. */
size_t hd_shared_bytes(uint32_t members, uint32_t piece_bytes);
/* Begins a segment in zeroed memory, aligned to a page. */
void hd_shared_init(void *memory, uint64_t token, uint32_t members, uint32_t piece_bytes);
/* The view of a segment. -EPROTO: it is another one. */
int hd_shared_attach(
	struct hd_shared_map *map,
	void *memory,
	uint64_t token,
	uint32_t members,
	uint32_t piece_bytes
);
/* Gives the round of this turn up. False: it is complete. */
bool hd_shared_kill(const struct hd_shared_map *map, uint32_t turn);

/* --- a round --------------------------------------------------------------------------------- */

/* Which values a member gives and takes, of those that are cut into pieces. */
struct hd_shared_share {
	size_t value; /* bytes */
	uint64_t values;
	bool gives;
	bool combines; /* values are added: each member adds its block of every piece, */
	bool direct; /* or, where they are few, each member all that it takes */
	uint64_t first, end; /* it takes these, */
	uint32_t giver,
		giver_end; /* of each of these members, if they are not combined; not its own, */
	uint64_t stride; /* and puts those of member i at i * stride */
};

enum hd_shared_next {
	HD_SHARED_MOVED, /* `mark` has grown: wake who sleeps there */
	HD_SHARED_WAIT, /* come again when `mark` is not `seen` any more, or a little later */
	HD_SHARED_DONE,
	HD_SHARED_VOID,
	HD_SHARED_BROKEN /* the segment's words make no sense */
};

struct hd_shared_run {
	struct hd_shared_map *map;
	const struct hd_shared_call *call;
	struct hd_shared_share share;
	uint32_t per; /* values of a piece */
	uint32_t pieces, ins, mids, outs; /* of this round; done so far */
	bool given;
	bool streams; /* what it takes is larger than the caches: it is not left there */
	struct hd_shared_mark *mark;
	uint32_t seen;
};

void hd_shared_share(const struct hd_shared_call *call, struct hd_shared_share *share);
/* -EINVAL (members, turn): the call is none of this segment's next. */
int hd_shared_begin(
	struct hd_shared_run *run,
	struct hd_shared_map *map,
	const struct hd_shared_call *call
);
/* Does what can be done at once, at most one piece's copy or sum. */
enum hd_shared_next hd_shared_step(struct hd_shared_run *run);

/* --- hd_shared_copy.c: the values of piece p of the round ------------------------------------- */
void hd_shared_copy_in(const struct hd_shared_run *run, uint32_t p);
void hd_shared_combine(const struct hd_shared_run *run, uint32_t p);
void hd_shared_copy_out(const struct hd_shared_run *run, uint32_t p);

#endif
