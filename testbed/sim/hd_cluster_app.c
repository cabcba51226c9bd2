/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's training process, in virtual time:
 *
 *   joined -> pull -> compute (compute_ms x slowness) -> push -> (its outcome) -> pull -> ...
 *
 * In a synchronous job a step is given up when the model has moved on (stepped()); with N-batch the process continues
 * at the same model until then, while its pushes are in flight.
 *
 * With a depth above 1 it pulls and computes while up to `depth` pushes are in flight. The library's callbacks are
 * called from inside the core, so the next call into it is a step of its own.
 */
#include "hd_cluster_private.h"

#include <errno.h>
#include <math.h>

#define RETRY (10 * HD_MS)
#define CANCEL_WITHIN (8 * HD_MS)
#define GIVES_NOTHING 0.1
#define JITTER 0.02 /* of the compute time, in both directions: no two steps take equally long */

static void go_on(struct worker_process *worker);
static void begin_compute(struct worker_process *worker);
static void do_pull(struct step *step, hd_ns now);
static void do_look(struct step *step, hd_ns now);

static bool superseded(const struct worker_process *worker) {
	return worker->newest != 0
		&& hd_version_counter(worker->newest) != hd_version_counter(worker->base);
}

static bool is_federated(const struct worker_process *worker) {
	return worker->process.cluster->spec.sync == HD_SYNC_FEDERATED;
}

static bool counts_late(const struct worker_process *worker) {
	return is_federated(worker)
		&& worker->process.cluster->spec.federated.late == HD_LATE_WEIGHT;
}

/* Of a federated job: it has nothing to do until it is drawn. */
static bool waits_for_round(const struct worker_process *worker) {
	return is_federated(worker) && (worker->info.round == 0 || worker->worked);
}

/* Rows of this client: a sum of 64 such updates is exact in fp32. 16 bits hold the updates alone. */
static float weight_of(const struct worker_process *worker) {
	if (!is_federated(worker)
	    || hd_dtype_is_half(worker->process.cluster->scenario.job.payload))
		return 0;
	return (float)(1 + worker->rank * 37 % 100);
}

static bool computes_on(const struct worker_process *worker) {
	return worker->process.cluster->spec.sync == HD_SYNC_N_BATCH && !superseded(worker);
}

static struct worker_process *worker_of(struct step *step) {
	struct worker_process *worker = (struct worker_process *)step->process;

	return worker->core && worker->serial == step->serial ? worker : NULL;
}

static void
plan(struct worker_process *worker,
     hd_ns delay,
     uint32_t number,
     void (*call)(struct step *step, hd_ns now)) {
	struct hd_cluster *cluster = worker->process.cluster;

	cluster_at(
		cluster,
		hd_sim_now(cluster->sim) + delay,
		(struct step){
			.cluster = cluster,
			.process = &worker->process,
			.serial = worker->serial,
			.number = number,
			.own = true,
			.call = call,
		}
	);
}

static void do_cancel(struct step *step, hd_ns now) {
	struct worker_process *worker = worker_of(step);
	struct hd_sim *sim = step->cluster->sim;
	int node = step->process->node;
	int code;

	if (!worker)
		return;
	code = hd_worker_cancel(
		worker->core,
		hd_sim_node_now(sim, node),
		HD_PUSH,
		step->number,
		hd_sim_node_sink(sim, node)
	);
	if (code < 0 && code != -ENOENT && code != -EALREADY)
		hd_check_fail(step->cluster->check, "cancel: %d", code);
	hd_sim_node_poke(sim, node);
}

static void
after_push(struct worker_process *worker, uint32_t round, const struct hd_check_pushed *pushed) {
	struct hd_cluster *cluster = worker->process.cluster;
	const struct hd_scenario_sim *how = &cluster->scenario.sim;

	cluster->pushed++;
	worker->worked = worker->worked || worker->working.round == worker->info.round;
	worker->in_flight++;
	hd_check_push(cluster->check, pushed);
	filter_pushed(worker, round, pushed->data);
	worker->ready = NULL;
	if (worker->flushed) {
		cluster->flushed++;
		app_leave(worker);
	}
	if (how->cancel > 0 && hd_random_chance(&cluster->random, how->cancel))
		plan(worker, hd_random_below(&cluster->random, CANCEL_WITHIN), round, do_cancel);
	if (computes_on(worker) && worker->in_flight < CLUSTER_PUSHES_MAX) {
		begin_compute(worker);
		return;
	}
	worker->phase = worker->in_flight < how->depth ? WORKER_IDLE : WORKER_PUSHING;
	if (worker->phase == WORKER_IDLE)
		go_on(worker);
	if (worker->process.cluster->stopping && worker->process.cluster->spec.sync != HD_SYNC_NONE)
		app_leave(worker);
}

