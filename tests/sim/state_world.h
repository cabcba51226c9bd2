/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that train by all-reduces and get the newest state from each other: whole cores in virtual time, drawn from a
 * seed, with deaths. Each worker's program:
 *
 *     share the state --> step: all-reduce; the state moves by the sum; version + 1 --> step ...
 *            ^              |  late, or the sum says that another worker waits
 *            +--------------+
 */
#ifndef STATE_WORLD_H
#define STATE_WORLD_H

#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_handover.h"
#include "hd_jobspec.h"
#include "hd_random.h"
#include "hd_roster.h"
#include "hd_sim.h"
#include "hd_worker.h"

#define WORKERS_MAX 6
#define STATE_BYTES 12000
#define PART_MAX 5000
#define STEP_VALUES 40
#define ROUNDS_MAX 8192
#define STATES_MAX 32768 /* that there have been, in a run; a power of two */

enum call_kind {
	CALL_STEP,
	CALL_ROLL,
	CALL_PART
};

/* A collective in flight. */
struct call {
	bool used, ended;
	enum call_kind kind;
	struct hd_handover_call part;
	struct hd_ticket ticket;
	struct hd_roster members;
	int64_t in[STEP_VALUES], out[STEP_VALUES];
	uint8_t data[PART_MAX];
};

struct state_worker {
	struct state_world *world;
	struct hd_worker *core;
	struct hd_aggregator *aggregator; /* in its process */
	int host, node, aggregator_node;
	uint16_t rank;
	bool wanted;
	hd_ns back_at; /* 0: it stays away */
	hd_ns next; /* step */
	bool has, late, sharing;
	bool doomed; /* it dies if this handover takes long enough */
	uint64_t version, before; /* before: a hash of its state when it began to share it */
	uint8_t state[STATE_BYTES];
	struct hd_handover handover;
	uint32_t roll; /* round of the newest roll */
	struct call calls[HD_HANDOVER_PARTS_MAX];
};

/* The state of the members of a round after it. */
struct outcome {
	bool known;
	uint64_t version, hash;
	uint32_t waiting;
};

/* A worker's answer in a roll. */
struct said {
	bool has, sure;
	uint64_t version;
};

struct state_plan {
	uint64_t seed;
	uint32_t workers;
	bool deaths;
	uint32_t part_bytes, step_ms;
	hd_ns until;
};

struct state_world {
	struct state_plan plan;
	struct hd_sim *sim;
	struct hd_random random;
	struct hd_controller *controller;
	int controller_node;
	struct hd_jobspec spec;
	struct state_worker workers[WORKERS_MAX];
	struct outcome steps[ROUNDS_MAX], shares[ROUNDS_MAX];
	struct said said[ROUNDS_MAX][WORKERS_MAX];
	uint64_t states[STATES_MAX]; /* a hash of each and its version; 0: free */
	uint32_t state_count;
	bool quiet; /* no deaths any more */
	uint64_t made, kept, received, gave, waited, none,
		again; /* steps; ends of handovers; rolls that were late;
								   * handovers begun again */
	uint64_t source_deaths, receiver_deaths, deaths;
	char failure[256];
};

/* NULL, or what is wrong. */
const char *state_run(struct state_world *w, const struct state_plan *plan);

/* state_model.c: the values, and what they must be */
void state_fail(struct state_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t state_hash(const struct state_worker *worker);
/* An initial one, of a new process. */
void state_fill(struct state_worker *worker, uint64_t seed);
int64_t state_addend(const struct state_world *w, uint16_t rank, uint64_t version, unsigned i);
void state_move(struct state_worker *worker, const struct call *call);
/* After a step, and after a handover: all members of the round have the same. */
void state_check_step(struct state_worker *worker, const struct call *call);
void state_check_share(struct state_worker *worker);
/* The roll has named the source that it must, of these members. */
void state_check_roll(struct state_worker *worker, const struct call *call);

#endif
