/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_view.h"
#include "hd_view_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int hd_view_create(double initial_bps, struct hd_view **view) {
	if (!(initial_bps > 0) || !isfinite(initial_bps))
		return -EINVAL;
	struct hd_view *made = calloc(1, sizeof *made);
	if (!made)
		return -ENOMEM;
	made->initial_bps = initial_bps;
	*view = made;
	return 0;
}

void hd_view_destroy(struct hd_view *view) {
	if (!view)
		return;
	for (uint32_t l = 0; l < view->count; l++)
		free(view->links[l].loads);
	free(view->links);
	free(view);
}

bool hd_view_cover(struct hd_view *view, uint32_t link) {
	if (link < view->count)
		return true;
	if (link >= HD_LINKS_MAX)
		return false;
	uint32_t wanted = view->count == 0 ? 64 : view->count;
	while (wanted <= link)
		wanted *= 2;
	struct hd_view_link *larger = realloc(view->links, wanted * sizeof *larger);
	if (!larger)
		return false;
	memset(larger + view->count, 0, (wanted - view->count) * sizeof *larger);
	view->links = larger;
	view->count = wanted;
	return true;
}

double hd_view_believed(const struct hd_view *view, uint32_t link) {
	if (link < view->count && view->links[link].known)
		return view->links[link].capacity_bps;
	const double best = link < view->count ?
		fmax(view->best_bps, view->links[link].capacity_bps) :
		view->best_bps;
	return view->any_known ? best : fmax(view->initial_bps, best);
}

/* The rate that a single transfer has shown. */
static double shown_bps(const struct hd_view_link *state) {
	return state->summed ? fmin(state->alone_bps, state->capacity_bps) : state->capacity_bps;
}

static void find_best(struct hd_view *view) {
	view->best_bps = 0;
	for (uint32_t l = 0; l < view->count; l++)
		view->best_bps = fmax(view->best_bps, shown_bps(&view->links[l]));
}

void hd_view_set(struct hd_view *view, uint32_t link, double capacity_bps, hd_ns at) {
	struct hd_view_link *state = &view->links[link];
	const double before = shown_bps(state);

	state->capacity_bps = capacity_bps;
	state->updated = at;
	if (shown_bps(state) >= view->best_bps)
		view->best_bps = shown_bps(state);
	else if (before >= view->best_bps)
		find_best(view);
}

void hd_view_forget(struct hd_view *view, uint32_t link) {
	bool best;

	if (link >= view->count)
		return;
	best = view->links[link].known || shown_bps(&view->links[link]) >= view->best_bps;
	free(view->links[link].loads);
	view->links[link] = (struct hd_view_link){0};
	if (!best)
		return;
	find_best(view);
	view->any_known = false;
	for (uint32_t l = 0; l < view->count && !view->any_known; l++)
		view->any_known = view->links[l].known;
}

struct hd_view_loads *hd_view_loads(struct hd_view *view, uint32_t link, bool make) {
	struct hd_view_link *state;

	if (!make && link >= view->count)
		return NULL;
	if (!hd_view_cover(view, link))
		return NULL;
	state = &view->links[link];
	if (!state->loads && make)
		state->loads = calloc(1, sizeof *state->loads);
	return state->loads;
}

void hd_view_carried(struct hd_view *view, uint32_t link, double bps, hd_ns at) {
	if (hd_view_cover(view, link) && bps > view->links[link].capacity_bps)
		hd_view_set(view, link, bps, at);
}

struct hd_view_passages *hd_view_passages(struct hd_view *view, uint32_t link) {
	return hd_view_cover(view, link) ? &view->links[link].passages : NULL;
}

void hd_view_measured(struct hd_view *view, uint32_t link, double bps, hd_ns at) {
	struct hd_view_link *state;

	if (!hd_view_cover(view, link))
		return;
	state = &view->links[link];
	state->known = view->any_known = true;
	state->proven = state->carried = at;
	state->short_count = 0;
	state->samples += state->samples < UINT32_MAX;
	hd_view_set(view, link, bps, at);
}

hd_ns hd_view_proven(const struct hd_view *view, uint32_t link) {
	return link < view->count ? view->links[link].proven : 0;
}

struct hd_estimate hd_view_estimate(const struct hd_view *view, uint32_t link) {
	struct hd_estimate estimate = {.capacity_bps = hd_view_believed(view, link)};

	if (link < view->count) {
		estimate.spread_bps = view->links[link].spread_bps;
		estimate.updated = view->links[link].updated;
		estimate.samples = view->links[link].samples;
	}
	return estimate;
}
