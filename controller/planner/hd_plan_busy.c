/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the profiles from existing reservations: a sweep over their ends. */
#include "hd_plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct edge {
	double at;
	double rate; /* added to the used rate */
	uint32_t by; /* HD_PLAN_NONE: no transfer ends here */
};

static int compare_promise(const void *a, const void *b, void *context) {
	const struct hd_plan_busy *busy = context;
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct hd_plan_busy *x = &busy[i], *y = &busy[j];

	if (x->link != y->link)
		return x->link < y->link ? -1 : 1;
	if (x->token != y->token)
		return x->token < y->token ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return i < j ? -1 : 1;
}

static int compare_edge(const void *a, const void *b) {
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return 0;
}

/* Of several transfers that end together the last in the list is the predecessor. */
static uint32_t later_of(uint32_t by, uint32_t other) {
	if (by == HD_PLAN_NONE || other == HD_PLAN_NONE)
		return by == HD_PLAN_NONE ? other : by;
	return by > other ? by : other;
}

static int sweep(struct hd_profile *profile, struct edge *edges, uint32_t count) {
	double used = 0;
	int64_t active = 0;

	qsort(edges, count, sizeof *edges, compare_edge);
	for (uint32_t k = 0; k < count;) {
		const double at = edges[k].at;
		uint32_t by = HD_PLAN_NONE;

		/* Ends that differ by rounding only are the same. */
		for (; k < count && edges[k].at - at <= HD_PROFILE_EQUAL * at; k++) {
			used += edges[k].rate;
			active += edges[k].rate > 0 ? 1 : -1;
			by = later_of(by, edges[k].by);
		}
		const double left = profile->capacity - (active > 0 ? used : 0);
		if (active == 0)
			used = 0;
		if (hd_profile_append(profile, at, left, by) < 0)
			return -ENOMEM;
	}
	hd_profile_seal(profile);
	return 0;
}

struct promises {
	const struct hd_plan_busy *busy;
	const uint32_t *order; /* by link, token, end */
	uint32_t count;
};

/* The edges of one link's reservations, from the one at `first`. Returns where the next link begins. */
static uint32_t
collect(const struct promises *promises, uint32_t first, struct edge *edges, uint32_t *edge_count) {
	const uint32_t link = promises->busy[promises->order[first]].link;
	uint32_t k = first, group_end = first, used = 0;

	for (; k < promises->count; k++) {
		const uint32_t index = promises->order[k];
		const struct hd_plan_busy *it = &promises->busy[index];

		if (it->link != link)
			break;
		while (group_end < promises->count
		       && promises->busy[promises->order[group_end]].link == link
		       && promises->busy[promises->order[group_end]].token == it->token)
			group_end++;
		if (it->end <= 0 || it->end == it->start || !(it->rate > 0))
			continue;
		const bool last = promises->busy[promises->order[group_end - 1]].end == it->end;
		edges[used++] = (struct edge){fmax(it->start, 0), it->rate, HD_PLAN_NONE};
		edges[used++] = (struct edge){
			it->end,
			-it->rate,
			last ? index | HD_PROFILE_BUSY : HD_PLAN_NONE,
		};
	}
	*edge_count = used;
	return k;
}

int hd_plan_load_busy(const struct hd_plan_input *in, struct hd_profile *profiles) {
	const uint32_t count = in->busy_count;
	uint32_t *order = malloc((count + 1) * sizeof *order);
	struct edge *edges = malloc((2 * (size_t)count + 1) * sizeof *edges);
	const struct promises promises = {in->busy, order, count};
	int rc = !order || !edges ? -ENOMEM : 0;

	for (uint32_t b = 0; rc == 0 && b < count; b++)
		order[b] = b;
	if (rc == 0 && count > 1)
		qsort_r(order, count, sizeof *order, compare_promise, (void *)in->busy);
	for (uint32_t first = 0; rc == 0 && first < count;) {
		const uint32_t link = in->busy[order[first]].link;
		uint32_t edge_count;

		first = collect(&promises, first, edges, &edge_count);
		rc = sweep(&profiles[link], edges, edge_count);
	}
	free(order);
	free(edges);
	return rc;
}
