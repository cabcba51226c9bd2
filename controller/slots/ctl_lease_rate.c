/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rates of links, measured by the rounds that go through a switch. While such a round is in progress the links get no
 * probes, and a share of a mere estimate means nothing.
 *
 *   |=== a round of A ===|            the link carried its bytes, and those of B in the same time
 *       |=== of B ===|
 *
 *   rounds got the rate they were given   their pacing limited them: a link whose throughput was near its estimate may
 *                                         carry more, so a higher rate is tried. It is right if the throughput rises
 *   they got less, or were given none     a link whose throughput was below its estimate gets it as new estimate.
 *                                         It is right if the throughput stays: else the limit is elsewhere
 *
 * The steps of tries double; after a failed one the time to the next try doubles. A round is as fast as the slowest of
 * its links, but does not show which link that is: all are taken to be as slow. A job with other links corrects this
 * when it gets its given rate. A later result of a monitor, a transfer or a probe replaces the rate.
 */
#include "ctl_estimate.h"
#include "ctl_slots.h"

#include <math.h>

/* Means of some rounds, or values of one. */
struct ctl_link_means {
	double seen; /* throughput of the link with all rounds, as an estimate */
	double part; /* share of the rate that the round was given; 0: it was given none */
	double most; /* the highest throughput in one of them */
};

static struct ctl_link_slots *slots_of(const struct hd_controller *c, uint32_t link) {
	return link < c->scratch.link_capacity ? &c->scratch.link_probe[link].slots : NULL;
}

/* As an estimate: bytes/s of payload in chunks of the usual size. */
static double carries(const struct hd_controller *c, uint32_t link) {
	const struct ctl_link_slots *slots = slots_of(c, link);

	if (!slots || slots->rate <= 0 || slots->at < hd_view_proven(c->view, link)
	    || hd_view_is_watched(c->view, link, c->now))
		return ctl_estimate_bytes(c, link);
	return slots->rate;
}

/* Bytes of an estimate for each byte of the lease's values: its chunks may have more header than the usual ones. */
static double cost_of(const struct ctl_lease *lease) {
	const double bytes = (double)lease->count * sizeof(float);

	return (bytes + HD_CHUNK_OVERHEAD_BYTES) / bytes * CTL_PAYLOAD_SHARE;
}

double ctl_lease_rate(const struct hd_controller *c, const struct ctl_lease *lease) {
	double rate = INFINITY;

	/* Links of the view are counted from 1; 0 is the traffic within a host. */
	for (uint32_t i = 0; i < lease->link_count; i++)
		rate = fmin(rate, carries(c, lease->links[i] + 1));
	return rate / cost_of(lease);
}

/* --- bytes that passed in an interval --- */

static double overlap(hd_ns start, hd_ns end, hd_ns from, hd_ns to) {
	start = hd_ns_max(start, from);
	end = hd_ns_min(end, to);
	return start < end ? (double)(end - start) : 0;
}

static const struct ctl_passage *newest(const struct ctl_job *job) {
	if (job->passage_count == 0)
		return NULL;
	return &job->passages[(job->passage_count - 1) % CTL_PASSAGES_KEPT];
}

/* Bytes of a job's rounds in [from, to): of ended ones, and of those in progress except `but`, at the rate of the last
 * one. < 0: it has rounds in progress, and their rate is unknown. */
static double
passed(const struct ctl_job *job, const struct ctl_reduce *but, hd_ns from, hd_ns to) {
	const struct ctl_passage *last = newest(job);
	const struct ctl_reduce *r;
	double bytes = 0;

	for (uint32_t i = 0; i < job->passage_count && i < CTL_PASSAGES_KEPT; i++) {
		const struct ctl_passage *p = &job->passages[i];

		bytes += p->bytes * overlap(p->start, p->end, from, to)
			/ (double)(p->end - p->start);
	}
	TAILQ_FOREACH (r, &job->reduces, entry) {
		const double both = overlap(r->begun_at, to, from, to);

		if (!r->begun || !r->lease || r == but || both <= 0)
			continue;
		if (!last)
			return -1;
		bytes += last->bytes * both / (double)(last->end - last->start);
	}
	return bytes;
}

