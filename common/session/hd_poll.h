/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's answer to POLL: its counters, in one packet, unnumbered. No state is kept: a controller that misses an
 * answer polls again. */
#ifndef HD_POLL_H
#define HD_POLL_H

#include "hd_endpoint.h"

#define HD_POLL_ANSWER_BYTES_MAX 450 /* of the datagram */

/* gather adds the node's counters, and the program's of ports, queues and cores. Costs as much as a `show counters`. If
 * something was left out there is no answer: counters that decrease would look like those of a restarted node. */
void hd_poll_answer(
	struct hd_session *session,
	const struct hd_msg_poll *poll,
	void (*gather)(const void *node, struct hd_stats *stats),
	const void *node,
	hd_ns now,
	struct hd_sink *sink
);

#endif
