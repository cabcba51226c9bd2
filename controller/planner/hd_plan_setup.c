/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool resize(void **array, size_t count, size_t item_bytes) {
	void *larger = realloc(*array, count * item_bytes);

	if (!larger)
		return false;
	*array = larger;
	return true;
}

#define RESIZE(array, count) resize((void **)&(array), (count), sizeof *(array))

static int make_item_room(struct hd_plan *plan, uint32_t count) {
	if (count <= plan->item_room)
		return 0;
	uint32_t room = plan->item_room == 0 ? 64 : plan->item_room;
	while (room < count)
		room *= 2;
	if (!RESIZE(plan->states, room) || !RESIZE(plan->classes, room)
	    || !RESIZE(plan->buckets, 2 * (size_t)room) || !RESIZE(plan->order, room)
	    || !RESIZE(plan->by_due, room) || !RESIZE(plan->scratch, room)
	    || !RESIZE(plan->gather, room) || !RESIZE(plan->entries, room)
	    || !RESIZE(plan->sorting, room))
		return -ENOMEM;
	plan->item_room = room;
	return 0;
}

static int make_link_room(struct hd_plan *plan, uint32_t count) {
	if (count <= plan->profile_room && plan->link_first)
		return 0;
	count = count == 0 ? 1 : count; /* a NULL for 0 bytes would look like a failure */
	if (!RESIZE(plan->profiles, count) || !RESIZE(plan->link_uses, count)
	    || !RESIZE(plan->link_group, count) || !RESIZE(plan->link_first, (size_t)count + 1))
		return -ENOMEM;
	for (uint32_t l = plan->profile_room; l < count; l++) {
		plan->profiles[l] = (struct hd_profile){0};
		plan->link_uses[l] = 0;
		plan->link_group[l] = HD_PLAN_NONE;
	}
	plan->profile_room = count;
	return 0;
}

static int make_owner_room(struct hd_plan *plan, uint32_t count) {
	if (count <= plan->owner_count)
		return 0;
	if (!RESIZE(plan->owners, count))
		return -ENOMEM;
	memset(plan->owners + plan->owner_count,
	       0,
	       (count - plan->owner_count) * sizeof *plan->owners);
	plan->owner_count = count;
	return 0;
}

void hd_plan_fini(struct hd_plan *plan) {
	for (uint32_t l = 0; l < plan->profile_room; l++)
		hd_profile_fini(&plan->profiles[l]);
	for (uint32_t j = 0; j < plan->owner_count; j++) {
		for (uint32_t p = 0; p < HD_PLAN_POOLS_MAX; p++)
			hd_pool_fini(&plan->owners[j].pools[p]);
		hd_pool_fini(&plan->owners[j].pulls);
		hd_due_fini(&plan->owners[j].due);
	}
	free(plan->profiles);
	free(plan->link_uses);
	free(plan->link_group);
	free(plan->link_first);
	free(plan->link_classes);
	free(plan->owners);
	free(plan->states);
	free(plan->classes);
	free(plan->buckets);
	free(plan->order);
	free(plan->by_due);
	free(plan->scratch);
	free(plan->gather);
	free(plan->entries);
	free(plan->sorting);
}

/* FNV-1a over the links of a path. */
static uint32_t hash_path(const struct hd_plan_item *item) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint8_t k = 0; k < item->path_count; k++)
		hash = (hash ^ item->path[k]) * UINT64_C(0x100000001b3);
	return (uint32_t)(hash ^ (hash >> 32));
}

static uint32_t add_class(struct hd_plan *plan, const struct hd_plan_item *item) {
	struct hd_plan_class *class = &plan->classes[plan->class_count];

	*class = (struct hd_plan_class){.links = item->path, .count = item->path_count};
	for (uint8_t k = 0; k < item->path_count; k++) {
		const double capacity = plan->in->capacity[item->path[k]];

		class->rate = k == 0 ? capacity : fmin(class->rate, capacity);
	}
	class->least = plan->in->share_min * class->rate;
	return plan->class_count++;
}

static void classify(struct hd_plan *plan) {
	const uint32_t mask = 2 * plan->item_room - 1;

	plan->class_count = 0;
	memset(plan->buckets, 0xff, 2 * (size_t)plan->item_room * sizeof *plan->buckets);
	for (uint32_t i = 0; i < plan->in->item_count; i++) {
		const struct hd_plan_item *item = &plan->in->items[i];
		const size_t bytes = item->path_count * sizeof *item->path;
		uint32_t *slot = &plan->buckets[hash_path(item) & mask];
		uint32_t c = *slot;

		while (c != HD_PLAN_NONE
		       && (plan->classes[c].count != item->path_count
			   || memcmp(plan->classes[c].links, item->path, bytes) != 0))
			c = plan->classes[c].next;
		if (c == HD_PLAN_NONE) {
			c = add_class(plan, item);
			plan->classes[c].next = *slot;
			*slot = c;
		}
		plan->classes[c].pending++;
		plan->states[i] = (struct hd_plan_state){
			.class = c,
			.aged = item->waited > plan->in->ageing_s,
		};
		for (uint8_t k = 0; k < item->path_count; k++)
			plan->profiles[item->path[k]].load
				+= item->amount / plan->in->capacity[item->path[k]];
	}
}

