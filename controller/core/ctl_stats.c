/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's counters and gauges, by group: itself, its jobs, its links, the reasons for which updates ended. */
#include "ctl_base.h"
#include "ctl_dataplane.h"
#include "ctl_slots.h"
#include "ctl_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#define CTL_GAUGES(S) \
	S(nodes, "nodes", "sessions, of registered and other nodes", GAUGE, U64) \
	S(workers, "nodes", "registered workers", GAUGE, U64) \
	S(servers, "nodes", "registered servers", GAUGE, U64) \
	S(jobs, "jobs", "known jobs, with workers or idle", GAUGE, U64) \
	S(jobs_idle, "jobs", "jobs without workers", GAUGE, U64) \
	S(pending, "transfers", "requests that wait for a grant", GAUGE, U64) \
	S(open, "transfers", "granted transfers without a report", GAUGE, U64) \
	S(aggregators, "nodes", "registered aggregators", GAUGE, U64) \
	S(switches, "nodes", "registered switches on the path", GAUGE, U64) \
	S(slots_leased, "slots", "slots of switches that are leased", GAUGE, U64) \
	S(groups_now, "groups", "sums and relays in progress", GAUGE, U64) \
	S(epoch, "", "epoch of the controller: the number of its incarnation", GAUGE, U64) \
	S(paused, "", "1 while the controller grants nothing", GAUGE, U64) \
	S(drained_hosts, "hosts", "drained hosts", GAUGE, U64)

#define CTL_JOB_STATS(S) \
	S(workers, "nodes", "registered workers", GAUGE, U64) \
	S(preempted, "nodes", "registered workers that will be preempted", GAUGE, U64) \
	S(roster_changes, "changes", "changes of the membership announced in this epoch", COUNTER, U64) \
	S(pending, "transfers", "requests that wait for a grant", GAUGE, U64) \
	S(open, "transfers", "granted transfers without a report", GAUGE, U64) \
	S(version, "updates", "newest commit reported by the server", GAUGE, U64) \
	S(tau_max, "updates", "configured bound on delays, in commits", GAUGE, U64) \
	S(paused, "", "1 while the controller grants nothing to the job", GAUGE, U64) \
	S(running, "updates", "granted pushes in progress", GAUGE, U64) \
	S(granted, "updates", \
		"pushes granted, or reported in progress by a server: applied + dropped + failed + " \
		"voided + running", COUNTER, \
		U64) \
	S(granted_bytes, "bytes", "bytes of granted transfers", COUNTER, U64) \
	S(applied, "updates", "granted pushes that were applied", COUNTER, U64) \
	S(dropped, "updates", "granted pushes that the server dropped", COUNTER, U64) \
	S(failed, "updates", "granted pushes that failed", COUNTER, U64) \
	S(voided, "updates", "granted pushes that were voided", COUNTER, U64) \
	S(ungranted, "updates", "pushes that the controller dropped instead of granting", COUNTER, U64) \
	S(pulls_granted, "pulls", "pulls granted, or reported in progress by a server", COUNTER, U64) \
	S(pulls_delivered, "pulls", "granted pulls that were delivered", COUNTER, U64) \
	S(pulls_failed, "pulls", "granted pulls that found nothing newer, failed or were voided", COUNTER, U64) \
	S(delay_sum, "updates", "sum of the delays of applied updates", COUNTER, F64) \
	S(delay_max, "updates", "greatest delay of an applied update", GAUGE, U64)

#define CTL_LEASE_STATS(S) \
	S(held, "leases", "leases of a switch's slots: requested, in force, or ending", GAUGE, U64) \
	S(slots, "slots", "slots of these leases", GAUGE, U64) \
	S(begun, "leases", "leases put in force in this epoch", COUNTER, U64)

#define CTL_LINK_STATS(S) \
	S(estimate_bps, "bit/s", "estimated capacity for our traffic", GAUGE, F64) \
	S(spread_bps, "bit/s", "mean absolute deviation of the samples", GAUGE, F64) \
	S(share_bps, "bit/s", \
		"capacity that one flow of ours gets beside the flows that a monitor reports", GAUGE, F64) \
	S(reserved_bps, "bit/s", "capacity reserved now", GAUGE, F64) \
	S(age_seconds, "seconds", "seconds since the estimate changed; NaN: never measured", GAUGE, F64) \
	S(samples, "samples", "transfers that the estimate was learnt from", COUNTER, U64) \
	S(running, "transfers", "transfers on the link now", GAUGE, U64) \
	S(queued, "transfers", "granted transfers that wait for the link", GAUGE, U64) \
	S(pending, "transfers", "requests without a grant", GAUGE, U64)

