/* SPDX-License-Identifier: BSD-3-Clause */
/* Evaluates one ended transfer for the links of its path, alone and together with earlier ones. */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>

/* An unexplained shortfall moves an estimate by a quarter: a single slow transfer must not make the planner put others
 * beside the next one. Samples near the estimate smooth it by as much. */
#define VIEW_GAIN 0.25
/* The rate beside a transfer is a mean of ours, not a measurement. */
#define VIEW_GAIN_BESIDE 0.5
/* A transfer that was limited by its own pacing for this share of its time gives no information about the limit. */
#define VIEW_PACED 0.5
/* Shorter transfers measure latency rather than capacity: they may raise, not lower. */
#define VIEW_BYTES_MIN 32768
/* Samples within 10 % of the prediction are explained by it. */
#define VIEW_TOLERANCE 0.9
/* A shortfall of less than this is a small one. */
#define VIEW_SMALL 0.75
/* Transfers that share a link use it less well than one alone: it is full with this share of its estimate. */
#define VIEW_FULL 0.85
/* A link that carried its estimate beside a full one may carry more: it is tried with this multiple. */
#define VIEW_TRY 1.08
/* A transfer at the limit of its pacing had this multiple of its grant: the next is tried with as much again. */
#define VIEW_STRIDE 1.25
/* How far back a monitor's reports are used. */
#define VIEW_COUNTED_NS HD_SECOND
/* Transfers agree within this: only a common limit makes them so equal. */
#define VIEW_AGREE 0.03
/* A link whose traffic varies by more than this was not the limit. */
#define VIEW_VARIES 1.3

/* The link with the least estimated residual; of equal ones the one that is known best, so that an unsampled link keeps
 * its estimate. */
static uint8_t least_residual(const struct hd_view *view, const struct hd_view_sample *sample) {
	uint8_t least = 0;

	for (uint8_t k = 1; k < sample->path_count; k++) {
		const uint32_t here = sample->path[k], there = sample->path[least];
		const double a = hd_view_believed(view, here) - sample->beside_bps[k];
		const double b = hd_view_believed(view, there) - sample->beside_bps[least];

		if (a < b || (a == b && view->links[here].samples > view->links[there].samples))
			least = k;
	}
	return least;
}

/* The mean rate of all our transfers on a link in this time. */
static double mean_on(const struct hd_view_sample *sample, uint8_t k) {
	return sample->rate_bps + sample->beside_bps[k];
}

/* The rate on a link: of the transfer and of those beside it. With a monitor, no more than the highest of its recent
 * reports, as the rate beside is only estimated. Not only the last report: a report is a mean, and the link may have
 * been full in a part of that time only. */
static double seen_on(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const double estimated = mean_on(sample, k);
	const hd_ns from = sample->started - hd_ns_min(sample->started, VIEW_COUNTED_NS);
	const double counted = hd_view_total_bps(view, sample->path[k], from, sample->at);

	return counted >= 0 ? fmax(sample->rate_bps, fmin(estimated, counted)) : estimated;
}

static bool is_alone(const struct hd_view_sample *sample, uint8_t k) {
	return sample->beside_bps[k] <= VIEW_AGREE * sample->rate_bps;
}

/* --- evidence of several transfers --- */

static bool agrees(double a, double b) {
	return fabs(a - b) <= VIEW_AGREE * fmax(a, b);
}

static uint32_t mark_count(const struct hd_view_marks *marks) {
	return marks->count < HD_VIEW_MARKS ? marks->count : HD_VIEW_MARKS;
}

/* The newest but `back`. */
static const struct hd_view_mark *mark_at(const struct hd_view_marks *marks, uint32_t back) {
	return &marks->last[(marks->count - 1 - back) % HD_VIEW_MARKS];
}

/* The other link of the path with the highest rate beside the transfer; the link itself: there is no other. */
static uint8_t busiest_other(const struct hd_view_sample *sample, uint8_t except) {
	uint8_t busiest = except;

	for (uint8_t k = 0; k < sample->path_count; k++)
		if (k != except
		    && (busiest == except || sample->beside_bps[k] > sample->beside_bps[busiest]))
			busiest = k;
	return busiest;
}

