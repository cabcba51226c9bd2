/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariants of docs/architecture.md, checked against what nodes report and what the server's
 * model and the workers' pulls really hold.
 *
 *   PUSHED --> record(worker, round) --> COMMITTED: added to a shadow model, exactly once
 *                         \--> OUTCOME, exactly one       |
 *                                                        v
 *          server's model == shadow, bit for bit;  a pull == the model at its version
 *
 * Updates are vectors of small whole numbers that each push's own number determines, applied with rate
 * 1 and no momentum: the model is the exact negative sum of the committed updates in any order of commits.
 * The parts of a sum are committed as several versions at once, and no model is any but the last of them.
 * A job that really trains (hd_check_train) is replayed from the commits instead, with the same steps
 * of SGD: bit for bit as well, until a server comes back from a checkpoint (below).
 * A checker knows no simulator: it can be fed by hand, and by tests that lie to it.
 */
#ifndef HD_CHECK_H
#define HD_CHECK_H

#include "hd_event.h"
#include "hd_kernels.h"
#include "hd_runs.h"

#define HD_CHECK_DELAYS 256 /* counted one by one; the last counts all above */

struct hd_check;

/* 0 or -ENOMEM. */
int hd_check_create(uint64_t values, uint32_t tau_max, struct hd_check **check);
void hd_check_destroy(struct hd_check *check);

/* The job trains: its model begins at `initial` (copied), updates are what pushes carry, and
 * commits are steps of `sgd` on them, scaled by the weight that the commit names and rounded as
 * they travel. To be called before anything else. After a crash of the server contents are not
 * compared any more: what was rolled back comes again from workers' memory, of which the checker
 * keeps no copies. 0 or -ENOMEM. */
int hd_check_train(struct hd_check *check, const float *initial, const struct hd_sgd *sgd);

/* The job is synchronous (enum hd_sync): `count` updates make a step, or as many as there are workers. `exact`: no
 * aggregator adds any of them, so that a job that trains can be replayed. After hd_check_train(). */
void hd_check_steps(struct hd_check *check, uint8_t sync, uint32_t count, bool exact);
/* Workers that the job's rate is right for; 0: any number. */
void hd_check_scale(struct hd_check *check, uint32_t base);

/* Pulls travel in this type: what is delivered is the model rounded to it. Before anything else. */
void hd_check_pulls_as(struct hd_check *check, uint8_t dtype);

/* The first violation in words, NULL while there is none. Everything after it is ignored. */
const char *hd_check_failure(const struct hd_check *check);
/* Reports a violation that somebody else found. */
__attribute__((format(printf, 2, 3))) void
hd_check_fail(struct hd_check *check, const char *format, ...);

#define HD_CHECK_RUNS_MAX 24
/* The runs of a sparse update with this salt, within the model; its contents are hd_check_fill()'s at these
 * indices. Returns how many. */
size_t hd_check_runs(uint64_t salt, uint64_t values, struct hd_run runs[HD_CHECK_RUNS_MAX]);

/* The contents of an update: any number serves that no other push of the run has. */
void hd_check_fill(uint64_t salt, float *data, uint64_t values);

struct hd_check_pushed {
	uint32_t worker, round;
	uint32_t life; /* tells apart processes of one rank */
	uint64_t salt;
	hd_version base;
	uint8_t dtype; /* in which it travels; sparse: of the salt's runs */
	uint64_t bytes; /* that travel */
	float weight; /* of a federated job: what it is to count; 0: 1 */
	const float *data; /* what it carries, when the job trains; copied */
};

/* A push was accepted. */
void hd_check_push(struct hd_check *check, const struct hd_check_pushed *push);
/* Takes an event of any node; looks at STEPPED and COMMITTED (of the server) and push OUTCOMEs (of workers). */
void hd_check_event(struct hd_check *check, const struct hd_event *event);
/* The same event, for what goes on credits: CREDITED of the controller, COMMITTED and VOIDED of the server (then
 * `servers`). */
