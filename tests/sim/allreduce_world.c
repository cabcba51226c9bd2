/* SPDX-License-Identifier: BSD-3-Clause */
#include "allreduce_world.h"
#include "ctl_core.h"
#include "hd_group.h"
#include "worker_core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE (2 * HD_MS)
#define WEAK (3 * HD_SECOND) /* so long before and after it was cut off */

void allreduce_fail(struct allreduce_world *w, const char *format, ...) {
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	(void)vsnprintf(w->failure, sizeof w->failure, format, args);
	va_end(args);
}

/* --- calls ----------------------------------------------------------------------------------- */

static struct call *find_call(struct allreduce_worker *worker, uint32_t round) {
	for (int k = 0; k < DEPTH_MAX; k++)
		if (worker->calls[k].used && worker->calls[k].round == round)
			return &worker->calls[k];
	return NULL;
}

static void ended(struct allreduce_worker *worker, struct call *call) {
	struct allreduce_world *w = worker->world;
	hd_ns now = hd_sim_now(w->sim);
	struct kind kind = allreduce_kind(w, call->round);
	bool applied = call->ticket.state == HD_TICKET_APPLIED;

	call->used = false;
	w->applied += applied;
	w->failed += !applied;
	w->late += call->ticket.reason == HD_REASON_LATE;
	w->mismatches += call->ticket.reason == HD_REASON_MISMATCH;
	w->short_of += call->ticket.reason == HD_REASON_MEMBERS;
	w->rootless += call->ticket.reason == HD_REASON_ROOT;
	w->others[kind.collective] += applied;
	if (call->ticket.reason == HD_REASON_MISMATCH && kind.odd == WORKERS_MAX)
		allreduce_fail(w, "round %u: a mismatch of equal calls", call->round);
	if (call->ticket.reason == HD_REASON_MEMBERS && kind.exact == 0 && kind.least == 0)
		allreduce_fail(w, "round %u: it may have any members", call->round);
	if (call->ticket.reason == HD_REASON_LATE)
		worker->late_at = now;
	if (w->quiet)
		w->longest = hd_ns_max(w->longest, now - hd_ns_max(call->asked, w->quiet_at));
	if (allreduce_gives(&kind, worker->rank)
	    && allreduce_changed(w, &kind, worker->rank, call)) {
		allreduce_fail(
			w, "rank %u, round %u: its values were changed", worker->rank, call->round
		);
		return;
	}
	if (applied)
		allreduce_check(worker, call);
	allreduce_note_end(worker, call);
}

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct allreduce_worker *worker = owner;
	struct call *call = ticket->user ? NULL : find_call(worker, ticket->round);

	if (ticket->user)
		allreduce_sends_ticket(worker, ticket);
	else if (ticket->direction != HD_REDUCE)
		allreduce_fail(worker->world, "a ticket of direction %u", ticket->direction);
	else if (call) {
		call->ticket = *ticket;
		call->members = ticket->members ? *ticket->members : (struct hd_roster){0};
	}
	if (call && ticket->state == HD_TICKET_SENDING) {
		call->weak = worker->apart;
		allreduce_note_start(worker, call->round);
	}
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct allreduce_worker *worker = owner;
	struct call *call = user ? NULL : find_call(worker, round);

	if (user)
		allreduce_sends_released(worker, user);
	else if (!call || call->ticket.state < HD_TICKET_APPLIED)
		allreduce_fail(worker->world, "rank %u: released in the middle", worker->rank);
	else
		ended(worker, call);
}

const struct hd_worker_ops allreduce_worker_ops = {.ticket = on_ticket, .released = on_released};

static struct call *free_call(struct allreduce_worker *worker) {
	for (uint32_t k = 0; k < worker->world->plan.depth; k++)
		if (!worker->calls[k].used)
			return &worker->calls[k];
	return NULL;
}