/* `limiting`: the link that was found to be the limit. */
static void remember(struct hd_view *view, const struct hd_view_sample *sample, uint8_t limiting) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
		const uint8_t other = busiest_other(sample, k);

		marks->last[marks->count++ % HD_VIEW_MARKS] = (struct hd_view_mark){
			.at = sample->at,
			.seen_bps = seen_on(view, sample, k),
			.rest_bps = mean_on(sample, other),
			.link = sample->path[other],
			.open = k == limiting || limiting == sample->path_count,
		};
	}
}

/* Whether a link that it had alone was the limit: its transfers get the same rate again and again, and the other link
 * of their path had room, or its traffic varied. */
static bool is_steady(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
	const uint8_t other = busiest_other(sample, k);
	double least = mean_on(sample, other), most = least;

	if (!is_alone(sample, k) || other == k)
		return false;
	for (uint32_t i = 0; i < mark_count(marks); i++) {
		const struct hd_view_mark *mark = mark_at(marks, i);

		if (!agrees(mark->seen_bps, sample->rate_bps) || mark->link != sample->path[other])
			return false;
		least = fmin(least, mark->rest_bps);
		most = fmax(most, mark->rest_bps);
		if (most < VIEW_FULL * hd_view_believed(view, mark->link)
		    || (i >= 1 && most > VIEW_VARIES * least))
			return true;
	}
	return false;
}

/* The link that this transfer and the ones before it show to be the limit; or path_count. */
static uint8_t steady_link(const struct hd_view *view, const struct hd_view_sample *sample) {
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (is_steady(view, sample, k))
			return k;
	return sample->path_count;
}

/* How many of the last transfers over a link agree with this one about it: their rates there, with all transfers beside
 * them. On a shared link only transfers of other hosts count: those of one host are as equal on the host's own link. */
static uint32_t
agreeing(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
	const uint32_t link = sample->path[busiest_other(sample, k)];
	const double seen = seen_on(view, sample, k);
	uint32_t count = 0;

	for (uint32_t i = 0; i < mark_count(marks); i++)
		count += agrees(mark_at(marks, i)->seen_bps, seen)
			&& (is_alone(sample, k)
			    || (mark_at(marks, i)->open && mark_at(marks, i)->link != link));
	return count;
}

/* The link that most of them agree about; of equal ones one that this had alone; path_count: none. */
static uint8_t accused(const struct hd_view *view, const struct hd_view_sample *sample) {
	uint8_t most = sample->path_count;
	uint32_t count = 0;

	for (uint8_t k = 0; k < sample->path_count; k++) {
		const uint32_t here = agreeing(view, sample, k);

		if (here > count || (here > 0 && here == count && is_alone(sample, k))) {
			count = here;
			most = k;
		}
	}
	return most;
}

/* Another link was the limit: estimates that single transfers lowered are restored. */
static void acquit(struct hd_view *view, const struct hd_view_sample *sample, uint8_t guilty) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		struct hd_view_link *state = &view->links[sample->path[k]];

		if (k != guilty && state->former_bps > state->capacity_bps)
			hd_view_set(view, sample->path[k], state->former_bps, sample->at);
		state->former_bps = 0;
		state->short_count = 0;
	}
}

/* --- one transfer --- */

/* Every link carried at least the observed rate; our own goodput is certain, the rest a mean. On links where the sum
 * gives `nothing` new (hd_view_reached()) only that goodput counts. */
static void
raise_carried(struct hd_view *view, const struct hd_view_sample *sample, uint32_t nothing) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		const uint32_t link = sample->path[k];
		struct hd_view_link *state = &view->links[link];
		const double seen = seen_on(view, sample, k);
		const double before = hd_view_believed(view, link), floor = state->capacity_bps;
		const double gain = state->samples == 0 ? 1 : VIEW_GAIN_BESIDE;

		state->spread_bps += VIEW_GAIN * (fabs(seen - before) - state->spread_bps);
		state->samples += state->samples < UINT32_MAX;
		if (nothing >> k & 1)
			hd_view_carried(view, link, sample->rate_bps, sample->at);
		else if (seen > floor)
			hd_view_set(
				view,
				link,
				fmax(sample->rate_bps, floor + gain * (seen - floor)),
				sample->at
			);
		if (seen >= VIEW_TOLERANCE * before) {
			state->carried = sample->at;
			state->short_count = 0;
			state->former_bps = 0;
		}
	}
}

