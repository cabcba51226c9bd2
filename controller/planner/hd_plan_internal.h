/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the planner. docs/schedule.md has the pseudo-code. */
#ifndef HD_PLAN_INTERNAL_H
#define HD_PLAN_INTERNAL_H

#include "hd_plan.h"
#include "hd_plan_due.h"
#include "hd_plan_profile.h"

/* The state of an item. */
struct hd_plan_state {
	double finish; /* on its path as of `stamp`; else a lower bound */
	double key; /* hd_plan_key(finish) */
	uint64_t
		stamp; /* sum of the changes of its links when finish was computed, + 1; 0: never */
	uint32_t class; /* of its path */
	uint32_t rank; /* its index in the order by (job, direction, class, amount, version, id) */
	uint32_t leaf; /* in its job's look-ahead tree */
	bool gone; /* placed or dropped */
	bool aged; /* waited beyond the ageing bound */
};

/* Items with the same path: among them the smaller amount finishes first. */
struct hd_plan_class {
	const uint32_t *links;
	uint8_t count;
	double rate; /* least capacity on the path */
	double least; /* lower rates count as 0: share_min of `rate` */
	double from; /* its items cannot start earlier */
	uint32_t pending;
	uint32_t next; /* in the hash chain */
};

/* The remaining items of one class in a pool, with the values that a scan needs of the first one. */
struct hd_pool_run {
	double amount;
	double alone; /* seconds on empty links */
	double rate; /* least capacity on the path */
	double quick; /* seconds on the group's fastest path */
	double stale; /* a lower bound of its finish */
	uint32_t item; /* pool->items[next] */
	uint32_t next, end; /* in pool->items */
};

/* Runs over one shared link (the server's, in a star), by amount, version, id of their first items. */
struct hd_pool_group {
	uint32_t link;
	double rate; /* highest of the runs */
	struct hd_pool_run *runs;
	uint32_t run_count;
	/* The two with the earliest finish at the last search, HD_PLAN_NONE: none. The first stays the earliest until
	 * it goes or its path is reserved by others: the finishes of the other runs only get later. */
	uint32_t least, second;
	uint64_t stamp; /* of the path of `least` at that search */
	double bound; /* no item finishes earlier */
};

/* A set of items of one job and direction. The earliest finish is searched again and again, while reservations move
 * finishes later, never earlier. */
struct hd_pool {
	int64_t limit; /* only deadlines up to this */
	uint32_t *items, count, room;
	uint32_t *aged, aged_count, aged_next; /* by waited, then version, id */
	struct hd_pool_run *runs; /* of all groups */
	struct hd_pool_group *groups;
	uint32_t group_count;
	uint32_t hint; /* the group with the earliest finish at the last search: likely the next */
};

/* A row for sorting items: filled so that memory is read sequentially. */
struct hd_plan_sort {
	uint64_t group;
	double amount;
	uint64_t version, id;
	uint32_t item;
};

struct hd_plan_owner { /* a job while it is planned */
	uint64_t next; /* position after v_init, from 1 */
	double commit;
	uint32_t *by_due; /* kept pushes by deadline; in plan->by_due */
	uint32_t due_count, due_next;
	struct hd_due due;
	struct hd_pool pools[HD_PLAN_POOLS_MAX]; /* 0: all pushes; each next one a tighter limit */
	uint32_t pool_count;
	struct hd_pool pulls;
	uint32_t pending;
	uint32_t pick; /* HD_PLAN_NONE: not known */
	uint64_t pick_stamp;
	double pick_bound; /* its finish at that time: the job's next item finishes no earlier */
};

struct hd_plan {
	char error[160];
	const struct hd_plan_input *in;
	struct hd_profile *profiles;
	uint32_t profile_count;
	struct hd_plan_state *states;
	struct hd_plan_class *classes;
	uint32_t class_count;
	uint32_t *
		link_classes; /* the classes with a path over link l are [link_first[l], link_first[l + 1]) */
	uint32_t *link_first; /* [profile_room + 1] */
	uint32_t link_class_room;
	uint32_t *buckets; /* hash of paths: power of two, > item_count */
	uint32_t *order; /* items by rank */
	uint32_t *by_due;
	uint32_t *scratch; /* of hd_pool_build */
	uint32_t *gather; /* items for hd_pool_build; heap of hd_plan_due sweep */
	struct hd_plan_entry *entries;
	uint32_t entry_count;
	uint32_t item_room;
	struct hd_plan_sort *sorting;
	uint32_t *link_uses; /* [profile_room] scratch of pools, all 0 between calls */
	uint32_t *link_group; /* the same, all HD_PLAN_NONE */
	uint32_t no_link_group; /* of paths without links */
	uint32_t profile_room;
	struct hd_plan_owner *owners;
	uint32_t owner_count;
	double deficit[HD_JOBS_MAX];
	double deficit_rounding; /* error bound of deficits, in units */
	uint32_t tenant_pending[HD_JOBS_MAX];
};

