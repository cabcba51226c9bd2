/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_check_private.h"
#include "hd_message.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- set-up -------------------------------------------------------------------------------- */

void hd_check_fail(struct hd_check *check, const char *format, ...) {
	va_list arguments;

	if (check->failed)
		return;
	va_start(arguments, format);
	(void)vsnprintf(check->failure, sizeof check->failure, format, arguments);
	va_end(arguments);
	check->failed = true;
}

const char *hd_check_failure(const struct hd_check *check) {
	return check->failed ? check->failure : NULL;
}

static bool life_grow(struct hd_check_life *life) {
	size_t capacity = life->capacity ? 2 * life->capacity : 256;
	uint64_t *hash = realloc(life->hash, 2 * capacity * sizeof *hash);
	struct hd_check_commit *commits;

	if (!hash)
		return false;
	life->hash = hash;
	commits = realloc(life->commits, capacity * sizeof *commits);
	if (!commits)
		return false;
	life->commits = commits;
	life->capacity = capacity;
	return true;
}

static void life_free(struct hd_check_life *life) {
	free(life->hash);
	free(life->commits);
}

void hd_check_life_add(
	struct hd_check *check,
	struct hd_check_life *life,
	const struct hd_check_commit *commit,
	const uint64_t hash[2]
) {
	if (life->count == life->capacity && !life_grow(life)) {
		hd_check_fail(check, "out of memory");
		return;
	}
	life->commits[life->count] = *commit;
	life->hash[2 * life->count] = hash[0];
	life->hash[2 * life->count + 1] = hash[1];
	life->count++;
}

/* The shadow model is the life's next version; within a sum there is a version, but no model. */
static void
life_add(struct hd_check *check, struct hd_check_life *life, struct hd_check_commit commit) {
	uint64_t hash = check->more ? 0 : hd_check_hash(check->shadow, check->values);
	uint64_t pulled
		= hash && hd_dtype_is_half(check->pull_dtype) ? hd_check_pulled_hash(check) : hash;

	hd_check_life_add(check, life, &commit, (const uint64_t[2]){hash, pulled});
}

int hd_check_create(uint64_t values, uint32_t tau_max, struct hd_check **check) {
	struct hd_check *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->values = values;
	c->tau_max = tau_max;
	c->shadow = calloc(values, sizeof(float));
	c->scratch = calloc(values, sizeof(float));
	c->workers = calloc(HD_CHECK_WORKERS_MAX, sizeof *c->workers);
	c->restored = true;
	c->restored_from = c->present = -1;
	if (!c->shadow || !c->scratch || !c->workers) {
		hd_check_destroy(c);
		return -ENOMEM;
	}
	*check = c;
	return 0;
}

void hd_check_destroy(struct hd_check *check) {
	if (!check)
		return;
	for (uint32_t i = 0; check->workers && i < HD_CHECK_WORKERS_MAX; i++) {
		for (uint32_t j = 0; j < check->workers[i].count; j++)
			free(check->workers[i].records[j].data);
		free(check->workers[i].records);
	}
	for (uint32_t i = 0; i < check->life_count; i++)
		life_free(&check->lives[i]);
	hd_check_contents_fini(check);
	free(check->workers);
	free(check);
}

struct hd_check_record *
hd_check_find(const struct hd_check *check, uint32_t worker, uint32_t round) {
	struct hd_check_worker *w = worker < HD_CHECK_WORKERS_MAX ? &check->workers[worker] : NULL;

	if (!w || round == 0 || round > w->count || w->records[round - 1].state == RECORD_NONE)
		return NULL;
	return &w->records[round - 1];
}

