/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Company: who will ask soon, and whether what is due should wait to go with them. Workers of one job turn in the same
 * circle (pull, compute, push), each at a pace that is known after a few rounds:
 *
 *   w0  |==pull==|..compute..| asks                    now: w0 alone is due; w1 will ask in a_1, w2 in a_2
 *   w1       |==pull==|..compute..| asks
 *   w2              |==pull==|..compute..| asks        without waiting each of them takes the server's link for s
 *
 * Waiting until a_j costs each of the k that are due a_j, and saves each of the j that come s - a_i: they would have
 * waited for the link instead. The j that saves most is waited for, if it saves anything at all.
 */
#include "ctl_base.h"
#include "ctl_requests.h"

#include <math.h>

#define RHYTHM_SEEN 8 /* pauses in a row, before they are relied on */
#define RHYTHM_SHARE 0.25 /* of a new pause in the mean */
#define COMPANY_MAX 64 /* that are waited for at most */

struct company {
	double after_s[COMPANY_MAX]; /* they ask so long from now, soonest first */
	uint32_t count;
};

void ctl_rhythm_ended(struct ctl_node *worker, uint8_t direction, hd_ns now) {
	if (worker && direction <= HD_PULL)
		worker->rhythm[direction == HD_PUSH ? HD_PULL : HD_PUSH].since = now;
}

void ctl_rhythm_asked(struct ctl_node *worker, uint8_t direction, hd_ns now) {
	struct ctl_rhythm *r = &worker->rhythm[direction];
	double pause, off;

	/* Several under way at once: they have no common rhythm. */
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

/* When what it has under way is over, for its worker. */
static hd_ns end_of(const struct hd_controller *c, const struct ctl_transfer *t) {
	if (t->group && t->direction == HD_PUSH && t->group->sum)
		t = t->group->sum;
	if (t->state == CTL_HELD)
		return c->now;
	return hd_ns_max(c->now, t->book_count ? t->book[t->book_count - 1].end : t->finish);
}

/* It asks for a transfer of this direction when its pause is over that begins at `from`. */
static void
expect(const struct hd_controller *c,
       struct company *company,
       const struct ctl_rhythm *r,
       hd_ns from,
       double within_s) {
	double at = ((double)from - (double)c->now) / 1e9 + r->pause_s + r->spread_s;
	uint32_t i;

	if (r->seen < RHYTHM_SEEN || at < 0 || at > within_s || r->spread_s > within_s / 2
	    || company->count == COMPANY_MAX)
		return;
	for (i = company->count++; i > 0 && company->after_s[i - 1] > at; i--)
		company->after_s[i] = company->after_s[i - 1];
	company->after_s[i] = at;
}

static void
gather(const struct hd_controller *c,
       const struct ctl_transfer *due,
       double within_s,
       struct company *company) {
	const struct ctl_transfer *t;
	const struct ctl_node *node;

	TAILQ_FOREACH (t, &c->open, entry) {
		node = ctl_worker(t->job, t->worker);
		if (t->job == due->job && !t->is_sum && t->direction != due->direction && node
		    && node->tracked == 1)
			expect(c, company, &node->rhythm[due->direction], end_of(c, t), within_s);
	}
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (node->job == due->job && node->tracked == 0
		    && node->rhythm[due->direction].since != 0)
			expect(c,
			       company,
			       &node->rhythm[due->direction],
			       node->rhythm[due->direction].since,
			       within_s);
}

/* Nobody else waits for what would stay free meanwhile. */
static bool alone(const struct hd_controller *c, const struct ctl_job *job) {
	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i] != job && c->jobs[i]->pending > 0)
			return false;
	return true;
}

double ctl_company_wait(
	struct hd_controller *c,
	struct ctl_transfer *due,
	uint32_t count,
	double takes_s
) {
	struct company company = {.count = 0};
	double saves = 0, best = 0, wait = 0, left;

	/* Copies have no rhythm: the log of the server says when. */
	if (due->direction > HD_PULL || c->grouping.aggregator_count == 0 || !alone(c, due->job))
		return 0;
	left = takes_s - (due->company_since ? (double)(c->now - due->company_since) / 1e9 : 0);
	gather(c, due, fmin(takes_s, left), &company);
	for (uint32_t j = 0; j < company.count; j++) {
		double cost = count * company.after_s[j];

		saves += takes_s - company.after_s[j];
		if (saves - cost > best) {
			best = saves - cost;
			wait = company.after_s[j];
		}
	}
	if (wait > 0 && !due->company_since)
		due->company_since = c->now;
	return wait;
}

bool ctl_waits_for_company(
	struct hd_controller *c,
	const uint32_t *members,
	uint32_t count,
	const struct hd_plan_entry *link
) {
	struct ctl_scratch *s = &c->scratch;
	struct ctl_transfer *first = s->item_transfer[s->entries[members[0]].item];
	double wait = ctl_company_wait(c, first, count, link->finish - link->start);

	for (uint32_t m = 0; wait > 0 && m < count; m++)
		s->item_transfer[s->entries[members[m]].item]->company_until
			= c->now + (hd_ns)(wait * 1e9);
	return wait > 0;
}
