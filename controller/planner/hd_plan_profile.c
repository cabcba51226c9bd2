/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_profile.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COARSE (HD_PLAN_BREAKPOINTS_MAX - HD_PLAN_BREAKPOINTS_MAX / 4)
#define TIDY_MIN 24

static int make_room(struct hd_profile *profile, uint32_t wanted) {
	wanted++; /* the sentinel */
	if (wanted <= profile->room)
		return 0;
	uint32_t room = profile->room == 0 ? 8 : profile->room;
	while (room < wanted)
		room *= 2;
	struct hd_profile_piece *larger = realloc(profile->pieces, room * sizeof *larger);
	if (!larger)
		return -ENOMEM;
	profile->pieces = larger;
	profile->room = room;
	return 0;
}

/* The last piece has no end: a sentinel follows it, so that walks need not count. Restores the floors down to piece 0,
 * when those after `last` are right, and those before `first` only depend on them. */
static void seal(struct hd_profile *profile, uint32_t first, uint32_t last) {
	struct hd_profile_piece *pieces = profile->pieces;
	uint32_t k = last < profile->count ? last + 1 : profile->count;

	pieces[profile->count] = (struct hd_profile_piece){INFINITY, 0, INFINITY, HD_PLAN_NONE};
	while (k-- > 0) {
		const double after = pieces[k + 1].floor;
		const double floor = pieces[k].free < after ? pieces[k].free : after;

		if (k < first && pieces[k].floor == floor)
			return;
		pieces[k].floor = floor;
	}
}

static double end_of(const struct hd_profile *profile, uint32_t piece) {
	return profile->pieces[piece + 1].at;
}

int hd_profile_reset(struct hd_profile *profile, double capacity) {
	if (make_room(profile, 1) < 0)
		return -ENOMEM;
	profile->pieces[0]
		= (struct hd_profile_piece){.at = 0, .free = capacity, .by = HD_PLAN_NONE};
	profile->count = 1;
	seal(profile, 0, 0);
	profile->changes = 0;
	profile->capacity = capacity;
	profile->load = 0;
	profile->nothing = HD_PROFILE_SLIVER * capacity;
	profile->tidy = TIDY_MIN;
	return 0;
}

void hd_profile_fini(struct hd_profile *profile) {
	free(profile->pieces);
	*profile = (struct hd_profile){0};
}

/* The error when piece k joins the one before it. */
static double join_loss(const struct hd_profile *profile, uint32_t k) {
	const struct hd_profile_piece *a = &profile->pieces[k - 1], *b = &profile->pieces[k];

	return a->free > b->free ? (a->free - b->free) * (b->at - a->at) :
				   (b->free - a->free) * (end_of(profile, k) - b->at);
}

/* Joins the cheapest neighbours until a quarter of the pieces is gone; never the last one. */
static void coarsen(struct hd_profile *profile) {
	while (profile->count > COARSE) {
		uint32_t cheapest = 1;
		double least = INFINITY;

		for (uint32_t k = 1; k + 1 < profile->count; k++) {
			const double loss = join_loss(profile, k);

			if (loss < least) {
				least = loss;
				cheapest = k;
			}
		}
		struct hd_profile_piece *joined = &profile->pieces[cheapest - 1];
		joined->free = fmin(joined->free, joined[1].free);
		memmove(joined + 1, joined + 2, (profile->count - cheapest - 1) * sizeof *joined);
		profile->count--;
	}
}

int hd_profile_append(struct hd_profile *profile, double at, double free, uint32_t by) {
	struct hd_profile_piece *last = &profile->pieces[profile->count - 1];

	if (free < profile->nothing)
		free = 0;
	if (at <= last->at) {
		last->free = free;
		return 0;
	}
	if (fabs(free - last->free) <= HD_PROFILE_EQUAL * profile->capacity) {
		last->free = fmin(free, last->free);
		return 0;
	}
	if (make_room(profile, profile->count + 1) < 0)
		return -ENOMEM;
	profile->pieces[profile->count++]
		= (struct hd_profile_piece){.at = at, .free = free, .by = by};
	if (profile->count > HD_PLAN_BREAKPOINTS_MAX)
		coarsen(profile);
	return 0;
}