static bool grow(struct hd_check_worker *worker, uint32_t round) {
	uint32_t capacity = worker->capacity ? worker->capacity : 64;
	struct hd_check_record *grown;

	while (capacity < round)
		capacity *= 2;
	if (capacity > worker->capacity) {
		grown = realloc(worker->records, capacity * sizeof *grown);
		if (!grown)
			return false;
		memset(grown + worker->capacity, 0, (capacity - worker->capacity) * sizeof *grown);
		worker->records = grown;
		worker->capacity = capacity;
	}
	if (round > worker->count)
		worker->count = round;
	return true;
}

/* --- versions ------------------------------------------------------------------------------ */

struct hd_check_life *hd_check_present(struct hd_check *check) {
	return check->present >= 0 ? &check->lives[check->present] : NULL;
}

/* The newest life with an incarnation, or -1. */
int hd_check_find_life(const struct hd_check *check, uint16_t incarnation) {
	for (uint32_t i = check->life_count; i-- > 0;)
		if (check->lives[i].incarnation == incarnation)
			return (int)i;
	return -1;
}

struct hd_check_life *
hd_check_life_begin(struct hd_check *check, uint16_t incarnation, int parent, uint64_t first) {
	struct hd_check_life *life = &check->lives[check->life_count];

	if (hd_check_find_life(check, incarnation) >= 0
	    || check->life_count == HD_CHECK_LIVES_MAX) {
		hd_check_fail(check, "the server came back with incarnation %u again", incarnation);
		return NULL;
	}
	check->life_count++;
	*life = (struct hd_check_life
	){.incarnation = incarnation, .parent = parent, .first = first};
	return life;
}

/* That life ended before it gave out a version. */
static void life_undo(struct hd_check *check, struct hd_check_life *life) {
	life_free(life);
	*life = (struct hd_check_life){.parent = -1}; /* no version has incarnation 0 */
	check->life_count -= life == &check->lives[check->life_count - 1];
}

/* After a restart (and at the start) the first version shows the new incarnation. */
bool hd_check_enter_life(struct hd_check *check, hd_version version) {
	uint16_t incarnation = hd_version_incarnation(version);
	struct hd_check_life *last = hd_check_present(check);

	if (!check->restored) {
		/* One that its checkpoint could not claim: another is drawn before anything is given out. */
		if (last && last->count == 1 && hd_check_find_life(check, incarnation) < 0)
			last->incarnation = incarnation;
		return true;
	}
	if (last && last->incarnation == incarnation && last->count == 1)
		life_undo(check, last);
	last = hd_check_life_begin(
		check, incarnation, check->restored_from, check->restored_counter
	);
	if (!last)
		return false;
	check->present = (int)(last - check->lives);
	life_add(check, last, (struct hd_check_commit){0});
	check->restored = false;
	return !check->failed;
}

/* The hash of the model at a version, or NULL. */
uint64_t *hd_check_hash_at(const struct hd_check *check, hd_version version) {
	int found = hd_check_find_life(check, hd_version_incarnation(version));
	uint64_t counter = hd_version_counter(version);
	const struct hd_check_life *life;
	uint64_t *life_hash;

	if (found < 0)
		return NULL;
	life = &check->lives[found];
	if (counter < life->first || counter - life->first >= life->count)
		return NULL;
	life_hash = &life->hash[2 * (counter - life->first)];
	return *life_hash ? life_hash : NULL;
}

/* Whether a base lies on the present history: each later life began at or after it. */
static bool in_history(const struct hd_check *check, hd_version base) {
	int at = check->present;

	if (!hd_check_hash_at(check, base))
		return false;
	while (at >= 0 && check->lives[at].incarnation != hd_version_incarnation(base)) {
		if (hd_version_counter(base) > check->lives[at].first)
			return false;
		at = check->lives[at].parent;
	}
	return at >= 0;
}

/* --- events -------------------------------------------------------------------------------- */