/* Two transfers in a row were limited by their grants: the link that was taken for the limit is far faster, and raising
 * it by a quarter with each transfer would take long. */
static void stride(struct hd_view *view, const struct hd_view_sample *sample, uint8_t least) {
	struct hd_view_link *state = &view->links[sample->path[least]];
	const double more = fmin(VIEW_STRIDE * sample->rate_bps, view->best_bps);

	if (sample->limited < 1 || sample->bytes < VIEW_BYTES_MIN) {
		state->strides = 0;
		return;
	}
	if (state->strides++ > 0 && is_alone(sample, least) && state->known
	    && more > state->capacity_bps)
		hd_view_set(view, sample->path[least], more, sample->at);
}

/* Attributes a network-limited sample to one link. */
static void
limit(struct hd_view *view, const struct hd_view_sample *sample, uint8_t k, double seen, double gain
) {
	const uint32_t link = sample->path[k];
	struct hd_view_link *state = &view->links[link];
	/* The first sample of all replaces an assumption. */
	const double before = view->any_known ? hd_view_believed(view, link) : seen;

	state->known = view->any_known = true;
	state->proven = sample->at;
	hd_view_set(view, link, before + gain * (seen - before), sample->at);
}

/* The link that was full, by its estimate, with other transfers of ours on it; or path_count. The transfers beside it
 * got the rate that it lacked, and no other link was the limit. */
static uint8_t shared_full(const struct hd_view *view, const struct hd_view_sample *sample) {
	uint8_t full = sample->path_count;
	double most = VIEW_FULL;

	for (uint8_t k = 0; k < sample->path_count; k++) {
		const double share
			= seen_on(view, sample, k) / hd_view_believed(view, sample->path[k]);

		if (sample->beside_bps[k] > 0 && share >= most) {
			most = share;
			full = k;
		}
	}
	/* Unless a link that it had alone was fuller: then that one was the limit. */
	for (uint8_t k = 0; k < sample->path_count && full < sample->path_count; k++)
		if (sample->beside_bps[k] <= 0
		    && sample->rate_bps / hd_view_believed(view, sample->path[k]) > most)
			return sample->path_count;
	return full;
}

/* An estimate that is too low confirms itself: the planner fills the rest of the shared link with other transfers, and
 * then none can be faster. */
static void try_more(struct hd_view *view, const struct hd_view_sample *sample, uint8_t full) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		const uint32_t link = sample->path[k];
		const double before = hd_view_believed(view, link);
		const double seen = seen_on(view, sample, k);

		if (k != full && view->links[link].known && seen >= VIEW_TOLERANCE * before
		    && before < view->best_bps)
			hd_view_set(
				view,
				link,
				fmin(fmax(VIEW_TRY * seen, before), view->best_bps),
				sample->at
			);
	}
}

/* The link to which a shortfall is attributed that neither estimates nor earlier transfers explain: the one with the
 * most such shortfalls since it last carried its estimate; of equal ones the one that did so less recently. Only links
 * with a residual of at most `within_bps` are candidates; `least` is one of them. */
static uint8_t
suspect(const struct hd_view *view,
	const struct hd_view_sample *sample,
	uint8_t least,
	double within_bps) {
	uint8_t worst = least;

	for (uint8_t k = 0; k < sample->path_count; k++) {
		const struct hd_view_link *a = &view->links[sample->path[k]];
		const struct hd_view_link *b = &view->links[sample->path[worst]];

		if (hd_view_believed(view, sample->path[k]) - sample->beside_bps[k] > within_bps)
			continue;

		if (a->short_count > b->short_count
		    || (a->short_count == b->short_count && a->carried < b->carried))
			worst = k;
	}
	return worst;
}

/* An unexplained shortfall. One that agrees with an earlier one is accepted. A small one smooths a link that had about
 * the predicted rate. Of others the second in a row is accepted, with the higher rate of the two: one very slow
 * transfer beside a slightly slow one does not mean that the link is slower. */
