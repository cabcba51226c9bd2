/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one owner of a job's worker count: exactly one policy decides how many workers the job should have, and why.
 * Values that depend on the target change together with it: the N of N-sync, tau_max, and the factor on updates. Pure:
 * time and observations are arguments.
 *
 *     set("policy=growth n=2 eta=1.01")  -->  one row of policies[], its parameters, its state
 *     observe(now, step, loss, workers...)    updates the account; passed to the policy
 *     decide(now, workers)               -->  n_target in n_min..n_max, and a reason as text
 *     shape(job, workers)                -->  N, tau_max and scale for that many workers
 *
 * A policy is a row of the table: a name, its keys, and up to three functions. To add one, write the row in a file of
 * its own, declare it in hd_elastic_policy.h, and list it in hd_elastic.c.
 */
#ifndef HD_ELASTIC_H
#define HD_ELASTIC_H

#include "hd_elastic_bound.h"
#include "hd_limits.h"
#include "hd_types.h"

#include <stdbool.h>
#include <stddef.h>

#define HD_ELASTIC_WORDS_BYTES 512 /* of what set() takes, and text() gives: a COMMAND's value */
#define HD_ELASTIC_REASON_BYTES 192
#define HD_ELASTIC_STEPS_MAX UINT64_C(1000000000000000) /* whole in a double */
#define HD_ELASTIC_KEYS_MAX 16 /* of one policy */
#define HD_ELASTIC_TEXT_BYTES 128 /* of a value that is not a number */
#define HD_ELASTIC_STATE_BYTES 16384 /* of a policy */

/* The state after a step of the job, or since the last one. */
struct hd_elastic_observation {
	uint64_t step; /* the newest that was reported, counted from 1 */
	double loss; /* mean of a sample; finite */
	uint64_t samples; /* number of values in the mean */
	uint32_t workers; /* y: workers that took part */
	double price; /* of a worker for an hour; < 0: unknown */
	double step_s; /* seconds of the step, mean of the workers that reported; <= 0: unknown */
	double comm_share; /* of step_s spent on communication, 0..1; < 0: unknown */
};

/* Keys that every policy has. */
struct hd_elastic_common {
	uint32_t n_min, n_max; /* the target's limits */
	double base; /* workers for which the job's rate was chosen; 0: the first target */
	enum hd_elastic_rate_rule
		scale; /* FIXED: the job's; LINEAR: workers / base; else by account.steps, from 1 */
	double scale_max; /* limit of the scale */
	uint32_t scale_every; /* steps */
	double scale_factor, scale_to; /* of GROWING; of TO */
	double sync; /* N of N-sync is this share of the workers; 0: the job's N */
	double tau; /* tau_max is this many for each worker; 0: the job's */
	double notice_s; /* for a worker above the target */
	double interval_s; /* minimum time between two changes of the target */
};

/* Resources used so far: the owner keeps them over a restart. */
struct hd_elastic_account {
	double ran_s; /* since the policy was set */
	double worker_s; /* the integral of workers over time */
	double money; /* of workers x price */
	uint64_t step; /* the newest that was observed */
	uint64_t steps; /* of the job, by all workers so far; <= HD_ELASTIC_STEPS_MAX */
	uint64_t steps_before; /* of these: before the present workers, which count from 1 */
};

struct hd_elastic;

struct hd_elastic_key {
	const char *name, *help;
	bool text; /* of its own form: `check` returns an error text, NULL: none */
	const char *(*check)(const char *text);
	double least, most, fallback; /* of a number */
	bool required, whole;
};

struct hd_elastic_decision {
	uint32_t target; /* is limited to n_min..n_max */
	char reason[HD_ELASTIC_REASON_BYTES];
};

struct hd_elastic_policy {
	const char *name, *help;
	const struct hd_elastic_key *keys; /* ends with a NULL name; at most HD_ELASTIC_KEYS_MAX */
	size_t state_bytes; /* <= HD_ELASTIC_STATE_BYTES; all zero before init */
	/* Workers above the target are told to leave. */
	bool releases;
	/* Its values are set. Checks them together: -EINVAL with a text in error, and nothing changes. NULL: no
	 * check. */
	int (*init)(struct hd_elastic *e, char *error, size_t bytes);
	/* NULL: it needs no observations. */
	void (*observe)(struct hd_elastic *e, const struct hd_elastic_observation *o);
	/* out->target and out->reason. <= 1 ms; no allocation. */
	void (*decide)(const struct hd_elastic *e, double now, struct hd_elastic_decision *out);
};

