/* SPDX-License-Identifier: BSD-3-Clause */
#include "group_reference.h"

#include <math.h>
#include <stdlib.h>

#define HELD_MAX 1024
#define TIMES_MAX (2 * HELD_MAX + 2)
#define DIRECT 0u
#define JOIN 1u /* the group of the one before */
#define NEW 2u /* + aggregator */

struct held {
	uint32_t link;
	double start, end, rate;
};

struct links {
	const double *capacity;
	struct held held[HELD_MAX];
	uint32_t count;
	bool pieces;
};

static double left(const struct links *links, uint32_t link, double at) {
	double rest = links->capacity[link];

	for (uint32_t h = 0; h < links->count; h++)
		if (links->held[h].link == link && links->held[h].start <= at
		    && at < links->held[h].end)
			rest -= links->held[h].rate;
	return rest < links->capacity[link] / 128 ? 0 : rest;
}

static double path_left(const struct links *links, const struct hd_plan_path *path, double at) {
	double rest = INFINITY;

	for (uint8_t k = 0; k < path->count; k++)
		rest = fmin(rest, left(links, path->links[k], at));
	return rest;
}

static int compare(const void *a, const void *b) {
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Moments from `from` on at which something changes; the last is INFINITY. */
static uint32_t moments(const struct links *links, double from, double *times) {
	uint32_t count = 0;

	times[count++] = from;
	for (uint32_t h = 0; h < links->count; h++) {
		if (links->held[h].start > from)
			times[count++] = links->held[h].start;
		if (links->held[h].end > from)
			times[count++] = links->held[h].end;
	}
	times[count++] = INFINITY;
	qsort(times, count, sizeof *times, compare);
	return count;
}

static double first_free(const struct links *links, const struct hd_plan_path *path, double from) {
	double times[TIMES_MAX];
	const uint32_t count = moments(links, from, times);

	for (uint32_t i = 0; i + 1 < count; i++)
		if (times[i + 1] - times[i] > 1e-9 && path_left(links, path, times[i]) > 0)
			return times[i];
	return INFINITY;
}

/* Fills greedily from `from` on; returns the end. */
static double
send(struct links *links, const struct hd_plan_path *path, double amount, double from) {
	double times[TIMES_MAX], end = from;
	const uint32_t count = moments(links, from, times);
	double last_rate = -1, last_end = -1;
	uint32_t pieces = 0;

	for (uint32_t i = 0; path->count > 0 && amount > 1e-12; i++) {
		const double rate = path_left(links, path, times[i]), start = times[i];

		if (rate <= 0 || times[i + 1] - start <= 1e-9)
			continue;
		end = fmin(times[i + 1], start + amount / rate);
		amount -= rate * (end - start);
		pieces += fabs(rate - last_rate) > 1e-9 || start > last_end + 1e-9;
		last_rate = rate;
		last_end = end;
		for (uint8_t k = 0; k < path->count && links->count < HELD_MAX; k++)
			links->held[links->count++]
				= (struct held){path->links[k], start, end, rate};
		if (i + 2 == count)
			break;
	}
	links->pieces |= pieces > HD_SEGMENTS_MAX;
	return end;
}

struct outcome {
	double last, sum;
	bool valid;
};

/* Sends entries [i, i + count) as one sum. False: it is not collected in time. */
static bool send_group(
	const struct group_scene *scene,
	struct links *links,
	uint32_t aggregator,
	uint32_t i,
	uint32_t count,
	double *commit
) {
	const struct hd_plan_paths *paths = &scene->group.paths;
	const struct hd_plan_item *first = &scene->items[scene->group.entries[i].item];
	struct hd_plan_path trunk, path;
	double collected = 0;

	paths->trunk(paths->context, scene->group.entries[i].item, aggregator, &trunk);
	const double limit = first_free(links, &trunk, *commit);
	for (uint32_t m = i; m < i + count; m++) {
		const uint32_t item = scene->group.entries[m].item;

		if (scene->items[item].kind != first->kind
		    || fabs(scene->items[item].amount - first->amount) > 0)
			return false;
		paths->member(paths->context, item, aggregator, &path);
		collected = fmax(collected, send(links, &path, first->amount, 0));
	}
	if (collected > limit + 1e-9)
		return false;
	*commit = fmax(*commit, send(links, &trunk, first->amount, collected));
	return true;
}

static struct outcome play(const struct group_scene *scene, const uint32_t *digits, bool *pieces) {
	const uint32_t count = scene->group.entry_count;
	struct links links = {.capacity = scene->capacity};
	double commit = scene->jobs[0].server_free;
	struct outcome outcome = {0, 0, true};
	uint32_t size;

	for (uint32_t b = 0; b < scene->in.busy_count; b++)
		links.held[links.count++] = (struct held
		){scene->busy[b].link,
		  scene->busy[b].start,
		  scene->busy[b].end,
		  scene->busy[b].rate};
	for (uint32_t i = 0; i < count && outcome.valid; i += size) {
		const struct hd_plan_item *item = &scene->items[scene->group.entries[i].item];
		struct hd_plan_path path = {.count = item->path_count};

		for (size = 1; i + size < count && digits[i + size] == JOIN;)
			size++;
		for (uint8_t k = 0; k < item->path_count; k++)
			path.links[k] = item->path[k];
		if (digits[i] == DIRECT) {
			outcome.valid = size == 1;
			commit = fmax(commit, send(&links, &path, item->amount, 0));
		} else {
			outcome.valid = digits[i] >= NEW && size > 1
				&& send_group(scene, &links, digits[i] - NEW, i, size, &commit);
		}
		outcome.sum += commit * size;
	}
	outcome.last = commit;
	*pieces |= outcome.valid && links.pieces;
	return outcome;
}

struct group_reference group_reference(const struct group_scene *scene) {
	uint32_t digits[16] = {0};
	const uint32_t count = scene->group.entry_count, base = NEW + scene->group.aggregator_count;
	struct group_reference best = {.last = INFINITY, .mean = INFINITY};

	for (;;) {
		const struct outcome outcome = play(scene, digits, &best.pieces);
		uint32_t k = 0;

		if (best.tried++ == 0) {
			best.direct_last = outcome.last;
			best.direct_mean = outcome.sum / count;
		}
		if (outcome.valid
		    && (outcome.last < best.last - 1e-9
			|| (outcome.last < best.last + 1e-9
			    && outcome.sum / count < best.mean - 1e-9))) {
			best.last = outcome.last;
			best.mean = outcome.sum / count;
		}
		while (k < count && ++digits[k] == base)
			digits[k++] = 0;
		if (k == count)
			return best;
	}
}
