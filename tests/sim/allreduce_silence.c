/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that are silent for a while, and a model of which calls may miss a round for that. It knows when each worker
 * called, and nothing of the controller: a worker may be missing from a result, or be late,
 *
 *   if it called later than the round's time after its first call (of a round with a root: after the root's), or
 *   if at least N others had called, of a round that begins with the first of them, or
 *   if it had been left out of another round, which had waited for it, and had not called since.
 *
 * Where there are faults, workers miss rounds for other reasons, too: then the model is not asked.
 */
#include "allreduce_world.h"
#include "hd_group.h"
#include "hd_message_codes.h"

#define SILENCE_RARITY 12 /* one pause in this number */
#define SILENCE_MIN (50 * HD_MS)
#define SILENCE_MAX (2 * HD_SECOND)
#define WAIT_MS 500
/* How long a request can take that is lost once or twice: this long before its time a worker may be late, or is not. */
#define SLACK (400 * HD_MS)
#define FOREVER HD_NEVER
#define LEASE ((hd_ns)HD_DETECTION_US * HD_US)

void allreduce_set_wait(const struct allreduce_world *w, uint32_t round, struct kind *kind) {
	struct hd_random random;

	if (!w->plan.silences)
		return;
	hd_random_init(&random, w->plan.seed * 1000033 + round);
	switch (hd_random_below(&random, 8)) {
	case 0:
		kind->wait_ms = HD_REDUCE_WAIT_FOREVER;
		break;
	case 1:
	case 2:
		kind->wait_ms = WAIT_MS;
		break;
	case 3:
		kind->wait_ms = WAIT_MS; /* fall through */
	case 4:
		if (w->plan.world > 0 && kind->exact == 0)
			kind->least = (uint16_t)(1 + hd_random_below(&random, w->plan.workers));
		break;
	default:
		break;
	}
}

hd_ns allreduce_silence(struct allreduce_worker *worker) {
	const struct allreduce_world *w = worker->world;
	struct hd_random random;

	if (w->plan.falls_silent)
		return worker->rank == w->plan.workers - 1 && worker->made == w->plan.falls_silent ?
			4 * HD_SECOND :
			0;
	if (!w->plan.silences || w->quiet)
		return 0;
	hd_random_init(&random, (w->plan.seed * 64 + worker->rank) * 1000003 + worker->newest);
	if (hd_random_below(&random, SILENCE_RARITY) > 0)
		return 0;
	return SILENCE_MIN + hd_random_below(&random, SILENCE_MAX - SILENCE_MIN);
}

/* --- the model ------------------------------------------------------------------------------- */

static bool has_root(const struct kind *kind) {
	return kind->collective == HD_COLLECTIVE_BROADCAST
		|| kind->collective == HD_COLLECTIVE_REDUCE
		|| kind->collective == HD_COLLECTIVE_GATHER
		|| kind->collective == HD_COLLECTIVE_SCATTER;
}

void allreduce_note_call(struct allreduce_worker *worker, uint32_t round) {
	struct silences *s = &worker->world->silences;
	const hd_ns now = hd_sim_now(worker->world->sim);

	if (round >= ROUNDS_MAX)
		return;
	if (s->first[round] == 0)
		s->first[round] = now;
	s->called[round][worker->rank] = now;
}

void allreduce_note_start(struct allreduce_worker *worker, uint32_t round) {
	struct silences *s = &worker->world->silences;

	if (round < ROUNDS_MAX && s->started[round] == 0)
		s->started[round] = hd_sim_now(worker->world->sim);
}

/* From this time on the round's time runs. */
static hd_ns begins(const struct silences *s, const struct kind *kind, uint32_t round) {
	return has_root(kind) && kind->wait_ms == 0 ? s->called[round][kind->root] :
						      s->first[round];
}

static hd_ns wait_of(const struct kind *kind) {
	if (kind->wait_ms == HD_REDUCE_WAIT_FOREVER)
		return FOREVER;
	if (kind->wait_ms > 0)
		return kind->wait_ms * HD_MS;
	if (kind->least > 0)
		return 0;
	return kind->exact > 0 || kind->collective == HD_COLLECTIVE_BARRIER ? FOREVER : LEASE;
}

/* Workers that had called the round at this time, or soon after. */
static unsigned callers(const struct allreduce_world *w, uint32_t round, unsigned but, hd_ns at) {
	unsigned count = 0;

	for (unsigned k = 0; k < w->plan.workers; k++) {
		const hd_ns called = w->silences.called[round][k];

		count += k != but && called > 0 && called <= at + SLACK;
	}
	return count;
}

