/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One planning round: everything pending is planned over what the books leave of each link; what
 * starts within the horizon is granted, the rest stays pending, so that a shorter newcomer can still
 * go first.
 *
 *   now          now + horizon
 *    |=A==|=B=|....|==C==|==D==|      A, B start within the horizon
 *    |======A==========|=B==|=C=|     A runs long: B is queued behind it, so that the link never
 *                                     idles; C stays pending
 *
 * The horizon is two round trips, which are long where updates stand in the way of words. An update that would take the
 * turn of another tenant, which will have one to send when what it has under way is through, is granted as late as can
 * be: else who has few updates under way would never be there in time to get a share that is the greater one.
 */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AGEING_PLANS 8
#define AGEING_LEAST_S 0.1

/* --- scratch memory --- */

static int grow(void **array, uint32_t count, size_t size) {
	void *grown = realloc(*array, count * size);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	return 0;
}

int ctl_scratch_links(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	uint32_t count = ctl_link_count(c), old = s->link_capacity;

	if (count <= old)
		return 0;
	if (grow((void **)&s->link_busy, count, sizeof(*s->link_busy))
	    || grow((void **)&s->link_queued, count, sizeof(*s->link_queued))
	    || grow((void **)&s->link_behind, count, sizeof(*s->link_behind))
	    || grow((void **)&s->capacity, count, sizeof(*s->capacity))
	    || grow((void **)&s->flow, count, sizeof(*s->flow))
	    || grow((void **)&s->link_gathers, count, sizeof(*s->link_gathers))
	    || grow((void **)&s->link_probe, count, sizeof(*s->link_probe))
	    || grow((void **)&c->link_use, count, sizeof(*c->link_use))
	    || grow((void **)&c->link_copies, count, sizeof(*c->link_copies)))
		return -ENOMEM;
	for (uint32_t i = old; i < count; i++) {
		s->link_busy[i] = HD_PLAN_NONE;
		s->capacity[i] = 0;
		c->link_use[i] = 0;
		c->link_copies[i] = 0;
		s->link_probe[i] = (struct ctl_link_probe){.partner = -1};
	}
	s->link_capacity = count;
	return 0;
}

static int scratch_items(struct ctl_scratch *s, uint32_t count) {
	uint32_t capacity = count < 64 ? 64 : count * 2;

	if (count <= s->item_capacity)
		return 0;
	if (grow((void **)&s->items, capacity, sizeof(*s->items))
	    || grow((void **)&s->item_transfer, capacity, sizeof(struct ctl_transfer *))
	    || grow((void **)&s->grant, capacity, sizeof(*s->grant))
	    || grow((void **)&s->behind, capacity, sizeof(*s->behind)))
		return -ENOMEM;
	s->item_capacity = capacity;
	return 0;
}

void ctl_scratch_fini(struct ctl_scratch *s) {
	free(s->items);
	free(s->item_transfer);
	free(s->grant);
	free(s->behind);
	free(s->busy);
	free(s->busy_next);
	free(s->link_busy);
	free(s->link_queued);
	free(s->link_behind);
	free(s->link_probe);
	free(s->capacity);
	free(s->flow);
	free(s->link_gathers);
}

/* --- input --- */

/* Two in a row, or more than the agreed share of a worker's pushes, are never dropped by theta. */
static bool guarded(const struct hd_controller *c, const struct ctl_node *node) {
	uint64_t after = (node->pushes_idles + 1) * 1000;

	if (node->last_was_idles)
		return true;
	return after > (node->pushes_decided + 1) * c->config.drop_permille_max;
}

static void input_item(struct hd_controller *c, struct ctl_transfer *t, uint32_t index) {
	struct hd_plan_item *item = &c->scratch.items[index];
	const struct ctl_node *node = ctl_worker(t->job, t->worker);

	*item = (struct hd_plan_item){
		.id = t->id,
		.job = ctl_job_index(c, t->job),
		.direction = t->direction == HD_PUSH ? HD_PLAN_PUSH : HD_PLAN_PULL,
		/* A base of the future is nonsense; it is no older than what is. */
		.version = hd_version_counter(t->base) < ctl_job_v_init(t->job) ?
			hd_version_counter(t->base) :
			ctl_job_v_init(t->job),
		.amount = (double)t->bytes,
		.waited = ctl_waited(c, t),
		.keep = !node || guarded(c, node),
		.kind = t->dtype,
		.room = t->dtype == HD_DTYPE_SPARSE32 ? ctl_group_room(t->job) : 0,
		.apart = t->job->apart,
		.path_count = t->path_count,
	};
	memcpy(item->path, t->path, t->path_count * sizeof(t->path[0]));
	c->scratch.item_transfer[index] = t;
	t->item = index;
	t->item_round = c->scratch.round;
}

