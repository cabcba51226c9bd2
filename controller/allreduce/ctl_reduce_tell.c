/* SPDX-License-Identifier: BSD-3-Clause */
/* What the members of a round are told besides its beginning: that it is void, refused, or lost to them. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_reduces.h"
#include "ctl_transfers.h"

void ctl_reduce_event(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	const struct hd_event *event,
	struct hd_sink *sink
) {
	struct hd_event whole = *event;

	whole.at = c->now;
	whole.job = job->id;
	whole.direction = HD_REDUCE;
	whole.round = r->round;
	whole.bytes = r->bytes;
	whole.aux = r->shard_count;
	ctl_event(sink, whole);
}

void ctl_reduce_send_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	const struct hd_msg_request request = {
		.job = job->id,
		.worker = worker,
		.round = r->round,
		.direction = HD_REDUCE,
		.attempt = r->attempt[worker],
		.bytes = r->bytes,
	};
	const struct ctl_denial denial = {
		.reason = reason,
		.sum_id = reason == HD_REASON_LATE ? ctl_reduce_sum_id(job, r->round) : 0,
		.words = r->wrong ? r->words : NULL,
	};

	if (job->workers[worker])
		ctl_refuse_request(c, job->workers[worker], &request, &denial, sink);
}

void ctl_reduce_drop_all(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED || r->part[i] == CTL_PART_STARTED
		    || r->part[i] == CTL_PART_GIVEN)
			ctl_reduce_send_drop(c, job, r, i, reason, sink);
	ctl_reduce_forget(c, job, r);
}

void ctl_reduce_tell_wrong(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	ctl_reduce_seen(job, r->round);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		c->counters.requests_refused++;
		ctl_reduce_send_drop(c, job, r, i, r->wrong, sink);
		ctl_reduce_part(r, i, CTL_PART_OUT);
	}
}

void ctl_reduce_send_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	const struct hd_msg_void_ *void_,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID, .void_ = *void_};

	message.void_.job = job->id;
	(void)ctl_send(c, node, &message, sink);
}

void ctl_reduce_send_reduced(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced = (struct hd_msg_reduced){job->id, worker, r->round, r->sum_id, 0};
	if (job->workers[worker])
		(void)ctl_send(c, job->workers[worker], &message, sink);
}
