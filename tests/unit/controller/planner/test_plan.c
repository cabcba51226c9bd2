/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner against the reference, whole plans, and against what must hold of every plan. */
#include "plan_reference.h"
#include "plan_scene.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool near(double a, double b) {
	return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static void
run(struct hd_plan *plan, const struct hd_plan_input *in, const struct hd_plan_entry **e) {
	const char *error = "";
	uint32_t count;

	if (hd_plan_run(plan, in, e, &count, &error) != 0)
		fail_msg("%s", error);
	assert_int_equal(count, in->item_count);
}

static const char *differs(const struct hd_plan_entry *a, const struct hd_plan_entry *b) {
	if (a->item != b->item)
		return "item";
	if (a->dropped != b->dropped || a->position != b->position)
		return "position";
	if (!near(a->start, b->start) || !near(a->finish, b->finish))
		return "finish";
	if (!near(a->commit, b->commit))
		return "commit";
	if (a->bottleneck != b->bottleneck)
		return "bottleneck";
	if (a->why.rule != b->why.rule)
		return "why.rule";
	if (!near(a->why.finish, b->why.finish))
		return "why.finish";
	if (a->why.runner_up != b->why.runner_up
	    || !near(a->why.runner_up_finish, b->why.runner_up_finish))
		return "why.runner_up";
	if (a->why.deadline != b->why.deadline || !near(a->why.slack, b->why.slack))
		return "why.deadline";
	if (a->segment_count != b->segment_count)
		return "segments";
	for (uint8_t s = 0; s < a->segment_count; s++)
		if (!near(a->segment[s].start, b->segment[s].start)
		    || !near(a->segment[s].end, b->segment[s].end)
		    || !near(a->segment[s].rate, b->segment[s].rate))
			return "segments";
	return NULL;
}

static void print_entry(const char *who, const struct hd_plan_entry *e) {
	(void)fprintf(
		stderr,
		"%s: item %u %s position %lu [%.12g, %.12g) commit %.12g link %d after %d/%lu %s "
		"finish %.17g runner %lu at %.17g\n",
		who,
		e->item,
		e->dropped ? "dropped" : "placed",
		(unsigned long)e->position,
		e->start,
		e->finish,
		e->commit,
		(int)e->bottleneck,
		(int)e->after,
		(unsigned long)e->after_token,
		hd_plan_rule_name(e->why.rule),
		e->why.finish,
		(unsigned long)e->why.runner_up,
		e->why.runner_up_finish
	);
	for (uint8_t s = 0; s < e->segment_count; s++)
		(void)fprintf(
			stderr,
			"    [%.12g, %.12g) at %.12g\n",
			e->segment[s].start,
			e->segment[s].end,
			e->segment[s].rate
		);
}

struct ends { /* of promises on one link at one moment */
	uint32_t count, last_count;
	bool named; /* the one that the entry follows is among the last ones */
};

static void end_here(struct ends *ends, bool last, bool named) {
	ends->count++;
	ends->last_count += last;
	ends->named |= last && named;
}

static void
busy_ends(const struct hd_plan_input *in, const struct hd_plan_entry *entry, struct ends *ends) {
	for (uint32_t b = 0; b < in->busy_count; b++) {
		const struct hd_plan_busy *busy = &in->busy[b];
		bool last = true;

		if (busy->link != entry->bottleneck || !near(busy->end, entry->start)
		    || busy->end == busy->start)
			continue;
		for (uint32_t o = 0; o < in->busy_count; o++)
			if (in->busy[o].token == busy->token && in->busy[o].link == busy->link
			    && in->busy[o].end > busy->end)
				last = false;
		end_here(ends, last, busy->token == entry->after_token);
	}
}

/* The one that an entry follows must end on its bottleneck when it starts; and when just one promise
 * ends there, and for good, that one must be followed. */
static bool after_holds(const struct scene *scene, const struct hd_plan_entry *all, uint32_t e) {
	const struct hd_plan_entry *entry = &all[e];
	struct ends ends = {0};

	if (entry->dropped || entry->start <= 0)
		return entry->after == HD_PLAN_NONE && entry->after_token == 0;
	busy_ends(&scene->in, entry, &ends);
	for (uint32_t o = 0; o < e; o++) {
		const struct hd_plan_item *item = &scene->items[all[o].item];

		for (uint8_t k = 0; k < item->path_count; k++)
			for (uint8_t s = 0; s < all[o].segment_count; s++)
				if (item->path[k] == entry->bottleneck
				    && near(all[o].segment[s].end, entry->start))
					end_here(
						&ends,
						s + 1 == all[o].segment_count,
						o == entry->after
					);
	}
	if (entry->after != HD_PLAN_NONE || entry->after_token != 0)
		return ends.named && (entry->after == HD_PLAN_NONE || entry->after_token == 0);
	return ends.count != 1 || ends.last_count == 0;
}

