/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping once more, by trying everything: each split of the pushes into consecutive groups, each group direct
 * or at each aggregator. It shares no code with the planner; store and forward, one job, about (a + 2)^n. */
#ifndef GROUP_REFERENCE_H
#define GROUP_REFERENCE_H

#include "group_scene.h"

struct group_reference {
	double last, mean; /* of the best: the last commit, then the mean */
	double direct_last, direct_mean;
	uint32_t tried;
	bool pieces; /* some transfer has more pieces than a grant: the planner's ends later */
};

/* For the order of scene->group.entries, none of which may be dropped. */
struct group_reference group_reference(const struct group_scene *scene);

#endif
