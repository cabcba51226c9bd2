/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_upstream.h"

bool hd_upstream_is_due(const struct hd_upstream *upstream) {
	return !upstream->session && !upstream->refused && !upstream->closed
		&& !hd_addr_is_none(upstream->address);
}

bool hd_upstream_connect(struct hd_upstream *upstream, struct hd_endpoint *endpoint, hd_ns now) {
	return hd_upstream_is_due(upstream)
		&& hd_endpoint_connect(endpoint, upstream->address, now, &upstream->session) == 0;
}

void hd_upstream_send(
	const struct hd_upstream *upstream,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	if (upstream->session && hd_session_is_open(upstream->session))
		(void)hd_session_send(upstream->session, message, now, sink);
}

void hd_upstream_on_registered(struct hd_upstream *upstream) {
	upstream->registered = true;
}

static struct hd_event node_down(enum hd_reason reason) {
	return (struct hd_event
	){.kind = HD_EVENT_NODE_DOWN, .reason = reason, .aux = HD_ROLE_CONTROLLER};
}

struct hd_event
hd_upstream_on_refuse(struct hd_upstream *upstream, const struct hd_msg_refuse *refuse) {
	upstream->registered = false;
	return node_down(refuse->reason < HD_REASON_COUNT ? refuse->reason : HD_REASON_REFUSED);
}

uint8_t hd_upstream_role(const struct hd_upstream *upstream, const struct hd_session *session) {
	uint8_t role = hd_session_peer_role(session);

	if (session == upstream->session)
		return HD_ROLE_CONTROLLER;
	return role == HD_ROLE_CONTROLLER ? HD_ROLE_NONE : role;
}

void hd_upstream_on_opened(struct hd_upstream *upstream) {
	upstream->registered = false;
}

struct hd_event hd_upstream_on_closed(struct hd_upstream *upstream, enum hd_reason reason) {
	upstream->registered = false;
	if (reason == HD_REASON_REFUSED) {
		upstream->refused = true;
		upstream->session = NULL; /* freed after this call */
	}
	return node_down(reason);
}

void hd_upstream_leave(
	struct hd_upstream *upstream,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	if (!upstream->session)
		return;
	hd_session_close(upstream->session, HD_REASON_CLOSED, text, now, sink);
	upstream->session = NULL;
	upstream->registered = false;
}

void hd_upstream_close(
	struct hd_upstream *upstream,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	upstream->closed = true;
	hd_upstream_leave(upstream, text, now, sink);
}
