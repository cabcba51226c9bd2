/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's counters of packets, and the answer to the controller's POLL. */
#include "hd_poll.h"
#include "worker_session.h"

#define STAT(name, help)                                                                           \
	{                                                                                          \
#name, "packets", help, HD_STAT_COUNTER, HD_STAT_U64,                              \
			offsetof(struct hd_worker_stats, name)                                     \
	}

static const struct hd_stat stats_of[] = {
	STAT(drop_malformed, "dropped: cannot be decoded"),
	STAT(drop_type, "dropped: a packet type that workers do not accept"),
	STAT(drop_token, "dropped: no such transfer: the token is forged, or the chunk is late"),
	STAT(drop_source, "dropped: not from the address of its sender's session"),
	STAT(drop_mac, "dropped: forged or corrupted (wrong MAC), or no such key"),
	STAT(drop_mismatch, "dropped: header or size does not match the transfer"),
};

static const struct hd_stat_group worker_group = {
	.name = "worker",
	.help = "packets of a worker",
	.stats = stats_of,
	.count = sizeof stats_of / sizeof stats_of[0],
};

static void gather(const void *node, struct hd_stats *stats) {
	const struct hd_worker *worker = node;

	hd_stats_add(stats, &worker_group, NULL, &worker->stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(worker->endpoint));
	hd_stats_add(stats, &hd_transfer_group, NULL, &worker->transfers);
	if (worker->config.ops && worker->config.ops->gather)
		worker->config.ops->gather(worker->config.owner, stats);
}

void worker_on_poll(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_poll *poll
) {
	hd_poll_answer(session, poll, gather, worker, ctx->now, ctx->sink);
}