static struct scene_shape random_shape(struct hd_random *random) {
	struct scene_shape shape = {
		.links = 1 + (uint32_t)hd_random_below(random, 6),
		.items = 1 + (uint32_t)hd_random_below(random, 16),
		.busy = (uint32_t)hd_random_below(random, SCENE_BUSY + 1),
		.jobs = 1 + (uint32_t)hd_random_below(random, SCENE_OWNERS),
		.pulls = hd_random_unit(random) * 0.5,
		.theta = hd_random_chance(random, 0.3),
		.ageing = hd_random_chance(random, 0.3),
	};

	shape.tenants = 1 + (uint32_t)hd_random_below(random, shape.jobs);
	if (hd_random_chance(random, 0.4))
		shape.jobs = shape.tenants = 1;
	if (hd_random_chance(random, 0.3))
		shape.busy = 0;
	return shape;
}

/* Many transfers: profiles of many pieces, old ones given up, items that wait long. */
static struct scene_shape large_shape(struct hd_random *random) {
	struct scene_shape shape = random_shape(random);

	shape.links = 4 + (uint32_t)hd_random_below(random, SCENE_LINKS - 3);
	shape.items = SCENE_ITEMS - (uint32_t)hd_random_below(random, 12);
	shape.fine = true;
	return shape;
}

struct seen {
	uint32_t rules[6], followed;
};

static void
compare(struct hd_plan *plan,
	struct scene_shape (*shape_of)(struct hd_random *random),
	uint32_t seed,
	struct seen *seen) {
	struct hd_plan_entry expected[SCENE_ITEMS];
	const struct hd_plan_entry *entries;
	struct hd_random random;
	struct scene scene;

	hd_random_init(&random, seed);
	const struct scene_shape shape = shape_of(&random);
	scene_fill(&scene, &shape, &random);
	run(plan, &scene.in, &entries);
	assert_int_equal(plan_reference(&scene.in, expected), 0);
	for (uint32_t e = 0; e < scene.in.item_count; e++) {
		const char *what = differs(&entries[e], &expected[e]);

		if (!what && !after_holds(&scene, entries, e))
			what = "after";
		seen->followed += entries[e].after != HD_PLAN_NONE || entries[e].after_token != 0;
		seen->rules[entries[e].why.rule]++;
		if (!what)
			continue;
		scene_print(&scene);
		for (uint32_t k = 0; k <= e; k++) {
			print_entry("reference", &expected[k]);
			print_entry("  planner", &entries[k]);
		}
		fail_msg("seed %u, entry %u: %s differs", seed, e, what);
	}
}

static uint32_t count_from(const char *variable, uint32_t otherwise) {
	const char *text = getenv(variable);

	return !text ? otherwise : (uint32_t)strtoul(text, NULL, 10);
}

static void equals_reference(void **state) {
	const uint32_t count = count_from("HD_TEST_PLANS", 20000);
	struct seen seen = {{0}, 0};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t seed = 1; seed <= count; seed++)
		compare(plan, random_shape, seed, &seen);
	print_message("follow another: %u\n", seen.followed);
	assert_true(seen.followed > 0);
	for (uint8_t r = 0; r < 6; r++) {
		print_message("%s: %u\n", hd_plan_rule_name(r), seen.rules[r]);
		assert_true(seen.rules[r] > 0);
	}
	hd_plan_destroy(plan);
}

static struct scene_shape tenths_shape(struct hd_random *random) {
	struct scene_shape shape = random_shape(random);

	shape.tenths = true;
	return shape;
}

/* Ends that meet on paper and differ by rounding, here and on other links. */
static void tenths_equal_reference(void **state) {
	const uint32_t count = count_from("HD_TEST_PLANS", 20000);
	struct seen seen = {{0}, 0};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t seed = 1; seed <= count; seed++)
		compare(plan, tenths_shape, seed, &seen);
	assert_true(seen.followed > 0);
	hd_plan_destroy(plan);
}

static void large_equals_reference(void **state) {
	const uint32_t count = count_from("HD_TEST_PLANS_LARGE", 30);
	struct seen seen = {{0}, 0};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t seed = 1; seed <= count; seed++)
		compare(plan, large_shape, seed, &seen);
	assert_true(seen.rules[HD_PLAN_SHORTEST] > 10 * count);
	hd_plan_destroy(plan);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_reference),
		cmocka_unit_test(tenths_equal_reference),
		cmocka_unit_test(large_equals_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
