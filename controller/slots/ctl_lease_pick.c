/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses a switch for a round, and the number of its slots. */
#include "ctl_base.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "hd_group.h"
#include "hd_kernels.h"

#include <math.h>
#include <string.h>

const char ctl_why_slots[] = "slots", ctl_why_no_switch[] = "no-switch";

/* The workers of a round, and what all of them support. */
struct crew {
	uint32_t count;
	const struct ctl_node *node[HD_SWITCH_MEMBERS_MAX];
	uint16_t count_max, dtypes;
	hd_ns rtt; /* the longest of the workers' shortest round-trip times */
};

/* NULL, or why they cannot use slots. */
static const char *
muster(const struct ctl_job *job, const struct ctl_reduce *r, struct crew *crew) {
	*crew = (struct crew){.count_max = UINT16_MAX, .dtypes = UINT16_MAX};
	if (r->count[CTL_PART_ASKED] > HD_SWITCH_MEMBERS_MAX)
		return "workers";
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct ctl_node *node = job->workers[i];

		if (r->part[i] != CTL_PART_ASKED || !node)
			continue;
		crew->node[crew->count++] = node;
		if (node->count_max < crew->count_max)
			crew->count_max = node->count_max;
		crew->dtypes &= node->slot_dtypes;
		crew->rtt = hd_ns_max(crew->rtt, node->rtt_least);
	}
	return crew->count_max == 0 || crew->dtypes == 0 ? "unable" : NULL;
}

int ctl_lease_exponent(const struct ctl_reduce *r) {
	double peaks = 0;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED || r->part[i] == CTL_PART_STARTED)
			peaks += fabs((double)r->peak[i]);
	return hd_fixed_exponent(peaks, r->count[CTL_PART_ASKED] + r->count[CTL_PART_STARTED]);
}

/* Floats when their order does not matter: they lose no precision. Sums of fixed point always have the same bits.
 * HD_DTYPE_COUNT: neither. */
static uint8_t dtype_for(const struct ctl_reduce *r, uint16_t dtypes) {
	if (r->order == HD_GROUP_ARRIVAL && (dtypes >> HD_DTYPE_FP32 & 1) != 0)
		return HD_DTYPE_FP32;
	return (dtypes >> HD_DTYPE_FIXED32 & 1) != 0 ? HD_DTYPE_FIXED32 : HD_DTYPE_COUNT;
}

/* --- paths --- */

/* From one worker to the switch and back. */
struct path {
	uint32_t count;
	uint32_t links[2 * HD_PLAN_PATH_MAX];
};

static bool find_path(
	const struct hd_controller *c,
	const struct ctl_node *worker,
	const struct ctl_node *node,
	struct path *path
) {
	int there = hd_topology_path(
		c->config.topology,
		worker->host_index,
		node->host_index,
		path->links,
		HD_PLAN_PATH_MAX
	);
	int back = there < 0 ? there :
			       hd_topology_path(
				       c->config.topology,
				       node->host_index,
				       worker->host_index,
				       path->links + there,
				       HD_PLAN_PATH_MAX
			       );

	path->count = back < 0 ? 0 : (uint32_t)(there + back);
	return back > 0;
}

static bool is_apart(const struct path *path, const struct ctl_lease *lease) {
	for (uint32_t i = 0; i < path->count; i++)
		for (uint32_t k = 0; k < lease->link_count; k++)
			if (path->links[i] == lease->links[k])
				return false;
	return true;
}

/* False: two paths share a link, or there is none to the switch. */
static bool take_paths(
	const struct hd_controller *c,
	const struct crew *crew,
	const struct ctl_node *node,
	struct ctl_lease *shape
) {
	struct path path;

	shape->link_count = 0;
	for (uint32_t i = 0; i < crew->count; i++) {
		if (!find_path(c, crew->node[i], node, &path) || !is_apart(&path, shape))
			return false;
		memcpy(shape->links + shape->link_count, path.links, path.count * sizeof *path.links
		);
		shape->link_count += path.count;
	}
	return true;
}

