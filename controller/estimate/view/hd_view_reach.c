/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links that carry more than one transfer shows. Hosts' own links limit each transfer, and a link that is planned as
 * full with one of them never carries two: the capacity of an aggregator's link, a server's or a trunk shows only in
 * simultaneous transfers.
 *
 *   carried    |==A==|             the sum of their rates over the time of one of them: a lower bound of the link's
 *              |==B==|    |==D==|  capacity. Late reports shift transfers in time: a sum that is little more than the
 *              |==C==|    |==E==|  estimate must occur at two times, the smaller one counts
 *   reach      twice the estimate  the rate that is planned, so that twice as many transfers run side by side as are
 *                                  known to fit
 *   too far    |==A======|         each had less than its own links give, and their sum was the estimate: the link
 *              |==B======|         carries no more. The time to the next try doubles after each failure.
 */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>

#define REACH_FACTOR 2.0
/* With a larger share of others' traffic a sum is not certain. */
#define REACH_OURS 0.95
/* Reports are late by the length of queues. A sum above this multiple of the estimate counts as more ... */
#define REACH_MORE 1.25
/* ... and above this one it is certain, as no report is that late. Between the two it needs confirmation. */
#define REACH_SURE 1.3
/* ... and a sum within these confirms the estimate. */
#define REACH_FULL 1.15
#define REACH_FILLED 0.85
/* One of two flows on a full link has this share of the rate of its own links, or less. */
#define REACH_SHORT 0.8
/* A transfer beside another one counts when it has this share of its rate. */
#define REACH_BESIDE 0.25
/* Others' traffic is ignored below this share of it. */
#define REACH_OTHERS 0.05
/* Time to the next try: minimum, and multiple of the time of the slow transfer. */
#define REACH_AGAIN_NS (2 * HD_SECOND)
#define REACH_AGAIN_TIMES 8
#define REACH_DOUBLINGS 5
/* Time in which a sum must be confirmed: minimum, and multiple of the time of its transfer. */
#define REACH_CONFIRM_NS (2 * HD_SECOND)
#define REACH_CONFIRM_TIMES 64

double hd_view_reach(const struct hd_view *view, uint32_t link, hd_ns now, double weight) {
	const double share = hd_view_share(view, link, now, weight);
	const struct hd_view_link *state;

	if (link >= view->count)
		return share;
	state = &view->links[link];
	if (state->samples == 0 || now < state->reach_again
	    || share < REACH_OURS * hd_view_believed(view, link))
		return share;
	return REACH_FACTOR * share;
}

/* Whether it shared a link with others of ours, and with no other traffic. */
static bool is_shared(const struct hd_view_sample *sample, uint8_t k) {
	return sample->ours_bps[k] >= REACH_BESIDE * sample->rate_bps
		&& sample->beside_bps[k] - sample->ours_bps[k] <= REACH_OTHERS * sample->rate_bps;
}

/* The rate of the links that it did not share; 0: there is none. */
static double own_bps(const struct hd_view *view, const struct hd_view_sample *sample) {
	double own = INFINITY;

	for (uint8_t k = 0; k < sample->path_count; k++)
		if (sample->beside_bps[k] < REACH_BESIDE * sample->rate_bps)
			own = fmin(own, hd_view_believed(view, sample->path[k]));
	return isinf(own) ? 0 : own;
}

static void too_far(struct hd_view_link *state, const struct hd_view_sample *sample) {
	const hd_ns took = sample->at - sample->started;
	hd_ns wait = hd_ns_max(REACH_AGAIN_NS, REACH_AGAIN_TIMES * took);

	/* Other transfers of the same try have counted the failure already. */
	if (sample->started >= state->reach_again) {
		state->reach_failed += state->reach_failed < REACH_DOUBLINGS;
		wait <<= state->reach_failed;
	}
	state->reach_again = hd_ns_max(state->reach_again, hd_ns_add(sample->at, wait));
}

/* The smaller of a link's last two sums, where `bps` belongs to the newer one; 0: it is the first. */
static double
confirmed_bps(struct hd_view_sums *sums, const struct hd_view_sample *sample, double bps) {
	const hd_ns took = sample->at - sample->started;
	const hd_ns patience = hd_ns_max(REACH_CONFIRM_NS, REACH_CONFIRM_TIMES * took);

	/* The transfers of the two sums did not overlap. */
	if (sample->started >= sums->until) {
		sums->before_bps = sample->at <= hd_ns_add(sums->until, patience) ? sums->bps : 0;
		sums->bps = 0;
		sums->until = sample->at;
	}
	sums->bps = fmax(sums->bps, bps);
	return fmin(sums->bps, sums->before_bps);
}

/* A sum does not raise the estimate of new links. False: it is not confirmed. */
static bool carried(struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	struct hd_view_link *state = &view->links[sample->path[k]];
	const double more = REACH_MORE * hd_view_believed(view, sample->path[k]);
	double bps = sample->carried_bps[k];

	if (bps < more)
		return true;
	if (bps < REACH_SURE * hd_view_believed(view, sample->path[k]))
		bps = confirmed_bps(&state->sums, sample, bps);
	if (bps < more)
		return false;
	state->summed = true;
	state->reach_again = 0;
	state->reach_failed /= 2;
	hd_view_carried(view, sample->path[k], bps, sample->at);
	return true;
}

uint32_t
hd_view_reached(struct hd_view *view, const struct hd_view_sample *sample, bool held_back) {
	uint32_t full = 0, unconfirmed = 0;

	if (!sample->ours_bps || !sample->carried_bps)
		return 0;
	const double own = own_bps(view, sample);

	for (uint8_t k = 0; k < sample->path_count; k++) {
		struct hd_view_link *state = &view->links[sample->path[k]];
		const double seen = sample->rate_bps + sample->beside_bps[k];
		const double known = hd_view_believed(view, sample->path[k]);

		state->alone_bps = fmax(state->alone_bps, sample->rate_bps);
		if (!is_shared(sample, k))
			continue;
		if (held_back && sample->rate_bps < REACH_SHORT * own && seen <= REACH_FULL * known
		    && seen >= REACH_FILLED * known)
			full |= UINT32_C(1) << k;
		else if (!carried(view, sample, k))
			unconfirmed |= UINT32_C(1) << k;
		if (full >> k & 1)
			too_far(state, sample);
	}
	return full | unconfirmed;
}
