/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of switches and of leases: one row for each job that makes all-reduces, with or without, and
 * one for each group of pushes that has slots. */
#include "ctl_row.h"
#include "ctl_slots.h"

#include <math.h>

static const char *dtype_name(uint8_t dtype) {
	return dtype == HD_DTYPE_FIXED32 ? "fixed32" : "fp32";
}

static uint32_t leases_of(const struct hd_controller *c, const struct ctl_node *node) {
	const struct ctl_slots_over *over;
	const struct ctl_group *group;
	const struct ctl_lease *lease;
	uint32_t count = 0;

	TAILQ_FOREACH (lease, &c->leases, entry)
		count += lease->node == node;
	TAILQ_FOREACH (group, &c->groups, entry)
		count += group->slots && group->slots->node == node;
	TAILQ_FOREACH (over, &c->slots_over, entry)
		count += over->node == node;
	return count;
}

static void
switch_row(const struct hd_controller *c, const struct ctl_node *node, struct hd_rows *rows) {
	const bool fixed = (node->slot_dtypes >> HD_DTYPE_FIXED32 & 1) != 0;
	const bool fp32 = (node->slot_dtypes >> HD_DTYPE_FP32 & 1) != 0;

	hd_row_text(rows, "name", hd_session_peer_name(node->session));
	hd_row_text(rows, "switch", node->host);
	ctl_row_addr(rows, "address", node->data);
	hd_row_text(
		rows,
		"state",
		node->draining                         ? "draining" :
			c->now < node->no_groups_until ? "resting" :
			c->switching                   ? "ready" :
							 "off"
	);
	hd_row_count(rows, "slots", node->slots);
	hd_row_count(rows, "leased", ctl_lease_slots(c, node));
	hd_row_count(rows, "leases", leases_of(c, node));
	hd_row_count(rows, "count_min", node->count_min);
	hd_row_count(rows, "count_max", node->count_max);
	hd_row_text(rows, "types", fixed && fp32 ? "fixed32 fp32" : fixed ? "fixed32" : "fp32");
	hd_row_real(rows, "up_s", ctl_ms_from(node->registered, c->now) / 1e3);
}

uint64_t ctl_rows_switches(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (rows->full)
			break;
		if (node->role != HD_ROLE_SWITCH || !hd_row_begin(rows))
			continue;
		switch_row(c, node, rows);
		hd_row_end(rows);
	}
	return c->switch_count;
}

/* Why its rounds do not go through a switch. */
static void none_row(struct hd_rows *rows, const char *why) {
	hd_row_text(rows, "switch", "");
	hd_row_text(rows, "state", "none");
	hd_row_text(rows, "why", why ? why : "");
	hd_row_text(rows, "type", "");
	hd_row_count(rows, "count", 0);
	hd_row_count(rows, "slots", 0);
	hd_row_count(rows, "wanted", 0);
	hd_row_count(rows, "members", 0);
	hd_row_count(rows, "waits", 0);
	hd_row_count(rows, "rounds", 0);
	hd_row_real(rows, "rate_mbps", NAN);
	hd_row_real(rows, "age_s", NAN);
	hd_row_real(rows, "idle_s", NAN);
	hd_row_count(rows, "group", 0);
	hd_row_real(rows, "until_s", NAN);
}

/* From now; a time that has passed is now. */
static double seconds_to(const struct hd_controller *c, hd_ns at) {
	return at > c->now ? ctl_ms_from(c->now, at) / 1e3 : 0;
}

static void lease_row(
	const struct hd_controller *c,
	const struct ctl_lease *lease,
	const char *why,
	struct hd_rows *rows
) {
	const bool busy = ctl_lease_is_busy(lease);

	hd_row_text(rows, "switch", lease->node->host);
	hd_row_text(rows, "state", !lease->held ? "asked" : busy ? "busy" : "idle");
	hd_row_text(rows, "why", why ? why : "");
	hd_row_text(rows, "type", dtype_name(lease->dtype));
	hd_row_count(rows, "count", lease->count);
	hd_row_count(rows, "slots", lease->slots);
	hd_row_count(rows, "wanted", lease->wanted);
	hd_row_count(rows, "members", lease->seat_count);
	hd_row_count(rows, "waits", (uint64_t)__builtin_popcountll(lease->waits));
	hd_row_count(rows, "rounds", lease->rounds);
	hd_row_real(rows, "rate_mbps", lease->rate * 8 / 1e6);
	hd_row_real(rows, "age_s", ctl_ms_from(lease->asked, c->now) / 1e3);
	hd_row_real(rows, "idle_s", busy ? 0 : ctl_ms_from(lease->used, c->now) / 1e3);
	hd_row_count(rows, "group", 0);
	hd_row_real(
		rows,
		"until_s",
		busy ? (double)NAN : seconds_to(c, hd_ns_add(lease->used, CTL_LEASE_IDLE_NS))
	);
}

static void
group_row(const struct hd_controller *c, const struct ctl_group *group, struct hd_rows *rows) {
	const struct ctl_group_slots *slots = group->slots;

	hd_row_text(rows, "tenant", group->job->tenant_name);
	hd_row_text(rows, "job", group->job->name);
	hd_row_text(rows, "switch", slots->node ? slots->node->host : "");
	hd_row_text(rows, "state", slots->held ? "busy" : "asked");
	hd_row_text(rows, "why", "");
	hd_row_text(rows, "type", dtype_name(group->dtype));
	hd_row_count(rows, "count", slots->count);
	hd_row_count(rows, "slots", slots->slots);
	hd_row_count(rows, "wanted", slots->wanted);
	hd_row_count(rows, "members", group->count);
	hd_row_count(rows, "waits", group->alive);
	hd_row_count(rows, "rounds", 1);
	hd_row_real(rows, "rate_mbps", slots->rate > 0 ? slots->rate * 8 / 1e6 : (double)NAN);
	hd_row_real(rows, "age_s", ctl_ms_from(slots->asked, c->now) / 1e3);
	hd_row_real(rows, "idle_s", 0);
	hd_row_count(rows, "group", group->number);
	hd_row_real(rows, "until_s", group->sum ? seconds_to(c, group->sum->finish) : 0);
}

static uint64_t group_leases(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_group *group;
	uint64_t count = 0;

	TAILQ_FOREACH (group, &c->groups, entry) {
		count += group->slots != NULL;
		if (!group->slots || rows->full || !hd_row_begin(rows))
			continue;
		group_row(c, group, rows);
		hd_row_end(rows);
	}
	return count;
}

uint64_t ctl_rows_leases(const struct hd_controller *c, struct hd_rows *rows) {
	uint64_t count = 0;

	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];

		if (!job->lease && !job->why)
			continue;
		count++;
		if (!hd_row_begin(rows))
			continue;
		hd_row_text(rows, "tenant", job->tenant_name);
		hd_row_text(rows, "job", job->name);
		if (job->lease)
			lease_row(c, job->lease, job->why, rows);
		else
			none_row(rows, job->why);
		hd_row_end(rows);
	}
	return count + group_leases(c, rows);
}