/* Some give nothing, like a client without time for a single epoch. 0: the push follows; 1: none. */
static int send_work(struct worker_process *worker) {
	struct hd_cluster *cluster = worker->process.cluster;
	float weight = weight_of(worker);
	const struct hd_work work = {
		.round = worker->working.round,
		.epochs = worker->working.epochs,
		.gives = !hd_random_chance(&cluster->random, GIVES_NOTHING),
		.weight = weight > 0 ? weight : 1,
		.gamma = -1,
		.loss = 1,
	};
	int code = hd_worker_work(
		worker->core,
		hd_sim_node_now(cluster->sim, worker->process.node),
		&work,
		hd_sim_node_sink(cluster->sim, worker->process.node)
	);

	return code < 0 ? code : !work.gives;
}

static void gave_nothing(struct worker_process *worker) {
	worker->worked = worker->worked || worker->working.round == worker->info.round;
	worker->phase = WORKER_IDLE;
	if (!worker->worked)
		go_on(worker);
}

/* An empty round is followed by one with the same model. */
static void follow_round(struct worker_process *worker) {
	if (!counts_late(worker)
	    || hd_version_counter(worker->working.version)
		    == hd_version_counter(worker->info.version))
		worker->working = worker->info;
}

static void do_push(struct step *step, hd_ns now) {
	struct worker_process *worker = worker_of(step);
	struct hd_cluster *cluster = step->cluster;
	int node = step->process->node, code;
	uint64_t salt = cluster->pushed + 1, bytes;
	struct buffer *buffer;
	struct hd_push_args args;
	uint32_t round;

	if (!worker || worker->phase != WORKER_COMPUTING || step->number != worker->computing)
		return;
	if (cluster->stopping || worker->leaving) {
		worker->phase = WORKER_IDLE;
		return;
	}
	follow_round(worker);
	buffer = buffer_fill(worker, salt);
	if (!buffer) {
		plan(worker, RETRY, worker->computing, do_push);
		return;
	}
	args = (struct hd_push_args){
		.data = buffer->data,
		.values = cluster->values,
		.base = worker->base,
		.weight = weight_of(worker),
		.user = buffer,
	};
	bytes = buffer_pack(cluster, buffer, salt, &args);
	code = is_federated(worker) ? send_work(worker) : 0;
	if (code == 1) {
		gave_nothing(worker);
		hd_sim_node_poke(cluster->sim, node);
		return;
	}
	if (code == 0)
		code = hd_worker_push(
			worker->core,
			hd_sim_node_now(cluster->sim, node),
			&args,
			hd_sim_node_sink(cluster->sim, node),
			&round
		);
	if (code == 0) {
		buffer->used = true;
		buffer->ended = false;
		after_push(
			worker,
			round,
			&(struct hd_check_pushed){
				.worker = worker->rank,
				.round = round,
				.process = worker->process.starts,
				.salt = salt,
				.base = worker->base,
				.dtype = args.dtype,
				.bytes = bytes,
				.weight = args.weight,
				.data = buffer->data,
			}
		);
	} else if (code == -ENOBUFS || code == -EAGAIN) {
		plan(worker, RETRY, worker->computing, do_push);
	} else if (code == -ESHUTDOWN && worker->preempted) {
		worker->phase = WORKER_IDLE; /* its time is over */
	} else {
		hd_check_fail(cluster->check, "%s: push: %d", worker->process.name, code);
	}
	hd_sim_node_poke(cluster->sim, node);
}

static void begin_compute(struct worker_process *worker) {
	const struct hd_scenario *scenario = &worker->process.cluster->scenario;
	double draw = hd_random_unit(&worker->random);
	double factor = scenario->compute.kind == HD_VARIATION_EXPONENTIAL ?
		-log1p(-draw) :
		1 + JITTER * (2 * draw - 1);
	double ms = scenario->job.compute_ms * worker->slowness * factor;

	worker->phase = WORKER_COMPUTING;
	worker->working = worker->info;
	plan(worker, cluster_ns(ms * 1e-3), ++worker->computing, do_push);
}

