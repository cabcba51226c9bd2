/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What links carry of rounds through a switch, as the rounds themselves show it: nobody measures these links while one
 * is under way, and parts of what is only believed mean nothing.
 *
 *   |=== a round of A ===|            its bytes, and what of B's passed the same link meanwhile, were carried by it
 *       |=== of B ===|
 *
 *   rounds got what they were told     their pacing held them back: a link that was as full as it is believed to be may
 *                                      carry more, so that is tried. It is right if more passes
 *   they got less, or were told nothing  a link that carried less than is believed is taken to carry no more than that.
 *                                      It is right if as much passes: else something else holds them back
 *
 * Tries go in steps that double, and after one that was wrong not again for a while, which doubles.
 * A round goes as fast as the slowest of its links, and which one that is it does not show: all are taken to be as
 * slow. A job with other links finds out when it gets what it is told. What a monitor, a transfer or a probe has shown
 * since counts more.
 */
#include "ctl_estimate.h"
#include "ctl_slots.h"

#include <math.h>

/* Of some rounds, or of one. */
struct ctl_link_means {
	double seen; /* what passed the link of all, as an estimate */
	double part; /* of what it was told; 0: it was told nothing */
	double most; /* that passed in one of them */
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

/* What a byte of the lease's values is of an estimate: its chunks may have more header than the usual ones. */
static double cost_of(const struct ctl_lease *lease) {
	const double bytes = (double)lease->count * sizeof(float);

	return (bytes + HD_CHUNK_OVERHEAD_BYTES) / bytes * CTL_PAYLOAD_SHARE;
}

double ctl_lease_rate(const struct hd_controller *c, const struct ctl_lease *lease) {
	double rate = INFINITY;

	/* Links of the view are counted from 1; 0 is what is inside a host. */
	for (uint32_t i = 0; i < lease->link_count; i++)
		rate = fmin(rate, carries(c, lease->links[i] + 1));
	return rate / cost_of(lease);
}

/* --- what passed in some time --- */

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

/* Bytes of a job's rounds in [from, to): of those that are over, and of others than `but` that are under way as its
 * last one went. < 0: it has rounds under way, and nobody knows how they go. */
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

/* Bytes of all rounds but this one on a link in its time, as bytes of an estimate. < 0: not known. */
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

/* Whether of the job's rounds one that began before `at` was there in [from, now). */
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

/* Whether this round, and all that went beside it, were told by what is known of the link since `at`. */
static bool
is_told(const struct hd_controller *c, const struct ctl_reduce *r, uint32_t link, hd_ns at) {
	const struct ctl_lease *lease;

	if (r->begun_at < at)
		return false;
	TAILQ_FOREACH (lease, &c->leases, entry)
		if (lease->job && has_link(lease, link - 1)
		    && is_older(lease->job, at, c->now - r->took))
			return false;
	return true;
}

/* --- what it shows --- */

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

/* Takes it to carry so many times what is known, until is_right() knows better. */
static void
try_times(const struct hd_controller *c, struct ctl_link_slots *link, double times, double passed) {
	const double before = link->rate;

	if (c->now < link->tries[times > 1 ? CTL_TRY_MORE : CTL_TRY_LESS].at)
		return;
	set(c, link, before * times);
	link->before = before;
	link->passed = passed;
}

/* A try with more is right when more passes, one with less when as much does: else it is not the link that holds them
 * back, but workers that are slow (what passed while they were not is what counts). After a wrong one it is what it was
 * before, for longer each time. */
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

/* Some rounds have gone as they were told: so much passed, and such a part of what they were told they got. */
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

/* What a round showed. The first time says whether what is believed is far off, and one that got more than is known
 * that it may; the next ones correct that. */
static void
learn(const struct hd_controller *c,
      const struct ctl_reduce *r,
      uint32_t number,
      struct ctl_link_means one) {
	struct ctl_link_slots *link = slots_of(c, number);
	const double known = carries(c, number);

	if (!link || !is_told(c, r, number, link->at))
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
	if (r->count[CTL_PART_TOLD] != 1 || r->took == 0 || r->took > c->now - r->begun_at)
		return; /* others have yet to say; or it says nothing */
	from = c->now - r->took;
	if (r->took >= hd_ns_max(CTL_LEASE_LEARN_NS, CTL_LEASE_LEARN_RTTS * rtt)) {
		rate = (double)r->bytes * 1e9 / (double)r->took;
		part = r->told > 0 ? rate / r->told : 0;
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
