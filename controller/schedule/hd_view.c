/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_view.h"
#include "hd_view_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of an unexplained shortfall a quarter is believed: one transfer that was unlucky must not make the
 * planner put others beside the next. Of a second one in a row all. Samples near the estimate smooth it
 * by as much. */
#define VIEW_GAIN 0.25
/* What runs beside is a mean of ours, not a measurement. */
#define VIEW_GAIN_BESIDE 0.5
/* A transfer that its own pacing held back for this share of its time says nothing about the limit. */
#define VIEW_PACED 0.5
/* Shorter transfers measure latency rather than capacity: they may raise, not lower. */
#define VIEW_BYTES_MIN 32768
/* Samples within 10 % of what was predicted are explained by the prediction. */
#define VIEW_TOLERANCE 0.9
/* A shortfall of less than this is a small one. */
#define VIEW_SMALL 0.75
/* Transfers that share a link use it less well than one alone: full with this much of its estimate. */
#define VIEW_FULL 0.85
/* A link that carried its estimate beside a full one may well carry more: tried by so much. */
#define VIEW_TRY 1.1

struct link_state {
	double capacity_bps; /* known: the estimate; else the most that it was seen to carry */
	double spread_bps;
	hd_ns updated;
	hd_ns proven; /* when it last was the limit */
	hd_ns carried; /* when it last carried about its estimate */
	uint32_t samples;
	struct hd_view_passages passages;
	double short_bps; /* what the last of these saw on it */
	uint32_t short_count; /* unexplained shortfalls on paths over it since then */
	struct hd_view_loads *loads; /* NULL: no monitor has reported */
	bool known; /* a network-limited sample was put down to it */
};

struct hd_view {
	double initial_bps;
	double best_bps; /* greatest capacity_bps of all links; 0: none */
	bool any_known;
	struct link_state *links;
	uint32_t count;
};

int hd_view_create(double initial_bps, struct hd_view **view) {
	if (!(initial_bps > 0) || !isfinite(initial_bps))
		return -EINVAL;
	struct hd_view *made = calloc(1, sizeof *made);
	if (made == NULL)
		return -ENOMEM;
	made->initial_bps = initial_bps;
	*view = made;
	return 0;
}

void hd_view_destroy(struct hd_view *view) {
	if (view == NULL)
		return;
	for (uint32_t l = 0; l < view->count; l++)
		free(view->links[l].loads);
	free(view->links);
	free(view);
}

static bool cover(struct hd_view *view, uint32_t link) {
	if (link < view->count)
		return true;
	if (link >= HD_LINKS_MAX)
		return false;
	uint32_t wanted = view->count == 0 ? 64 : view->count;
	while (wanted <= link)
		wanted *= 2;
	struct link_state *larger = realloc(view->links, wanted * sizeof *larger);
	if (larger == NULL)
		return false;
	memset(larger + view->count, 0, (wanted - view->count) * sizeof *larger);
	view->links = larger;
	view->count = wanted;
	return true;
}

static double believed(const struct hd_view *view, uint32_t link) {
	if (link < view->count && view->links[link].known)
		return view->links[link].capacity_bps;
	return view->any_known ? view->best_bps : fmax(view->initial_bps, view->best_bps);
}

static void find_best(struct hd_view *view) {
	view->best_bps = 0;
	for (uint32_t l = 0; l < view->count; l++)
		view->best_bps = fmax(view->best_bps, view->links[l].capacity_bps);
}

static void set(struct hd_view *view, uint32_t link, double capacity_bps, hd_ns at) {
	struct link_state *state = &view->links[link];
	const double before = state->capacity_bps;

	state->capacity_bps = capacity_bps;
	state->updated = at;
	if (capacity_bps >= view->best_bps)
		view->best_bps = capacity_bps;
	else if (before >= view->best_bps)
		find_best(view);
}

/* The link with the least estimated residual; of equal ones the one that is known best, so that an
 * unsampled link keeps the benefit of the doubt. */
static uint8_t least_residual(const struct hd_view *view, const struct hd_view_sample *sample) {
	uint8_t least = 0;

	for (uint8_t k = 1; k < sample->path_count; k++) {
		const uint32_t here = sample->path[k], there = sample->path[least];
		const double a = believed(view, here) - sample->beside_bps[k];
		const double b = believed(view, there) - sample->beside_bps[least];

		if (a < b || (a == b && view->links[here].samples > view->links[there].samples))
			least = k;
	}
	return least;
}