void hd_profile_seal(struct hd_profile *profile) {
	seal(profile, 0, profile->count);
}

uint32_t hd_profile_find(const struct hd_profile *profile, double at) {
	uint32_t low = 0, high = profile->count;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (profile->pieces[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The piece that begins at `at`, within rounding; created if there is none. There is space for it. */
static uint32_t split(struct hd_profile *profile, double at) {
	const double rounding = HD_PROFILE_EQUAL * at;
	const uint32_t k = hd_profile_find(profile, at + rounding);
	struct hd_profile_piece *piece = &profile->pieces[k];

	if (piece->at >= at - rounding)
		return k;
	memmove(piece + 1, piece, (profile->count - k) * sizeof *piece);
	profile->count++;
	piece[1].at = at;
	piece[1].by = HD_PLAN_NONE;
	return k + 1;
}

/* Joins equal neighbours from piece `first` to piece `last`. */
static void join_equal(struct hd_profile *profile, uint32_t first, uint32_t last) {
	const double equal = HD_PROFILE_EQUAL * profile->capacity;
	uint32_t kept = first == 0 ? 0 : first - 1, k = kept + 1;

	for (; k < profile->count && k <= last; k++) {
		struct hd_profile_piece *into = &profile->pieces[kept];
		const struct hd_profile_piece *piece = &profile->pieces[k];

		if (fabs(into->free - piece->free) <= equal)
			into->free = fmin(into->free, piece->free);
		else if (++kept != k)
			profile->pieces[kept] = *piece;
	}
	if (kept + 1 == k)
		return;
	memmove(&profile->pieces[kept + 1],
		&profile->pieces[k],
		(profile->count - k) * sizeof *profile->pieces);
	profile->count -= k - kept - 1;
}

int hd_profile_take(
	struct hd_profile *profile,
	const struct hd_plan_segment *segment,
	uint32_t by
) {
	if (make_room(profile, profile->count + 2) < 0)
		return -ENOMEM;
	const uint32_t first = split(profile, segment->start);
	const uint32_t last = split(profile, segment->end);
	for (uint32_t k = first; k < last; k++) {
		const double left = profile->pieces[k].free - segment->rate;

		profile->pieces[k].free = left < profile->nothing ? 0 : left;
	}
	if (by != HD_PLAN_NONE)
		profile->pieces[last].by = by;
	profile->changes++;
	join_equal(profile, first, last);
	if (profile->count > HD_PLAN_BREAKPOINTS_MAX) {
		coarsen(profile);
		hd_profile_seal(profile);
	} else
		seal(profile, first == 0 ? 0 : first - 1, last);
	return 0;
}

void hd_profile_forget(struct hd_profile *profile, double at) {
	struct hd_profile_piece *pieces = profile->pieces;
	/* Keeps the piece that contains `at`, and the two before it: a caller also needs the time just before. */
	const uint32_t k = hd_profile_find(profile, at), kept = k < 3 ? 1 : k - 2;

	if (kept > 1) {
		pieces[0].free = pieces[0].floor = 0;
		memmove(&pieces[1], &pieces[kept], (profile->count + 1 - kept) * sizeof *pieces);
		profile->count -= kept - 1;
	}
	profile->tidy = profile->count < TIDY_MIN / 2 ? TIDY_MIN : 2 * profile->count;
}

double hd_profile_first_free(const struct hd_profile *profile) {
	return profile->pieces[0].free > 0 ? 0 : end_of(profile, 0);
}

/* Walks the pieces of a path: all its links are constant on [at, until). When one has no residual the walk skips the
 * pieces of the others meanwhile. */
struct walk {
	const struct hd_profile *links[HD_PLAN_PATH_MAX];
	uint32_t piece[HD_PLAN_PATH_MAX];
	uint8_t count;
	double at, until, rate;
	double least, most;
};

/* The piece that contains `at`, at or after `piece`: usually near it. */
static uint32_t advance(const struct hd_profile *link, uint32_t piece, double at) {
	const struct hd_profile_piece *pieces = link->pieces;
	uint32_t low = piece, step = 1;

	while (low + step < link->count && pieces[low + step].at <= at) {
		low += step;
		step *= 2;
	}
	for (; step > 0; step /= 2)
		if (low + step < link->count && pieces[low + step].at <= at)
			low += step;
	return low;
}

static void walk_look(struct walk *walk) {
	double blocked = -1;

	walk->rate = walk->most;
	walk->until = INFINITY;
	for (uint8_t k = 0; k < walk->count; k++) {
		const struct hd_profile *link = walk->links[k];
		const uint32_t piece = walk->piece[k];
		const double free = link->pieces[piece].free, end = end_of(link, piece);

		if (free < walk->rate)
			walk->rate = free;
		if (end < walk->until)
			walk->until = end;
		if (free < walk->least && end > blocked)
			blocked = end;
	}
	if (blocked >= 0) {
		walk->until = blocked;
		walk->rate = 0;
	}
	/* Ends that differ by rounding leave pieces of no length: these have no use. */
	if (walk->until - walk->at <= HD_PROFILE_EQUAL * walk->at)
		walk->rate = 0;
}

static void walk_next(struct walk *walk) {
	walk->at = walk->until;
	for (uint8_t k = 0; k < walk->count; k++)
		walk->piece[k] = advance(walk->links[k], walk->piece[k], walk->at);
	walk_look(walk);
}

static void walk_begin(struct walk *walk, const struct hd_profile_path *path) {
	walk->count = path->count;
	walk->at = path->from;
	walk->least = fmax(path->least * (1 - HD_PROFILE_EQUAL), DBL_MIN);
	walk->most = path->most > 0 ? path->most : INFINITY;
	for (uint8_t k = 0; k < path->count; k++) {
		walk->links[k] = &path->profiles[path->links[k]];
		walk->piece[k] = advance(walk->links[k], 0, walk->at);
	}
	walk_look(walk);
}

/* Where `left` ends within the present piece, or INFINITY. An end within rounding of the piece's end is that end: so
 * breakpoints create no slivers. */
static double walk_end(const struct walk *walk, double left, double equal) {
	const double room = walk->rate * (walk->until - walk->at);

	if (!(room >= left - equal))
		return INFINITY;
	return room <= left + equal ? walk->until : walk->at + left / walk->rate;
}

/* The piece that contains `at`, at or after this one. */
static inline const struct hd_profile_piece *
leap(const struct hd_profile_piece *piece, const struct hd_profile_piece *end, double at) {
	ptrdiff_t step = 1;

	for (int near = 0; near < 6; near++, piece++)
		if (piece[1].at > at) /* the sentinel's is INFINITY */
			return piece;
	while (step < end - piece && piece[step].at <= at) {
		piece += step;
		step *= 2;
	}
	for (; step > 0; step /= 2)
		if (step < end - piece && piece[step].at <= at)
			piece += step;
	return piece;
}

/* The same walk for the finish alone: nearly all of a plan's time is spent here. `count` is a constant at each call, so
 * that the loops over links unroll. */
static inline __attribute__((always_inline)) double
finish_over(struct hd_profile_path *path, const uint8_t count, double amount) {
	const struct hd_profile_piece *piece[HD_PLAN_PATH_MAX], *end[HD_PLAN_PATH_MAX];
	const double equal = HD_PROFILE_EQUAL * amount;
	const double least = fmax(path->least * (1 - HD_PROFILE_EQUAL), DBL_MIN);
	double left = amount, at = path->from;

	for (uint8_t k = 0; k < count; k++) {
		const struct hd_profile *profile = &path->profiles[path->links[k]];

		end[k] = profile->pieces + profile->count;
		piece[k] = leap(profile->pieces, end[k], at);
	}
	for (;;) {
		double rate = INFINITY, until = INFINITY, blocked = 0;
		double floor = INFINITY, steady = INFINITY;

		for (uint8_t k = 0; k < count; k++) {
			const double free = piece[k]->free, ends = piece[k][1].at;

			rate = free < rate ? free : rate;
			until = ends < until ? ends : until;
			floor = piece[k]->floor < floor ? piece[k]->floor : floor;
			steady = ends == INFINITY && free < steady ? free : steady;
			blocked = free < least && ends > blocked ? ends : blocked;
		}
		if (blocked > 0) {
			at = blocked;
			for (uint8_t k = 0; k < count; k++) {
				piece[k] = leap(piece[k], end[k], at);
				for (; piece[k]->free < least; piece[k]++)
					at = piece[k][1].at;
			}
			for (uint8_t k = 0; k < count; k++)
				piece[k] = leap(piece[k], end[k], at);
			continue;
		}
		if (left == amount)
			path->from = at;
		if (steady <= floor) /* a link that stays as it is, and no other gets slower */
			return at + left / steady;
		const double length = until - at, room = rate * length;
		if (length > HD_PROFILE_EQUAL * at) {
			if (room >= left - equal)
				return room <= left + equal ? until : at + left / rate;
			left -= room;
		}
		at = until;
		for (uint8_t k = 0; k < count; k++)
			piece[k] += piece[k][1].at <= at;
	}
}

double hd_profile_finish(struct hd_profile_path *path, double amount) {
	if (path->count == 0)
		return 0;
	if (path->count == 2)
		return finish_over(path, 2, amount);
	return finish_over(path, path->count, amount);
}

void hd_profile_start(struct hd_profile_path *path) {
	struct walk walk;

	if (path->count == 0)
		return;
	for (walk_begin(&walk, path); walk.rate <= 0;)
		walk_next(&walk);
	path->from = walk.at;
}

/* Intervals that end at the present piece, by start: each begins later at a higher least rate. */
struct stairs {
	struct hd_plan_segment step[HD_PLAN_CANDIDATES_MAX];
	uint8_t count;
};

static void stairs_add(struct stairs *stairs, const struct walk *walk) {
	double start = walk->at;

	/* Ends of different links that differ by rounding: no interval ends there. */
	if (walk->until - walk->at <= HD_PROFILE_EQUAL * walk->at)
		return;
	while (stairs->count > 0 && stairs->step[stairs->count - 1].rate >= walk->rate)
		start = stairs->step[--stairs->count].start;
	if (walk->rate > 0 && stairs->count < HD_PLAN_CANDIDATES_MAX)
		stairs->step[stairs->count++]
			= (struct hd_plan_segment){.start = start, .rate = walk->rate};
}

/* Of all constant rates on one interval from here on, the one that carries `left` first; of equal ones the one that
 * begins first. */
static struct hd_plan_segment widen(struct walk *walk, double left) {
	struct stairs stairs = {.count = 0};

	for (;; walk_next(walk)) {
		struct hd_plan_segment best = {0, INFINITY, 0};

		stairs_add(&stairs, walk);
		for (uint8_t k = 0; k < stairs.count; k++) {
			const struct hd_plan_segment *step = &stairs.step[k];
			const double end = step->start + left / step->rate;

			if (end <= walk->until && hd_plan_key(end) < hd_plan_key(best.end))
				best = (struct hd_plan_segment){step->start, end, step->rate};
		}
		if (best.rate > 0)
			return best;
	}
}

uint8_t hd_profile_segments(
	const struct hd_profile_path *path,
	double amount,
	struct hd_plan_segment *segments
) {
	const double equal = HD_PROFILE_EQUAL * amount;
	double left = amount, last_left = amount;
	uint8_t count = 0;
	struct walk walk, last_walk = {.count = 0};

	if (path->count == 0)
		return 0;
	for (walk_begin(&walk, path);; walk_next(&walk)) {
		if (walk.rate <= 0)
			continue;
		const double end = walk_end(&walk, left, equal);
		struct hd_plan_segment *now = &segments[count == 0 ? 0 : count - 1];
		if (count > 0 && hd_plan_key(now->end) == hd_plan_key(walk.at)
		    && hd_plan_key(now->rate) == hd_plan_key(walk.rate)) {
			now->end = fmin(end, walk.until);
			now->rate = fmin(now->rate, walk.rate);
		} else if (count == HD_SEGMENTS_MAX) {
			segments[count - 1] = widen(&last_walk, last_left);
			return count;
		} else {
			segments[count++] = (struct hd_plan_segment
			){walk.at, fmin(end, walk.until), walk.rate};
			last_walk = walk;
			last_left = left;
		}
		if (end < INFINITY)
			return count;
		left -= walk.rate * (walk.until - walk.at);
	}
}
