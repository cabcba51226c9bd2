/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_group.h"
#include "state_process.h"
#include "state_world.h"

#include <stdio.h>
#include <string.h>

#define SLICE HD_MS
/* Longer than a death is noticed in, a round is repeated in, and a handover takes. */
#define QUIET (8 * HD_SECOND)

/* --- calls ----------------------------------------------------------------------------------- */

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct call *call = ticket->user;

	(void)owner;
	call->ticket = *ticket;
	call->members = ticket->members ? *ticket->members : (struct hd_roster){0};
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct call *call = user;

	(void)owner;
	(void)round;
	call->ended = true;
}

static const struct hd_worker_ops ops = {.ticket = on_ticket, .released = on_released};

static struct call *free_call(struct state_worker *worker) {
	for (int k = 0; k < HD_HANDOVER_PARTS_MAX; k++)
		if (!worker->calls[k].used)
			return &worker->calls[k];
	return NULL;
}

static bool is_idle(const struct state_worker *worker) {
	for (int k = 0; k < HD_HANDOVER_PARTS_MAX; k++)
		if (worker->calls[k].used)
			return false;
	return true;
}

/* False: it is not registered yet. */
static bool begin(struct state_worker *worker, struct call *call, struct hd_reduce_args *args) {
	struct state_world *w = worker->world;
	uint32_t round;

	args->user = call;
	call->ended = false;
	call->ticket = (struct hd_ticket){0};
	call->used = true;
	if (hd_worker_reduce(
		    worker->core,
		    hd_sim_node_now(w->sim, worker->node),
		    args,
		    hd_sim_node_sink(w->sim, worker->node),
		    &round
	    )
	    < 0) {
		call->used = false;
		return false;
	}
	call->ticket.round = round;
	hd_sim_node_poke(w->sim, worker->node);
	return true;
}

static void begin_step(struct state_worker *worker) {
	struct call *call = free_call(worker);
	struct hd_reduce_args args = {
		.collective = HD_COLLECTIVE_ALLREDUCE,
		.in = call->in,
		.out = call->out,
		.values = STEP_VALUES,
		.type = HD_DTYPE_INT64,
		.dtype = HD_DTYPE_INT64,
		.tag = "step",
	};

	call->kind = CALL_STEP;
	for (unsigned i = 0; i < STEP_VALUES; i++)
		call->in[i] = state_addend(worker->world, worker->rank, worker->version, i);
	(void)begin(worker, call, &args);
}

static bool begin_roll(struct state_worker *worker, struct call *call) {
	const struct hd_handover_config *config = &worker->handover.config;
	struct hd_reduce_args args = {
		.collective = HD_COLLECTIVE_ALLREDUCE,
		.in = call->in,
		.out = call->out,
		.values = HD_HANDOVER_VALUES,
		.type = HD_DTYPE_INT64,
		.dtype = HD_DTYPE_INT64,
		.op = HD_REDUCE_OP_MAX,
		.state = HD_REQUEST_ROLL,
		.tag = "share",
	};

	call->kind = CALL_ROLL;
	memcpy(call->in, call->part.values, sizeof call->part.values);
	if (!begin(worker, call, &args))
		return false;
	worker->roll = call->ticket.round;
	if (worker->roll >= ROUNDS_MAX)
		state_fail(worker->world, "too many rounds");
	else
		worker->world->said[worker->roll][worker->rank] = (struct said){
			config->has,
			config->has && config->version > 0 && !config->late,
			config->has ? config->version : 0,
		};
	return true;
}

static bool begin_part(struct state_worker *worker, struct call *call) {
	const struct hd_handover_call *part = &call->part;
	struct hd_reduce_args args = {
		.collective = HD_COLLECTIVE_BROADCAST,
		.root = part->source,
		.in = call->data,
		.values = part->bytes,
		.type = HD_DTYPE_UINT8,
		.dtype = HD_DTYPE_UINT8,
		.tag = "share",
	};

	call->kind = CALL_PART;
	if (part->role == HD_HANDOVER_GIVES)
		memcpy(call->data, worker->state + part->first, part->bytes);
	if (part->role == HD_HANDOVER_HAS)
		args.state = HD_REQUEST_HAS;
	if (part->role == HD_HANDOVER_TAKES) {
		args.in = NULL;
		args.out = call->data;
	}
	return begin(worker, call, &args);
}

/* --- handovers ------------------------------------------------------------------------------- */

static void begin_share(struct state_worker *worker) {
	struct hd_handover_config config = {
		.rank = worker->rank,
		.has = worker->has,
		.late = worker->late,
		.version = worker->version,
		.items = 1,
		.bytes = STATE_BYTES,
		.part_bytes = worker->world->plan.part_bytes,
	};

	worker->sharing = true;
	worker->doomed = hd_random_chance(&worker->world->random, 0.25);
	worker->before = state_hash(worker);
	hd_handover_init(&worker->handover, &config);
}

