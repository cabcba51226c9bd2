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

static bool log_grow(struct hd_check_log *log) {
	size_t capacity = log->capacity ? 2 * log->capacity : 256;
	uint64_t *hash = realloc(log->hash, 2 * capacity * sizeof *hash);
	struct hd_check_commit *commits;

	if (!hash)
		return false;
	log->hash = hash;
	commits = realloc(log->commits, capacity * sizeof *commits);
	if (!commits)
		return false;
	log->commits = commits;
	log->capacity = capacity;
	return true;
}

static void log_free(struct hd_check_log *log) {
	free(log->hash);
	free(log->commits);
}

void hd_check_log_add(
	struct hd_check *check,
	struct hd_check_log *log,
	const struct hd_check_commit *commit,
	const uint64_t hash[2]
) {
	if (log->count == log->capacity && !log_grow(log)) {
		hd_check_fail(check, "out of memory");
		return;
	}
	log->commits[log->count] = *commit;
	log->hash[2 * log->count] = hash[0];
	log->hash[2 * log->count + 1] = hash[1];
	log->count++;
}

/* The shadow model becomes the incarnation's next version; within a sum there are versions without a model. */
static void
log_add(struct hd_check *check, struct hd_check_log *log, struct hd_check_commit commit) {
	uint64_t hash = check->more ? 0 : hd_check_hash(check->shadow, check->values);
	uint64_t pulled
		= hash && hd_dtype_is_half(check->pull_dtype) ? hd_check_pulled_hash(check) : hash;

	hd_check_log_add(check, log, &commit, (const uint64_t[2]){hash, pulled});
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
	for (uint32_t i = 0; i < check->log_count; i++)
		log_free(&check->logs[i]);
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

struct hd_check_log *hd_check_present(struct hd_check *check) {
	return check->present >= 0 ? &check->logs[check->present] : NULL;
}

/* The newest entry with an incarnation, or -1. */
int hd_check_find_log(const struct hd_check *check, uint16_t incarnation) {
	for (uint32_t i = check->log_count; i-- > 0;)
		if (check->logs[i].incarnation == incarnation)
			return (int)i;
	return -1;
}

struct hd_check_log *
hd_check_log_begin(struct hd_check *check, uint16_t incarnation, int parent, uint64_t first) {
	struct hd_check_log *log = &check->logs[check->log_count];

	if (hd_check_find_log(check, incarnation) >= 0 || check->log_count == HD_CHECK_LOGS_MAX) {
		hd_check_fail(check, "the server came back with incarnation %u again", incarnation);
		return NULL;
	}
	check->log_count++;
	*log = (struct hd_check_log){.incarnation = incarnation, .parent = parent, .first = first};
	return log;
}

/* That incarnation ended before any node saw a version of it. */
static void log_undo(struct hd_check *check, struct hd_check_log *log) {
	log_free(log);
	*log = (struct hd_check_log){.parent = -1}; /* no version has incarnation 0 */
	check->log_count -= log == &check->logs[check->log_count - 1];
}

/* After a restart (and at the start) the first version shows the new incarnation. */
bool hd_check_enter_log(struct hd_check *check, hd_version version) {
	uint16_t incarnation = hd_version_incarnation(version);
	struct hd_check_log *last = hd_check_present(check);

	if (!check->restored) {
		/* Its checkpoint could not claim this incarnation: another is drawn before any version is sent. */
		if (last && last->count == 1 && hd_check_find_log(check, incarnation) < 0)
			last->incarnation = incarnation;
		return true;
	}
	if (last && last->incarnation == incarnation && last->count == 1)
		log_undo(check, last);
	last = hd_check_log_begin(
		check, incarnation, check->restored_from, check->restored_counter
	);
	if (!last)
		return false;
	check->present = (int)(last - check->logs);
	log_add(check, last, (struct hd_check_commit){0});
	check->restored = false;
	return !check->failed;
}

/* The hash of the model at a version, or NULL. */
uint64_t *hd_check_hash_at(const struct hd_check *check, hd_version version) {
	int found = hd_check_find_log(check, hd_version_incarnation(version));
	uint64_t counter = hd_version_counter(version);
	const struct hd_check_log *log;
	uint64_t *log_hash;

	if (found < 0)
		return NULL;
	log = &check->logs[found];
	if (counter < log->first || counter - log->first >= log->count)
		return NULL;
	log_hash = &log->hash[2 * (counter - log->first)];
	return *log_hash ? log_hash : NULL;
}

/* Whether a base is in the present history: each later incarnation began at or after it. */
static bool in_history(const struct hd_check *check, hd_version base) {
	int at = check->present;

	if (!hd_check_hash_at(check, base))
		return false;
	while (at >= 0 && check->logs[at].incarnation != hd_version_incarnation(base)) {
		if (hd_version_counter(base) > check->logs[at].first)
			return false;
		at = check->logs[at].parent;
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
	if (record && (record->process == push->process || record->state == RECORD_PENDING)) {
		hd_check_fail(check, "worker %u pushed round %u twice", worker, round);
		return;
	}
	/* After a partition a server may not know a worker's former processes: then it counts from the start. */
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
		.process = push->process,
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

/* A sum of sparse updates has the bytes of the union of their indices. */
static bool
merges(const struct hd_check *check,
       const struct hd_event *event,
       const struct hd_check_record *record) {
	return record->dtype == HD_DTYPE_SPARSE32 && (event->more > 0 || check->more > 0);
}

/* Whether the commit of this record is allowed; reports why not. */
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

/* The parts of a sum are reported one after the other, the last with nothing more to come. */
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

/* Applied weight = received weight: 1, except in federated rounds (hd_check_step()), and for late updates of a job that
 * trains, which are replayed with the weight in the commit. */
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
	struct hd_check_log *log;
	uint64_t next;

	if (!follows(check, event) || !hd_check_enter_log(check, event->version))
		return;
	log = hd_check_present(check);
	assert(log);
	next = log->first + log->count;
	if (hd_version_incarnation(event->version) != log->incarnation
	    || hd_version_counter(event->version) != next) {
		hd_check_fail(
			check,
			"version %u/%" PRIu64 " was committed where %u/%" PRIu64 " was next",
			hd_version_incarnation(event->version),
			hd_version_counter(event->version),
			log->incarnation,
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
	log_add(check, log, (struct hd_check_commit){event->worker, event->round, record->process});
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

/* Whether this outcome is allowed for this push; reports why not. apart: it is right in another history. */
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
	const bool apart = hd_check_distinguishes(check, event, record);

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
