/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other tenants' traffic on a link, and our remaining rate: max-min fair, where our transfers stand for w flows.
 *
 *   capacity |----- steady -----|-- n elastic flows --|-- ours --|
 *
 *   each elastic flow and each of our w gets x = (capacity - steady) / (n + w), unless the elastic ones
 *   need less: then we get the rest.
 */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>
#include <stdlib.h>

/* An older report is ignored: the monitor, or the path to it, is lost. */
#define VIEW_LOAD_FRESH_NS (1500 * HD_MS)
/* Totals over a shorter time than this may measure a queue rather than the link. */
#define VIEW_TOTAL_NS (450 * HD_MS)
/* Our minimum on a link that is full of others' steady traffic. */
#define VIEW_SHARE_LEAST (1.0 / 64)

/* The share of a full link that the loads account for. */
#define VIEW_LOAD_FULL 0.85
/* A flow with this share of the rate of one of ours competes with it. */
#define VIEW_LIKE_OURS 0.5

static double beside_ours(const struct hd_view_load *load) {
	return load->beside_ours_bps >= 0 ? load->beside_ours_bps : load->others_bps;
}

void hd_view_load(struct hd_view *view, uint32_t link, const struct hd_view_load *load) {
	struct hd_view_loads *loads;
	double bits = 0;
	hd_ns span = 0;

	if (load->span == 0 || !(load->ours_bps >= 0) || !(load->others_bps >= 0)
	    || !(load->steady_bps >= 0) || !(load->elastic_bps >= 0) || !isfinite(load->ours_bps)
	    || !isfinite(load->others_bps) || !isfinite(load->steady_bps)
	    || !isfinite(load->elastic_bps) || !(load->pressing_bps >= 0)
	    || !isfinite(load->pressing_bps) || isnan(load->beside_ours_bps) || isnan(load->weight)
	    || !(load->total_bps >= 0) || !isfinite(load->total_bps))
		return;
	loads = hd_view_loads(view, link, true);
	if (!loads)
		return;
	if (loads->count > 0 && load->at <= loads->ring[(loads->count - 1) % HD_VIEW_LOADS_KEPT].at)
		return;
	loads->ring[loads->count++ % HD_VIEW_LOADS_KEPT] = *load;
	for (uint64_t i = loads->count; i > 0 && loads->count - i < HD_VIEW_LOADS_KEPT; i--) {
		const struct hd_view_load *past = &loads->ring[(i - 1) % HD_VIEW_LOADS_KEPT];

		if (span >= VIEW_TOTAL_NS)
			break;
		span += past->span;
		bits += (past->ours_bps + past->others_bps) * (double)past->span;
	}
	if (span >= VIEW_TOTAL_NS)
		hd_view_carried(view, link, bits / (double)span, load->at);
}

double hd_view_others_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to) {
	const struct hd_view_loads *loads = hd_view_loads((struct hd_view *)view, link, false);
	double bits = 0, covered = 0;

	if (!loads || from >= to)
		return 0;
	for (uint64_t i = loads->count; i > 0 && loads->count - i < HD_VIEW_LOADS_KEPT; i--) {
		const struct hd_view_load *load = &loads->ring[(i - 1) % HD_VIEW_LOADS_KEPT];
		hd_ns begin = load->at > load->span ? load->at - load->span : 0;
		hd_ns start = hd_ns_max(begin, from), end = hd_ns_min(load->at, to);

		if (load->at <= from)
			break;
		if (start >= end)
			continue;
		covered += (double)(end - start);
		bits += (double)(end - start) * beside_ours(load);
	}
	return covered > 0 ? bits / covered : 0;
}

double hd_view_total_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to) {
	const struct hd_view_loads *loads = hd_view_loads((struct hd_view *)view, link, false);
	double most = 0;

	if (!loads || loads->count == 0 || from >= to
	    || from > hd_ns_add(
		       loads->ring[(loads->count - 1) % HD_VIEW_LOADS_KEPT].at, VIEW_LOAD_FRESH_NS
	       ))
		return -1;
	for (uint64_t i = loads->count; i > 0 && loads->count - i < HD_VIEW_LOADS_KEPT; i--) {
		const struct hd_view_load *load = &loads->ring[(i - 1) % HD_VIEW_LOADS_KEPT];

		if (load->at <= from)
			break;
		if (load->at < hd_ns_add(to, load->span))
			most = fmax(most, load->total_bps);
	}
	return most;
}

static const struct hd_view_load *newest(const struct hd_view *view, uint32_t link, hd_ns now) {
	const struct hd_view_loads *loads = hd_view_loads((struct hd_view *)view, link, false);
	const struct hd_view_load *load;

	if (!loads || loads->count == 0)
		return NULL;
	load = &loads->ring[(loads->count - 1) % HD_VIEW_LOADS_KEPT];
	return now > hd_ns_add(load->at, VIEW_LOAD_FRESH_NS) ? NULL : load;
}

bool hd_view_is_watched(const struct hd_view *view, uint32_t link, hd_ns now) {
	return newest(view, link, now);
}

bool hd_view_covers(const struct hd_view *view, uint32_t link, hd_ns at, hd_ns now) {
	const struct hd_view_load *load = newest(view, link, now);

	return !load || load->at >= at;
}

/* Whether others' fast flows would yield to one more of ours: each of them has the rate of one of ours on a full link,
 * or the link is full of them. Otherwise they have all that they need. */
static bool elastic(const struct hd_view_load *load, double capacity, double room, double weight) {
	double one = load->elastic_bps / load->flows;
	bool full = load->pressing_bps > 0
		&& load->pressing_bps + beside_ours(load) >= VIEW_LOAD_FULL * capacity;

	if (load->elastic_bps >= room / (load->flows + weight) * load->flows)
		return true;
	return full && one >= VIEW_LIKE_OURS * load->pressing_bps / fmax(load->weight, 1);
}

double hd_view_share(const struct hd_view *view, uint32_t link, hd_ns now, double weight) {
	const struct hd_view_load *load = newest(view, link, now);
	double capacity = hd_view_estimate(view, link).capacity_bps;
	double room, share;

	if (!load)
		return capacity;
	room = fmax(capacity - load->steady_bps, 0);
	share = room;
	if (load->flows > 0)
		share = elastic(load, capacity, room, weight) ?
			weight * room / (load->flows + weight) :
			room - load->elastic_bps;
	return fmax(share, VIEW_SHARE_LEAST * capacity);
}