/* Computes with the pulled model, unless a step has ended meanwhile. */
static void pulled(struct worker_process *worker) {
	worker->phase = WORKER_IDLE;
	if (is_federated(worker)
	    && hd_version_counter(worker->base) > hd_version_counter(worker->info.version))
		worker->worked = true; /* that round is over */
	else if (superseded(worker))
		plan(worker, RETRY, 0, do_pull);
	else
		begin_compute(worker);
}

static void do_pull(struct step *step, hd_ns now) {
	struct worker_process *worker = worker_of(step);
	struct hd_cluster *cluster = step->cluster;
	int node = step->process->node, code;
	struct hd_pull_args args;

	if (!worker || worker->phase != WORKER_IDLE || cluster->stopping || worker->leaving
	    || waits_for_round(worker))
		return;
	args = (struct hd_pull_args){
		.data = worker->model,
		.values = cluster->values,
		.have = worker->base,
		.conditional = worker->base != 0
			&& hd_random_chance(&cluster->random, cluster->scenario.sim.conditional),
		.dtype = cluster->scenario.job.pull_payload,
	};
	worker->phase = WORKER_PULLING;
	code = hd_worker_pull(
		worker->core,
		hd_sim_node_now(cluster->sim, node),
		&args,
		hd_sim_node_sink(cluster->sim, node),
		&worker->pull_round
	);
	if (code == -ENOBUFS || code == -EAGAIN) {
		worker->phase = WORKER_IDLE;
		plan(worker, RETRY, 0, do_pull);
	} else if (code == -ESHUTDOWN && worker->preempted) {
		worker->phase = WORKER_IDLE;
	} else if (code < 0) {
		hd_check_fail(cluster->check, "%s: pull: %d", worker->process.name, code);
	}
	hd_sim_node_poke(cluster->sim, node);
}

static void go_on(struct worker_process *worker) {
	plan(worker, 0, 0, do_pull);
}

/* --- callbacks of the library -------------------------------------------------------------- */

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	struct worker_process *worker = owner;

	if (worker->phase == WORKER_IDLE)
		go_on(worker);
}

static void on_refused(void *owner, enum hd_reason reason, const char *text) {
	struct worker_process *worker = owner;

	hd_check_fail(
		worker->process.cluster->check,
		"%s was refused (%s): %s",
		worker->process.name,
		hd_reason_name(reason),
		text
	);
}

static void pull_ended(struct worker_process *worker, const struct hd_ticket *ticket) {
	struct hd_cluster *cluster = worker->process.cluster;

	if (ticket->round != worker->pull_round || worker->phase != WORKER_PULLING) {
		hd_check_fail(
			cluster->check,
			"%s: pull %u ended, which was not asked for",
			worker->process.name,
			ticket->round
		);
		return;
	}
	if (ticket->state == HD_TICKET_APPLIED) {
		worker->base = ticket->version;
		if (!cluster->config.unchecked)
			hd_check_pull(cluster->check, worker->rank, worker->model, ticket->version);
		filter_pulled(worker);
		pulled(worker);
	} else if (ticket->state == HD_TICKET_DROPPED) {
		pulled(worker); /* not modified: the present model is the newest */
	} else {
		worker->phase = WORKER_IDLE;
		plan(worker, RETRY, 0, do_pull);
	}
}

static void push_ended(struct worker_process *worker) {
	worker->in_flight--;
	if (worker->phase != WORKER_PUSHING)
		return;
	worker->phase = WORKER_IDLE;
	go_on(worker);
}

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct worker_process *worker = owner;
	struct buffer *buffer = ticket->user;
	bool ended = ticket->state == HD_TICKET_APPLIED || ticket->state == HD_TICKET_DROPPED
		|| ticket->state == HD_TICKET_FAILED;

	if (!ended)
		return;
	if (ticket->direction == HD_PULL)
		pull_ended(worker, ticket);
	else if (!buffer->ended)
		push_ended(worker);
	/* When a push failed because the machine is taken away, its outcome is unknown. */
	if (ticket->direction == HD_PUSH && ticket->reason == HD_REASON_PREEMPTED)
		filter_unknown(worker, ticket->round);
	else if (ticket->direction == HD_PUSH && ticket->state != HD_TICKET_APPLIED)
		filter_returned(worker, ticket->round);
	if (ticket->direction == HD_PUSH)
		buffer->ended = true; /* a lost history may end it again */
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct buffer *buffer = user;

	buffer->used = false;
}

