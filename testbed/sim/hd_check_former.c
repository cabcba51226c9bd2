/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server does that is the job's server no more and does not know it: versions of a history that is lost when it
 * hears so, but that its checkpoints have.
 *
 *   S  1/1 .. 1/7 -- cut off: 1/8, 1/9, checkpoint -- hears of R, follows it -- R and S die, S comes back at 1/9
 *   R              \-- promoted: 5/7 .. 5/60 ----------------------------------^ lost
 *
 * There is no shadow model of it: whoever shows a version first says what it holds (HD_CHECK_UNSEEN). What it tells its
 * workers of their pushes is of its history: it drops again what only the present one has.
 */
#include "hd_check_private.h"

#include <inttypes.h>

void hd_check_former(struct hd_check *check, hd_version version) {
	check->split = check->former = true;
	check->former_from = version;
}

void hd_check_goes_on(struct hd_check *check) {
	struct hd_check_life *life = hd_check_present(check);

	check->split = true;
	if (life && !check->restored)
		life->apart = true;
}

/* Its first version is that of its checkpoint. */
static struct hd_check_life *begin(struct hd_check *check, uint16_t incarnation) {
	const hd_version from = check->former_from;
	const uint64_t unseen[2] = {HD_CHECK_UNSEEN, HD_CHECK_UNSEEN};
	const uint64_t *hash = hd_check_hash_at(check, from);
	struct hd_check_life *life;
	int parent = -1;

	if (from != 0)
		parent = hd_check_find_life(check, hd_version_incarnation(from));
	life = hd_check_life_begin(check, incarnation, parent, hd_version_counter(from));
	if (!life)
		return NULL;
	life->apart = true;
	hd_check_life_add(check, life, &(struct hd_check_commit){0}, hash ? hash : unseen);
	return life;
}

/* The life that it has begun; or the one in which it was the job's server. NULL: it is not known from when on. */
static struct hd_check_life *life_of(struct hd_check *check, hd_version version) {
	const uint16_t incarnation = hd_version_incarnation(version);
	const int at = hd_check_find_life(check, incarnation);

	if (at < 0 && !check->former)
		return NULL;
	check->former = false;
	return at < 0 ? begin(check, incarnation) : &check->lives[at];
}

static void
track(struct hd_check *check, const struct hd_event *event, const struct hd_check_record *record) {
	const uint64_t hash = event->more > 0 ? 0 : HD_CHECK_UNSEEN;
	const struct hd_check_commit commit
		= {event->worker, event->round, record ? record->life : 0};
	const uint64_t counter = hd_version_counter(event->version);
	struct hd_check_life *life = life_of(check, event->version);

	if (!life)
		return;
	if (counter != life->first + life->count)
		hd_check_fail(
			check,
			"version %u/%" PRIu64 " was committed apart, where %" PRIu64 " was next",
			life->incarnation,
			counter,
			life->first + life->count
		);
	else
		hd_check_life_add(check, life, &commit, (const uint64_t[2]){hash, hash});
}

void hd_check_lost(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_record *record = hd_check_find(check, event->worker, event->round);

	if (check->failed)
		return;
	if (event->kind == HD_EVENT_FALLBACK)
		(void)life_of(check, event->version);
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

/* The present life, or one that it comes from. */
static bool is_of_present(const struct hd_check *check, int life) {
	int at = check->restored ? check->restored_from : check->present;

	while (at >= 0 && at != life)
		at = check->lives[at].parent;
	return at >= 0;
}

/* Where a push is in the history of a version; 0: it is not. */
static hd_version find_commit(
	const struct hd_check *check,
	hd_version version,
	const struct hd_event *push,
	uint32_t worker_life
) {
	int at = hd_check_find_life(check, hd_version_incarnation(version));
	uint64_t last = hd_version_counter(version);

	while (at >= 0) {
		const struct hd_check_life *life = &check->lives[at];

		for (size_t i = 1; i < life->count && life->first + i <= last; i++) {
			const struct hd_check_commit *commit = &life->commits[i];

			if (commit->worker == push->worker && commit->round == push->round
			    && commit->life == worker_life)
				return hd_version_make(life->incarnation, life->first + i);
		}
		last = last < life->first ? last : life->first;
		at = life->parent;
	}
	return 0;
}

bool hd_check_told_apart(
	const struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
) {
	const int life = hd_check_find_life(check, hd_version_incarnation(event->version));
	const hd_version right = event->aux == HD_OUTCOME_APPLIED ? event->version : 0;

	return record && life >= 0 && check->lives[life].apart && !is_of_present(check, life)
		&& find_commit(check, event->version, event, record->life) == right;
}

bool hd_check_outcome_apart(const struct hd_check *check, uint32_t worker, uint32_t round) {
	const struct hd_check_record *record = hd_check_find(check, worker, round);

	return record && record->state == RECORD_ENDED && record->apart;
}