void hd_check_push(struct hd_check *check, const struct hd_check_pushed *push) {
	uint32_t worker = push->worker, round = push->round;
	struct hd_check_record *record;

	if (check->failed)
		return;
	record = hd_check_find(check, worker, round);
	if (record && (record->life == push->life || record->state == RECORD_PENDING)) {
		hd_check_fail(check, "worker %u pushed round %u twice", worker, round);
		return;
	}
	/* Where a server that was cut off does not know its former lives a worker counts anew. */
	if (record && record->committed != 0
	    && (!check->split || hd_check_led_to(check, push->base))) {
		hd_check_fail(
			check,
			"worker %u, new, pushed round %u, which is in the model",
			worker,
			round
		);
		return;
	}
	if (worker >= HD_CHECK_WORKERS_MAX || round == 0 || !grow(&check->workers[worker], round)) {
		hd_check_fail(check, "worker %u, round %u: beyond the checker", worker, round);
		return;
	}
	record = &check->workers[worker].records[round - 1];
	hd_check_forget(record);
	*record = (struct hd_check_record){
		.base = push->base,
		.life = push->life,
		.salt = push->salt,
		.dtype = push->dtype,
		.bytes = push->bytes,
		.weight = push->weight > 0 ? push->weight : 1,
		.state = RECORD_PENDING,
	};
	hd_check_keep(check, record, push->data);
	check->stats.pushed++;
	check->pending++;
}

static void count_delay(struct hd_check *check, uint64_t delay) {
	check->stats.commits++;
	check->stats.delay_sum += (double)delay;
	check->stats.delay_squares += (double)delay * (double)delay;
	check->stats.delays[delay < HD_CHECK_DELAYS ? delay : HD_CHECK_DELAYS - 1]++;
	if (delay > check->stats.delay_max)
		check->stats.delay_max = delay;
}

/* A sum of sparse updates has as many bytes as what they name together. */
static bool
merges(const struct hd_check *check,
       const struct hd_event *event,
       const struct hd_check_record *record) {
	return record->dtype == HD_DTYPE_SPARSE32 && (event->more > 0 || check->more > 0);
}

/* Whether the commit of this record may happen; says why not. */
static bool may_commit(
	struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
) {
	uint32_t w = event->worker, r = event->round;
	uint64_t counter = hd_version_counter(event->version);
	uint64_t delay
		= check->sync != HD_SYNC_NONE ? 0 : counter - hd_version_counter(event->base);

	if (!record)
		hd_check_fail(check, "worker %u round %u was committed, never pushed", w, r);
	else if (record->committed != 0)
		hd_check_fail(
			check,
			"worker %u round %u is applied twice: as %" PRIu64 " and %" PRIu64,
			w,
			r,
			hd_version_counter(record->committed),
			counter
		);
	else if (record->state == RECORD_ENDED && !record->rolled_back)
		hd_check_fail(
			check,
			"worker %u round %u was committed after its outcome %s",
			w,
			r,
			hd_outcome_name(record->outcome)
		);
	else if (record->base != event->base)
		hd_check_fail(
			check,
			"worker %u round %u: base %" PRIx64 " at the commit, %" PRIx64
			" at the push",
			w,
			r,
			event->base,
			record->base
		);
	else if (!in_history(check, event->base))
		hd_check_fail(
			check,
			"worker %u round %u: base %u/%" PRIu64 " lies on a lost history",
			w,
			r,
			hd_version_incarnation(event->base),
			hd_version_counter(event->base)
		);
	else if (check->late_most == 0 && (delay > check->tau_max || delay != event->aux))
		hd_check_fail(
			check,
			"worker %u round %u: delay %" PRIu64 " (said %" PRIu64 ") with bound %u",
			w,
			r,
			delay,
			event->aux,
			check->tau_max
		);
	else if (event->bytes != record->bytes && !merges(check, event, record))
		hd_check_fail(
			check, "worker %u round %u: %" PRIu64 " bytes committed", w, r, event->bytes
		);
	else
		return true;
	return false;
}

