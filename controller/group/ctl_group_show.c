/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of groups: the open ones, and what the latest plan says of each member. */

#include "ctl_grouping.h"
#include "ctl_row.h"

#include <math.h>
#include <stdio.h>

/* clang-format off */
#define GROUPS(F, row) \
	F(row, group, COUNT, "its number, from 1, in this life of the controller") \
	F(row, job, TEXT, "its name") \
	F##_OF(row, kind, "sum relay", "sum (of updates) or relay (of a model)") \
	F(row, aggregator, TEXT, "its host; empty: lost") \
	F(row, state, TEXT, \
		"sum: collecting, queued, sending, held or ending; relay: copying or relaying; " \
		"ended: applied, relayed, or the reason why not") \
	F(row, size, COUNT, "members") \
	F(row, open, COUNT, "of these, not ended") \
	F(row, bytes, COUNT, "of each member, and of the sum") \
	F(row, position, COUNT, "of its first member; 0: a relay, or ended") \
	F(row, age_ms, REAL_OR_NULL, "since it was granted; null: ended") \
	F(row, collected_ms, REAL_OR_NULL, "planned, from then: when the aggregator has all of it") \
	F(row, limit_ms, REAL_OR_NULL, \
		"when the server's link comes free, by when it has to have it; null: a relay") \
	F(row, direct_ms, REAL_OR_NULL, "when the last member would have been committed without the group") \
	F(row, finish_ms, REAL_OR_NULL, \
		"planned, from then: when its last member is committed, or has the model") \
	F(row, took_ms, REAL_OR_NULL, \
		"from then until it had ended: to be compared with finish_ms; null: under way") \
	F(row, members, TEXT, "wRANK/ROUND of those that are open, as many as fit")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_groups_row_shape,
	groups_row,
	GROUPS,
	"groups",
	"what goes over an aggregator now, then the last 32 that have ended, newest first"
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
	return group->sum->book_count && group->sum->book[0].start > c->now ? "queued" : "sending";
}

/* "w3/7 w5/6 ...", of those that are not ended; cut where it does not fit. */
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

/* The last ones that have ended, the newest first. */
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
				/* As planned, from when it was made. */
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