static bool has_link(const struct ctl_lease *lease, uint32_t link) {
	for (uint32_t i = 0; i < lease->link_count; i++)
		if (lease->links[i] == link)
			return true;
	return false;
}

/* Bytes of all rounds but this one on a link in its time, as bytes of an estimate. < 0: unknown. */
static double
beside(const struct hd_controller *c, const struct ctl_reduce *r, uint32_t link, hd_ns from) {
	const struct ctl_lease *lease;
	double sum = 0;

	TAILQ_FOREACH (lease, &c->leases, entry) {
		double bytes;

		if (!lease->job || !has_link(lease, link))
			continue;
		bytes = passed(lease->job, r, from, c->now);
		if (bytes < 0)
			return -1;
		sum += bytes * cost_of(lease);
	}
	return sum;
}

/* Whether a round of the job that began before `at` was in progress in [from, now). */
static bool is_older(const struct ctl_job *job, hd_ns at, hd_ns from) {
	const struct ctl_reduce *r;

	for (uint32_t i = 0; i < job->passage_count && i < CTL_PASSAGES_KEPT; i++)
		if (job->passages[i].start < at && job->passages[i].end > from)
			return true;
	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->begun && r->lease && r->begun_at < at)
			return true;
	return false;
}

/* Whether this round, and all beside it, began with the rate that the link has had since `at`. */
static bool began_with_rate(
	const struct hd_controller *c,
	const struct ctl_reduce *r,
	uint32_t link,
	hd_ns at
) {
	const struct ctl_lease *lease;

	if (r->begun_at < at)
		return false;
	TAILQ_FOREACH (lease, &c->leases, entry)
		if (lease->job && has_link(lease, link - 1)
		    && is_older(lease->job, at, c->now - r->took))
			return false;
	return true;
}

/* --- evaluation --- */

static void start_over(struct ctl_link_slots *link) {
	link->rounds = 0;
	link->seen = link->parts = link->most = 0;
}

static void set(const struct hd_controller *c, struct ctl_link_slots *link, double rate) {
	link->rate = rate;
	link->at = c->now;
	link->before = link->passed = 0;
	start_over(link);
}

/* Multiplies the rate by `times`, until is_right() confirms or reverts it. */
static void
try_times(const struct hd_controller *c, struct ctl_link_slots *link, double times, double passed) {
	const double before = link->rate;

	if (c->now < link->tries[times > 1 ? CTL_TRY_MORE : CTL_TRY_LESS].at)
		return;
	set(c, link, before * times);
	link->before = before;
	link->passed = passed;
}

/* A higher rate is right when the throughput rises, a lower one when it stays the same: otherwise slow workers are the
 * limit, not the link (then the throughput without them counts). A failed try restores the rate, for longer each
 * time. */
static bool
is_right(const struct hd_controller *c, struct ctl_link_slots *link, struct ctl_link_means means) {
	const bool more = link->rate > link->before;
	const double wanted
		= more ? 1 + CTL_LEASE_SHOWS * (link->rate / link->before - 1) : CTL_LEASE_SAME;
	struct ctl_try *try = &link->tries[more ? CTL_TRY_MORE : CTL_TRY_LESS];

	if ((more ? means.seen : means.most) >= wanted * link->passed) {
		try->failed = 0;
		link->before = 0;
		link->raised = more && link->raised < CTL_LEASE_DOUBLINGS ? link->raised + 1U : 0;
		return true;
	}
	set(c, link, link->before);
	link->raised = 0;
	if (try->failed < CTL_LEASE_DOUBLINGS)
		try->failed++;
	try->at = hd_ns_add(c->now, CTL_LEASE_TRY_NS << try->failed);
	return false;
}