/* Whom to blame for a shortfall that the estimates do not explain: the link with the most shortfalls
 * since it last carried what it should. A slow uplink is told from the server's link so, because the
 * other hosts' transfers keep clearing the server's link; a slow server's link, because every
 * host's transfers accuse it. First offence on both: the one whose last good moment is older. Only links that
 * had no more than `within_bps` left come into question; `least` is one of them. */
static uint8_t
suspect(const struct hd_view *view,
	const struct hd_view_sample *sample,
	uint8_t least,
	double within_bps) {
	uint8_t worst = least;

	for (uint8_t k = 0; k < sample->path_count; k++) {
		const struct link_state *a = &view->links[sample->path[k]];
		const struct link_state *b = &view->links[sample->path[worst]];

		if (believed(view, sample->path[k]) - sample->beside_bps[k] > within_bps)
			continue;

		if (a->short_count > b->short_count
		    || (a->short_count == b->short_count && a->carried < b->carried))
			worst = k;
	}
	return worst;
}

/* What was seen on a link: the transfer, and what ran beside it. Where a monitor counted, no more than that,
 * as what ran beside is only reckoned. */
static double seen_on(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const double reckoned = sample->rate_bps + sample->beside_bps[k];
	const double counted
		= hd_view_total_bps(view, sample->path[k], sample->started, sample->at);

	return counted >= 0 ? fmax(sample->rate_bps, fmin(reckoned, counted)) : reckoned;
}

/* Every link carried what was seen on it; our own goodput is certain, the rest a mean. */
static void raise_carried(struct hd_view *view, const struct hd_view_sample *sample) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		const uint32_t link = sample->path[k];
		struct link_state *state = &view->links[link];
		const double seen = seen_on(view, sample, k);
		const double before = believed(view, link), floor = state->capacity_bps;
		const double gain = state->samples == 0 ? 1 : VIEW_GAIN_BESIDE;

		state->spread_bps += VIEW_GAIN * (fabs(seen - before) - state->spread_bps);
		state->samples += state->samples < UINT32_MAX;
		if (seen > floor)
			set(view,
			    link,
			    fmax(sample->rate_bps, floor + gain * (seen - floor)),
			    sample->at);
		if (seen >= VIEW_TOLERANCE * before) {
			state->carried = sample->at;
			state->short_count = 0;
		}
	}
}

/* A network-limited sample put down to one link. */
static void
limit(struct hd_view *view, const struct hd_view_sample *sample, uint8_t k, double seen, double gain
) {
	const uint32_t link = sample->path[k];
	struct link_state *state = &view->links[link];
	/* The very first of all replaces an assumption. */
	const double before = view->any_known ? believed(view, link) : seen;

	state->known = view->any_known = true;
	state->proven = sample->at;
	set(view, link, before + gain * (seen - before), sample->at);
}

static bool sound(const struct hd_view_sample *sample) {
	if (!(sample->rate_bps > 0) || !isfinite(sample->rate_bps) || sample->path_count == 0
	    || !(sample->limited >= 0))
		return false;
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (!(sample->beside_bps[k] >= 0) || !isfinite(sample->beside_bps[k]))
			return false;
	return true;
}

/* The link that was full, by its estimate, with other transfers of ours on it; or path_count. What a
 * transfer missed of its prediction its companions had there, and no other link is to blame. */
static uint8_t shared_full(const struct hd_view *view, const struct hd_view_sample *sample) {
	uint8_t full = sample->path_count;
	double most = VIEW_FULL;

	for (uint8_t k = 0; k < sample->path_count; k++) {
		const double share = seen_on(view, sample, k) / believed(view, sample->path[k]);

		if (sample->beside_bps[k] > 0 && share >= most) {
			most = share;
			full = k;
		}
	}
	/* Unless a link that it had alone was fuller: then that one was the limit. */
	for (uint8_t k = 0; k < sample->path_count && full < sample->path_count; k++)
		if (sample->beside_bps[k] <= 0
		    && sample->rate_bps / believed(view, sample->path[k]) > most)
			return sample->path_count;
	return full;
}

/* An estimate that is too low confirms itself: the planner fills the rest of the shared link with
 * others, and then nobody can carry more. */
