/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of the plan, the estimates, the delays, the settings and the counters. */
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_grouping.h"
#include "ctl_row.h"
#include "ctl_table.h"

#include <math.h>
#include <stdio.h>

/* --- estimates --- */

uint64_t ctl_rows_estimates(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t link = 0; link < ctl_link_count(c) && !rows->full; link++) {
		struct hd_estimate e;

		if (!hd_row_begin(rows))
			continue;
		e = hd_view_estimate(c->view, link);
		hd_row_text(rows, "link", ctl_link_name(c, link));
		hd_row_real(rows, "estimate_mbps", hd_view_share(c->view, link, c->now, 1) / 1e6);
		hd_row_real(rows, "spread_mbps", e.spread_bps / 1e6);
		hd_row_real(
			rows,
			"spread_percent",
			e.samples ? 100 * e.spread_bps / e.capacity_bps : NAN
		);
		hd_row_real(rows, "age_s", e.samples ? ctl_ms_from(e.updated, c->now) / 1e3 : NAN);
		hd_row_count(rows, "samples", e.samples);
		/* Beside the others that a monitor sees. */
		hd_row_real(rows, "share_mbps", hd_view_share(c->view, link, c->now, 1) / 1e6);
		/* What the latest plan was made with. */
		hd_row_real(rows, "planned_mbps", hd_controller_planned_bps(c, link) / 1e6);
		hd_row_end(rows);
	}
	return ctl_link_count(c);
}

/* --- staleness --- */

/* The least delay that this share of the applied updates did not exceed. */
static uint32_t quantile(const struct ctl_staleness *s, double share) {
	uint64_t want = (uint64_t)ceil(share * (double)s->count), sum = 0;

	for (uint32_t i = 0; i < CTL_DELAYS; i++) {
		sum += s->delays[i];
		if (sum >= want)
			return i;
	}
	return s->max;
}

uint64_t ctl_rows_staleness(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];
		const struct ctl_staleness *s = &job->staleness;
		double mean = s->count ? s->sum / (double)s->count : NAN;

		if (!hd_row_begin(rows))
			continue;
		hd_row_text(rows, "tenant", job->tenant_name);
		hd_row_text(rows, "job", job->name);
		hd_row_count(rows, "workers", job->worker_count);
		hd_row_count(rows, "updates", s->count);
		hd_row_real(rows, "mean", mean);
		hd_row_real(
			rows,
			"variance",
			s->count ? fmax(s->squares / (double)s->count - mean * mean, 0) : NAN
		);
		hd_row_count(rows, "p50", quantile(s, 0.5));
		hd_row_count(rows, "p90", quantile(s, 0.9));
		hd_row_count(rows, "p99", quantile(s, 0.99));
		hd_row_count(rows, "max", s->max);
		hd_row_count(rows, "bound", job->tau_max);
		hd_row_count(rows, "dropped_bound", job->dropped_for[HD_REASON_BOUND]);
		hd_row_count(rows, "dropped_late", job->dropped_for[HD_REASON_LATE]);
		hd_row_end(rows);
	}
	return c->job_count;
}

/* --- the plan --- */

static const struct ctl_transfer *entry_transfer(const struct hd_controller *c, uint32_t index) {
	return c->scratch.item_transfer[c->scratch.entries[index].item];
}

/* The request that would otherwise have gone, as long as it is there. Items are in the order of ids. */
static const struct ctl_transfer *find_item(const struct hd_controller *c, uint64_t id) {
	uint32_t low = 0, high = c->scratch.input.item_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->scratch.items[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == c->scratch.input.item_count || c->scratch.items[low].id != id)
		return NULL;
	return c->scratch.item_transfer[low];
}

static void name_of(const struct ctl_transfer *t, char *text, size_t bytes) {
	text[0] = '\0';
	if (t)
		(void)snprintf(text, bytes, "w%u/%u", t->worker, t->round);
}

/* What it waits for: a transfer, or the sum of a group of this plan. */
static void
name_after(const struct hd_controller *c, const struct hd_plan_entry *e, char *text, size_t bytes) {
	const uint32_t after = e->after;

	if (after != HD_PLAN_NONE && (after & HD_PLAN_AFTER_GROUP) != 0)
		(void)snprintf(text, bytes, "group %u", (after & ~HD_PLAN_AFTER_GROUP) + 1);
	else
		name_of(after != HD_PLAN_NONE  ? entry_transfer(c, after) :
				e->after_token ? ctl_transfer_by_token(c, e->after_token) :
						 NULL,
			text,
			bytes);
}

/* The decision as a sentence. */
static void
say_why(const struct hd_controller *c,
	const struct hd_plan_entry *e,
	const char *runner_up,
	char *text,
	size_t bytes) {
	const struct hd_plan_why *why = &e->why;

	switch (why->rule) {
	case HD_PLAN_SHORTEST:
		if (runner_up[0])
			(void)snprintf(
				text,
				bytes,
				"finishes first: after %.1f ms, %s after %.1f ms",
				why->finish * 1e3,
				runner_up,
				why->runner_up_finish * 1e3
			);
		else
			(void)snprintf(text, bytes, "nothing else waited that could go before");
		break;
	case HD_PLAN_DEADLINE:
		(void)snprintf(
			text,
			bytes,
			"later, some update would miss tau_max: its own last position is %u, %.0f to spare",
			why->deadline,
			why->slack
		);
		break;
	case HD_PLAN_AGED:
		(void)snprintf(
			text,
			bytes,
			"waited longer than the ageing bound, at most %g s",
			c->config.ageing_s
		);
		break;
	case HD_PLAN_TENANT:
		(void)snprintf(text, bytes, "its tenant was owed service");
		break;
	default:
		(void)snprintf(text, bytes, "%s", hd_plan_rule_name(why->rule));
	}
}

