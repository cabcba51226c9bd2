/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reservation table: the part of each link that grants have reserved from now on.
 *
 * A grant's segments are a plan; transfers may be faster or slower. Before each pass the reservations are updated in
 * the order of the grants:
 *
 *   on time         keeps its segments
 *   predecessor     |==A==|          A ended early: B has been sent GO, and its reservation begins at once
 *   moved                 |==B==|    A runs late: B moves behind A's new end
 *   overrun         |==A==|~~|       keeps its place, extended by its present delay (at
 *                                    least 1/16 of its planned duration, at most all of it)
 *   does not fit    its remaining bytes move, at one even rate, to the first place where they fit
 *                   below the estimate: the estimate fell, or another reservation moved
 *
 * So the sum of the reservations on a link never exceeds the estimate that the pass plans with.
 */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_transfers.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXTEND_MIN_NS (200 * HD_US)
#define FIT_TOLERANCE (1 + 1e-6)

static double seconds(hd_ns span) {
	return (double)span / 1e9;
}

/* --- spans placed so far in this update, chained by link --- */

static double placed_at(const struct hd_controller *c, uint32_t link, double at) {
	const struct ctl_scratch *s = &c->scratch;
	double sum = 0;

	for (uint32_t i = s->link_busy[link]; i != HD_PLAN_NONE; i = s->busy_next[i])
		if (s->busy[i].start <= at && at < s->busy[i].end)
			sum += s->busy[i].rate;
	return sum;
}

static bool link_fits(const struct hd_controller *c, uint32_t link, struct hd_plan_busy want) {
	const struct ctl_scratch *s = &c->scratch;
	double room = s->capacity[link] * FIT_TOLERANCE - want.rate;

	/* The sum only rises where a span starts. */
	if (placed_at(c, link, want.start) > room)
		return false;
	for (uint32_t i = s->link_busy[link]; i != HD_PLAN_NONE; i = s->busy_next[i]) {
		double at = s->busy[i].start;

		if (at > want.start && at < want.end && placed_at(c, link, at) > room)
			return false;
	}
	return true;
}

static bool
path_fits(const struct hd_controller *c, const struct ctl_transfer *t, struct hd_plan_busy want) {
	for (uint8_t i = 0; i < t->path_count; i++)
		if (!link_fits(c, t->path[i], want))
			return false;
	return true;
}

static struct hd_plan_busy relative(const struct hd_controller *c, const struct ctl_span *span) {
	hd_ns start = hd_ns_max(span->start, c->now);

	return (struct hd_plan_busy){
		.start = seconds(start - c->now),
		.end = span->end > c->now ? seconds(span->end - c->now) : 0,
		.rate = span->rate,
	};
}

static bool reserved_fits(const struct hd_controller *c, const struct ctl_transfer *t) {
	for (uint8_t i = 0; i < t->reserved_count; i++)
		if (t->reserved[i].end > c->now && !path_fits(c, t, relative(c, &t->reserved[i])))
			return false;
	return true;
}

static int place(struct hd_controller *c, const struct ctl_transfer *t) {
	struct ctl_scratch *s = &c->scratch;
	uint32_t need = s->busy_count + (uint32_t)t->reserved_count * t->path_count;

	if (need > s->busy_capacity) {
		uint32_t capacity = need < 256 ? 256 : need * 2;
		struct hd_plan_busy *busy = realloc(s->busy, capacity * sizeof *busy);
		uint32_t *next;

		if (!busy)
			return -ENOMEM;
		s->busy = busy;
		next = realloc(s->busy_next, capacity * sizeof *next);
		if (!next)
			return -ENOMEM;
		s->busy_next = next;
		s->busy_capacity = capacity;
	}
	for (uint8_t i = 0; i < t->reserved_count; i++) {
		struct hd_plan_busy busy = relative(c, &t->reserved[i]);

		busy.token = t->token;
		for (uint8_t j = 0; busy.end > busy.start && j < t->path_count; j++) {
			busy.link = t->path[j];
			s->busy[s->busy_count] = busy;
			s->busy_next[s->busy_count] = s->link_busy[busy.link];
			s->link_busy[busy.link] = s->busy_count++;
		}
	}
	return 0;
}

/* --- one transfer --- */

static hd_ns reserved_end(const struct ctl_transfer *t) {
	return t->reserved_count ? t->reserved[t->reserved_count - 1].end : 0;
}