/* The tenants' deficits, and their error bound: the magnitude of a deficit, past or future, is at most its present
 * value, the largest that it was, and the largest item. */
static void open_tenants(struct hd_plan *plan) {
	double most = 0, amount = 0;

	memset(plan->tenant_pending, 0, sizeof plan->tenant_pending);
	for (uint32_t t = 0; t < plan->in->tenant_count; t++) {
		plan->deficit[t] = plan->in->tenants[t].deficit;
		most = fmax(most, fmax(fabs(plan->deficit[t]), plan->in->tenants[t].deficit_most));
	}
	for (uint32_t i = 0; i < plan->in->item_count; i++)
		amount = fmax(amount, plan->in->items[i].amount);
	plan->deficit_rounding = (most + amount) * HD_PLAN_DEFICIT_EQUAL;
}

/* Lists the classes of each link, and the residual below which a link is of no use to any of them. */
static int list_classes(struct hd_plan *plan) {
	uint32_t *first = plan->link_first, total = 0;

	memset(first, 0, (plan->in->link_count + 1) * sizeof *first);
	for (uint32_t c = 0; c < plan->class_count; c++)
		for (uint8_t k = 0; k < plan->classes[c].count; k++)
			first[plan->classes[c].links[k]]++;
	for (uint32_t l = 0; l <= plan->in->link_count; l++) {
		total += first[l];
		first[l] = total; /* where its classes end: they are filled in from there */
	}
	if (total > plan->link_class_room) {
		if (!RESIZE(plan->link_classes, total))
			return -ENOMEM;
		plan->link_class_room = total;
	}
	for (uint32_t c = plan->class_count; c-- > 0;)
		for (uint8_t k = 0; k < plan->classes[c].count; k++)
			plan->link_classes[--first[plan->classes[c].links[k]]] = c;
	for (uint32_t l = 0; l < plan->in->link_count; l++) {
		struct hd_profile *profile = &plan->profiles[l];
		double least = INFINITY;

		for (uint32_t k = first[l]; k < first[l + 1]; k++)
			least = fmin(least, plan->classes[plan->link_classes[k]].least);
		if (least < INFINITY)
			profile->nothing
				= fmax(profile->nothing, least * (1 - 2 * HD_PROFILE_EQUAL));
	}
	return 0;
}

static int compare_sort(const void *a, const void *b) {
	const struct hd_plan_sort *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->amount != y->amount)
		return x->amount < y->amount ? -1 : 1;
	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Orders by job, direction, class, amount, version, id: a pool's runs are runs of this order. */
static void rank_items(struct hd_plan *plan) {
	const uint32_t count = plan->in->item_count;

	for (uint32_t i = 0; i < count; i++) {
		const struct hd_plan_item *item = &plan->in->items[i];

		plan->sorting[i] = (struct hd_plan_sort){
			.group = ((uint64_t)item->job << 33) | ((uint64_t)item->direction << 32)
				| plan->states[i].class,
			/* Without links every amount finishes at once. */
			.amount = item->path_count == 0 ? 0 : item->amount,
			.version = item->version,
			.id = item->id,
			.item = i,
		};
	}
	qsort(plan->sorting, count, sizeof *plan->sorting, compare_sort);
	for (uint32_t r = 0; r < count; r++) {
		plan->order[r] = plan->sorting[r].item;
		plan->states[plan->order[r]].rank = r;
	}
}

int hd_plan_setup(struct hd_plan *plan) {
	const struct hd_plan_input *in = plan->in;
	int rc = make_item_room(plan, in->item_count + 1);

	if (rc == 0)
		rc = make_link_room(plan, in->link_count);
	if (rc == 0)
		rc = make_owner_room(plan, in->job_count);
	for (uint32_t l = 0; rc == 0 && l < in->link_count; l++)
		rc = hd_profile_reset(&plan->profiles[l], in->capacity[l]);
	if (rc < 0)
		return rc;
	plan->entry_count = 0;
	open_tenants(plan);
	classify(plan);
	rank_items(plan);
	rc = list_classes(plan);
	return rc < 0 ? rc : hd_plan_load_busy(in, plan->profiles);
}
