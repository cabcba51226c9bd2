/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches every event of every node, the server's model after commits, and the controller's reservations. */
#include "hd_cluster_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVED_SLACK 1.000001 /* for rounding in sums of rates */
#define LOOK_AHEAD 16 /* times at which reservations are summed */
#define LOOK_STEP (2 * HD_MS)

static void keep(struct hd_cluster *cluster, const char *node, const struct hd_event *event) {
	struct kept_event *kept = &cluster->kept[cluster->kept_count++ % CLUSTER_EVENTS_KEPT];

	memcpy(kept->node, node, CLUSTER_NAME_BYTES);
	kept->event = *event;
}

static void on_estimate(struct hd_cluster *cluster, const struct hd_event *event) {
	struct hd_controller *controller = cluster->controller.core;
	double real;

	if (!controller || event->aux >= hd_controller_link_count(controller))
		return;
	real = hd_cluster_truth(cluster, hd_controller_link_name(controller, (uint32_t)event->aux));
	if (real <= 0)
		return;
	cluster->error_sum += fabs(event->value - real) / real;
	cluster->error_count++;
}

static void check_link(struct hd_cluster *cluster, uint32_t link, hd_ns now) {
	struct hd_controller *controller = cluster->controller.core;
	double estimate = hd_controller_planned_bps(controller, link);

	for (hd_ns ahead = 0; estimate > 0 && ahead < LOOK_AHEAD; ahead++) {
		double sum = hd_controller_reserved_bps(controller, link, now + ahead * LOOK_STEP);

		if (sum > estimate * RESERVED_SLACK)
			hd_check_fail(
				cluster->check,
				"reservations of %.0f bit/s on %s exceed its estimate of %.0f",
				sum,
				hd_controller_link_name(controller, link),
				estimate
			);
	}
}

/* Most links of a large cluster are idle at any time. */
static void check_reservations(struct hd_cluster *cluster) {
	struct hd_controller *controller = cluster->controller.core;
	uint32_t count = hd_controller_link_count(controller);
	hd_ns now = hd_sim_node_now(cluster->sim, cluster->controller.process.node);

	if (!cluster->reserved)
		cluster->reserved = calloc(count, sizeof(bool));
	if (!cluster->reserved) {
		hd_check_fail(cluster->check, "out of memory");
		return;
	}
	hd_controller_mark_reserved(controller, cluster->reserved);
	for (uint32_t link = 0; link < count; link++) {
		if (cluster->reserved[link])
			check_link(cluster, link, now);
		cluster->reserved[link] = false;
	}
}

/* Every granted transfer has ended once, or is in progress. */
static void check_counts(struct hd_cluster *cluster) {
	char error[HD_TEXT_BYTES_MAX + 1];

	if (!hd_controller_adds_up(cluster->controller.core, error, sizeof error))
		hd_check_fail(cluster->check, "the controller's counts: %s", error);
}

/* A new process has received no change. */
static void check_members(struct process *process, const struct hd_event *event) {
	if (process->listens != process->starts) {
		process->listens = process->starts;
		process->listener.change = 0;
	}
	process->listener.name = process->name;
	hd_check_members(process->cluster->check, &process->listener, event);
}

void cluster_event(void *owner, int node, const struct hd_event *given) {
	struct process *process = owner;
	struct hd_cluster *cluster = process->cluster;
	struct hd_event event = *given;

	event.at = hd_sim_now(cluster->sim);
	if (cluster->config.tamper)
		cluster->config.tamper(cluster->config.owner, &event);
	keep(cluster, process->name, &event);
	if (cluster->config.event)
		cluster->config.event(cluster->config.owner, process->name, &event);
	if (event.kind == HD_EVENT_ESTIMATE)
		on_estimate(cluster, &event);
	check_members(process, &event);
	if (event.kind == HD_EVENT_PLAN)
		cluster->planned = true;
	if (as_aggregator(process) || as_switch(process))
		return; /* the server commits its sums */
	if (event.kind == HD_EVENT_FALLBACK && as_server(process))
		cluster->begun_alone = true;
	if (event.kind == HD_EVENT_PROMOTED && as_server(process))
		cluster_promoted(as_server(process), &event);
	else if (as_server(process) && !cluster_is_present(process)) {
		hd_check_lost(cluster->check, &event);
		filter_lost(cluster, &event);
	} else if (as_server(process) && event.kind == HD_EVENT_ROSTER)
		hd_check_roster(cluster->check, &event);
	else
		hd_check_event(cluster->check, &event);
	if (event.kind == HD_EVENT_COMMITTED && cluster_is_present(process)) {
		cluster_stepped(cluster, &event);
		filter_committed(cluster, &event);
	}
	if (event.kind == HD_EVENT_DURABLE && as_server(process))
		cluster_durable(as_server(process), event.version);
	hd_check_credits(cluster->check, &event, cluster_is_present(process));
}

void cluster_inspect(struct hd_cluster *cluster) {
	const float *model;
	uint64_t values;

	if (cluster->planned && cluster->controller.core)
		check_reservations(cluster);
	cluster->planned = false;
	if (cluster->controller.core)
		check_counts(cluster);
	cluster_note_server(cluster);
	cluster_inspect_replica(cluster);
	if (!hd_check_dirty(cluster->check) || !cluster->present->core)
		return;
	model = hd_server_model(cluster->present->core, cluster->job, &values);
	if (!model && hd_server_version(cluster->present->core, cluster->job))
		return; /* the next update is partly applied: checked afterwards */
	hd_check_model(
		cluster->check, model, hd_server_version(cluster->present->core, cluster->job)
	);
}

static void explain_event(const struct kept_event *kept) {
	const struct hd_event *e = &kept->event;

	(void)fprintf(
		stderr,
		"  %12.6f %-10s %-10s w%u %s round %u pos %llu ver %u/%llu base %u/%llu aux %llu %s\n",
		(double)e->at * 1e-9,
		kept->node,
		hd_event_name(e->kind),
		e->worker,
		e->direction ? "pull" : "push",
		e->round,
		(unsigned long long)e->position,
		hd_version_incarnation(e->version),
		(unsigned long long)hd_version_counter(e->version),
		hd_version_incarnation(e->base),
		(unsigned long long)hd_version_counter(e->base),
		(unsigned long long)e->aux,
		e->reason ? hd_reason_name(e->reason) : ""
	);
}

void cluster_explain(struct hd_cluster *cluster) {
	uint64_t first = 0;

	if (cluster->kept_count > CLUSTER_EVENTS_KEPT)
		first = cluster->kept_count - CLUSTER_EVENTS_KEPT;
	(void)fprintf(stderr, "the last events before the violation:\n");
	for (uint64_t i = first; i < cluster->kept_count; i++)
		explain_event(&cluster->kept[i % CLUSTER_EVENTS_KEPT]);
}
