/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes (packet trains). Each link of a probe's path carried the measured rate; the slowest one carries no more, but
 * one probe does not show which that is. The fastest of several probes over different paths is the link's own rate, if
 * any of the paths was faster.
 *
 *   more than the estimate   accepted at once
 *   about as much            the link carries that
 *   less, three in a row     accepted when two paths agree, or the rest of one is known to be faster
 *   too fast to measure      at least this much: raises
 *   arrived in one piece     no result (ctl_probed())
 *
 * A trunk between switches belongs to no node and is no target. A probe that crosses it measures it when every other
 * link of its path has recently been proven to be faster; hosts' links are often alike, so two paths that agree prove
 * nothing here.
 */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>

/* Probes agree within this. */
#define PROBE_LIKE 0.1
/* Two paths are equally slow within this. */
#define PROBE_SAME 0.01
/* For this time a link's last rate is still valid. */
#define PROBE_RECENT_NS (10 * HD_SECOND)
#define PROBE_STANDS_NS (4 * HD_SECOND)

/* The slowest of the other links of the path, by estimates. */
static uint32_t
narrowest_other(const struct hd_view *view, const struct hd_view_probe *probe, uint8_t except) {
	uint32_t least = probe->path[except];

	for (uint8_t k = 0; k < probe->path_count; k++)
		if (k != except
		    && (least == probe->path[except]
			|| hd_view_estimate(view, probe->path[k]).capacity_bps
				< hd_view_estimate(view, least).capacity_bps))
			least = probe->path[k];
	return least;
}

static double fastest_bps(struct hd_view *view, uint32_t link, hd_ns now) {
	const struct hd_view_passages *passages = hd_view_passages(view, link);
	double most = 0;

	for (uint32_t i = 0; passages && i < HD_VIEW_PASSAGES; i++)
		if (now <= hd_ns_add(passages->last[i].at, PROBE_RECENT_NS))
			most = fmax(most, passages->last[i].bps);
	return most;
}

/* Whether the link itself limited the fastest of the probes: another path was just as slow, and two other links are
 * hardly ever equally slow; or the other link of its path has just carried more; or its estimate is higher, which is
 * not enough for a link that all nodes' paths lead over. */
static bool
tells(struct hd_view *view,
      const struct hd_view_passages *own,
      uint32_t index,
      const struct hd_view_probe *probe) {
	const struct hd_view_passage *fastest = &own->last[index];

	if (fastest->other == probe->target
	    || fastest_bps(view, fastest->other, probe->at) > (1 + PROBE_SAME) * fastest->bps)
		return true;
	for (uint32_t i = 0; i < HD_VIEW_PASSAGES; i++)
		if (i != index && own->last[i].other != fastest->other
		    && own->last[i].bps >= (1 - PROBE_SAME) * fastest->bps)
			return true;
	return !probe->hub
		&& hd_view_estimate(view, fastest->other).capacity_bps
		> (1 + PROBE_LIKE) * fastest->bps;
}

/* A burst takes more of a shared link than a transfer gets. Without a monitor the rate of recent transfers is kept. */
static bool may_raise(const struct hd_view *view, uint32_t link, hd_ns at) {
	return hd_view_is_watched(view, link, at)
		|| at > hd_ns_add(hd_view_proven(view, link), PROBE_STANDS_NS);
}

/* Whether a trunk on the path may have been the limit. */
static bool is_blurred(const struct hd_view *view, const struct hd_view_probe *probe) {
	for (uint8_t k = 1; k + 1 < probe->path_count; k++) {
		const uint32_t trunk = probe->path[k];

		if (trunk != probe->target
		    && (hd_view_estimate(view, trunk).capacity_bps
				<= (1 + PROBE_LIKE) * probe->rate_bps
			|| probe->at > hd_ns_add(hd_view_proven(view, trunk), PROBE_RECENT_NS)))
			return true;
	}
	return false;
}

/* Records it on each link of the path; on hosts' links only if no trunk may have been the limit. Returns the target's
 * passages; NULL: no memory. */
