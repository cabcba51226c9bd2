/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: pinned versions, and the pulls that send them. */
#ifndef SRV_PULL_H
#define SRV_PULL_H

#include "srv_internal.h"

/* --- srv_snapshot.c ------------------------------------------------------------------- */
/* The present version, shared with whoever pinned it; else, when no more can be held, the newest
 * pinned one if it is no older than what the worker has; with a buffer for the type in which it is
 * wanted. NULL: wait. */
struct srv_snapshot *
srv_snapshot_pin(struct hd_server *server, struct srv_job *job, const struct hd_msg_grant *grant);
void srv_snapshot_unpin(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_snapshot *snapshot
);
/* What is to be sent in this type; of 16 bits only as much is there as srv_snapshot_round() was told. */
const void *srv_snapshot_data(struct srv_snapshot *snapshot, uint8_t dtype);
/* Rounds up to so many bytes of the version in this type. */
void srv_snapshot_round(
	const struct srv_job *job,
	struct srv_snapshot *snapshot,
	uint8_t dtype,
	uint64_t bytes
);

/* --- srv_pull.c ----------------------------------------------------------------------- */
void srv_pull_grant(struct srv_turn *turn, const struct hd_msg_grant *grant);
void srv_pull_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
);
void srv_pull_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
);
void srv_pull_sack(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
);
void srv_pull_start(struct srv_turn *turn, struct srv_outgoing *out);
void srv_pull_feed(struct srv_turn *turn);
/* What was granted to this aggregator before its session was there. */
void srv_pull_relays(struct srv_turn *turn, const struct srv_peer *peer);
/* Sends what pacing and windows permit, in turns. The last thing of a call. */
void srv_pulls_poll(struct srv_turn *turn);
void srv_pull_end(struct srv_turn *turn, struct srv_outgoing *out, enum hd_reason reason);
void srv_outgoing_destroy(struct hd_server *server, struct srv_outgoing *out);

#endif