/* --- slots --- */

static uint32_t below(uint32_t n) {
	uint32_t power = 1;

	while (power <= n / 2)
		power *= 2;
	return n > 0 ? power : 0;
}

uint32_t ctl_lease_want(hd_ns longest, double rate, uint16_t count) {
	hd_ns rtt = hd_ns_min(hd_ns_max(longest, CTL_LEASE_RTT_LEAST_NS), CTL_LEASE_RTT_MOST_NS);
	double chunks = rate * (double)rtt * 1e-9 / ((double)count * sizeof(float));
	uint32_t slots = CTL_LEASE_SLOTS_LEAST;

	/* A process may respond late: with fewer slots a slow link would be idle meanwhile. */
	while (slots < CTL_LEASE_SLOTS_FLOOR
	       && (size_t)2 * slots * (count * sizeof(float) + HD_CHUNK_OVERHEAD_BYTES)
		       <= CTL_LEASE_WINDOW_BYTES)
		slots *= 2;
	/* Powers of two: jobs on links of one kind get equal numbers, and a new lease fits into the place of an old
	 * one. */
	while (slots < CTL_LEASE_SLOTS_MOST && slots < chunks * 1.25)
		slots *= 2;
	return slots;
}

/* Its rounds use aggregators meanwhile, or wait; so do its pushes. */
static bool is_short(const struct hd_controller *c, const struct ctl_job *job) {
	return c->now < job->slots_short_until
		|| (!job->lease && job->why == ctl_why_slots && job->reduce_count > 0);
}

static bool
takes_part(const struct hd_controller *c, const struct ctl_node *node, const struct ctl_job *job) {
	if (job->lease && job->lease->node == node)
		return true;
	return ctl_slots_leased(c, node, job) > 0 || is_short(c, job);
}

/* Slots for each job that has a lease there, or lacks only slots for one; this job is one of them. */
uint32_t ctl_lease_share(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
) {
	uint32_t jobs = 1;

	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *other = c->jobs[i];

		if (other != job)
			jobs += takes_part(c, node, other);
	}
	return below(node->slots / jobs);
}

/* The least recently used lease of another job, of those that are not in use. */
static struct ctl_lease *idlest(const struct hd_controller *c, const struct ctl_node *node) {
	struct ctl_lease *lease, *found = NULL;

	TAILQ_FOREACH (lease, &c->leases, entry)
		if (lease->node == node && lease->held && !ctl_lease_is_busy(lease)
		    && (!found || lease->used < found->used))
			found = lease;
	return found;
}

/* Up to `want` slots, of those that are free or can be taken back; 0: fewer than the minimum. */
uint32_t ctl_lease_take(
	struct hd_controller *c,
	const struct ctl_node *node,
	uint32_t want,
	struct hd_sink *sink
) {
	uint32_t leased = ctl_lease_slots(c, node);
	struct ctl_lease *idle;

	/* When there are more jobs than such shares, they take turns. */
	want = want > CTL_LEASE_SLOTS_LEAST ? want : CTL_LEASE_SLOTS_LEAST;
	while (node->slots < leased + want && (idle = idlest(c, node))) {
		c->counters.leases_taken++;
		leased -= idle->slots;
		ctl_lease_end(c, idle, HD_REASON_EXPIRED, sink);
	}
	while (want >= CTL_LEASE_SLOTS_LEAST && node->slots < leased + want)
		want /= 2;
	return want >= CTL_LEASE_SLOTS_LEAST ? want : 0;
}

uint32_t ctl_lease_free(const struct hd_controller *c, const struct ctl_node *node, uint32_t most) {
	uint32_t leased = ctl_lease_slots(c, node), left;
	const struct ctl_lease *lease;

	TAILQ_FOREACH (lease, &c->leases, entry)
		if (lease->node == node && lease->held && !ctl_lease_is_busy(lease))
			leased -= lease->slots;
	left = node->slots > leased ? node->slots - leased : 0;
	return left < most ? left : most;
}

