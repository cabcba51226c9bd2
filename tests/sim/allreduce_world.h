/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of whole cores in virtual time: n workers, a controller, aggregators and sometimes a switch on the path,
 * drawn from a seed, with faults. Rank r contributes 1 << r times something small, so that a sum names its members.
 */
#ifndef ALLREDUCE_WORLD_H
#define ALLREDUCE_WORLD_H

#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_jobspec.h"
#include "hd_random.h"
#include "hd_sim_switch.h"
#include "hd_worker.h"

#define WORKERS_MAX 7
#define AGGREGATORS_MAX 4
#define ROUNDS_MAX 4096
#define VALUES_MAX 12000
#define DEPTH_MAX 2 /* rounds that a worker has under way */

/* A call that is under way. */
struct call {
	bool used;
	bool weak; /* the worker was cut off since it was told where to send */
	uint32_t round;
	hd_ns asked;
	float *in, *out;
	struct hd_ticket ticket;
};

struct allreduce_worker {
	struct allreduce_world *world;
	int host, node;
	uint16_t rank;
	struct hd_worker *core;
	bool wanted, leaving;
	bool apart; /* cut off */
	hd_ns late_at; /* it was told that others have another sum */
	hd_ns next; /* when it calls again */
	uint32_t made; /* calls */
	struct call calls[DEPTH_MAX];
	float memory[2 * DEPTH_MAX][VALUES_MAX];
};

struct allreduce_node {
	int host, node;
	bool wanted;
	struct hd_aggregator *core;
};

/* The switch on the path; core NULL: it is down. */
struct allreduce_switch {
	struct allreduce_world *world;
	int host; /* its agent's */
	bool wanted, narrow; /* narrow: chunks as P4 has them */
	uint16_t slots;
	struct hd_sim_switch path;
};

/* How a round ended for a worker that still lives. */
struct ending {
	uint8_t members; /* 0: it has no sum */
	bool weak; /* the worker was cut off from the controller about then */
	hd_ns at;
};

struct allreduce_plan {
	uint64_t seed;
	uint32_t workers, aggregators, depth, world;
	bool shared; /* aggregators on the workers' hosts */
	bool faults;
	bool way; /* there is a switch on the path */
	bool ranked; /* every round, and values whose sum depends on the order of adding */
	hd_ns until; /* faults and calls until then */
	uint64_t delays; /* another network for the same rounds */
	uint32_t calls; /* of each worker; 0: until the end */
};

struct allreduce_world {
	struct allreduce_plan plan;
	struct hd_sim *sim;
	struct hd_random random;
	int controller_host, controller_node;
	struct hd_controller *controller;
	uint16_t epoch;
	char *kept;
	bool controller_wanted;
	hd_ns begun_at; /* of the controller's life */
	struct allreduce_node aggregators[AGGREGATORS_MAX];
	struct allreduce_worker workers[WORKERS_MAX];
	struct allreduce_switch way;
	struct ending endings[ROUNDS_MAX][WORKERS_MAX];
	struct hd_jobspec spec;
	bool quiet, stopping;
	hd_ns quiet_at, longest; /* longest: a call since then */
	uint64_t applied, failed, torn, crashes, asked_again, late, in_slots;
	uint64_t bits; /* a sum over every result, for comparing runs */
	char failure[256];
};

/* Draws a plan; runs it. NULL, or what is wrong. The world is zeroed by run and can be looked at. */
void allreduce_draw(uint64_t seed, struct allreduce_plan *plan);
const char *allreduce_run(struct allreduce_world *w, const struct allreduce_plan *plan);

extern const struct hd_worker_ops allreduce_worker_ops;

/* allreduce_faults.c */
void allreduce_plan_faults(struct allreduce_world *w);
void allreduce_mend(struct allreduce_world *w);
/* allreduce_switch.c */
void allreduce_switch_build(struct allreduce_world *w);
void allreduce_switch_start(struct allreduce_switch *s);
void allreduce_switch_stop(struct allreduce_switch *s);
/* allreduce_process.c: runs what is wanted, stops what is not. */
void allreduce_settle(struct allreduce_world *w);
void allreduce_fail(struct allreduce_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern const struct hd_keyring *const allreduce_keys;
void allreduce_seed(struct allreduce_world *w, uint8_t seed[32]);
void allreduce_crash_worker(struct allreduce_worker *worker);

#endif
