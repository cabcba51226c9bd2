/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_dataplane.h"
#include "hd_poll.h"
#include "hd_wire.h"

#include <assert.h>

/* STATS: mark, at_ns, the blob's length. */
#define FIXED_BYTES (4 + 8 + 4)

static_assert(
	HD_CONTROL_HEADER_BYTES + FIXED_BYTES + HD_DATAPLANE_BYTES_MAX + HD_TAG_BYTES
		<= HD_POLL_ANSWER_BYTES_MAX,
	"docs/operations.md says how long an answer may be"
);

void hd_poll_answer(
	struct hd_session *session,
	const struct hd_msg_poll *poll,
	void (*gather)(const void *node, struct hd_stats *stats),
	const void *node,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_STATS};
	uint8_t values[HD_DATAPLANE_BYTES_MAX];
	struct hd_dataplane dataplane = {0};
	struct hd_stats *stats = hd_stats_create();
	bool whole;

	if (!stats)
		return;
	gather(node, stats);
	whole = hd_stats_left_out(stats) == 0;
	hd_dataplane_sum(&dataplane, stats);
	hd_stats_destroy(stats);
	if (!whole)
		return;
	message.stats.mark = poll->mark;
	message.stats.at_ns = now;
	message.stats.values.data = values;
	message.stats.values.bytes = (uint32_t)hd_dataplane_encode(&dataplane, values);
	(void)hd_session_send_once(session, &message, now, sink);
}