static void input_jobs(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	for (uint32_t i = 0; i < c->tenant_count; i++)
		s->tenants[i] = (struct hd_plan_tenant){
			.weight = c->tenants[i]->weight > 0 ? c->tenants[i]->weight : 1,
			.deficit = c->tenants[i]->deficit,
		};
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		uint32_t tenant = 0;

		while (tenant + 1 < c->tenant_count && c->tenants[tenant] != job->tenant)
			tenant++;
		s->jobs[i] = (struct hd_plan_job){
			.tenant = tenant,
			.v_init = ctl_job_v_init(job),
			.tau_max = ctl_job_tau(job),
			.theta = c->config.theta > 0 ? c->config.theta : INFINITY,
		};
	}
}

/* When what is granted already will have been committed, from the books. */
static void input_server_free(struct hd_controller *c) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, &c->open, entry) {
		struct hd_plan_job *job = &c->scratch.jobs[ctl_job_index(c, t->job)];
		hd_ns end = t->book_count ? t->book[t->book_count - 1].end : 0;

		if (t->direction == HD_PUSH && end > c->now)
			job->server_free = fmax(job->server_free, (double)(end - c->now) / 1e9);
	}
}

/* Whoever waits so many times longer than all that is pending takes is overtaken again and again: by what asks later,
 * and is shorter as far as is known. A link that was thought too slow once would not be tried again. */
static double ageing_s(const struct hd_controller *c) {
	if (isinf(c->config.ageing_s))
		return c->config.ageing_s;
	return fmin(c->config.ageing_s, fmax(AGEING_PLANS * c->scratch.covers_s, AGEING_LEAST_S));
}

static int build_input(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	struct ctl_transfer *t;
	uint32_t count = 0;
	int status = scratch_items(s, c->pending_count);

	s->entry_count = 0;
	s->round++;
	if (!status)
		status = ctl_book_project(c);
	if (status)
		return status;
	input_jobs(c);
	input_server_free(c);
	TAILQ_FOREACH (t, &c->pending, entry)
		if (!ctl_waits_for(c, t)[0] && ctl_transfer_route(c, t) && ctl_copy_may_go(c, t)
		    && ctl_sync_takes(c, t))
			input_item(c, t, count++);
	s->input = (struct hd_plan_input){
		.link_count = s->link_capacity,
		.capacity = s->capacity,
		.busy_count = s->busy_count,
		.busy = s->busy,
		.tenant_count = c->tenant_count,
		.tenants = s->tenants,
		.job_count = c->job_count,
		.jobs = s->jobs,
		.item_count = count,
		.items = s->items,
		.ageing_s = ageing_s(c),
		.share_min = CTL_SHARE_MIN,
	};
	return 0;
}

/* --- what of the plan is granted now --- */

static double horizon_s(const struct hd_controller *c, const struct ctl_transfer *t) {
	const struct ctl_node *worker = ctl_worker(t->job, t->worker);
	hd_ns rtt = t->job->server ? hd_session_rtt(t->job->server->session) : 0;

	if (c->config.horizon_us)
		return c->config.horizon_us / 1e6;
	if (worker)
		rtt = hd_ns_max(rtt, hd_session_rtt(worker->session));
	/* No sooner than words take that stand behind nothing: those that it is to be granted by do not. */
	if (worker && ctl_tenant_may_wait(c, t))
		rtt = worker->rtt_least;
	return (double)hd_ns_max(CTL_HORIZON_NS, 2 * rtt) / 1e9;
}

static void count_queued(struct hd_controller *c) {
	const struct ctl_transfer *t;

	memset(c->scratch.link_queued, 0, c->scratch.link_capacity * sizeof(uint32_t));
	TAILQ_FOREACH (t, &c->open, entry)
		if (t->book_count && t->book[0].start > c->now)
			for (uint8_t i = 0; i < t->path_count; i++)
				c->scratch.link_queued[t->path[i]]++;
}

/* Whether any link of the way has a successor in its queue already. */
static bool way_queued(const struct hd_controller *c, const struct hd_plan_way *way) {
	for (uint8_t i = 0; i < way->count; i++)
		if (c->scratch.link_queued[way->links[i]])
			return true;
	return false;
}

/* Whether an entry is granted now: it starts soon, or is the next on its way. */
static bool is_due(const struct hd_controller *c, uint32_t index, double horizon) {
	const struct hd_plan_way way = ctl_entry_way(c, index);

	if (c->scratch.entries[index].start <= horizon)
		return true;
	/* What is not granted may still be grouped with what comes. */
	return c->grouping.aggregator_count == 0 && !way_queued(c, &way);
}

static void queue_way(struct hd_controller *c, const struct hd_plan_way *way, double start) {
	for (uint8_t i = 0; start > 0 && i < way->count; i++)
		c->scratch.link_queued[way->links[i]]++;
}