static void end_share(struct state_worker *worker) {
	struct state_world *w = worker->world;
	const struct hd_handover *h = &worker->handover;

	worker->sharing = false;
	switch (h->outcome) {
	case HD_HANDOVER_KEPT:
		w->kept++;
		w->gave += h->begun > 0 && h->role == HD_HANDOVER_GIVES;
		break;
	case HD_HANDOVER_RECEIVED:
		w->received++;
		break;
	case HD_HANDOVER_NONE:
		w->none++;
		worker->has = true; /* its program makes an initial state */
		state_fill(worker, hd_random_u64(&w->random));
		begin_share(worker);
		return;
	default:
		state_fail(
			w, "rank %u: a handover fails for reason %d", worker->rank, (int)h->reason
		);
		return;
	}
	worker->has = true;
	worker->late = false;
	worker->version = h->roll.step;
	state_check_share(worker);
}

static void continue_share(struct state_worker *worker) {
	struct call *call;

	while (worker->handover.stage != HD_HANDOVER_ENDED && (call = free_call(worker))) {
		struct hd_handover before = worker->handover;

		if (!hd_handover_next(&worker->handover, &call->part))
			break;
		if (call->part.roll ? begin_roll(worker, call) : begin_part(worker, call))
			continue;
		worker->handover = before; /* not registered yet */
		return;
	}
	if (worker->handover.stage == HD_HANDOVER_ENDED && is_idle(worker))
		end_share(worker);
}

/* --- ends of calls --------------------------------------------------------------------------- */

static void end_step(struct state_worker *worker, const struct call *call) {
	struct state_world *w = worker->world;

	if (call->ticket.state != HD_TICKET_APPLIED) {
		if (call->ticket.reason != HD_REASON_LATE)
			state_fail(
				w,
				"rank %u: a step fails for reason %d",
				worker->rank,
				(int)call->ticket.reason
			);
		worker->late = true;
		begin_share(worker);
		return;
	}
	state_move(worker, call);
	state_check_step(worker, call);
	w->made++;
	worker->next = hd_sim_now(w->sim) + w->plan.step_ms * HD_MS;
	if (call->ticket.waiting > 0)
		begin_share(worker);
}

static void end_part(struct state_worker *worker, const struct call *call) {
	struct hd_handover *h = &worker->handover;
	struct state_world *w = worker->world;

	if (call->ticket.state != HD_TICKET_APPLIED) {
		w->waited += call->kind == CALL_ROLL;
		w->again += h->stage == HD_HANDOVER_PARTS;
		worker->late |= call->ticket.reason == HD_REASON_LATE;
		hd_handover_failed(h, call->ticket.reason);
		return;
	}
	if (call->kind == CALL_ROLL) {
		hd_handover_rolled(h, call->out, call->ticket.delay);
		state_check_roll(worker, call);
		return;
	}
	if (call->part.role == HD_HANDOVER_TAKES && h->stage == HD_HANDOVER_PARTS) {
		worker->has = false;
		memcpy(worker->state + call->part.first, call->data, call->part.bytes);
	}
	hd_handover_passed(h, call->part.bytes);
}

/* The oldest call that has ended; NULL: there is none. */
static struct call *oldest_ended(struct state_worker *worker) {
	struct call *oldest = NULL;

	for (int k = 0; k < HD_HANDOVER_PARTS_MAX; k++) {
		struct call *call = &worker->calls[k];

		if (call->used && call->ended
		    && (!oldest || call->ticket.round < oldest->ticket.round))
			oldest = call;
	}
	return oldest;
}

static void act(struct state_worker *worker) {
	struct call *call;

	while ((call = oldest_ended(worker))) {
		call->used = false;
		if (call->kind == CALL_STEP)
			end_step(worker, call);
		else
			end_part(worker, call);
	}
	if (worker->sharing)
		continue_share(worker);
	else if (is_idle(worker) && hd_sim_now(worker->world->sim) >= worker->next)
		begin_step(worker);
}

/* --- processes ------------------------------------------------------------------------------- */

/* A new process has an initial state of its own, or none. */
static void start(struct state_worker *worker) {
	struct state_world *w = worker->world;

	state_start_worker(worker, &ops);
	state_fill(worker, hd_random_u64(&w->random));
	worker->has = hd_random_chance(&w->random, 0.6);
	worker->late = false;
	worker->back_at = 0;
	worker->next = 0;
	begin_share(worker);
}

