/* SPDX-License-Identifier: BSD-3-Clause */
/* Invariants of every plan, on inputs too large for the reference; the look-ahead against all permutations; refused
 * inputs. */
#include "hd_limits.h"
#include "hd_plan.h"
#include "hd_random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINKS 24
#define ITEMS 600
#define BUSY 3000
#define JOBS 6
#define EDGES (2 * (BUSY + ITEMS * HD_SEGMENTS_MAX))

struct large {
	struct hd_plan_input in;
	double capacity[LINKS];
	struct hd_plan_busy busy[BUSY];
	struct hd_plan_tenant tenants[JOBS];
	struct hd_plan_job jobs[JOBS];
	struct hd_plan_item items[ITEMS];
};

static uint32_t below(struct hd_random *random, uint32_t bound) {
	return (uint32_t)hd_random_below(random, bound);
}

/* Many small promises: more breakpoints than a profile may have. They leave a tenth of each link. */
static void fill_busy(struct large *large, struct hd_random *random) {
	double until[LINKS] = {0};

	for (uint32_t b = 0; b < large->in.busy_count; b++) {
		const uint32_t link = below(random, hd_random_chance(random, 0.5) ? 1 : LINKS);
		const double length = 0.001 + 0.01 * hd_random_unit(random);

		large->busy[b] = (struct hd_plan_busy){
			.link = link,
			.start = until[link],
			.end = until[link] + length,
			.rate = large->capacity[link] * 0.9 * hd_random_unit(random),
			.token = b + 1,
		};
		until[link] += length;
	}
}

static void fill(struct large *large, uint32_t items, uint32_t busy, struct hd_random *random) {
	large->in = (struct hd_plan_input){
		.link_count = LINKS,
		.capacity = large->capacity,
		.busy_count = busy,
		.busy = large->busy,
		.tenant_count = 3,
		.tenants = large->tenants,
		.job_count = JOBS,
		.jobs = large->jobs,
		.item_count = items,
		.items = large->items,
		.ageing_s = hd_random_chance(random, 0.5) ? 5 : INFINITY,
		.share_min = hd_random_chance(random, 0.5) ? 0.5 : 0,
	};
	for (uint32_t l = 0; l < LINKS; l++)
		large->capacity[l] = 50 + 100 * hd_random_unit(random);
	fill_busy(large, random);
	for (uint32_t j = 0; j < JOBS; j++) {
		large->tenants[j] = (struct hd_plan_tenant){.weight = 1 + below(random, 4)};
		large->jobs[j] = (struct hd_plan_job){
			.tenant = below(random, 3),
			.v_init = 1000,
			.tau_max = 10 + below(random, 400),
			.theta = hd_random_chance(random, 0.3) ? 2 : INFINITY,
			.server_free = hd_random_unit(random),
		};
	}
	for (uint32_t i = 0; i < items; i++) {
		struct hd_plan_item *item = &large->items[i];

		*item = (struct hd_plan_item){
			.id = items - i,
			.job = below(random, JOBS),
			.direction = hd_random_chance(random, 0.2),
			.version = 1000 - below(random, 200),
			.amount = 0.1 + 10 * hd_random_unit(random),
			.waited = 8 * hd_random_unit(random),
			.keep = hd_random_chance(random, 0.2),
			.path_count = 3,
			.path = {0, 1 + below(random, 11), 12 + below(random, 12)},
		};
	}
}

struct edge {
	double at, rate;
};

static int compare_edge(const void *a, const void *b) {
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->rate > y->rate) - (x->rate < y->rate);
}

static bool uses(const struct hd_plan_item *item, uint32_t link) {
	for (uint8_t k = 0; k < item->path_count; k++)
		if (item->path[k] == link)
			return true;
	return false;
}

/* Busy and reserved together stay within the capacity at every instant (ends before beginnings; over
 * spans of no length sums may differ by rounding). */