struct hd_elastic {
	const struct hd_elastic_policy *policy; /* NULL: the number of workers is not controlled */
	struct hd_elastic_common common;
	double value[HD_ELASTIC_KEYS_MAX]; /* by the policy's keys */
	char text[HD_ELASTIC_KEYS_MAX][HD_ELASTIC_TEXT_BYTES];
	uint32_t given; /* bit i: key i was given, and is not its fallback */
	uint32_t common_given;
	uint32_t target; /* 0: not decided yet */
	double changed_at; /* when the target last changed; < 0: never */
	char reason[HD_ELASTIC_REASON_BYTES];
	struct hd_elastic_account account;
	double last; /* time of the newest input; < 0: none */
	uint32_t workers; /* since then */
	uint64_t former; /* account.steps_before of the former workers */
	double price; /* < 0: unknown */
	struct hd_elastic_observation seen; /* the newest; step 0: none */
	_Alignas(16) unsigned char state[HD_ELASTIC_STATE_BYTES];
};

/* The values for a number of workers: the fields of ROSTER. */
struct hd_elastic_shape {
	uint32_t sync_count; /* N; 0: the job's */
	uint32_t tau_max; /* 0: the job's */
	float scale; /* factor on updates; 0: the job's */
};

/* The job's own values, from which a shape is computed. */
struct hd_elastic_job {
	uint32_t tau_max; /* no bound is looser than this */
	bool counts; /* N-sync or N-batch-sync */
	bool bounds; /* asynchronous: tau_max applies */
};

void hd_elastic_init(struct hd_elastic *e);

/*
 * Reads a policy and its values from words: "policy=NAME key=value ...", in any order, each key once. Without policy=
 * the policy stays, and the named keys change. A changed policy starts from the beginning, with the account of the job.
 * `now` in s; `workers`: the present number. Returns 0; -EINVAL (unknown policy or key, a value out of its limits, a
 * missing one, n_min above n_max, less than one worker, more than hd_elastic_words() can write) with a text in `error`,
 * and *e as it was.
 */
int hd_elastic_set(
	struct hd_elastic *e,
	const char *words,
	double now,
	uint32_t workers,
	char *error,
	size_t error_bytes
);
/* Right after set(): the decision and the account of an earlier process. There are no workers until one registers. */
void hd_elastic_resume(
	struct hd_elastic *e,
	uint32_t target,
	const char *reason,
	const struct hd_elastic_account *account,
	double price
);
/* The words with which set() would set this, without values at their fallback. Returns their length, even if it exceeds
 * the buffer; at most HD_ELASTIC_WORDS_BYTES. */
size_t hd_elastic_words(const struct hd_elastic *e, char *words, size_t bytes);

/* --- hd_elastic_account.c --- */
/* Accounts for the time since the last call with the old number of workers; from now on there are `workers`. Those that
 * come after there were none are new ones, unless hd_elastic_back() was called. */
void hd_elastic_count(struct hd_elastic *e, double now, uint32_t workers);
/* There are no workers, and the last ones come back: their step numbers continue. */
void hd_elastic_back(struct hd_elastic *e);
/* The price of a worker for an hour from now on. -EINVAL: not finite, or < 0. */
int hd_elastic_price(struct hd_elastic *e, double now, double price);
/* A step. -EINVAL (a loss that is not finite, no samples, step 0, more than HD_WORKERS_MAX workers): *e as it was. */
int hd_elastic_observe(
	struct hd_elastic *e,
	double now,
	const struct hd_elastic_observation *observation
);
/* --- hd_elastic.c --- */
/* The target, in n_min..n_max, never below 1; e->reason says why. 0: no policy. *changed: it differs from the last
 * one. */
uint32_t hd_elastic_decide(struct hd_elastic *e, double now, bool *changed);
/* The values for this many workers: min(workers, target) of them count. */
struct hd_elastic_shape
hd_elastic_shape(const struct hd_elastic *e, const struct hd_elastic_job *job, uint32_t workers);

/* A value by its key's name. A name outside of the policy's table is a programming error. */
double hd_elastic_value(const struct hd_elastic *e, const char *key);
/* The text of such a key; "" if not given. */
const char *hd_elastic_text(const struct hd_elastic *e, const char *key);
/* Whether a key was given. */
bool hd_elastic_given(const struct hd_elastic *e, const char *key);

/* Row `index` of the table; NULL past the last. */
const struct hd_elastic_policy *hd_elastic_policy(size_t index);
/* The keys that every policy has; NULL past the last. */
const struct hd_elastic_key *hd_elastic_common_key(size_t index);

#endif
