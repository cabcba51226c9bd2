/* SPDX-License-Identifier: BSD-3-Clause */
#include "group_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NEAR 1e-9

static bool on_host(const struct group_scene *scene, uint32_t aggregator, uint32_t worker) {
	return scene->host[aggregator] == (int)worker;
}

/* A colocated aggregator's links are its host's. */
static uint32_t into(const struct group_scene *scene, uint32_t aggregator) {
	const int host = scene->host[aggregator];

	return host < 0 ? GROUP_INTO(aggregator) : GROUP_DOWN((uint32_t)host);
}

static uint32_t out_of(const struct group_scene *scene, uint32_t aggregator) {
	const int host = scene->host[aggregator];

	return host < 0 ? GROUP_OUT_OF(aggregator) : GROUP_UP((uint32_t)host);
}

static bool
member(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct group_scene *scene = context;
	const bool push = scene->items[item].direction == HD_PLAN_PUSH;

	path->count = 0;
	if (on_host(scene, aggregator, item))
		return true;
	path->count = 2;
	path->links[0] = push ? scene->items[item].path[0] : out_of(scene, aggregator);
	path->links[1] = push ? into(scene, aggregator) : GROUP_DOWN(item);
	return true;
}

static bool
trunk(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct group_scene *scene = context;
	const bool push = scene->items[item].direction == HD_PLAN_PUSH;

	path->count = 2;
	path->links[0] = push ? out_of(scene, aggregator) : GROUP_SERVER_OUT;
	path->links[1] = push ? GROUP_SERVER_IN : into(scene, aggregator);
	return true;
}

void group_scene_init(struct group_scene *scene) {
	*scene = (struct group_scene){.tenant = {.weight = 1}};
	assert_int_equal(hd_plan_create(&scene->plan), 0);
	assert_int_equal(hd_plan_grouper_create(&scene->grouper), 0);
	for (uint32_t l = 0; l < GROUP_LINKS; l++)
		scene->capacity[l] = 1;
	for (uint32_t a = 0; a < GROUP_SCENE_AGGREGATORS; a++) {
		scene->memory[a] = INFINITY;
		scene->host[a] = -1;
	}
	for (uint32_t j = 0; j < 2; j++)
		scene->jobs[j] = (struct hd_plan_job){.tau_max = 1000, .theta = INFINITY};
	scene->in = (struct hd_plan_input){
		.link_count = GROUP_LINKS,
		.capacity = scene->capacity,
		.busy = scene->busy,
		.tenant_count = 1,
		.tenants = &scene->tenant,
		.job_count = 2,
		.jobs = scene->jobs,
		.items = scene->items,
		.ageing_s = INFINITY,
	};
	scene->group = (struct hd_plan_group_input){
		.plan = &scene->in,
		.memory = scene->memory,
		.paths = {scene, member, trunk},
		.window = 64,
		.work = 1000000,
	};
}

void group_scene_fini(struct group_scene *scene) {
	hd_plan_destroy(scene->plan);
	hd_plan_grouper_destroy(scene->grouper);
}

struct hd_plan_item *group_scene_add(struct group_scene *scene, uint8_t direction) {
	const uint32_t worker = scene->in.item_count++;
	struct hd_plan_item *item = &scene->items[worker];
	const bool push = direction == HD_PLAN_PUSH;

	*item = (struct hd_plan_item){
		.id = worker + 1,
		.direction = direction,
		.amount = 1,
		.path_count = 2,
		.path
		= {push ? GROUP_UP(worker) : GROUP_SERVER_OUT,
		   push ? GROUP_SERVER_IN : GROUP_DOWN(worker)},
	};
	return item;
}

void group_scene_run(struct group_scene *scene) {
	const char *error = NULL;

	assert_int_equal(
		hd_plan_run(
			scene->plan,
			&scene->in,
			&scene->group.entries,
			&scene->group.entry_count,
			&error
		),
		0
	);
	assert_int_equal(hd_plan_group_run(scene->grouper, &scene->group, &scene->out), 0);
}

double group_scene_last(const struct group_scene *scene, const struct hd_plan_entry *entries) {
	double last = 0;

	for (uint32_t e = 0; e < scene->group.entry_count; e++)
		last = entries[e].dropped ? last : fmax(last, entries[e].commit);
	return last;
}

double group_scene_mean(const struct group_scene *scene, const struct hd_plan_entry *entries) {
	double sum = 0;
	uint32_t count = 0;

	for (uint32_t e = 0; e < scene->group.entry_count; e++) {
		sum += entries[e].dropped ? 0 : entries[e].commit;
		count += !entries[e].dropped;
	}
	return count == 0 ? 0 : sum / count;
}

/* --- checks --- */

/* A transfer of the result: entry, links. */
struct moved {
	const struct hd_plan_entry *entry;
	struct hd_plan_path path;
};

static uint32_t list_moved(const struct group_scene *scene, struct moved *moved) {
	const struct hd_plan_grouped *out = &scene->out;
	uint32_t count = 0;

	for (uint32_t e = 0; e < scene->group.entry_count; e++) {
		const struct hd_plan_entry *entry = &out->entries[e];
		const struct hd_plan_item *item = &scene->items[entry->item];
		struct moved *m = &moved[count];

		if (entry->dropped)
			continue;
		count++;
		m->entry = entry;
		m->path.count = item->path_count;
		memcpy(m->path.links, item->path, sizeof item->path);
		if (out->group_of && out->group_of[e] != HD_PLAN_NONE)
			assert_true(
				member(scene,
				       entry->item,
				       out->groups[out->group_of[e]].aggregator,
				       &m->path)
			);
	}
	for (uint32_t g = 0; g < out->group_count; g++)
		moved[count++] = (struct moved){&out->groups[g].sum, out->groups[g].trunk};
	return count;
}

