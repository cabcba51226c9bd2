/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's table of groups: the open ones, and each member in the latest plan. */

#include "ctl_grouping.h"
#include "ctl_row.h"

#include <math.h>
#include <stdio.h>

/* clang-format off */
#define GROUPS(F, row) \
	F(row, group, COUNT, "number of the group, from 1, in this epoch of the controller") \
	F(row, job, TEXT, "name of the job") \
	F##_OF(row, kind, "sum relay", "sum (of updates) or relay (of a model)") \
	F(row, aggregator, TEXT, "host of the aggregator; empty: lost") \
	F(row, state, TEXT, \
		"sum: collecting, queued, sending, held or ending; relay: copying or relaying; " \
		"ended: applied, relayed, or the reason why not") \
	F(row, size, COUNT, "members of the group") \
	F(row, open, COUNT, "members that have not ended") \
	F(row, bytes, COUNT, "size of each member, and of the sum, in bytes") \
	F(row, position, COUNT, "position of the first member; 0: a relay, or ended") \
	F(row, age_ms, REAL_OR_NULL, "milliseconds since its grant; null: ended") \
	F(row, collected_ms, REAL_OR_NULL, \
		"planned: milliseconds from the grant until the aggregator has all inputs") \
	F(row, limit_ms, REAL_OR_NULL, \
		"planned: milliseconds from the grant until the server's link is free, by when the " \
		"aggregator needs all inputs; null: a relay") \
	F(row, direct_ms, REAL_OR_NULL, \
		"planned: milliseconds from the grant to the commit of the last member if there were no group") \
	F(row, finish_ms, REAL_OR_NULL, \
		"planned: milliseconds from the grant until the last member is committed, or has the model") \
	F(row, took_ms, REAL_OR_NULL, \
		"measured: milliseconds from the grant until the group ended; compare it with " \
		"finish_ms; null: in progress") \
	F(row, members, TEXT, "members that have not ended, as wRANK/ROUND, as many as fit")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_groups_row_shape,
	groups_row,
	GROUPS,
	"groups",
	"groups over an aggregator at present, then the last 32 that ended, newest first"
);

static const char *group_state(const struct hd_controller *c, const struct ctl_group *group) {
	const bool push = group->direction == HD_PUSH;
	uint32_t held = 0;

	for (uint32_t m = 0; m < group->count; m++)
		held += group->members[m] && group->members[m]->state == CTL_HELD;
	if (!push)
		return group->sum ? "copying" : "relaying";
	if (!group->sum)
		return "ending";
	if (group->sum->state == CTL_HELD)
		return "held";
	if (held < group->alive)
		return "collecting";
	return group->sum->reserved_count && group->sum->reserved[0].start > c->now ? "queued" :
										      "sending";
}

/* "w3/7 w5/6 ...", of the members that have not ended; cut where it does not fit. */
static void name_members(const struct ctl_group *group, char *text, size_t bytes) {
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t m = 0; m < group->count && used + 24 < bytes; m++) {
		const struct ctl_transfer *t = group->members[m];

		if (t)
			used += (size_t)snprintf(
				text + used,
				bytes - used,
				"%sw%u/%u",
				used ? " " : "",
				t->worker,
				t->round
			);
	}
}

static void row_past(const struct ctl_group_past *past, struct hd_rows *rows) {
	const bool push = past->direction == HD_PUSH, fine = past->reason == HD_REASON_NONE;

	if (!hd_row_begin(rows))
		return;
	hd_row_put(
		rows,
		&ctl_groups_row_shape,
		&(struct groups_row){
			.group = past->number,
			.job = past->job,
			.kind = push ? "sum" : "relay",
			.aggregator = past->aggregator,
			.state = fine ? push ? "applied" : "relayed" : hd_reason_name(past->reason),
			.size = past->count,
			.open = 0,
			.bytes = past->bytes,
			.position = 0,
			.age_ms = NAN,
			.collected_ms = past->collected_s * 1e3,
			.limit_ms = push ? past->limit_s * 1e3 : NAN,
			.direct_ms = past->direct_s * 1e3,
			.finish_ms = past->finish_s * 1e3,
			.took_ms = ctl_ms_from(past->made, past->ended),
			.members = "",
		}
	);
	hd_row_end(rows);
}

/* The last groups that have ended, the newest first. */
static uint64_t rows_past(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_grouping *g = &c->grouping;
	const uint64_t kept = g->past_count < CTL_GROUPS_KEPT ? g->past_count : CTL_GROUPS_KEPT;

	for (uint64_t i = 1; i <= kept && !rows->full; i++)
		row_past(&g->past[(g->past_count - i) % CTL_GROUPS_KEPT], rows);
	return kept;
}

uint64_t ctl_rows_groups(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry) {
		char members[200];

		if (rows->full)
			break;
		if (!hd_row_begin(rows))
			continue;
		name_members(group, members, sizeof members);
		hd_row_put(
			rows,
			&ctl_groups_row_shape,
			&(struct groups_row){
				.group = group->number,
				.job = group->job->name,
				.kind = group->direction == HD_PUSH ? "sum" : "relay",
				.aggregator = group->aggregator ? group->aggregator->host : "",
				.state = group_state(c, group),
				.size = group->count,
				.open = group->alive,
				.bytes = group->bytes,
				.position = group->sum ? group->sum->position : 0,
				.age_ms = ctl_ms_from(group->made, c->now),
				/* As planned, from the time when the group was made. */
				.collected_ms = group->collected_s * 1e3,
				.limit_ms
				= group->direction == HD_PUSH ? group->limit_s * 1e3 : NAN,
				.direct_ms = group->direct_s * 1e3,
				.finish_ms = group->finish_s * 1e3,
				.took_ms = NAN,
				.members = members,
			}
		);
		hd_row_end(rows);
	}
	return c->group_count + rows_past(c, rows);
}

const char *ctl_group_why(
	const struct hd_controller *c,
	const struct hd_plan_group *group,
	char *text,
	size_t bytes
) {
	const char *host = c->grouping.aggregator_host[group->aggregator];

	if (group->direction == HD_PLAN_PUSH)
		(void)snprintf(
			text,
			bytes,
			"added to %u others at %s: all there after %.1f ms, the server's link is free "
			"after %.1f ms; the last of them direct: after %.1f ms, the sum after %.1f ms",
			group->count - 1,
			host,
			group->collected * 1e3,
			group->limit * 1e3,
			group->direct * 1e3,
			group->sum.commit * 1e3
		);
	else
		(void)snprintf(
			text,
			bytes,
			"relayed by %s to %u: it has the model after %.1f ms; the last of all direct: "
			"after %.1f ms",
			host,
			group->count,
			group->collected * 1e3,
			group->direct * 1e3
		);
	return text;
}
