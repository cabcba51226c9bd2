/* SPDX-License-Identifier: BSD-3-Clause */
/* Polls nodes for their packet counters, and keeps the last two answers of each. */
#include "ctl_dataplane.h"

#include <stdlib.h>

#define POLLS_AT_ONCE 64 /* of 8,192 nodes: each answers with a datagram of about 150 bytes */
#define POLLS_APART_NS (2 * HD_MS)
#define LOOKS_APART_NS                                                                             \
	(250 * HD_MS) /* the minimum time between rounds, however often operators look */
#define ROUNDS_LATE_MAX 8 /* an answer may come after this many further rounds have begun */
#define RATE_SPAN_MAX_NS (5 * HD_SECOND) /* answers further apart give no current rate */

/* --- polling --- */

/* When the next round begins. */
static hd_ns next_round(const struct ctl_dataplane *d) {
	hd_ns soon = hd_ns_add(d->began, HD_POLL_INTERVAL_US * HD_US);
	hd_ns later = hd_ns_add(d->began, HD_POLL_SCRAPE_US * HD_US);

	if (soon <= d->until)
		return soon;
	return later <= d->scrapes_until ? later : HD_NEVER;
}

void ctl_dataplane_watch(struct hd_controller *c) {
	struct ctl_dataplane *d = &c->dataplane;

	d->until = hd_ns_add(c->now, HD_POLL_HOLD_US * HD_US);
	if (!d->asking)
		d->poll_at = hd_ns_max(c->now, d->began ? hd_ns_add(d->began, LOOKS_APART_NS) : 0);
}

void ctl_dataplane_scrape(struct hd_controller *c) {
	struct ctl_dataplane *d = &c->dataplane;

	d->scrapes_until = hd_ns_add(c->now, HD_SCRAPE_HOLD_US * HD_US);
	if (d->poll_at == HD_NEVER)
		d->poll_at = c->now;
}

static struct ctl_readings *readings_of(struct ctl_node *node) {
	if (!node->readings)
		node->readings = calloc(1, sizeof *node->readings);
	return node->readings;
}

static void ask(struct hd_controller *c, struct ctl_node *node, struct hd_sink *sink) {
	const struct hd_message message
		= {.kind = HD_MSG_POLL, .poll = {.mark = c->dataplane.mark}};

	bool first = node->polled == 0;

	node->polled = c->dataplane.mark;
	if (!readings_of(node))
		return;
	if (first)
		node->readings->answered = c->dataplane.mark - 1;
	c->counters.polls++;
	(void)hd_session_send_once(node->session, &message, c->now, sink);
}

/* --- answers --- */

/* Whether a counter is less than before: the node has restarted. */
static bool has_fallen(const struct hd_dataplane *now, const struct hd_dataplane *before) {
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		if (hd_dataplane_group.stats[i].kind == HD_STAT_COUNTER
		    && hd_dataplane_get(now, i) < hd_dataplane_get(before, i))
			return true;
	return false;
}

/* Marks wrap around to 1. */
static bool is_after(uint32_t mark, uint32_t other) {
	return mark != other && mark - other < UINT32_MAX / 2;
}

static void
take(struct hd_controller *c,
     struct ctl_readings *r,
     uint32_t mark,
     hd_ns at,
     const struct hd_dataplane *values) {
	bool follows = r->taken && !has_fallen(values, &r->last);

	if (r->taken && !follows) {
		r->base = (struct hd_dataplane){0};
		r->cleared = 0;
	}
	r->before = r->last;
	r->before_at = follows && at - r->at <= RATE_SPAN_MAX_NS ? r->at : 0;
	r->last = *values;
	r->at = at;
	r->taken = c->now;
	/* An answer to a POLL from before the operator's `clear` is no base: its values may be old. */
	if (!r->clear_due || !is_after(mark, c->dataplane.mark_at_clear))
		return;
	r->base = *values;
	r->cleared = c->now;
	r->clear_due = false;
}

/* Whether it is the first answer to one of the last polls or to a later one. */
static bool is_due(const struct ctl_node *node, uint32_t mark) {
	const struct ctl_readings *r = node->readings;

	return r && node->polled != 0 && mark != 0 && node->polled - mark < ROUNDS_LATE_MAX
		&& is_after(mark, r->answered);
}

void ctl_dataplane_take(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_stats *m
) {
	struct ctl_readings *r = node->readings;
	struct hd_dataplane values;

	if (!is_due(node, m->mark)) {
		c->counters.stats_unasked++;
		return;
	}
	r->answered = m->mark;
	if (hd_dataplane_decode(&values, m->values.data, m->values.bytes) || m->at_ns <= r->at
	    || m->at_ns >= HD_NEVER) {
		c->counters.hostile_value++;
		return;
	}
	c->counters.stats++;
	take(c, r, m->mark, m->at_ns, &values);
}

/* The controller's own counters are read directly. */
static void read_own(struct hd_controller *c) {
	struct hd_stats *stats = hd_stats_create();
	struct hd_dataplane values = {0};
	bool whole;

	if (!stats)
		return;
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(c->endpoint));
	if (c->config.ops && c->config.ops->gather)
		c->config.ops->gather(c->config.owner, stats);
	whole = hd_stats_left_out(stats) == 0;
	hd_dataplane_sum(&values, stats);
	hd_stats_destroy(stats);
	if (whole)
		take(c, &c->dataplane.own, c->dataplane.mark, c->now, &values);
}

void ctl_dataplane_poll(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_dataplane *d = &c->dataplane;
	struct ctl_node *node;
	int left = POLLS_AT_ONCE;

	if (!d->asking) {
		d->mark = d->mark == UINT32_MAX ? 1 : d->mark + 1;
		d->began = c->now;
		read_own(c);
	}
	d->asking = true;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (node->role == HD_ROLE_NONE || node->polled == d->mark)
			continue;
		if (left-- == 0) {
			d->poll_at = hd_ns_add(c->now, POLLS_APART_NS);
			return;
		}
		ask(c, node, sink);
	}
	d->asking = false;
	d->poll_at = next_round(d);
}

/* --- the rest --- */

uint32_t ctl_dataplane_clear(struct hd_controller *c) {
	struct ctl_node *node;
	uint32_t count = 1;

	/* The answers to the next round become the base. */
	c->dataplane.mark_at_clear = c->dataplane.mark;
	c->dataplane.own.clear_due = true;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (node->role == HD_ROLE_NONE || !readings_of(node))
			continue;
		node->readings->clear_due = true;
		count++;
	}
	ctl_dataplane_watch(c);
	if (!c->dataplane.asking)
		c->dataplane.poll_at = c->now;
	return count;
}

void ctl_dataplane_forget(struct ctl_node *node) {
	free(node->readings);
	node->readings = NULL;
}