static void
check_link(const struct large *large, const struct hd_plan_entry *entries, uint32_t link) {
	static struct edge edges[EDGES];
	uint32_t count = 0;
	double used = 0;

	for (uint32_t b = 0; b < large->in.busy_count; b++)
		if (large->busy[b].link == link) {
			edges[count++] = (struct edge){large->busy[b].start, large->busy[b].rate};
			edges[count++] = (struct edge){large->busy[b].end, -large->busy[b].rate};
		}
	for (uint32_t e = 0; e < large->in.item_count; e++)
		for (uint8_t s = 0; s < entries[e].segment_count; s++) {
			const struct hd_plan_segment *segment = &entries[e].segment[s];

			if (!uses(&large->items[entries[e].item], link))
				continue;
			edges[count++] = (struct edge){segment->start, segment->rate};
			edges[count++] = (struct edge){segment->end, -segment->rate};
		}
	qsort(edges, count, sizeof *edges, compare_edge);
	for (uint32_t k = 0; k + 1 < count; k++) {
		used += edges[k].rate;
		if (edges[k + 1].at - edges[k].at > 1e-9
		    && used > large->capacity[link] * (1 + 1e-9))
			fail_msg(
				"link %u at %.12g: %.12g of %.12g",
				link,
				edges[k].at,
				used,
				large->capacity[link]
			);
	}
}

static void check_segments(const struct hd_plan_item *item, const struct hd_plan_entry *entry) {
	double sent = 0, end = 0;

	assert_in_range(entry->segment_count, 1, HD_SEGMENTS_MAX);
	for (uint8_t s = 0; s < entry->segment_count; s++) {
		const struct hd_plan_segment *segment = &entry->segment[s];

		assert_true(segment->start >= end && segment->end > segment->start);
		assert_true(segment->rate > 0);
		end = segment->end;
		sent += segment->rate * (segment->end - segment->start);
	}
	assert_true(fabs(sent - item->amount) <= 1e-9 * item->amount);
	assert_true(entry->start == entry->segment[0].start && entry->finish == end);
	/* ordered by the greedy finish; four segments end no earlier */
	assert_true(entry->finish >= entry->why.finish * (1 - 1e-9));
}

static void check_plan(const struct large *large, const struct hd_plan_entry *entries) {
	uint64_t position[JOBS];
	double commit[JOBS];
	bool seen[ITEMS] = {false};

	for (uint32_t j = 0; j < JOBS; j++) {
		position[j] = large->jobs[j].v_init;
		commit[j] = large->jobs[j].server_free;
	}
	for (uint32_t e = 0; e < large->in.item_count; e++) {
		const struct hd_plan_entry *entry = &entries[e];
		const struct hd_plan_item *item = &large->items[entry->item];
		const struct hd_plan_job *job = &large->jobs[item->job];

		assert_false(seen[entry->item]);
		seen[entry->item] = true;
		if (entry->dropped) {
			assert_int_equal(item->direction, HD_PLAN_PUSH);
			assert_true(
				entry->why.rule == HD_PLAN_DROP_BOUND
				|| (entry->why.rule == HD_PLAN_DROP_IDLES && !item->keep
				    && isfinite(job->theta) && entry->why.runner_up != 0)
			);
			continue;
		}
		check_segments(item, entry);
		if (item->direction == HD_PLAN_PULL) {
			assert_int_equal(entry->position, 0);
			continue;
		}
		assert_int_equal(entry->position, ++position[item->job]);
		assert_true(entry->position - item->version <= job->tau_max);
		assert_true(entry->commit == fmax(entry->finish, commit[item->job]));
		commit[item->job] = entry->commit;
	}
	for (uint32_t l = 0; l < LINKS; l++)
		check_link(large, entries, l);
}

static const struct hd_plan_entry *run(struct hd_plan *plan, const struct hd_plan_input *in) {
	const struct hd_plan_entry *entries = NULL;
	const char *error = "";
	uint32_t count = 0;

	if (hd_plan_run(plan, in, &entries, &count, &error) != 0)
		fail_msg("%s", error);
	assert_int_equal(count, in->item_count);
	return entries;
}

static void holds(void **state) {
	static struct large large;
	static struct hd_plan_entry first[ITEMS];
	struct hd_plan *plan, *other;
	uint32_t widened = 0;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t seed = 1; seed <= 150; seed++) {
		struct hd_random random;

		hd_random_init(&random, seed);
		const uint32_t items = 1 + below(&random, ITEMS);
		fill(&large, items, seed % 3 == 0 ? BUSY : below(&random, 60), &random);
		const struct hd_plan_entry *entries = run(plan, &large.in);
		check_plan(&large, entries);
		for (uint32_t e = 0; e < items; e++)
			widened += !entries[e].dropped
				&& entries[e].finish > entries[e].why.finish * (1 + 1e-9);
		/* the same input, another scratch memory: the same plan */
		memcpy(first, entries, items * sizeof *first);
		assert_int_equal(hd_plan_create(&other), 0);
		assert_memory_equal(run(other, &large.in), first, items * sizeof *first);
		hd_plan_destroy(other);
	}
	assert_true(widened > 0); /* more than four rates did occur */
	hd_plan_destroy(plan);
}

