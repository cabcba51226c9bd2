/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker's state; private to its own files. */
#ifndef HD_CHECK_PRIVATE_H
#define HD_CHECK_PRIVATE_H

#include "hd_check.h"
#include "hd_jobspec.h"

#define HD_CHECK_WORKERS_MAX 4096
#define HD_CHECK_LOGS_MAX 4096
#define HD_CHECK_CHANGES 256 /* of members: the newest ones */
#define HD_CHECK_CREDITS_KEPT 8 /* of a worker; more are never outstanding */

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
	hd_version restored; /* during a restore: its version in the restored history */
	uint32_t process;
	uint64_t salt; /* of its contents, unless the job trains: */
	uint8_t dtype;
	uint64_t bytes;
	float weight;
	float *data; /* a copy, until its outcome */
	uint8_t state; /* enum hd_check_state */
	uint8_t outcome; /* enum hd_outcome, once ended */
	bool rolled_back; /* since its last outcome */
	bool apart; /* its outcome belongs to another history than the present one */
};

/* A push that was granted in advance. */
struct hd_check_credit {
	uint64_t token, position, bytes;
	uint32_t round;
	bool ended; /* committed, or returned by the server */
};

struct hd_check_worker {
	struct hd_check_record *records; /* by round - 1 */
	uint32_t count, capacity;
	struct hd_check_credit credits[HD_CHECK_CREDITS_KEPT]; /* the newest: a ring */
	uint64_t credit_count;
	uint64_t step; /* the newest that has an update of it */
};

/* The update that made a version. */
struct hd_check_commit {
	uint32_t worker, round;
	uint32_t process; /* the worker's process */
};

/* In place of a hash: a version of a retired server that no node has shown yet. */
#define HD_CHECK_UNSEEN 1

/* One incarnation of a server: counters from `first` on, and the model's hash at each. */
struct hd_check_log {
	uint16_t incarnation;
	int parent; /* the incarnation with whose checkpoint it began, -1: none */
	bool apart; /* of a server that was not the job's, or that went on after it was replaced */
	uint64_t first;
	uint64_t *hash; /* of the model, and of a pull of it; 0: no node ever sees that version */
	struct hd_check_commit *commits; /* one for each; the first is of the parent */
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
	bool *named; /* indices of a sum of sparse updates so far; NULL: there is none */
	uint64_t merged_bytes; /* as in the commit of its latest part */
	/* Of a synchronous job. */
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count, step_size;
	uint32_t sync_most; /* after the owner of the worker count changed it, if that is more */
	double step_weight; /* of a federated one: of its members so far */
	float step_scale; /* of the step being reported, or the last one; 0: none */
	uint64_t step_change; /* the change of members for that step */
	uint32_t scale_base; /* of the job's description; 0: none */
	uint32_t late_most; /* permitted lateness of an update, in steps; 0: none */
	uint64_t bases[HD_LATE_STEPS_MAX + 1]; /* of the newest steps, by their number */
	float late_scale; /* factor of the update that is being committed */
	uint64_t step_base; /* counter of the model with which the present step begins */
	bool sync_blind;
	/* Membership. */
	uint32_t ranks;
	struct hd_event changes[HD_CHECK_CHANGES]; /* the first report of each, by number */
	struct hd_check_worker *workers;
	struct hd_check_log logs[HD_CHECK_LOGS_MAX];
	uint32_t log_count;
	int present; /* the incarnation of the job's server; -1: none yet */
	bool split; /* a retired server has restarted or committed */
	/* A retired server restarts from this version (0: from none), without commits so far. */
	bool former;
	hd_version former_from;
	bool restored; /* the next version seen is of a new incarnation */
	uint64_t restored_counter;
	int restored_from;
	bool dirty;
	uint16_t more; /* parts of the present sum that are still to be reported */
	uint64_t pending;
	bool failed;
	char failure[512];
	struct hd_check_stats stats;
};

/* --- hd_check_contents.c --- */
/* Keeps a copy of a push's contents when the job trains. */
void hd_check_keep(struct hd_check *check, struct hd_check_record *record, const float *data);
void hd_check_forget(struct hd_check_record *record);
/* Adds a committed update to the shadow model. Parts of a sum (`more`: how many follow) are added in the order of their
 * reports, and make as many steps of their mean. */
void hd_check_apply(
	struct hd_check *check,
	struct hd_check_record *record,
	float weight,
	uint16_t more
);
/* A part of a sum of sparse updates: with the last one the bytes are compared, and a job that trains makes its step. */
void hd_check_merge(
	struct hd_check *check,
	const struct hd_check_record *record,
	float weight,
	uint16_t more
);
void hd_check_merge_end(struct hd_check *check);
/* Sets the shadow model to a restored one (NULL: to the initial one). */
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
/* STEPPED: the factor of the step that is reported next. */
void hd_check_stepped(struct hd_check *check, const struct hd_event *event);
/* Adds scratch to the step; the last one makes the step. */
void hd_check_step_apply(
	struct hd_check *check,
	const struct hd_check_record *record,
	uint16_t more
);

/* --- hd_check_former.c --- */
/* Whether an outcome is right in the history of its version: of an incarnation that the present one does not
 * continue. */
bool hd_check_distinguishes(
	const struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
);

/* --- hd_check_members.c --- */
/* The first report of a change; NULL: there was none, or it is too old to be kept. */
const struct hd_event *hd_check_change(const struct hd_check *check, uint64_t change);
/* The change may have been reported: a change of a later process has its place by now. */
bool hd_check_is_forgotten(const struct hd_check *check, uint64_t change);

/* The newest incarnation of the job's server. */
struct hd_check_log *hd_check_present(struct hd_check *check);
/* Begins another incarnation, without a version. NULL: a violation. */
struct hd_check_log *
hd_check_log_begin(struct hd_check *check, uint16_t incarnation, int parent, uint64_t first);
/* Adds its next version, with the model's two hashes. */
void hd_check_log_add(
	struct hd_check *check,
	struct hd_check_log *log,
	const struct hd_check_commit *commit,
	const uint64_t hash[2]
);
/* A push; NULL: there was none. */
struct hd_check_record *
hd_check_find(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Index of the entry of an incarnation, -1 when there is none. */
int hd_check_find_log(const struct hd_check *check, uint16_t incarnation);
/* Begins a new incarnation when the version is the first of one after a restore. False: a violation. */
bool hd_check_enter_log(struct hd_check *check, hd_version version);
/* The model's hash at a version, and that of a pull of it; NULL when there is none. */
uint64_t *hd_check_hash_at(const struct hd_check *check, hd_version version);
/* from[i] -= what[i] */
void hd_check_subtract(float *from, const float *what, uint64_t values);

#endif
