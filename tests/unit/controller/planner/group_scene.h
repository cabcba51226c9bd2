/* SPDX-License-Identifier: BSD-3-Clause */
/* A star of workers, one server and some aggregators, for tests of grouping. */
#ifndef GROUP_SCENE_H
#define GROUP_SCENE_H

#include "hd_plan_group.h"

#define GROUP_SCENE_WORKERS 32
#define GROUP_SCENE_AGGREGATORS 3
/* Links: the server's two, then each aggregator's two, then each worker's two. */
#define GROUP_SERVER_IN 0u
#define GROUP_SERVER_OUT 1u
#define GROUP_INTO(aggregator) (2u + 2u * (aggregator))
#define GROUP_OUT_OF(aggregator) (3u + 2u * (aggregator))
#define GROUP_UP(worker) (2u + 2u * GROUP_SCENE_AGGREGATORS + 2u * (worker))
#define GROUP_DOWN(worker) (3u + 2u * GROUP_SCENE_AGGREGATORS + 2u * (worker))
#define GROUP_LINKS (2u + 2u * GROUP_SCENE_AGGREGATORS + 2u * GROUP_SCENE_WORKERS)
#define GROUP_BUSY 8

struct group_scene {
	struct hd_plan *plan;
	struct hd_plan_grouper *grouper;
	double capacity[GROUP_LINKS];
	struct hd_plan_tenant tenant;
	struct hd_plan_job jobs[2];
	struct hd_plan_item items[GROUP_SCENE_WORKERS];
	struct hd_plan_busy busy[GROUP_BUSY];
	struct hd_plan_input in;
	double memory[GROUP_SCENE_AGGREGATORS];
	int host[GROUP_SCENE_AGGREGATORS]; /* the worker on whose host it is; -1: its own */
	struct hd_plan_group_input group;
	struct hd_plan_grouped out;
};

/* Every link of capacity 1, no updates, no aggregators, tau_max 1000, window 64. */
void group_scene_init(struct group_scene *scene);
void group_scene_fini(struct group_scene *scene);
/* A transfer of one unit by the next worker (worker i of item i), of version 0. */
struct hd_plan_item *group_scene_add(struct group_scene *scene, uint8_t direction);
/* Plans and groups; fails the test on error. */
void group_scene_run(struct group_scene *scene);

/* The moment of the last commit of `entries`, and their mean. */
double group_scene_last(const struct group_scene *scene, const struct hd_plan_entry *entries);
double group_scene_mean(const struct group_scene *scene, const struct hd_plan_entry *entries);
/* Fails unless: no link carries more than it can, every transfer carries its amount, members are consecutive and
 * of one kind, sums and copies leave when they may, commits stand in order, positions are the plan's. */
void group_scene_check(const struct group_scene *scene);

#endif
