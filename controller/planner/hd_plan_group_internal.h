/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to grouping: links whose reservations can be undone. */
#ifndef HD_PLAN_GROUP_INTERNAL_H
#define HD_PLAN_GROUP_INTERNAL_H

#include "hd_plan_group.h"
#include "hd_plan_internal.h"

/* A link as it was before a reservation. */
struct hd_group_saved {
	uint32_t link;
	uint32_t count, changes;
	size_t pieces; /* where they are saved, with the sentinel */
};

/* Consecutive members of a list that could form a group at an aggregator. */
struct hd_group_choice {
	uint32_t aggregator;
	uint32_t first, count; /* in the list; of pulls: in g->picked */
	double limit, direct; /* as in hd_plan_group */
};

/* The score of one way to send all transfers. */
struct hd_group_score {
	double last; /* when the list's last one is done */
	double own; /* sum of the times at which the list's transfers are done */
	double others; /* the same for the others in the window */
	/* Transfers of the list on the server's link: direct ones, one for each group. */
	uint32_t server;
};

/* The transfers of one job and direction that are considered together. */
struct hd_group_list {
	uint32_t job;
	uint8_t direction;
	uint32_t *entries, count;
	uint32_t end; /* entries of the plan before this are considered */
};

/* A group while it is placed. */
struct hd_group_try {
	const uint32_t *entries; /* its members */
	const struct hd_plan_path *paths; /* path of each */
	uint32_t count;
	const struct hd_plan_path *trunk;
	bool at_once; /* its members and its sum go at the same time */
	uint32_t label; /* of its sum */
	bool explain; /* in: compute bottlenecks and predecessors */
	double amount; /* out: of its sum */
	double collected; /* out */
	struct hd_plan_entry sum; /* out */
};

struct hd_plan_grouper {
	const struct hd_plan_group_input *in;
	struct hd_profile *profiles;
	uint32_t profile_room;
	bool keep_log; /* reservations may be undone */
	struct hd_group_saved *log;
	uint32_t log_count, log_room;
	struct hd_profile_piece *pieces; /* saved by the log */
	size_t piece_count, piece_room;
	struct hd_plan_entry *entries; /* as last placed */
	uint32_t *list; /* [entry_room] */
	uint32_t *picked, *drawn; /* [entry_room] pulls by copy, and the source of each */
	struct hd_group_choice *choices, *best; /* [entry_room] of a try, and of the best one */
	uint32_t choice_count, best_count;
	/* The decisions. */
	uint32_t *group_of; /* [entry_room] */
	uint32_t *group_at; /* [entry_room] the first group placed at this entry's turn */
	uint32_t *members; /* [entry_room] */
	struct hd_plan_path *member_paths; /* [entry_room] */
	uint32_t entry_room, member_count;
	struct hd_plan_group *groups; /* [entry_room] */
	uint32_t group_count;
	double memory[HD_PLAN_AGGREGATORS_MAX]; /* free bytes */
	/* For the present list: by aggregator, then index in the list; its trunks after them. */
	struct hd_plan_path *paths;
	bool *path_is; /* there is a path */
	size_t path_room;
	double commit[HD_JOBS_MAX]; /* of each job so far */
	uint32_t job; /* of the present list */
	uint8_t direction; /* the same */
	struct hd_group_score score; /* so far */
	uint32_t work;
	int status; /* first failure */
};

struct hd_group_mark {
	uint32_t log;
	size_t pieces;
};

/* The members of a group: their largest amount, and their sum. */
struct hd_group_size {
	double most, all;
};

/* The amount that arrives, and the amount of a sum that leaves in proportion. */
struct hd_group_flow {
	double in, out;
};

/* One transfer to be placed. */
struct hd_group_transfer {
	const uint32_t *links;
	uint8_t count;
	uint32_t by; /* its label: see hd_plan_profile.h */
	double amount, from;
	double most; /* limit of its rate; 0: its links only */
};