/* hd_plan_check.c: 0 or -EINVAL with plan->error. */
int hd_plan_check(struct hd_plan *plan, const struct hd_plan_input *in);

/* hd_plan_setup.c: memory, profiles, classes, ranks. 0, -ENOMEM. */
int hd_plan_setup(struct hd_plan *plan);
void hd_plan_fini(struct hd_plan *plan);
/* hd_plan_busy.c: loads existing reservations into the profiles. 0, -ENOMEM. */
int hd_plan_load_busy(const struct hd_plan_input *in, struct hd_profile *profiles);
/* hd_plan_lost.c: drops the pushes that cannot meet their deadlines, builds the look-ahead trees and pools. 0,
 * -ENOMEM. */
int hd_plan_open_jobs(struct hd_plan *plan);

/* hd_plan_place.c */
void hd_plan_evaluate(struct hd_plan *plan, uint32_t item);
/* The sum of changes on the item's path, + 1. */
uint64_t hd_plan_stamp(const struct hd_plan *plan, uint32_t item);
/* Whether x goes before y when all else is equal. Within a job the older version goes first: that narrows the spread of
 * the delays. Each job has versions of its own, so versions of two jobs cannot be compared, and positions of another
 * job make no update staler. Between jobs the one that waited longer goes first. This orders the items of one job, or
 * one item from each of several jobs. It does not order items of several jobs together: x before y by the version, y
 * before z by the wait and z before x by the wait is possible, so it cannot be used to sort those. */
static inline bool hd_plan_tie(const struct hd_plan_item *x, const struct hd_plan_item *y) {
	if (x->job == y->job && x->version != y->version)
		return x->version < y->version;
	if (x->job != y->job && x->waited != y->waited)
		return x->waited > y->waited;
	return x->id < y->id;
}
/* By finish, then hd_plan_tie; both evaluated or with a lower bound. */
bool hd_plan_before(const struct hd_plan *plan, uint32_t a, uint32_t b);
/* Aged items first, by their wait; then hd_plan_before. */
bool hd_plan_goes_before(const struct hd_plan *plan, uint32_t a, uint32_t b);
int64_t hd_plan_deadline(const struct hd_plan *plan, uint32_t item);
/* A new entry with its item and why; runner_up may be HD_PLAN_NONE, else it is evaluated. `place`: the position after
 * v_init from which slack is counted. The item is gone. */
struct hd_plan_entry *hd_plan_decide(
	struct hd_plan *plan,
	uint32_t item,
	uint8_t rule,
	uint32_t runner_up,
	int64_t place
);
/* The link that delayed a placed entry until its start or, when none did, the slowest at the start (of several the most
 * loaded, then the lowest index), and the transfer for whose end it waited. Before its own reservations. */
void hd_plan_find_bottleneck(
	const struct hd_profile_path *path,
	const struct hd_plan_busy *busy,
	struct hd_plan_entry *entry
);
/* Segments, bottleneck, reservations on the links. 0, -ENOMEM. */
int hd_plan_place(struct hd_plan *plan, struct hd_plan_entry *entry);

/* hd_plan_pool.c */
void hd_pool_fini(struct hd_pool *pool);
/* Items by ascending rank. 0, -ENOMEM. */
int hd_pool_build(
	struct hd_plan *plan,
	struct hd_pool *pool,
	const uint32_t *items,
	uint32_t count,
	int64_t limit
);
/* Finishes up to this may be equal by key. */
static inline double hd_plan_beyond(double finish) {
	return finish * (1 + 1e-10);
}
/* The item with the earliest finish, evaluated; HD_PLAN_NONE when all are gone or finish after `last`. */
uint32_t hd_pool_least(struct hd_plan *plan, struct hd_pool *pool, double last);
/* The item that goes first: an aged one, else the one with the earliest finish; evaluated. */
uint32_t hd_pool_first(struct hd_plan *plan, struct hd_pool *pool, double last);

#endif
