/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares the server's model, its checkpoints and the workers' pulls with the committed updates. */
#include "hd_check_private.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

bool hd_check_dirty(const struct hd_check *check) {
	return check->dirty;
}

static uint32_t bits_of(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static uint64_t first_difference(const float *a, const float *b, uint64_t values) {
	uint64_t i = 0;

	while (i < values && bits_of(a[i]) == bits_of(b[i]))
		i++;
	return i;
}

static bool differs(const struct hd_check *check, uint64_t hash, const float *data) {
	return !check->blind && hash != HD_CHECK_UNSEEN
		&& hash != hd_check_hash(data, check->values);
}

/* The first node that shows a version defines its content; all others must show the same. hash: the two of a
 * version. */
static void
note_seen(const struct hd_check *check, uint64_t hash[2], bool pulled, const float *data) {
	if (hash[pulled] != HD_CHECK_UNSEEN)
		return;
	hash[pulled] = hd_check_hash(data, check->values);
	if (!hd_dtype_is_half(check->pull_dtype))
		hash[!pulled] = hash[pulled];
}

void hd_check_model(struct hd_check *check, const float *model, hd_version version) {
	uint64_t bytes = check->values * sizeof(float);
	const struct hd_check_log *log;

	check->dirty = false;
	if (check->failed || !hd_check_enter_log(check, version))
		return;
	if (check->more > 0) {
		hd_check_fail(check, "a sum was committed without its last %u parts", check->more);
		return;
	}
	log = hd_check_present(check);
	assert(log);
	if (version != hd_version_make(log->incarnation, log->first + log->count - 1)) {
		hd_check_fail(
			check,
			"the server says version %u/%" PRIu64 ", its commits say %u/%" PRIu64,
			hd_version_incarnation(version),
			hd_version_counter(version),
			log->incarnation,
			log->first + log->count - 1
		);
	} else if (!model || (!check->blind && memcmp(model, check->shadow, bytes) != 0)) {
		uint64_t i = model ? first_difference(model, check->shadow, check->values) : 0;

		hd_check_fail(
			check,
			"the model at version %" PRIu64
			" is not the sum of its updates: value %" PRIu64 " is %g, not %g",
			hd_version_counter(version),
			i,
			model ? (double)model[i] : 0.0,
			(double)check->shadow[i]
		);
	}
}

void hd_check_pull(struct hd_check *check, uint32_t worker, const float *data, hd_version version) {
	uint64_t *hash;
	/* A restarted server has shown no version yet, and this one was in flight, or before a stopped process. */
	bool former
		= check->restored && hd_check_find_log(check, hd_version_incarnation(version)) >= 0;

	if (check->failed || (!former && !hd_check_enter_log(check, version)))
		return;
	check->stats.pulls++;
	hash = hd_check_hash_at(check, version);
	if (!hash && check->split
	    && hd_version_incarnation(version) != hd_check_present(check)->incarnation)
		return;
	if (!hash)
		hd_check_fail(
			check,
			"worker %u pulled version %u/%" PRIu64 ", which never was",
			worker,
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
	else if (differs(check, hash[1], data))
		hd_check_fail(
			check,
			"worker %u pulled something else than version %u/%" PRIu64,
			worker,
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
	else
		note_seen(check, hash, true, data);
}

bool hd_check_is(struct hd_check *check, const float *model, hd_version version) {
	uint64_t *hash;

	if (!hd_check_enter_log(check, version))
		return false;
	hash = hd_check_hash_at(check, version);
	return hash && !differs(check, *hash, model);
}

void hd_check_checkpoint(struct hd_check *check, const float *model, hd_version version) {
	uint64_t *hash;

	if (check->failed || !hd_check_enter_log(check, version))
		return;
	hash = hd_check_hash_at(check, version);
	if (!hash || differs(check, *hash, model))
		hd_check_fail(
			check,
			"the checkpoint begun at version %u/%" PRIu64 " is not that version",
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
}

/* Whether a version is in the history of an incarnation's version with this counter. */
static bool led_to(const struct hd_check *check, int log, uint64_t counter, hd_version version) {
	const uint64_t at = hd_version_counter(version);

	while (log >= 0) {
		const struct hd_check_log *of = &check->logs[log];

		if (of->incarnation == hd_version_incarnation(version))
			return at >= of->first && at - of->first < of->count && at <= counter;
		counter = counter < of->first ? counter : of->first;
		log = of->parent;
	}
	return false;
}

/* Marks the pushes in the history of a version: commits of its incarnation, and of earlier ones up to its start. */
static void mark_history(struct hd_check *check, hd_version version) {
	int at = hd_check_find_log(check, hd_version_incarnation(version));
	uint64_t last = hd_version_counter(version);

	while (at >= 0) {
		const struct hd_check_log *log = &check->logs[at];

		for (uint64_t i = 1; i <= last - log->first; i++) {
			const struct hd_check_commit *commit = &log->commits[i];
			struct hd_check_record *record
				= hd_check_find(check, commit->worker, commit->round);

			if (record && record->process == commit->process)
				record->restored
					= hd_version_make(log->incarnation, log->first + i);
		}
		last = log->first;
		at = log->parent;
	}
}

/* From now on the history is that of a version (0: none). */
static void restore_history(struct hd_check *check, hd_version version) {
	if (version != 0)
		mark_history(check, version);
	for (uint32_t w = 0; w < HD_CHECK_WORKERS_MAX; w++) {
		for (uint32_t i = 0; i < check->workers[w].count; i++) {
			struct hd_check_record *record = &check->workers[w].records[i];
			if (record->committed != 0 && record->restored == 0) {
				record->rolled_back = true;
				check->stats.rolled_back++;
			}
			if (record->restored != 0)
				record->was_committed = record->restored;
			record->committed = record->restored;
			record->restored = 0;
		}
	}
}

bool hd_check_led_to(const struct hd_check *check, hd_version version) {
	int log = check->restored ? check->restored_from : check->present;
	uint64_t most = check->restored ? check->restored_counter : UINT64_MAX;

	return led_to(check, log, most, version);
}

bool hd_check_shows_other(const struct hd_check *check, hd_version version) {
	const int log = hd_check_find_log(check, hd_version_incarnation(version));

	return log >= 0 && log != check->present;
}

void hd_check_durable(struct hd_check *check, hd_version version) {
	if (!check->failed && !hd_check_led_to(check, version))
		hd_check_fail(
			check,
			"version %u/%" PRIu64 " was said to be durable, and led to nothing",
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
}

void hd_check_restore(struct hd_check *check, const float *model, hd_version version) {
	uint64_t *hash;

	if (check->failed)
		return;
	hash = hd_check_hash_at(check, version);
	if (model && (!hash || differs(check, *hash, model))) {
		hd_check_fail(
			check,
			"the checkpoint of version %u/%" PRIu64 " is not that version",
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
		return;
	}
	if (model)
		note_seen(check, hash, false, model);
	hd_check_reset(check, model);
	restore_history(check, model ? version : 0);
	check->more = 0;
	check->former = false;
	check->restored = true;
	check->restored_counter = hd_version_counter(version);
	check->restored_from
		= model ? hd_check_find_log(check, hd_version_incarnation(version)) : -1;
	check->dirty = false;
}