/* The parts of a sum are told one after the other, the last with nothing more to come. */
static bool follows(struct hd_check *check, const struct hd_event *event) {
	if (check->more == 0 || event->more + 1 == check->more)
		return true;
	hd_check_fail(
		check,
		"worker %u round %u: %u more parts of its sum, where %u were to come",
		event->worker,
		event->round,
		event->more,
		check->more - 1u
	);
	return false;
}

/* Applied weight = received weight: 1, but in federated rounds (hd_check_step()), and of what comes late to a job that
 * trains, which is replayed with what the commit says. */
static bool weighs_right(
	struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
) {
	if (check->sync == HD_SYNC_FEDERATED || (check->sync == HD_SYNC_NONE && check->trains))
		return true;
	if (event->value < (double)record->weight || event->value > (double)record->weight)
		hd_check_fail(
			check,
			"worker %u round %u: applied with weight %.9g, pushed with %.9g",
			event->worker,
			event->round,
			event->value,
			(double)record->weight
		);
	check->stats.weight += event->value;
	return !check->failed;
}

static void on_committed(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_record *record = hd_check_find(check, event->worker, event->round);
	struct hd_check_life *life;
	uint64_t next;

	if (!follows(check, event) || !hd_check_enter_life(check, event->version))
		return;
	life = hd_check_present(check);
	assert(life);
	next = life->first + life->count;
	if (hd_version_incarnation(event->version) != life->incarnation
	    || hd_version_counter(event->version) != next) {
		hd_check_fail(
			check,
			"version %u/%" PRIu64 " was committed where %u/%" PRIu64 " was next",
			hd_version_incarnation(event->version),
			hd_version_counter(event->version),
			life->incarnation,
			next
		);
		return;
	}
	if (!may_commit(check, event, record))
		return;
	check->merged_bytes = event->bytes;
	if (check->sync != HD_SYNC_NONE && !hd_check_step(check, event, record))
		return;
	if (!weighs_right(check, event, record))
		return;
	if (check->sync == HD_SYNC_NONE) {
		check->stats.sums += event->more > 0 && check->more == 0;
		check->stats.grouped += event->more > 0 || check->more > 0;
	}
	record->committed = event->version;
	record->was_committed = event->version;
	hd_check_apply(check, record, (float)event->value, event->more);
	check->more = event->more;
	life_add(check, life, (struct hd_check_commit){event->worker, event->round, record->life});
	check->dirty = true;
	count_delay(check, event->aux);
}

static uint64_t *counter_of(struct hd_check *check, uint64_t outcome) {
	switch (outcome) {
	case HD_OUTCOME_APPLIED:
		return &check->stats.applied;
	case HD_OUTCOME_DROPPED:
		return &check->stats.dropped;
	default:
		return &check->stats.failed;
	}
}

/* Whether this outcome may be this push's; says why not. apart: it is right in another history. */
static bool
may_end(struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record,
	bool apart) {
	uint32_t w = event->worker, r = event->round;

	if (!record || record->state == RECORD_GONE)
		hd_check_fail(check, "worker %u round %u: outcome of no push", w, r);
	else if (record->state == RECORD_ENDED && event->value != 1)
		hd_check_fail(
			check,
			"worker %u round %u has two outcomes: %s and %s",
			w,
			r,
			hd_outcome_name(record->outcome),
			hd_outcome_name((enum hd_outcome)event->aux)
		);
	else if (record->state == RECORD_ENDED && ((!record->rolled_back && !apart) || record->outcome != HD_OUTCOME_APPLIED))
		hd_check_fail(
			check,
			"worker %u round %u: outcome %s was replaced by %s, and nothing was lost",
			w,
			r,
			hd_outcome_name(record->outcome),
			hd_outcome_name((enum hd_outcome)event->aux)
		);
	else if (event->aux == HD_OUTCOME_APPLIED && event->version != record->was_committed && !apart)
		hd_check_fail(
			check,
			"worker %u round %u: applied at %u/%" PRIu64 ", committed at %u/%" PRIu64,
			w,
			r,
			hd_version_incarnation(event->version),
			hd_version_counter(event->version),
			hd_version_incarnation(record->was_committed),
			hd_version_counter(record->was_committed)
		);
	else if (event->aux != HD_OUTCOME_APPLIED && record->committed != 0 && !apart)
		hd_check_fail(
			check,
			"worker %u round %u: outcome %s (%s), but it is in the model",
			w,
			r,
			hd_outcome_name((enum hd_outcome)event->aux),
			hd_reason_name(event->reason)
		);
	else if (event->aux != HD_OUTCOME_APPLIED && event->aux != HD_OUTCOME_DROPPED && event->aux != HD_OUTCOME_FAILED)
		hd_check_fail(check, "worker %u round %u: no outcome", w, r);
	else
		return true;
	return false;
}