#define CTL_ENDED_STATS(S) \
	S(ended, "updates", "updates that were not applied, by reason", COUNTER, U64)
/* clang-format on */

#define FIELD(name, unit, help, kind, type) hd_stat_##type name;
struct ctl_gauges {
	CTL_GAUGES(FIELD)
};
struct ctl_job_stats {
	CTL_JOB_STATS(FIELD)
};
struct ctl_lease_stats {
	CTL_LEASE_STATS(FIELD)
};
struct ctl_link_stats {
	CTL_LINK_STATS(FIELD)
};
struct ctl_ended_stats {
	CTL_ENDED_STATS(FIELD)
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define STAT(name, unit, help, kind, type)                                                         \
	{#name, unit, help, HD_STAT_##kind, HD_STAT_##type, offsetof(STRUCT, name)},
#define COUNTER(name, unit, help) STAT(name, unit, help, COUNTER, U64)

#define STRUCT struct ctl_counters
static const struct hd_stat counter_stats[] = {CTL_COUNTERS(COUNTER)};
#undef STRUCT
#define STRUCT struct ctl_gauges
static const struct hd_stat gauge_stats[] = {CTL_GAUGES(STAT)};
#undef STRUCT
#define STRUCT struct ctl_job_stats
static const struct hd_stat job_stats[] = {CTL_JOB_STATS(STAT)};
#undef STRUCT
#define STRUCT struct ctl_lease_stats
static const struct hd_stat lease_stats[] = {CTL_LEASE_STATS(STAT)};
#undef STRUCT
#define STRUCT struct ctl_link_stats
static const struct hd_stat link_stats[] = {CTL_LINK_STATS(STAT)};
#undef STRUCT
#define STRUCT struct ctl_ended_stats
static const struct hd_stat ended_stats[] = {CTL_ENDED_STATS(STAT)};
#undef STRUCT

const struct hd_stat_group ctl_counter_group = {
	.name = "controller",
	.help = "actions of the controller",
	.stats = counter_stats,
	.count = COUNT(counter_stats),
};

const struct hd_stat_group ctl_gauge_group = {
	.name = "fabric",
	.help = "present state of the controller",
	.stats = gauge_stats,
	.count = COUNT(gauge_stats),
};

const struct hd_stat_group ctl_job_group = {
	.name = "job",
	.help = "jobs",
	.label = {"tenant", "job"},
	.stats = job_stats,
	.count = COUNT(job_stats),
};

const struct hd_stat_group ctl_lease_group = {
	.name = "lease",
	.help = "leases of switch slots, by job and kind: for all-reduces or for groups of pushes",
	.label = {"tenant", "job", "kind"},
	.stats = lease_stats,
	.count = COUNT(lease_stats),
};

const struct hd_stat_group ctl_link_group = {
	.name = "link",
	.help = "directed links",
	.label = {"link"},
	.stats = link_stats,
	.count = COUNT(link_stats),
};

const struct hd_stat_group ctl_ended_group = {
	.name = "updates",
	.help = "updates that were not applied, by reason",
	.label = {"reason"},
	.stats = ended_stats,
	.count = COUNT(ended_stats),
};

const struct hd_stat_group *const hd_controller_groups[] = {
	&ctl_gauge_group,
	&ctl_counter_group,
	&ctl_ended_group,
	&hd_endpoint_group,
	&ctl_job_group,
	&ctl_lease_group,
	&ctl_link_group,
	&ctl_node_group,
	NULL,
};

static void add_gauges(const struct hd_controller *c, struct hd_stats *stats) {
	struct ctl_gauges g = {
		.nodes = c->node_count,
		.jobs = c->job_count,
		.jobs_idle = ctl_jobs_idle(c),
		.pending = c->pending_count,
		.open = c->open_count,
		.epoch = c->config.epoch,
		.aggregators = c->aggregator_count,
		.switches = c->switch_count,
		.groups_now = c->group_count,
		.paused = c->paused,
		.drained_hosts = c->drained_count,
	};
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (node->role == HD_ROLE_SWITCH)
			g.slots_leased += ctl_lease_slots(c, node);
		g.workers += node->role == HD_ROLE_WORKER;
		g.servers += node->role == HD_ROLE_SERVER;
	}
	hd_stats_add(stats, &ctl_gauge_group, NULL, &g);
}

static void add_ended(const struct hd_controller *c, struct hd_stats *stats) {
	for (unsigned reason = 1; reason < HD_REASON_COUNT; reason++) {
		const char *label = hd_reason_name((enum hd_reason)reason);
		struct ctl_ended_stats e = {0};

		for (uint32_t i = 0; i < c->job_count; i++)
			e.ended += c->jobs[i]->dropped_for[reason];
		e.ended += c->ended_dropped[reason];
		hd_stats_add(stats, &ctl_ended_group, &label, &e);
	}
}

const char *ctl_job_label(const struct ctl_job *job, char id[CTL_ID_BYTES]) {
	if (job->name[0])
		return job->name;
	(void)snprintf(id, CTL_ID_BYTES, "%08" PRIx32, job->id);
	return id;
}

static void add_jobs(const struct hd_controller *c, struct hd_stats *stats) {
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		char id[CTL_ID_BYTES];
		const char *labels[] = {job->tenant_name, ctl_job_label(job, id)};
		struct ctl_job_stats s = {
			.workers = job->worker_count,
			.preempted = job->noticed,
			.roster_changes = job->roster_changes,
			.pending = job->pending,
			.open = job->open,
			.version = hd_version_counter(job->version),
			.tau_max = job->tau_max,
			.paused = job->paused || c->paused,
			.running = ctl_job_running(job),
			.granted = job->granted,
			.granted_bytes = job->granted_bytes,
			.applied = job->applied,
			.dropped = job->dropped,
			.failed = job->failed,
			.voided = job->voided,
			.ungranted = job->ungranted,
			.pulls_granted = job->pulls_granted,
			.pulls_delivered = job->pulls_delivered,
			.pulls_failed = job->pulls_failed,
			.delay_sum = job->staleness.sum,
			.delay_max = job->staleness.max,
		};

		hd_stats_add(stats, &ctl_job_group, labels, &s);
	}
}

