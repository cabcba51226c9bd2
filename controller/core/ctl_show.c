/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables of the plan, the estimates, the delays, the settings and the counters. */
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_grouping.h"
#include "ctl_row.h"
#include "ctl_table.h"

#include <math.h>
#include <stdio.h>

/* --- estimates --- */

/* clang-format off */
#define ESTIMATES(F, row) \
	F(row, link, TEXT, "name of the link: FROM>TO, or local") \
	F(row, estimate_mbps, REAL, "estimated capacity for our traffic, in Mbit/s") \
	F(row, guess, BOOL, \
		"no sample of this link yet: the estimate comes from other links, or from --initial-mbps") \
	F(row, spread_mbps, REAL, "mean absolute deviation of the samples, in Mbit/s") \
	F(row, spread_percent, REAL_OR_NULL, \
		"mean absolute deviation in percent of the estimate; null: no estimate") \
	F(row, age_s, REAL_OR_NULL, "seconds since the estimate changed; null: never measured") \
	F(row, samples, COUNT, "transfers that the estimate was learnt from") \
	F(row, share_mbps, REAL, \
		"capacity that one flow of ours gets beside the flows that a monitor reports, in Mbit/s") \
	F(row, planned_mbps, REAL, "capacity that the latest plan used, in Mbit/s")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_estimates_row_shape,
	estimates_row,
	ESTIMATES,
	"estimates",
	"link estimates and their uncertainty"
);

uint64_t ctl_rows_estimates(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t link = 0; link < ctl_link_count(c) && !rows->full; link++) {
		struct hd_estimate e;

		if (!hd_row_begin(rows))
			continue;
		e = hd_view_estimate(c->view, link);
		hd_row_put(
			rows,
			&ctl_estimates_row_shape,
			&(struct estimates_row){
				.link = ctl_link_name(c, link),
				.estimate_mbps = hd_view_share(c->view, link, c->now, 1) / 1e6,
				.guess = e.samples == 0,
				.spread_mbps = e.spread_bps / 1e6,
				.spread_percent
				= e.samples ? 100 * e.spread_bps / e.capacity_bps : NAN,
				.age_s = e.samples ? ctl_ms_from(e.updated, c->now) / 1e3 : NAN,
				.samples = e.samples,
				/* Our share beside the other traffic that a monitor sees. */
				.share_mbps = hd_view_share(c->view, link, c->now, 1) / 1e6,
				/* The rate that the latest plan used. */
				.planned_mbps = hd_controller_planned_bps(c, link) / 1e6,
			}
		);
		hd_row_end(rows);
	}
	return ctl_link_count(c);
}

/* --- staleness --- */

/* clang-format off */
#define STALENESS(F, row) \
	F(row, tenant, TEXT, "tenant that owns the job") \
	F(row, job, TEXT, "name of the job") \
	F(row, workers, COUNT, "registered workers") \
	F(row, updates, COUNT, "applied updates") \
	F(row, mean, REAL_OR_NULL, "mean delay, in commits") \
	F(row, variance, REAL_OR_NULL, "variance of the delays") \
	F(row, p50, COUNT, "median delay, in commits") \
	F(row, p90, COUNT, "90th percentile of the delays") \
	F(row, p99, COUNT, "99th percentile of the delays") \
	F(row, max, COUNT, "greatest delay, in commits") \
	F(row, bound, COUNT, "configured bound on delays (tau_max)") \
	F(row, dropped_bound, COUNT, "updates that the controller dropped because of the bound") \
	F(row, dropped_late, COUNT, "updates that the server dropped at the commit because of the bound")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_staleness_row_shape,
	staleness_row,
	STALENESS,
	"staleness",
	"delays of applied updates, in commits"
);

/* The smallest delay that this share of the applied updates did not exceed. */
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
		hd_row_put(
			rows,
			&ctl_staleness_row_shape,
			&(struct staleness_row){
				.tenant = job->tenant_name,
				.job = job->name,
				.workers = job->worker_count,
				.updates = s->count,
				.mean = mean,
				.variance = s->count ?
					fmax(s->squares / (double)s->count - mean * mean, 0) :
					NAN,
				.p50 = quantile(s, 0.5),
				.p90 = quantile(s, 0.9),
				.p99 = quantile(s, 0.99),
				.max = s->max,
				.bound = job->tau_max,
				.dropped_bound = job->dropped_for[HD_REASON_BOUND],
				.dropped_late = job->dropped_for[HD_REASON_LATE],
			}
		);
		hd_row_end(rows);
	}
	return c->job_count;
}

/* --- the plan --- */

