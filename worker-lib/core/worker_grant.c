/* SPDX-License-Identifier: BSD-3-Clause */
/* A grant's times on our clock; messages about a token that arrive before its grant. */
#include "worker_push.h"

#define GO_SLACK_MIN_MS 5
#define GO_SLACK_MAX_MS 200

/* Segments on our clock. Without a clock for the controller the grant counts from its arrival. */
struct hd_segs worker_segments(
	const struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
) {
	struct hd_segs segments = grant->segments;
	hd_ns origin = hd_session_from_peer_time(session, grant->origin_ns, ctx->now);

	for (uint32_t i = 0; i < segments.count; i++)
		segments.item[i].start_ns = hd_ns_add(origin, segments.item[i].start_ns);
	return segments;
}

/*
 * How long to wait for GO beyond the start time. GO cannot be lost, only late, when the predecessor is slower than
 * planned; starting beside it would slow down both. Half of our own length limits the cost of the wait when the server
 * does not know the predecessor at all.
 */
hd_ns worker_go_slack(const struct hd_session *session, const struct hd_segs *segments) {
	struct hd_clock clock = hd_session_clock(session);
	double seconds = 0.0;
	hd_ns slack;

	for (uint32_t i = 0; i < segments->count; i++) {
		if (segments->item[i].rate_bps > 0)
			seconds += (double)segments->item[i].bytes * 8.0
				/ (double)segments->item[i].rate_bps;
	}
	slack = seconds < 1.0 ? (hd_ns)(seconds * 0.5e9) : GO_SLACK_MAX_MS * HD_MS;
	slack = hd_ns_min(hd_ns_max(slack, GO_SLACK_MIN_MS * HD_MS), GO_SLACK_MAX_MS * HD_MS);
	return clock.valid ? slack + hd_ns_min(clock.error_ns, GO_SLACK_MAX_MS * HD_MS) : slack;
}

void worker_remember_early(struct hd_worker *worker, uint64_t token, bool ended) {
	if (token == 0)
		return;
	worker->early[worker->early_next] = (struct worker_early){token, ended};
	worker->early_next = (worker->early_next + 1) % WORKER_EARLY_MAX;
}

bool worker_take_early(struct hd_worker *worker, uint64_t token, bool ended) {
	for (uint32_t i = 0; i < WORKER_EARLY_MAX; i++) {
		if (worker->early[i].token != token || worker->early[i].ended != ended)
			continue;
		worker->early[i].token = 0;
		return true;
	}
	return false;
}
