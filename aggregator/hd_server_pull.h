/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: pinned versions, and the pulls that send them. */
#ifndef HD_SERVER_PULL_H
#define HD_SERVER_PULL_H

#include "hd_server_internal.h"

/* --- hd_server_snapshot.c ------------------------------------------------------------------- */
/* The present version, shared with whoever pinned it; else, when no more can be held, the newest
 * pinned one if it is no older than what the worker has; with a buffer for the type in which it is
 * wanted. NULL: wait. */
struct hd_snapshot *
hd_snapshot_pin(struct hd_server *server, struct hd_job *job, const struct hd_msg_grant *grant);
void hd_snapshot_unpin(struct hd_server *server, struct hd_job *job, struct hd_snapshot *snapshot);
/* What is to be sent in this type; of 16 bits only as much is there as hd_snapshot_round() was told. */
const void *hd_snapshot_data(struct hd_snapshot *snapshot, uint8_t dtype);
/* Rounds up to so many bytes of the version in this type. */
void hd_snapshot_round(
	const struct hd_job *job,
	struct hd_snapshot *snapshot,
	uint8_t dtype,
	uint64_t bytes
);

/* --- hd_server_pull.c ----------------------------------------------------------------------- */
void hd_pull_grant(struct hd_turn *turn, const struct hd_msg_grant *grant);
void hd_pull_request(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
);
void hd_pull_cancel(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_cancel *cancel
);
void hd_pull_sack(struct hd_turn *turn, const struct hd_peer *peer, const struct hd_msg_sack *sack);
void hd_pull_start(struct hd_turn *turn, struct hd_outgoing *out);
void hd_pull_feed(struct hd_turn *turn);
/* What was granted to this aggregator before its session was there. */
void hd_pull_relays(struct hd_turn *turn, const struct hd_peer *peer);
/* Sends what pacing and windows permit, in turns. The last thing of a call. */
void hd_pulls_poll(struct hd_turn *turn);
void hd_pull_end(struct hd_turn *turn, struct hd_outgoing *out, enum hd_reason reason);
void hd_outgoing_destroy(struct hd_server *server, struct hd_outgoing *out);

#endif
