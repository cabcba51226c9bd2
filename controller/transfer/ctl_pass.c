/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One planning pass: plans all pending transfers over the rates that the reservations leave on each link. Transfers
 * that start within the horizon are granted, the rest stays pending, so that a later, shorter one can still go first.
 *
 *   now          now + horizon
 *     |=A==|=B=|....|==C==|==D==|      A, B start within the horizon
 *     |======A==========|=B==|=C=|     A runs long: B is queued behind it, so that the link never
 *                                      idles; C stays pending
 *
 * The horizon is two round trips, which are long when updates delay messages. An update may take the turn of another
 * tenant that has nothing pending but will ask after its transfers in flight. Such an update is granted as late as
 * possible: otherwise a tenant with few updates in flight would never ask in time to get a larger share.
 */
#include "ctl_base.h"
#include "ctl_grouping.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* --- which entries are granted now --- */

static double horizon_s(const struct hd_controller *c, const struct ctl_transfer *t) {
	const struct ctl_node *worker = ctl_worker(t->job, t->worker);
	hd_ns rtt = t->job->server ? hd_session_rtt(t->job->server->session) : 0;

	if (c->config.horizon_us)
		return c->config.horizon_us / 1e6;
	if (worker)
		rtt = hd_ns_max(rtt, hd_session_rtt(worker->session));
	/* The round trip without queues: messages to the workers in question are not delayed by updates. */
	if (worker && ctl_tenant_may_wait(c, t))
		rtt = worker->rtt_least;
	return (double)hd_ns_max(CTL_HORIZON_NS, 2 * rtt) / 1e9;
}

static void count_queued(struct hd_controller *c) {
	const struct ctl_transfer *t;

	memset(c->scratch.link_queued, 0, c->scratch.link_capacity * sizeof(uint32_t));
	TAILQ_FOREACH (t, &c->open, entry)
		if (t->reserved_count && t->reserved[0].start > c->now)
			for (uint8_t i = 0; i < t->path_count; i++)
				c->scratch.link_queued[t->path[i]]++;
}

/* Whether a link of the path has a queued successor already. */
static bool path_queued(const struct hd_controller *c, const struct hd_plan_path *path) {
	for (uint8_t i = 0; i < path->count; i++)
		if (c->scratch.link_queued[path->links[i]])
			return true;
	return false;
}

/* Whether an entry is granted now: it starts soon, or is the next one on its path. */
static bool is_due(const struct hd_controller *c, uint32_t index, double horizon) {
	const struct hd_plan_path path = ctl_entry_path(c, index);

	if (c->scratch.entries[index].start <= horizon)
		return true;
	/* An entry that is not granted may still be grouped with later requests. */
	return c->grouping.aggregator_count == 0 && !path_queued(c, &path);
}

static void queue_path(struct hd_controller *c, const struct hd_plan_path *path, double start) {
	for (uint8_t i = 0; start > 0 && i < path->count; i++)
		c->scratch.link_queued[path->links[i]]++;
}

static void choose_entry(struct hd_controller *c, uint32_t index) {
	struct ctl_scratch *s = &c->scratch;
	const struct hd_plan_item *item = &s->items[s->entries[index].item];
	const struct hd_plan_path path = ctl_entry_path(c, index);

	s->grant[index] = true;
	queue_path(c, &path, s->entries[index].start);
	if (item->direction == HD_PUSH && index > s->job_last[item->job])
		s->job_last[item->job] = index;
}

/* How long the members of a sum may still wait before they have to start: later requests can join them. An eighth of
 * the sum's time is a margin for errors of the plan. */
static double group_spare(const struct hd_plan_group *group, double horizon) {
	const double margin = (group->sum.finish - group->sum.start) / CTL_GROUP_MARGIN;

	return group->limit - group->collected - margin - horizon;
}

/* A group is granted as a whole when any part of it is due: the aggregator collects while the server's link is busy. */
static void
choose_group(struct hd_controller *c, const struct hd_plan_group *group, double horizon) {
	const uint32_t *members = &c->grouping.plan.members[group->first];
	bool due = group->direction == HD_PLAN_PULL
		&& (group->sum.start <= horizon || !path_queued(c, &group->trunk));

	for (uint32_t m = 0; group->direction == HD_PLAN_PUSH && m < group->count; m++)
		due = due || is_due(c, members[m], horizon);
	if (group->direction == HD_PLAN_PUSH && group_spare(group, horizon) > 0)
		due = false;
	if (!due || ctl_waits_for_group(c, members, group->count, &group->sum))
		return;
	queue_path(c, &group->trunk, group->sum.start);
	for (uint32_t m = 0; m < group->count; m++)
		choose_entry(c, members[m]);
}

