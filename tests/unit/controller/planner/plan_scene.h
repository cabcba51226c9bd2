/* SPDX-License-Identifier: BSD-3-Clause */
/* Random planner inputs, small enough to be planned again by the reference. */
#ifndef PLAN_SCENE_H
#define PLAN_SCENE_H

#include "hd_plan.h"
#include "hd_random.h"

#define SCENE_LINKS 12
#define SCENE_ITEMS 52
#define SCENE_BUSY 8
#define SCENE_OWNERS 4

struct scene_shape {
	uint32_t links, items, busy, jobs, tenants;
	double pulls; /* share of the items */
	bool theta, ageing;
	bool tenths; /* of everything: what is equal on paper differs by rounding */
	bool fine; /* amounts that are not whole: finishes rarely tie, profiles get many pieces */
};

struct scene {
	struct hd_plan_input in;
	double capacity[SCENE_LINKS];
	struct hd_plan_busy busy[SCENE_BUSY];
	struct hd_plan_tenant tenants[SCENE_OWNERS];
	struct hd_plan_job jobs[SCENE_OWNERS];
	struct hd_plan_item items[SCENE_ITEMS];
};

/* Whole small numbers on purpose: ties, exhausted links and equal ends are frequent. */
void scene_fill(struct scene *scene, const struct scene_shape *shape, struct hd_random *random);
/* As text, for a failing seed. */
void scene_print(const struct scene *scene);

#endif