static void choose_entry(struct hd_controller *c, uint32_t index) {
	struct ctl_scratch *s = &c->scratch;
	const struct hd_plan_item *item = &s->items[s->entries[index].item];
	const struct hd_plan_way way = ctl_entry_way(c, index);

	s->grant[index] = true;
	queue_way(c, &way, s->entries[index].start);
	if (item->direction == HD_PUSH && index > s->job_last[item->job])
		s->job_last[item->job] = index;
}

/* How long a sum's members may still wait before they have to be on their way: others that ask meanwhile go with them.
 * An eighth of a transfer is kept for what the plan does not know. */
static double group_spare(const struct hd_plan_group *group, double horizon) {
	const double margin = (group->sum.finish - group->sum.start) / CTL_GROUP_MARGIN;

	return group->limit - group->collected - margin - horizon;
}

/* A group is granted whole, when any of it is due: its members collect while the server's link is busy. */
static void
choose_group(struct hd_controller *c, const struct hd_plan_group *group, double horizon) {
	const uint32_t *members = &c->grouping.plan.members[group->first];
	bool due = group->direction == HD_PLAN_PULL
		&& (group->sum.start <= horizon || !way_queued(c, &group->trunk));

	for (uint32_t m = 0; group->direction == HD_PLAN_PUSH && m < group->count; m++)
		due = due || is_due(c, members[m], horizon);
	if (group->direction == HD_PLAN_PUSH && group_spare(group, horizon) > 0)
		due = false;
	if (!due || ctl_waits_for_company(c, members, group->count, &group->sum))
		return;
	queue_way(c, &group->trunk, group->sum.start);
	for (uint32_t m = 0; m < group->count; m++)
		choose_entry(c, members[m]);
}

/* What a granted entry needs before it. True: something was added. */
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
		else if (is_due(c, i, horizon) && !ctl_waits_for_company(c, &i, 1, &s->entries[i]))
			choose_entry(c, i);
	}
	/* Positions are given in the order of commits: what stands before goes with it. Only groups make a second
	 * look necessary: each takes along members that were passed already. */
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
	const struct hd_plan_way *way
) {
	struct ctl_scratch *s = &c->scratch;
	uint32_t behind = 0;
	double rate = 0;

	for (uint8_t j = 0; j < entry->segment_count; j++)
		rate = fmax(rate, entry->segment[j].rate);
	for (uint8_t j = 0; j < way->count; j++) {
		uint32_t link = way->links[j];

		if (rate >= 0.8 * s->capacity[link] && s->link_behind[link] > behind)
			behind = s->link_behind[link];
		s->link_behind[link]++;
	}
	return behind;
}

/* For each entry, and each group's sum: how many transfers of ours stand behind it on a link that limits it. */
static void count_behind(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	memset(s->link_behind, 0, s->link_capacity * sizeof(uint32_t));
	for (uint32_t i = s->entry_count; i-- > 0;) {
		const struct hd_plan_group *group = ctl_group_of(c, i);
		const struct hd_plan_way way = ctl_entry_way(c, i);

		s->behind[i] = 0;
		if (s->entries[i].dropped)
			continue;
		s->behind[i] = behind_on(c, &s->entries[i], &way);
		if (group && ctl_group_leads(c, i))
			c->grouping.sum_behind[group - c->grouping.plan.groups]
				= behind_on(c, &group->sum, &group->trunk);
	}
}

/* --- the round --- */

static uint64_t after_token(const struct hd_controller *c, const struct hd_plan_entry *e) {
	const struct ctl_transfer *before;

	if (c->group_count || c->grouping.plan.group_count)
		return ctl_entry_after(c, e, HD_PLAN_NONE);
	if (e->after == HD_PLAN_NONE)
		return e->after_token;
	before = c->scratch.item_transfer[c->scratch.entries[e->after].item];
	return before && before->state == CTL_OPEN ? before->token : 0;
}

/* Grants an entry, or the group that begins with it. 0: done; what the server's link carries is to be paid. */
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

/* When the first entry that waits comes within the horizon. */
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
		if (t->company_until > c->now)
			at = fmax(at, (double)(t->company_until - c->now) / 1e9 + horizon_s(c, t));
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

	/* While a long transfer runs, round after round decides nothing. */
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

void ctl_round(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_scratch *s = &c->scratch;
	const struct hd_plan_entry *entries = NULL;
	const char *error = NULL;
	uint64_t grants = c->counters.grants, drops = ctl_drops(c);
	uint32_t count = 0;
	double covers = 0;

	c->plan_at = HD_NEVER;
	ctl_sync_round(c, sink);
	if (!c->pending_count)
		return;
	c->last_plan = s->planned_at = c->now;
	ctl_tenants_mark(c);
	if (build_input(c)) {
		ctl_plan_soon(c);
		return;
	}
	if (!s->input.item_count) {
		/* Copies that wait for an idle link, steps that are full. */
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
	ctl_group_round(c);
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
