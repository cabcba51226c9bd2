/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner: order, start and rate of transfers (MLfabric, SoCC '20, sections 4 and 5; docs/schedule.md has our
 * choices where the paper leaves them open). Pure functions on plain structs: no packet, no clock, no allocation that
 * outlives a call. Times are seconds from the planning moment, amounts and capacities any one unit and that unit a
 * second (the controller: bytes and bytes/s).
 *
 *   items --> [ tenants: weighted deficit, ageing ] --> [ job: look-ahead deadline, shortest first,
 *             drop rule ] --> entries (start, finish, commit, segments, why)
 */
#ifndef HD_PLAN_H
#define HD_PLAN_H

#include "hd_limits.h"
#include "hd_types.h"

#define HD_PLAN_PATH_MAX 8
#define HD_PLAN_NONE UINT32_MAX
/* The default of share_min, in the controller and in a problem. */
#define HD_PLAN_SHARE_MIN 0.5

/* A reserved capacity: [start, end) on one link at `rate`. */
struct hd_plan_busy {
	uint32_t link;
	double start, end, rate;
	uint64_t token; /* of the transfer that holds it, for `after` */
};

/* Deficits are sums of shares of amounts, which doubles cannot hold exactly: a third of 10 units three times is not 10.
 * Each charge may add an error of 2^-53 of the sum's largest term or partial sum. This share of the largest leaves room
 * for 131,072 charges, eight plans of HD_PENDING_MAX, all with errors in one direction. Of 30 GB it is less than a byte
 * for two tenants. */
#define HD_PLAN_DEFICIT_EQUAL 0x1p-36

struct hd_plan_tenant {
	double weight; /* > 0 */
	double deficit; /* in: the deficit, in units; out: the caller charges this plan's grants */
	double deficit_most; /* the largest value, or change, since it was 0; 0: it is exact */
};

struct hd_plan_job {
	uint32_t tenant;
	uint64_t v_init; /* last granted, unvoided position: the next is v_init + 1 */
	uint32_t tau_max;
	double theta; /* drop rule; INFINITY: off */
	double server_free; /* commit time of the granted updates, s */
};

/* The values of enum hd_direction, which the planner may not include (it knows no packet). */
enum hd_plan_direction {
	HD_PLAN_PUSH = 0,
	HD_PLAN_PULL = 1
};

struct hd_plan_item {
	uint64_t id; /* unique, not 0; breaks ties */
	uint32_t job;
	uint8_t direction; /* HD_PLAN_PUSH, HD_PLAN_PULL: a pull has no deadline, takes no position */
	uint64_t version; /* v(g), counter part */
	double amount; /* > 0 */
	double waited; /* s since its first request: ageing; between jobs it decides ties, too */
	bool keep; /* guard: must not be dropped by the theta rule */
	uint8_t kind; /* a group holds one kind, and one amount unless it is sparse (hd_plan_group.h) */
	/* A sparse one, when not 0: the limit of the sum of amounts in a group. The amount of their sum is the largest
	 * amount plus `apart` (0 .. 1) of what the others could add: 0: all have the same indices, 1: no two have one
	 * in common. */
	double room, apart;
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX]; /* indices of links */
};

struct hd_plan_input {
	uint32_t link_count;
	const double *capacity;
	uint32_t busy_count;
	const struct hd_plan_busy *busy;
	uint32_t tenant_count;
	const struct hd_plan_tenant *tenants;
	uint32_t job_count;
	const struct hd_plan_job *jobs;
	uint32_t item_count;
	const struct hd_plan_item *items;
	double ageing_s; /* an item that waited longer goes first among its job's; INFINITY: off */
	/* Nothing is sent while the path's residual is below this share of its capacity: residuals are differences of
	 * estimates, mostly error, and a transfer that starts on one keeps its slow rate when the others end. 0: any
	 * residual is used (MLfabric). */
	double share_min;
};

/* The reason for an item's place. A test recomputes each of these from the input. */
struct hd_plan_why {
	double finish; /* when its last unit arrives */
	uint64_t runner_up; /* id of the item that would have gone instead, 0 = none waited */
	double runner_up_finish;
	uint32_t deadline; /* dl(g) = v(g) + tau_max - v_init; last position that keeps the bound */
	double slack; /* positions left: deadline - position, negative when late */
	uint8_t rule; /* enum hd_plan_rule */
};

enum hd_plan_rule {
	HD_PLAN_SHORTEST, /* earliest finish */
	HD_PLAN_DEADLINE, /* look-ahead: some prefix would become infeasible otherwise */
	HD_PLAN_AGED, /* waited beyond the ageing bound */
	HD_PLAN_TENANT, /* its tenant had a deficit */
	HD_PLAN_DROP_BOUND, /* dl(g) has passed */
	HD_PLAN_DROP_IDLES /* theta rule */
};

struct hd_plan_segment {
	double start, end, rate;
};

struct hd_plan_entry {
	uint32_t item;
	bool dropped;
	uint64_t position; /* v_init + i of its job; 0 for pulls and drops */
	double start, finish, commit;
	uint32_t bottleneck; /* link with the least residual when it was placed */
	uint32_t after; /* index of the entry whose end determines its start, HD_PLAN_NONE */
	uint64_t after_token; /* the same for a granted transfer, 0 = none */
	uint8_t segment_count; /* <= HD_SEGMENTS_MAX; the last one is widened conservatively */
	struct hd_plan_segment segment[HD_SEGMENTS_MAX];
	struct hd_plan_why why;
};

struct hd_plan; /* scratch memory, reused from call to call */

int hd_plan_create(struct hd_plan **plan);
void hd_plan_destroy(struct hd_plan *plan);

/* Plans all items. Entries come in planned order (grants in commit order of their job, drops at their decision);
 * entries belong to the plan until the next call. Returns 0, -EINVAL (a field is out of range: *error names it),
 * -ENOMEM. Cost O(n log n) typical. */
int hd_plan_run(
	struct hd_plan *plan,
	const struct hd_plan_input *input,
	const struct hd_plan_entry **entries,
	uint32_t *count,
	const char **error
);

const char *hd_plan_rule_name(uint8_t rule);

#endif
