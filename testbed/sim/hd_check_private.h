/* SPDX-License-Identifier: BSD-3-Clause */
/* What the checker knows; shared by its own sources only. */
#ifndef HD_CHECK_PRIVATE_H
#define HD_CHECK_PRIVATE_H

#include "hd_check.h"
#include "hd_jobspec.h"

#define HD_CHECK_WORKERS_MAX 4096
#define HD_CHECK_LIVES_MAX 4096
#define HD_CHECK_CHANGES 256 /* of who takes part: the newest */
#define HD_CHECK_CREDITS_KEPT 8 /* of a worker; more are never under way */

enum hd_check_state {
	RECORD_NONE,
	RECORD_PENDING,
	RECORD_ENDED,
	RECORD_GONE /* its process ended first */
};

/* One push. */
struct hd_check_record {
	hd_version base;
	hd_version committed; /* in the present history; 0: not in the model */
	hd_version was_committed; /* the newest commit of any history */
	hd_version restored; /* while a history is restored: where it is in that */
	uint32_t life;
	uint64_t salt; /* of its contents, unless it trains: */
	uint8_t dtype;
	uint64_t bytes;
	float weight;
	float *data; /* a copy, until its outcome */
	uint8_t state; /* enum hd_check_state */
	uint8_t outcome; /* enum hd_outcome, once ended */
	bool rolled_back; /* since its last outcome */
	bool apart; /* its outcome is of another history than the present one */
};

/* A push that was granted in advance. */
struct hd_check_credit {
	uint64_t token, position, bytes;
	uint32_t round;
	bool ended; /* committed, or given up by the server */
};

struct hd_check_worker {
	struct hd_check_record *records; /* by round - 1 */
	uint32_t count, capacity;
	struct hd_check_credit credits[HD_CHECK_CREDITS_KEPT]; /* the newest: a ring */
	uint64_t credit_count;
	uint64_t step; /* the newest that it had an update in */
};

/* Whose update made a version. */
struct hd_check_commit {
	uint32_t worker, round;
	uint32_t life; /* of the worker */
};

/* In place of a hash: of a version that nobody has shown yet, of a server that was none any more. */
#define HD_CHECK_UNSEEN 1

/* One incarnation of a server: counters first.. and the model's hash at each. */
struct hd_check_life {
	uint16_t incarnation;
	int parent; /* the life whose checkpoint it began with, -1: none */
	bool apart; /* of a server that was not the job's, or went on when it was that no more */
	uint64_t first;
	uint64_t *
		hash; /* two for each: of the model, and as it is pulled; 0: nobody ever sees that version */
	struct hd_check_commit *commits; /* one for each; the first is of the life before */
	size_t count, capacity;
};

struct hd_check {
	uint64_t values;
	uint32_t tau_max;
	float *shadow, *scratch;
	uint8_t pull_dtype;
	/* Of a job that trains. */
	bool trains;
	bool blind; /* no longer compares contents */
	struct hd_sgd sgd;
	float *initial, *momentum;
	float *sum; /* of the parts of a sum, so far; NULL: there is none */
	uint16_t sum_parts; /* that it has */
	uint8_t sum_dtype;
	bool *named; /* by the parts of a sum of sparse ones, so far; NULL: there is none */
	uint64_t merged_bytes; /* as the commit of its latest part said */
	/* Of a synchronous job. */
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count, step_size;
	uint32_t sync_most; /* what the owner of the worker count made of it, where that is more */
	double step_weight; /* of a federated one: of its members so far */
	float step_scale; /* of the one that is told of, or was last; 0: none was */
	uint64_t step_change; /* that it is of */
	uint32_t scale_base; /* of the job's description; 0: none */
	uint32_t late_most; /* steps that an update of it may be late; 0: none */
	uint64_t bases[HD_LATE_STEPS_MAX + 1]; /* of the newest steps, by their number */
	float late_scale; /* what is left of the one that is committed */
	uint64_t step_base; /* counter of the model that the step under way begins with */
	bool sync_blind;
	/* Who takes part. */
	uint32_t ranks;
	struct hd_event changes[HD_CHECK_CHANGES]; /* as each was heard first, by number */
	struct hd_check_worker *workers;
	struct hd_check_life lives[HD_CHECK_LIVES_MAX];
	uint32_t life_count;
	int present; /* the life of the job's server; -1: there was none yet */
	bool split; /* a server that was none any more has begun or committed */
	bool former; /* it is to begin a life, and has committed nothing yet: from this version (0: anew) */
	hd_version former_from;
	bool restored; /* the next version seen is of a new incarnation */
	uint64_t restored_counter;
	int restored_from;
	bool dirty;
	uint16_t more; /* parts of the sum under way that are still to be told of */
	uint64_t pending;
	bool failed;
	char failure[512];
	struct hd_check_stats stats;
};