/* The most updates that any order commits in time; one position each. */
static uint32_t most_kept(const int64_t *deadline, uint32_t count) {
	uint32_t order[6] = {0, 1, 2, 3, 4, 5}, counter[6] = {0}, most = 0;

	for (uint32_t i = 0; i <= count;) {
		uint32_t kept = 0;

		for (uint32_t k = 0; k < count; k++)
			kept += deadline[order[k]] >= (int64_t)kept + 1;
		most = kept > most ? kept : most;
		/* Heap's algorithm, without recursion */
		for (i = 1; i < count && counter[i] >= i; i++)
			counter[i] = 0;
		if (i >= count)
			break;
		const uint32_t a = i % 2 == 0 ? 0 : counter[i], swapped = order[a];
		order[a] = order[i];
		order[i] = swapped;
		counter[i]++;
	}
	return most;
}

/* theta off: the planner keeps as many as the best permutation does, so none is lost when an order
 * exists that loses none. */
static void loses_no_more_than_any_order(void **state) {
	const double capacity[1] = {1};
	const struct hd_plan_tenant tenant = {.weight = 1};
	uint32_t all = 0, some = 0;
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t seed = 1; seed <= 20000; seed++) {
		struct hd_plan_item items[6] = {0};
		struct hd_plan_job job = {.v_init = 10, .tau_max = 5, .theta = INFINITY};
		int64_t deadline[6];
		struct hd_random random;
		uint32_t dropped = 0;

		hd_random_init(&random, seed);
		const uint32_t count = 1 + below(&random, 6);
		for (uint32_t i = 0; i < count; i++) {
			items[i] = (struct hd_plan_item){
				.id = i + 1,
				.version = 4 + below(&random, 7),
				.amount = 1 + below(&random, 3),
				.path_count = 1,
			};
			deadline[i] = (int64_t)items[i].version + 5 - 10;
		}
		const struct hd_plan_input in = {
			.link_count = 1,
			.capacity = capacity,
			.tenant_count = 1,
			.tenants = &tenant,
			.job_count = 1,
			.jobs = &job,
			.item_count = count,
			.items = items,
			.ageing_s = INFINITY,
		};
		const struct hd_plan_entry *entries = run(plan, &in);
		for (uint32_t e = 0; e < count; e++)
			dropped += entries[e].dropped;
		const uint32_t most = most_kept(deadline, count);
		assert_int_equal(count - dropped, most);
		all += most == count;
		some += most < count;
	}
	assert_true(all > 1000 && some > 1000);
	hd_plan_destroy(plan);
}

/* Two tenants on one link: what each gets follows the weights, whatever the sizes. */
static void tenants_share_by_weight(void **state) {
	enum {
		COUNT = 400
	};
	static struct hd_plan_item items[COUNT];
	const double capacity[1] = {100};
	const struct hd_plan_tenant tenants[2] = {{.weight = 3}, {.weight = 1}};
	const struct hd_plan_job jobs[2] = {
		{.tenant = 0, .tau_max = COUNT, .theta = INFINITY},
		{.tenant = 1, .tau_max = COUNT, .theta = INFINITY},
	};
	double got[2] = {0, 0};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		items[i] = (struct hd_plan_item){
			.id = i + 1,
			.job = i % 2,
			.amount
			= i % 2 == 0 ? 7 : 2, /* the heavier tenant has the larger updates */
			.path_count = 1,
		};
	const struct hd_plan_input in = {
		.link_count = 1,
		.capacity = capacity,
		.tenant_count = 2,
		.tenants = tenants,
		.job_count = 2,
		.jobs = jobs,
		.item_count = COUNT,
		.items = items,
		.ageing_s = INFINITY,
	};
	const struct hd_plan_entry *entries = run(plan, &in);
	for (uint32_t e = 0; e < 100; e++) {
		got[items[entries[e].item].job] += items[entries[e].item].amount;
		/* no tenant is ahead by more than the largest update */
		assert_true(fabs(got[0] / 3 - got[1]) <= 7);
	}
	hd_plan_destroy(plan);
}

