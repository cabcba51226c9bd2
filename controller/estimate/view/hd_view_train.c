/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet trains. Each link of a train's way carried what was seen, that is certain; the narrowest one no more, and
 * which that is one train does not say. But a link's fastest of several trains over different ways is what it
 * carries itself, if any of the ways was wider.
 *
 *   more than known          believed at once
 *   about as much            that is what it carries
 *   less, three in a row     believed when two ways agree, or the rest of one is known to be wider
 *
 * A trunk between switches is nobody's own link and nobody's target. The trains that cross it tell of it when every
 * other link of their way has been proven to be wider lately; hosts' links are often alike, so that two
 * ways that agree prove nothing here.
 */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>

/* Trains agree within this. */
#define TRAIN_LIKE 0.1
/* Two ways that are as slow as each other. */
#define TRAIN_SAME 0.01
/* What another link carried within this it still carries. */
#define TRAIN_RECENT_NS (10 * HD_SECOND)
#define TRAIN_STANDS_NS (4 * HD_SECOND)

/* Among the other links of the way the narrowest, by what is believed. */
static uint32_t
narrowest_other(const struct hd_view *view, const struct hd_view_train *train, uint8_t except) {
	uint32_t least = train->path[except];

	for (uint8_t k = 0; k < train->path_count; k++)
		if (k != except
		    && (least == train->path[except]
			|| hd_view_estimate(view, train->path[k]).capacity_bps
				< hd_view_estimate(view, least).capacity_bps))
			least = train->path[k];
	return least;
}

static double fastest_bps(struct hd_view *view, uint32_t link, hd_ns now) {
	const struct hd_view_passages *passages = hd_view_passages(view, link);
	double most = 0;

	for (uint32_t i = 0; passages && i < HD_VIEW_PASSAGES; i++)
		if (now <= hd_ns_add(passages->last[i].at, TRAIN_RECENT_NS))
			most = fmax(most, passages->last[i].bps);
	return most;
}

/* Whether the fastest of the trains was held up by the link itself: another way was just as slow, and two other
 * links are hardly as narrow as each other; or the other link of its way has just carried more; or is
 * believed to, which is not enough against a link that everybody's ways lead over. */
static bool
tells(struct hd_view *view,
      const struct hd_view_passages *own,
      uint32_t index,
      const struct hd_view_train *train) {
	const struct hd_view_passage *fastest = &own->last[index];

	if (fastest->other == train->target
	    || fastest_bps(view, fastest->other, train->at) > (1 + TRAIN_SAME) * fastest->bps)
		return true;
	for (uint32_t i = 0; i < HD_VIEW_PASSAGES; i++)
		if (i != index && own->last[i].other != fastest->other
		    && own->last[i].bps >= (1 - TRAIN_SAME) * fastest->bps)
			return true;
	return !train->hub
		&& hd_view_estimate(view, fastest->other).capacity_bps
		> (1 + TRAIN_LIKE) * fastest->bps;
}

/* A burst takes more of a link that others use than a transfer gets. Where no monitor tells, what transfers got
 * lately stands. */
static bool may_raise(const struct hd_view *view, uint32_t link, hd_ns at) {
	return hd_view_is_watched(view, link, at)
		|| at > hd_ns_add(hd_view_proven(view, link), TRAIN_STANDS_NS);
}

/* Whether a trunk on the way may have been what held it up. */
static bool is_blurred(const struct hd_view *view, const struct hd_view_train *train) {
	for (uint8_t k = 1; k + 1 < train->path_count; k++) {
		const uint32_t trunk = train->path[k];

		if (trunk != train->target
		    && (hd_view_estimate(view, trunk).capacity_bps
				<= (1 + TRAIN_LIKE) * train->rate_bps
			|| train->at > hd_ns_add(hd_view_proven(view, trunk), TRAIN_RECENT_NS)))
			return true;
	}
	return false;
}

/* Remembers it on each link of the way, of hosts' links unless a trunk may have been the limit. Returns the target's
 * passages; NULL: no memory. */