static void add_lease(
	const struct ctl_job *job,
	enum ctl_lease_kind kind,
	struct ctl_lease_stats s,
	struct hd_stats *stats
) {
	char id[CTL_ID_BYTES];
	const char *labels[]
		= {job->tenant_name,
		   ctl_job_label(job, id),
		   kind == CTL_LEASE_REDUCE ? "reduce" : "push"};

	s.begun = job->leases_begun[kind];
	if (s.held > 0 || s.begun > 0)
		hd_stats_add(stats, &ctl_lease_group, labels, &s);
}

static void add_leases(const struct hd_controller *c, struct hd_stats *stats) {
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		struct ctl_lease_stats s = {.held = job->lease != NULL};
		uint32_t leases, slots;

		s.slots = job->lease ? job->lease->slots : 0;
		add_lease(job, CTL_LEASE_REDUCE, s, stats);
		ctl_slots_of(c, job, &leases, &slots);
		s = (struct ctl_lease_stats){.held = leases, .slots = slots};
		add_lease(job, CTL_LEASE_PUSH, s, stats);
	}
}

static void add_links(const struct hd_controller *c, struct hd_stats *stats) {
	struct ctl_link_use *use = ctl_links_use(c);

	for (uint32_t i = 0; use && i < ctl_link_count(c); i++) {
		struct hd_estimate e = hd_view_estimate(c->view, i);
		const char *label = ctl_link_name(c, i);
		struct ctl_link_stats s = {
			.estimate_bps = hd_view_share(c->view, i, c->now, 1),
			.spread_bps = e.spread_bps,
			.share_bps = hd_view_share(c->view, i, c->now, 1),
			.reserved_bps = use[i].reserved_bps,
			.age_seconds = e.samples ? (double)(c->now - e.updated) / 1e9 : NAN,
			.samples = e.samples,
			.running = use[i].running,
			.queued = use[i].queued,
			.pending = use[i].pending,
		};

		hd_stats_add(stats, &ctl_link_group, &label, &s);
	}
	free(use);
}

/* For the shell's tables of counters, ports, queues and cores; jobs and links have tables of their own. */
void ctl_stats_own(const struct hd_controller *c, struct hd_stats *stats) {
	add_gauges(c, stats);
	hd_stats_add(stats, &ctl_counter_group, NULL, &c->counters);
	add_ended(c, stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(c->endpoint));
	if (c->config.ops && c->config.ops->gather)
		c->config.ops->gather(c->config.owner, stats);
}

void hd_controller_stats(const struct hd_controller *c, struct hd_stats *stats) {
	ctl_stats_own(c, stats);
	add_jobs(c, stats);
	add_leases(c, stats);
	add_links(c, stats);
	ctl_dataplane_stats(c, stats);
	ctl_histograms(c, stats);
}

void hd_controller_scrape(struct hd_controller *c, struct hd_stats *stats) {
	ctl_dataplane_scrape(c);
	hd_controller_stats(c, stats);
}