/* It made no call after this time, and before that one. */
static bool was_silent(const struct allreduce_world *w, unsigned rank, hd_ns from, hd_ns to) {
	for (uint32_t r = 1; r < ROUNDS_MAX; r++) {
		const hd_ns called = w->silences.called[r][rank];

		if (called > from && called < to)
			return false;
	}
	return true;
}

/* It had been left out of another round that waited for it when this one began, and had not called since. */
static bool was_out(const struct allreduce_world *w, uint32_t round, unsigned rank) {
	const struct kind kind = allreduce_kind(w, round);
	const hd_ns first = begins(&w->silences, &kind, round);

	for (uint32_t r = 1; r < ROUNDS_MAX; r++) {
		const struct kind other = allreduce_kind(w, r);
		hd_ns begun; /* about */

		if (r == round || !(w->silences.without[r] >> rank & 1) || wait_of(&other) == 0)
			continue;
		begun = w->silences.started[r] > 0 ? w->silences.started[r] : w->silences.ended[r];
		if (begun <= w->silences.ended[round] && was_silent(w, rank, begun, first))
			return true;
	}
	return false;
}

/* Whether the round may have begun without this worker. */
static bool may_miss(const struct allreduce_world *w, uint32_t round, unsigned rank) {
	const struct silences *s = &w->silences;
	const struct kind kind = allreduce_kind(w, round);
	const hd_ns wait = wait_of(&kind), begun = begins(s, &kind, round);
	const hd_ns called = s->called[round][rank] > 0 ? s->called[round][rank] : s->ended[round];

	if (wait == FOREVER || begun == 0 || callers(w, round, rank, called) < kind.least)
		return false;
	if (called + SLACK >= begun + wait)
		return true;
	return kind.exact == 0 && was_out(w, round, rank);
}

static void fail(struct allreduce_world *w, uint32_t round, unsigned rank) {
	const struct silences *s = &w->silences;
	const struct kind kind = allreduce_kind(w, round);

	allreduce_fail(
		w,
		"round %u (collective %u, at least %u, exactly %u, %u ms) was first called at "
		"%.3f s and ended at %.3f s without rank %u, which called it at %.3f s",
		round,
		kind.collective,
		kind.least,
		kind.exact,
		kind.wait_ms,
		1e-9 * (double)begins(s, &kind, round),
		1e-9 * (double)s->ended[round],
		rank,
		1e-9 * (double)s->called[round][rank]
	);
}

/* Ranks in the result, as a set of bits; 0: unknown. */
static unsigned members_of(const struct allreduce_world *w, const struct call *call) {
	unsigned members = 0;

	for (uint16_t i = 0; i < w->plan.workers; i++)
		members |= (unsigned)hd_roster_has(&call->members, i) << i;
	return members;
}

void allreduce_note_end(struct allreduce_worker *worker, const struct call *call) {
	struct allreduce_world *w = worker->world;
	struct silences *s = &w->silences;
	const uint32_t round = call->round;
	const unsigned all = (1U << w->plan.workers) - 1;
	unsigned members;

	if (w->plan.faults || round >= ROUNDS_MAX || w->stopping)
		return;
	members = members_of(w, call);
	members = members ? members : w->endings[round][worker->rank].members;
	s->ended[round] = hd_sim_now(w->sim);
	if (call->ticket.reason == HD_REASON_LATE) {
		s->without[round] |= (uint8_t)(1U << worker->rank);
		s->late++;
	} else if (call->ticket.state == HD_TICKET_APPLIED && members > 0) {
		s->without[round] |= (uint8_t)(all & ~members);
	} else if (call->ticket.reason == HD_REASON_MEMBERS || call->ticket.reason == HD_REASON_ROOT) {
		allreduce_note_start(worker, round); /* it failed instead */
		for (unsigned k = 0; k < w->plan.workers; k++)
			s->without[round] |= (uint8_t)((s->called[round][k] == 0) << k);
	}
	if (call->ticket.state == HD_TICKET_APPLIED
	    && call->ticket.delay < allreduce_kind(w, round).least)
		allreduce_fail(w, "round %u: %u members", round, call->ticket.delay);
}

void allreduce_check_missing(struct allreduce_world *w) {
	for (uint32_t r = 1; r < ROUNDS_MAX; r++)
		for (unsigned k = 0; k < w->plan.workers; k++) {
			if (!(w->silences.without[r] >> k & 1))
				continue;
			w->silences.missing++;
			if (!may_miss(w, r, k))
				fail(w, r, k);
		}
}