static void fall_short(
	struct hd_view *view,
	const struct hd_view_sample *sample,
	uint8_t least,
	double predicted
) {
	const bool small = sample->rate_bps >= VIEW_SMALL * predicted;
	uint8_t guilty = accused(view, sample);
	double gain = VIEW_GAIN, believe;
	struct hd_view_link *state;

	if (guilty < sample->path_count) {
		limit(view, sample, guilty, seen_on(view, sample, guilty), 1 - sample->limited);
		acquit(view, sample, guilty);
		return;
	}
	guilty = suspect(view, sample, least, small ? predicted / VIEW_TOLERANCE : INFINITY);
	state = &view->links[sample->path[guilty]];
	believe = seen_on(view, sample, guilty);
	if (state->short_count > 0 && !small) {
		gain = is_alone(sample, guilty) ? 1 : VIEW_GAIN;
		believe = fmax(believe, state->short_bps);
	}
	if (state->former_bps <= 0)
		state->former_bps = hd_view_believed(view, sample->path[guilty]);
	limit(view, sample, guilty, believe, gain * (1 - sample->limited));
	for (uint8_t k = 0; k < sample->path_count; k++) {
		view->links[sample->path[k]].short_count++;
		view->links[sample->path[k]].short_bps = seen_on(view, sample, k);
	}
}

static bool sound(const struct hd_view_sample *sample) {
	if (!(sample->rate_bps > 0) || !isfinite(sample->rate_bps) || sample->path_count == 0
	    || !(sample->limited >= 0))
		return false;
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (!(sample->beside_bps[k] >= 0) || !isfinite(sample->beside_bps[k])
		    || (sample->ours_bps && !isfinite(sample->ours_bps[k]))
		    || (sample->carried_bps && !isfinite(sample->carried_bps[k])))
			return false;
	return true;
}

/* A link that it had alone and that gave it its estimate; or path_count. */
static uint8_t explaining(const struct hd_view *view, const struct hd_view_sample *sample) {
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (view->links[sample->path[k]].known && is_alone(sample, k)
		    && agrees(sample->rate_bps, hd_view_believed(view, sample->path[k])))
			return k;
	return sample->path_count;
}

/* Finds the link that limited it. Returns that link, or path_count when it is unclear. */
static uint8_t
judge(struct hd_view *view,
      const struct hd_view_sample *sample,
      uint8_t least,
      double predicted,
      uint8_t full) {
	const uint8_t steady = steady_link(view, sample), alone = explaining(view, sample);
	const double gain = VIEW_GAIN * (1 - sample->limited);

	if (steady < sample->path_count) {
		limit(view, sample, steady, sample->rate_bps, 1);
		acquit(view, sample, steady);
		return steady;
	}
	if (alone < sample->path_count) {
		limit(view, sample, alone, sample->rate_bps, gain);
		return alone;
	}
	if (full < sample->path_count) {
		limit(view, sample, full, seen_on(view, sample, full), gain);
		return full;
	}
	if (sample->rate_bps >= VIEW_TOLERANCE * predicted) {
		limit(view, sample, least, seen_on(view, sample, least), gain);
		return least;
	}
	fall_short(view, sample, least, predicted);
	return sample->path_count;
}

void hd_view_sample(struct hd_view *view, const struct hd_view_sample *sample) {
	if (!sound(sample))
		return;
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (!hd_view_cover(view, sample->path[k]))
			return;
	const uint8_t least = least_residual(view, sample);
	const double predicted
		= hd_view_believed(view, sample->path[least]) - sample->beside_bps[least];
	const uint8_t full = shared_full(view, sample);
	uint32_t shared = 0;
	uint8_t limiting;

	if (sample->bytes >= VIEW_BYTES_MIN)
		shared = hd_view_reached(view, sample, sample->limited < VIEW_PACED);
	raise_carried(view, sample, shared);
	stride(view, sample, least);
	if (full < sample->path_count)
		try_more(view, sample, full);
	if (sample->limited >= 1 || sample->bytes < VIEW_BYTES_MIN)
		return;
	if (sample->limited < VIEW_PACED)
		limiting = judge(view, sample, least, predicted, full);
	else
		limiting = steady_link(view, sample);
	remember(view, sample, limiting);
}