static void begin_call(struct allreduce_worker *worker, struct call *call) {
	struct allreduce_world *w = worker->world;
	uint32_t round = worker->core->reduce_round + 1;
	struct kind kind = allreduce_kind(w, round);
	struct hd_reduce_args args = {
		.collective = kind.collective,
		.root = kind.root,
		.in = allreduce_gives(&kind, worker->rank) || kind.has >> worker->rank & 1 ?
			call->in :
			NULL,
		.out = allreduce_takes(&kind, worker->rank) ? call->out : NULL,
		.values = kind.values,
		.type = kind.type,
		.dtype = kind.dtype,
		.op = kind.op,
		.order = kind.order,
		.exact = kind.exact,
		.state = kind.has >> worker->rank & 1 ? HD_REQUEST_HAS : HD_REQUEST_PLAIN,
		.least = kind.least,
		.wait_ms = kind.wait_ms,
	};

	(void)snprintf(args.tag, sizeof args.tag, "%s", kind.odd == worker->rank ? "odd" : "even");
	allreduce_fill(w, &kind, worker->rank, round, call->in);
	memset(call->out, 0xff, VALUES_MAX * sizeof(uint64_t));
	call->round = round;
	call->weak = worker->apart;
	call->ticket = (struct hd_ticket){0};
	call->asked = hd_sim_now(w->sim);
	call->used = true;
	if (hd_worker_reduce(
		    worker->core,
		    hd_sim_node_now(w->sim, worker->node),
		    &args,
		    hd_sim_node_sink(w->sim, worker->node),
		    &round
	    )
	    < 0)
		call->used = false;
	else
		worker->made++;
	if (call->used)
		allreduce_note_call(worker, round);
	worker->newest = round > worker->newest ? round : worker->newest;
	if (call->used && round != call->round)
		allreduce_fail(
			w, "rank %u: round %u instead of %u", worker->rank, round, call->round
		);
	hd_sim_node_poke(w->sim, worker->node);
	worker->next = hd_sim_now(w->sim);
	if (!w->plan.eager)
		worker->next += hd_random_below(&w->random, 100) * HD_MS;
	if (call->used)
		worker->next += allreduce_silence(worker);
}

/* --- a run ----------------------------------------------------------------------------------- */

static void build(struct allreduce_world *w) {
	struct hd_sim_node_config node = {0};

	(void)snprintf(w->spec.tenant, sizeof w->spec.tenant, "t");
	(void)snprintf(w->spec.name, sizeof w->spec.name, "job");
	w->spec.tau_max = 1;
	w->spec.learning_rate = 0.1F;
	w->controller_host = hd_sim_host(w->sim, &(struct hd_sim_link){.latency = 50000});
	node.host = w->controller_host;
	w->controller_node = hd_sim_node(w->sim, &node);
	for (uint32_t k = 0; k < w->plan.workers; k++) {
		struct allreduce_worker *worker = &w->workers[k];
		struct hd_sim_link link = {
			.rate_bps = (20 + hd_random_below(&w->random, 180)) * 1000000,
			.queue_bytes = 1U << (15 + hd_random_below(&w->random, 4)),
			.latency = 20000 + hd_random_below(&w->random, 400000),
		};

		worker->world = w;
		worker->rank = (uint16_t)k;
		worker->host = node.host = hd_sim_host(w->sim, &link);
		node.clock.offset_ns = (int64_t)hd_random_below(&w->random, 10 * HD_SECOND);
		node.clock.skew_ppm = (int32_t)hd_random_below(&w->random, 100);
		worker->node = hd_sim_node(w->sim, &node);
		for (int c = 0; c < DEPTH_MAX; c++) {
			worker->calls[c].in = worker->memory[(size_t)2 * c];
			worker->calls[c].out = worker->memory[(size_t)2 * c + 1];
		}
	}
	for (uint32_t k = 0; k < w->plan.aggregators; k++) {
		struct hd_sim_link link
			= {.rate_bps = 200000000, .queue_bytes = 1 << 18, .latency = 50000};

		w->aggregators[k].host = node.host
			= w->plan.shared ? w->workers[k].host : hd_sim_host(w->sim, &link);
		w->aggregators[k].node = hd_sim_node(w->sim, &node);
		w->aggregators[k].wanted = true;
	}
	w->controller_wanted = true;
	for (uint32_t k = 0; k < w->plan.workers; k++)
		w->workers[k].wanted = true;
	if (w->plan.with_switch)
		allreduce_switch_build(w);
}

/* Sums of a worker that was cut off: the others may have started again without it. All of its sums if it cannot tell a
 * new controller. */
