/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of grouping share: links as they fill, and can be emptied again. */
#ifndef HD_PLAN_GROUP_INTERNAL_H
#define HD_PLAN_GROUP_INTERNAL_H

#include "hd_plan_group.h"
#include "hd_plan_internal.h"

/* A link as it was before a promise. */
struct hd_group_saved {
	uint32_t link;
	uint32_t count, changes;
	size_t pieces; /* where they are kept, with the sentinel */
};

/* Consecutive members of a list that an aggregator may take. */
struct hd_group_choice {
	uint32_t aggregator;
	uint32_t first, count; /* in the list; of pulls: in g->picked */
	double limit, direct; /* as in hd_plan_group */
};

/* What a way of sending everything comes to. */
struct hd_group_score {
	double last; /* when the list's last is done */
	double own; /* sum of the moments at which the list's transfers are done */
	double others; /* and of the others' in the window */
	uint32_t
		server; /* transfers of the list on the server's link: direct ones, and one a group */
};

/* The transfers of one job and direction that are looked at together. */
struct hd_group_list {
	uint32_t job;
	uint8_t direction;
	uint32_t *entries, count;
	uint32_t end; /* entries of the plan before this are looked at */
};

/* A group while it is placed. */
struct hd_group_try {
	const uint32_t *entries; /* its members */
	const struct hd_plan_way *ways; /* of each */
	uint32_t count;
	const struct hd_plan_way *trunk;
	bool at_once; /* its members, and its sum */
	uint32_t label; /* of its sum */
	bool explain; /* wanted: bottlenecks, and what they wait for */
	double amount; /* out: of its sum */
	double collected; /* out */
	struct hd_plan_entry sum; /* out */
};

struct hd_plan_grouper {
	const struct hd_plan_group_input *in;
	struct hd_profile *profiles;
	uint32_t profile_room;
	bool keep_log; /* what is promised now may be taken back */
	struct hd_group_saved *log;
	uint32_t log_count, log_room;
	struct hd_profile_piece *pieces; /* of the log */
	size_t piece_count, piece_room;
	struct hd_plan_entry *entries; /* as placed last */
	uint32_t *list; /* [entry_room] */
	uint32_t *picked, *drawn; /* [entry_room] pulls by copy, and where each comes from */
	struct hd_group_choice *choices, *best; /* [entry_room] of a trial, and of the best one */
	uint32_t choice_count, best_count;
	/* What is decided. */
	uint32_t *group_of; /* [entry_room] */
	uint32_t *
		group_at; /* [entry_room] the first group that is placed when it is this entry's turn */
	uint32_t *members; /* [entry_room] */
	struct hd_plan_way *member_ways; /* [entry_room] */
	uint32_t entry_room, member_count;
	struct hd_plan_group *groups; /* [entry_room] */
	uint32_t group_count;
	double memory[HD_PLAN_AGGREGATORS_MAX]; /* left */
	/* Of the list at hand: by aggregator, then place in the list; its trunks after them. */
	struct hd_plan_way *ways;
	bool *way_is; /* it is there */
	size_t way_room;
	double commit[HD_JOBS_MAX]; /* of each job so far */
	uint32_t job; /* of the list at hand */
	uint8_t direction; /* the same */
	struct hd_group_score score; /* so far */
	uint32_t work;
	int status; /* first failure */
};

struct hd_group_mark {
	uint32_t log;
	size_t pieces;
};

/* What a group's members are together. */
struct hd_group_size {
	double most, all;
};

/* How much comes, and how much of a sum leaves in the same proportion. */
struct hd_group_flow {
	double in, out;
};

/* One transfer to be placed. */
struct hd_group_transfer {
	const uint32_t *links;
	uint8_t count;
	uint32_t by; /* its label: see hd_plan_profile.h */
	double amount, from;
	double most; /* no faster than this; 0: as its links are */
};

/* --- hd_plan_group_links.c ------------------------------------------------------------------ */
/* Links as they are before the plan, memory for all. 0, -ENOMEM. */
int hd_group_setup(struct hd_plan_grouper *g);
struct hd_group_mark hd_group_mark(const struct hd_plan_grouper *g);
/* Takes back everything since. */
void hd_group_undo(struct hd_plan_grouper *g, struct hd_group_mark mark);
/* When it would be done. */
double hd_group_finish(struct hd_plan_grouper *g, const struct hd_group_transfer *t);
/* When it could start. */
double hd_group_start(struct hd_plan_grouper *g, const struct hd_group_transfer *t);
/* Promises it: start, finish, segments; with the bottleneck when `explain`. */
void hd_group_place(
	struct hd_plan_grouper *g,
	const struct hd_group_transfer *t,
	bool explain,
	struct hd_plan_entry *entry
);
/* The most that one transfer gets of a way; INFINITY: it is inside a host. */
double hd_group_rate(const struct hd_plan_grouper *g, const struct hd_plan_way *way);
/* The earliest start of something that passes `amount` on over `trunk` as it arrives with `arrival`, or,
 * without streaming, after it. */
