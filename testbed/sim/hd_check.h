/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the invariants of docs/architecture.md on the reports of nodes, the server's model and the workers' pulls.
 *
 *   PUSHED --> record(worker, round) --> COMMITTED: added to a shadow model, exactly once
 *                         \--> OUTCOME, exactly one       |
 *                                                        v
 *          server's model == shadow, bit for bit;  a pull == the model at its version
 *
 * Updates are vectors of small whole numbers that follow from each push's salt, applied with rate 1 and no momentum:
 * the model is the exact negative sum of the committed updates in any order of commits. The parts of a sum are
 * committed as several versions at once; only the last of them exists as a model. A job that really trains
 * (hd_check_train) is replayed from the commits instead, with the same steps of SGD: bit for bit as well, until a
 * server comes back from a checkpoint (below). A checker does not depend on the simulator: tests can feed it by hand,
 * also with false reports.
 */
#ifndef HD_CHECK_H
#define HD_CHECK_H

#include "hd_event.h"
#include "hd_kernels.h"
#include "hd_runs.h"

#define HD_CHECK_DELAYS 256 /* counted one by one; the last counts all larger ones */

struct hd_check;

/* 0 or -ENOMEM. */
int hd_check_create(uint64_t values, uint32_t tau_max, struct hd_check **check);
void hd_check_destroy(struct hd_check *check);

/* The job trains: its model begins at `initial` (copied), updates are the contents of pushes, and commits are steps of
 * `sgd` with them, scaled by the weight in the commit and rounded as on the wire. Call it first. After a crash of the
 * server contents are not compared any more: rolled back updates come again from workers' memory, of which the checker
 * keeps no copies. 0 or -ENOMEM. */
int hd_check_train(struct hd_check *check, const float *initial, const struct hd_sgd *sgd);

/* The job is synchronous (enum hd_sync): `count` updates make a step, or one of each worker. `exact`: no aggregator
 * adds them, so that a job that trains can be replayed. After hd_check_train(). */
void hd_check_steps(struct hd_check *check, uint8_t sync, uint32_t count, bool exact);
/* Number of workers for which the job's rate was chosen; 0: any number. */
void hd_check_scale(struct hd_check *check, uint32_t base);

/* The type of pulls on the wire: the delivered model is rounded to it. Call it first. */
void hd_check_pulls_as(struct hd_check *check, uint8_t dtype);

/* The text of the first violation, NULL while there is none. Everything after it is ignored. */
const char *hd_check_failure(const struct hd_check *check);
/* Reports a violation that another part of the simulator found. */
__attribute__((format(printf, 2, 3))) void
hd_check_fail(struct hd_check *check, const char *format, ...);

#define HD_CHECK_RUNS_MAX 24
/* The runs of a sparse update with this salt, within the model; its contents are hd_check_fill()'s at these
 * indices. Returns how many. */
size_t hd_check_runs(uint64_t salt, uint64_t values, struct hd_run runs[HD_CHECK_RUNS_MAX]);

/* The contents of an update: the salt must differ from those of all other pushes of the run. */
void hd_check_fill(uint64_t salt, float *data, uint64_t values);

struct hd_check_pushed {
	uint32_t worker, round;
	uint32_t process; /* distinguishes processes of one rank */
	uint64_t salt;
	hd_version base;
	uint8_t dtype; /* on the wire; sparse: of the salt's runs */
	uint64_t bytes; /* on the wire */
	float weight; /* of a federated job: its weight; 0: 1 */
	const float *data; /* its contents, when the job trains; copied */
};

/* A push was accepted. */
void hd_check_push(struct hd_check *check, const struct hd_check_pushed *push);
/* Takes an event of any node; uses STEPPED and COMMITTED (of the server) and push OUTCOMEs (of workers). */
void hd_check_event(struct hd_check *check, const struct hd_event *event);
/* The same event, for transfers on credits: CREDITED of the controller, COMMITTED and VOIDED of the server (then
 * `servers`). */