static void weaken(struct allreduce_worker *worker) {
	struct allreduce_world *w = worker->world;
	hd_ns now = hd_sim_now(w->sim);
	bool forgotten = w->begun_at > 0 && now < w->begun_at + WEAK;

	for (int k = 0; worker->apart && k < DEPTH_MAX; k++)
		worker->calls[k].weak = true;
	for (uint32_t r = 0; worker->apart && r < ROUNDS_MAX; r++) {
		struct ending *ending = &w->endings[r][worker->rank];

		if (ending->members && (ending->at + WEAK >= now || forgotten))
			ending->weak = true;
	}
}

static bool has_done_all(const struct allreduce_worker *worker) {
	const struct allreduce_plan *plan = &worker->world->plan;

	for (uint32_t k = 0; k < plan->depth; k++)
		if (worker->calls[k].used)
			return false;
	return plan->leaves && worker->made >= plan->calls;
}

static void act(struct allreduce_world *w, struct allreduce_worker *worker) {
	hd_ns now = hd_sim_now(w->sim);
	struct call *call = free_call(worker);

	weaken(worker);
	if (w->sends)
		(void)allreduce_sends_act(worker, w->stopping);
	if (w->stopping || has_done_all(worker)) {
		worker->leaving = true;
		if (hd_worker_leave(
			    worker->core,
			    hd_sim_node_now(w->sim, worker->node),
			    hd_sim_node_sink(w->sim, worker->node)
		    )) {
			worker->wanted = false;
			worker->left = true;
			hd_sim_node_stop(w->sim, worker->node);
			w->asked_again += hd_worker_stats(worker->core)->asked_again;
			w->in_slots += hd_worker_stats(worker->core)->in_slots;
			w->in_memory += hd_worker_stats(worker->core)->in_memory;
			hd_worker_destroy(worker->core);
			worker->core = NULL;
			return;
		}
		hd_sim_node_poke(w->sim, worker->node);
	} else if (call && now >= worker->next && (w->plan.calls == 0 || worker->made < w->plan.calls)) {
		begin_call(worker, call);
	}
}

static void advance(struct allreduce_world *w, hd_ns until) {
	while (!w->failure[0] && hd_sim_now(w->sim) < until) {
		hd_sim_run(w->sim, hd_sim_now(w->sim) + SLICE);
		allreduce_settle(w);
		for (uint32_t k = 0; k < w->plan.workers; k++)
			if (w->workers[k].core)
				act(w, &w->workers[k]);
		if (hd_sim_failure(w->sim))
			allreduce_fail(w, "simulator: %s", hd_sim_failure(w->sim));
	}
}

/* Another sum than the others': it has heard so since, unless the controller was another one by then. */
static void check_notified(struct allreduce_world *w, uint32_t round, uint32_t rank) {
	const struct ending *ending = &w->endings[round][rank];

	if (w->workers[rank].late_at < ending->at && w->begun_at < ending->at)
		allreduce_fail(
			w, "round %u: rank %u has another sum, and was not told", round, rank
		);
}

static void check_same(struct allreduce_world *w) {
	for (uint32_t r = 1; r < ROUNDS_MAX; r++) {
		const struct ending *first = NULL;

		for (uint32_t k = 0; k < w->plan.workers; k++) {
			const struct ending *ending = &w->endings[r][k];

			if (!ending->members)
				continue;
			if (first && ending->members != first->members && !ending->weak
			    && !first->weak)
				allreduce_fail(
					w,
					"round %u: sums of %x and of %x (rank %u)",
					r,
					first->members,
					ending->members,
					k
				);
			if (first && ending->members == first->members
			    && ending->bits != first->bits && !ending->weak && !first->weak)
				allreduce_fail(w, "round %u: rank %u has other bits", r, k);
			w->torn += first && ending->members != first->members;
			if (first && ending->members != first->members
			    && ending->weak != first->weak)
				check_notified(
					w, r, ending->weak ? k : (uint32_t)(first - w->endings[r])
				);
			first = !first || first->weak ? ending : first;
		}
	}
}