/* clang-format off */
#define PLAN(F, row) \
	F(row, order, COUNT, "place in the plan, from 1") \
	F(row, job, TEXT, "name of the job") \
	F(row, worker, COUNT, "rank of the worker") \
	F(row, direction, TEXT, "push, pull or replicate (a copy of an update, to the replica)") \
	F(row, round, COUNT, "round of this worker in this direction, from 1") \
	F##_OF(row, decision, "granted waits", "granted or waits") \
	F(row, bytes, COUNT, "payload in bytes") \
	F(row, version, COUNT, "commit counter that the update should get; 0: a pull") \
	F(row, start_ms, REAL, "planned start, in milliseconds from now") \
	F(row, finish_ms, REAL, "planned end, in milliseconds from now") \
	F(row, commit_ms, REAL_OR_NULL, "planned commit, in milliseconds from now; null: a pull") \
	F(row, rate_mbps, REAL_OR_NULL, "planned initial rate, in Mbit/s") \
	F(row, bottleneck, TEXT, "link that limits the rate") \
	F(row, after, TEXT, "WORKER/ROUND of the transfer whose end allows the start; empty: none") \
	F(row, rule, TEXT, \
		"rule that selected it: shortest, deadline, aged, tenant, drop-bound or " \
		"drop-idles; empty: not decided") \
	F(row, runner_up, TEXT, "WORKER/ROUND of the transfer that would have been selected otherwise; empty: none") \
	F(row, runner_up_finish_ms, REAL_OR_NULL, "planned end of that transfer, in milliseconds from now") \
	F(row, deadline, COUNT, "last position at which it meets tau_max, counted from the next position (1)") \
	F(row, slack, REAL, "positions to spare before the deadline") \
	F(row, why, TEXT, "reason of the decision, as a sentence") \
	F(row, group, COUNT, "number of the group in this plan, from 1; 0: without a group") \
	F(row, aggregator, TEXT, "host of the group's aggregator; empty: without a group")
/* clang-format on */

HD_ROW_SHAPE(ctl_plan_row_shape, plan_row, PLAN, "plan", "the latest plan, in its order");

static const struct ctl_transfer *entry_transfer(const struct hd_controller *c, uint32_t index) {
	return c->scratch.item_transfer[c->scratch.entries[index].item];
}

/* The request that would have been granted instead, while it exists. Items are in the order of ids. */
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

/* Its predecessor: a transfer, or the sum of a group of this plan. */
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

/* Writes the decision as a sentence. */
static void
put_why(const struct hd_controller *c,
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
		(void)snprintf(text, bytes, "its tenant has a service deficit");
		break;
	default:
		(void)snprintf(text, bytes, "%s", hd_plan_rule_name(why->rule));
	}
}

static void plan_row(
	const struct hd_controller *c,
	uint32_t index,
	const struct ctl_transfer *t,
	struct hd_rows *rows
) {
	const struct hd_plan_entry *e = &c->scratch.entries[index];
	const struct hd_plan_group *group = ctl_group_of(c, index);
	double since = ctl_ms_from(c->scratch.planned_at, c->now);
	char runner_up[48], after[48], why[256];

	name_of(e->why.runner_up ? find_item(c, e->why.runner_up) : NULL,
		runner_up,
		sizeof runner_up);
	name_after(c, e, after, sizeof after);
	if (group)
		ctl_group_why(c, group, why, sizeof why);
	else
		put_why(c, e, runner_up, why, sizeof why);
	hd_row_put(
		rows,
		&ctl_plan_row_shape,
		&(struct plan_row){
			.order = (uint64_t)index + 1,
			.job = t->job->name,
			.worker = t->worker,
			.direction = ctl_direction_name(t->direction),
			.round = t->round,
			.decision = ctl_transfer_is_open(t) ? "granted" : "waits",
			.bytes = t->bytes,
			.version = e->position,
			.start_ms = e->start * 1e3 - since,
			.finish_ms = e->finish * 1e3 - since,
			.commit_ms = e->position ? e->commit * 1e3 - since : NAN,
			.rate_mbps = e->segment_count ? e->segment[0].rate * 8 / 1e6 : NAN,
			.bottleneck = ctl_link_name(c, e->bottleneck),
			.after = after,
			.rule = hd_plan_rule_name(e->why.rule),
			.runner_up = runner_up,
			.runner_up_finish_ms = runner_up[0] ? e->why.runner_up_finish * 1e3 : NAN,
			.deadline = e->why.deadline,
			.slack = e->why.slack,
			.why = why,
			.group = group ? (uint64_t)(group - c->grouping.plan.groups) + 1 : 0,
			.aggregator = group ? c->grouping.aggregator_host[group->aggregator] : "",
		}
	);
}

/* The latest plan without transfers that have ended since and without drops (these are in `drops`). */
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

/* clang-format off */
#define SETTINGS(F, row) \
	F(row, setting, TEXT, "name of the setting") \
	F(row, value, TEXT, "present value") \
	F(row, unit, TEXT, "unit of the value") \
	F(row, least, EXACT_OR_NULL, "least value allowed") \
	F(row, most, EXACT_OR_NULL, "greatest value allowed") \
	F(row, of_a_job, BOOL, "takes a JOB before the value") \
	F(row, help, TEXT, "effect of the setting")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_settings_row_shape,
	settings_row,
	SETTINGS,
	"settings",
	"settings that `set` changes"
);

uint64_t ctl_rows_settings(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_setting *setting;
	uint64_t count = 0;

	for (; (setting = ctl_setting(count)); count++) {
		char value[64];

		if (!hd_row_begin(rows))
			continue;
		setting->read(c, value, sizeof value);
		hd_row_put(
			rows,
			&ctl_settings_row_shape,
			&(struct settings_row){
				.setting = setting->name,
				.value = value,
				.unit = setting->unit,
				.least = setting->least,
				.most = setting->most,
				.of_a_job = setting->of_a_job,
				.help = setting->help,
			}
		);
		hd_row_end(rows);
	}
	return count;
}

/* --- counters --- */

uint64_t ctl_rows_group(const struct hd_controller *c, struct hd_rows *rows) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (stats) {
		ctl_stats_own(c, stats);
		count = hd_rows_group(rows, stats);
	}
	hd_stats_destroy(stats);
	return count;
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