static void kill_worker(struct state_worker *worker) {
	struct state_world *w = worker->world;
	const struct hd_handover *h = &worker->handover;

	if (worker->sharing && h->stage == HD_HANDOVER_PARTS) {
		w->source_deaths += h->role == HD_HANDOVER_GIVES;
		w->receiver_deaths += h->role == HD_HANDOVER_TAKES;
	}
	w->deaths++;
	state_stop_worker(worker);
	worker->wanted = false;
	worker->sharing = false;
	worker->back_at = hd_sim_now(w->sim) + hd_random_below(&w->random, 2500) * HD_MS;
	for (uint32_t k = 0; k < w->plan.workers; k++)
		if (w->workers[k].core)
			return;
	/* A new job, which may give a round of the old one's number another time. */
	memset(w->steps, 0, sizeof w->steps);
	memset(w->shares, 0, sizeof w->shares);
}

/* Deaths come often in the middle of a handover. */
static bool dies(struct state_worker *worker) {
	struct state_world *w = worker->world;
	const bool hands_over = worker->sharing && worker->doomed
		&& worker->handover.stage == HD_HANDOVER_PARTS
		&& worker->handover.role != HD_HANDOVER_HAS;

	return w->plan.deaths && !w->quiet
		&& hd_random_chance(&w->random, hands_over ? 0.1 : 0.0003);
}

static void settle(struct state_worker *worker) {
	struct state_world *w = worker->world;

	if (worker->core && dies(worker))
		kill_worker(worker);
	if (!worker->wanted && worker->back_at > 0 && hd_sim_now(w->sim) >= worker->back_at)
		worker->wanted = true;
	if (worker->wanted && !worker->core)
		start(worker);
	if (worker->core)
		act(worker);
}

static void advance(struct state_world *w, hd_ns until) {
	while (!w->failure[0] && hd_sim_now(w->sim) < until) {
		hd_sim_run(w->sim, hd_sim_now(w->sim) + SLICE);
		for (uint32_t k = 0; k < w->plan.workers && !w->failure[0]; k++)
			settle(&w->workers[k]);
		if (hd_sim_failure(w->sim))
			state_fail(w, "simulator: %s", hd_sim_failure(w->sim));
	}
}

/* --- a run ----------------------------------------------------------------------------------- */

/* All are back, have a state, and make steps together: their versions differ by the one in flight at most. */
static void check_end(struct state_world *w, const uint64_t *before) {
	uint64_t least = UINT64_MAX, most = 0;

	for (uint32_t k = 0; k < w->plan.workers && !w->failure[0]; k++) {
		const struct state_worker *worker = &w->workers[k];

		if (!worker->core || !worker->has || worker->version <= before[k])
			state_fail(
				w,
				"rank %u makes no steps after the last death: version %llu, stage %d",
				k,
				(unsigned long long)worker->version,
				worker->sharing ? (int)worker->handover.stage : -1
			);
		least = worker->version < least ? worker->version : least;
		most = worker->version > most ? worker->version : most;
	}
	if (most - least > 1)
		state_fail(
			w,
			"versions from %llu to %llu at the end",
			(unsigned long long)least,
			(unsigned long long)most
		);
}

const char *state_run(struct state_world *w, const struct state_plan *plan) {
	uint64_t before[WORKERS_MAX];

	memset(w, 0, sizeof *w);
	w->plan = *plan;
	hd_random_init(&w->random, plan->seed ^ 0x57a7e);
	if (hd_sim_create(plan->seed, &w->sim) < 0)
		return "no memory";
	state_build(w);
	state_start_controller(w);
	hd_sim_set_faults(
		w->sim,
		&(struct hd_sim_faults
		){.loss = 0.02 * hd_random_unit(&w->random),
		  .duplicate = 0.02 * hd_random_unit(&w->random),
		  .reorder = 0.05 * hd_random_unit(&w->random)}
	);
	for (uint32_t k = 0; k < plan->workers; k++) /* some join later */
		w->workers[k].back_at = 1
			+ (k > 0 && hd_random_chance(&w->random, 0.5) ?
				   hd_random_below(&w->random, plan->until) :
				   0);
	advance(w, plan->until);
	w->quiet = true;
	advance(w, hd_sim_now(w->sim) + QUIET);
	for (uint32_t k = 0; k < plan->workers; k++)
		before[k] = w->workers[k].version;
	advance(w, hd_sim_now(w->sim) + HD_SECOND);
	check_end(w, before);
	for (uint32_t k = 0; k < plan->workers; k++)
		state_stop_worker(&w->workers[k]);
	hd_controller_destroy(w->controller);
	hd_sim_destroy(w->sim);
	return w->failure[0] ? w->failure : NULL;
}