/* Chooses the entry that a chosen one waits for. True: it was added. */
static bool choose_before(struct hd_controller *c, uint32_t index) {
	struct ctl_scratch *s = &c->scratch;
	const struct hd_plan_entry *e = &s->entries[index];
	const struct hd_plan_item *item = &s->items[e->item];
	const struct hd_plan_group *group = ctl_group_of(c, index);
	const uint32_t before = ctl_entry_before(c, e);
	bool added = false;

	if (e->dropped)
		return false;
	if (item->direction == HD_PUSH && index < s->job_last[item->job] && !s->grant[index])
		added = s->grant[index] = true;
	if (!s->grant[index])
		return added;
	if (before != HD_PLAN_NONE && before < index && !s->entries[before].dropped
	    && !s->grant[before])
		added = s->grant[before] = true;
	if (item->direction == HD_PUSH && index > s->job_last[item->job])
		s->job_last[item->job] = index;
	for (uint32_t m = 0; group && m < group->count; m++) {
		const uint32_t member = c->grouping.plan.members[group->first + m];

		added = added || !s->grant[member];
		s->grant[member] = true;
	}
	return added;
}

static void choose_grants(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	bool more = true;

	count_queued(c);
	for (uint32_t i = 0; i < c->job_count; i++)
		s->job_last[i] = 0;
	for (uint32_t i = 0; i < s->entry_count; i++)
		s->grant[i] = false;
	for (uint32_t i = 0; i < s->entry_count; i++) {
		const struct hd_plan_group *group = ctl_group_of(c, i);
		double horizon;

		if (s->entries[i].dropped || (group && !ctl_group_leads(c, i)))
			continue;
		horizon = horizon_s(c, s->item_transfer[s->entries[i].item]);
		if (group)
			choose_group(c, group, horizon);
		else if (is_due(c, i, horizon) && !ctl_waits_for_group(c, &i, 1, &s->entries[i]))
			choose_entry(c, i);
	}
	/* Positions are granted in commit order, so all earlier ones are chosen, too. Only groups need another
	 * iteration: each may choose members that were passed already. */
	while (more) {
		more = false;
		for (uint32_t i = s->entry_count; i-- > 0;)
			more = choose_before(c, i) || more;
		more = more && c->grouping.plan.group_count > 0;
	}
}

static uint32_t behind_on(
	struct hd_controller *c,
	const struct hd_plan_entry *entry,
	const struct hd_plan_path *path
) {
	struct ctl_scratch *s = &c->scratch;
	uint32_t behind = 0;
	double rate = 0;

	for (uint8_t j = 0; j < entry->segment_count; j++)
		rate = fmax(rate, entry->segment[j].rate);
	for (uint8_t j = 0; j < path->count; j++) {
		uint32_t link = path->links[j];

		if (rate >= 0.8 * s->capacity[link] && s->link_behind[link] > behind)
			behind = s->link_behind[link];
		s->link_behind[link]++;
	}
	return behind;
}

/* For each entry, and each group's sum: the number of our transfers behind it on a link that limits it. */
static void count_behind(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	memset(s->link_behind, 0, s->link_capacity * sizeof(uint32_t));
	for (uint32_t i = s->entry_count; i-- > 0;) {
		const struct hd_plan_group *group = ctl_group_of(c, i);
		const struct hd_plan_path path = ctl_entry_path(c, i);

		s->behind[i] = 0;
		if (s->entries[i].dropped)
			continue;
		s->behind[i] = behind_on(c, &s->entries[i], &path);
		if (group && ctl_group_leads(c, i))
			c->grouping.sum_behind[group - c->grouping.plan.groups]
				= behind_on(c, &group->sum, &group->trunk);
	}
}

/* --- the pass --- */

static uint64_t after_token(const struct hd_controller *c, const struct hd_plan_entry *e) {
	const struct ctl_transfer *before;

	if (c->group_count || c->grouping.plan.group_count)
		return ctl_entry_after(c, e, HD_PLAN_NONE);
	if (e->after == HD_PLAN_NONE)
		return e->after_token;
	before = c->scratch.item_transfer[c->scratch.entries[e->after].item];
	return before && ctl_transfer_is_open(before) ? before->token : 0;
}

/* Grants an entry, or the group that begins with it. 0: done; the bytes on the server's link are charged to the
 * tenant. */
