/* SPDX-License-Identifier: BSD-3-Clause */
/* What workers that share their state must have, by a model that shares no code with the roll call. */
#include "state_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HASH_PRIME UINT64_C(0x100000001b3)

void state_fail(struct state_world *w, const char *format, ...) {
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	(void)vsnprintf(w->failure, sizeof w->failure, format, args);
	va_end(args);
}

static uint64_t mix(uint64_t a, uint64_t b) {
	uint64_t x = (a * HASH_PRIME + b) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 29;
}

uint64_t state_hash(const struct state_worker *worker) {
	uint64_t hash = 1;

	for (size_t i = 0; i < STATE_BYTES; i++)
		hash = (hash ^ worker->state[i]) * HASH_PRIME;
	return hash;
}

/* The place of this state among those that a process has made; that is 0 where it is missing. */
static uint64_t *find_state(struct state_worker *worker, uint64_t hash) {
	uint64_t *states = worker->world->states;
	const uint64_t key = mix(hash, worker->version) | 1;
	size_t i = key >> 20 & (STATES_MAX - 1);

	while (states[i] != 0 && states[i] != key)
		i = (i + 1) & (STATES_MAX - 1);
	return &states[i];
}

static void note_state(struct state_worker *worker, uint64_t hash) {
	struct state_world *w = worker->world;
	uint64_t *at = find_state(worker, hash);

	if (*at != 0)
		return;
	*at = mix(hash, worker->version) | 1;
	if (++w->state_count > STATES_MAX / 2)
		state_fail(w, "too many states");
}

void state_fill(struct state_worker *worker, uint64_t seed) {
	for (size_t i = 0; i < STATE_BYTES; i++)
		worker->state[i] = (uint8_t)(mix(seed, i) >> 32);
	worker->version = 0;
	note_state(worker, state_hash(worker));
}

int64_t state_addend(const struct state_world *w, uint16_t rank, uint64_t version, unsigned i) {
	return (int64_t)(mix(mix(w->plan.seed, rank), version * STEP_VALUES + i) >> 8);
}

/* Each byte depends on all that the members have added. */
void state_move(struct state_worker *worker, const struct call *call) {
	uint64_t sum = worker->version;

	for (unsigned i = 0; i < STEP_VALUES; i++)
		sum = mix(sum, (uint64_t)call->out[i]);
	for (size_t i = 0; i < STATE_BYTES; i++)
		worker->state[i] = (uint8_t)(mix(sum, worker->state[i] + i) >> 32);
	worker->version++;
}

/* The sum is that of its members, each at this worker's version. */
static bool is_sum(const struct state_worker *worker, const struct call *call) {
	const struct state_world *w = worker->world;

	for (unsigned i = 0; i < STEP_VALUES; i++) {
		uint64_t sum = 0;

		for (uint16_t k = 0; k < w->plan.workers; k++)
			if (hd_roster_has(&call->members, k))
				sum += (uint64_t)state_addend(w, k, worker->version - 1, i);
		if ((uint64_t)call->out[i] != sum)
			return false;
	}
	return true;
}

static void
compare(struct state_worker *worker, struct outcome *of, uint32_t round, const struct outcome *now
) {
	if (of->known
	    && (of->version != now->version || of->hash != now->hash || of->waiting != now->waiting
	    ))
		state_fail(
			worker->world,
			"round %u: rank %u has version %llu (%016llx), %u wait; another one has %llu "
			"(%016llx), %u",
			round,
			worker->rank,
			(unsigned long long)now->version,
			(unsigned long long)now->hash,
			now->waiting,
			(unsigned long long)of->version,
			(unsigned long long)of->hash,
			of->waiting
		);
	*of = *now;
}

void state_check_step(struct state_worker *worker, const struct call *call) {
	struct state_world *w = worker->world;
	const uint32_t round = call->ticket.round;
	const struct outcome now
		= {true, worker->version, state_hash(worker), call->ticket.waiting};

	if (round >= ROUNDS_MAX)
		state_fail(w, "too many rounds");
	else if (!is_sum(worker, call))
		state_fail(
			w,
			"round %u: rank %u has a sum of other versions than %llu",
			round,
			worker->rank,
			(unsigned long long)worker->version - 1
		);
	else
		compare(worker, &w->steps[round], round, &now);
	note_state(worker, now.hash);
}

void state_check_share(struct state_worker *worker) {
	struct state_world *w = worker->world;
	const struct outcome now = {true, worker->version, state_hash(worker), 0};

	if (worker->handover.outcome == HD_HANDOVER_KEPT && now.hash != worker->before)
		state_fail(w, "rank %u: the state that it kept has changed", worker->rank);
	if (*find_state(worker, now.hash) == 0)
		state_fail(
			w,
			"rank %u: no process has made this state of version %llu",
			worker->rank,
			(unsigned long long)now.version
		);
	compare(worker, &w->shares[worker->roll], worker->roll, &now);
}

/* Whether one is the better source. */
static bool is_better(const struct said *a, const struct said *b) {
	if (a->has != b->has)
		return a->has;
	if (a->sure != b->sure)
		return a->sure;
	return a->has && a->version > b->version;
}

void state_check_roll(struct state_worker *worker, const struct call *call) {
	struct state_world *w = worker->world;
	const struct hd_roll *roll = &worker->handover.roll;
	const uint32_t round = call->ticket.round;
	int best = -1;

	for (uint32_t k = 0; k < w->plan.workers; k++)
		if (hd_roster_has(&call->members, (uint16_t)k)
		    && (best < 0 || is_better(&w->said[round][k], &w->said[round][best])))
			best = (int)k;
	if (best < 0 || roll->source != (uint32_t)best || roll->any != w->said[round][best].has
	    || (roll->any && roll->step != w->said[round][best].version))
		state_fail(
			w,
			"round %u: the source is rank %u with version %llu, and must be rank %d",
			round,
			roll->source,
			(unsigned long long)roll->step,
			best
		);
}