/* Evaluates some rounds with one rate: their throughput, and the share of their given rates that they got. */
static void
judge(const struct hd_controller *c, struct ctl_link_slots *link, struct ctl_link_means means) {
	const double step = fmin(ldexp(CTL_LEASE_RAISE, (int)link->raised), CTL_LEASE_RAISE_MOST);

	if (link->before > 0 && !is_right(c, link, means))
		return;
	if (link->loose && means.part < CTL_LEASE_HELD && means.seen < CTL_LEASE_HELD * link->rate)
		set(c, link, means.seen);
	link->loose = false;
	if (means.part < CTL_LEASE_HELD && means.most < CTL_LEASE_SHORT * link->rate)
		try_times(c, link, means.most / link->rate, means.most);
	else if (means.part >= CTL_LEASE_HELD && means.seen >= CTL_LEASE_FULL * link->rate)
		try_times(c, link, 1 + step, means.seen);
}

/* Adds a round. The first one shows whether the estimate is far off, and one above the estimate that the link carries
 * more; later rounds correct that. */
static void
learn(const struct hd_controller *c,
      const struct ctl_reduce *r,
      uint32_t number,
      struct ctl_link_means one) {
	struct ctl_link_slots *link = slots_of(c, number);
	const double known = carries(c, number);

	if (!link || !began_with_rate(c, r, number, link->at))
		return;
	if (link->rate <= 0 || known != link->rate) {
		link->loose = one.seen < CTL_LEASE_SHORT * known;
		set(c, link, link->loose ? one.seen : known);
	}
	if (one.seen > CTL_LEASE_MORE * link->rate) {
		link->loose = true;
		set(c, link, one.seen);
	}
	link->rounds++;
	link->seen += one.seen;
	link->parts += one.part;
	link->most = fmax(link->most, one.seen);
	if (link->rounds < CTL_LEASE_TIMES)
		return;
	one.seen = link->seen / link->rounds;
	one.part = link->parts / link->rounds;
	one.most = link->most;
	start_over(link);
	judge(c, link, one);
}

static hd_ns longest_rtt(const struct ctl_lease *lease, const struct ctl_job *job) {
	hd_ns rtt = 0;

	for (uint32_t i = 0; i < lease->seat_count; i++) {
		const struct ctl_node *worker = job->workers[lease->seats[i].worker];

		if (worker)
			rtt = hd_ns_max(rtt, worker->rtt_least);
	}
	return rtt;
}

void ctl_lease_passed(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	hd_ns took
) {
	const struct ctl_lease *lease = r->lease;
	const hd_ns rtt = longest_rtt(lease, job);
	hd_ns from;
	double rate, part;

	r->took = hd_ns_max(r->took, took);
	if (r->count[CTL_PART_STARTED] != 1 || r->took == 0 || r->took > c->now - r->begun_at)
		return; /* other members have yet to report; or the round measures nothing */
	from = c->now - r->took;
	if (r->took >= hd_ns_max(CTL_LEASE_LEARN_NS, CTL_LEASE_LEARN_RTTS * rtt)) {
		rate = (double)r->bytes * 1e9 / (double)r->took;
		part = r->sent_rate > 0 ? rate / r->sent_rate : 0;
		for (uint32_t i = 0; i < lease->link_count; i++) {
			const double others = beside(c, r, lease->links[i], from);
			const double seen = rate * cost_of(lease) + others * 1e9 / (double)r->took;

			if (others >= 0)
				learn(c,
				      r,
				      lease->links[i] + 1,
				      (struct ctl_link_means){seen, part, seen});
		}
	}
	job->passages[job->passage_count++ % CTL_PASSAGES_KEPT]
		= (struct ctl_passage){.start = from, .end = c->now, .bytes = (double)r->bytes};
}
