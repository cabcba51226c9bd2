/* SPDX-License-Identifier: BSD-3-Clause */
/* The times of pushes and pulls. */
#include "hd_assert.h"
#include "worker_ticket.h"

void worker_time_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	ticket->granted_at = ctx->now;
	if (!ticket->credited)
		hd_histogram_add(
			&worker->times[ticket->pub.direction].grant_wait,
			&hd_scale_time,
			ctx->now - ticket->requested_at
		);
}

void worker_time_first_chunk(
	struct hd_worker *worker,
	const struct worker_ticket *ticket,
	hd_ns at
) {
	hd_assert(at >= ticket->granted_at);
	if (!ticket->credited)
		hd_histogram_add(
			&worker->times[ticket->pub.direction].first_chunk,
			&hd_scale_time,
			at - ticket->granted_at
		);
}

void worker_time_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
) {
	hd_histogram_add(
		&worker->times[ticket->pub.direction].whole,
		&hd_scale_time,
		ctx->now - ticket->pub.asked
	);
}

const struct hd_worker_times *hd_worker_times(const struct hd_worker *worker, uint8_t direction) {
	hd_assert(direction <= HD_PULL);
	return &worker->times[direction];
}