static void
plan_times(const struct hd_controller *c, const struct hd_plan_entry *e, struct hd_rows *rows) {
	double since = ctl_ms_from(c->scratch.planned_at, c->now);

	hd_row_real(rows, "start_ms", e->start * 1e3 - since);
	hd_row_real(rows, "finish_ms", e->finish * 1e3 - since);
	hd_row_real(rows, "commit_ms", e->position ? e->commit * 1e3 - since : NAN);
	hd_row_real(rows, "rate_mbps", e->segment_count ? e->segment[0].rate * 8 / 1e6 : NAN);
	hd_row_text(rows, "bottleneck", ctl_link_name(c, e->bottleneck));
}

static void plan_row(
	const struct hd_controller *c,
	uint32_t index,
	const struct ctl_transfer *t,
	struct hd_rows *rows
) {
	const struct hd_plan_entry *e = &c->scratch.entries[index];
	const struct hd_plan_group *group = ctl_group_of(c, index);
	char runner_up[48], after[48], why[256];

	name_of(e->why.runner_up ? find_item(c, e->why.runner_up) : NULL,
		runner_up,
		sizeof runner_up);
	name_after(c, e, after, sizeof after);
	if (group)
		ctl_group_why(c, group, why, sizeof why);
	else
		say_why(c, e, runner_up, why, sizeof why);
	hd_row_count(rows, "order", (uint64_t)index + 1);
	hd_row_text(rows, "job", t->job->name);
	hd_row_count(rows, "worker", t->worker);
	hd_row_text(rows, "direction", ctl_direction_name(t->direction));
	hd_row_count(rows, "round", t->round);
	hd_row_text(rows, "decision", t->state == CTL_OPEN ? "granted" : "waits");
	hd_row_count(rows, "bytes", t->bytes);
	hd_row_count(rows, "version", e->position);
	plan_times(c, e, rows);
	hd_row_text(rows, "after", after);
	hd_row_text(rows, "rule", hd_plan_rule_name(e->why.rule));
	hd_row_text(rows, "runner_up", runner_up);
	hd_row_real(
		rows, "runner_up_finish_ms", runner_up[0] ? e->why.runner_up_finish * 1e3 : NAN
	);
	hd_row_count(rows, "deadline", e->why.deadline);
	hd_row_real(rows, "slack", e->why.slack);
	hd_row_text(rows, "why", why);
	hd_row_count(rows, "group", group ? (uint64_t)(group - c->grouping.plan.groups) + 1 : 0);
	hd_row_text(
		rows, "aggregator", group ? c->grouping.aggregator_host[group->aggregator] : ""
	);
}

/* What the latest round planned, less what has ended since and what it dropped (that is in `drops`). */
uint64_t ctl_rows_plan(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t i = 0; i < c->scratch.entry_count && !rows->full; i++) {
		const struct ctl_transfer *t = entry_transfer(c, i);

		if (!hd_row_begin(rows))
			continue;
		if (!t || c->scratch.entries[i].dropped) {
			hd_row_skip(rows);
			continue;
		}
		plan_row(c, i, t, rows);
		hd_row_end(rows);
	}
	return c->scratch.entry_count;
}

/* --- settings --- */

uint64_t ctl_rows_settings(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_setting *setting;
	uint64_t count = 0;

	for (; (setting = ctl_setting(count)); count++) {
		char value[64];

		if (!hd_row_begin(rows))
			continue;
		setting->read(c, value, sizeof value);
		hd_row_text(rows, "setting", setting->name);
		hd_row_text(rows, "value", value);
		hd_row_text(rows, "unit", setting->unit);
		hd_row_exact(rows, "least", setting->least);
		hd_row_exact(rows, "most", setting->most);
		hd_row_bool(rows, "of_a_job", setting->of_a_job);
		hd_row_text(rows, "help", setting->help);
		hd_row_end(rows);
	}
	return count;
}

/* --- what is counted --- */

static uint64_t
group_rows(const struct hd_controller *c, const struct hd_stat_group *group, struct hd_rows *rows) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (stats) {
		ctl_stats_own(c, stats);
		count = hd_rows_group(rows, stats, group);
	}
	hd_stats_destroy(stats);
	return count;
}

uint64_t ctl_rows_ports(const struct hd_controller *c, struct hd_rows *rows) {
	return group_rows(c, &hd_port_group, rows);
}

uint64_t ctl_rows_queues(const struct hd_controller *c, struct hd_rows *rows) {
	return group_rows(c, &hd_queue_group, rows);
}

uint64_t ctl_rows_cores(const struct hd_controller *c, struct hd_rows *rows) {
	return group_rows(c, &hd_core_group, rows);
}

uint64_t ctl_rows_counters(const struct hd_controller *c, struct hd_rows *rows) {
	static const struct hd_stat_group *const own[]
		= {&ctl_counter_group, &ctl_gauge_group, NULL};
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (stats) {
		ctl_stats_own(c, stats);
		count = hd_rows_counters(rows, stats, own, &ctl_ended_group);
	}
	hd_stats_destroy(stats);
	return count;
}
