/* SPDX-License-Identifier: BSD-3-Clause */
/* The faults that are injected into the workers, aggregators and the controller of an all-reduce. */
#include "allreduce_world.h"
#include "worker_core.h"

#include <stdlib.h>

#define FAULTS_MAX 12

enum fault_kind {
	CRASH_AGGREGATOR,
	CRASH_WORKER,
	CRASH_CONTROLLER,
	CUT_WORKER,
	CUT_AGGREGATOR,
	CUT_PAIR, /* a worker and an aggregator */
	CUT_CONTROLLER, /* from a worker, and another worker from an aggregator: that round fails */
	FAULT_KINDS,
	CRASH_SWITCH = FAULT_KINDS, /* its slots are lost */
	CUT_SWITCH, /* from all nodes, chunks too */
	CUT_AGENT, /* from the controller: its leases expire */
	FAULT_KINDS_SWITCH
};

struct fault {
	struct allreduce_world *world;
	hd_ns lasts;
	enum fault_kind kind;
	uint32_t which, other;
	bool on, armed;
};

static struct fault faults[FAULTS_MAX];

static void apply(struct fault *f, bool on) {
	struct allreduce_world *w = f->world;
	struct allreduce_worker *worker = &w->workers[f->which % w->plan.workers];
	struct allreduce_node *aggregator = &w->aggregators[f->other % w->plan.aggregators];

	f->on = on;
	w->crashes += on && (f->kind <= CRASH_CONTROLLER || f->kind == CRASH_SWITCH);
	switch (f->kind) {
	case CRASH_AGGREGATOR:
		aggregator->wanted = !on;
		break;
	case CRASH_WORKER:
		worker->wanted = !on;
		break;
	case CRASH_CONTROLLER:
		w->controller_wanted = !on;
		break;
	case CUT_WORKER:
		hd_sim_set_cut(w->sim, worker->host, on);
		worker->apart = on;
		break;
	case CUT_AGGREGATOR:
		hd_sim_set_cut(w->sim, aggregator->host, on);
		if (w->plan.shared)
			w->workers[f->other % w->plan.aggregators].apart = on;
		break;
	case CUT_CONTROLLER:
		(void)hd_sim_set_cut_pair(w->sim, worker->host, w->controller_host, on);
		worker->apart = on;
		worker = &w->workers[(f->which + 1) % w->plan.workers];
		if (worker->host != aggregator->host)
			(void)hd_sim_set_cut_pair(w->sim, worker->host, aggregator->host, on);
		break;
	case CRASH_SWITCH:
		w->switch_on_path.wanted = !on;
		break;
	case CUT_SWITCH:
		hd_sim_set_cut(w->sim, w->switch_on_path.host, on);
		break;
	case CUT_AGENT:
		(void)hd_sim_set_cut_pair(w->sim, w->switch_on_path.host, w->controller_host, on);
		break;
	default:
		if (worker->host != aggregator->host)
			(void)hd_sim_set_cut_pair(w->sim, worker->host, aggregator->host, on);
		break;
	}
	allreduce_settle(w);
}

static void ends(void *owner, hd_ns now) {
	struct fault *f = owner;

	(void)now;
	if (f->on)
		apply(f, false);
}

static void begins(void *owner, hd_ns now) {
	struct fault *f = owner;

	if (!f->armed)
		return;
	apply(f, true);
	(void)hd_sim_at(f->world->sim, now + f->lasts, ends, f);
}

static void joins(void *owner, hd_ns now) {
	struct allreduce_worker *worker = owner;

	(void)now;
	worker->wanted = true;
	allreduce_settle(worker->world);
}

void allreduce_plan_faults(struct allreduce_world *w) {
	struct hd_random *random = &w->random;
	uint32_t count = (uint32_t)hd_random_below(random, FAULTS_MAX + 1);
	struct hd_sim_faults network = {0};

	if (hd_random_chance(random, 0.7))
		network.loss = 0.03 * hd_random_unit(random);
	if (hd_random_chance(random, 0.4))
		network.duplicate = 0.03 * hd_random_unit(random);
	if (hd_random_chance(random, 0.4))
		network.reorder = 0.1 * hd_random_unit(random);
	hd_sim_set_faults(w->sim, &network);
	for (uint32_t k = 0; k < FAULTS_MAX; k++) {
		struct fault *f = &faults[k];

		*f = (struct fault){
			.world = w,
			.kind = (enum fault_kind)hd_random_below(
				random, w->plan.with_switch ? FAULT_KINDS_SWITCH : FAULT_KINDS
			),
			.which = (uint32_t)hd_random_below(random, 1000),
			.other = (uint32_t)hd_random_below(random, 1000),
			.lasts = (20 + hd_random_below(random, 1500)) * HD_MS,
			.armed = k < count,
		};
		if (f->armed)
			(void)hd_sim_at(w->sim, hd_random_below(random, w->plan.until), begins, f);
	}
	/* Late ones. */
	for (uint32_t k = 1; k < w->plan.workers; k++) {
		if (!hd_random_chance(random, 0.25))
			continue;
		w->workers[k].wanted = false;
		(void
		)hd_sim_at(w->sim, hd_random_below(random, w->plan.until), joins, &w->workers[k]);
	}
}

/* When no living member has a sum, the job starts again, and waits for all workers. */
static bool any_worker_has_a_sum(const struct allreduce_world *w) {
	for (uint32_t k = 0; k < w->plan.workers; k++)
		if (w->workers[k].core && w->workers[k].core->reduce_done > 0)
			return true;
	return false;
}

/* Everything comes back; of the workers of a job that was whole once, some do not. */
void allreduce_recover(struct allreduce_world *w) {
	bool formed = w->plan.world == 0 || any_worker_has_a_sum(w);

	hd_sim_set_faults(w->sim, &(struct hd_sim_faults){0});
	for (uint32_t k = 0; k < FAULTS_MAX && w->plan.faults; k++) {
		struct fault *f = &faults[k];

		f->armed = false;
		if (!f->on || (f->kind == CRASH_WORKER && formed && f->which % w->plan.workers > 0))
			f->on = false;
		else
			apply(f, false);
	}
	w->controller_wanted = w->switch_on_path.wanted = true;
	for (uint32_t k = 0; k < w->plan.aggregators; k++)
		w->aggregators[k].wanted = true;
	for (uint32_t k = 0; k < w->plan.workers; k++)
		w->workers[k].wanted = w->workers[k].wanted || !formed || k == 0;
	allreduce_settle(w);
}
