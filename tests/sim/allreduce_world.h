/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of whole cores in virtual time: n workers, a controller, aggregators and sometimes a switch on the path,
 * drawn from a seed, with faults. The values of the ranks let a result name its members (allreduce_values.c).
 */
#ifndef ALLREDUCE_WORLD_H
#define ALLREDUCE_WORLD_H

#include "allreduce_sends.h"
#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_jobspec.h"
#include "hd_random.h"
#include "hd_roster.h"
#include "hd_sim_switch.h"
#include "hd_worker.h"

#define WORKERS_MAX 7
#define AGGREGATORS_MAX WORKERS_MAX
#define STANDING_MAX 4 /* of these, that are no worker's */
#define ROUNDS_MAX 4096
#define VALUES_MAX 12000
#define DEPTH_MAX 2 /* rounds that a worker has in flight */

/* A call in flight. */
struct call {
	bool used;
	bool weak; /* the worker was cut off since it was told where to send */
	uint32_t round;
	hd_ns asked;
	void *in, *out;
	struct hd_ticket ticket;
	struct hd_roster members; /* of the attempt that the ticket is of */
};

/* A worker's use of memory that it shares with others: allreduce_shared.c. */
struct allreduce_memory {
	struct hd_shared_call queue[DEPTH_MAX]; /* the first is `running`, or begins next */
	uint32_t queued;
	bool running, due, killed; /* due: its next step is planned */
	struct hd_shared_run run;
	struct hd_shared_map map;
	uint64_t token, steps; /* token: of map; 0: none */
};

struct allreduce_worker {
	struct allreduce_world *world;
	int host, node;
	uint16_t rank;
	struct hd_worker *core;
	struct allreduce_memory memory_of;
	bool wanted, leaving;
	bool left; /* it was not killed: its aggregator goes on until all its groups have ended */
	bool apart; /* cut off */
	hd_ns late_at; /* it was told that others have another sum */
	hd_ns next; /* when it calls again */
	uint32_t made; /* calls */
	uint32_t newest; /* round that a process of this rank has called */
	struct call calls[DEPTH_MAX];
	uint64_t memory[2 * DEPTH_MAX][VALUES_MAX]; /* of any type */
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
	uint64_t bits; /* of the sum */
	bool weak; /* the worker was cut off from the controller about then */
	hd_ns at;
};

struct allreduce_plan {
	uint64_t seed;
	uint32_t workers, aggregators, depth, world;
	bool shared; /* aggregators on the workers' hosts */
	bool hosted; /* one in each worker's process, and no other */
	bool one_host; /* all workers share memory, */
	bool two_hosts; /* or those of even rank, and those of odd rank */
	bool leaves; /* a worker that has made its calls leaves, whatever the others do */
	bool faults;
	bool with_switch; /* there is a switch on the path */
	bool narrow; /* and it adds fixed point only, whatever the seed says */
	bool ranked; /* every round, and values whose sum depends on the order of adding */
	bool fp32; /* every round */
	bool no_inline; /* short rounds go the way of others */
	bool eager; /* the next call as soon as one has ended */
	bool strange; /* some rounds have NaN, Inf and values whose sum overflows */
	bool types; /* rounds of all types and operations */
	bool mixed; /* other collectives, too */
	bool sends; /* and sends and receives beside them */
	bool strict; /* some must have all workers; in some one worker calls something else */
	hd_ns until; /* faults and calls until then */
	uint64_t delays; /* another network for the same rounds */
	uint32_t calls; /* of each worker; 0: until the end */
	bool silences; /* workers do not call for a while, and rounds wait for them in all ways */
	uint32_t falls_silent; /* the last worker does so after this many calls; 0: it does not */
};

