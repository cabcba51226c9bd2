/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Samples of the network: the rate of each ended transfer, and the transfers beside it on each of its links.
 *
 *      |== A ==|                A's sample waits for B, which ran at the same time: the rate of a
 *          |=== B ===|          transfer is known at its end. C has not begun by A's end.
 *                      |= C =|
 */
#include "ctl_base.h"
#include "ctl_estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool path_has(const uint32_t *path, uint8_t count, uint32_t link) {
	for (uint8_t i = 0; i < count; i++)
		if (path[i] == link)
			return true;
	return false;
}

static const struct ctl_past *past_at(const struct hd_controller *c, uint64_t number) {
	return &c->past[number % CTL_PAST_KEPT];
}

/* --- transfers over time, on one link ------------------------------------------------------- */

#define FLOWS_MAX 192

struct flow {
	hd_ns start, end;
	double bytes;
	bool own; /* the sampled transfer itself */
};

struct change {
	hd_ns at;
	int step; /* +1: a transfer starts, -1: one ends */
	double shared; /* integral of 1/n up to here, with n transfers in flight */
};

/* The sharing of one link over time. */
struct sharing {
	uint32_t flow_count, change_count;
	struct flow flow[FLOWS_MAX];
	struct change change[2 * FLOWS_MAX];
};

static void add_flow(struct sharing *s, hd_ns start, hd_ns end, double bytes, bool own) {
	if (s->flow_count < FLOWS_MAX && start < end)
		s->flow[s->flow_count++] = (struct flow){start, end, bytes, own};
}

/* Transfers that overlap [from, to) on a link: ended ones as they were, open ones as reserved. */
static void
gather(const struct hd_controller *c,
       const struct ctl_past *own,
       uint32_t link,
       hd_ns from,
       hd_ns to,
       struct sharing *s) {
	uint64_t kept = c->past_count < CTL_PAST_KEPT ? c->past_count : CTL_PAST_KEPT;
	const struct ctl_transfer *t;

	s->flow_count = 0;
	for (uint64_t i = 0; i < kept; i++) {
		const struct ctl_past *p = &c->past[i];

		if (p->end > from && p->start < to && path_has(p->path, p->path_count, link))
			add_flow(s, p->start, p->end, (double)p->bytes, p == own);
	}
	TAILQ_FOREACH (t, &c->open, entry) {
		if (!path_has(t->path, t->path_count, link))
			continue;
		for (uint8_t i = 0; i < t->reserved_count; i++)
			if (t->reserved[i].end > from && t->reserved[i].start < to)
				add_flow(
					s,
					t->reserved[i].start,
					t->reserved[i].end,
					ctl_span_bytes(&t->reserved[i], 1, 0, HD_NEVER),
					false
				);
	}
}

static int by_time(const void *a, const void *b) {
	hd_ns x = ((const struct change *)a)->at, y = ((const struct change *)b)->at;

	return (x > y) - (x < y);
}

static void integrate(struct sharing *s) {
	double shared = 0;
	int running = 0;

	s->change_count = 0;
	for (uint32_t i = 0; i < s->flow_count; i++) {
		s->change[s->change_count++] = (struct change){s->flow[i].start, 1, 0};
		s->change[s->change_count++] = (struct change){s->flow[i].end, -1, 0};
	}
	qsort(s->change, s->change_count, sizeof s->change[0], by_time);
	for (uint32_t i = 0; i < s->change_count; i++) {
		struct change *change = &s->change[i];

		if (i > 0 && running > 0)
			shared += (double)(change->at - s->change[i - 1].at) / running;
		change->shared = shared;
		running += change->step;
	}
}

