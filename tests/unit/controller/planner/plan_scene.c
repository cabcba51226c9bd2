/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan_scene.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t below(struct hd_random *random, uint32_t bound) {
	return (uint32_t)hd_random_below(random, bound);
}

/* Link 0 is the server's, and on most paths. */
static void fill_path(struct scene *scene, struct hd_plan_item *item, struct hd_random *random) {
	const uint32_t links = scene->in.link_count;

	if (hd_random_chance(random, 0.02))
		return;
	for (uint32_t l = links - 1; l > 0; l--)
		if (item->path_count < 3 && hd_random_chance(random, 1.2 / links))
			item->path[item->path_count++] = l;
	if (item->path_count == 0 || hd_random_chance(random, 0.9))
		item->path[item->path_count++] = 0;
}

static void
fill_items(struct scene *scene, const struct scene_shape *shape, struct hd_random *random) {
	for (uint32_t i = 0; i < shape->items; i++) {
		struct hd_plan_item *item = &scene->items[i];

		item->id = 1
			+ (i * 7 + 3) % (shape->items <= 16 ? 17 : 53); /* unique, not in order */
		item->job = below(random, shape->jobs);
		item->direction
			= hd_random_chance(random, shape->pulls) ? HD_PLAN_PULL : HD_PLAN_PUSH;
		item->version = scene->jobs[item->job].v_init - below(random, 8);
		item->amount = 1 + (shape->fine ? 12 * hd_random_unit(random) : below(random, 12));
		item->amount *= shape->tenths ? 0.1 : 1;
		item->waited = below(random, 4);
		item->keep = hd_random_chance(random, 0.2);
		fill_path(scene, item, random);
	}
}

void scene_fill(struct scene *scene, const struct scene_shape *shape, struct hd_random *random) {
	static const double capacities[] = {1, 2, 2.5, 3, 5, 10};
	static const double share_mins[] = {0, 0, 0.25, 0.5, 1};
	static const double thetas[] = {0, 0.5, 1, 3};

	const double unit = shape->tenths ? 0.1 : 1;

	*scene = (struct scene){
		.in = {
			.link_count = shape->links,
			.capacity = scene->capacity,
			.busy_count = shape->busy,
			.busy = scene->busy,
			.tenant_count = shape->tenants,
			.tenants = scene->tenants,
			.job_count = shape->jobs,
			.jobs = scene->jobs,
			.item_count = shape->items,
			.items = scene->items,
			.ageing_s = shape->ageing ? 2 : INFINITY,
			.share_min = share_mins[(shape->items + shape->busy) % 5],
		},
	};
	for (uint32_t l = 0; l < shape->links; l++)
		scene->capacity[l] = capacities[below(random, 6)] * unit;
	for (uint32_t b = 0; b < shape->busy; b++) {
		struct hd_plan_busy *busy = &scene->busy[b];

		busy->link = below(random, shape->links);
		busy->start = (double)below(random, 6) * unit - unit;
		busy->end = busy->start + below(random, 4) * unit;
		busy->rate = scene->capacity[busy->link] / (1 + below(random, 3));
		busy->token = 100 + below(random, 4);
	}
	for (uint32_t t = 0; t < shape->tenants; t++) {
		scene->tenants[t].weight = 1 + below(random, 3);
		scene->tenants[t].deficit = (double)below(random, 10) - 5;
	}
	for (uint32_t j = 0; j < shape->jobs; j++) {
		scene->jobs[j] = (struct hd_plan_job){
			.tenant = j < shape->tenants ? j : below(random, shape->tenants),
			.v_init = 20 + below(random, 3),
			.tau_max = 3 + below(random, 12),
			.theta = shape->theta ? thetas[below(random, 4)] : INFINITY,
			.server_free = below(random, 3),
		};
	}
	fill_items(scene, shape, random);
}

void scene_print(const struct scene *scene) {
	for (uint32_t l = 0; l < scene->in.link_count; l++)
		(void)fprintf(stderr, "link %u: %g\n", l, scene->capacity[l]);
	for (uint32_t b = 0; b < scene->in.busy_count; b++)
		(void)fprintf(
			stderr,
			"busy %u: link %u [%g, %g) at %g token %lu\n",
			b,
			scene->busy[b].link,
			scene->busy[b].start,
			scene->busy[b].end,
			scene->busy[b].rate,
			(unsigned long)scene->busy[b].token
		);
	for (uint32_t j = 0; j < scene->in.job_count; j++)
		(void)fprintf(
			stderr,
			"job %u: tenant %u v_init %lu tau_max %u theta %g free %g\n",
			j,
			scene->jobs[j].tenant,
			(unsigned long)scene->jobs[j].v_init,
			scene->jobs[j].tau_max,
			scene->jobs[j].theta,
			scene->jobs[j].server_free
		);
	for (uint32_t i = 0; i < scene->in.item_count; i++) {
		const struct hd_plan_item *item = &scene->items[i];

		(void)fprintf(
			stderr,
			"item %u: id %lu job %u %s version %lu amount %g waited %g keep %d path",
			i,
			(unsigned long)item->id,
			item->job,
			item->direction == HD_PLAN_PULL ? "pull" : "push",
			(unsigned long)item->version,
			item->amount,
			item->waited,
			item->keep
		);
		for (uint8_t k = 0; k < item->path_count; k++)
			(void)fprintf(stderr, " %u", item->path[k]);
		(void)fprintf(stderr, "\n");
	}
}