/* The model of silent workers (allreduce_silence.c); times are 0 before the event. */
struct silences {
	hd_ns first[ROUNDS_MAX]; /* call of a round */
	hd_ns called[ROUNDS_MAX][WORKERS_MAX];
	hd_ns started[ROUNDS_MAX]; /* a round, as a member saw it first */
	hd_ns ended[ROUNDS_MAX]; /* of a round, at the worker that saw that last */
	uint8_t without[ROUNDS_MAX]; /* ranks that are missing from a result, or were late */
	uint64_t late, missing;
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
	struct allreduce_switch switch_on_path;
	struct ending endings[ROUNDS_MAX][WORKERS_MAX];
	struct silences silences;
	struct hd_jobspec spec;
	struct allreduce_sends *sends; /* NULL: there are none */
	struct allreduce_sends_totals sent;
	bool quiet, stopping;
	hd_ns quiet_at, longest; /* longest: a call since then */
	struct allreduce_segment *segments;
	uint64_t applied, failed, torn, crashes, asked_again, late, in_slots, in_memory;
	uint64_t inlined; /* rounds whose values went with their requests */
	uint64_t not_finite; /* sums with a NaN or an Inf */
	uint8_t kinds[HD_DTYPE_COUNT]; /* operations of each type that were checked, a bit each */
	uint64_t others[HD_COLLECTIVE_COUNT]; /* results of other collectives, */
	uint64_t rootless; /* and calls whose root was lost */
	uint64_t mismatches,
		short_of; /* calls that failed as others had another tag, or too few came */
	uint64_t bits; /* a sum over every result, for comparing runs */
	char failure[256];
};

/* The aggregators are those of the workers. */
void allreduce_host(struct allreduce_plan *plan);
/* The same, in some of the drawn worlds. */
void allreduce_draw_hosts(struct allreduce_plan *plan);
/* Workers that share memory, in some of them. */
void allreduce_draw_shared(struct allreduce_plan *plan);
/* Other collectives besides all-reduces, in some of them. */
void allreduce_draw_mixed(struct allreduce_plan *plan);
/* Sends and receives, in some of them. */
void allreduce_draw_sends(struct allreduce_plan *plan);
/* Silent workers, in some of them. */
void allreduce_draw_silences(struct allreduce_plan *plan);
/* Draws a plan; runs it. NULL, or what is wrong. The world is zeroed by run and can be looked at. */
void allreduce_draw(uint64_t seed, struct allreduce_plan *plan);
const char *allreduce_run(struct allreduce_world *w, const struct allreduce_plan *plan);

extern const struct hd_worker_ops allreduce_worker_ops;

/* allreduce_values.c */
/* A round is the same for every worker, a function of seed and round. */
struct kind {
	uint8_t collective;
	uint16_t root;
	uint64_t values;
	uint8_t type, dtype, op, order;
	bool bits; /* values are any bits: they are only copied */
	uint32_t period; /* of the values: what the members' sum still is exact with */
	bool strange;
	bool big; /* also with values of which a sum overflows */
	uint32_t rarity; /* one place in this number is strange */
	uint16_t exact; /* members that it must have; 0: any */
	uint16_t least;
	uint32_t wait_ms;
	unsigned odd; /* this rank has another tag; WORKERS_MAX: none has */
	unsigned has; /* ranks, bit by bit, that have a broadcast's values already */
};
struct kind allreduce_kind(const struct allreduce_world *w, uint32_t round);
void allreduce_fill(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	void *in
);
/* The values that the worker gave are changed. */
bool allreduce_changed(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	const struct call *call
);
/* allreduce_result.c */
/* The result is that of some members, itself among them, and exactly that. */
void allreduce_check(struct allreduce_worker *worker, const struct call *call);
/* allreduce_others.c: the same for other collectives */
/* Whether the worker gives values, and whether it receives some. */
bool allreduce_gives(const struct kind *kind, unsigned rank);
bool allreduce_takes(const struct kind *kind, unsigned rank);
void allreduce_check_other(
	struct allreduce_worker *worker,
	const struct kind *kind,
	const struct call *call
);
/* allreduce_silence.c */
/* How long the round waits for workers that do not call it. */
void allreduce_set_wait(const struct allreduce_world *w, uint32_t round, struct kind *kind);
/* How long the worker is silent before its next call. */
hd_ns allreduce_silence(struct allreduce_worker *worker);
/* It calls this round. */
void allreduce_note_call(struct allreduce_worker *worker, uint32_t round);
/* The worker is told that the round has begun. */
void allreduce_note_start(struct allreduce_worker *worker, uint32_t round);
/* Its call has ended, and its result has been checked. */
void allreduce_note_end(struct allreduce_worker *worker, const struct call *call);
/* At the end of a run without faults. */
void allreduce_check_missing(struct allreduce_world *w);
/* allreduce_faults.c */
void allreduce_plan_faults(struct allreduce_world *w);
void allreduce_recover(struct allreduce_world *w);
/* allreduce_shared.c */
void allreduce_share(struct allreduce_worker *worker, struct hd_worker_config *config);
void allreduce_free_segments(struct allreduce_world *w);
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