static double used(const struct moved *moved, uint32_t count, uint32_t link, double at) {
	double sum = 0;

	for (uint32_t m = 0; m < count; m++) {
		const struct hd_plan_entry *entry = moved[m].entry;
		bool crosses = false;

		for (uint8_t k = 0; k < moved[m].path.count; k++)
			crosses |= moved[m].path.links[k] == link;
		for (uint8_t s = 0; crosses && s < entry->segment_count; s++)
			if (entry->segment[s].start <= at + NEAR
			    && at + NEAR < entry->segment[s].end)
				sum += entry->segment[s].rate;
	}
	return sum;
}

static double promised(const struct group_scene *scene, uint32_t link, double at) {
	double sum = 0;

	for (uint32_t b = 0; b < scene->in.busy_count; b++)
		if (scene->busy[b].link == link && scene->busy[b].start <= at + NEAR
		    && at + NEAR < scene->busy[b].end)
			sum += scene->busy[b].rate;
	return sum;
}

/* The amount that was sent by `at`. */
static double gone(const struct hd_plan_entry *entry, double at) {
	double sum = 0;

	for (uint8_t s = 0; s < entry->segment_count; s++) {
		const struct hd_plan_segment *segment = &entry->segment[s];

		sum += segment->rate * fmax(fmin(at, segment->end) - segment->start, 0);
	}
	return sum;
}

static void
check_links(const struct group_scene *scene, const struct moved *moved, uint32_t count) {
	for (uint32_t m = 0; m < count; m++) {
		const struct hd_plan_entry *entry = moved[m].entry;
		const double amount = scene->items[entry->item].amount;

		if (moved[m].path.count > 0)
			assert_true(fabs(gone(entry, INFINITY) - amount) < NEAR);
		for (uint8_t s = 0; s < entry->segment_count; s++)
			for (uint8_t k = 0; k < moved[m].path.count; k++) {
				const uint32_t link = moved[m].path.links[k];
				const double at = entry->segment[s].start;

				assert_true(
					used(moved, count, link, at) + promised(scene, link, at)
					<= scene->capacity[link] + NEAR
				);
			}
	}
}

/* `later` passes on what came with `earlier`. */
static void check_relay(
	const struct group_scene *scene,
	const struct hd_plan_entry *earlier,
	const struct hd_plan_entry *later
) {
	if (!scene->group.streaming) {
		assert_true(later->start >= earlier->finish - NEAR);
		return;
	}
	assert_true(later->finish >= earlier->finish - NEAR);
	/* Two lines that are straight between their corners. */
	for (uint8_t s = 0; earlier->segment_count > 0 && s < later->segment_count; s++) {
		const double at = later->segment[s].end;

		assert_true(gone(later, at) <= gone(earlier, at) + NEAR);
	}
	for (uint8_t s = 0; s < earlier->segment_count; s++) {
		const double at = earlier->segment[s].start, end = earlier->segment[s].end;

		assert_true(gone(later, at) <= gone(earlier, at) + NEAR);
		assert_true(gone(later, end) <= gone(earlier, end) + NEAR);
	}
}

static void check_group(const struct group_scene *scene, uint32_t index) {
	const struct hd_plan_grouped *out = &scene->out;
	const struct hd_plan_group *group = &out->groups[index];
	const uint32_t *members = &out->members[group->first];
	const struct hd_plan_item *first = &scene->items[out->entries[members[0]].item];

	assert_true(group->count >= 2);
	for (uint32_t m = 0; m < group->count; m++) {
		const struct hd_plan_entry *entry = &out->entries[members[m]];
		const struct hd_plan_item *item = &scene->items[entry->item];

		assert_int_equal(out->group_of[members[m]], index);
		assert_int_equal(item->job, first->job);
		assert_int_equal(item->kind, first->kind);
		assert_int_equal(item->direction, group->direction);
		assert_true(fabs(item->amount - first->amount) < NEAR);
		if (group->direction == HD_PLAN_PULL) {
			check_relay(scene, &group->sum, entry);
			continue;
		}
		check_relay(scene, entry, &group->sum);
		assert_true(fabs(entry->commit - group->sum.commit) < NEAR);
		assert_int_equal(entry->position, out->entries[members[0]].position + m);
	}
	/* Decisions for pulls, or for a later job, move the pushes of an earlier one. */
	for (uint32_t g = 0; g < out->group_count; g++)
		if (out->groups[g].direction == HD_PLAN_PULL)
			return;
	for (uint32_t i = 0; i < scene->in.item_count; i++)
		if (scene->items[i].job != first->job)
			return;
	if (group->direction == HD_PLAN_PUSH) {
		assert_true(group->sum.commit <= group->direct + NEAR);
		assert_true(scene->group.streaming || group->collected <= group->limit + NEAR);
	}
}

void group_scene_check(const struct group_scene *scene) {
	struct moved moved[2 * GROUP_SCENE_WORKERS];
	const uint32_t count = list_moved(scene, moved);
	double commit[2] = {scene->jobs[0].server_free, scene->jobs[1].server_free};

	check_links(scene, moved, count);
	for (uint32_t g = 0; g < scene->out.group_count; g++)
		check_group(scene, g);
	for (uint32_t e = 0; e < scene->group.entry_count; e++) {
		const struct hd_plan_entry *entry = &scene->out.entries[e];
		const struct hd_plan_item *item = &scene->items[entry->item];

		assert_int_equal(entry->position, scene->group.entries[e].position);
		if (entry->dropped || item->direction == HD_PLAN_PULL)
			continue;
		assert_true(entry->commit >= commit[item->job] - NEAR);
		assert_true(entry->position - item->version <= scene->jobs[item->job].tau_max);
		commit[item->job] = entry->commit;
	}
}
