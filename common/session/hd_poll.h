/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's answer to POLL: what it has counted, in one packet, unnumbered. It keeps nothing: who misses an answer asks
 * again. */
#ifndef HD_POLL_H
#define HD_POLL_H

#include "hd_endpoint.h"

#define HD_POLL_ANSWER_BYTES_MAX 450 /* of the datagram */

/* gather adds the node's counters, and what its program knows of ports, queues and cores. Costs as much as a `show
 * counters`. When something was left out nothing is answered: counters that are less than before would look like those
 * of a node that began anew. */
void hd_poll_answer(
	struct hd_session *session,
	const struct hd_msg_poll *poll,
	void (*gather)(const void *node, struct hd_stats *stats),
	const void *node,
	hd_ns now,
	struct hd_sink *sink
);

#endif