/* A problem that holds, until it is spoiled in one place. */
struct problem {
	double capacity;
	struct hd_plan_tenant tenant;
	struct hd_plan_job job;
	struct hd_plan_item item;
	struct hd_plan_busy busy;
	struct hd_plan_input in;
};

static void spoil_network(struct problem *p, int c) {
	switch (c) {
	case 0:
		p->capacity = 0;
		break;
	case 1:
		p->capacity = NAN;
		break;
	case 2:
		p->busy.link = 1;
		break;
	case 3:
		p->busy.end = -1;
		break;
	case 4:
		p->busy.end = INFINITY;
		break;
	case 5:
		p->busy.rate = -1;
		break;
	case 6:
		p->tenant.weight = 0;
		break;
	case 7:
		p->tenant.deficit = NAN;
		break;
	default:
		break;
	}
}

static void spoil_work(struct problem *p, int c) {
	switch (c) {
	case 8:
		p->job.tenant = 1;
		break;
	case 9:
		p->job.tau_max = HD_TAU_MAX_LIMIT + 1;
		break;
	case 10:
		p->job.theta = -1;
		break;
	case 11:
		p->job.server_free = INFINITY;
		break;
	case 12:
		p->item.id = 0;
		break;
	case 13:
		p->item.job = 1;
		break;
	case 14:
		p->item.direction = 2;
		break;
	case 15:
		p->item.version = UINT64_MAX;
		break;
	case 16:
		p->item.amount = 0;
		break;
	case 17:
		p->item.amount = INFINITY;
		break;
	case 18:
		p->item.waited = -1;
		break;
	case 19:
		p->item.path_count = HD_PLAN_PATH_MAX + 1;
		break;
	case 20:
		p->item.path[0] = 1;
		break;
	case 21:
		p->in.item_count = HD_PENDING_MAX + 1;
		break;
	default:
		break;
	}
}

static const char *const refusals[] = {
	"capacity[0]",      "capacity[0]",      "busy[0].link",       "busy[0].end",
	"busy[0].end",      "busy[0].rate",     "tenants[0].weight",  "tenants[0].deficit",
	"jobs[0].tenant",   "jobs[0].tau_max",  "jobs[0].theta",      "jobs[0].server_free",
	"items[0].id",      "items[0].job",     "items[0].direction", "items[0].version",
	"items[0].amount",  "items[0].amount",  "items[0].waited",    "items[0].path",
	"items[0].path[0]", "items: more than",
};

static void refuse(struct hd_plan *plan, int c) {
	struct problem p = {
		1,
		{.weight = 1},
		{.tau_max = 5, .theta = INFINITY},
		{.id = 1, .amount = 1, .path_count = 1, .path = {0}},
		{.link = 0, .start = 0, .end = 1, .rate = 1},
		{1, &p.capacity, 1, &p.busy, 1, &p.tenant, 1, &p.job, 1, &p.item, INFINITY, 0},
	};
	const struct hd_plan_entry *entries = (const void *)&p;
	const char *error = NULL;
	uint32_t count = 99;

	spoil_network(&p, c);
	spoil_work(&p, c);
	assert_int_equal(hd_plan_run(plan, &p.in, &entries, &count, &error), -EINVAL);
	assert_non_null(error);
	if (strncmp(error, refusals[c], strlen(refusals[c])) != 0)
		fail_msg("%d: \"%s\", not \"%s\"", c, error, refusals[c]);
	assert_true(entries == (const void *)&p && count == 99);
}

static void refuses(void **state) {
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	for (int c = 0; c < 22; c++)
		refuse(plan, c);
	hd_plan_destroy(plan);
}

static void nothing(void **state) {
	const struct hd_plan_input in = {.ageing_s = INFINITY};
	struct hd_plan *plan;

	(void)state;
	assert_int_equal(hd_plan_create(&plan), 0);
	run(plan, &in);
	hd_plan_destroy(plan);
	hd_plan_destroy(NULL);
	assert_string_equal(hd_plan_rule_name(HD_PLAN_AGED), "aged");
	assert_string_equal(hd_plan_rule_name(200), "unknown");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds),
		cmocka_unit_test(loses_no_more_than_any_order),
		cmocka_unit_test(tenants_share_by_weight),
		cmocka_unit_test(refuses),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
