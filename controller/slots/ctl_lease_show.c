/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables of switches and of leases: one row for each job that makes all-reduces, with or without a lease,
 * and one for each group of pushes that has slots. */
#include "ctl_row.h"
#include "ctl_slots.h"

#include <math.h>

/* clang-format off */
#define SWITCHES(F, row) \
	F(row, name, TEXT, "name of the switch's agent") \
	F##_AS(row, at, "switch", TEXT, "name of the switch in the topology") \
	F(row, address, ADDRESS, "service address: the destination of chunks") \
	F(row, state, TEXT, "ready, resting (it refused a lease), draining, off (set switch off)") \
	F(row, slots, COUNT, "slots that this controller can lease") \
	F(row, leased, COUNT, "slots that are leased") \
	F(row, leases, COUNT, "leases that these slots belong to") \
	F(row, count_min, COUNT, "least number of values in a chunk") \
	F(row, count_max, COUNT, "greatest number of values in a chunk") \
	F(row, types, TEXT, "types of values: fixed32, fp32") \
	F(row, up_s, REAL, "seconds since it registered")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_switches_row_shape,
	switches_row,
	SWITCHES,
	"switches",
	"registered switches on the path"
);

/* clang-format off */
#define LEASES(F, row) \
	F(row, tenant, TEXT, "tenant of the job") \
	F(row, job, TEXT, "name of the job") \
	F##_AS(row, at, "switch", TEXT, "name of the switch in the topology; empty: no lease") \
	F(row, state, TEXT, "none, asked (the switch has not answered), busy (rounds in progress), idle") \
	F(row, why, TEXT, "why its newest round did not go through a switch; empty: it did") \
	F(row, type, TEXT, "type of the values: fp32 or fixed32") \
	F(row, count, COUNT, "values in a chunk") \
	F(row, slots, COUNT, "slots of the lease: the maximum of chunks in flight") \
	F(row, wanted, COUNT, "slots that rate and round-trip time require") \
	F(row, members, COUNT, "workers that the lease was made for") \
	F(row, waits, COUNT, "members that a sum still waits for") \
	F(row, rounds, COUNT, "rounds started through the lease") \
	F(row, rate_mbps, REAL_OR_NULL, "rate of values over the slowest link, in Mbit/s; null: no lease") \
	F(row, age_s, REAL_OR_NULL, "seconds since the lease was requested; null: no lease") \
	F(row, idle_s, REAL_OR_NULL, "seconds since the last use of the lease; null: no lease") \
	F(row, group, COUNT, \
		"number of the group of pushes that has the lease; 0: the job's all-reduces have it") \
	F(row, until_s, REAL_OR_NULL, \
		"seconds until the planned end of a group's sum, or until an idle lease is " \
		"released; null: no lease, or rounds in progress")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_leases_row_shape,
	leases_row,
	LEASES,
	"leases",
	"leases of switch slots by all-reduces (or the reason why there is none) and by groups of pushes"
);

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

	hd_row_put(
		rows,
		&ctl_switches_row_shape,
		&(struct switches_row){
			.name = hd_session_peer_name(node->session),
			.at = node->host,
			.address = node->data,
			.state = node->draining                ? "draining" :
				c->now < node->no_groups_until ? "resting" :
				c->switching                   ? "ready" :
								 "off",
			.slots = node->slots,
			.leased = ctl_lease_slots(c, node),
			.leases = leases_of(c, node),
			.count_min = node->count_min,
			.count_max = node->count_max,
			.types = fixed && fp32 ? "fixed32 fp32" :
				fixed          ? "fixed32" :
						 "fp32",
			.up_s = ctl_ms_from(node->registered, c->now) / 1e3,
		}
	);
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
static struct leases_row none_row(const char *why) {
	return (struct leases_row){
		.at = "",
		.state = "none",
		.why = why ? why : "",
		.type = "",
		.count = 0,
		.slots = 0,
		.wanted = 0,
		.members = 0,
		.waits = 0,
		.rounds = 0,
		.rate_mbps = NAN,
		.age_s = NAN,
		.idle_s = NAN,
		.group = 0,
		.until_s = NAN,
	};
}

/* From now; a time in the past counts as now. */
static double seconds_to(const struct hd_controller *c, hd_ns at) {
	return at > c->now ? ctl_ms_from(c->now, at) / 1e3 : 0;
}

static struct leases_row
lease_row(const struct hd_controller *c, const struct ctl_lease *lease, const char *why) {
	const bool busy = ctl_lease_is_busy(lease);

	return (struct leases_row){
		.at = lease->node->host,
		.state = !lease->held ? "asked" :
			busy          ? "busy" :
					"idle",
		.why = why ? why : "",
		.type = dtype_name(lease->dtype),
		.count = lease->count,
		.slots = lease->slots,
		.wanted = lease->wanted,
		.members = lease->seat_count,
		.waits = (uint64_t)__builtin_popcountll(lease->waits),
		.rounds = lease->rounds,
		.rate_mbps = lease->rate * 8 / 1e6,
		.age_s = ctl_ms_from(lease->asked, c->now) / 1e3,
		.idle_s = busy ? 0 : ctl_ms_from(lease->used, c->now) / 1e3,
		.group = 0,
		.until_s
		= busy ? (double)NAN : seconds_to(c, hd_ns_add(lease->used, CTL_LEASE_IDLE_NS)),
	};
}

static struct leases_row group_row(const struct hd_controller *c, const struct ctl_group *group) {
	const struct ctl_group_slots *slots = group->slots;

	return (struct leases_row){
		.tenant = group->job->tenant_name,
		.job = group->job->name,
		.at = slots->node ? slots->node->host : "",
		.state = slots->held ? "busy" : "asked",
		.why = "",
		.type = dtype_name(group->dtype),
		.count = slots->count,
		.slots = slots->slots,
		.wanted = slots->wanted,
		.members = group->count,
		.waits = group->alive,
		.rounds = 1,
		.rate_mbps = slots->rate > 0 ? slots->rate * 8 / 1e6 : (double)NAN,
		.age_s = ctl_ms_from(slots->asked, c->now) / 1e3,
		.idle_s = 0,
		.group = group->number,
		.until_s = group->sum ? seconds_to(c, group->sum->finish) : 0,
	};
}

static uint64_t group_leases(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_group *group;
	uint64_t count = 0;

	TAILQ_FOREACH (group, &c->groups, entry) {
		struct leases_row row;

		count += group->slots != NULL;
		if (!group->slots || rows->full || !hd_row_begin(rows))
			continue;
		row = group_row(c, group);
		hd_row_put(rows, &ctl_leases_row_shape, &row);
		hd_row_end(rows);
	}
	return count;
}

uint64_t ctl_rows_leases(const struct hd_controller *c, struct hd_rows *rows) {
	uint64_t count = 0;

	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];
		struct leases_row row;

		if (!job->lease && !job->why)
			continue;
		count++;
		if (!hd_row_begin(rows))
			continue;
		row = job->lease ? lease_row(c, job->lease, job->why) : none_row(job->why);
		row.tenant = job->tenant_name;
		row.job = job->name;
		hd_row_put(rows, &ctl_leases_row_shape, &row);
		hd_row_end(rows);
	}
	return count + group_leases(c, rows);
}