static void reserved_shift(struct ctl_transfer *t, hd_ns start) {
	hd_ns from = t->reserved[0].start;

	for (uint8_t i = 0; i < t->reserved_count; i++) {
		t->reserved[i].start = t->reserved[i].start - from + start;
		t->reserved[i].end = t->reserved[i].end - from + start;
	}
}

void ctl_reserve_nothing(struct ctl_transfer *t, hd_ns start, hd_ns finish) {
	t->reserved_count = 0;
	t->start = start;
	t->finish = finish;
}

void ctl_reserve_restored(struct hd_controller *c, struct ctl_transfer *t, uint64_t left) {
	double rate = ctl_estimate_bytes(c, t->path_count ? t->path[0] : CTL_LINK_LOCAL);

	for (uint8_t i = 1; i < t->path_count; i++)
		if (ctl_estimate_bytes(c, t->path[i]) < rate)
			rate = ctl_estimate_bytes(c, t->path[i]);
	t->start = c->now;
	t->finish = c->now + (hd_ns)((double)left / rate * 1e9);
	t->reserved_count = left > 0;
	t->reserved[0] = (struct ctl_span){t->start, t->finish, rate};
	if (left == 0)
		ctl_transfer_enter(t, CTL_HELD);
}

/* A switch does not collect its members' updates. The members' own links keep their planned reservations. */
void ctl_reserve_slots(struct ctl_group *group) {
	const struct ctl_transfer *sum = group->sum;

	for (uint32_t m = 0; m < group->count; m++) {
		struct ctl_transfer *t = group->members[m];

		t->after = sum->after;
		if (sum->segments.count > 0 && sum->start > t->start)
			t->segments = sum->segments;
	}
}

void ctl_reserve_from(struct ctl_transfer *t, hd_ns at) {
	if (t->reserved_count > 0 && t->reserved[0].start < at)
		reserved_shift(t, at);
}

/* A transfer that has not begun follows the one that it waits for. */
static void follow(struct hd_controller *c, struct ctl_transfer *t) {
	const struct ctl_transfer *before = t->after ? ctl_transfer_by_token(c, t->after) : NULL;
	hd_ns start;

	if (before && before->reserved_count)
		start = hd_ns_max(reserved_end(before), c->now);
	else if (t->after)
		start = c->now; /* it ended, or was given up: GO, or the fallback, starts this */
	else
		start = hd_ns_max(
			t->start, c->now
		); /* was moved back before: it may fit earlier now */
	if (start != t->reserved[0].start)
		reserved_shift(t, start);
}

static void extend(struct hd_controller *c, struct ctl_transfer *t) {
	hd_ns planned = hd_ns_max(t->finish - t->start, EXTEND_MIN_NS);
	double rate = t->reserved[t->reserved_count - 1].rate;
	hd_ns late, more;

	if (!t->overrun_since) {
		t->overrun_since = reserved_end(t);
		c->counters.overruns++;
	}
	late = c->now - t->overrun_since;
	more = hd_ns_max(hd_ns_max(late, planned / 16), EXTEND_MIN_NS);
	t->reserved_count = 1;
	t->reserved[0] = (struct ctl_span){c->now, c->now + hd_ns_min(more, planned), rate};
}

/* The first end of a span on the path after `at`: the rate may fit there. */
static double next_end(const struct hd_controller *c, const struct ctl_transfer *t, double at) {
	const struct ctl_scratch *s = &c->scratch;
	double best = INFINITY;

	for (uint8_t i = 0; i < t->path_count; i++)
		for (uint32_t j = s->link_busy[t->path[i]]; j != HD_PLAN_NONE; j = s->busy_next[j])
			if (s->busy[j].end > at)
				best = fmin(best, s->busy[j].end);
	return isinf(best) ? at : best;
}

static double last_end(const struct hd_controller *c, const struct ctl_transfer *t, double at) {
	const struct ctl_scratch *s = &c->scratch;

	for (uint8_t i = 0; i < t->path_count; i++)
		for (uint32_t j = s->link_busy[t->path[i]]; j != HD_PLAN_NONE; j = s->busy_next[j])
			at = fmax(at, s->busy[j].end);
	return at;
}