static void on_stepped(void *owner, hd_version version) {
	struct worker_process *worker = owner;

	worker->newest = version;
	if (worker->phase != WORKER_COMPUTING || !superseded(worker) || counts_late(worker))
		return;
	worker->phase = WORKER_IDLE;
	filter_given_up(worker);
	worker->ready = NULL;
	worker->process.cluster->given_up++;
	go_on(worker);
}

static void on_round(void *owner, const struct hd_round_info *info) {
	struct worker_process *worker = owner;

	worker->info = *info;
	worker->worked = false;
	if (worker->phase == WORKER_IDLE)
		go_on(worker);
}

static void on_lacked(void *owner, const struct hd_lack_info *info) {
	struct worker_process *worker = owner;

	(void)info;
	worker->process.cluster->lacked++;
}

/* The controller does not need it any more: it ends when its library has left. */
static void on_noticed(void *owner, hd_ns preempted_at) {
	struct worker_process *worker = owner;

	(void)preempted_at;
	worker->preempted = true;
	plan(worker, RETRY, 0, do_look);
}

const struct hd_worker_ops app_ops = {
	.noticed = on_noticed,
	.joined = on_joined,
	.refused = on_refused,
	.ticket = on_ticket,
	.released = on_released,
	.stepped = on_stepped,
	.round = on_round,
	.lacked = on_lacked,
};

/* --- start and end of processes ------------------------------------------------------------ */

void app_reset(struct worker_process *worker) {
	filter_gone(worker);
	worker->serial++;
	worker->phase = WORKER_IDLE;
	worker->base = 0;
	worker->newest = 0;
	worker->info = (struct hd_round_info){0};
	worker->worked = false;
	worker->in_flight = 0;
	worker->ready = NULL;
	worker->leaving = worker->preempted = false;
	worker->last = worker->flushed = false;
	for (uint32_t i = 0; i < CLUSTER_PUSHES_MAX; i++)
		worker->buffers[i].used = false;
}

static void do_leave(struct step *step, hd_ns now) {
	struct worker_process *worker = worker_of(step);
	struct hd_sim *sim = step->cluster->sim;
	int node = step->process->node;

	if (!worker)
		return;
	if (!hd_worker_leave(
		    worker->core, hd_sim_node_now(sim, node), hd_sim_node_sink(sim, node)
	    )) {
		hd_sim_node_poke(sim, node);
		plan(worker, RETRY, 0, do_leave);
		return;
	}
	step->process->wanted = false;
	process_settle(step->process);
}

void app_leave(struct worker_process *worker) {
	if (!worker->core || worker->leaving)
		return;
	worker->leaving = true;
	plan(worker, 0, 0, do_leave);
}

/* --- preemption ---------------------------------------------------------------------------- */

static void end(struct process *process) {
	process->wanted = false;
	process_settle(process);
}

/* Checks whether the library has left by itself. */
static void do_look(struct step *step, hd_ns now) {
	struct worker_process *worker = worker_of(step);

	if (!worker)
		return;
	if (hd_worker_stats(worker->core)->left)
		end(step->process);
	else
		plan(worker, RETRY, 0, do_look);
}

/* The machine is taken away, whatever its process does. */
static void take_away(struct step *step, hd_ns now) {
	if (worker_of(step))
		end(step->process);
}

void app_preempt(struct worker_process *worker, hd_ns notice) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct hd_sim *sim = cluster->sim;
	int node = worker->process.node, code;

	if (!worker->core || worker->preempted)
		return;
	worker->preempted = true;
	code = hd_worker_notice(
		worker->core, hd_sim_node_now(sim, node), notice, hd_sim_node_sink(sim, node)
	);
	if (code < 0 && code != -ESHUTDOWN)
		hd_check_fail(cluster->check, "%s: notice: %d", worker->process.name, code);
	hd_sim_node_poke(sim, node);
	plan(worker, RETRY, 0, do_look);
	cluster_at(
		cluster,
		hd_sim_now(sim) + notice,
		(struct step){
			.cluster = cluster,
			.process = &worker->process,
			.serial = worker->serial,
			.call = take_away,
		}
	);
}
