/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's session with its controller: opened by the first tick, reopened by itself when it ends, with REGISTER each
 * time. Server, aggregator and switch agent have one.
 *
 *   (no session) --tick--> connecting --opened--> open --REGISTERED--> registered
 *        ^                     ^                    |  <---REFUSE-------  |
 *        |                     +------ closed ------+---------------------+
 *        +-- hd_upstream_leave(); for good: refused (by the endpoint), or hd_upstream_close()
 */
#ifndef HD_UPSTREAM_H
#define HD_UPSTREAM_H

#include "hd_endpoint.h"
#include "hd_event.h"

struct hd_upstream {
	struct hd_addr address; /* none: this node has no controller */
	struct hd_session *session; /* NULL: not connected yet, or closed for good */
	bool registered; /* in this session */
	bool refused; /* for good */
	bool closed; /* by us */
};

/* True when the next tick opens a session. */
bool hd_upstream_is_due(const struct hd_upstream *upstream);
/* Opens a session when one is due. Returns whether it did. */
bool hd_upstream_connect(struct hd_upstream *upstream, struct hd_endpoint *endpoint, hd_ns now);
/* Queues a reliable message while the session is open; else drops it: the controller notices by its own timeouts, or
 * asks in its next session. */
void hd_upstream_send(
	const struct hd_upstream *upstream,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
);
/* The answers to REGISTER: REGISTERED, or REFUSE, which the node reports by the event. The session stays open, as the
 * controller may accept later. */
void hd_upstream_on_registered(struct hd_upstream *upstream);
struct hd_event
hd_upstream_on_refuse(struct hd_upstream *upstream, const struct hd_msg_refuse *refuse);
/* The role under which a session's messages are taken: a controller's only from the session that we opened. */
uint8_t hd_upstream_role(const struct hd_upstream *upstream, const struct hd_session *session);
/* The session is open (again): REGISTER is due. */
void hd_upstream_on_opened(struct hd_upstream *upstream);
/* The session has ended; with HD_REASON_REFUSED for good. Returns the event that reports it. */
struct hd_event hd_upstream_on_closed(struct hd_upstream *upstream, enum hd_reason reason);
/* Sends CLOSE; the next hd_upstream_connect() opens another session. */
void hd_upstream_leave(
	struct hd_upstream *upstream,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
);
/* Sends CLOSE and opens no further session. */
void hd_upstream_close(
	struct hd_upstream *upstream,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
);

#endif