static int grant(struct hd_controller *c, uint32_t index, struct hd_sink *sink) {
	const struct hd_plan_entry *e = &c->scratch.entries[index];
	const struct hd_plan_group *group = ctl_group_of(c, index);

	if (group && !ctl_group_leads(c, index))
		return -EALREADY;
	if (group)
		return ctl_group_grant(c, (uint32_t)(group - c->grouping.plan.groups), sink);
	return ctl_grant(
		c,
		c->scratch.item_transfer[e->item],
		e,
		&(struct ctl_grant_with){after_token(c, e), c->scratch.behind[index]},
		sink
	);
}

static void carry_out(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_scratch *s = &c->scratch;

	for (uint32_t i = 0; i < s->entry_count; i++) {
		const struct hd_plan_entry *e = &s->entries[i];
		struct ctl_transfer *t = s->item_transfer[e->item];

		if (e->dropped && e->why.rule == HD_PLAN_DROP_BOUND
		    && ctl_credits_make_room(c, t->job, sink))
			continue;
		if (e->dropped || ctl_too_late(c, t, e)) {
			enum hd_reason reason
				= e->dropped ? ctl_drop_reason(e) : HD_REASON_PREEMPTED;

			ctl_drop(c, t, e, reason, sink);
			s->item_transfer[e->item] = NULL;
			continue;
		}
		if (s->grant[i] && grant(c, i, sink) == 0)
			ctl_tenant_charge(c, t);
	}
}

/* Plans again when the first waiting entry comes within the horizon. */
static void
plan_next(struct hd_controller *c, const struct hd_plan_entry *entries, uint32_t count) {
	struct ctl_scratch *s = &c->scratch;
	double least = INFINITY;
	hd_ns wait = CTL_REPLAN_MAX_NS;

	for (uint32_t i = 0; i < count; i++) {
		const struct ctl_transfer *t = s->item_transfer[entries[i].item];
		const struct hd_plan_group *group = ctl_group_of(c, i);
		double at = entries[i].start;

		if (!t || t->state != CTL_PENDING)
			continue;
		if (group && group->direction == HD_PLAN_PUSH)
			at = fmax(at, group_spare(group, 0));
		if (t->group_wait_until > c->now)
			at = fmax(
				at, (double)(t->group_wait_until - c->now) / 1e9 + horizon_s(c, t)
			);
		least = fmin(least, at - horizon_s(c, t));
	}
	if (isinf(least))
		return;
	if (least < 1e-9 * (double)wait)
		wait = least > 0 ? (hd_ns)(least * 1e9) : 0;
	c->plan_at = hd_ns_min(c->plan_at, c->now + hd_ns_max(wait, ctl_interval(c)));
}

static void
record_plan(const struct hd_controller *c, uint64_t grants, uint64_t drops, double covers) {
	uint64_t granted = c->counters.grants - grants;
	uint64_t dropped = ctl_drops(c) - drops;

	/* While a long transfer runs, many passes decide nothing: they are not recorded. */
	if (!granted && !dropped)
		return;
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_PLAN,
			.count = c->scratch.entry_count,
			.granted = granted,
			.dropped = dropped,
			.finish_s = covers,
		}
	);
}

void ctl_pass(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_scratch *s = &c->scratch;
	const struct hd_plan_entry *entries = NULL;
	const char *error = NULL;
	uint64_t grants = c->counters.grants, drops = ctl_drops(c);
	uint32_t count = 0;
	double covers = 0;

	c->plan_at = HD_NEVER;
	ctl_sync_pass(c, sink);
	if (!c->pending_count)
		return;
	c->last_plan = s->planned_at = c->now;
	ctl_tenants_mark(c);
	if (ctl_pass_input(c)) {
		ctl_plan_soon(c);
		return;
	}
	if (!s->input.item_count) {
		/* There are copies that wait for an idle link, or pushes of full steps. */
		c->plan_at = c->now + CTL_REPLAN_MAX_NS;
		return;
	}
	c->counters.plans++;
	c->counters.plan_items += s->input.item_count;
	if (hd_plan_run(c->plan, &s->input, &entries, &count, &error)) {
		c->counters.plan_errors++;
		c->plan_error = error;
		c->plan_at = c->now + CTL_REPLAN_MAX_NS;
		return;
	}
	s->entries = entries;
	s->entry_count = count;
	ctl_group_pass(c);
	entries = s->entries;
	for (uint32_t i = 0; i < count; i++)
		covers = fmax(covers, entries[i].dropped ? 0 : entries[i].commit);
	s->covers_s = covers;
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_PLAN,
			.bytes = s->input.item_count,
			.value = covers,
		}
	);
	choose_grants(c);
	count_behind(c);
	carry_out(c, sink);
	record_plan(c, grants, drops, covers);
	plan_next(c, entries, count);
}
