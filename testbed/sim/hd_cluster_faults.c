/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of the cluster: crashes, partitions, changing links and speeds, other tenants. */
#include "hd_cluster_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* --- crashes and partitions ---------------------------------------------------------------- */

static void go_down(struct step *step, hd_ns now) {
	if (step->cluster->quiet)
		return;
	step->process->crashes++;
	process_settle(step->process);
}

static void come_back(struct step *step, hd_ns now) {
	if (step->process->crashes == 0)
		return; /* the end of faults brought it back */
	step->process->crashes--;
	process_settle(step->process);
}

static void cut_off(struct step *step, hd_ns now) {
	if (!step->cluster->quiet)
		hd_sim_set_cut(step->cluster->sim, (int)step->number, true);
}

static void reconnect(struct step *step, hd_ns now) {
	hd_sim_set_cut(step->cluster->sim, (int)step->number, false);
}

static void stop(struct step *step, hd_ns now) {
	if (step->cluster->quiet)
		return;
	step->process->stops++;
	hd_sim_node_freeze(step->cluster->sim, step->process->node, true);
}

static void go_on(struct step *step, hd_ns now) {
	if (step->process->stops == 0)
		return; /* killed meanwhile, or resumed at the end of faults */
	if (--step->process->stops == 0)
		hd_sim_node_freeze(step->cluster->sim, step->process->node, false);
}

static void plan_stops(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;

	for (uint32_t i = 0; i < scenario->stop_count; i++) {
		const struct hd_scenario_fault *fault = &scenario->stops[i];
		struct step step = {
			.cluster = cluster,
			.process = cluster_process(cluster, fault->node),
			.call = stop,
		};

		if (!step.process)
			continue;
		cluster_at(cluster, cluster_ns(fault->at_s), step);
		step.call = go_on;
		cluster_at(cluster, cluster_ns(fault->at_s + fault->for_s), step);
	}
}

static void plan_outages(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;

	for (uint32_t i = 0; i < scenario->crash_count; i++) {
		const struct hd_scenario_fault *fault = &scenario->crashes[i];
		struct step step = {
			.cluster = cluster,
			.process = cluster_process(cluster, fault->node),
			.call = go_down,
		};

		if (!step.process)
			continue;
		cluster_at(cluster, cluster_ns(fault->at_s), step);
		step.call = come_back;
		cluster_at(cluster, cluster_ns(fault->at_s + fault->for_s), step);
	}
	for (uint32_t i = 0; i < scenario->partition_count; i++) {
		const struct hd_scenario_fault *fault = &scenario->partitions[i];
		struct step step = {
			.cluster = cluster,
			.number = (uint32_t)cluster_host(cluster, fault->node),
			.call = cut_off,
		};

		cluster_at(cluster, cluster_ns(fault->at_s), step);
		step.call = reconnect;
		cluster_at(cluster, cluster_ns(fault->at_s + fault->for_s), step);
	}
}

/* --- nodes that are killed and restarted --------------------------------------------------- */

static void plan_node_events(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;

	for (uint32_t i = 0; i < scenario->node_event_count; i++) {
		const struct hd_scenario_node_event *event = &scenario->node_events[i];
		struct step step = {
			.cluster = cluster,
			.process = cluster_process(cluster, event->node),
			.call = event->what == HD_DO_KILL ? go_down : come_back,
		};

		if (step.process)
			cluster_at(cluster, cluster_ns(event->at_s), step);
	}
}

/* --- workers that come and go -------------------------------------------------------------- */

static void change_worker(struct step *step, hd_ns now) {
	struct worker_process *worker = (struct worker_process *)step->process;

	if (step->cluster->quiet)
		return;
	if (step->number == HD_DO_LEAVE) {
		filter_leave(worker);
		return;
	}
	if (step->number == HD_DO_PREEMPT) {
		app_preempt(worker, step->serial);
		return;
	}
	step->process->wanted = step->number == HD_DO_JOIN;
	process_settle(step->process);
}

/* A worker whose first event is `join` does not run before. */
static void start_workers(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;

	for (uint32_t w = 0; w < cluster->worker_count; w++) {
		const struct hd_scenario_event *first = NULL;

		for (uint32_t i = 0; i < scenario->event_count; i++)
			if (scenario->events[i].worker == w
			    && (!first || scenario->events[i].at_s < first->at_s))
				first = &scenario->events[i];
		cluster->workers[w].process.wanted = !first || first->what != HD_DO_JOIN;
		process_settle(&cluster->workers[w].process);
	}
	for (uint32_t i = 0; i < scenario->event_count; i++) {
		const struct hd_scenario_event *event = &scenario->events[i];

		cluster_at(
			cluster,
			cluster_ns(event->at_s),
			(struct step){
				.cluster = cluster,
				.process = &cluster->workers[event->worker].process,
				.number = event->what,
				.serial = cluster_ns(event->notice_s),
				.call = change_worker,
			}
		);
	}
}

/* --- speeds and rates ---------------------------------------------------------------------- */

static void set_speed(struct hd_cluster *cluster, uint32_t worker, double factor) {
	cluster->workers[worker].slowness = factor;
}

static void set_rate(struct hd_cluster *cluster, uint32_t worker, double factor) {
	uint64_t rate = (uint64_t)(cluster->scenario.link_mbps * 1e6 * factor);
	int host = cluster->workers[worker].process.host;

	cluster->link_factor[worker] = factor;
	hd_sim_set_rate(cluster->sim, host, HD_SIM_UP, rate);
	hd_sim_set_rate(cluster->sim, host, HD_SIM_DOWN, rate);
}

