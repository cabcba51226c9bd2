/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic of a session, fragments and liveness: private to the endpoint. */
#ifndef HD_STREAM_H
#define HD_STREAM_H

#include "hd_session.h"

/* --- hd_stream.c ----------------------------------------------------------------------------- */
void stream_init(struct hd_session *s);
void stream_fini(struct hd_session *s);
void stream_acknowledged(
	struct hd_session *s,
	uint32_t ack,
	uint32_t mask,
	hd_ns now,
	struct hd_sink *sink
);
void stream_receive(
	struct hd_session *s,
	const struct hd_control_header *header,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
);
/* The peer is heard again after a silence: fragments that timed out need not wait for their backoff. */
void stream_revive(struct hd_session *s, hd_ns now, struct hd_sink *sink);
void stream_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink);
hd_ns stream_deadline(const struct hd_session *s);
/* Some packet has just carried an acknowledgement. */
void stream_ack_sent(struct hd_session *s);
void stream_rtt_sample(struct hd_session *s, hd_ns rtt);
void pool_fini(struct fragment_pool *pool);

/* --- hd_liveness.c --------------------------------------------------------------------------- */
void liveness_start(struct hd_session *s, hd_ns now);
void liveness_heard(struct hd_session *s, hd_ns now);
/* Measures our own lateness before timers are handled. */
void liveness_late(struct hd_endpoint *e, hd_ns now);
/* Returns false if the session has been silent for too long. */
bool liveness_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink);
hd_ns liveness_deadline(const struct hd_session *s);
void liveness_ping(
	struct hd_session *s,
	const struct hd_msg_ping *ping,
	hd_ns now,
	struct hd_sink *sink
);
void liveness_pong(struct hd_session *s, const struct hd_msg_pong *pong, hd_ns now);

#endif