/* --- hd_check_contents.c --- */
/* Keeps a copy of what is pushed when the job trains. */
void hd_check_keep(struct hd_check *check, struct hd_check_record *record, const float *data);
void hd_check_forget(struct hd_check_record *record);
/* Adds a committed update to the shadow model. Parts of a sum (`more`: how many follow) are added in the order in
 * which they are told, and make as many steps of their mean. */
void hd_check_apply(
	struct hd_check *check,
	struct hd_check_record *record,
	float weight,
	uint16_t more
);
/* A part of a sum of sparse updates: with the last one it is compared, and of a job that trains stepped. */
void hd_check_merge(
	struct hd_check *check,
	const struct hd_check_record *record,
	float weight,
	uint16_t more
);
void hd_check_merge_end(struct hd_check *check);
/* The shadow model at a restored one (NULL: at the beginning). */
void hd_check_reset(struct hd_check *check, const float *model);
/* The hash of the shadow model as a pull delivers it. */
uint64_t hd_check_pulled_hash(struct hd_check *check);
void hd_check_contents_fini(struct hd_check *check);

/* --- hd_check_step.c --- */
/* A commit of a synchronous job. False: a violation. */
bool hd_check_step(
	struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
);
/* STEPPED: what the step that is told of next is multiplied by. */
void hd_check_stepped(struct hd_check *check, const struct hd_event *event);
/* Adds what is in scratch to the step; the last one is the step. */
void hd_check_step_apply(
	struct hd_check *check,
	const struct hd_check_record *record,
	uint16_t more
);

/* --- hd_check_former.c --- */
/* Whether an outcome is right in the history that its version names: of a life apart, from which the present one does
 * not come. */
bool hd_check_told_apart(
	const struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
);

/* --- hd_check_members.c --- */
/* A change as somebody said it first; NULL: nobody did, or it is too old to be kept. */
const struct hd_event *hd_check_change(const struct hd_check *check, uint64_t change);
/* It may have been said: another one, of a later life, has its place by now. */
bool hd_check_is_forgotten(const struct hd_check *check, uint64_t change);

/* The newest incarnation of the job's server. */
struct hd_check_life *hd_check_present(struct hd_check *check);
/* Another life, without a version. NULL: a violation. */
struct hd_check_life *
hd_check_life_begin(struct hd_check *check, uint16_t incarnation, int parent, uint64_t first);
/* Its next version, with the model's two hashes. */
void hd_check_life_add(
	struct hd_check *check,
	struct hd_check_life *life,
	const struct hd_check_commit *commit,
	const uint64_t hash[2]
);
/* A push; NULL: there was none. */
struct hd_check_record *
hd_check_find(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Index of an incarnation's life, -1 when it never was. */
int hd_check_find_life(const struct hd_check *check, uint16_t incarnation);
/* Begins a new life when the version is the first of one after a restore. False: a violation. */
bool hd_check_enter_life(struct hd_check *check, hd_version version);
/* The model's hash at a version, and that of what a pull of it delivers; NULL when it never was. */
uint64_t *hd_check_hash_at(const struct hd_check *check, hd_version version);
/* from[i] -= what[i] */
void hd_check_subtract(float *from, const float *what, uint64_t values);

#endif
