/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results that collectives besides the all-reduce must have. Sums as there; values that are copied are any bits,
 * and arrive as they are. Block i is that of the i-th member in the order of ranks: of count values, those from
 * i count / n on. Of an all-to-all, member i has block i of each member's values, one after the other.
 */
#include "allreduce_values.h"

static bool is_root(const struct kind *kind, unsigned rank) {
	return rank == kind->root;
}

bool allreduce_gives(const struct kind *kind, unsigned rank) {
	switch (kind->collective) {
	case HD_COLLECTIVE_BARRIER:
		return false;
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_SCATTER:
		return is_root(kind, rank);
	default:
		return true;
	}
}

bool allreduce_takes(const struct kind *kind, unsigned rank) {
	switch (kind->collective) {
	case HD_COLLECTIVE_BARRIER:
		return false;
	case HD_COLLECTIVE_BROADCAST:
		return !is_root(kind, rank) && !(kind->has >> rank & 1);
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_GATHER:
		return is_root(kind, rank);
	default:
		return true;
	}
}

static void
wrong(struct allreduce_worker *worker,
      const struct kind *kind,
      const struct call *call,
      const char *what) {
	allreduce_fail(
		worker->world,
		"rank %u, round %u (collective %u, root %u): %s",
		worker->rank,
		call->round,
		kind->collective,
		kind->root,
		what
	);
}

/* Members as a set of bits, from what the ticket says. */
static unsigned members_of(const struct allreduce_world *w, const struct call *call) {
	unsigned members = 0;

	for (uint16_t i = 0; i < w->plan.workers; i++)
		members |= (unsigned)hd_roster_has(&call->members, i) << i;
	return members;
}

static unsigned index_of(unsigned members, unsigned rank) {
	return (unsigned)__builtin_popcount(members & ((1U << rank) - 1));
}

/* Values range[0] to range[1] - 1 of what this rank gave are in the result, from value `at` on. */
static bool is_copied(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned rank,
	const uint64_t range[2],
	uint64_t at
) {
	for (uint64_t i = range[0]; i < range[1]; i++)
		if (allreduce_held(kind, call, at + i - range[0])
		    != allreduce_bits(w, kind, rank, call->round, i))
			return false;
	return true;
}

static bool is_gathered(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned members
) {
	uint64_t at = 0;

	for (unsigned rank = 0; rank < w->plan.workers; rank++) {
		if (!(members >> rank & 1))
			continue;
		if (!is_copied(w, kind, call, rank, (uint64_t[]){0, kind->values}, at))
			return false;
		at += kind->values;
	}
	return true;
}

/* This block of each member, in their order. */
static bool is_exchanged(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned members,
	const uint64_t block[2]
) {
	uint64_t at = 0;

	for (unsigned rank = 0; rank < w->plan.workers; rank++) {
		if (!(members >> rank & 1))
			continue;
		if (!is_copied(w, kind, call, rank, block, at))
			return false;
		at += block[1] - block[0];
	}
	return true;
}

static bool
is_sum(const struct allreduce_world *w,
       const struct kind *kind,
       const struct call *call,
       unsigned members,
       const uint64_t range[2]) {
	for (uint64_t i = range[0]; i < range[1]; i++)
		if (!allreduce_is_result(w, kind, call, members, i, i - range[0]))
			return false;
	return true;
}

/* Nothing was written behind the largest result that there can be: an attempt before may have had more members. */
static bool is_untouched(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned rank
) {
	const bool gathers = kind->collective == HD_COLLECTIVE_ALLGATHER
		|| kind->collective == HD_COLLECTIVE_GATHER;
	const uint64_t rounded
		= kind->collective == HD_COLLECTIVE_ALLTOALL ? w->plan.workers - 1 : 0;
	const uint64_t room = (kind->values + rounded) * hd_dtype_bytes(kind->type)
		* (gathers ? w->plan.workers : 1);
	const uint8_t *out = call->out;

	for (uint64_t i = allreduce_takes(kind, rank) ? room : 0; i < VALUES_MAX * sizeof(uint64_t);
	     i++)
		if (out[i] != 0xff)
			return false;
	return true;
}

static bool
have_all_come(const struct allreduce_world *w, const struct call *call, unsigned members) {
	for (unsigned rank = 0; rank < w->plan.workers; rank++)
		if (members >> rank & 1 && w->workers[rank].newest < call->round)
			return false;
	return true;
}

static bool is_right(
	const struct allreduce_worker *worker,
	const struct kind *kind,
	const struct call *call,
	unsigned members
) {
	const struct allreduce_world *w = worker->world;
	const unsigned n = call->ticket.delay, index = index_of(members, worker->rank);
	const uint64_t all[2] = {0, kind->values};
	const uint64_t block[2] = {index * kind->values / n, (index + 1) * kind->values / n};

	switch (kind->collective) {
	case HD_COLLECTIVE_BROADCAST:
		return is_copied(w, kind, call, kind->root, all, 0);
	case HD_COLLECTIVE_REDUCE:
		return is_sum(w, kind, call, members, all);
	case HD_COLLECTIVE_REDUCE_SCATTER:
		return is_sum(w, kind, call, members, block);
	case HD_COLLECTIVE_SCATTER:
		return is_copied(w, kind, call, kind->root, block, 0);
	case HD_COLLECTIVE_ALLTOALL:
		return is_exchanged(w, kind, call, members, block);
	default:
		return is_gathered(w, kind, call, members);
	}
}

void allreduce_check_other(
	struct allreduce_worker *worker,
	const struct kind *kind,
	const struct call *call
) {
	struct allreduce_world *w = worker->world;
	const unsigned members = members_of(w, call);

	if ((unsigned)__builtin_popcount(members) != call->ticket.delay)
		wrong(worker, kind, call, "as many members as it says");
	else if (!(members >> worker->rank & 1))
		wrong(worker, kind, call, "it is no member");
	else if (!have_all_come(w, call, members))
		wrong(worker, kind, call, "a member has not called it");
	else if (kind->exact > 0 && call->ticket.delay != kind->exact)
		wrong(worker, kind, call, "not of all workers");
	else if (members >> kind->odd & 1 && members != 1U << kind->odd)
		wrong(worker, kind, call, "a result of different calls");
	else if (allreduce_takes(kind, worker->rank) && !is_right(worker, kind, call, members))
		wrong(worker, kind, call, "a wrong value");
	else if (!is_untouched(w, kind, call, worker->rank))
		wrong(worker, kind, call, "it wrote behind its result");
	else if (call->round >= ROUNDS_MAX)
		wrong(worker, kind, call, "too many rounds");
	/* A broadcast can be continued by fewer members. Others have the same for all. */
	else if (kind->collective != HD_COLLECTIVE_BROADCAST)
		w->endings[call->round][worker->rank] = (struct ending
		){.members = (uint8_t)members,
		  .weak = worker->apart || call->weak,
		  .at = hd_sim_now(w->sim)};
}
