/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables of transfers and drops. Times are relative to the moment of the answer; tokens are secrets and
 * never shown. */
#include "ctl_base.h"
#include "ctl_registry.h"
#include "ctl_row.h"
#include "ctl_table.h"
#include "ctl_transfers.h"

#include <math.h>

/* clang-format off */
#define TRANSFERS(F, row) \
	F(row, id, COUNT, "number of the transfer, in order of arrival") \
	F(row, job, TEXT, "name of the job") \
	F(row, worker, COUNT, "rank of the worker") \
	F(row, direction, TEXT, \
		"push, pull, replicate (a copy of an update, to the replica), sum (of a group of " \
		"pushes, from its aggregator) or copy (of a model, to an aggregator); the worker " \
		"of sum and copy is 65535") \
	F(row, round, COUNT, "round of this worker in this direction, from 1") \
	F(row, attempt, COUNT, "attempt of this round") \
	F(row, state, TEXT, "pending, credit (granted in advance, not used yet), queued, running, late or held") \
	F(row, waits_for, TEXT, "what it waits for: paused, draining, no-server or settling; empty: the plan") \
	F(row, bytes, COUNT, "payload in bytes") \
	F(row, base, VERSION, "push: base version of the update; pull: version that the worker has") \
	F(row, position, COUNT, "proposed position in the commit order; 0: none") \
	F(row, waited_ms, REAL, "milliseconds from the request to the grant, or until now") \
	F(row, start_ms, REAL_OR_NULL, "granted start, in milliseconds from now") \
	F(row, finish_ms, REAL_OR_NULL, "granted end, in milliseconds from now") \
	F(row, rate_mbps, REAL_OR_NULL, "granted rate, in Mbit/s") \
	F(row, weight, REAL, "staleness weight of the update") \
	F(row, cc_weight, REAL, "number of TCP flows whose share its congestion control takes") \
	CTL_WHY_FIELDS(F, row) \
	F(row, group, COUNT, "number of its group (show groups); 0: without a group") \
	F(row, aggregator, TEXT, "host of the group's aggregator; empty: without a group")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_transfers_row_shape,
	transfers_row,
	TRANSFERS,
	"transfers",
	"transfers that run or wait"
);

/* clang-format off */
#define DROPS(F, row) \
	F(row, ago_s, REAL, "seconds since the drop") \
	F(row, job, TEXT, "name of the job") \
	F(row, worker, COUNT, "rank of the worker") \
	F(row, direction, TEXT, "push, pull or replicate (a copy of an update, to the replica)") \
	F(row, round, COUNT, "round of this worker in this direction, from 1") \
	F(row, attempt, COUNT, "attempt of this round") \
	F(row, reason, TEXT, "reason of the drop: bound, idles, late, ... (docs/wire.md)") \
	F(row, bytes, COUNT, "payload in bytes") \
	F(row, base, VERSION, "base version of the update") \
	CTL_WHY_FIELDS(F, row)
/* clang-format on */

HD_ROW_SHAPE(
	ctl_drops_row_shape,
	drops_row,
	DROPS,
	"drops",
	"the last 256 updates that were not applied, newest first"
);

static const char *job_name(const struct hd_controller *c, uint32_t id) {
	const struct ctl_job *job = ctl_job_find(c, id);

	return job ? job->name : "";
}

static const char *transfer_state(const struct ctl_transfer *t, hd_ns now) {
	if (t->state == CTL_PENDING)
		return "pending";
	if (t->state == CTL_CREDITED)
		return "credit";
	if (t->state == CTL_HELD)
		return "held";
	if (t->reserved_count && t->reserved[0].start > now)
		return "queued";
	return t->overrun_since ? "late" : "running";
}

static const char *transfer_kind(const struct ctl_transfer *t) {
	if (t->is_sum && t->direction != HD_COPY)
		return t->direction == HD_PUSH ? "sum" : "copy";
	return ctl_direction_name(t->direction);
}

static void
transfer_row(const struct hd_controller *c, const struct ctl_transfer *t, struct hd_rows *rows) {
	bool open = ctl_transfer_is_open(t);
	struct ctl_why_row why;

	ctl_why_row(&t->why, c->now, &why);
	hd_row_put(
		rows,
		&ctl_transfers_row_shape,
		&(struct transfers_row){
			.id = t->id,
			.job = t->job->name,
			.worker = t->worker,
			.direction = transfer_kind(t),
			.round = t->round,
			.attempt = t->attempt,
			.state = transfer_state(t, c->now),
			.waits_for = open ? "" : ctl_waits_for(c, t),
			.bytes = t->bytes,
			.base = t->direction == HD_PUSH ? t->base : t->have,
			.position = t->position,
			.waited_ms = ctl_ms_from(t->asked, open ? t->granted : c->now),
			.start_ms
			= open && t->start < HD_NEVER ? ctl_ms_from(c->now, t->start) : NAN,
			.finish_ms = open ? ctl_ms_from(c->now, t->finish) : NAN,
			.rate_mbps = open && t->segments.count ?
				(double)t->segments.item[0].rate_bps / 1e6 :
				NAN,
			.weight = (double)t->weight,
			.cc_weight = (double)t->cc_weight,
			CTL_WHY_OF(why),
			.group = t->group ? t->group->number : 0,
			.aggregator
			= t->group && t->group->aggregator ? t->group->aggregator->host : "",
		}
	);
}

static void
list_rows(const struct hd_controller *c, const struct ctl_transfers *list, struct hd_rows *rows) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, list, entry) {
		if (rows->full)
			break;
		if (!hd_row_begin(rows))
			continue;
		transfer_row(c, t, rows);
		hd_row_end(rows);
	}
}

uint64_t ctl_rows_transfers(const struct hd_controller *c, struct hd_rows *rows) {
	list_rows(c, &c->open, rows);
	list_rows(c, &c->pending, rows);
	return (uint64_t)c->open_count + c->pending_count;
}

uint64_t ctl_rows_drops(const struct hd_controller *c, struct hd_rows *rows) {
	uint64_t kept = c->drop_count < CTL_DROPS_KEPT ? c->drop_count : CTL_DROPS_KEPT;

	for (uint64_t i = 1; i <= kept && !rows->full; i++) {
		const struct ctl_drop *drop = &c->drops[(c->drop_count - i) % CTL_DROPS_KEPT];
		struct ctl_why_row why;

		if (!hd_row_begin(rows))
			continue;
		ctl_why_row(&drop->why, c->now, &why);
		hd_row_put(
			rows,
			&ctl_drops_row_shape,
			&(struct drops_row){
				.ago_s = ctl_ms_from(drop->at, c->now) / 1e3,
				.job = job_name(c, drop->job),
				.worker = drop->worker,
				.direction = ctl_direction_name(drop->direction),
				.round = drop->round,
				.attempt = drop->attempt,
				.reason = hd_reason_name(drop->reason),
				.bytes = drop->bytes,
				.base = drop->base,
				CTL_WHY_OF(why),
			}
		);
		hd_row_end(rows);
	}
	return kept;
}
