/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of the plan, the estimates, the delays, the settings and the counters. */
#include "hd_controller_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- estimates --- */

uint64_t ctl_rows_estimates(const struct hd_controller *c, struct ctl_rows *rows) {
	for (uint32_t link = 0; link < ctl_link_count(c) && !rows->full; link++) {
		struct hd_estimate e;

		if (!ctl_row_begin(rows))
			continue;
		e = hd_view_estimate(c->view, link);
		ctl_row_text(rows, "link", ctl_link_name(c, link));
		ctl_row_real(rows, "estimate_mbps", hd_view_share(c->view, link, c->now, 1) / 1e6);
		ctl_row_real(rows, "spread_mbps", e.spread_bps / 1e6);
		ctl_row_real(
			rows,
			"spread_percent",
			e.samples ? 100 * e.spread_bps / e.capacity_bps : NAN
		);
		ctl_row_real(rows, "age_s", e.samples ? ctl_ms_from(e.updated, c->now) / 1e3 : NAN);
		ctl_row_count(rows, "samples", e.samples);
		/* What the latest plan was made with. */
		ctl_row_real(rows, "planned_mbps", hd_controller_planned_bps(c, link) / 1e6);
		ctl_row_end(rows);
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

uint64_t ctl_rows_staleness(const struct hd_controller *c, struct ctl_rows *rows) {
	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];
		const struct ctl_staleness *s = &job->staleness;
		double mean = s->count ? s->sum / (double)s->count : NAN;

		if (!ctl_row_begin(rows))
			continue;
		ctl_row_text(rows, "tenant", job->tenant_name);
		ctl_row_text(rows, "job", job->name);
		ctl_row_count(rows, "workers", job->worker_count);
		ctl_row_count(rows, "updates", s->count);
		ctl_row_real(rows, "mean", mean);
		ctl_row_real(
			rows,
			"variance",
			s->count ? fmax(s->squares / (double)s->count - mean * mean, 0) : NAN
		);
		ctl_row_count(rows, "p50", quantile(s, 0.5));
		ctl_row_count(rows, "p90", quantile(s, 0.9));
		ctl_row_count(rows, "p99", quantile(s, 0.99));
		ctl_row_count(rows, "max", s->max);
		ctl_row_count(rows, "bound", job->tau_max);
		ctl_row_count(rows, "dropped_bound", job->dropped_for[HD_REASON_BOUND]);
		ctl_row_count(rows, "dropped_late", job->dropped_for[HD_REASON_LATE]);
		ctl_row_end(rows);
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
			"waited longer than the ageing bound of %g s",
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
plan_times(const struct hd_controller *c, const struct hd_plan_entry *e, struct ctl_rows *rows) {
	double since = ctl_ms_from(c->scratch.planned_at, c->now);

	ctl_row_real(rows, "start_ms", e->start * 1e3 - since);
	ctl_row_real(rows, "finish_ms", e->finish * 1e3 - since);
	ctl_row_real(rows, "commit_ms", e->position ? e->commit * 1e3 - since : NAN);
	ctl_row_real(rows, "rate_mbps", e->segment_count ? e->segment[0].rate * 8 / 1e6 : NAN);
	ctl_row_text(rows, "bottleneck", ctl_link_name(c, e->bottleneck));
}

static void plan_row(
	const struct hd_controller *c,
	uint32_t index,
	const struct ctl_transfer *t,
	struct ctl_rows *rows
) {
	const struct hd_plan_entry *e = &c->scratch.entries[index];
	char runner_up[48], after[48], why[200];

	name_of(e->why.runner_up ? find_item(c, e->why.runner_up) : NULL,
		runner_up,
		sizeof(runner_up));
	name_of(e->after != HD_PLAN_NONE ? entry_transfer(c, e->after) :
			e->after_token   ? ctl_transfer_by_token(c, e->after_token) :
					   NULL,
		after,
		sizeof(after));
	say_why(c, e, runner_up, why, sizeof(why));
	ctl_row_count(rows, "order", (uint64_t)index + 1);
	ctl_row_text(rows, "job", t->job->name);
	ctl_row_count(rows, "worker", t->worker);
	ctl_row_text(rows, "direction", t->direction == HD_PUSH ? "push" : "pull");
	ctl_row_count(rows, "round", t->round);
	ctl_row_text(rows, "decision", t->state == CTL_OPEN ? "granted" : "waits");
	ctl_row_count(rows, "bytes", t->bytes);
	ctl_row_count(rows, "version", e->position);
	plan_times(c, e, rows);
	ctl_row_text(rows, "after", after);
	ctl_row_text(rows, "rule", hd_plan_rule_name(e->why.rule));
	ctl_row_text(rows, "runner_up", runner_up);
	ctl_row_real(
		rows, "runner_up_finish_ms", runner_up[0] ? e->why.runner_up_finish * 1e3 : NAN
	);
	ctl_row_count(rows, "deadline", e->why.deadline);
	ctl_row_real(rows, "slack", e->why.slack);
	ctl_row_text(rows, "why", why);
}

/* What the latest round planned, less what has ended since and what it dropped (that is in `drops`). */
uint64_t ctl_rows_plan(const struct hd_controller *c, struct ctl_rows *rows) {
	for (uint32_t i = 0; i < c->scratch.entry_count && !rows->full; i++) {
		const struct ctl_transfer *t = entry_transfer(c, i);

		if (!ctl_row_begin(rows))
			continue;
		if (!t || c->scratch.entries[i].dropped) {
			ctl_row_skip(rows);
			continue;
		}
		plan_row(c, i, t, rows);
		ctl_row_end(rows);
	}
	return c->scratch.entry_count;
}

/* --- settings --- */

uint64_t ctl_rows_settings(const struct hd_controller *c, struct ctl_rows *rows) {
	const struct ctl_setting *setting;
	uint64_t count = 0;

	for (; (setting = ctl_setting(count)) != NULL; count++) {
		char value[64];

		if (!ctl_row_begin(rows))
			continue;
		setting->read(c, value, sizeof(value));
		ctl_row_text(rows, "setting", setting->name);
		ctl_row_text(rows, "value", value);
		ctl_row_text(rows, "unit", setting->unit);
		ctl_row_exact(rows, "least", setting->least);
		ctl_row_exact(rows, "most", setting->most);
		ctl_row_bool(rows, "of_a_job", setting->of_a_job);
		ctl_row_text(rows, "help", setting->help);
		ctl_row_end(rows);
	}
	return count;
}

/* --- what is counted --- */

static void put_value(
	struct ctl_rows *rows,
	const char *key,
	const struct hd_stat *stat,
	union hd_stat_value v
) {
	if (stat->type == HD_STAT_F64)
		ctl_row_real(rows, key, v.f64);
	else
		ctl_row_count(rows, key, v.u64);
}

/* One row for each of the group's. */
static uint64_t group_rows(
	const struct hd_controller *c,
	const struct hd_stat_group *group,
	struct ctl_rows *rows
) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (!stats)
		return 0;
	ctl_stats_own(c, stats);
	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (row.group != group)
			continue;
		count++;
		if (!ctl_row_begin(rows))
			continue;
		for (int j = 0; j < HD_STAT_LABELS_MAX && group->label[j]; j++)
			ctl_row_text(rows, group->label[j], row.label[j]);
		for (uint16_t j = 0; j < group->count; j++)
			put_value(rows, group->stats[j].name, &group->stats[j], row.value[j]);
		ctl_row_end(rows);
	}
	hd_stats_destroy(stats);
	return count;
}

