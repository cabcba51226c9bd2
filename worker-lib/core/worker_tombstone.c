/* SPDX-License-Identifier: BSD-3-Clause */
/* Ended pulls and sums whose sender may not know that they have ended: it is told again. */
#include "worker_pull.h"

/* The last acknowledgement may be lost: then the sender repeats chunks of an ended pull. */
void worker_add_tombstone(
	struct hd_worker *worker,
	struct hd_addr from,
	uint64_t token,
	uint32_t held
) {
	worker->tombstones[worker->tombstone_next]
		= (struct worker_tombstone){.token = token, .from = from, .held = held};
	worker->tombstone_next = (worker->tombstone_next + 1) % WORKER_TOMBSTONES_MAX;
}

static struct worker_tombstone *find_tombstone(struct hd_worker *worker, uint64_t token) {
	for (uint32_t i = 0; i < WORKER_TOMBSTONES_MAX; i++)
		if (worker->tombstones[i].token == token && token != 0)
			return &worker->tombstones[i];
	return NULL;
}

void worker_after_end(
	struct hd_worker *worker,
	const struct hd_chunk_header *header,
	struct hd_addr from
) {
	struct worker_tombstone *tombstone = find_tombstone(worker, header->token);
	const struct worker_path *path = NULL;

	if (!tombstone) {
		worker->stats.drop_token++;
		return;
	}
	if (!hd_addr_is_none(tombstone->from))
		path = worker_path_at(worker, tombstone->from);
	if ((!path && !hd_addr_is_none(tombstone->from))
	    || !worker_path_is_at(worker, path, from)) {
		worker->stats.drop_source++;
		return;
	}
	tombstone->packet = header->packet;
	tombstone->due = true;
	worker->ends_due = true;
}

void worker_repeat_ends(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!worker->ends_due)
		return;
	worker->ends_due = false;
	for (uint32_t i = 0; i < WORKER_TOMBSTONES_MAX; i++) {
		struct worker_tombstone *tombstone = &worker->tombstones[i];
		const struct worker_path *path = NULL;

		if (!tombstone->due)
			continue;
		tombstone->due = false;
		if (!hd_addr_is_none(tombstone->from)) {
			path = worker_path_at(worker, tombstone->from);
			if (!path)
				continue;
		}
		message.sack.token = tombstone->token;
		message.sack.held = tombstone->held;
		message.sack.done = 1;
		message.sack.window_bytes = worker->config.receive_window_bytes;
		message.sack.packets.count = 1;
		message.sack.packets.item[0]
			= (struct hd_range){tombstone->packet, tombstone->packet};
		worker_path_send_once(worker, ctx, path, &message);
	}
}