void hd_check_credits(struct hd_check *check, const struct hd_event *event, bool servers);
/* Updates of a federated job may be at most this many steps late: their weight halves with each. */
void hd_check_late(struct hd_check *check, uint32_t most);
/* ROSTER of the server: the number of updates of its steps from now on. */
void hd_check_roster(struct hd_check *check, const struct hd_event *event);
/* A node's membership: ROSTER of any node; each process of a node is a listener of its own. */
struct hd_check_listener {
	const char *name;
	uint64_t change; /* the newest that it received; 0: none */
};
void hd_check_members(
	struct hd_check *check,
	struct hd_check_listener *listener,
	const struct hd_event *event
);
/* The maximum number of ranks. Call it first. */
void hd_check_ranks(struct hd_check *check, uint32_t ranks);
/* A retired server that does not know it restarts from its checkpoint of this version (0: from none). */
void hd_check_former(struct hd_check *check, hd_version version);
/* Another node replaces the job's server (then hd_check_restore()), which goes on running. */
void hd_check_goes_on(struct hd_check *check);
/* An event of a server whose replica has replaced it, and that does not know it: its commits belong to a lost history,
 * unless it becomes the job's server again with a checkpoint of that history. */
void hd_check_lost(struct hd_check *check, const struct hd_event *event);
/* Whether a push's outcome came from such a server, in its own history. */
bool hd_check_outcome_apart(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Whether a version is in the present history. */
bool hd_check_led_to(const struct hd_check *check, hd_version version);
/* Whether a version is of another incarnation than the present server's: for a copy, when the job's server is lost. */
bool hd_check_shows_other(const struct hd_check *check, hd_version version);
/* DURABLE of a server whose replica has replaced it: it must be true all the same. */
void hd_check_durable(struct hd_check *check, hd_version version);
/* Whether these are the bits of that version, which the present server gave to its replica. After a restart without a
 * checkpoint it may be the first version that any node shows. */
bool hd_check_is(struct hd_check *check, const float *model, hd_version version);
/* Whether a COMMITTED came since the last hd_check_model(). */
bool hd_check_dirty(const struct hd_check *check);
/* The server's model between two steps. */
void hd_check_model(struct hd_check *check, const float *model, hd_version version);
/* A pull was delivered. */
void hd_check_pull(struct hd_check *check, uint32_t worker, const float *data, hd_version version);
/* A checkpoint was begun. */
void hd_check_checkpoint(struct hd_check *check, const float *model, hd_version version);
/* The server came back from a checkpoint (model NULL, version 0: from none), or another node replaced it at a version.
 * Commits outside of that version's history are rolled back. Those inside count, even if they were rolled back before:
 * a replica may hold a history that its server, after a restart without it, had lost. */
void hd_check_restore(struct hd_check *check, const float *model, hd_version version);
/* A worker's process ended: its pending pushes failed. They may have been committed all the same. */
void hd_check_worker_gone(struct hd_check *check, uint32_t worker);
/* No push may be pending now, and the counters must be consistent. */
void hd_check_settled(struct hd_check *check);
/* The version at which a push is in the present history; 0: it is not in the model. */
hd_version hd_check_committed(const struct hd_check *check, uint32_t worker, uint32_t round);
/* Pushes without an outcome. */
uint64_t hd_check_pending(const struct hd_check *check);

/* The outcomes of pushes, by workers' OUTCOMEs, and the delays, by the server's commits. */
struct hd_check_stats {
	uint64_t pushed, applied, dropped, failed; /* failed counts those of ended processes too */
	uint64_t reasons[HD_REASON_COUNT]; /* of dropped and failed */
	uint64_t commits, rolled_back, pulls;
	double weight; /* of the commits; 0 of an asynchronous job that trains */
	uint64_t late; /* of these: from earlier rounds */
	uint64_t changes; /* changes of members, over all nodes */
	uint64_t steps, steps_short; /* of a synchronous job; of these, of fewer than its count */
	uint64_t steps_scaled; /* of these, with a factor other than 1 */
	uint64_t sums, grouped; /* commits of several updates in one, and these updates */
	uint64_t credits, credits_spent,
		credits_ended; /* given; committed; returned by the server */
	double delay_sum, delay_squares;
	uint64_t delay_max;
	uint64_t delays[HD_CHECK_DELAYS];
};
const struct hd_check_stats *hd_check_stats(const struct hd_check *check);

/* A hash of 64 bits over values and their positions; practically equal only for equal bits. */
uint64_t hd_check_hash(const float *data, uint64_t values);

#endif