typedef void set_factor(struct hd_cluster *cluster, uint32_t worker, double factor);

/* Picks `fraction` of the workers, at least one, each as likely as any other. */
static void
draw_fraction(struct hd_cluster *cluster, const struct hd_variation *variation, set_factor *set) {
	uint32_t left = (uint32_t)lround(variation->fraction * cluster->worker_count);

	if (left == 0 && variation->fraction > 0)
		left = 1;
	for (uint32_t w = 0; w < cluster->worker_count; w++) {
		if (hd_random_below(&cluster->draws, cluster->worker_count - w) >= left)
			continue;
		set(cluster, w, variation->factor);
		left--;
	}
}

static void
redraw(struct hd_cluster *cluster, const struct hd_variation *variation, set_factor *set) {
	for (uint32_t w = 0; w < cluster->worker_count; w++)
		set(cluster,
		    w,
		    variation->low
			    + (variation->high - variation->low) * hd_random_unit(&cluster->draws));
}

static void redraw_speeds(struct step *step, hd_ns now) {
	const struct hd_variation *variation = &step->cluster->scenario.compute;

	if (step->cluster->quiet)
		return;
	redraw(step->cluster, variation, set_speed);
	cluster_at(step->cluster, now + cluster_ns(variation->every_s), *step);
}

static void redraw_rates(struct step *step, hd_ns now) {
	const struct hd_variation *variation = &step->cluster->scenario.links;

	if (step->cluster->quiet)
		return;
	redraw(step->cluster, variation, set_rate);
	cluster_at(step->cluster, now + cluster_ns(variation->every_s), *step);
}

static void vary(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;
	struct step step = {.cluster = cluster};

	if (scenario->compute.kind == HD_VARIATION_FRACTION)
		draw_fraction(cluster, &scenario->compute, set_speed);
	if (scenario->links.kind == HD_VARIATION_FRACTION)
		draw_fraction(cluster, &scenario->links, set_rate);
	if (scenario->compute.kind == HD_VARIATION_REDRAW)
		redraw_speeds(
			&(struct step){.cluster = cluster, .call = redraw_speeds},
			hd_sim_now(cluster->sim)
		);
	step.call = redraw_rates;
	if (scenario->links.kind == HD_VARIATION_REDRAW)
		redraw_rates(&step, hd_sim_now(cluster->sim));
}

/* --- other tenants ------------------------------------------------------------------------- */

static void start_flow(struct step *step, hd_ns now) {
	if (!step->cluster->quiet)
		hd_sim_flow_start(step->cluster->sim, (int)step->number);
}

static void stop_flow(struct step *step, hd_ns now) {
	hd_sim_flow_stop(step->cluster->sim, (int)step->number);
}

static int plan_tenant(struct hd_cluster *cluster, const struct hd_scenario_tenant *tenant) {
	for (uint32_t i = 0; i < tenant->flows; i++) {
		int flow = hd_sim_flow(
			cluster->sim,
			cluster_host(cluster, tenant->from),
			cluster_host(cluster, tenant->to)
		);
		struct step step = {.cluster = cluster, .number = (uint32_t)flow};

		if (flow < 0)
			return flow;
		step.call = start_flow;
		cluster_at(cluster, cluster_ns(tenant->start_s), step);
		step.call = stop_flow;
		cluster_at(cluster, cluster_ns(tenant->stop_s), step);
	}
	return 0;
}

int cluster_plan_faults(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;
	struct hd_sim_faults faults = {
		.loss = scenario->loss,
		.duplicate = scenario->duplicate,
		.reorder = scenario->reorder,
	};
	int code = 0;

	cluster->link_factor = calloc(cluster->worker_count, sizeof(double));
	if (!cluster->link_factor)
		return -ENOMEM;
	for (uint32_t w = 0; w < cluster->worker_count; w++)
		cluster->link_factor[w] = 1;
	hd_sim_set_faults(cluster->sim, &faults);
	vary(cluster);
	process_settle(&cluster->controller.process);
	process_settle(&cluster->server.process);
	for (uint32_t i = 0; i < scenario->aggregators; i++)
		process_settle(&cluster->aggregators[i].process);
	if (cluster->config.switch_slots)
		process_settle(&cluster->path_switch.process);
	if (cluster->scenario.replica)
		process_settle(&cluster->replica.process);
	start_workers(cluster);
	plan_outages(cluster);
	plan_node_events(cluster);
	plan_stops(cluster);
	for (uint32_t i = 0; code == 0 && i < scenario->tenant_count; i++)
		code = plan_tenant(cluster, &scenario->tenants[i]);
	return cluster_failed(cluster) ? -EINVAL : code;
}

static void end_outage(struct hd_cluster *cluster, struct process *process) {
	hd_sim_set_cut(cluster->sim, process->host, false);
	process->crashes = process->stops = 0;
	hd_sim_node_freeze(cluster->sim, process->node, false);
	process_settle(process);
}

void cluster_stop_faults(struct hd_cluster *cluster) {
	hd_sim_set_faults(cluster->sim, &(struct hd_sim_faults){0});
	end_outage(cluster, &cluster->controller.process);
	end_outage(cluster, &cluster->server.process);
	for (uint32_t i = 0; i < cluster->scenario.aggregators; i++)
		end_outage(cluster, &cluster->aggregators[i].process);
	if (cluster->config.switch_slots)
		end_outage(cluster, &cluster->path_switch.process);
	if (cluster->scenario.replica)
		end_outage(cluster, &cluster->replica.process);
	for (uint32_t w = 0; w < cluster->worker_count; w++)
		end_outage(cluster, &cluster->workers[w].process);
}