/* --- hd_plan_group_links.c ------------------------------------------------------------------ */
/* Sets the links to their state before the plan, allocates. 0, -ENOMEM. */
int hd_group_setup(struct hd_plan_grouper *g);
struct hd_group_mark hd_group_mark(const struct hd_plan_grouper *g);
/* Undoes all reservations since. */
void hd_group_undo(struct hd_plan_grouper *g, struct hd_group_mark mark);
/* Its finish if it were placed now. */
double hd_group_finish(struct hd_plan_grouper *g, const struct hd_group_transfer *t);
/* Its start if it were placed now. */
double hd_group_start(struct hd_plan_grouper *g, const struct hd_group_transfer *t);
/* Reserves it: start, finish, segments; with the bottleneck when `explain`. */
void hd_group_place(
	struct hd_plan_grouper *g,
	const struct hd_group_transfer *t,
	bool explain,
	struct hd_plan_entry *entry
);
/* The highest rate of a single transfer on a path; INFINITY: within a host. */
double hd_group_rate(const struct hd_plan_grouper *g, const struct hd_plan_path *path);
/* The earliest start of a transfer that forwards `amount` over `trunk` as it arrives with `arrival`, or, without
 * streaming, after it. */
double hd_group_ready(
	const struct hd_plan_grouper *g,
	const struct hd_plan_entry *arrival,
	const struct hd_plan_path *trunk,
	struct hd_group_flow flow
);

/* Places the members and the sum, or the copy and the members. `since` is the job's last commit so far; returns when
 * the last member is done. */
double hd_group_place_all(
	struct hd_plan_grouper *g,
	struct hd_group_try *try,
	uint8_t direction,
	double since
);

/* --- hd_plan_group_search.c, hd_plan_group_pull.c ------------------------------------------- */
/* Whether the search may go on. */
static inline bool hd_group_may_work(const struct hd_plan_grouper *g) {
	return g->status == 0 && g->work < g->in->work;
}
/* Finds the best choices for a list: g->best, best_count (0: all direct). */
void hd_group_search_pushes(struct hd_plan_grouper *g, const struct hd_group_list *list);
void hd_group_search_pulls(struct hd_plan_grouper *g, const struct hd_group_list *list);

/* --- hd_plan_group.c ------------------------------------------------------------------------ */
/* Makes groups of the best choices; they are decided from now on. */
void hd_group_decide(struct hd_plan_grouper *g, const struct hd_group_list *list);
/* Removes the decided groups from this index on. */
void hd_group_undecide(struct hd_plan_grouper *g, uint32_t groups);
/* Places entries [from, end) as decided; adds to g->score. explain: bottlenecks too. */
void hd_group_replay(struct hd_plan_grouper *g, uint32_t from, uint32_t end, bool explain);
/* Resets commits and score. */
void hd_group_rewind(struct hd_plan_grouper *g);
/* Whether a is better than b: by the last finish, then the mean, then the transfers on the server's link; values that
 * differ by rounding only are equal. The others must not lose more than it gains compared with no groups. */
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
/* The amount of the sum of such items. */
static inline double hd_group_size_sum(struct hd_group_size size, const struct hd_plan_item *item) {
	return item->room > 0 ? size.most + item->apart * (size.all - size.most) : size.most;
}
/* The memory of an aggregator that it takes. */
static inline double
hd_group_size_kept(struct hd_group_size size, const struct hd_plan_item *item) {
	return item->room > 0 ? 2 * size.all : size.most; /* with the stored members */
}
/* The size of some entries. */
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
/* The path of the list's member at `index`; NULL: none. */
static inline const struct hd_plan_path *hd_group_path(
	const struct hd_plan_grouper *g,
	const struct hd_group_list *list,
	uint32_t index,
	uint32_t aggregator
) {
	const size_t k = (size_t)aggregator * list->count + index;

	return g->path_is[k] ? &g->paths[k] : NULL;
}
static inline bool hd_group_at_once(const struct hd_plan_grouper *g, uint32_t aggregator) {
	return g->in->at_once && g->in->at_once[aggregator];
}
static inline const struct hd_plan_path *hd_group_trunk(
	const struct hd_plan_grouper *g,
	const struct hd_group_list *list,
	uint32_t aggregator
) {
	const size_t k = (size_t)g->in->aggregator_count * list->count + aggregator;

	return g->path_is[k] ? &g->paths[k] : NULL;
}

#endif
