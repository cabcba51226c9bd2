/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int hd_plan_create(struct hd_plan **plan) {
	struct hd_plan *made = calloc(1, sizeof *made);

	if (!made)
		return -ENOMEM;
	made->no_link_group = HD_PLAN_NONE;
	*plan = made;
	return 0;
}

void hd_plan_destroy(struct hd_plan *plan) {
	if (!plan)
		return;
	hd_plan_fini(plan);
	free(plan);
}

static int compare_rank(const void *a, const void *b) {
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Opens a pool of the pending pushes with deadlines up to `limit` on top of the others. All of them go before any other
 * push, so each push pays its share of the construction once. At the maximum depth, the top is removed and built again
 * later. */
static int open_pool(struct hd_plan *plan, struct hd_plan_owner *owner, int64_t limit) {
	uint32_t count = 0;

	while (owner->due_next < owner->due_count
	       && plan->states[owner->by_due[owner->due_next]].gone)
		owner->due_next++;
	for (uint32_t k = owner->due_next; k < owner->due_count; k++) {
		const uint32_t item = owner->by_due[k];

		if (hd_plan_deadline(plan, item) > limit)
			break;
		if (!plan->states[item].gone)
			plan->gather[count++] = plan->states[item].rank;
	}
	qsort(plan->gather, count, sizeof *plan->gather, compare_rank);
	for (uint32_t k = 0; k < count; k++)
		plan->gather[k] = plan->order[plan->gather[k]];
	if (owner->pool_count == HD_PLAN_POOLS_MAX)
		owner->pool_count--;
	return hd_pool_build(plan, &owner->pools[owner->pool_count++], plan->gather, count, limit);
}

/* The pool of the pushes that may go now, on top. */
static int settle_pools(struct hd_plan *plan, struct hd_plan_owner *owner) {
	const int64_t limit = hd_due_tight(&owner->due);

	while (owner->pool_count > 1 && owner->pools[owner->pool_count - 1].limit < limit)
		owner->pool_count--;
	if (owner->pools[owner->pool_count - 1].limit > limit)
		return open_pool(plan, owner, limit);
	return 0;
}

static struct hd_pool *top_pool(struct hd_plan_owner *owner) {
	return &owner->pools[owner->pool_count - 1];
}

/* An item that finishes after this does not go before `item`, which may be HD_PLAN_NONE, unless it is aged. */
static double latest(const struct hd_plan *plan, uint32_t item) {
	return item == HD_PLAN_NONE ? INFINITY : hd_plan_beyond(plan->states[item].finish);
}

static bool pick_stands(const struct hd_plan *plan, const struct hd_plan_owner *owner) {
	return owner->pick != HD_PLAN_NONE && owner->pick_stamp == hd_plan_stamp(plan, owner->pick);
}

/* Whether the job's next item, whose finish was a bound for the job's other items, is nevertheless later than `item`;
 * both not aged. */
static bool
pick_too_late(const struct hd_plan *plan, const struct hd_plan_owner *owner, uint32_t item) {
	return owner->pick != HD_PLAN_NONE && !plan->states[owner->pick].aged
		&& owner->pick_bound > latest(plan, item);
}

/* The job's next item. It is valid while no item of the job is decided and no link on its path is reserved: the
 * finishes of the others only get later. */
static int pick_of_job(struct hd_plan *plan, uint32_t job) {
	struct hd_plan_owner *owner = &plan->owners[job];

	if (owner->pending == 0) {
		owner->pick = HD_PLAN_NONE;
		return 0;
	}
	if (pick_stands(plan, owner))
		return 0;
	const int rc = settle_pools(plan, owner);
	if (rc < 0)
		return rc;
	owner->pick = hd_pool_first(plan, top_pool(owner), INFINITY);
	const uint32_t pull = hd_pool_first(plan, &owner->pulls, latest(plan, owner->pick));
	if (owner->pick == HD_PLAN_NONE
	    || (pull != HD_PLAN_NONE && hd_plan_goes_before(plan, pull, owner->pick)))
		owner->pick = pull;
	owner->pick_stamp = hd_plan_stamp(plan, owner->pick);
	owner->pick_bound = plan->states[owner->pick].finish;
	return 0;
}

static uint32_t tenant_of(const struct hd_plan *plan, uint32_t item) {
	return plan->in->jobs[plan->in->items[item].job].tenant;
}

/* The tenant's deficit after this item, by weight. */
static double score(const struct hd_plan *plan, uint32_t item) {
	const uint32_t tenant = tenant_of(plan, item);

	return (plan->deficit[tenant] - plan->in->items[item].amount)
		/ plan->in->tenants[tenant].weight;
}

/* Whether the score of a's tenant is less than that of b's, by more than rounding. */
static bool deficit_less(const struct hd_plan *plan, uint32_t a, uint32_t b) {
	const struct hd_plan_tenant *tenants = plan->in->tenants;
	const double x = tenants[tenant_of(plan, a)].weight, y = tenants[tenant_of(plan, b)].weight;

	return score(plan, b) - score(plan, a) > plan->deficit_rounding * (1 / x + 1 / y);
}

struct choice {
	uint32_t item; /* the chosen item */
	uint32_t fastest; /* the earliest finish of the tenants' first items */
};

static void take_first(const struct hd_plan *plan, uint32_t pick, uint32_t *best) {
	if (pick != HD_PLAN_NONE
	    && (*best == HD_PLAN_NONE || hd_plan_goes_before(plan, pick, *best)))
		*best = pick;
}

/* Each tenant's first item. Known ones come first: they may save the search for others. */
static int first_of_tenants(struct hd_plan *plan, uint32_t *first) {
	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		first[t] = HD_PLAN_NONE;
	for (uint32_t j = 0; j < plan->in->job_count; j++)
		if (pick_stands(plan, &plan->owners[j]))
			take_first(plan, plan->owners[j].pick, &first[plan->in->jobs[j].tenant]);
	for (uint32_t j = 0; j < plan->in->job_count; j++) {
		uint32_t *best = &first[plan->in->jobs[j].tenant];

		if (pick_stands(plan, &plan->owners[j])
		    || pick_too_late(plan, &plan->owners[j], *best))
			continue;
		const int rc = pick_of_job(plan, j);
		if (rc < 0)
			return rc;
		take_first(plan, plan->owners[j].pick, best);
	}
	return 0;
}

/* Of the tenants' first items the one whose tenant has the largest deficit; of equal scores the one that goes first. */
static uint32_t largest_deficit(const struct hd_plan *plan, const uint32_t *first) {
	uint32_t most = HD_PLAN_NONE, best = HD_PLAN_NONE;

	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		if (first[t] != HD_PLAN_NONE
		    && (most == HD_PLAN_NONE || score(plan, first[t]) > score(plan, most)))
			most = first[t];
	/* Compared with the largest, not one by one: equality within rounding is not transitive. */
	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		if (first[t] != HD_PLAN_NONE && !deficit_less(plan, first[t], most))
			take_first(plan, first[t], &best);
	return best;
}

/* Chooses among the tenants' first items the one whose tenant has the largest deficit. */
static int choose(struct hd_plan *plan, struct choice *choice) {
	uint32_t first[HD_JOBS_MAX] = {0};

	const int rc = first_of_tenants(plan, first);
	if (rc < 0)
		return rc;
	*choice = (struct choice){largest_deficit(plan, first), HD_PLAN_NONE};
	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		if (first[t] != HD_PLAN_NONE
		    && (choice->fastest == HD_PLAN_NONE
			|| hd_plan_before(plan, first[t], choice->fastest)))
			choice->fastest = first[t];
	return 0;
}

/* The tenants with pending items share the cost of the item by their weights. */
static void charge(struct hd_plan *plan, uint32_t item) {
	const double amount = plan->in->items[item].amount;
	double weights = 0;

	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		weights += plan->tenant_pending[t] > 0 ? plan->in->tenants[t].weight : 0;
	for (uint32_t t = 0; t < plan->in->tenant_count; t++)
		if (plan->tenant_pending[t] > 0)
			plan->deficit[t] += amount * plan->in->tenants[t].weight / weights;
	plan->deficit[tenant_of(plan, item)] -= amount;
}

static int place(struct hd_plan *plan, uint32_t item, uint8_t rule, uint32_t runner_up) {
	struct hd_plan_owner *owner = &plan->owners[plan->in->items[item].job];

	struct hd_plan_entry *entry
		= hd_plan_decide(plan, item, rule, runner_up, (int64_t)owner->next);
	const int rc = hd_plan_place(plan, entry);
	if (rc < 0)
		return rc;
	entry->commit = entry->finish;
	if (plan->in->items[item].direction == HD_PLAN_PULL)
		return 0;
	entry->position = plan->in->jobs[plan->in->items[item].job].v_init + owner->next++;
	entry->commit = fmax(entry->finish, owner->commit);
	owner->commit = entry->commit;
	hd_due_take(&owner->due, plan->states[item].leaf);
	return 0;
}

/* MLfabric's drop rule for g, which goes only because it is due, before h: with c the commit time so far, drop when
 * max(f_g, c) - max(f_h, c) > theta (max(f_h, c) - c). */
static bool idles(const struct hd_plan *plan, uint32_t g, uint32_t h) {
	const struct hd_plan_item *item = &plan->in->items[g];
	const double theta = plan->in->jobs[item->job].theta;
	const double c = plan->owners[item->job].commit;
	const double f_g = fmax(plan->states[g].finish, c);
	const double f_h = fmax(plan->states[h].finish, c);

	return !item->keep && !isinf(theta) && f_g - f_h > theta * (f_h - c) + 1e-12 * f_g;
}

/* The earliest finish among the alternatives to `item` (which is out of the pools): its job's pulls and pushes that may
 * go now (when no other may: all), and the other jobs' first items. */
static int instead(struct hd_plan *plan, uint32_t item, uint32_t *other) {
	const uint32_t job = plan->in->items[item].job;
	struct hd_plan_owner *owner = &plan->owners[job];
	uint32_t best = hd_pool_least(plan, top_pool(owner), INFINITY);

	if (best == HD_PLAN_NONE && owner->pool_count > 1)
		best = hd_pool_least(plan, &owner->pools[0], INFINITY);
	const uint32_t pull = hd_pool_least(plan, &owner->pulls, latest(plan, best));
	if (best == HD_PLAN_NONE || (pull != HD_PLAN_NONE && hd_plan_before(plan, pull, best)))
		best = pull;
	for (uint32_t j = 0; j < plan->in->job_count; j++) {
		if (j == job || pick_too_late(plan, &plan->owners[j], best))
			continue;
		const int rc = pick_of_job(plan, j);
		if (rc < 0)
			return rc;
		const uint32_t pick = plan->owners[j].pick;
		if (pick != HD_PLAN_NONE
		    && (best == HD_PLAN_NONE || hd_plan_before(plan, pick, best)))
			best = pick;
	}
	*other = best;
	return 0;
}

static int step(struct hd_plan *plan) {
	struct choice choice;
	int rc = choose(plan, &choice);

	if (rc < 0)
		return rc;
	const uint32_t item = choice.item;
	struct hd_plan_owner *owner = &plan->owners[plan->in->items[item].job];
	uint32_t unbound = item; /* the choice without deadlines */
	if (plan->in->items[item].direction == HD_PLAN_PUSH && owner->pool_count > 1)
		unbound = hd_pool_first(plan, &owner->pools[0], INFINITY);
	if (unbound != item && idles(plan, item, unbound)) {
		hd_plan_decide(plan, item, HD_PLAN_DROP_IDLES, unbound, (int64_t)owner->next);
		hd_due_drop(&owner->due, plan->states[item].leaf);
		return 0;
	}
	charge(plan, item);
	if (tenant_of(plan, item) != tenant_of(plan, choice.fastest))
		return place(plan, item, HD_PLAN_TENANT, choice.fastest);
	if (unbound != item)
		return place(plan, item, HD_PLAN_DEADLINE, unbound);
	plan->states[item].gone = true;
	uint32_t other;
	rc = instead(plan, item, &other);
	if (rc < 0)
		return rc;
	const bool pushed_in = other != HD_PLAN_NONE && hd_plan_before(plan, other, item);
	return place(
		plan,
		item,
		plan->states[item].aged && pushed_in ? HD_PLAN_AGED : HD_PLAN_SHORTEST,
		other
	);
}

int hd_plan_run(
	struct hd_plan *plan,
	const struct hd_plan_input *input,
	const struct hd_plan_entry **entries,
	uint32_t *count,
	const char **error
) {
	int rc = hd_plan_check(plan, input);
	if (rc < 0) {
		*error = plan->error;
		return rc;
	}
	plan->in = input;
	rc = hd_plan_setup(plan);
	if (rc == 0)
		rc = hd_plan_open_jobs(plan);
	while (rc == 0 && plan->entry_count < input->item_count)
		rc = step(plan);
	plan->in = NULL;
	if (rc < 0)
		return rc;
	*entries = plan->entries;
	*count = plan->entry_count;
	return 0;
}

const char *hd_plan_rule_name(uint8_t rule) {
	static const char *const names[]
		= {"shortest", "deadline", "aged", "tenant", "drop-bound", "drop-idles"};

	return rule < sizeof names / sizeof names[0] ? names[rule] : "unknown";
}
