/* SPDX-License-Identifier: BSD-3-Clause */
/* What one ended transfer says about the links of its path, by itself and beside earlier ones. */
#include "hd_view.h"
#include "hd_view_internal.h"

#include <math.h>

/* Of an unexplained shortfall a quarter is believed: one transfer that was unlucky must not make the
 * planner put others beside the next. Samples near the estimate smooth it by as much. */
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
#define VIEW_TRY 1.08
/* A transfer at the limit of its pacing had so much more than its grant: the next is tried with as much again. */
#define VIEW_STRIDE 1.25
/* How far back a monitor's reports count. */
#define VIEW_COUNTED_NS HD_SECOND
/* Transfers agree within this: only what holds them both back makes them so equal. */
#define VIEW_AGREE 0.03
/* What varies by more than this was not it. */
#define VIEW_VARIES 1.3

/* The link with the least estimated residual; of equal ones the one that is known best, so that an
 * unsampled link keeps the benefit of the doubt. */
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

/* All that ran on a link meanwhile, on average. */
static double mean_on(const struct hd_view_sample *sample, uint8_t k) {
	return sample->rate_bps + sample->beside_bps[k];
}

/* What was seen on a link: the transfer, and what ran beside it. Where a monitor counted, no more than the most of
 * its reports of late, as what ran beside is only reckoned; of late, because a report is a mean over times of
 * which the link was full in some only. */
static double seen_on(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const double reckoned = mean_on(sample, k);
	const hd_ns from = sample->started - hd_ns_min(sample->started, VIEW_COUNTED_NS);
	const double counted = hd_view_total_bps(view, sample->path[k], from, sample->at);

	return counted >= 0 ? fmax(sample->rate_bps, fmin(reckoned, counted)) : reckoned;
}

static bool is_alone(const struct hd_view_sample *sample, uint8_t k) {
	return sample->beside_bps[k] <= VIEW_AGREE * sample->rate_bps;
}

/* --- what several transfers say together --- */

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

/* Of the path's other links the one on which most ran beside it; the link itself: there is no other. */
static uint8_t busiest_other(const struct hd_view_sample *sample, uint8_t except) {
	uint8_t busiest = except;

	for (uint8_t k = 0; k < sample->path_count; k++)
		if (k != except
		    && (busiest == except || sample->beside_bps[k] > sample->beside_bps[busiest]))
			busiest = k;
	return busiest;
}

/* `limiting`: the link that it was put down to. */
static void remember(struct hd_view *view, const struct hd_view_sample *sample, uint8_t limiting) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
		const uint8_t other = busiest_other(sample, k);

		marks->last[marks->count++ % HD_VIEW_MARKS] = (struct hd_view_mark){
			.at = sample->at,
			.seen_bps = seen_on(view, sample, k),
			.rest_bps = mean_on(sample, other),
			.way = sample->path[other],
			.open = k == limiting || limiting == sample->path_count,
		};
	}
}

/* Whether a link that it had alone was the limit: its transfers get the same again and again, and on the other
 * link of their way there was room, or what passed there varied. */
static bool is_steady(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
	const uint8_t other = busiest_other(sample, k);
	double least = mean_on(sample, other), most = least;

	if (!is_alone(sample, k) || other == k)
		return false;
	for (uint32_t i = 0; i < mark_count(marks); i++) {
		const struct hd_view_mark *mark = mark_at(marks, i);

		if (!agrees(mark->seen_bps, sample->rate_bps) || mark->way != sample->path[other])
			return false;
		least = fmin(least, mark->rest_bps);
		most = fmax(most, mark->rest_bps);
		if (most < VIEW_FULL * hd_view_believed(view, mark->way)
		    || (i >= 1 && most > VIEW_VARIES * least))
			return true;
	}
	return false;
}

/* The link whose limit the transfer shows together with those before it; or path_count. */
static uint8_t steady_link(const struct hd_view *view, const struct hd_view_sample *sample) {
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (is_steady(view, sample, k))
			return k;
	return sample->path_count;
}

/* How many of the last transfers over a link agree with this one about it: what they had there, with all that ran
 * beside them. On a link that is shared only others' count: one host's are as equal on the host's own link. */
static uint32_t
agreeing(const struct hd_view *view, const struct hd_view_sample *sample, uint8_t k) {
	const struct hd_view_marks *marks = &view->links[sample->path[k]].marks;
	const uint32_t way = sample->path[busiest_other(sample, k)];
	const double seen = seen_on(view, sample, k);
	uint32_t count = 0;

	for (uint32_t i = 0; i < mark_count(marks); i++)
		count += agrees(mark_at(marks, i)->seen_bps, seen)
			&& (is_alone(sample, k)
			    || (mark_at(marks, i)->open && mark_at(marks, i)->way != way));
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

/* Another link was the limit: what single transfers took from these is given back. */
static void acquit(struct hd_view *view, const struct hd_view_sample *sample, uint8_t guilty) {
	for (uint8_t k = 0; k < sample->path_count; k++) {
		struct hd_view_link *state = &view->links[sample->path[k]];

		if (k != guilty && state->doubted_bps > state->capacity_bps)
			hd_view_set(view, sample->path[k], state->doubted_bps, sample->at);
		state->doubted_bps = 0;
		state->short_count = 0;
	}
}

/* --- one transfer --- */

/* Every link carried what was seen on it; our own goodput is certain, the rest a mean. Of one of which the
 * others' parts say `nothing` new (hd_view_reached()) only that goodput counts. */
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
			state->doubted_bps = 0;
		}
	}
}

/* Two in a row could have had more than they were allowed: the link that was taken for the limit is far wider,
 * and growing by a quarter with each transfer would take long. */
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

/* A network-limited sample put down to one link. */
static void
limit(struct hd_view *view, const struct hd_view_sample *sample, uint8_t k, double seen, double gain
) {
	const uint32_t link = sample->path[k];
	struct hd_view_link *state = &view->links[link];
	/* The very first of all replaces an assumption. */
	const double before = view->any_known ? hd_view_believed(view, link) : seen;

	state->known = view->any_known = true;
	state->proven = sample->at;
	hd_view_set(view, link, before + gain * (seen - before), sample->at);
}

/* The link that was full, by its estimate, with other transfers of ours on it; or path_count. What a
 * transfer missed of its prediction its companions had there, and no other link is to blame. */
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

/* An estimate that is too low confirms itself: the planner fills the rest of the shared link with
 * others, and then nobody can carry more. */
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

/* Whom to blame for a shortfall that the estimates do not explain, nor earlier transfers: the link with the most
 * such shortfalls since it last carried what it should; of equal ones the one whose last good moment is older.
 * Only links that had no more than `within_bps` left come into question; `least` is one of them. */
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

/* A shortfall that nothing explains. One that agrees with an earlier one is believed. Another that is small
 * smooths a link that had about what was predicted; of others the second in a row is believed, but as little of
 * the two as it can be: one transfer that was very unlucky beside one that was a little is no fallen link. */
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
	if (state->doubted_bps <= 0)
		state->doubted_bps = hd_view_believed(view, sample->path[guilty]);
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

/* A link that it had alone and that gave it what is known of it; or path_count. */
static uint8_t explaining(const struct hd_view *view, const struct hd_view_sample *sample) {
	for (uint8_t k = 0; k < sample->path_count; k++)
		if (view->links[sample->path[k]].known && is_alone(sample, k)
		    && agrees(sample->rate_bps, hd_view_believed(view, sample->path[k])))
			return k;
	return sample->path_count;
}

/* Which link held it back. Returns that link, or path_count when that is open. */
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