static const struct hd_view_passages *
remember(struct hd_view *view, const struct hd_view_train *train) {
	struct hd_view_passage passage = {.at = train->at, .bps = train->rate_bps};
	const bool blurred = is_blurred(view, train);
	struct hd_view_passages *passages = NULL;

	for (uint8_t k = 0; k < train->path_count; k++) {
		passages = hd_view_passages(view, train->path[k]);
		if (!passages)
			return NULL;
		passage.other = narrowest_other(view, train, k);
		if (!blurred || (k > 0 && k + 1 < train->path_count))
			passages->last[passages->count++ % HD_VIEW_PASSAGES] = passage;
		if (train->path[k] == train->target || may_raise(view, train->path[k], train->at))
			hd_view_carried(view, train->path[k], train->rate_bps, train->at);
	}
	return hd_view_passages(view, train->target);
}

static bool
is_wider_rest(const struct hd_view *view, const struct hd_view_train *train, uint8_t trunk) {
	for (uint8_t k = 0; k < train->path_count; k++)
		if (k != trunk
		    && (hd_view_estimate(view, train->path[k]).capacity_bps
				<= (1 + TRAIN_LIKE) * train->rate_bps
			|| train->at
				> hd_ns_add(hd_view_proven(view, train->path[k]), TRAIN_RECENT_NS)))
			return false;
	return true;
}

/* The trunks on a train's way: about what is known is what they carry, less is believed the third time. */
static void judge_trunks(struct hd_view *view, const struct hd_view_train *train) {
	for (uint8_t k = 1; k + 1 < train->path_count; k++) {
		const uint32_t trunk = train->path[k];
		const struct hd_view_passages *own = hd_view_passages(view, trunk);
		const double known = hd_view_estimate(view, trunk).capacity_bps;
		double most = 0;

		if (trunk == train->target || !own || !is_wider_rest(view, train, k))
			continue;
		for (uint32_t i = 0; i < HD_VIEW_PASSAGES; i++)
			most = fmax(most, i < own->count ? own->last[i].bps : INFINITY);
		if (train->rate_bps >= (1 - TRAIN_LIKE) * known)
			hd_view_measured(view, trunk, train->rate_bps, train->at);
		else if (most < (1 - TRAIN_LIKE) * known)
			hd_view_measured(view, trunk, most, train->at);
	}
}

/* Whether the target has carried more than one host can send, and the rest of the way no more than was seen: that it
 * was the rest is no news. */
static bool is_narrow_rest(const struct hd_view *view, const struct hd_view_train *train) {
	if (!view->links[train->target].summed)
		return false;
	for (uint8_t k = 0; k < train->path_count; k++)
		if (train->path[k] != train->target
		    && hd_view_estimate(view, train->path[k]).capacity_bps
			    <= (1 + TRAIN_LIKE) * train->rate_bps)
			return true;
	return false;
}

enum hd_view_word hd_view_train(struct hd_view *view, const struct hd_view_train *train) {
	const struct hd_view_passages *own;
	uint32_t low = 0, fastest = 0;
	double known;

	if (!(train->rate_bps > 0) || !isfinite(train->rate_bps))
		return HD_VIEW_SETTLED;
	if (!train->exact) {
		hd_view_carried(view, train->target, train->rate_bps, train->at);
		return HD_VIEW_SETTLED;
	}
	own = remember(view, train);
	if (!own)
		return HD_VIEW_SETTLED;
	judge_trunks(view, train);
	known = hd_view_estimate(view, train->target).capacity_bps;
	if (train->rate_bps >= (1 - TRAIN_LIKE) * known) {
		hd_view_measured(view, train->target, train->rate_bps, train->at);
		return HD_VIEW_SETTLED;
	}
	if (is_blurred(view, train))
		return HD_VIEW_LOWER;
	if (is_narrow_rest(view, train))
		return HD_VIEW_SETTLED;
	for (uint32_t i = 0; i < HD_VIEW_PASSAGES && i < own->count; i++) {
		low += own->last[i].bps < (1 - TRAIN_LIKE) * known;
		fastest = own->last[i].bps > own->last[fastest].bps ? i : fastest;
	}
	if (low < HD_VIEW_PASSAGES)
		return HD_VIEW_LOWER;
	if (tells(view, own, fastest, train))
		hd_view_measured(view, train->target, own->last[fastest].bps, train->at);
	return HD_VIEW_SETTLED;
}