/* The integral of 1/n up to a time. */
static double shared_until(const struct sharing *s, hd_ns at) {
	uint32_t low = 0, high = s->change_count;

	/* The first change after `at`. */
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (s->change[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	if (low == s->change_count)
		return s->change[low - 1].shared;
	return s->change[low - 1].shared
		+ (s->change[low].shared - s->change[low - 1].shared)
		* (double)(at - s->change[low - 1].at)
		/ (double)(s->change[low].at - s->change[low - 1].at);
}

/*
 * Mean rate, in bit/s, of our other transfers on a link while this one ran. A transfer is taken to have been n times
 * slower while n shared the link. With its mean rate over all its time, partial overlaps would count bytes twice, and
 * links would seem faster than they are.
 */
static double beside_bps(const struct hd_controller *c, const struct ctl_past *own, uint32_t link) {
	struct sharing s;
	hd_ns from = own->start, to = own->end;
	double bytes = 0;

	gather(c, own, link, own->start, own->end, &s);
	for (uint32_t i = 0; i < s.flow_count; i++) {
		from = hd_ns_min(from, s.flow[i].start);
		to = hd_ns_max(to, s.flow[i].end);
	}
	gather(c, own, link, from, to, &s);
	integrate(&s);
	for (uint32_t i = 0; i < s.flow_count; i++) {
		const struct flow *f = &s.flow[i];
		hd_ns start = hd_ns_max(f->start, own->start), end = hd_ns_min(f->end, own->end);
		double whole = shared_until(&s, f->end) - shared_until(&s, f->start);

		if (f->own || start >= end || whole <= 0)
			continue;
		bytes += f->bytes * (shared_until(&s, end) - shared_until(&s, start)) / whole;
	}
	return bytes * 8 * 1e9 / (double)(own->end - own->start);
}

/*
 * The minimum rate of all our bytes on a link during an ended transfer, bit/s: the transfer itself, and of each other
 * one the bytes that it cannot have sent before or after, even at its fastest.
 *
 *      |== own ==|
 *   |== other ==|        its bytes without those that fit into the time before, and into the delay of reports
 */
static double
carried_bps(const struct hd_controller *c, const struct ctl_past *own, uint32_t link) {
	const uint64_t kept = c->past_count < CTL_PAST_KEPT ? c->past_count : CTL_PAST_KEPT;
	const double seconds = (double)(own->end - own->start) / 1e9;
	double bytes = own->rate * seconds;

	if (own->end - own->start < CTL_SAMPLE_LOWER_NS)
		return 0;
	for (uint64_t i = 0; i < kept; i++) {
		const struct ctl_past *p = &c->past[i];
		const hd_ns start = hd_ns_max(p->start, own->start);
		const hd_ns end = hd_ns_min(p->end, own->end);

		if (p == own || start >= end || !path_has(p->path, p->path_count, link))
			continue;
		const double whole = (double)(p->end - p->start) / 1e9;
		const double outside
			= whole - (double)(end - start) / 1e9 + CTL_SAMPLE_LATE * seconds;
		bytes += fmax(p->rate * whole - p->most * outside, 0);
	}
	return bytes * 8 / seconds;
}

/* Whether an open transfer may have run beside this one. */
static bool has_companion(const struct hd_controller *c, const struct ctl_past *past) {
	const struct ctl_transfer *t;

	for (uint8_t i = 0; i < past->path_count; i++)
		if (c->scratch.link_probe[past->path[i]].reduces)
			return true;
	TAILQ_FOREACH (t, &c->open, entry) {
		if (t->state == CTL_HELD || t->granted >= past->end || t->start >= past->end)
			continue;
		for (uint8_t i = 0; i < past->path_count; i++)
			if (path_has(t->path, t->path_count, past->path[i]))
				return true;
	}
	return false;
}

/* Whether a monitor on the path has yet to report about the transfer's time. */
static bool is_covered(const struct hd_controller *c, const struct ctl_past *past) {
	for (uint8_t i = 0; i < past->path_count; i++)
		if (!hd_view_covers(c->view, past->path[i], past->end, c->now))
			return false;
	return true;
}

static void take(struct hd_controller *c, const struct ctl_past *past, struct hd_sink *sink) {
	double beside[HD_PLAN_PATH_MAX], ours[HD_PLAN_PATH_MAX], carried[HD_PLAN_PATH_MAX];
	struct hd_view_sample sample = {
		.at = past->end,
		.started = past->start,
		.bytes = past->bytes,
		.rate_bps = past->rate * 8,
		.limited = past->limited,
		.path_count = past->path_count,
		.path = past->path,
		.beside_bps = beside,
		.ours_bps = ours,
		.carried_bps = carried,
	};

	for (uint8_t i = 0; i < past->path_count; i++) {
		ours[i] = beside_bps(c, past, past->path[i]);
		beside[i] = ours[i]
			+ hd_view_others_bps(c->view, past->path[i], past->start, past->end);
		carried[i] = carried_bps(c, past, past->path[i]);
	}
	hd_view_sample(c->view, &sample);
	c->counters.samples++;
	for (uint8_t i = 0; i < past->path_count; i++)
		ctl_event(
			sink,
			(struct hd_event){
				.at = c->now,
				.kind = HD_EVENT_ESTIMATE,
				.token = past->token,
				.aux = past->path[i],
				.value = hd_view_share(c->view, past->path[i], c->now, 1),
			}
		);
}

/* The mean rate of the grant's segments, with the holes between them, bit/s; 0: it has none. */
static double granted_bps(const struct ctl_transfer *t) {
	const struct hd_segment *first = &t->segments.item[0], *last = first;
	double bits = 0, seconds;

	for (uint8_t i = 0; i < t->segments.count; i++) {
		last = &t->segments.item[i];
		bits += (double)last->bytes * 8;
	}
	if (t->segments.count == 0 || last->rate_bps == 0)
		return 0;
	seconds = (double)(last->start_ns - first->start_ns) / 1e9
		+ (double)last->bytes * 8 / (double)last->rate_bps;
	return seconds > 0 ? bits / seconds : 0;
}

/* A sum that a switch makes: the sum and its members are one flow, on all their links at once. */
static bool is_joint(const struct ctl_transfer *t) {
	return t->is_sum && t->group && t->group->slots;
}

/* A transfer from an aggregator: a sum to the server, a model to a worker. */
static bool passes_on(const struct ctl_transfer *t) {
	return t->group && !is_joint(t) && t->is_sum == (t->direction == HD_PUSH);
}

/*
 * A transfer that got its granted rate was limited by its own pacing, if by anything. One that got less was not, even
 * if its packets seem to say so: small transfers leave as a whole into the first queue, paced at their grant, and drain
 * from there at the rate of the link.
 */
static double
limited(const struct hd_controller *c, const struct ctl_transfer *t, const struct hd_msg_report *m
) {
	double granted = granted_bps(t);

	/* A sum for the replica gets the remaining rate, and is limited by its aggregator's input. */
	if (t->direction == HD_COPY && t->is_sum)
		return 1;
	/* It was limited by the aggregator's input: the same. */
	if (passes_on(t)
	    && (!t->group->collected || c->now < hd_ns_add(t->group->collected, m->duration_ns / 4)
	    ))
		return 1;
	/* Scheduling and latency dominate: it may raise an estimate, but not lower it. */
	if (m->duration_ns < CTL_SAMPLE_LOWER_NS)
		return 1;
	if (granted > 0)
		return fmin(
			fmax((double)m->rate_bps / granted - CTL_SAMPLE_GRANTED, 0)
				/ (CTL_SAMPLE_PACED - CTL_SAMPLE_GRANTED),
			1
		);
	return m->limited_permille < 1000 ? m->limited_permille / 1000.0 : 1;
}

/* The highest rate of its pacing; 0: it has none. */
static double fastest_bps(const struct ctl_transfer *t) {
	double most = 0;

	for (uint8_t i = 0; i < t->segments.count; i++)
		most = fmax(most, CTL_SAMPLE_PROBE * (double)t->segments.item[i].rate_bps);
	return most;
}

/* The reported rate, limited to the sender's pacing: a receiver that was not scheduled finds the transfer in its
 * socket's buffer and reads it at the speed of memory. */
static double plausible_bps(const struct ctl_transfer *t, const struct hd_msg_report *m) {
	const double most = fastest_bps(t);

	return most > 0 ? fmin((double)m->rate_bps, most) : (double)m->rate_bps;
}

static struct ctl_past *past_next(struct hd_controller *c) {
	if (c->past_count - c->sampled == CTL_PAST_KEPT)
		c->sampled++; /* not evaluated in time: the oldest is dropped */
	return &c->past[c->past_count++ % CTL_PAST_KEPT];
}

/* NULL: the report contains no rate of a network. */
static struct ctl_past *past_add(struct hd_controller *c, const struct hd_msg_report *m) {
	struct ctl_past *past;

	if (!m->bytes || !m->rate_bps || !m->duration_ns || m->duration_ns > c->now)
		return NULL;
	past = past_next(c);
	*past = (struct ctl_past){
		.start = c->now - m->duration_ns,
		.end = c->now,
		.rate = (double)m->rate_bps / 8,
		.most = CTL_SAMPLE_FASTEST,
		.token = m->token,
		.bytes = m->bytes,
	};
	return past;
}

/* The member whose links have the lowest estimate; NULL: there is none. */
static const struct ctl_transfer *
slowest_member(const struct hd_controller *c, const struct ctl_group *group) {
	const struct ctl_transfer *slowest = NULL;
	double least = INFINITY;

	for (uint32_t m = 0; m < group->count; m++) {
		const struct ctl_transfer *t = group->members[m];
		double rate = INFINITY;

		for (uint8_t i = 0; t && i < t->path_count; i++)
			rate = fmin(rate, ctl_estimate_bytes(c, t->path[i]));
		if (rate < least) {
			least = rate;
			slowest = t;
		}
	}
	return slowest;
}

/* The slowest member's links may have limited the sum as well as the server's; those of the others carried at least as
 * much. */
static void
add_members(struct hd_controller *c, struct ctl_past *past, const struct ctl_group *group) {
	const struct ctl_transfer *slowest = slowest_member(c, group);
	const struct ctl_past sum = *past;

	if (slowest && past->path_count + slowest->path_count <= HD_PLAN_PATH_MAX) {
		memcpy(past->path + past->path_count,
		       slowest->path,
		       slowest->path_count * sizeof *past->path);
		past->path_count = (uint8_t)(past->path_count + slowest->path_count);
	}
	for (uint32_t m = 0; m < group->count; m++) {
		const struct ctl_transfer *t = group->members[m];

		if (!t || t == slowest || t->path_count == 0)
			continue;
		past = past_next(c);
		*past = sum;
		past->token = t->token;
		past->limited = 1;
		past->path_count = t->path_count;
		memcpy(past->path, t->path, sizeof past->path);
	}
}

void ctl_sample_add(
	struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_msg_report *m
) {
	struct ctl_past *past = t->path_count ? past_add(c, m) : NULL;

	if (!past)
		return;
	past->rate = plausible_bps(t, m) / 8;
	/* A paced transfer may have had its highest rate at any time. */
	if (fastest_bps(t) > 0)
		past->most = fastest_bps(t) / 8;
	past->token = t->token;
	past->limited = limited(c, t, m);
	past->path_count = t->path_count;
	memcpy(past->path, t->path, sizeof past->path);
	if (is_joint(t))
		add_members(c, past, t->group);
}

void ctl_sample_shard(
	struct hd_controller *c,
	const struct ctl_node *from,
	const struct ctl_node *to,
	const struct hd_msg_report *m,
	bool beside
) {
	uint32_t path[HD_PLAN_PATH_MAX];
	const int count = ctl_path(c, from->host_index, to->host_index, path);
	struct ctl_past *past;

	if (count <= 0 || path[0] == CTL_LINK_LOCAL)
		return;
	past = past_add(c, m);
	if (!past)
		return;
	past->limited = m->duration_ns < CTL_SAMPLE_LOWER_NS || m->limited_permille >= 1000 ?
		1 :
		m->limited_permille / 1000.0;
	past->beside = beside;
	past->path_count = (uint8_t)count;
	memcpy(past->path, path, sizeof past->path);
}

void ctl_samples_take(struct hd_controller *c, struct hd_sink *sink) {
	while (c->sampled < c->past_count) {
		const struct ctl_past *past = past_at(c, c->sampled);

		if (past->beside) {
			c->sampled++;
			continue;
		}
		if (c->now < hd_ns_add(past->end, CTL_SAMPLE_WAIT_NS)
		    && (has_companion(c, past) || !is_covered(c, past)))
			return;
		take(c, past, sink);
		c->sampled++;
	}
}