uint64_t ctl_rows_ports(const struct hd_controller *c, struct ctl_rows *rows) {
	return group_rows(c, &hd_port_group, rows);
}

uint64_t ctl_rows_queues(const struct hd_controller *c, struct ctl_rows *rows) {
	return group_rows(c, &hd_queue_group, rows);
}

uint64_t ctl_rows_cores(const struct hd_controller *c, struct ctl_rows *rows) {
	return group_rows(c, &hd_core_group, rows);
}

/* The controller's own counters stand under their plain names, the others' under group_name. */
static void counter_row(const struct hd_stats_row *row, uint16_t index, struct ctl_rows *rows) {
	const struct hd_stat *stat = &row->group->stats[index];
	bool own = row->group == &ctl_counter_group || row->group == &ctl_gauge_group;
	char name[96];

	if (!ctl_row_begin(rows))
		return;
	if (row->group->label[0])
		(void)snprintf(name, sizeof(name), "%s_%s", stat->name, row->label[0]);
	else
		(void)snprintf(
			name,
			sizeof(name),
			"%s%s%s",
			own ? "" : row->group->name,
			own ? "" : "_",
			stat->name
		);
	ctl_row_text(rows, "counter", name);
	put_value(rows, "value", stat, row->value[index]);
	ctl_row_text(rows, "unit", stat->unit);
	ctl_row_text(rows, "kind", stat->kind == HD_STAT_COUNTER ? "counter" : "gauge");
	ctl_row_text(rows, "help", stat->help);
	ctl_row_end(rows);
}

uint64_t ctl_rows_counters(const struct hd_controller *c, struct ctl_rows *rows) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (!stats)
		return 0;
	ctl_stats_own(c, stats);
	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (row.group->label[0] && row.group != &ctl_ended_group)
			continue;
		for (uint16_t j = 0; j < row.group->count; j++, count++)
			counter_row(&row, j, rows);
	}
	hd_stats_destroy(stats);
	return count;
}