double hd_group_ready(
	const struct hd_plan_grouper *g,
	const struct hd_plan_entry *arrival,
	const struct hd_plan_way *trunk,
	struct hd_group_flow flow
);

/* Its members and its sum, or its copy and the members. With the job's commit so far as `since`; returns when
 * its last member is done. */
double hd_group_place_all(
	struct hd_plan_grouper *g,
	struct hd_group_try *try,
	uint8_t direction,
	double since
);

/* --- hd_plan_group_search.c, hd_plan_group_pull.c ------------------------------------------- */
/* Whether something is left to search with. */
static inline bool hd_group_may_work(const struct hd_plan_grouper *g) {
	return g->status == 0 && g->work < g->in->work;
}
/* Finds the best choices for a list: g->best, best_count (0: all direct). */
void hd_group_search_pushes(struct hd_plan_grouper *g, const struct hd_group_list *list);
void hd_group_search_pulls(struct hd_plan_grouper *g, const struct hd_group_list *list);

/* --- hd_plan_group.c ------------------------------------------------------------------------ */
/* Makes the best choices groups: decided from now on. */
void hd_group_decide(struct hd_plan_grouper *g, const struct hd_group_list *list);
/* Takes back those from the group at this index on. */
void hd_group_undecide(struct hd_plan_grouper *g, uint32_t groups);
/* Entries [from, end) as decided; adds to g->score. explain: bottlenecks too. */
void hd_group_replay(struct hd_plan_grouper *g, uint32_t from, uint32_t end, bool explain);
/* Commits and score from the beginning. */
void hd_group_rewind(struct hd_plan_grouper *g);
/* Whether a is better than b: the last, then the mean, then what the server's link carries; what differs by
 * rounding is equal. It must not cost the others more than it gains against all direct. */
bool hd_group_better(
	struct hd_group_score a,
	struct hd_group_score b,
	struct hd_group_score direct
);
/* Adds to the score. */
static inline void
hd_group_count_done(struct hd_plan_grouper *g, const struct hd_plan_item *item, double done) {
	if (item->job == g->job && item->direction == g->direction)
		g->score.own += done;
	else
		g->score.others += done;
}

static inline const struct hd_plan_item *
hd_group_item(const struct hd_plan_grouper *g, uint32_t entry) {
	return &g->in->plan->items[g->in->entries[entry].item];
}
static inline void hd_group_size_add(struct hd_group_size *size, const struct hd_plan_item *item) {
	size->most = item->amount > size->most ? item->amount : size->most;
	size->all += item->amount;
}
/* What the sum of such items has. */
static inline double hd_group_size_sum(struct hd_group_size size, const struct hd_plan_item *item) {
	return item->room > 0 ? size.most + item->apart * (size.all - size.most) : size.most;
}
/* What it takes of an aggregator's memory. */
static inline double
hd_group_size_kept(struct hd_group_size size, const struct hd_plan_item *item) {
	return item->room > 0 ? 2 * size.all : size.most; /* with what is kept of each */
}
/* The same of some entries. */
static inline struct hd_group_size
hd_group_size_of(const struct hd_plan_grouper *g, const uint32_t *entries, uint32_t count) {
	struct hd_group_size size = {0, 0};

	for (uint32_t i = 0; i < count; i++)
		hd_group_size_add(&size, hd_group_item(g, entries[i]));
	return size;
}
static inline double
hd_group_kept(const struct hd_plan_grouper *g, const uint32_t *entries, uint32_t count) {
	return hd_group_size_kept(
		hd_group_size_of(g, entries, count), hd_group_item(g, entries[0])
	);
}
static inline struct hd_group_transfer
hd_group_direct(const struct hd_plan_grouper *g, uint32_t entry) {
	const struct hd_plan_item *item = hd_group_item(g, entry);

	return (struct hd_group_transfer){item->path, item->path_count, entry, item->amount, 0, 0};
}
/* The way of the list's member at `index`; NULL: none. */
static inline const struct hd_plan_way *hd_group_way(
	const struct hd_plan_grouper *g,
	const struct hd_group_list *list,
	uint32_t index,
	uint32_t aggregator
) {
	const size_t k = (size_t)aggregator * list->count + index;

	return g->way_is[k] ? &g->ways[k] : NULL;
}
static inline bool hd_group_at_once(const struct hd_plan_grouper *g, uint32_t aggregator) {
	return g->in->at_once && g->in->at_once[aggregator];
}
static inline const struct hd_plan_way *hd_group_trunk(
	const struct hd_plan_grouper *g,
	const struct hd_group_list *list,
	uint32_t aggregator
) {
	const size_t k = (size_t)g->in->aggregator_count * list->count + aggregator;

	return g->way_is[k] ? &g->ways[k] : NULL;
}

#endif