static const struct hd_view_passages *
remember(struct hd_view *view, const struct hd_view_probe *probe) {
	struct hd_view_passage passage = {.at = probe->at, .bps = probe->rate_bps};
	const bool blurred = is_blurred(view, probe);
	struct hd_view_passages *passages = NULL;

	for (uint8_t k = 0; k < probe->path_count; k++) {
		passages = hd_view_passages(view, probe->path[k]);
		if (!passages)
			return NULL;
		passage.other = narrowest_other(view, probe, k);
		if (!blurred || (k > 0 && k + 1 < probe->path_count))
			passages->last[passages->count++ % HD_VIEW_PASSAGES] = passage;
		if (probe->path[k] == probe->target || may_raise(view, probe->path[k], probe->at))
			hd_view_carried(view, probe->path[k], probe->rate_bps, probe->at);
	}
	return hd_view_passages(view, probe->target);
}

static bool
is_wider_rest(const struct hd_view *view, const struct hd_view_probe *probe, uint8_t trunk) {
	for (uint8_t k = 0; k < probe->path_count; k++)
		if (k != trunk
		    && (hd_view_estimate(view, probe->path[k]).capacity_bps
				<= (1 + PROBE_LIKE) * probe->rate_bps
			|| probe->at
				> hd_ns_add(hd_view_proven(view, probe->path[k]), PROBE_RECENT_NS)))
			return false;
	return true;
}

/* The trunks on a probe's path: a rate near the estimate confirms it, a lower one is accepted the third time. */
static void judge_trunks(struct hd_view *view, const struct hd_view_probe *probe) {
	for (uint8_t k = 1; k + 1 < probe->path_count; k++) {
		const uint32_t trunk = probe->path[k];
		const struct hd_view_passages *own = hd_view_passages(view, trunk);
		const double known = hd_view_estimate(view, trunk).capacity_bps;
		double most = 0;

		if (trunk == probe->target || !own || !is_wider_rest(view, probe, k))
			continue;
		for (uint32_t i = 0; i < HD_VIEW_PASSAGES; i++)
			most = fmax(most, i < own->count ? own->last[i].bps : INFINITY);
		if (probe->rate_bps >= (1 - PROBE_LIKE) * known)
			hd_view_measured(view, trunk, probe->rate_bps, probe->at);
		else if (most < (1 - PROBE_LIKE) * known)
			hd_view_measured(view, trunk, most, probe->at);
	}
}

/* Whether the target has carried more than one host can send, and the rest of the path no more than measured: then the
 * rest was the limit, which is known. */
static bool is_narrow_rest(const struct hd_view *view, const struct hd_view_probe *probe) {
	if (!view->links[probe->target].summed)
		return false;
	for (uint8_t k = 0; k < probe->path_count; k++)
		if (probe->path[k] != probe->target
		    && hd_view_estimate(view, probe->path[k]).capacity_bps
			    <= (1 + PROBE_LIKE) * probe->rate_bps)
			return true;
	return false;
}

/* The target carried this rate, and perhaps more: a sample that only raises. */
static void at_least(struct hd_view *view, const struct hd_view_probe *probe) {
	if (!hd_view_cover(view, probe->target))
		return;
	view->links[probe->target].samples += view->links[probe->target].samples < UINT32_MAX;
	hd_view_carried(view, probe->target, probe->rate_bps, probe->at);
}

enum hd_view_verdict hd_view_probe(struct hd_view *view, const struct hd_view_probe *probe) {
	const struct hd_view_passages *own;
	uint32_t low = 0, fastest = 0;
	double known;

	if (!(probe->rate_bps > 0) || !isfinite(probe->rate_bps))
		return HD_VIEW_SETTLED;
	if (!probe->exact) {
		at_least(view, probe);
		return HD_VIEW_SETTLED;
	}
	own = remember(view, probe);
	if (!own)
		return HD_VIEW_SETTLED;
	judge_trunks(view, probe);
	known = hd_view_estimate(view, probe->target).capacity_bps;
	if (probe->rate_bps >= (1 - PROBE_LIKE) * known) {
		hd_view_measured(view, probe->target, probe->rate_bps, probe->at);
		return HD_VIEW_SETTLED;
	}
	if (is_blurred(view, probe))
		return HD_VIEW_LOWER;
	if (is_narrow_rest(view, probe))
		return HD_VIEW_SETTLED;
	for (uint32_t i = 0; i < HD_VIEW_PASSAGES && i < own->count; i++) {
		low += own->last[i].bps < (1 - PROBE_LIKE) * known;
		fastest = own->last[i].bps > own->last[fastest].bps ? i : fastest;
	}
	if (low < HD_VIEW_PASSAGES)
		return HD_VIEW_LOWER;
	if (tells(view, own, fastest, probe))
		hd_view_measured(view, probe->target, own->last[fastest].bps, probe->at);
	return HD_VIEW_SETTLED;
}