/* Prints the job's state that the controller waits for. */
static void explain(const struct allreduce_world *w) {
	const struct ctl_job *job
		= w->controller && w->controller->job_count > 0 ? w->controller->jobs[0] : NULL;
	const struct ctl_reduce *r;

	if (!job)
		return;
	(void
	)printf("  %u workers of %u, formed %d, goes on %d, %u aggregators, newest round %u\n",
		job->worker_count,
		job->world,
		job->formed,
		job->goes_on,
		w->controller->aggregator_count,
		job->reduce_round);
	TAILQ_FOREACH (r, &job->reduces, entry) {
		(void)printf("  round %u, begun %d, parts", r->round, r->begun);
		for (uint32_t k = 0; k < w->plan.workers; k++)
			(void)printf(" %u%s", r->part[k], w->workers[k].core ? "" : "(down)");
		(void)printf("\n");
	}
}

/* A call that began before `since` and goes on. */
static void check_blocked(struct allreduce_world *w, hd_ns since, const char *when) {
	for (uint32_t k = 0; k < w->plan.workers; k++)
		for (int c = 0; c < DEPTH_MAX; c++) {
			const struct call *call = &w->workers[k].calls[c];

			if (call->used && call->asked <= since)
				allreduce_fail(
					w,
					"rank %u is blocked in round %u, state %d, %s",
					k,
					call->round,
					(int)call->ticket.state,
					when
				);
		}
}

/* Faults end. No worker is blocked for longer than HD_DETECTION_US + HD_STALL_US and the time to open a session (and
 * for as long as another is silent); then all workers go on, and leave. */
static void finish(struct allreduce_world *w) {
	hd_ns bound
		= (HD_DETECTION_US + HD_STALL_US) * HD_US + (w->plan.silences ? 5 : 3) * HD_SECOND;
	uint64_t before;

	allreduce_recover(w);
	w->quiet = true;
	w->quiet_at = hd_sim_now(w->sim);
	advance(w, w->quiet_at + bound);
	check_blocked(w, w->quiet_at, "after faults");
	if (w->sends)
		allreduce_sends_check(w, w->quiet_at);
	if (w->failure[0])
		explain(w);
	before = w->applied;
	advance(w, hd_sim_now(w->sim) + HD_SECOND);
	/* A round that must have members which this controller has never seen waits for this long before it fails. */
	if (w->applied == before && w->plan.strict)
		advance(w, hd_sim_now(w->sim) + CTL_REDUCE_MEMBERS_NS);
	if (w->applied == before && w->plan.calls == 0)
		allreduce_fail(w, "nothing is added after faults");
	w->stopping = w->failure[0] == 0;
	advance(w, hd_sim_now(w->sim) + bound);
	for (uint32_t k = 0; k < w->plan.workers; k++)
		if (w->workers[k].core)
			allreduce_fail(w, "rank %u does not leave", k);
	check_same(w);
	allreduce_check_missing(w);
}

const char *allreduce_run(struct allreduce_world *w, const struct allreduce_plan *plan) {
	memset(w, 0, sizeof *w);
	w->plan = *plan;
	hd_random_init(&w->random, (plan->seed ^ 0x5eed) + plan->delays);
	if (hd_sim_create(plan->seed + plan->delays, &w->sim) < 0)
		return "no memory";
	build(w);
	if (plan->sends && allreduce_sends_create(w) < 0)
		return "no memory";
	if (plan->faults)
		allreduce_plan_faults(w);
	else
		hd_sim_set_faults(
			w->sim,
			&(struct hd_sim_faults){.loss = 0.01, .duplicate = 0.01, .reorder = 0.05}
		);
	allreduce_settle(w);
	advance(w, plan->until);
	finish(w);
	for (uint32_t k = 0; k < plan->workers; k++)
		if (w->workers[k].core)
			allreduce_crash_worker(&w->workers[k]);
	for (uint32_t k = 0; k < plan->aggregators; k++)
		hd_aggregator_destroy(w->aggregators[k].core);
	allreduce_switch_stop(&w->switch_on_path);
	if (w->controller)
		w->inlined += w->controller->counters.reduces_inlined;
	if (w->controller)
		hd_controller_destroy(w->controller);
	free(w->kept);
	allreduce_free_segments(w);
	hd_sim_destroy(w->sim);
	if (w->sends)
		w->sent = *allreduce_sends_totals(w);
	allreduce_sends_destroy(w);
	return w->failure[0] ? w->failure : NULL;
}