static void on_outcome(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_record *record = hd_check_find(check, event->worker, event->round);
	const bool apart = hd_check_told_apart(check, event, record);

	if (!may_end(check, event, record, apart))
		return;
	if (record->state == RECORD_ENDED)
		(*counter_of(check, record->outcome))--;
	else
		check->pending--;
	hd_check_forget(record);
	record->state = RECORD_ENDED;
	record->outcome = (uint8_t)event->aux;
	record->apart = apart;
	record->rolled_back = record->rolled_back && event->aux == HD_OUTCOME_APPLIED;
	(*counter_of(check, event->aux))++;
	if (event->aux != HD_OUTCOME_APPLIED && event->reason < HD_REASON_COUNT)
		check->stats.reasons[event->reason]++;
}

void hd_check_event(struct hd_check *check, const struct hd_event *event) {
	if (check->failed)
		return;
	if (event->kind == HD_EVENT_COMMITTED)
		on_committed(check, event);
	else if (event->kind == HD_EVENT_STEPPED)
		hd_check_stepped(check, event);
	else if (event->kind == HD_EVENT_OUTCOME && event->direction == HD_PUSH)
		on_outcome(check, event);
}

void hd_check_worker_gone(struct hd_check *check, uint32_t worker) {
	struct hd_check_worker *w = &check->workers[worker];

	for (uint32_t i = 0; i < w->count; i++) {
		if (w->records[i].state != RECORD_PENDING)
			continue;
		w->records[i].state = RECORD_GONE;
		check->pending--;
		check->stats.failed++;
		check->stats.reasons[HD_REASON_CLOSED]++;
	}
}

hd_version hd_check_committed(const struct hd_check *check, uint32_t worker, uint32_t round) {
	const struct hd_check_record *record = hd_check_find(check, worker, round);

	return record ? record->committed : 0;
}

uint64_t hd_check_pending(const struct hd_check *check) {
	return check->pending;
}

static void name_pending(struct hd_check *check) {
	for (uint32_t w = 0; w < HD_CHECK_WORKERS_MAX; w++)
		for (uint32_t i = 0; i < check->workers[w].count; i++)
			if (check->workers[w].records[i].state == RECORD_PENDING) {
				hd_check_fail(
					check,
					"%" PRIu64
					" pushes have no outcome although faults stopped; "
					"the first: worker %u round %u",
					check->pending,
					w,
					i + 1
				);
				return;
			}
}

void hd_check_settled(struct hd_check *check) {
	const struct hd_check_stats *s = &check->stats;

	if (check->failed)
		return;
	if (check->pending > 0)
		name_pending(check);
	if (s->pushed != s->applied + s->dropped + s->failed)
		hd_check_fail(
			check,
			"pushed %" PRIu64 " != applied %" PRIu64 " + dropped %" PRIu64
			" + failed %" PRIu64,
			s->pushed,
			s->applied,
			s->dropped,
			s->failed
		);
}

const struct hd_check_stats *hd_check_stats(const struct hd_check *check) {
	return &check->stats;
}