void hd_check_credits(struct hd_check *check, const struct hd_event *event, bool servers);
/* Updates of a federated job may be so many steps late: then they weigh half as much for each. */
void hd_check_late(struct hd_check *check, uint32_t most);
/* ROSTER of the server: of how many updates its steps are from now on. */
void hd_check_roster(struct hd_check *check, const struct hd_event *event);
/* A node's word on who takes part: ROSTER of any node, which is to be told apart from its former lives. */
struct hd_check_listener {
	const char *name;
	uint64_t change; /* the newest that it heard of; 0: none */
};
void hd_check_members(
	struct hd_check *check,
	struct hd_check_listener *listener,
	const struct hd_event *event
);
/* So many ranks there are at most. Before anything else. */
void hd_check_ranks(struct hd_check *check, uint32_t ranks);
/* A server that is none any more begins all the same, from its checkpoint of this version (0: from none). */
void hd_check_former(struct hd_check *check, hd_version version);
/* Another one takes the place of the job's server (then hd_check_restore()), and that lives. */
void hd_check_goes_on(struct hd_check *check);
/* Of a server whose replica has taken its place, and that does not know it: its commits are of a history that
 * is lost; unless it comes back as the job's server from a checkpoint of that. */
void hd_check_lost(struct hd_check *check, const struct hd_event *event);
/* Whether a push's outcome was told by such a server, of its own history. */
bool hd_check_outcome_apart(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Whether a version is in the present history. */
bool hd_check_led_to(const struct hd_check *check, hd_version version);
/* Whether a version is another life's than the present server's: of a copy, where the job's server has died. */
bool hd_check_shows_other(const struct hd_check *check, hd_version version);
/* DURABLE of a server whose replica has taken its place: it must be true all the same. */
void hd_check_durable(struct hd_check *check, hd_version version);
/* Whether these are the bits of that version, which the present server gave to its replica: of a server that began anew
 * it may be the first that anybody sees. */
bool hd_check_is(struct hd_check *check, const float *model, hd_version version);
/* Whether a COMMITTED came since the last hd_check_model(). */
bool hd_check_dirty(const struct hd_check *check);
/* The server's model between two steps. */
void hd_check_model(struct hd_check *check, const float *model, hd_version version);
/* A pull was delivered. */
void hd_check_pull(struct hd_check *check, uint32_t worker, const float *data, hd_version version);
/* A checkpoint was begun. */
void hd_check_checkpoint(struct hd_check *check, const float *model, hd_version version);
/* The server came back from a checkpoint (model NULL, version 0: from none), or another took its place at a version.
 * What is not in that version's history is rolled back; what is in it counts, also where it was rolled back before: a
 * replica may hold a history that its server, which began anew without it, had lost. */
void hd_check_restore(struct hd_check *check, const float *model, hd_version version);
/* A worker's process ended: what it had pending failed. It may have been committed all the same. */
void hd_check_worker_gone(struct hd_check *check, uint32_t worker);
/* No push may be pending now, and the sums must agree. */
void hd_check_settled(struct hd_check *check);
/* The version at which a push is in the present history; 0: it is not in the model. */
hd_version hd_check_committed(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Pushes without an outcome. */
uint64_t hd_check_pending(const struct hd_check *check);

/* What became of the pushes, by workers' OUTCOMEs; and of the delays, by the server's commits. */
struct hd_check_stats {
	uint64_t pushed, applied, dropped, failed; /* failed counts those of ended processes too */
	uint64_t reasons[HD_REASON_COUNT]; /* of dropped and failed */
	uint64_t commits, rolled_back, pulls;
	double weight; /* of the commits; 0 of an asynchronous job that trains */
	uint64_t late; /* of these: of rounds before */
	uint64_t changes; /* of who takes part, heard by all together */
	uint64_t steps, steps_short; /* of a synchronous job; of these, of fewer than its count */
	uint64_t steps_scaled; /* of these, by something else than 1 */
	uint64_t sums, grouped; /* commits of several updates in one, and these updates */
	uint64_t credits, credits_spent,
		credits_ended; /* given; committed; given up by the server */
	double delay_sum, delay_squares;
	uint64_t delay_max;
	uint64_t delays[HD_CHECK_DELAYS];
};
const struct hd_check_stats *hd_check_stats(const struct hd_check *check);

/* A sum of 64 bits over values, position by position; equal only for equal bits, near enough. */
uint64_t hd_check_hash(const float *data, uint64_t values);

#endif
