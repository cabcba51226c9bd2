/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for other transfers: which workers will ask soon, and whether due transfers should wait to form a group with
 * theirs. The workers of a job repeat the same cycle (pull, compute, push), each at a pace that is known after a few
 * rounds:
 *
 *   w0  |==pull==|..compute..| asks                    now: w0 alone is due; w1 will ask in a_1, w2 in a_2
 *   w1       |==pull==|..compute..| asks
 *   w2              |==pull==|..compute..| asks        without waiting each of them takes the server's link for s
 *
 * Waiting until a_j costs a_j for each of the k due transfers, and saves s - a_i for each of the j that come: they
 * would have waited for the link instead. The j with the largest gain is chosen, if the gain is positive.
 */
#include "ctl_base.h"
#include "ctl_requests.h"

#include <math.h>

#define RHYTHM_SEEN 8 /* pauses in a row before they are used */
#define RHYTHM_SHARE 0.25 /* weight of a new pause in the mean */
#define EXPECTED_MAX 64 /* transfers that are waited for at most */

struct expected {
	double after_s[EXPECTED_MAX]; /* expected requests, in s from now, soonest first */
	uint32_t count;
};

void ctl_rhythm_ended(struct ctl_node *worker, uint8_t direction, hd_ns now) {
	if (worker && direction <= HD_PULL)
		worker->rhythm[direction == HD_PUSH ? HD_PULL : HD_PUSH].since = now;
}

void ctl_rhythm_asked(struct ctl_node *worker, uint8_t direction, hd_ns now) {
	struct ctl_rhythm *r = &worker->rhythm[direction];
	double pause, off;

	/* A worker with several transfers in flight has no regular pauses. */
	if (worker->tracked > 0 || r->since == 0) {
		r->seen = 0;
		return;
	}
	pause = (double)(now - r->since) / 1e9;
	off = fabs(pause - r->pause_s);
	r->since = 0;
	if (r->seen++ == 0) {
		r->pause_s = pause;
		r->spread_s = pause / 2;
		return;
	}
	r->pause_s += RHYTHM_SHARE * (pause - r->pause_s);
	r->spread_s += RHYTHM_SHARE * (off - r->spread_s);
}

/* When the transfer ends for its worker. */
static hd_ns end_of(const struct hd_controller *c, const struct ctl_transfer *t) {
	if (t->group && t->direction == HD_PUSH && t->group->sum)
		t = t->group->sum;
	if (t->state == CTL_HELD)
		return c->now;
	return hd_ns_max(
		c->now, t->reserved_count ? t->reserved[t->reserved_count - 1].end : t->finish
	);
}

/* Expects a request in this direction after the worker's pause, which begins at `from`. */
static void
expect(const struct hd_controller *c,
       struct expected *expected,
       const struct ctl_rhythm *r,
       hd_ns from,
       double within_s) {
	double at = ((double)from - (double)c->now) / 1e9 + r->pause_s + r->spread_s;
	uint32_t i;

	if (r->seen < RHYTHM_SEEN || at < 0 || at > within_s || r->spread_s > within_s / 2
	    || expected->count == EXPECTED_MAX)
		return;
	for (i = expected->count++; i > 0 && expected->after_s[i - 1] > at; i--)
		expected->after_s[i] = expected->after_s[i - 1];
	expected->after_s[i] = at;
}

static void
gather(const struct hd_controller *c,
       const struct ctl_transfer *due,
       double within_s,
       struct expected *expected) {
	const struct ctl_transfer *t;
	const struct ctl_node *node;

	TAILQ_FOREACH (t, &c->open, entry) {
		node = ctl_worker(t->job, t->worker);
		if (t->job == due->job && !t->is_sum && t->direction != due->direction && node
		    && node->tracked == 1)
			expect(c, expected, &node->rhythm[due->direction], end_of(c, t), within_s);
	}
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (node->job == due->job && node->tracked == 0
		    && node->rhythm[due->direction].since != 0)
			expect(c,
			       expected,
			       &node->rhythm[due->direction],
			       node->rhythm[due->direction].since,
			       within_s);
}

/* No other job waits for the link that would be idle meanwhile. */
static bool alone(const struct hd_controller *c, const struct ctl_job *job) {
	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i] != job && c->jobs[i]->pending > 0)
			return false;
	return true;
}

double ctl_group_wait_s(
	struct hd_controller *c,
	struct ctl_transfer *due,
	uint32_t count,
	double takes_s
) {
	struct expected expected = {.count = 0};
	double saves = 0, best = 0, wait = 0, left;

	/* Copies have no rhythm: the server's log determines their times. */
	if (due->direction > HD_PULL || c->grouping.aggregator_count == 0 || !alone(c, due->job))
		return 0;
	left = takes_s
		- (due->group_wait_since ? (double)(c->now - due->group_wait_since) / 1e9 : 0);
	gather(c, due, fmin(takes_s, left), &expected);
	for (uint32_t j = 0; j < expected.count; j++) {
		double cost = count * expected.after_s[j];

		saves += takes_s - expected.after_s[j];
		if (saves - cost > best) {
			best = saves - cost;
			wait = expected.after_s[j];
		}
	}
	if (wait > 0 && !due->group_wait_since)
		due->group_wait_since = c->now;
	return wait;
}

bool ctl_waits_for_group(
	struct hd_controller *c,
	const uint32_t *members,
	uint32_t count,
	const struct hd_plan_entry *link
) {
	struct ctl_scratch *s = &c->scratch;
	struct ctl_transfer *first = s->item_transfer[s->entries[members[0]].item];
	double wait = ctl_group_wait_s(c, first, count, link->finish - link->start);

	for (uint32_t m = 0; wait > 0 && m < count; m++)
		s->item_transfer[s->entries[members[m]].item]->group_wait_until
			= c->now + (hd_ns)(wait * 1e9);
	return wait > 0;
}