/* Estimates and round-trip times differ from those when it was leased: more slots at once, fewer only when a quarter
 * would do, so that small changes have no effect. */
static void review(const struct hd_controller *c, struct ctl_lease *lease) {
	uint32_t want;
	hd_ns rtt = 0;

	for (uint32_t i = 0; i < lease->seat_count; i++) {
		const struct ctl_node *worker = lease->job->workers[lease->seats[i].worker];

		if (worker)
			rtt = hd_ns_max(rtt, worker->rtt_least);
	}
	lease->rate = ctl_lease_rate(c, lease);
	want = ctl_lease_want(rtt, lease->rate, lease->count);
	if (want > lease->wanted || 4 * want <= lease->wanted)
		lease->wanted = (uint16_t)want;
}

bool ctl_lease_is_fair(const struct hd_controller *c, struct ctl_lease *lease) {
	uint32_t leased = ctl_lease_slots(c, lease->node), slots = lease->node->slots, share, want;
	bool rests = c->now < hd_ns_add(lease->asked, CTL_LEASE_REST_NS);

	if (!rests)
		review(c, lease);
	share = ctl_lease_share(c, lease->node, lease->job);
	want = lease->wanted < share ? lease->wanted : share;
	if (lease->slots > want)
		return want < CTL_LEASE_SLOTS_LEAST;
	return rests || lease->slots == want || slots < leased + want - lease->slots;
}

bool ctl_lease_is_over(const struct hd_controller *c, const struct ctl_lease *lease) {
	uint32_t share = ctl_lease_share(c, lease->node, lease->job);

	if (lease->slots <= share || share < CTL_LEASE_SLOTS_LEAST)
		return false;
	for (uint32_t i = 0; i < c->job_count; i++)
		if (is_short(c, c->jobs[i]))
			return true;
	return false;
}

/* --- the choice of a switch --- */

/* NULL, or why not this one; its slots are not checked, as they may have to be taken back first. */
static const char *try_switch(
	const struct hd_controller *c,
	const struct ctl_reduce *r,
	const struct crew *crew,
	struct ctl_node *node,
	struct ctl_lease *shape
) {
	if (c->now < node->no_groups_until)
		return "refused";
	if (node->draining)
		return "draining";
	shape->dtype = dtype_for(r, crew->dtypes & node->slot_dtypes);
	if (shape->dtype == HD_DTYPE_COUNT)
		return "type";
	if (shape->dtype == HD_DTYPE_FIXED32 && ctl_lease_exponent(r) > HD_FIXED_EXPONENT_MAX)
		return "values";
	shape->count = crew->count_max < node->count_max ? crew->count_max : node->count_max;
	if (shape->count < node->count_min)
		return "count";
	if (!take_paths(c, crew, node, shape))
		return "path";
	shape->rate = ctl_lease_rate(c, shape);
	if ((double)r->bytes / shape->rate > CTL_LEASE_LATER * shape->seconds)
		return "slower";
	shape->node = node;
	return NULL;
}

const char *ctl_lease_pick(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_lease *shape,
	struct hd_sink *sink
) {
	const char *why = ctl_why_no_switch;
	uint32_t want, share;
	struct ctl_node *node;
	struct crew crew;

	if (c->switch_count == 0)
		return why;
	why = muster(job, r, &crew);
	if (why)
		return why;
	shape->seconds = ctl_reduce_seconds(c, job, r);
	why = ctl_why_no_switch;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (node->role == HD_ROLE_SWITCH && !node->doomed)
			why = try_switch(c, r, &crew, node, shape);
		if (!why)
			break;
	}
	if (why)
		return why;
	share = ctl_lease_share(c, shape->node, job);
	want = ctl_lease_want(crew.rtt, shape->rate, shape->count);
	shape->wanted = (uint16_t)want;
	want = ctl_lease_take(c, shape->node, want < share ? want : share, sink);
	shape->slots = (uint16_t)want;
	return want > 0 ? NULL : ctl_why_slots;
}
