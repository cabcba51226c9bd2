/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A former server that does not know that it was replaced: its versions belong to a history that is lost when it is
 * told, but that its checkpoints have.
 *
 *   S  1/1 .. 1/7 -- cut off: 1/8, 1/9, checkpoint -- learns of R, follows it -- R and S die, S comes back at 1/9
 *   R              \-- promoted: 5/7 .. 5/60 -------------------------------^ lost
 *
 * There is no shadow model of it: the first node that shows a version defines its content (HD_CHECK_UNSEEN). Outcomes
 * that it sends to its workers belong to its history, which lacks the pushes that only the present history has.
 */
#include "hd_check_private.h"

#include <inttypes.h>

void hd_check_former(struct hd_check *check, hd_version version) {
	check->split = check->former = true;
	check->former_from = version;
}

void hd_check_goes_on(struct hd_check *check) {
	struct hd_check_log *log = hd_check_present(check);

	check->split = true;
	if (log && !check->restored)
		log->apart = true;
}

/* Its first version is that of its checkpoint. */
static struct hd_check_log *begin(struct hd_check *check, uint16_t incarnation) {
	const hd_version from = check->former_from;
	const uint64_t unseen[2] = {HD_CHECK_UNSEEN, HD_CHECK_UNSEEN};
	const uint64_t *hash = hd_check_hash_at(check, from);
	struct hd_check_log *log;
	int parent = -1;

	if (from != 0)
		parent = hd_check_find_log(check, hd_version_incarnation(from));
	log = hd_check_log_begin(check, incarnation, parent, hd_version_counter(from));
	if (!log)
		return NULL;
	log->apart = true;
	hd_check_log_add(check, log, &(struct hd_check_commit){0}, hash ? hash : unseen);
	return log;
}

/* The incarnation that it has begun, or the one in which it was the job's server. NULL: its start is unknown. */
static struct hd_check_log *log_of(struct hd_check *check, hd_version version) {
	const uint16_t incarnation = hd_version_incarnation(version);
	const int at = hd_check_find_log(check, incarnation);

	if (at < 0 && !check->former)
		return NULL;
	check->former = false;
	return at < 0 ? begin(check, incarnation) : &check->logs[at];
}

static void
track(struct hd_check *check, const struct hd_event *event, const struct hd_check_record *record) {
	const uint64_t hash = event->more > 0 ? 0 : HD_CHECK_UNSEEN;
	const struct hd_check_commit commit
		= {event->worker, event->round, record ? record->process : 0};
	const uint64_t counter = hd_version_counter(event->version);
	struct hd_check_log *log = log_of(check, event->version);

	if (!log)
		return;
	if (counter != log->first + log->count)
		hd_check_fail(
			check,
			"version %u/%" PRIu64 " was committed apart, where %" PRIu64 " was next",
			log->incarnation,
			counter,
			log->first + log->count
		);
	else
		hd_check_log_add(check, log, &commit, (const uint64_t[2]){hash, hash});
}

void hd_check_lost(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_record *record = hd_check_find(check, event->worker, event->round);

	if (check->failed)
		return;
	if (event->kind == HD_EVENT_FALLBACK)
		(void)log_of(check, event->version);
	if (event->kind != HD_EVENT_COMMITTED)
		return;
	check->split = true;
	track(check, event, record);
	if (!record || record->committed != 0)
		return;
	record->was_committed = event->version;
	record->rolled_back = true;
	check->stats.rolled_back++;
}

/* The present incarnation, or one from which it continues. */
static bool is_of_present(const struct hd_check *check, int log) {
	int at = check->restored ? check->restored_from : check->present;

	while (at >= 0 && at != log)
		at = check->logs[at].parent;
	return at >= 0;
}

/* The version of a push in the history of another version; 0: it is not in it. */
static hd_version find_commit(
	const struct hd_check *check,
	hd_version version,
	const struct hd_event *push,
	uint32_t process
) {
	int at = hd_check_find_log(check, hd_version_incarnation(version));
	uint64_t last = hd_version_counter(version);

	while (at >= 0) {
		const struct hd_check_log *log = &check->logs[at];

		for (size_t i = 1; i < log->count && log->first + i <= last; i++) {
			const struct hd_check_commit *commit = &log->commits[i];

			if (commit->worker == push->worker && commit->round == push->round
			    && commit->process == process)
				return hd_version_make(log->incarnation, log->first + i);
		}
		last = last < log->first ? last : log->first;
		at = log->parent;
	}
	return 0;
}

bool hd_check_distinguishes(
	const struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
) {
	const int log = hd_check_find_log(check, hd_version_incarnation(event->version));
	const hd_version right = event->aux == HD_OUTCOME_APPLIED ? event->version : 0;

	return record && log >= 0 && check->logs[log].apart && !is_of_present(check, log)
		&& find_commit(check, event->version, event, record->process) == right;
}

bool hd_check_outcome_apart(const struct hd_check *check, uint32_t worker, uint32_t round) {
	const struct hd_check_record *record = hd_check_find(check, worker, round);

	return record && record->state == RECORD_ENDED && record->apart;
}