/* Moves the remaining bytes, at one even rate, to the first place where they fit. */
static void replace(struct hd_controller *c, struct ctl_transfer *t) {
	double left = ctl_span_bytes(t->reserved, t->reserved_count, c->now, HD_NEVER), rate = 0,
	       at;
	struct hd_plan_busy want = {0};

	for (uint8_t i = 0; i < t->reserved_count; i++)
		rate = fmax(rate, t->reserved[i].rate);
	for (uint8_t i = 0; i < t->path_count; i++)
		rate = fmin(rate, c->scratch.capacity[t->path[i]]);
	at = seconds(hd_ns_max(t->reserved[0].start, c->now) - c->now);
	want.rate = rate;
	for (int step = 0;; step++) {
		want.start = at;
		want.end = at + left / rate;
		if (step > CTL_FIT_STEPS_MAX || path_fits(c, t, want))
			break;
		/* After all other spans it always fits. */
		at = step < CTL_FIT_STEPS_MAX ? next_end(c, t, at) : last_end(c, t, at);
	}
	t->reserved_count = 1;
	t->reserved[0].start = c->now + (hd_ns)llround(want.start * 1e9);
	t->reserved[0].end = c->now + (hd_ns)llround(want.end * 1e9);
	t->reserved[0].rate = rate;
	c->counters.replaced++;
}

static int project(struct hd_controller *c, struct ctl_transfer *t) {
	if (t->state == CTL_HELD || !t->path_count || !t->reserved_count)
		return 0;
	if (t->reserved[0].start > c->now)
		follow(c, t);
	if (reserved_end(t) <= c->now)
		extend(c, t);
	if (!reserved_fits(c, t))
		replace(c, t);
	return place(c, t);
}

/* Links that many hosts' transfers pass may be faster than any of them shows. That does not hold for links of hosts
 * that have workers only. */
static void reach(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	const struct ctl_node *node;
	uint32_t links[2];

	for (uint32_t i = 0; i < s->link_capacity; i++)
		s->link_gathers[i] = i != CTL_LINK_LOCAL;
	for (int pass = 0; pass < 2; pass++)
		TAILQ_FOREACH (node, &c->nodes, entry) {
			const bool gathers
				= node->role == HD_ROLE_SERVER || node->role == HD_ROLE_AGGREGATOR;

			if (gathers != (pass == 1)
			    || hd_topology_links_of(
				       c->config.topology, node->host_index, &links[0], &links[1]
			       ) < 0)
				continue;
			s->link_gathers[links[0] + 1] = gathers;
			s->link_gathers[links[1] + 1] = gathers;
		}
	for (uint32_t i = 0; i < s->link_capacity; i++)
		if (s->link_gathers[i])
			s->capacity[i]
				= fmax(s->capacity[i],
				       hd_view_reach(c->view, i, c->now, ctl_link_weight(c, i)) / 8
				);
}

int ctl_reserve_project(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	struct ctl_transfer *t;
	int status;

	s->busy_count = 0;
	for (uint32_t i = 0; i < s->link_capacity; i++) {
		s->link_busy[i] = HD_PLAN_NONE;
		s->capacity[i]
			= i == CTL_LINK_LOCAL ? CTL_LOCAL_BYTES_PER_S : ctl_estimate_bytes(c, i);
	}
	memcpy(s->flow, s->capacity, s->link_capacity * sizeof *s->flow);
	reach(c);
	TAILQ_FOREACH (t, &c->open, entry) {
		status = project(c, t);
		if (status)
			return status;
	}
	return 0;
}

static void hold(struct ctl_transfer *t) {
	if (t->state != CTL_HELD)
		ctl_transfer_enter(t, CTL_HELD);
	t->reserved_count = 0;
}

/* Holds the members of a sum that came through slots: no aggregator has reported them. */
static void hold_members(const struct ctl_group *group) {
	for (uint32_t m = 0; group->slots && m < group->count; m++)
		if (group->members[m])
			hold(group->members[m]);
}

void ctl_report_held(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	assert(t->state == CTL_GRANTED || t->state == CTL_HELD);
	if (t->state != CTL_HELD) {
		ctl_sample_add(c, t, m);
		if (t->is_sum && t->group)
			ctl_group_learn(t, m);
	}
	if (t->group && t->is_sum != (t->direction == HD_PUSH))
		t->group->collected = c->now;
	hold(t);
	if (t->is_sum && t->group)
		hold_members(t->group);
	ctl_samples_take(c, sink);
	if (c->pending_count)
		ctl_plan_soon(c);
}