static void try_more(struct hd_view *view, const struct hd_view_sample *sample, uint8_t full) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		const uint32_t link = sample->path[k];
		const double before = believed(view, link);
		const double seen = seen_on(view, sample, k);

		if (k != full && view->links[link].known && seen >= VIEW_TOLERANCE * before
		    && before < view->best_bps)
			set(view, link, fmin(VIEW_TRY * before, view->best_bps), sample->at);
	}
}

/* A shortfall that nothing explains. A small one smooths a link that had about what was predicted.
 * Of others the second in a row is believed, but as little of the two as it can be: one transfer
 * that was very unlucky beside one that was a little is no fallen link. */
static void fall_short(
	struct hd_view *view,
	const struct hd_view_sample *sample,
	uint8_t least,
	double predicted
) {
	const bool small = sample->rate_bps >= VIEW_SMALL * predicted;
	const uint8_t guilty
		= suspect(view, sample, least, small ? predicted / VIEW_TOLERANCE : INFINITY);
	const struct link_state *state = &view->links[sample->path[guilty]];
	const double seen = seen_on(view, sample, guilty);
	double gain = VIEW_GAIN, believe = seen;

	if (state->short_count > 0 && !small) {
		gain = 1;
		believe = fmax(seen, state->short_bps);
	}
	limit(view, sample, guilty, believe, gain * (1 - sample->limited));
	for (uint8_t k = 0; k < sample->path_count; k++) {
		view->links[sample->path[k]].short_count++;
		view->links[sample->path[k]].short_bps = seen_on(view, sample, k);
	}
}

void hd_view_sample(struct hd_view *view, const struct hd_view_sample *sample) {
	if (!sound(sample))
		return;
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (!cover(view, sample->path[k]))
			return;
	const uint8_t least = least_residual(view, sample);
	const double predicted = believed(view, sample->path[least]) - sample->beside_bps[least];

	const uint8_t full = shared_full(view, sample);

	raise_carried(view, sample);
	if (full < sample->path_count)
		try_more(view, sample, full);
	if (sample->limited >= VIEW_PACED || sample->bytes < VIEW_BYTES_MIN)
		return;
	if (full < sample->path_count) {
		limit(view,
		      sample,
		      full,
		      seen_on(view, sample, full),
		      VIEW_GAIN * (1 - sample->limited));
		return;
	}
	if (sample->rate_bps >= VIEW_TOLERANCE * predicted) {
		limit(view,
		      sample,
		      least,
		      seen_on(view, sample, least),
		      VIEW_GAIN * (1 - sample->limited));
		return;
	}
	fall_short(view, sample, least, predicted);
}

struct hd_view_loads *hd_view_loads(struct hd_view *view, uint32_t link, bool make) {
	struct link_state *state;

	if (!make && link >= view->count)
		return NULL;
	if (!cover(view, link))
		return NULL;
	state = &view->links[link];
	if (!state->loads && make)
		state->loads = calloc(1, sizeof(*state->loads));
	return state->loads;
}

void hd_view_carried(struct hd_view *view, uint32_t link, double bps, hd_ns at) {
	if (cover(view, link) && bps > view->links[link].capacity_bps)
		set(view, link, bps, at);
}

struct hd_view_passages *hd_view_passages(struct hd_view *view, uint32_t link) {
	return cover(view, link) ? &view->links[link].passages : NULL;
}

void hd_view_measured(struct hd_view *view, uint32_t link, double bps, hd_ns at) {
	struct link_state *state;

	if (!cover(view, link))
		return;
	state = &view->links[link];
	state->known = view->any_known = true;
	state->proven = state->carried = at;
	state->short_count = 0;
	state->samples += state->samples < UINT32_MAX;
	set(view, link, bps, at);
}

hd_ns hd_view_proven(const struct hd_view *view, uint32_t link) {
	return link < view->count ? view->links[link].proven : 0;
}

struct hd_estimate hd_view_estimate(const struct hd_view *view, uint32_t link) {
	struct hd_estimate estimate = {.capacity_bps = believed(view, link)};

	if (link < view->count) {
		estimate.spread_bps = view->links[link].spread_bps;
		estimate.updated = view->links[link].updated;
		estimate.samples = view->links[link].samples;
	}
	return estimate;
}
