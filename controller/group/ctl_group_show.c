/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of groups: the open ones, and what the latest plan says of each member. */

#include "ctl_grouping.h"
#include "ctl_row.h"

#include <math.h>
#include <stdio.h>

static const char *group_state(const struct hd_controller *c, const struct ctl_group *group) {
	const bool push = group->direction == HD_PUSH;
	uint32_t held = 0;

	for (uint32_t m = 0; m < group->count; m++)
		held += group->members[m] && group->members[m]->held;
	if (!push)
		return group->sum ? "copying" : "relaying";
	if (!group->sum)
		return "ending";
	if (group->sum->held)
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
	hd_row_count(rows, "group", past->number);
	hd_row_text(rows, "job", past->job);
	hd_row_text(rows, "kind", push ? "sum" : "relay");
	hd_row_text(rows, "aggregator", past->aggregator);
	hd_row_text(
		rows, "state", fine ? push ? "applied" : "relayed" : hd_reason_name(past->reason)
	);
	hd_row_count(rows, "size", past->count);
	hd_row_count(rows, "open", 0);
	hd_row_count(rows, "bytes", past->bytes);
	hd_row_count(rows, "position", 0);
	hd_row_real(rows, "age_ms", NAN);
	hd_row_real(rows, "collected_ms", past->collected_s * 1e3);
	hd_row_real(rows, "limit_ms", push ? past->limit_s * 1e3 : NAN);
	hd_row_real(rows, "direct_ms", past->direct_s * 1e3);
	hd_row_real(rows, "finish_ms", past->finish_s * 1e3);
	hd_row_real(rows, "took_ms", ctl_ms_from(past->made, past->ended));
	hd_row_text(rows, "members", "");
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
		hd_row_count(rows, "group", group->number);
		hd_row_text(rows, "job", group->job->name);
		hd_row_text(rows, "kind", group->direction == HD_PUSH ? "sum" : "relay");
		hd_row_text(rows, "aggregator", group->aggregator ? group->aggregator->host : "");
		hd_row_text(rows, "state", group_state(c, group));
		hd_row_count(rows, "size", group->count);
		hd_row_count(rows, "open", group->alive);
		hd_row_count(rows, "bytes", group->bytes);
		hd_row_count(rows, "position", group->sum ? group->sum->position : 0);
		hd_row_real(rows, "age_ms", ctl_ms_from(group->made, c->now));
		/* As planned, from when it was made. */
		hd_row_real(rows, "collected_ms", group->collected_s * 1e3);
		hd_row_real(
			rows, "limit_ms", group->direction == HD_PUSH ? group->limit_s * 1e3 : NAN
		);
		hd_row_real(rows, "direct_ms", group->direct_s * 1e3);
		hd_row_real(rows, "finish_ms", group->finish_s * 1e3);
		hd_row_real(rows, "took_ms", NAN);
		hd_row_text(rows, "members", members);
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
